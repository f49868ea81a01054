//! Data that allows no batch, or not all of one: `run` waits and says why, nothing is lost, nothing half-done is visible.

use std::time::Duration;

use crate::lake::{ITEMS, Lake, eventually, rows, text};

const LIMIT: Duration = Duration::from_secs(60);

fn undeclared(sql: &str) -> Lake {
    Lake::new(&ITEMS.replace("columns = { id = \"string\", v = \"string\" }", ""), sql)
}

fn now_path(name: &str) -> String {
    jiff::Timestamp::now().strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}")).to_string()
}

#[test]
fn a_first_file_that_cannot_be_read_is_waited_out() {
    let lake = undeclared("SELECT id, v FROM items");
    lake.land(&now_path("broken.ndjson.gz"), [0x1f, 0x8b, 8, 0, 1]);
    let run = lake.spawn(&["run", "--json"]);
    eventually("the reason", LIMIT, || run.log().contains("broken.ndjson.gz").then_some(()));
    lake.land(&now_path("good.ndjson"), rows(&[("1", "a")]));
    eventually("the good file", LIMIT, || run.log().contains("\"documents\":1").then_some(()));
    run.kill();
    assert_eq!(lake.ids(), "1");
}

#[test]
fn a_value_that_the_sql_cannot_take_is_waited_out() {
    let lake = Lake::new(ITEMS, "SELECT id, CAST(v AS BIGINT) AS v FROM items");
    lake.land(&now_path("good.ndjson"), rows(&[("1", "1")]));
    let run = lake.spawn(&["run", "--json"]);
    eventually("the first batch", LIMIT, || run.log().contains("\"documents\":1").then_some(()));
    let bad = now_path("bad.ndjson");
    lake.land(&bad, rows(&[("2", "two")]));
    eventually("the reason", LIMIT, || run.log().contains("try_cast").then_some(()));
    assert_eq!(lake.ids(), "1");
    lake.remove(&bad);
    lake.land(&now_path("more.ndjson"), rows(&[("3", "3")]));
    eventually("the batch after it", LIMIT, || run.log().contains("\"documents\":2").then_some(()));
    run.kill();
}

#[test]
fn a_file_that_lost_its_rows_keeps_them() {
    let lake = Lake::items();
    let path = "dt=2024-05-01/hr=10/min=02/a.ndjson";
    lake.land(path, rows(&[("1", "a")]));
    lake.land("dt=2024-05-01/hr=10/min=02/b.ndjson", rows(&[("2", "b")]));
    lake.once("2024-05-01T10:03:00Z");
    lake.land(path, "\n\n");
    let batch = lake.once("2024-05-01T10:04:00Z");
    assert_eq!(batch["quarantined"][0]["path"], path, "{batch}");
    assert_eq!(lake.ids(), "1 2");
    lake.remove(path);
    lake.once("2024-05-01T10:05:00Z");
    assert_eq!(lake.ids(), "2");
}

#[test]
fn broken_files_alone_never_empty_the_index() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=00/a.ndjson", rows(&[("1", "a")]));
    lake.once("2024-05-01T10:01:30Z");
    for hour in 11..14 {
        lake.land(&format!("dt=2024-05-01/hr={hour}/min=00/broken.ndjson.gz"), [0x1f, 0x8b, 8, 0, 1]);
        lake.once(&format!("2024-05-01T{hour}:01:30Z"));
    }
    assert_eq!(lake.ids(), "1");
    let status = lake.json(&["status", "--json"]);
    assert_eq!(status["newest"]["items"], "2024-05-01T10:01:00Z", "what cannot be read is no data: {status}");
}

#[test]
fn another_step_or_zone_is_taken_up() {
    let lake = Lake::new(ITEMS, "SELECT id, v, _partition AS at FROM items");
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    lake.once("2024-05-01T10:03:30Z");
    let toml = ITEMS.replace("step = \"1m\"", "step = \"5m\"");
    std::fs::write(lake.path("highwater.toml"), toml).unwrap();
    let report = lake.run(&["verify", "--json"]);
    assert_eq!(report.status.code(), Some(1), "the definition changed: {}", text(&report));
    lake.once("2024-05-01T10:05:30Z");
    assert_eq!(lake.documents()["1"]["at"], "2024-05-01T10:00:00Z");
    lake.verify_equal();
}

#[test]
fn a_source_that_leaves_the_configuration_leaves_the_reports() {
    let more = format!(
        "{ITEMS}\n[source.more]\nlocation = \"./more\"\nformat = \"csv\"\nkind = \"reference\"\ncolumns = {{ id = \"string\" }}\n"
    );
    let lake = Lake::new(&more, "SELECT id, v FROM items");
    crate::lake::land(&lake.path("more/a.csv"), b"id\n1\n");
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    lake.once("2024-05-01T10:03:30Z");
    std::fs::write(lake.path("highwater.toml"), ITEMS).unwrap();
    assert_eq!(lake.run(&["verify"]).status.code(), Some(1));
    lake.once("2024-05-01T10:04:30Z");
    lake.verify_equal();
    assert!(lake.json(&["status", "--json"])["files"]["more"].is_null());
}

#[test]
fn little_memory_gives_the_same_documents() {
    let small = Lake::new(&ITEMS.replace("poll =", "memory = \"48MiB\"\npoll ="), "SELECT id, v FROM items");
    let large = Lake::items();
    for minute in 0..6 {
        let file = format!("dt=2024-05-01/hr=10/min={minute:02}/a.ndjson");
        let text: String =
            (0..20_000).map(|n| format!("{{\"id\":\"{minute}-{n}\",\"v\":\"{}\"}}\n", "x".repeat(200))).collect();
        small.land(&file, &text);
        large.land(&file, &text);
    }
    for lake in [&small, &large] {
        assert_eq!(lake.once("2024-05-01T10:07:00Z")["documents"], 120_000);
    }
    assert_eq!(small.dump(), large.dump());
}
