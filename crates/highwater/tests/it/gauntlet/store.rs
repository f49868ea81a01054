//! Faults of the store while files are read: A38, A39.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::server::{Deed, End, S3};
use super::{ALL, Case, Checks, TOML, at, changes};
use crate::lake::{rows, text};

#[test]
fn a38_gone_between_list_and_get() {
    let s3 = S3::start();
    let case = Case::bucket(&TOML, &s3);
    case.land(0, "a.ndjson", rows(&[("1", "a")]));
    case.land(0, "b.ndjson", rows(&[("2", "b")]));
    let (server, key) = (s3.clone(), format!("in/{}", at(0, "b.ndjson")));
    s3.script(move |asked| {
        if asked.gets(&key) {
            server.delete(&key);
        }
        Deed::Serve
    });
    let mut once = case.lake.command(&["once", "--json", "--now", "2024-05-01T10:03:00Z"]);
    let output = once.env("HIGHWATER_LOG", "info").output().unwrap();
    let said = text(&output);
    assert!(said.contains("\"upserts\":1,\"deletes\":0"), "{said}");
    assert!(said.contains(&at(0, "b.ndjson")) && said.contains("it was listed again"), "named: {said}");
    assert_eq!(case.ids(), "1");
    assert_eq!(case.tick("10:04")["mode"], "none");
    case.check("10:05", Checks { rows: Some(1), ..ALL });

    // Indexed, then gone: its documents go with the listing that says so.
    s3.behave();
    case.land(0, "b.ndjson", rows(&[("2", "b")]));
    case.tick("10:06");
    assert_eq!(case.ids(), "1 2");
    case.remove(0, "b.ndjson");
    assert_eq!(changes(&case.tick("10:07")), (0, 1));
    case.check("10:07", Checks { rows: Some(1), ..ALL });
}

#[test]
fn a38_listed_for_ever_and_never_there() {
    let s3 = S3::start();
    let case = Case::bucket(&TOML, &s3);
    case.land(0, "a.ndjson", rows(&[("1", "a")]));
    case.land(0, "b.ndjson", rows(&[("2", "b")]));
    case.tick("10:03");
    let key = format!("in/{}", at(0, "b.ndjson"));
    let ghost = key.clone();
    s3.script(move |asked| if asked.gets(&ghost) { Deed::Refuse(404, "NoSuchKey") } else { Deed::Serve });
    let asked = |s3: &S3| s3.asked().iter().filter(|asked| asked.gets(&key)).count();
    for (n, time) in ["10:04", "10:05", "10:06"].iter().enumerate() {
        let before = asked(&s3);
        case.land(1, &format!("c{n}.ndjson"), rows(&[(&format!("c{n}"), "c")]));
        let batch = case.tick(time);
        assert_eq!(changes(&batch), (1, 0), "the pipeline goes on: {batch}");
        assert!(batch["alarms"].to_string().contains("b.ndjson"), "named: {batch}");
        assert!(asked(&s3) - before <= 8, "bounded");
    }
    assert_eq!(case.ids(), "1 2 c0 c1 c2", "unreadable is not gone");
    assert!(case.status()["alarms"].to_string().contains("b.ndjson"));
    s3.behave();
    case.tick("10:20");
    case.check("10:20", Checks { rows: Some(5), ..ALL });
}

#[test]
fn a39_download_that_breaks_off() {
    let text: String = (0..1_000).map(|n| format!("{n},value of row {n}\n")).collect();
    let text = format!("id,v\n{text}");
    let half = text.find("\n550,").unwrap() + 8;
    for end in [End::Clean, End::Reset, End::Short] {
        let s3 = S3::start();
        let case = Case::bucket(&TOML.replace("\"ndjson\"", "\"csv\""), &s3);
        case.land(0, "rows.csv", &text);
        let tries = AtomicUsize::new(0);
        s3.script(move |asked| match asked.key.ends_with(".csv") && tries.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Deed::Cut(half, end),
            false => Deed::Serve,
        });
        let batch = case.tick("10:03");
        assert_eq!((changes(&batch), &batch["rejected_rows"]), ((1_000, 0), &0.into()), "{end:?}: {batch}");
        assert_eq!(case.values()["550"], "value of row 550", "{end:?}");
        case.check("10:03", Checks { rows: Some(1_000), ..ALL });

        // Never whole: nothing is taken for it, and nothing of what was there goes.
        s3.put(&format!("in/{}", at(0, "rows.csv")), text.replace("value", "VALUE"));
        s3.script(move |asked| match asked.key.ends_with(".csv") {
            // What is asked for from there on breaks off at once.
            true => Deed::Cut(if asked.range().is_some() { 0 } else { half }, end),
            false => Deed::Serve,
        });
        case.tick_fails("10:04", 5);
        assert_eq!(
            (case.lake.documents().len(), case.values()["550"].as_str()),
            (1_000, "value of row 550"),
            "{end:?}"
        );
    }
}
