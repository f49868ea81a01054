//! The gauntlet's A03 with the real binary on a local lake: a listing that shrank takes no documents away, and an operator
//! can say that it was meant.

use std::time::Duration;

use serde_json::Value;

use crate::lake::{ITEMS, Lake, eventually, rows, text};

const FIRST: &str = "2024-05-01T10:05:00Z";

fn path(file: u32) -> String {
    format!("dt=2024-05-01/hr=10/min={:02}/{file:03}.ndjson", 1 + file % 3)
}

/// 300 files of one document each, in three partitions, indexed.
fn filled() -> Lake {
    let lake = Lake::items();
    for file in 0..300 {
        land(&lake, file);
    }
    let batch = lake.once(FIRST);
    assert_eq!(batch["documents"], 300, "{batch}");
    lake
}

fn land(lake: &Lake, file: u32) {
    lake.land(&path(file), rows(&[(&format!("{file:03}"), "a")]));
}

/// The folder is moved away, as a narrowed policy or a wrong prefix would: the files come back as they were.
fn hide(lake: &Lake) {
    std::fs::rename(lake.path("lake"), lake.path("hidden")).unwrap();
    std::fs::create_dir(lake.path("lake")).unwrap();
}

fn show(lake: &Lake) {
    std::fs::remove_dir_all(lake.path("lake")).unwrap();
    std::fs::rename(lake.path("hidden"), lake.path("lake")).unwrap();
}

fn kinds(report: &Value) -> Vec<&str> {
    report["alarms"].as_array().unwrap().iter().map(|alarm| alarm["kind"].as_str().unwrap()).collect()
}

/// Documents written, documents deleted, documents in the index.
fn counts(batch: &Value) -> [u64; 3] {
    ["upserts", "deletes", "documents"].map(|key| batch[key].as_u64().unwrap())
}

#[test]
fn a03_an_empty_listing_deletes_nothing_and_recovery_writes_nothing() {
    let lake = filled();
    hide(&lake);
    let batch = lake.once("2024-05-01T10:05:10Z");
    assert_eq!((counts(&batch), kinds(&batch)), ([0, 0, 300], vec!["removals_withheld"]));
    let detail = batch["alarms"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("300 of 300") && detail.contains("highwater accept-removals items"), "{detail}");
    assert_eq!(kinds(&lake.json(&["status", "--json"])), ["removals_withheld"]);
    let again = lake.once("2024-05-01T10:05:20Z");
    assert_eq!((counts(&again), kinds(&again)), ([0, 0, 300], vec!["removals_withheld"]));
    show(&lake);
    let back = lake.once("2024-05-01T10:05:30Z");
    assert_eq!((counts(&back), kinds(&back)), ([0, 0, 300], vec![]));
    lake.verify_equal();
}

#[test]
fn a03_page_one_of_three_deletes_nothing_and_additions_come_in() {
    let lake = filled();
    for file in 100..300 {
        lake.remove(&path(file));
    }
    lake.land("dt=2024-05-01/hr=10/min=04/new.ndjson", rows(&[("new", "a")]));
    let batch = lake.once("2024-05-01T10:05:10Z");
    assert_eq!((counts(&batch), kinds(&batch)), ([1, 0, 301], vec!["removals_withheld", "add_only"]), "{batch}");
    assert_eq!(batch["add_only"], true, "a new process, and the files are gone: their rows are nowhere");
    for file in 100..300 {
        land(&lake, file);
    }
    lake.remove("dt=2024-05-01/hr=10/min=04/new.ndjson");
    let back = lake.once("2024-05-01T10:05:30Z");
    assert_eq!((counts(&back), kinds(&back)), ([0, 1, 300], vec![]), "{back}");
    lake.verify_equal();
}

#[test]
fn a03_one_deleted_file_of_many_goes_at_once() {
    let lake = filled();
    lake.remove(&path(7));
    let batch = lake.once("2024-05-01T10:05:10Z");
    assert_eq!((counts(&batch), kinds(&batch)), ([0, 1, 299], vec![]));
    hide(&lake);
    lake.once("2024-05-01T10:05:20Z");
    show(&lake);
    lake.once("2024-05-01T10:05:30Z");
    lake.remove(&path(8));
    let batch = lake.once("2024-05-01T10:05:40Z");
    assert_eq!((counts(&batch), kinds(&batch)), ([0, 1, 298], vec![]), "after a recovery too");
    lake.verify_equal();
}

#[test]
fn a03_once_with_accept_removals_applies_a_mass_removal_in_one_go() {
    let lake = filled();
    for file in 10..300 {
        lake.remove(&path(file));
    }
    let batch = lake.json(&["once", "--json", "--accept-removals", "--now", "2024-05-01T10:05:10Z"]);
    assert_eq!((counts(&batch), kinds(&batch)), ([0, 290, 10], vec![]));
    lake.verify_equal();
}

#[test]
fn a03_an_order_is_carried_out_by_the_next_once() {
    let lake = filled();
    let nothing = lake.run(&["accept-removals"]);
    assert!(nothing.status.success());
    assert_eq!(text(&nothing), "nothing is withheld: there is nothing to accept\n");
    for file in 10..300 {
        lake.remove(&path(file));
    }
    lake.once("2024-05-01T10:05:10Z");
    let order = lake.json(&["accept-removals", "items", "--json"]);
    assert_eq!((&order["withheld"]["items"]["files"], &order["withheld"]["items"]["of"]), (&290.into(), &300.into()));
    assert!(order["order"].is_string(), "{order}");
    assert_eq!(lake.run(&["accept-removals", "itmes"]).status.code(), Some(2), "no such source");
    let batch = lake.once("2024-05-01T10:05:20Z");
    assert_eq!((counts(&batch), kinds(&batch)), ([0, 290, 10], vec![]), "{batch}");
    let left = std::fs::read_dir(lake.path("state/items/orders")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the order is done");
    lake.verify_equal();
}

#[test]
fn a03_an_order_is_carried_out_by_the_writer_that_runs() {
    let now = jiff::Timestamp::now();
    let folder = now.strftime("dt=%Y-%m-%d/hr=%H/min=%M").to_string();
    let lake = Lake::new(&ITEMS.replace("window = \"1h\"", "window = \"24h\""), "SELECT id, v FROM items");
    for file in 0..40 {
        lake.land(&format!("{folder}/{file:02}.ndjson"), rows(&[(&file.to_string(), "a")]));
    }
    let limit = Duration::from_secs(60);
    let running = lake.spawn(&["run", "--json"]);
    let status = || serde_json::from_slice::<Value>(&lake.run(&["status", "--json"]).stdout).ok();
    let documents = |count: u64| status().filter(|status| status["documents"] == count);
    eventually("the first batch", limit, || documents(40));
    for file in 1..40 {
        lake.remove(&format!("{folder}/{file:02}.ndjson"));
    }
    eventually("the alarm", limit, || status().filter(|status| kinds(status) == ["removals_withheld"]));
    assert!(documents(40).is_some(), "nothing was deleted");
    let order = lake.run(&["accept-removals"]);
    assert!(text(&order).contains("items: 39 of 40 files are gone"), "{}", text(&order));
    eventually("the removal", limit, || documents(1));
    eventually("the alarm's end", limit, || status().filter(|status| kinds(status).is_empty()));
    running.kill();
}

#[test]
fn a03_partitions_that_age_out_are_no_removals() {
    let lake = filled();
    lake.land("dt=2024-05-01/hr=11/min=29/later.ndjson", rows(&[("later", "a")]));
    let batch = lake.once("2024-05-01T11:30:30Z");
    assert_eq!((counts(&batch), kinds(&batch)), ([1, 300, 1], vec![]), "{batch}");
    lake.verify_equal();
}
