//! Finding files and moving the watermark: A01, A04 to A09, A20.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use super::server::{Deed, End, S3};
use super::{ALL, Case, Checks, LIMIT, TOML, at, changes, clock};
use crate::lake::{eventually, rows};

fn minute_00(count: usize) -> S3 {
    let s3 = S3::with_pages_of(100);
    for n in 0..count {
        s3.put(&format!("in/{}", at(0, &format!("{n:04}.ndjson"))), rows(&[(&n.to_string(), "a")]));
    }
    s3
}

fn claims_only(case: &Case) -> bool {
    case.numbers("batch").is_empty() && case.numbers("advance").is_empty()
}

#[test]
fn a01_aborted_scan_moves_nothing() {
    let s3 = minute_00(209);
    let case = Case::bucket(&TOML, &s3);
    case.tick("10:03");
    let before = (case.lake.dump(), case.numbers("batch"), case.status()["watermark"].clone());
    // The last of three pages has news; the second does not come.
    case.land(0, "9999.ndjson", rows(&[("late", "a")]));
    s3.script(|asked| match asked.query("continuation-token").contains("/0099") {
        true => Deed::Refuse(503, "SlowDown"),
        false => Deed::Serve,
    });
    let said = case.tick_fails("10:04", 5);
    assert!(said.contains("SlowDown"), "{said}");
    assert_eq!((case.lake.dump(), case.numbers("batch"), case.status()["watermark"].clone()), before);
    assert_eq!(case.numbers("advance"), [0_u64; 0]);
    s3.behave();
    assert_eq!(changes(&case.tick("10:05")), (1, 0));
    case.check("10:05", Checks { rows: Some(210), ..ALL });
}

#[test]
fn a04_later_file_is_not_committed_without_the_earlier() {
    let toml = TOML.replace("\"ndjson\"", "\"csv\"");
    let fresh = || {
        let s3 = S3::start();
        let case = Case::bucket(&toml, &s3);
        case.land(0, "a.csv", "id,v\n1,a\n");
        case.land(0, "b.csv", "id,v\n2,b\n");
        (s3, case)
    };
    let (s3, case) = fresh();
    let resets = AtomicUsize::new(0);
    s3.script(move |asked| match asked.key.ends_with("a.csv") && resets.fetch_add(1, Ordering::SeqCst) == 0 {
        true => Deed::Cut(5, End::Reset),
        false => Deed::Serve,
    });
    case.tick("10:03");
    assert_eq!(case.ids(), "1 2");
    case.check("10:03", Checks { rows: Some(2), ..ALL });

    // Killed while a has not come, and b has.
    let (s3, case) = fresh();
    let b_is_read = Arc::new(AtomicBool::new(false));
    let seen = b_is_read.clone();
    s3.script(move |asked| {
        if asked.key.ends_with("a.csv") {
            wait_for_ever();
        }
        if asked.key.ends_with("b.csv") {
            seen.store(true, Ordering::SeqCst);
        }
        Deed::Serve
    });
    let run = case.lake.spawn(&["once", "--now", &clock("10:03")]);
    eventually("b to be read", LIMIT, || b_is_read.load(Ordering::SeqCst).then_some(()));
    run.kill();
    assert!(claims_only(&case), "nothing says that the minute is complete");
    s3.behave();
    case.tick("10:03");
    assert_eq!(case.ids(), "1 2");
    case.check("10:03", Checks { rows: Some(2), ..ALL });
}

fn wait_for_ever() {
    loop {
        std::thread::park();
    }
}

#[test]
fn a05_more_keys_than_a_page_holds() {
    fn misses_token(text: String) -> String {
        let text = text.replace("<IsTruncated>false", "<IsTruncated>true");
        text.split("<NextContinuationToken>").next().unwrap().trim_end_matches("</ListBucketResult>").to_owned()
            + "</ListBucketResult>"
    }
    fn repeats_token(text: String) -> String {
        let start = text.split("<NextContinuationToken>").next().unwrap().trim_end_matches("</ListBucketResult>");
        let start = start.replace("<IsTruncated>false", "<IsTruncated>true");
        format!("{start}<NextContinuationToken>same</NextContinuationToken></ListBucketResult>")
    }
    let s3 = minute_00(251);
    let case = Case::bucket(&TOML, &s3);
    s3.script(|asked| {
        match asked.query.contains_key("start-after") && asked.query.contains_key("continuation-token") {
            true => Deed::Refuse(400, "InvalidArgument"),
            false => Deed::Serve,
        }
    });
    let batch = case.tick("10:03");
    assert_eq!((&batch["upserts"], &batch["files_read"]), (&251.into(), &251.into()), "each key once");
    let before = (case.lake.dump(), case.records().len());
    for (edit, asked_at_most) in [(repeats_token as fn(String) -> String, 2), (misses_token, 1)] {
        s3.script(move |asked| if asked.is_list() { Deed::Edit(edit) } else { Deed::Serve });
        let before = s3.asked().len();
        let said = case.tick_fails("10:04", 5);
        assert!(said.contains("token"), "{said}");
        let mut asked = BTreeMap::new();
        for request in s3.asked().iter().skip(before) {
            *asked.entry(request.query("prefix").to_owned()).or_insert(0) += 1;
        }
        assert!(asked.len() > 1 && asked.values().all(|times| *times <= asked_at_most), "{asked:?}");
    }
    assert_eq!((case.lake.dump(), case.records().len()), (before.0, before.1 + 2), "two claims, nothing else");
    s3.behave();
    case.check("10:05", Checks { rows: Some(251), ..ALL });
}

/// highwater has no cap on files, so there is no middle of a partition to resume in: a crash between any two reads, and
/// one between the index's commit and the record, lose nothing and write nothing twice.
#[test]
fn a06_crash_between_any_two_reads() {
    let names = ["f1", "f2", "f3", "f4", "f5"];
    let fresh = || {
        let s3 = S3::start();
        let case = Case::bucket(&TOML, &s3);
        for (n, name) in names.iter().enumerate() {
            case.land(0, &format!("{name}.ndjson"), rows(&[(&(n + 1).to_string(), "a")]));
        }
        (s3, case)
    };
    for complete in 0..names.len() {
        let (s3, case) = fresh();
        let read = Arc::new(AtomicUsize::new(0));
        let count = read.clone();
        s3.script(move |asked| {
            if !asked.is_list() && asked.method == "GET" && count.fetch_add(1, Ordering::SeqCst) >= complete {
                wait_for_ever();
            }
            Deed::Serve
        });
        let run = case.lake.spawn(&["once", "--now", &clock("10:03")]);
        eventually("the reads", LIMIT, || (read.load(Ordering::SeqCst) > complete).then_some(()));
        run.kill();
        assert!(claims_only(&case), "after {complete} files: a part of a minute is no progress");
        s3.behave();
        assert_eq!(changes(&case.tick("10:03")), (5, 0));
        assert_eq!(case.ids(), "1 2 3 4 5");
        if complete == 3 {
            case.check("10:03", Checks { rows: Some(5), ..ALL });
        }
    }
}

#[test]
fn a06_crash_between_the_commit_and_the_record() {
    let case = Case::items();
    for n in 1..=5 {
        case.land(0, &format!("f{n}.ndjson"), rows(&[(&n.to_string(), "a")]));
    }
    case.tick("10:03");
    // What a process leaves behind that dies there: the index has the batch, the log does not.
    let name = format!("{:020}.json", case.numbers("batch")[0]);
    std::fs::remove_file(case.lake.path("state/items/log").join(name)).unwrap();
    assert_eq!(changes(&case.tick("10:03")), (0, 0), "found by hash, not written again");
    assert_eq!(case.ids(), "1 2 3 4 5");
    case.check("10:03", Checks { rows: Some(5), ..ALL });
}

#[test]
fn a07_files_of_one_second() {
    let run = |seconds: [u64; 3]| {
        let case = Case::items();
        let land = |name: &str, second: u64| {
            case.land(0, &format!("{name}.ndjson"), rows(&[(name, "x")]));
            let file = std::fs::File::options()
                .write(true)
                .open(case.lake.path("lake").join(at(0, &format!("{name}.ndjson"))));
            let modified = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_714_557_600 + second);
            file.unwrap().set_modified(modified).unwrap();
        };
        land("a", seconds[0]);
        case.tick("10:03");
        land("b", seconds[1]);
        land("c", seconds[2]);
        let batch = case.tick("10:04");
        assert_eq!((changes(&batch), &batch["unchanged"]), ((2, 0), &1.into()), "{batch}");
        assert_eq!(case.ids(), "a b c");
        case.check("10:04", Checks { rows: Some(3), ..ALL });
        case.lake.dump()
    };
    assert_eq!(run([5, 5, 5]), run([9, 2, 7]), "times of writing mean nothing");
}

/// highwater has no cap on files: what may be skipped is time behind the window, and then it is written down.
#[test]
fn a08_a_backlog_is_taken_in_or_written_down() {
    let backlog = |window: &str| {
        let case = Case::local(&TOML.replace("window = \"3h\"", window), "SELECT id, v FROM items");
        case.lake.land("dt=2024-05-01/hr=09/min=59/first.ndjson", rows(&[("first", "a")]));
        case
    };
    let fill = |case: &Case| {
        for n in 0..10 {
            case.land(n, "f.ndjson", rows(&[(&n.to_string(), "a")]));
        }
    };
    let case = backlog("window = \"15m\"");
    fill(&case);
    let batch = case.tick("10:12");
    assert_eq!((&batch["upserts"], &batch["holes"]), (&11.into(), &Value::Array(vec![])), "{batch}");
    case.check("10:12", Checks { rows: Some(11), ..ALL });

    let case = backlog("window = \"3m\"");
    assert_eq!(case.tick("10:02")["watermark"], "2024-05-01T10:00:00Z");
    fill(&case);
    let batch = case.tick("10:12");
    assert_eq!(case.ids(), "7 8 9");
    assert_eq!(batch["holes"].as_array().map(Vec::len), Some(1), "{batch}");
    for hole in [&batch["holes"][0], &case.status()["holes"][0]] {
        assert_eq!(hole["cause"], "passed_over");
        assert_eq!((&hole["from"], &hole["to"]), (&"2024-05-01T10:00:00Z".into(), &"2024-05-01T10:07:00Z".into()));
    }
    let skipped: Vec<String> = (0..7).map(|n| at(n, "")).chain(["dt=2024-05-01/hr=09".to_owned()]).collect();
    let left_out: Vec<&str> = skipped.iter().map(String::as_str).collect();
    case.check("10:12", Checks { rebuilds: false, left_out: &left_out, ..ALL });
}

#[test]
fn a09_late_file_with_an_early_time() {
    let case = Case::items();
    case.land(0, "small.ndjson", rows(&[("1", "a")]));
    case.tick("10:03");
    // Written before the small one, visible after it.
    case.land(0, "big.ndjson", rows(&[("2", "b")]));
    let file = std::fs::File::options().write(true).open(case.lake.path("lake").join(at(0, "big.ndjson"))).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(changes(&case.tick("10:07")), (1, 0));
    assert_eq!(case.ids(), "1 2");
    case.check("10:07", Checks { rows: Some(2), ..ALL });
}

fn hourly(zone: &str) -> Case {
    let toml = TOML.replace("step = \"1m\"", &format!("step = \"1h\"\ntime_zone = \"{zone}\"")).replace("/min=%M", "");
    Case::local(&toml, "SELECT id, v FROM items")
}

fn watermark(batch: &Value) -> &str {
    batch["watermark"].as_str().unwrap()
}

#[test]
fn a20_a_day_of_23_hours() {
    let case = hourly("Europe/Berlin");
    case.lake.land("dt=2024-03-31/hr=01/a.ndjson", rows(&[("1", "a")]));
    assert_eq!(watermark(&case.tick("2024-03-31T01:01:59Z")), "2024-03-31T00:00:00Z", "01:00 in Berlin");
    assert_eq!(watermark(&case.tick("2024-03-31T01:02:00Z")), "2024-03-31T01:00:00Z", "03:00: there is no hour 02");
    case.lake.land("dt=2024-03-31/hr=03/b.ndjson", rows(&[("3", "b")]));
    assert_eq!(watermark(&case.tick("2024-03-31T02:02:00Z")), "2024-03-31T02:00:00Z", "04:00");
    assert_eq!(case.ids(), "1 3");
    case.check("2024-03-31T02:02:00Z", Checks { rows: Some(2), ..ALL });
}

#[test]
fn a20_a_day_of_25_hours() {
    let case = hourly("Europe/Berlin");
    case.lake.land("dt=2024-10-27/hr=02/a.ndjson", rows(&[("1", "a")]));
    assert_eq!(watermark(&case.tick("2024-10-27T00:30:00Z")), "2024-10-27T00:00:00Z", "the first 02:30");
    assert_eq!(watermark(&case.tick("2024-10-27T01:02:00Z")), "2024-10-27T00:00:00Z", "02:02 again");
    case.lake.land("dt=2024-10-27/hr=02/b.ndjson", rows(&[("2", "b")]));
    assert_eq!(changes(&case.tick("2024-10-27T01:40:00Z")), (1, 0));
    assert_eq!(watermark(&case.tick("2024-10-27T02:02:00Z")), "2024-10-27T02:00:00Z", "03:00, once");
    assert_eq!(case.ids(), "1 2");
    case.check("2024-10-27T02:02:00Z", Checks { rows: Some(2), ..ALL });
}

#[test]
fn a20_an_offset_of_half_an_hour() {
    for (zone, before, after) in [
        ("Asia/Kolkata", "2024-05-01T09:30:00Z", "2024-05-01T10:30:00Z"),
        ("UTC", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00Z"),
    ] {
        let case = hourly(zone);
        let hour = if zone == "UTC" { "10" } else { "15" };
        case.lake.land(&format!("dt=2024-05-01/hr={hour}/a.ndjson"), rows(&[("1", "a")]));
        assert_eq!(watermark(&case.tick("10:31:59")), before, "{zone}");
        assert_eq!(watermark(&case.tick("10:32:00")), after, "{zone}");
        case.check("10:32:00", Checks { rows: Some(1), ..ALL });
    }
}
