//! Files that appear, come late, are replaced, vanish or break: the index says what the SQL says. Every file has the same
//! modification time.

use crate::lake::{ITEMS, Lake, rows};

const FIRST: &str = "2024-05-01T10:03:00Z";
const SECOND: &str = "2024-05-01T10:04:00Z";
const THIRD: &str = "2024-05-01T10:05:00Z";

#[test]
fn new_file_in_the_newest_partition() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    lake.once(FIRST);
    lake.land("dt=2024-05-01/hr=10/min=04/b.ndjson", rows(&[("2", "b")]));
    let batch = lake.once(SECOND);
    assert_eq!((&batch["upserts"], &batch["deletes"]), (&1.into(), &0.into()));
    assert_eq!(lake.ids(), "1 2");
    lake.verify_equal();
}

#[test]
fn late_file_in_an_old_partition_of_the_window() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    lake.once(FIRST);
    lake.land("dt=2024-05-01/hr=09/min=10/late.ndjson", rows(&[("2", "late")]));
    lake.once(SECOND);
    assert_eq!(lake.ids(), "1 2");
}

#[test]
fn replaced_file_of_equal_size_gives_its_new_rows() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "old"), ("2", "old")]));
    lake.once(FIRST);
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "new"), ("3", "old")]));
    let batch = lake.once(SECOND);
    assert_eq!((&batch["upserts"], &batch["deletes"]), (&2.into(), &1.into()));
    assert_eq!(lake.documents()["1"]["v"], "new");
    assert_eq!(lake.ids(), "1 3");
}

#[test]
fn removed_file_takes_its_documents_along() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a"), ("2", "a")]));
    lake.land("dt=2024-05-01/hr=10/min=02/b.ndjson", rows(&[("3", "b")]));
    lake.once(FIRST);
    lake.remove("dt=2024-05-01/hr=10/min=02/a.ndjson");
    let batch = lake.once(SECOND);
    assert_eq!(batch["deletes"], 2);
    assert_eq!(lake.ids(), "3");
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a"), ("2", "a")]));
    lake.once(THIRD);
    assert_eq!(lake.ids(), "1 2 3");
    lake.verify_equal();
}

#[test]
fn partitions_leave_with_the_window() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=00/a.ndjson", rows(&[("1", "a")]));
    lake.land("dt=2024-05-01/hr=10/min=59/b.ndjson", rows(&[("2", "b")]));
    lake.once("2024-05-01T11:00:30Z");
    assert_eq!(lake.ids(), "1 2");
    lake.land("dt=2024-05-01/hr=11/min=01/c.ndjson", rows(&[("3", "c")]));
    let batch = lake.once("2024-05-01T11:02:30Z");
    assert_eq!((&batch["files_dropped"], &batch["deletes"]), (&1.into(), &1.into()));
    assert_eq!(lake.ids(), "2 3");
}

#[test]
fn silence_does_not_empty_the_index() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=00/a.ndjson", rows(&[("1", "a")]));
    lake.once("2024-05-01T10:01:30Z");
    let batch = lake.once("2024-05-01T19:00:30Z");
    assert_eq!(lake.ids(), "1");
    assert_eq!(batch["alarms"][0]["kind"], "source_silent");
    assert_eq!(lake.json(&["status", "--json"])["alarms"][0]["kind"], "source_silent", "another process tells it too");
    assert_eq!(batch["holes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn lag_past_the_window_jumps_and_writes_the_hole_down() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=00/a.ndjson", rows(&[("1", "a")]));
    lake.once("2024-05-01T10:01:30Z");
    lake.land("dt=2024-05-01/hr=12/min=00/missed.ndjson", rows(&[("2", "missed")]));
    lake.land("dt=2024-05-01/hr=15/min=00/newest.ndjson", rows(&[("3", "newest")]));
    let batch = lake.once("2024-05-01T15:01:30Z");
    assert_eq!(lake.ids(), "3");
    assert_eq!(batch["holes"][0]["cause"], "passed_over");
    assert_eq!(batch["holes"][0]["from"], "2024-05-01T10:01:00Z");
    assert_eq!(batch["holes"][0]["to"], "2024-05-01T14:01:00Z");
    assert_eq!(lake.json(&["status", "--json"])["holes"][0]["cause"], "passed_over");
}

#[test]
fn tick_without_change_does_nothing() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    lake.once(FIRST);
    let index = std::fs::read(lake.path("index/generations/g1/meta.json")).ok();
    let batch = lake.once("2024-05-01T10:03:05Z");
    assert_eq!(batch["mode"], "none");
    assert_eq!((&batch["upserts"], &batch["deletes"], &batch["files_read"]), (&0.into(), &0.into(), &0.into()));
    assert_eq!(batch["seq"], 3, "the claims of both starts and one batch: {batch}");
    assert_eq!(std::fs::read(lake.path("index/generations/g1/meta.json")).ok(), index, "no commit");
}

#[test]
fn bad_row_costs_one_row_and_bad_file_one_file() {
    let lake = Lake::items();
    let mixed = format!("{}{{\"id\": NaN}}\n{}", rows(&[("1", "a")]), rows(&[("2", "b")]));
    lake.land("dt=2024-05-01/hr=10/min=02/mixed.ndjson", mixed);
    lake.land("dt=2024-05-01/hr=10/min=02/good.ndjson", rows(&[("3", "c")]));
    lake.land("dt=2024-05-01/hr=10/min=02/broken.ndjson.gz", [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    let batch = lake.once(FIRST);
    assert_eq!(lake.ids(), "1 2 3");
    assert_eq!(batch["rejected_rows"], 1);
    assert_eq!(batch["rejected"][0]["row"], 2);
    assert_eq!(batch["quarantined"][0]["path"], "dt=2024-05-01/hr=10/min=02/broken.ndjson.gz");
    let status = lake.json(&["status", "--json"]);
    assert_eq!(status["quarantined"][0]["path"], "dt=2024-05-01/hr=10/min=02/broken.ndjson.gz");
    assert_eq!(status["rejected"][0]["path"], "dt=2024-05-01/hr=10/min=02/mixed.ndjson");
    lake.verify_equal();
    assert_eq!(lake.json(&["verify", "--relist", "--json"])["equal"], true, "what is in quarantine is in no table");
}

#[test]
fn unreadable_replacement_keeps_the_last_good_version() {
    let lake = Lake::new(ITEMS, "SELECT id, v FROM items");
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson.gz", gzip(&rows(&[("1", "a")])));
    lake.land("dt=2024-05-01/hr=10/min=02/b.ndjson", rows(&[("2", "b")]));
    lake.once(FIRST);
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson.gz", &gzip(&rows(&[("1", "a"), ("9", "z")]))[..20]);
    lake.land("dt=2024-05-01/hr=10/min=03/c.ndjson", rows(&[("3", "c")]));
    let batch = lake.once(SECOND);
    assert_eq!(batch["quarantined"].as_array().map(Vec::len), Some(1), "{batch}");
    assert_eq!(lake.ids(), "1 2 3", "unreadable is not empty");
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson.gz", gzip(&rows(&[("4", "d")])));
    lake.once(THIRD);
    assert_eq!(lake.ids(), "2 3 4");
    assert_eq!(lake.json(&["status", "--json"])["quarantined"].as_array().map(Vec::len), Some(0));
    lake.verify_equal();
}

#[test]
fn empty_files_are_skipped_until_they_have_rows() {
    let lake = Lake::items();
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    lake.land("dt=2024-05-01/hr=10/min=02/empty.ndjson", "");
    let batch = lake.once(FIRST);
    assert_eq!(lake.ids(), "1");
    assert_eq!(batch["alarms"][0]["kind"], "empty_files");
    lake.land("dt=2024-05-01/hr=10/min=02/empty.ndjson", rows(&[("2", "b")]));
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", "");
    lake.once(SECOND);
    assert_eq!(lake.ids(), "1 2", "a file that lost its bytes keeps its rows");
}

#[test]
fn upsert_keeps_the_greatest_version_and_falls_back() {
    let toml = ITEMS.replace(
        "kind = \"append\"\ncolumns = { id = \"string\", v = \"string\" }",
        "kind = \"upsert\"\nkey = \"id\"\nversion = \"n\"\ndeleted = \"gone\"\nretain = \"window\"",
    );
    let lake = Lake::new(&toml, "SELECT id, v, n FROM items");
    lake.land("dt=2024-05-01/hr=10/min=01/a.ndjson", "{\"id\":\"7\",\"v\":\"one\",\"n\":1,\"gone\":false}\n");
    lake.land(
        "dt=2024-05-01/hr=10/min=01/b.ndjson",
        "{\"id\":\"7\",\"v\":\"two\",\"n\":2,\"gone\":true}\n{\"id\":null}\n",
    );
    let batch = lake.once(FIRST);
    assert_eq!(lake.ids(), "", "the newest row says deleted");
    assert_eq!(batch["rejected_rows"], 1, "a row without key: {batch}");
    lake.remove("dt=2024-05-01/hr=10/min=01/b.ndjson");
    lake.once(SECOND);
    assert_eq!(lake.documents()["7"]["v"], "one");
    lake.verify_equal();
}

#[test]
fn absent_keep_touches_owned_ids_only() {
    let toml = ITEMS.replace("path = \"./index\"", "path = \"./index\"\nabsent = \"keep\"").replace(
        "kind = \"append\"\ncolumns = { id = \"string\", v = \"string\" }",
        "kind = \"upsert\"\nkey = \"id\"\ndeleted = \"gone\"\nretain = \"window\"\n\
         columns = { id = \"string\", v = \"string\", gone = \"bool\" }",
    );
    let lake = Lake::new(&toml, "SELECT id, v FROM items");
    lake.land("dt=2024-05-01/hr=10/min=01/a.ndjson", rows(&[("1", "a"), ("2", "b")]));
    lake.land("dt=2024-05-01/hr=10/min=02/b.ndjson", rows(&[("3", "c")]));
    lake.once(FIRST);
    lake.remove("dt=2024-05-01/hr=10/min=01/a.ndjson");
    lake.once(SECOND);
    assert_eq!(lake.ids(), "1 2 3", "no row says anything of 1 and 2");
    lake.land("dt=2024-05-01/hr=10/min=04/c.ndjson", "{\"id\":\"3\",\"gone\":true}\n{\"id\":\"2\",\"v\":\"new\"}\n");
    lake.once(THIRD);
    assert_eq!(lake.ids(), "1 2");
    assert_eq!(lake.documents()["2"]["v"], "new");
    lake.verify_equal();
}

#[test]
fn captures_are_columns() {
    let toml = ITEMS.replace("layout = \"dt", "layout = \"city={city}/dt");
    let lake = Lake::new(&toml, "SELECT id, v, city FROM items");
    lake.land("city=San%20Francisco/dt=2024-05-01/hr=10/min=01/a.ndjson", rows(&[("1", "a")]));
    lake.land("city=__HIVE_DEFAULT_PARTITION__/dt=2024-05-01/hr=10/min=01/a.ndjson", rows(&[("2", "b")]));
    lake.once(FIRST);
    assert_eq!(lake.documents()["1"]["city"], "San Francisco");
    assert_eq!(lake.documents()["2"]["city"], serde_json::Value::Null);
}

#[test]
fn reference_source_follows_all_its_files() {
    let toml = format!(
        "{ITEMS}\n[source.names]\nlocation = \"./names\"\nformat = \"csv\"\nkind = \"reference\"\ncolumns = {{ v = \"string\", name = \"string\" }}\n"
    );
    let lake = Lake::new(&toml, "SELECT items.id, items.v, names.name FROM items LEFT JOIN names ON names.v = items.v");
    crate::lake::land(&lake.path("names/a.csv"), b"v,name\na,Anna\n");
    lake.land("dt=2024-05-01/hr=10/min=02/a.ndjson", rows(&[("1", "a")]));
    lake.once(FIRST);
    assert_eq!(lake.documents()["1"]["name"], "Anna");
    crate::lake::land(&lake.path("names/a.csv"), b"name,v\nBerta,a\n");
    lake.once(SECOND);
    assert_eq!(lake.documents()["1"]["name"], "Berta");
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}
