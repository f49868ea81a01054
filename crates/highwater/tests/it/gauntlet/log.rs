//! The log in a bucket: A36, A37.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::server::{Deed, S3};
use super::{ALL, Case, Checks, LIMIT, TOML, at, changes, clock};
use crate::lake::{eventually, rows};

/// Lake and state in the bucket.
fn shared(s3: &S3) -> Case {
    Case::bucket(&TOML.replace("\"./state\"", "\"s3://lake/state\""), s3)
}

fn begun() -> (S3, Case) {
    let s3 = S3::start();
    let case = shared(&s3);
    case.land(0, "a.ndjson", rows(&[("1", "a")]));
    case.tick("10:03");
    case.land(1, "b.ndjson", rows(&[("2", "b")]));
    (s3, case)
}

#[test]
fn a36_put_whose_reply_is_lost() {
    for deed in [Deed::LoseReply, Deed::Refuse(409, "ConditionalRequestConflict")] {
        let (s3, case) = begun();
        let (name, tries) = (format!("{deed:?}"), AtomicUsize::new(0));
        s3.script(move |asked| match asked.puts_batch() && tries.fetch_add(1, Ordering::SeqCst) == 0 {
            true => deed.clone(),
            false => Deed::Serve,
        });
        assert_eq!(changes(&case.tick("10:04")), (1, 0), "{name}");
        s3.behave();
        assert_eq!(case.numbers("batch").len(), 2, "{name}: once each");
        case.land(2, "c.ndjson", rows(&[("3", "c")]));
        assert_eq!(changes(&case.tick("10:05")), (1, 0), "{name}: and on");
        assert_eq!(case.ids(), "1 2 3");
        case.check("10:05", Checks { rows: Some(3), ..ALL });
    }
}

#[test]
fn a36_number_that_is_anothers() {
    let (s3, case) = begun();
    let server = s3.clone();
    s3.script(move |asked| {
        if asked.puts_batch() {
            // Somebody else was faster: the number is a claim of theirs.
            let number: u64 = asked.key[asked.key.len() - 25..asked.key.len() - 5].parse().unwrap();
            let claim = serde_json::json!({
                "format": 2, "seq": number, "writer": "other", "epoch": number, "clock": "2024-05-01T10:04:00Z",
                "kind": "claim", "holder": "host other", "version": "0",
            });
            server.put(&asked.key, claim.to_string());
        }
        Deed::Serve
    });
    let said = case.tick_fails("10:04", 4);
    assert!(said.contains("fenced"), "{said}");
    s3.behave();
    case.tick("10:05");
    assert_eq!(case.ids(), "1 2");
    case.check("10:05", Checks { rows: Some(2), ..ALL });
}

/// Each writer has an index of its own, so that only the log stands between them.
#[test]
fn a37_two_writers_of_one_log() {
    let (s3, first) = begun();
    let (paused, released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (reached, go_on) = (paused.clone(), released.clone());
    s3.script(move |asked| {
        if asked.puts_batch() && !reached.swap(true, Ordering::SeqCst) {
            while !go_on.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        Deed::Serve
    });
    let mut slow = first.lake.spawn(&["once", "--now", &clock("10:04")]);
    eventually("the slow writer's record", LIMIT, || paused.load(Ordering::SeqCst).then_some(()));
    slow.signal("STOP");
    let second = shared(&s3);
    second.land(1, "c.ndjson", rows(&[("3", "c")]));
    second.tick("10:04");
    assert_eq!(second.ids(), "1 2 3");
    released.store(true, Ordering::SeqCst);
    slow.signal("CONT");
    assert_eq!(slow.wait(LIMIT).code(), Some(4), "{}", slow.log());
    let numbers = second.numbers("batch");
    assert_eq!(numbers.len(), 2, "one batch of two that were planned: {numbers:?}");
    assert_eq!(first.ids(), "1 2", "fenced before any other write");
    first.tick("10:05");
    assert_eq!(first.lake.dump(), second.lake.dump(), "and repaired by the next look");
    second.tick("10:05");
    second.check("10:05", Checks { rows: Some(3), left_out: &[&at(9, "")], ..ALL });
}
