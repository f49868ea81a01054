//! What is missing in the index is written down, shown, and closed once it is mended.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::lake::{ITEMS, Lake, eventually, rows, text};

fn minute(hour: u32, minute: u32, name: &str) -> String {
    format!("dt=2024-05-01/hr={hour:02}/min={minute:02}/{name}")
}

/// `cause from to path` of each open hole.
fn open(lake: &Lake) -> Vec<String> {
    let report = lake.json(&["holes", "--json"]);
    assert!(report.get("holes_closed").is_none(), "only --all tells what ended: {report}");
    report["holes"].as_array().unwrap().iter().map(line).collect()
}

/// The same of those that ended, with how they did.
fn ended(lake: &Lake) -> Vec<String> {
    let report = lake.json(&["holes", "--all", "--json"]);
    let line = |hole: &Value| format!("{}: {}", hole["end"].as_str().unwrap(), line(hole));
    report["holes_closed"].as_array().unwrap().iter().map(line).collect()
}

fn line(hole: &Value) -> String {
    let [cause, from, to] = ["cause", "from", "to"].map(|key| hole[key].as_str().unwrap());
    let name = |path: &str| format!(" {}", path.rsplit('/').next().unwrap());
    let path = hole.get("path").map_or(String::new(), |path| name(path.as_str().unwrap()));
    format!("{cause} {} {}{path}", &from[11..16], &to[11..16])
}

/// The line of the status that says what is complete, and all that follows.
fn status(lake: &Lake) -> (String, String) {
    let all = text(&lake.run(&["status"]));
    let complete = all.lines().find(|line| line.starts_with("complete")).unwrap_or_else(|| panic!("{all}"));
    (complete.to_owned(), all.clone())
}

#[test]
fn a_file_that_came_too_late_is_a_hole() {
    let lake = Lake::items();
    lake.land(&minute(10, 2, "a.ndjson"), rows(&[("1", "a")]));
    lake.once("2024-05-01T10:03:30Z");
    // The pipeline is away; a file lands in a partition that is live no more when it is back.
    lake.land(&minute(9, 5, "late.ndjson"), rows(&[("2", "late")]));
    lake.land(&minute(10, 29, "b.ndjson"), rows(&[("3", "b")]));
    let batch = lake.once("2024-05-01T10:30:30Z");
    assert_eq!(line(&batch["holes"][0]), "late_file 09:05 09:06 late.ndjson", "{batch}");
    assert_eq!(lake.ids(), "1 3");
    assert_eq!(open(&lake), ["late_file 09:05 09:06 late.ndjson"]);
    let (complete, all) = status(&lake);
    assert!(
        complete
            .ends_with("from 2024-05-01 09:30:00Z to 2024-05-01 10:30:00Z; newer files are searchable as they land")
    );
    assert!(all.contains("late file dt=2024-05-01/hr=09/min=05/late.ndjson"), "{all}");
    let table = text(&lake.run(&["holes"]));
    assert!(table.contains("late.ndjson") && table.contains("late_file: Where rows stay for ever"), "{table}");
}

#[test]
fn run_sees_that_a_late_file_is_gone() {
    let lake = Lake::items();
    let now = Timestamp::now();
    let ago = |minutes: i64, name: &str| {
        (now - SignedDuration::from_mins(minutes)).strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}")).to_string()
    };
    lake.land(&ago(31, "a.ndjson"), rows(&[("1", "a")]));
    lake.once(&(now - SignedDuration::from_mins(30)).to_string());
    lake.land(&ago(75, "late.ndjson"), rows(&[("2", "late")]));
    lake.land(&ago(2, "b.ndjson"), rows(&[("3", "b")]));
    lake.once(&now.to_string());
    assert_eq!(open(&lake).len(), 1);
    lake.remove(&ago(75, "late.ndjson"));
    let run = lake.spawn(&["run"]);
    eventually("the late file to be missed", Duration::from_secs(60), || open(&lake).is_empty().then_some(()));
    assert!(ended(&lake)[0].starts_with("removed: late_file "), "{}", run.log());
}

#[test]
fn a_broken_file_is_a_hole_until_it_is_mended() {
    let lake = Lake::items();
    lake.land(&minute(10, 2, "a.ndjson"), rows(&[("1", "a")]));
    lake.land(&minute(10, 1, "broken.ndjson.gz"), [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    lake.once("2024-05-01T10:03:30Z");
    assert_eq!(open(&lake), ["quarantined 10:01 10:02 broken.ndjson.gz"]);
    let (complete, _) = status(&lake);
    assert!(complete.contains(" except 1 hole: items: 2024-05-01 10:01:00Z to 2024-05-01 10:02:00Z, unreadable file "));
    let report = lake.json(&["status", "--json"]);
    assert_eq!(
        (&report["complete"]["from"], &report["complete"]["to"]),
        (&"2024-05-01T09:03:00Z".into(), &"2024-05-01T10:03:00Z".into())
    );

    // Another broken version: the same hole, since the same time.
    lake.land(&minute(10, 1, "broken.ndjson.gz"), [0x1f, 0x8b, 8, 0, 1, 2, 3, 4]);
    lake.once("2024-05-01T10:03:40Z");
    let holes = lake.json(&["holes", "--json"])["holes"].clone();
    assert_eq!((holes.as_array().unwrap().len(), &holes[0]["since"]), (1, &"2024-05-01T10:03:30Z".into()));

    lake.remove(&minute(10, 1, "broken.ndjson.gz"));
    lake.land(&minute(10, 1, "broken.ndjson"), rows(&[("2", "b")]));
    lake.once("2024-05-01T10:03:50Z");
    assert_eq!(ended(&lake), ["removed: quarantined 10:01 10:02 broken.ndjson.gz"]);
    lake.land(&minute(10, 1, "broken.ndjson"), [0xff, 0xfe, 0, 0, 0]);
    lake.once("2024-05-01T10:04:30Z");
    assert_eq!(open(&lake), ["quarantined 10:01 10:02 broken.ndjson"]);
    lake.land(&minute(10, 1, "broken.ndjson"), rows(&[("2", "c")]));
    let batch = lake.once("2024-05-01T10:04:40Z");
    assert_eq!(batch["holes_closed"][0]["end"], "filled");
    assert_eq!(ended(&lake)[1], "filled: quarantined 10:01 10:02 broken.ndjson");
    assert!(open(&lake).is_empty());
    assert_eq!(lake.ids(), "1 2");
    let (complete, _) = status(&lake);
    assert!(!complete.contains("except"), "{complete}");
}

#[test]
fn a_partition_that_came_in_thin_is_a_hole_until_the_rest_is_there() {
    let lake = Lake::new(&ITEMS.replace("\"1h\"", "\"12m\""), "SELECT id, v FROM items");
    let full = |at: u32| {
        for name in ["a", "b"] {
            let id = format!("{name}{at}");
            lake.land(&minute(10, at, &format!("{name}.ndjson")), rows(&[(&id, "a value of some length, as usual")]));
        }
    };
    (0..10).for_each(full);
    lake.once("2024-05-01T10:10:30Z");
    assert!(open(&lake).is_empty(), "a first start has nothing to compare with");
    lake.land(&minute(10, 10, "a.ndjson"), rows(&[("x", "")]));
    full(12);
    let batch = lake.once("2024-05-01T10:13:30Z");
    assert_eq!(batch["holes"].as_array().map(Vec::len), Some(1), "{batch}");
    assert_eq!(open(&lake), ["under_filled 10:10 10:12"]);
    let (complete, all) = status(&lake);
    assert!(complete.contains(" except 1 hole: ") && all.contains("under-filled (0 of usually 2 files, 0 of"), "{all}");
    full(11);
    lake.once("2024-05-01T10:13:40Z");
    assert_eq!(open(&lake), ["under_filled 10:10 10:11"]);
    full(10);
    lake.once("2024-05-01T10:13:50Z");
    assert!(open(&lake).is_empty());
    assert_eq!(ended(&lake), ["filled: under_filled 10:11 10:12", "filled: under_filled 10:10 10:11"]);
}

#[test]
fn time_passed_over_stands_before_what_is_complete_until_it_is_long_gone() {
    let lake = Lake::items();
    lake.land(&minute(10, 0, "a.ndjson"), rows(&[("1", "a")]));
    lake.once("2024-05-01T10:01:30Z");
    lake.land(&minute(12, 0, "missed.ndjson"), rows(&[("2", "missed")]));
    lake.land(&minute(15, 0, "newest.ndjson"), rows(&[("3", "newest")]));
    lake.once("2024-05-01T15:01:30Z");
    assert_eq!(open(&lake), ["passed_over 10:01 14:01"]);
    let (complete, all) = status(&lake);
    assert!(complete.contains("from 2024-05-01 14:01:00Z to 2024-05-01 15:01:00Z; newer"), "{complete}");
    assert!(all.contains("hole items: 2024-05-01 10:01:00Z to 2024-05-01 14:01:00Z, passed over"), "{all}");
    lake.land(&minute(15, 55, "b.ndjson"), rows(&[("4", "b")]));
    lake.once("2024-05-01T15:56:30Z");
    lake.land(&minute(16, 2, "c.ndjson"), rows(&[("5", "c")]));
    lake.once("2024-05-01T16:02:30Z");
    assert_eq!(ended(&lake), ["left_window: passed_over 10:01 14:01"]);
    assert!(open(&lake).is_empty());
    lake.verify_equal();
}

#[test]
fn holes_take_no_nonsense() {
    let lake = Lake::items();
    for args in [&["holes", "--sll"][..], &["holes", "--all", "retry"], &["holes", "mend"]] {
        assert_eq!(lake.run(args).status.code(), Some(2), "{args:?}");
    }
    assert!(text(&lake.run(&["holes"])).contains("no hole is open"), "before the first batch too");
}
