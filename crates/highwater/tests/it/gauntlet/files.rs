//! What becomes of files: A10, A11, A13 to A16, A29.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use serde_json::Value;

use super::server::{Deed, S3};
use super::{ALL, Case, Checks, TOML, at, changes};
use crate::lake::rows;

fn upsert_csv(options: &str) -> String {
    TOML.replace("\"ndjson\"", "\"csv\"").replace(
        "kind = \"append\"\ncolumns = { id = \"string\", v = \"string\" }",
        &format!("kind = \"upsert\"\nkey = \"id\"\nretain = \"window\"\n{options}"),
    )
}

#[test]
fn a10_content_encoding_gzip_is_inflated_once() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(rows(&[("1", "a"), ("2", "b")]).as_bytes()).unwrap();
    let stored = encoder.finish().unwrap();
    for headers in ["", "Content-Encoding: gzip\r\n"] {
        let s3 = S3::start();
        let case = Case::bucket(&TOML, &s3);
        s3.put_with(&format!("in/{}", at(0, "x.ndjson.gz")), stored.clone(), headers);
        let batch = case.tick("10:03");
        assert_eq!((changes(&batch), case.ids().as_str()), ((2, 0), "1 2"), "{headers:?}: {batch}");
        case.check("10:03", Checks { rows: Some(2), ..ALL });
    }
}

#[test]
fn a11_deleted_file_takes_its_documents_along() {
    let case = Case::items();
    case.land(0, "a.ndjson", rows(&[("1", "a"), ("2", "a")]));
    case.land(0, "b.ndjson", rows(&[("3", "b")]));
    case.tick("10:03");
    case.remove(0, "a.ndjson");
    assert_eq!(changes(&case.tick("10:04")), (0, 2));
    assert_eq!(case.ids(), "3");
    case.check("10:04", Checks { rows: Some(1), ..ALL });
}

/// An object above 8 MiB is read in ranges; the key is another object before the second one.
#[test]
fn a13_file_overwritten_while_it_is_read() {
    let key = format!("in/{}", at(0, "big.ndjson"));
    let version = |word: &str, length: usize| -> String {
        let value = word.to_owned() + &"x".repeat(length);
        (0..20).map(|n| rows(&[(&n.to_string(), &value)])).collect()
    };
    let s3 = S3::start();
    let case = Case::bucket(&TOML, &s3);
    fs::write(case.lake.path("document.sql"), "SELECT id, left(v, 3) AS v FROM items").unwrap();
    s3.put(&key, version("one", 500_000));
    let (began, swapped) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let (server, object, newer) = (s3.clone(), key.clone(), version("two", 499_990));
    s3.script(move |asked| {
        match asked.range() {
            Some(range) if range.start == 0 => began.store(true, Ordering::SeqCst),
            Some(_) => {
                while !began.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                if !swapped.swap(true, Ordering::SeqCst) {
                    server.put(&object, newer.clone());
                }
            }
            None => {}
        }
        Deed::Serve
    });
    case.tick("10:03");
    let values = case.values();
    assert_eq!(values.len(), 20);
    assert!(values.values().all(|v| v == "two"), "a mix, or the version that is gone: {values:?}");
    let reads: Vec<_> = s3.asked().into_iter().filter(|asked| asked.gets(&key)).collect();
    assert!(reads.len() >= 4 && reads.iter().all(|asked| asked.header("if-match").len() == 34), "{reads:?}");
    case.check("10:03", Checks { rows: Some(20), ..ALL });
}

#[test]
fn a14_replaced_file_of_the_same_name() {
    let case = Case::local(&TOML.replace("\"ndjson\"", "\"csv\""), "SELECT id, v FROM items");
    case.land(0, "other.csv", "id,v\n9,x\n");
    case.land(0, "sales.csv", "id,v\n1,old\n2,old\n");
    case.tick("10:03");
    case.land(0, "sales.csv", "id,v\n1,new\n");
    assert_eq!(changes(&case.tick("10:04")), (1, 1));
    assert_eq!(case.values(), [("1".into(), "new".into()), ("9".into(), "x".into())].into());
    case.check("10:04", Checks { rows: Some(2), ..ALL });

    case.remove(0, "sales.csv");
    case.tick("10:05");
    assert_eq!(case.ids(), "9");
    case.land(0, "sales.csv", "id,v\n1,new\n");
    assert_eq!(changes(&case.tick("10:06")), (1, 0), "the very bytes of before");
    assert_eq!(case.ids(), "1 9");
    case.check("10:06", Checks { rows: Some(2), ..ALL });
}

/// Renamed over within the same moment: the name, the length and the time of writing stay.
#[test]
fn a15_same_path_size_and_time() {
    let case = Case::local(&TOML.replace("\"ndjson\"", "\"csv\""), "SELECT id, v FROM items");
    for round in 0..20 {
        let value = format!("{round:03}");
        case.land(0, "a.csv", format!("id,v\n1,{value}\n"));
        case.tick(&format!("10:03:{round:02}"));
        assert_eq!(case.values()["1"], value);
    }
    case.check("10:03:20", Checks { rows: Some(1), ..ALL });
}

/// The log is made of names that are created only if absent: an equal record, put over a lost one, changes nothing.
#[test]
fn a15_the_log_does_not_go_by_times() {
    let case = Case::items();
    case.land(0, "a.ndjson", rows(&[("1", "a")]));
    case.tick("10:03");
    let log = case.lake.path("state/items/log");
    let name = format!("{:020}.json", case.numbers("batch")[0]);
    let bytes = fs::read(log.join(&name)).unwrap();
    fs::write(log.join("copy"), &bytes).unwrap();
    fs::rename(log.join("copy"), log.join(&name)).unwrap();
    assert_eq!(case.tick("10:03")["mode"], "none");
    case.land(0, "b.ndjson", rows(&[("2", "b")]));
    case.tick("10:04");
    assert_eq!(fs::read(log.join(&name)).unwrap(), bytes, "no record is ever written over");
    case.check("10:04", Checks { rows: Some(2), ..ALL });
}

#[test]
fn a16_one_id_in_two_files() {
    let toml = upsert_csv(
        "version = \"n\"\ndeleted = \"is_deleted\"\n\
         columns = { id = \"string\", v = \"string\", n = \"int64\", is_deleted = \"bool\" }",
    );
    for (first, second) in [("2018.csv", "2018_001.csv"), ("2018_001.csv", "2018.csv")] {
        let case = Case::local(&toml, "SELECT id, v FROM items");
        case.land(0, "other.csv", "id,v,n,is_deleted\n9,x,1,false\n");
        case.land(0, first, "id,v,n,is_deleted\n7,one,1,false\n");
        case.land(0, second, "id,v,n,is_deleted\n7,two,2,true\n");
        case.tick("10:03");
        assert_eq!(case.ids(), "9", "{first} then {second}: the newest version says deleted");
        case.check("10:03", ALL);
    }
}

#[test]
fn a16_the_other_copy_of_an_id_comes_back() {
    let toml = upsert_csv("version = \"n\"\ncolumns = { id = \"string\", v = \"string\", n = \"int64\" }");
    let case = Case::local(&toml, "SELECT id, v FROM items");
    case.land(0, "2018.csv", "id,v,n\n7,one,1\n");
    case.land(1, "2018_001.csv", "id,v,n\n7,two,2\n");
    case.tick("10:04");
    assert_eq!(case.values()["7"], "two");
    case.remove(1, "2018_001.csv");
    assert_eq!(changes(&case.tick("10:05")), (1, 0), "written, not deleted");
    assert_eq!(case.values()["7"], "one");
    case.check("10:05", ALL);

    // Where the other copy left with its partition, as `retain = "window"` says, nothing is left of the id.
    case.lake.land("dt=2024-05-01/hr=13/min=01/2018_001.csv", "id,v,n\n7,two,2\n");
    case.lake.land("dt=2024-05-01/hr=13/min=01/other.csv", "id,v,n\n9,x,1\n");
    case.tick("13:04");
    assert_eq!(case.values()["7"], "two");
    case.lake.remove("dt=2024-05-01/hr=13/min=01/2018_001.csv");
    assert_eq!(changes(&case.tick("13:05")), (0, 1));
    assert_eq!(case.ids(), "9");
    case.check("13:05", Checks { left_out: &[&at(0, "2018")], ..ALL });
}

fn parquet_in_groups(rows: &[(i64, &str)], a_group: usize) -> Vec<u8> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)));
    let batch = RecordBatch::try_from_iter([("id", ids), ("v", values)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    for start in (0..rows.len()).step_by(a_group) {
        writer.write(&batch.slice(start, a_group.min(rows.len() - start))).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    bytes
}

/// Without a version the last row by partition, path and row wins; of documents with one id, the one with the greatest
/// bytes, and the others are counted.
#[test]
fn a29_duplicate_keys_in_one_partition() {
    let row_groups = |size: usize| parquet_in_groups(&[(1, "Hello"), (1, "Hello"), (1, "Goodbye")], size);
    let upsert = upsert_csv("columns = { id = \"int64\", v = \"string\" }").replace("\"csv\"", "\"parquet\"");
    let append = TOML.replace("\"ndjson\"", "\"parquet\"").replace("id = \"string\"", "id = \"int64\"");
    for a_group in [3, 1] {
        for processors in ["0", "0-7"] {
            let on = |case: &Case| -> Value {
                let once = ["once", "--json", "--now", "2024-05-01T10:03:00Z"];
                let mut pinned = std::process::Command::new("taskset");
                pinned.args(["-c", processors, crate::lake::BINARY]).args(once).current_dir(case.lake.path("."));
                serde_json::from_slice(&pinned.output().unwrap().stdout).unwrap()
            };
            let case = Case::local(&upsert, "SELECT CAST(id AS TEXT) AS id, v FROM items");
            case.land(0, "x.parquet", row_groups(a_group));
            assert_eq!(on(&case)["upserts"], 1);
            assert_eq!(case.values(), [("1".into(), "Goodbye".into())].into());
            if a_group == 1 {
                case.check("10:03", ALL);
            }

            let case = Case::local(&append, "SELECT CAST(id AS TEXT) AS id, v FROM items");
            case.land(0, "x.parquet", row_groups(a_group));
            let batch = on(&case);
            assert_eq!((&batch["upserts"], &batch["duplicate_ids"]), (&1.into(), &2.into()), "{batch}");
            assert_eq!(case.values(), [("1".into(), "Hello".into())].into());
            if a_group == 1 {
                case.check("10:03", Checks { rows: Some(3), ..ALL });
            }
        }
    }
}
