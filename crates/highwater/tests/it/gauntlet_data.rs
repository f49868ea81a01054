//! The gauntlet's cases of formats and values, through the real binary: see `src/format/tests/gauntlet.rs` for the same
//! ones at the readers.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use parquet::arrow::ArrowWriter;
use parquet::data_type::{Int64Type, Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use crate::lake::{ITEMS, Lake, rows, text};

const MINUTE: &str = "dt=2024-05-01/hr=10/min=00";

const TEXT_ID: &str = "SELECT CAST(id AS VARCHAR) AS id FROM items";

/// Files of this format; types are learnt.
fn lake(format: &str, sql: &str) -> Lake {
    let toml = ITEMS.replace("format = \"ndjson\"", &format!("format = \"{format}\""));
    Lake::new(&toml.replace("columns = { id = \"string\", v = \"string\" }", ""), sql)
}

fn file(name: &str) -> String {
    format!("{MINUTE}/{name}")
}

/// Nothing more to do, and the same index from nothing.
fn steady(lake: &Lake, now: &str) {
    let before = lake.dump();
    let again = lake.once(now);
    assert_eq!(
        (&again["mode"], &again["upserts"], &again["deletes"]),
        (&"none".into(), &0.into(), &0.into()),
        "{again}"
    );
    lake.verify_equal();
    for folder in ["state", "index"] {
        fs::remove_dir_all(lake.path(folder)).unwrap();
    }
    lake.once(now);
    assert_eq!(lake.dump(), before, "a rebuild gives the same index");
}

fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn array<A: Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

fn ids(values: &[i64]) -> Vec<u8> {
    parquet(vec![("id", array(Int64Array::from(values.to_vec())))])
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn quarantined(batch: &Value) -> Vec<String> {
    let files = batch["quarantined"].as_array().unwrap().iter();
    files.map(|one| format!("{}: {}", one["path"].as_str().unwrap(), one["reason"].as_str().unwrap())).collect()
}

fn alarm<'b>(batch: &'b Value, kind: &str) -> Option<&'b str> {
    let alarm = batch["alarms"].as_array().unwrap().iter().find(|alarm| alarm["kind"] == kind)?;
    alarm["detail"].as_str()
}

#[test]
fn a12_gzip_with_several_members() {
    let lake = lake("ndjson", TEXT_ID);
    let members = [gzip(b"{\"id\":1}\n"), gzip(b"{\"id\":2}\n"), gzip(b"{\"id\":3}\n")].concat();
    lake.land(&file("x.ndjson.gz"), &members);
    lake.land(&file("cut.ndjson.gz"), &members[..members.len() - 3]);
    let batch = lake.once("2024-05-01T10:01:30Z");
    let named = quarantined(&batch);
    assert!(named.len() == 1 && named[0].contains("cut.ndjson.gz: its stream breaks off after line"), "{named:?}");
    assert_eq!(lake.ids(), "1 2 3");
    // A file in quarantine is tried again by each `once`.
    lake.remove(&file("cut.ndjson.gz"));
    lake.once("2024-05-01T10:02:30Z");
    steady(&lake, "2024-05-01T10:02:30Z");
}

#[test]
fn a17_truncated_parquet_is_quarantined_until_it_is_whole() {
    let lake = lake("parquet", TEXT_ID);
    let whole = ids(&[2]);
    let cut = &whole[..whole.len() - 8];
    lake.land(&file("ok.parquet"), ids(&[1]));
    lake.land(&file("cut.parquet"), cut);
    let batch = lake.once("2024-05-01T10:01:30Z");
    let named = quarantined(&batch);
    assert!(named.len() == 1 && named[0].contains("cut.parquet: its Parquet footer cannot be read"), "{named:?}");
    assert_eq!(lake.ids(), "1");
    lake.land(&file("cut.parquet"), &whole);
    lake.once("2024-05-01T10:02:30Z");
    assert_eq!(lake.ids(), "1 2");
    steady(&lake, "2024-05-01T10:02:30Z");
    // Unreadable is not empty: what was indexed of it stays.
    lake.land(&file("cut.parquet"), cut);
    let batch = lake.once("2024-05-01T10:03:30Z");
    assert_eq!((quarantined(&batch).len(), &batch["deletes"]), (1, &0.into()), "{batch}");
    assert_eq!(lake.ids(), "1 2");
    assert!(lake.json(&["status", "--json"])["quarantined"][0]["reason"].as_str().unwrap().contains("footer"));
}

#[test]
fn a18_files_without_bytes_or_rows_are_skipped_by_name() {
    let avro = |id: Option<u8>| {
        let schema = r#"{"type":"record","name":"r","fields":[{"name":"id","type":"long"}]}"#;
        let mut file = b"Obj\x01\x02\x16avro.schema".to_vec();
        file.extend([(schema.len() * 2) as u8 | 0x80, (schema.len() >> 6) as u8]);
        file.extend(schema.as_bytes());
        file.push(0);
        file.extend([7; 16]);
        if let Some(id) = id {
            file.extend([2, 2, id * 2]);
            file.extend([7; 16]);
        }
        file
    };
    let csv = |ids: &str| format!("id\n{ids}").into_bytes();
    let json = |id: u8| format!("{{\"id\":{id}}}\n").into_bytes();
    for (format, extension, good, more, none) in [
        ("parquet", "parquet", [ids(&[1]), ids(&[2])], ids(&[3]), ids(&[])),
        ("ndjson", "ndjson", [json(1), json(2)], json(3), b"\n".to_vec()),
        ("ndjson", "ndjson.gz", [gzip(&json(1)), gzip(&json(2))], gzip(&json(3)), gzip(b"")),
        ("csv", "csv", [csv("1\n"), csv("2\n")], csv("3\n"), csv("")),
        ("avro", "avro", [avro(Some(1)), avro(Some(2))], avro(Some(3)), avro(None)),
    ] {
        let lake = lake(format, TEXT_ID);
        let [one, two] = good;
        lake.land(&file(&format!("one.{extension}")), one);
        lake.land(&file(&format!("two.{extension}")), two);
        lake.land(&file(&format!("none.{extension}")), none);
        lake.land(&file(&format!("empty.{extension}")), "");
        let batch = lake.once("2024-05-01T10:01:30Z");
        assert_eq!(lake.ids(), "1 2", "{extension}: {batch}");
        assert_eq!(quarantined(&batch), Vec::<String>::new(), "{extension}");
        let told = alarm(&batch, "empty_files").unwrap();
        assert!(told.starts_with("1 files hold no bytes") && told.contains("empty."), "{told}");
        lake.land(&file(&format!("empty.{extension}")), more);
        let batch = lake.once("2024-05-01T10:02:30Z");
        assert_eq!((lake.ids().as_str(), alarm(&batch, "empty_files")), ("1 2 3", None), "{extension}");
        steady(&lake, "2024-05-01T10:02:30Z");
    }
}

#[test]
fn a21_partition_values_that_are_null_or_empty() {
    let toml = ITEMS.replace("hr=%H/min=%M", "hr=%H/year={year}").replace("\"1m\"", "\"1h\"");
    let lake = Lake::new(&toml, "SELECT id, CAST(year AS INT) AS year FROM items");
    let hour = "dt=2024-05-01/hr=10";
    for (id, path) in [
        ("1", "year=2002/a.ndjson"),
        ("2", "year=__HIVE_DEFAULT_PARTITION__/b.ndjson"),
        ("3", "year=/c.ndjson"),
        ("4", "d.ndjson"),
    ] {
        lake.land(&format!("{hour}/{path}"), rows(&[(id, "x")]));
    }
    let batch = lake.once("2024-05-01T11:01:00Z");
    let years: Vec<String> = lake.documents().iter().map(|(id, one)| format!("{id} {}", one["year"])).collect();
    assert_eq!(years, ["1 2002", "2 null", "3 null"], "{batch}");
    let told = alarm(&batch, "misplaced_files").unwrap();
    assert!(told.contains("d.ndjson"), "{told}");
    assert!(!lake.dump().contains("HIVE"));
    steady(&lake, "2024-05-01T11:01:00Z");
}

#[test]
fn a23_csv_columns_reordered_or_added() {
    let lake = lake("csv", "SELECT * FROM items");
    let files = [("x", "id,a,b\n1,A,B\n"), ("y", "id,b,a\n2,B,A\n"), ("z", "id,a,b,c\n3,A,B,C\n"), ("w", "id,a,b\n")];
    for (name, text) in files {
        lake.land(&file(&format!("{name}.csv")), text);
    }
    lake.once("2024-05-01T10:01:30Z");
    let expected = concat!(
        "{\"a\":\"A\",\"b\":\"B\",\"c\":null,\"id\":1}\n",
        "{\"a\":\"A\",\"b\":\"B\",\"c\":null,\"id\":2}\n",
        "{\"a\":\"A\",\"b\":\"B\",\"c\":\"C\",\"id\":3}\n",
    );
    assert_eq!(lake.dump(), expected);
    steady(&lake, "2024-05-01T10:01:30Z");
}

#[test]
fn a24_json_key_or_type_first_seen_late() {
    let line = |n: usize| match n {
        0..100 => format!("{{\"id\":\"{n}\",\"c\":1}}\n"),
        _ => format!("{{\"id\":\"{n}\",\"b\":1,\"c\":\"007\"}}\n"),
    };
    let forwards: String = (0..1000).map(line).collect();
    let backwards: String = (0..1000).rev().map(line).collect();
    let mut dumps = Vec::new();
    for (text, first, second) in [(&forwards, "1", "2"), (&backwards, "2", "1")] {
        let lake = lake("ndjson", "SELECT * FROM items");
        lake.land(&file("a.ndjson"), text);
        lake.land(&file(&format!("n{first}.ndjson")), "{\"id\":\"n1\",\"u\":null}\n");
        lake.land(&file(&format!("n{second}.ndjson")), "{\"id\":\"n2\",\"u\":\"x\"}\n");
        lake.once("2024-05-01T10:01:30Z");
        let documents = lake.documents();
        assert_eq!(documents.values().filter(|one| one["b"] == 1).count(), 900);
        assert_eq!((&documents["999"]["c"], &documents["5"]["c"]), (&"007".into(), &"1".into()));
        assert_eq!((&documents["n1"]["u"], &documents["n2"]["u"]), (&Value::Null, &"x".into()));
        dumps.push(lake.dump());
        steady(&lake, "2024-05-01T10:01:30Z");
    }
    assert_eq!(dumps[0], dumps[1], "the order of lines and files plays no part");
}

#[test]
fn a25_one_malformed_json_line() {
    let good = |from: usize| (from..from + 100).map(|n| format!("{{\"id\":\"{n}\",\"b\":1}}\n")).collect::<String>();
    let bad = format!("{}{{\"id\":101,\"b\":NaN}}\n{}\n{{\"id\":\"999\",\"b\":1}}", good(0), good(200));
    let cut = "{\"id\":\"c1\"}\n{\"id\":\"c2\"}\n{\"id\":\"c3\"}\n{\"id\":9,\"b";
    let lake = lake("ndjson", "SELECT * FROM items");
    lake.land(&file("m.ndjson"), &bad);
    lake.land(&file("t.ndjson"), cut);
    let batch = lake.once("2024-05-01T10:01:30Z");
    assert_eq!((&batch["documents"], &batch["rejected_rows"]), (&204.into(), &2.into()), "{batch}");
    let named: Vec<String> = (batch["rejected"].as_array().unwrap().iter())
        .map(|one| format!("{} {}", one["path"].as_str().unwrap(), one["row"]))
        .collect();
    assert_eq!(named, [format!("{MINUTE}/m.ndjson 101"), format!("{MINUTE}/t.ndjson 4")]);
    steady(&lake, "2024-05-01T10:01:30Z");
}

#[test]
fn a25_no_rejected_row_allowed_means_nothing_of_the_file() {
    let toml = ITEMS.replace("format = \"ndjson\"", "format = \"ndjson\"\nmax_rejects = 0");
    let lake = Lake::new(&toml, "SELECT id, v FROM items");
    lake.land(&file("good.ndjson"), rows(&[("1", "a")]));
    lake.land(&file("bad.ndjson"), "{\"id\":\"2\",\"v\":\"b\"}\n{\"id\":\"3\",\"v\":NaN}\n");
    let batch = lake.once("2024-05-01T10:01:30Z");
    let named = quarantined(&batch);
    let reason = "bad.ndjson: 1 of 2 rows rejected, more than the 0 allowed: row 2: the line is not a JSON object";
    assert!(named.len() == 1 && named[0].contains(reason), "{named:?}");
    assert_eq!(lake.ids(), "1");
    lake.land(&file("bad.ndjson"), "{\"id\":\"2\",\"v\":\"b\"}\n{\"id\":\"3\",\"v\":null}\n");
    lake.once("2024-05-01T10:02:30Z");
    assert_eq!(lake.ids(), "1 2 3");
    steady(&lake, "2024-05-01T10:02:30Z");
}

#[test]
fn a26_quoted_newline_in_csv() {
    let lake = lake("csv", "SELECT id, t FROM items");
    let text: String = (0..5000).map(|n| format!("{n},\"line1\nline2 \"\"{n}\"\"\"\n")).collect();
    lake.land(&file("x.csv"), format!("id,t\n{text}"));
    let batch = lake.once("2024-05-01T10:01:30Z");
    assert_eq!((&batch["documents"], &batch["rejected_rows"]), (&5000.into(), &0.into()), "{batch}");
    for line in lake.dump().lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        assert_eq!(document["t"], format!("line1\nline2 \"{}\"", document["id"]));
    }
    steady(&lake, "2024-05-01T10:01:30Z");
}

#[test]
fn a27_schema_drift_to_a_wider_type() {
    let lake = lake("parquet", "SELECT id, n FROM items");
    let of = |id: i64, n: ArrayRef| parquet(vec![("id", array(Int64Array::from(vec![id]))), ("n", n)]);
    lake.land(&file("m1.parquet"), of(1, array(Int32Array::from(vec![1]))));
    lake.land(&file("m2.parquet"), of(2, array(Int64Array::from(vec![2]))));
    lake.land(&file("m3.parquet"), of(3, array(Float64Array::from(vec![3.0]))));
    lake.once("2024-05-01T10:01:30Z");
    assert_eq!(lake.dump(), "{\"id\":1,\"n\":1.0}\n{\"id\":2,\"n\":2.0}\n{\"id\":3,\"n\":3.0}\n");
    lake.land(&file("m1.parquet"), of(1, array(Int64Array::from(vec![1]))));
    let batch = lake.once("2024-05-01T10:02:30Z");
    let seen = (&batch["files_dropped"], &batch["upserts"], &batch["unchanged"]);
    assert_eq!(seen, (&1.into(), &0.into(), &3.into()), "another width is no other document: {batch}");
    steady(&lake, "2024-05-01T10:02:30Z");
}

/// `id`, and `t` as INT96: Julian day and nanoseconds of the day.
fn int96(rows: &[(i64, i32, u64)]) -> Vec<u8> {
    let schema = parse_message_type("message m { required int64 id; required int96 t; }").unwrap();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, Arc::new(schema), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
    column.close().unwrap();
    let time = |&(_, day, nanos): &(i64, i32, u64)| {
        let mut value = Int96::new();
        value.set_data(nanos as u32, (nanos >> 32) as u32, day as u32);
        value
    };
    let times: Vec<Int96> = rows.iter().map(time).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&times, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn a28_times_are_right_and_the_same_in_every_zone() {
    const TEN: i64 = 1_714_557_600_000_000;
    let sql = "SELECT id, t, CAST(t AS VARCHAR) AS text, CAST('2024-05-01 10:00:00' AS TIMESTAMP) AS fixed FROM items";
    let lake = lake("parquet", sql);
    let hour = 3_600_000_000_000;
    lake.land(
        &file("int96.parquet"),
        int96(&[(1, 5_373_484, 2 * hour), (2, 1_721_426, 0), (3, 2_547_340, 0), (6, i32::MAX, 0)]),
    );
    let of = |id: i64, t: TimestampMicrosecondArray| {
        parquet(vec![("id", array(Int64Array::from(vec![id]))), ("t", array(t))])
    };
    let zoned = TimestampMicrosecondArray::from(vec![TEN]).with_timezone("UTC");
    lake.land(&file("zoned.parquet"), of(4, zoned));
    lake.land(&file("naive.parquet"), of(5, TimestampMicrosecondArray::from(vec![TEN])));
    let mut dumps = Vec::new();
    for zone in ["UTC", "Asia/Seoul"] {
        for folder in ["state", "index"] {
            let _ = fs::remove_dir_all(lake.path(folder));
        }
        let told = lake.command(&["once", "--json", "--now", "2024-05-01T10:01:30Z"]).env("TZ", zone).output().unwrap();
        assert!(told.status.success(), "{}", text(&told));
        let batch: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!((&batch["documents"], &batch["rejected_rows"]), (&5.into(), &1.into()), "{batch}");
        assert_eq!(batch["rejected"][0]["row"], 4, "{batch}");
        dumps.push(lake.dump());
    }
    assert_eq!(dumps[0], dumps[1]);
    let times: Vec<String> = (dumps[0].lines())
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["t"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        times,
        [
            "9999-12-31T02:00:00Z",
            "0001-01-01T00:00:00Z",
            "2262-04-12T00:00:00Z",
            "2024-05-01T10:00:00Z",
            "2024-05-01T10:00:00Z",
        ]
    );
    // The whole index compared under one zone with what the other one wrote.
    lake.land(&file("more.parquet"), of(7, TimestampMicrosecondArray::from(vec![TEN])));
    let told =
        lake.command(&["once", "--json", "--now", "2024-05-01T10:02:30Z"]).env("TZ", "America/St_Johns").output();
    let batch: Value = serde_json::from_slice(&told.unwrap().stdout).unwrap();
    assert_eq!((&batch["upserts"], &batch["unchanged"]), (&1.into(), &5.into()), "{batch}");
    steady(&lake, "2024-05-01T10:02:30Z");
}

#[test]
fn values_without_a_json_number_are_null_in_documents() {
    let lake = lake("parquet", "SELECT id, f, f / 0.0 AS q FROM items");
    let floats = Float64Array::from(vec![f64::NAN, f64::INFINITY, -0.0, 1.5]);
    let names = StringArray::from(vec!["a", "b", "c", "d"]);
    lake.land(&file("f.parquet"), parquet(vec![("id", array(names)), ("f", array(floats))]));
    lake.once("2024-05-01T10:01:30Z");
    let expected = concat!(
        "{\"f\":null,\"id\":\"a\",\"q\":null}\n",
        "{\"f\":null,\"id\":\"b\",\"q\":null}\n",
        "{\"f\":0.0,\"id\":\"c\",\"q\":null}\n",
        "{\"f\":1.5,\"id\":\"d\",\"q\":null}\n",
    );
    assert_eq!(lake.dump(), expected);
    steady(&lake, "2024-05-01T10:01:30Z");
}
