//! Commands as a user types them: exit codes, reports, search.

use std::time::Duration;

use serde_json::{Value, json};

use crate::lake::{ITEMS, Lake, Running, eventually, rows, text};

const NOW: &str = "2024-05-01T10:03:00Z";

fn filled() -> Lake {
    let toml =
        ITEMS.replace("columns = { id = \"string\", v = \"string\" }", "") + "\n[document.fields]\nv = \"text\"\n";
    let lake = Lake::new(&toml, "SELECT id, v, n FROM items");
    lake.land(
        "dt=2024-05-01/hr=10/min=02/a.ndjson",
        "{\"id\":\"ad-1\",\"v\":\"noble oasis\",\"n\":10}\n{\"id\":\"a b/c\",\"v\":\"noble river\",\"n\":200}\n",
    );
    lake.once(NOW);
    lake
}

#[test]
fn search_and_get_say_as_of() {
    let lake = filled();
    let found = lake.json(&["search", "noble", "--json"]);
    assert_eq!(found["total"], 2);
    assert_eq!(found["as_of"]["watermark"], "2024-05-01T10:02:00Z");
    assert_eq!(lake.json(&["search", "v:oasis AND n:[0 TO 99]", "--json"])["hits"][0]["id"], "ad-1");
    assert_eq!(lake.json(&["get", "a b/c", "--json"])["document"]["n"], 200);
    assert_eq!(lake.run(&["get", "nobody"]).status.code(), Some(1));
    let wrong = lake.run(&["search", "nofield:x"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert!(text(&wrong).contains("nofield"), "{}", text(&wrong));
}

#[test]
fn plan_shows_the_bound_for_late_files_and_writes_nothing() {
    let lake = filled();
    let before = std::fs::read_dir(lake.path("state/items/log")).unwrap().count();
    let output = lake.run(&["plan", "--now", "2024-05-01T10:05:00Z"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("late file"), "{}", text(&output));
    assert_eq!(std::fs::read_dir(lake.path("state/items/log")).unwrap().count(), before);
}

#[test]
fn every_mistake_is_told_at_once() {
    let toml = "[pipeline]\nname = \"x\"\nstate = \"./state\"\nstep = \"7 parsecs\"\nwindow = \"1h\"\nwindwo = 1\n\
                [source.a]\nlocation = \"./lake\"\nlayout = \"daily\"\nformat = \"parquet\"\nkind = \"upsert\"\nkey = \"id\"\n\
                [document]\nsql = \"document.sql\"\nid = \"id\"\n[index]\nkind = \"tantivy\"\npath = \"./index\"\n";
    let lake = Lake::new(toml, "SELECT id FROM a");
    let output = lake.run(&["check"]);
    assert_eq!(output.status.code(), Some(2));
    let report = text(&output);
    for word in ["parsecs", "windwo", "daily", "retain"] {
        assert!(report.contains(word), "{word} is missing in:\n{report}");
    }
    assert!(!lake.path("state").exists() && !lake.path("index").exists(), "nothing may be touched");
}

#[test]
fn sql_mistakes_are_configuration_mistakes() {
    for (sql, word) in [
        ("SELEC id FROM items", "SELEC"),
        ("SELECT id, v FROM itmes", "itmes"),
        ("SELECT v FROM items", "id"),
        ("SELECT id, nothing FROM items", "nothing"),
        ("SELECT id, random() AS r FROM items", "random"),
        ("SELECT id FROM items LIMIT 3", "LIMIT"),
    ] {
        let lake = Lake::new(ITEMS, sql);
        let output = lake.run(&["check"]);
        assert_eq!(output.status.code(), Some(2), "{sql}: {}", text(&output));
        assert!(text(&output).contains(word), "{sql}: {}", text(&output));
    }
}

#[test]
fn missing_columns_and_files_are_told() {
    let toml = ITEMS.replace("columns = { id = \"string\", v = \"string\" }", "");
    let lake = Lake::new(&toml, "SELECT id, v FROM items");
    let output = lake.run(&["check"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("columns"), "{}", text(&output));
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    let gone = Lake::new(&ITEMS.replace("./lake", "./nowhere"), "SELECT id, v FROM items");
    let output = gone.run(&["once", "--now", NOW]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    assert!(text(&output).contains("nowhere"), "{}", text(&output));
}

#[test]
fn a_changed_shape_waits_for_a_rebuild_and_the_old_one_goes_on() {
    let lake = filled();
    std::fs::write(lake.path("document.sql"), "SELECT id, v, n, n + 1 AS more FROM items").unwrap();
    lake.land("dt=2024-05-01/hr=10/min=03/new.ndjson", "{\"id\":\"new\",\"v\":\"x\",\"n\":1}\n");
    let batch = lake.once("2024-05-01T10:05:00Z");
    assert_eq!((&batch["upserts"], lake.ids().as_str()), (&1.into(), "a b/c ad-1 new"), "{batch}");
    assert_eq!(lake.documents()["new"], json!({"id": "new", "v": "x", "n": 1}));
    for report in [batch, lake.json(&["status", "--json"])] {
        let alarm = &report["alarms"][0];
        assert_eq!(alarm["kind"], "rebuild_due", "{report}");
        assert!(alarm["detail"].as_str().unwrap().contains("field \"more\" is new"), "{report}");
    }
    lake.verify_equal();
    // Back to what it was: nothing is due any more.
    std::fs::write(lake.path("document.sql"), "SELECT id, v, n FROM items").unwrap();
    assert_eq!(lake.once("2024-05-01T10:05:10Z")["alarms"], json!([]));
}

#[test]
fn changed_sql_of_the_same_shape_is_taken_up() {
    let lake = filled();
    std::fs::write(lake.path("document.sql"), "SELECT id, v, n + 1 AS n FROM items").unwrap();
    let batch = lake.once("2024-05-01T10:03:10Z");
    assert_eq!(batch["upserts"], 2, "{batch}");
    assert_eq!(lake.documents()["ad-1"]["n"], 11);
}

#[test]
fn clocks_that_cannot_be_are_refused() {
    let lake = filled();
    assert_eq!(lake.run(&["once", "--now", "2024-05-01T09:00:00Z"]).status.code(), Some(2));
    assert_eq!(lake.run(&["once", "--now", "2999-01-01T00:00:00Z"]).status.code(), Some(2));
}

#[test]
fn verify_finds_what_is_wrong() {
    let lake = filled();
    lake.verify_equal();
    lake.remove("dt=2024-05-01/hr=10/min=02/a.ndjson");
    let output = lake.run(&["verify", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["equal"]), (Some(1), &serde_json::Value::Null), "{report}");
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", "{\"id\":\"ad-1\",\"v\":\"noble desert\",\"n\":10}\n");
    let output = lake.run(&["verify", "--relist", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["equal"]), (Some(6), &false.into()), "{report}");
    assert_eq!((&report["extra"], &report["different"]), (&json!(["a b/c"]), &json!(["ad-1"])), "{report}");
}

#[test]
fn init_makes_a_pipeline_that_runs() {
    let lake = Lake::items();
    let folder = lake.path("fresh");
    std::fs::create_dir_all(&folder).unwrap();
    let run = |args: &[&str]| lake.command(args).current_dir(&folder).output().unwrap();
    for args in [["init", "--example"].as_slice(), &["check"], &["once"], &["status"], &["search", "*"], &["log"]] {
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
    }
    assert_eq!(run(&["init"]).status.code(), Some(2), "never overwrites");
}

/// Where a process says that it serves.
fn address(process: &Running) -> String {
    eventually("the address", Duration::from_secs(30), || {
        let log = process.log();
        let start = log.find("http://127.0.0.1:")?;
        Some(log[start..].split_whitespace().next()?.trim_end_matches('/').to_owned())
    })
}

/// A reader in another process sees each commit, and never an older one after a newer one.
#[test]
fn serve_beside_run_answers_from_newer_and_newer_commits() {
    let lake = Lake::items();
    let run = lake.spawn(&["run", "--json"]);
    let serve = lake.spawn(&["serve", "--listen", "127.0.0.1:0"]);
    let base = address(&serve);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let found = |query: &str| -> Option<Value> {
        let url = format!("{base}/api/v1/pipelines/items/search?q={query}");
        let answer = runtime.block_on(reqwest::get(url)).unwrap();
        let ok = answer.status().is_success();
        let text = runtime.block_on(answer.text()).unwrap();
        ok.then(|| serde_json::from_str(&text).unwrap())
    };
    let mut last = 0;
    for n in 1..=5_u64 {
        let now = jiff::Timestamp::now().strftime("dt=%Y-%m-%d/hr=%H/min=%M");
        lake.land(&format!("{now}/{n}.ndjson"), rows(&[(&n.to_string(), "kettle")]));
        eventually("the new document", Duration::from_secs(60), || {
            let found = found("*")?;
            let seq = found["as_of"]["seq"].as_u64().unwrap();
            assert!(seq >= last, "as of {seq} after {last}");
            let grown = found["total"] == n;
            assert!(!grown || seq > last, "batch {seq} has {n} documents, and had fewer");
            last = seq;
            grown.then_some(())
        });
    }
    let deep = "NOT%20".repeat(600);
    assert_eq!(found(&deep), None, "refused");
    assert_eq!(found("*").unwrap()["total"], 5, "and it still answers");
    serve.kill();
    run.kill();
    lake.verify_equal();
}

#[test]
fn run_serves_search_status_and_health() {
    let lake = Lake::new(&(ITEMS.to_owned() + "\n[serve]\nlisten = \"127.0.0.1:0\"\n"), "SELECT id, v FROM items");
    let now = jiff::Timestamp::now();
    lake.land(&now.strftime("dt=%Y-%m-%d/hr=%H/min=%M/a.ndjson").to_string(), rows(&[("1", "a")]));
    let run = lake.spawn(&["run"]);
    let base = address(&run);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let get = |path: &str| {
        runtime.block_on(async {
            let answer = reqwest::get(format!("{base}{path}")).await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        })
    };
    eventually("the document", Duration::from_secs(30), || {
        (get("/api/v1/pipelines/items/documents/1").0 == 200).then_some(())
    });
    let found: serde_json::Value = serde_json::from_str(&get("/api/v1/pipelines/items/search?q=*").1).unwrap();
    assert_eq!(found["total"], 1);
    assert!(found["as_of"]["seq"].is_u64());
    assert_eq!(get("/healthz").0, 200);
    assert_eq!(get("/readyz").0, 200);
    assert!(get("/metrics").1.contains("highwater_documents{pipeline=\"items\"} 1"), "{}", get("/metrics").1);
    assert!(get("/").1.contains("items"));
    run.kill();
}

#[test]
fn demo_runs_to_its_summary() {
    let lake = Lake::items();
    let folder = lake.path("demo");
    let output = lake.run(&["demo", "--batches", "6", "--dir", folder.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert!(output.status.success(), "{}", text(&output));
    for word in ["batches", "documents", "p50", "p99"] {
        assert!(text(&output).contains(word), "{word} is missing in:\n{}", text(&output));
    }
}

/// A file or a pipe is no terminal: what is written there has no escapes.
#[test]
fn logs_in_a_file_are_plain() {
    let lake = Lake::items();
    lake.land("dt=2026-05-01/hr=10/min=00/a.ndjson", rows(&[("a", "1")]));
    let output =
        lake.command(&["once", "--now", "2026-05-01T10:02:00Z"]).env("HIGHWATER_LOG", "debug").output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("DEBUG"), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}
