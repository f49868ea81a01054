//! Tables that stand on base snapshots, and holes that are filled, with the real binary.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::lake::{Lake, eventually, land, rows, text};

const LIMIT: Duration = Duration::from_secs(60);

/// Hourly upserts of `items` on daily snapshots in `./base`.
const BASED: &str = r#"
[pipeline]
name = "based"
state = "./state"
step = "1h"
window = "3h"
settle = "1m"
hold_after = "never"
poll = "50ms"

[source.items]
location = "./lake"
layout = "dt=%Y-%m-%d/hr=%H"
format = "ndjson"
kind = "upsert"
key = "id"
deleted = "gone"
retain = "forever"
columns = { id = "string", v = "string", gone = "bool" }

[source.items.base]
location = "./base"
layout = "%Y/%m/%d"
settle = "2h"
margin = "1h"

[document]
sql = "document.sql"
id = "id"

[index]
kind = "tantivy"
path = "./index"
"#;

/// The same table from its first hour on.
fn forever() -> String {
    let (head, rest) = BASED.split_once("[source.items.base]").unwrap();
    let (_, tail) = rest.split_once("[document]").unwrap();
    let start = "retain = \"forever\"\nstart = \"2026-05-01T00:00:00Z\"";
    format!("{}[document]{tail}", head.replace("retain = \"forever\"", start))
}

fn based() -> Lake {
    let lake = Lake::new(BASED, "SELECT id, v, _partition AS p FROM items");
    fs::create_dir_all(lake.path("base")).unwrap();
    lake
}

fn snapshot(lake: &Lake, day: &str, name: &str, content: impl AsRef<[u8]>) {
    land(&lake.path("base").join(day).join(name), content.as_ref());
}

/// `id=v@partition` of every document.
fn table(lake: &Lake) -> String {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let documents = lake.documents().into_values();
    documents
        .map(|d| format!("{}={}@{}", word(&d["id"]), word(&d["v"]), &word(&d["p"])[5..16]))
        .collect::<Vec<_>>()
        .join(" ")
}

/// How many documents there are; none before the first commit.
fn count(lake: &Lake) -> usize {
    let dump = lake.run(&["dump"]);
    if dump.status.success() { String::from_utf8_lossy(&dump.stdout).lines().count() } else { 0 }
}

#[test]
fn a_table_is_its_newest_complete_snapshot_and_what_came_since() {
    let lake = based();
    let output = lake.run(&["once", "--now", "2026-05-02T05:10:00Z"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("source items has no base snapshot yet"), "{}", text(&output));
    snapshot(&lake, "2026/05/01", "old.ndjson", rows(&[("a", "old"), ("b", "old"), ("z", "old")]));
    snapshot(&lake, "2026/05/02", "part-0.ndjson", rows(&[("a", "base"), ("b", "base")]));
    snapshot(&lake, "2026/05/02", "part-1.ndjson", rows(&[("c", "base")]));
    snapshot(&lake, "2026/05/02", "_SUCCESS", "");
    lake.land("dt=2026-05-01/hr=22/x.ndjson", rows(&[("c", "before the margin"), ("w", "before the margin")]));
    lake.land("dt=2026-05-01/hr=23/x.ndjson", rows(&[("a", "within the margin"), ("m", "within the margin")]));
    lake.land(
        "dt=2026-05-02/hr=03/x.ndjson",
        rows(&[("b", "since"), ("n", "since")]) + "{\"id\":\"c\",\"gone\":true}\n",
    );
    let batch = lake.once("2026-05-02T05:10:00Z");
    assert_eq!((&batch["files_read"], &batch["holes"]), (&4.into(), &Value::Array(vec![])), "{batch}");
    assert_eq!(
        table(&lake),
        "a=base@05-02T00:00 b=since@05-02T03:00 m=within the margin@05-01T23:00 n=since@05-02T03:00"
    );
    lake.verify_equal();

    // The next day's snapshot: nothing of it before it is complete, then all of it, and nothing of what it replaces.
    snapshot(&lake, "2026/05/03", "part-0.ndjson", rows(&[("a", "next"), ("b", "next"), ("n", "next"), ("q", "next")]));
    lake.land("dt=2026-05-03/hr=00/x.ndjson", rows(&[("q", "newer")]));
    assert_eq!(lake.once("2026-05-03T01:10:00Z")["documents"], 5, "not complete yet");
    let batch = lake.once("2026-05-03T02:10:00Z");
    assert_eq!((&batch["documents"], &batch["deletes"]), (&4.into(), &1.into()), "{batch}");
    assert_eq!(table(&lake), "a=next@05-03T00:00 b=next@05-03T00:00 n=next@05-03T00:00 q=newer@05-03T00:00");
    lake.verify_equal();
    // What the table stands on can be taken away only by another snapshot, or by an operator.
    fs::remove_file(lake.path("base/2026/05/03/part-0.ndjson")).unwrap();
    let batch = lake.once("2026-05-03T03:10:00Z");
    assert_eq!((&batch["documents"], &batch["alarms"][0]["kind"]), (&4.into(), &"removals_withheld".into()), "{batch}");
}

#[test]
fn a_snapshot_that_cannot_be_read_or_is_far_too_small_leaves_the_table_on_the_one_before() {
    let lake = based();
    let many: String = (0..500).map(|n| rows(&[(&format!("d{n:03}"), "base")])).collect();
    snapshot(&lake, "2026/05/01", "a.ndjson", &many);
    assert_eq!(lake.once("2026-05-01T05:10:00Z")["documents"], 500);
    snapshot(&lake, "2026/05/02", "a.ndjson", many.replace("base", "next"));
    snapshot(&lake, "2026/05/02", "b.ndjson.gz", "no gzip at all");
    let batch = lake.once("2026-05-02T05:10:00Z");
    assert_eq!(
        (&batch["documents"], &batch["quarantined"][0]["path"]),
        (&500.into(), &".base/2026/05/02/b.ndjson.gz".into()),
        "{batch}"
    );
    assert!(lake.dump().contains("\"base\"") && !lake.dump().contains("\"next\""));
    // Mended, it is taken at once.
    fs::remove_file(lake.path("base/2026/05/02/b.ndjson.gz")).unwrap();
    snapshot(&lake, "2026/05/02", "b.ndjson", rows(&[("more", "next")]));
    assert_eq!(lake.once("2026-05-02T05:20:00Z")["documents"], 501);
    assert!(!lake.dump().contains("\"base\""));
    snapshot(&lake, "2026/05/03", "a.ndjson", rows(&[("only", "one")]));
    let batch = lake.once("2026-05-03T05:10:00Z");
    assert_eq!((&batch["documents"], &batch["alarms"][0]["kind"]), (&501.into(), &"base_withheld".into()), "{batch}");
    let told = text(&lake.run(&["accept-removals"]));
    assert!(told.contains("items: .base/2026/05/03/ has 24 bytes"), "{told}");
    assert_eq!(lake.once("2026-05-03T05:20:00Z")["documents"], 1);
    lake.verify_equal();
}

#[test]
fn a_running_writer_takes_the_next_snapshot_by_itself() {
    let lake = based();
    // A snapshot of an hour ago is complete because a newer one exists.
    let day = |days: i64| {
        (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days)).strftime("%Y/%m/%d").to_string()
    };
    snapshot(&lake, &day(3), "a.ndjson", rows(&[("a", "old")]));
    snapshot(&lake, &day(2), "a.ndjson", rows(&[("a", "new"), ("b", "new")]));
    let run = lake.spawn(&["run", "--json"]);
    eventually("the newest snapshot", LIMIT, || (count(&lake) == 2).then_some(()));
    run.signal("TERM");
    drop(run);
    snapshot(&lake, &day(1), "a.ndjson", rows(&[("a", "newest"), ("b", "newest"), ("c", "newest")]));
    let run = lake.spawn(&["run", "--json"]);
    eventually("the next snapshot", LIMIT, || (count(&lake) == 3).then_some(()));
    run.kill();
    lake.verify_equal();
}

#[test]
fn what_a_lag_passed_over_is_filled_by_itself_a_piece_a_batch() {
    let toml = forever().replace("retain = \"forever\"", "backfill = 300\nretain = \"forever\"");
    let lake = Lake::new(&toml, "SELECT id, v FROM items");
    lake.land("dt=2026-05-01/hr=00/x.ndjson", rows(&[("first", "x")]));
    lake.once("2026-05-01T01:10:00Z");
    // Nobody looks for a day: 24 files of some 230 bytes.
    let mut ids = vec!["first".to_owned()];
    for hour in 1..24 {
        let here: Vec<String> = (0..10).map(|n| format!("h{hour:02}n{n}")).collect();
        lake.land(
            &format!("dt=2026-05-01/hr={hour:02}/x.ndjson"),
            here.iter().map(|id| rows(&[(id, "x")])).collect::<String>(),
        );
        ids.extend(here);
    }
    let batch = lake.once("2026-05-02T00:10:00Z");
    assert_eq!((&batch["documents"], &batch["holes"][0]["cause"]), (&31.into(), &"passed_over".into()), "{batch}");
    let mut last = 31;
    for round in 0..20 {
        let batch = lake.once("2026-05-02T00:10:00Z");
        assert_eq!(batch["documents"], last + 10, "one file of ten rows in round {round}: {batch}");
        last += 10;
    }
    let batch = lake.once("2026-05-02T00:10:00Z");
    assert_eq!((&batch["documents"], &batch["holes"]), (&(ids.len() as u64).into(), &Value::Array(vec![])), "{batch}");
    assert_eq!(lake.ids(), ids.join(" "));
    let ended = lake.json(&["holes", "--all", "--json"]);
    assert!(ended["holes_closed"].as_array().unwrap().iter().all(|hole| hole["end"] == "filled"), "{ended}");
    lake.verify_equal();
}

#[test]
fn where_nothing_is_filled_by_itself_an_order_fills_all() {
    let toml = forever().replace("retain = \"forever\"", "backfill = \"never\"\nretain = \"forever\"");
    let lake = Lake::new(&toml, "SELECT id, v FROM items");
    lake.land("dt=2026-05-01/hr=00/x.ndjson", rows(&[("first", "x")]));
    lake.once("2026-05-01T01:10:00Z");
    for hour in 1..24 {
        lake.land(&format!("dt=2026-05-01/hr={hour:02}/x.ndjson"), rows(&[(&format!("h{hour:02}"), "x")]));
    }
    for _ in 0..2 {
        assert_eq!(lake.once("2026-05-02T00:10:00Z")["documents"], 4);
    }
    let told = text(&lake.run(&["backfill"]));
    assert!(told.contains("items: 2026-05-01T01:00:00Z to 2026-05-01T21:00:00Z, passed_over"), "{told}");
    assert_eq!(lake.once("2026-05-02T00:10:00Z")["documents"], 24);
    assert_eq!(lake.once("2026-05-02T00:11:00Z")["holes"], Value::Array(vec![]));
    assert!(text(&lake.run(&["backfill", "items"])).contains("no table that keeps its rows has a hole"));
    lake.verify_equal();
}
