//! Two writers on one collection: the first stands still in the middle of a batch, and comes back when the second has gone on.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::{Collection, LIMIT};
use crate::bucket::Bucket;
use crate::lake::{ITEMS, Lake, batches, eventually, rows};
use crate::proxy::{Fault, Kind, Proxy};

const ROWS: usize = 12_000;

/// A pipeline of one bucket into one collection; a machine of its own.
fn writer(bucket: &Bucket, collection: &Collection) -> Lake {
    let lake = bucket.lake();
    let file = lake.path("highwater.toml");
    let toml = fs::read_to_string(&file).unwrap();
    let toml = toml.replace("kind = \"tantivy\"\npath = \"./index\"", &collection.index());
    fs::write(file, toml.replace("poll = \"100ms\"", "poll = \"100ms\"\nlease = \"2s\"")).unwrap();
    lake
}

/// Rows of a file: every `step`-th of its ids, with this value.
fn content(file: &str, step: usize, v: &str) -> BTreeMap<String, String> {
    (0..ROWS).step_by(step).map(|n| (format!("{file}-{n:05}"), v.to_owned())).collect()
}

fn seq_of(found: &Value) -> Option<u64> {
    found["_hw_seq_"].as_u64()
}

#[test]
fn a_writer_stopped_in_mid_batch_writes_nothing_that_counts_when_it_is_resumed() {
    let Some(bucket) = Bucket::of("HIGHWATER_TEST_S3_MOTO") else { return };
    let collection = Collection::shared();
    let (one, two) = (writer(&bucket, &collection), writer(&bucket, &collection));
    let start = jiff::Timestamp::now();
    let mut files: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut land = |file: &str, content: BTreeMap<String, String>| {
        let path = start.strftime(&format!("lake/region=eu/dt=%Y-%m-%d/hr=%H/min=%M/{file}.ndjson")).to_string();
        let lines: Vec<(&str, &str)> = content.iter().map(|(id, v)| (id.as_str(), v.as_str())).collect();
        bucket.put(&path, rows(&lines));
        files.insert(file.to_owned(), content);
        files.values().map(BTreeMap::len).sum::<usize>()
    };
    let shows = |documents: usize, run: &crate::lake::Running| {
        eventually(&format!("{documents} documents:\n{}", run.log()), LIMIT, || {
            let log = run.log();
            let mut reports = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            reports.any(|report| report["documents"] == documents).then_some(())
        });
    };
    let documents = land("base", content("base", 2, "first"));
    let mut first = one.spawn(&["run", "--json"]);
    shows(documents, &first);

    // It is stopped while Solr has some of a batch's documents; where the batch was over before that, the next one is tried.
    let mut half = String::new();
    for round in 0..10 {
        half = format!("half{round}");
        land(&half, content(&half, 1, "stale"));
        let documents = land("base", content("base", 1, &format!("stale{round}")));
        let probe = format!("/{}/get?id=base-00000&fl=_hw_seq_", collection.name);
        let shown = || {
            let path = format!("/{}/highwater?q=id:_hw_stamp_&fl=_hw_seq_", collection.name);
            seq_of(&collection.get(&path)["response"]["docs"][0]).unwrap()
        };
        eventually("a document of the batch", LIMIT, || {
            let sent = seq_of(&collection.get(&probe)["doc"])?;
            (sent > shown()).then_some(())
        });
        first.signal("STOP");
        let sent = seq_of(&collection.get(&probe)["doc"]).unwrap();
        if sent > shown() {
            break;
        }
        first.signal("CONT");
        shows(documents, &first);
        assert!(round < 9, "it was never stopped in mid-batch");
    }

    // Meanwhile some of its ids change, and some go: those that Solr has already, and those that it has not.
    let second = two.spawn(&["run", "--json", "--standby"]);
    let documents = land(&half, content(&half, 3, "new"));
    shows(documents, &second);
    let documents = land("base", content("base", 5, "newer"));
    shows(documents, &second);
    let documents = land("more", content("more", 100, "newest"));
    shows(documents, &second);
    let before = first.log();
    first.signal("CONT");
    let ended = first.wait(LIMIT);
    assert_eq!(ended.code(), Some(4), "{}", first.log());
    let since = first.log()[before.len()..].to_owned();
    assert!(!since.contains("\"seq\""), "it committed: {since}");
    two.verify_equal();
    // Whatever it had sent shows with the next commit at the latest.
    let documents = land("last", content("last", 1_000, "last"));
    shows(documents, &second);
    two.verify_equal();
    second.kill();
    let wanted = files.values().flatten().map(|(id, v)| (id.clone(), json!({"id": id, "v": v, "region": "eu"})));
    assert!(two.documents() == wanted.collect(), "the index is not what was landed");
}

/// A writer is killed, and the network still has one of its requests: that comes when the next writer has gone on.
#[test]
fn what_a_dead_writer_sent_and_comes_late_is_repaired_by_the_batch_that_shows_it() {
    let collection = Collection::shared();
    let proxy = Proxy::start(collection.nodes[0].trim_end_matches("/solr"));
    let index = collection.index_through(&[format!("{}/solr", proxy.endpoint())]);
    let lake = Lake::new(&ITEMS.replace("kind = \"tantivy\"\npath = \"./index\"", &index), "SELECT id, v FROM items");
    let start = jiff::Timestamp::now();
    let land = |file: &str, content: &[(&str, &str)]| {
        lake.land(&start.strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{file}.ndjson")).to_string(), rows(content));
    };
    land("a", &[("changed", "1"), ("kept", "1"), ("deleted", "1")]);
    lake.json(&["once", "--json"]);
    proxy.stop_after(Kind::Change, "update.chain", 0, Fault::Late);
    land("a", &[("changed", "2"), ("kept", "2"), ("new", "2")]);
    let mut once = lake.spawn_to("once.log", &["once"]);
    eventually("the request", LIMIT, || proxy.faults().contains_key("late").then_some(()));
    once.signal("KILL");
    once.wait(LIMIT);
    // The next one asks Solr by another way.
    let toml = fs::read_to_string(lake.path("highwater.toml")).unwrap();
    fs::write(lake.path("highwater.toml"), toml.replace(&index, &collection.index())).unwrap();
    land("a", &[("changed", "3"), ("kept", "1"), ("deleted", "1")]);
    let run = lake.spawn(&["run", "--json"]);
    eventually("the first batch", LIMIT, || (batches(&run.log()) == 1).then_some(()));
    lake.verify_equal();
    proxy.heal();
    let get = |id: &str| collection.get(&format!("/{}/get?id={id}&fl=_source_", collection.name))["doc"].clone();
    eventually("the late request", LIMIT, || get("new").is_object().then_some(()));
    lake.verify_equal();
    land("b", &[("other", "1")]);
    eventually("the second batch", LIMIT, || (batches(&run.log()) == 2).then_some(()));
    lake.verify_equal();
    let documents: Vec<String> =
        lake.documents().values().map(|one| format!("{} {}", one["id"], one["v"]).replace('"', "")).collect();
    assert_eq!(documents, ["changed 3", "deleted 1", "kept 1", "other 1"]);
    assert!(run.log().contains("compared once more"), "{}", run.log());
}
