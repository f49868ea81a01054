use serde_json::{Value, json};

use super::*;

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn with(mut base: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

fn plain_batch() -> Value {
    json!({
        "seq": 42, "clock": "2026-05-01T12:05:03.25Z", "watermark": "2026-05-01T12:00:00Z", "mode": "incremental",
        "files_read": 3, "files_dropped": 0, "upserts": 120, "deletes": 4, "unchanged": 7, "documents": 152328,
        "rejected_rows": 0, "rejected": [], "duplicate_ids": 0, "quarantined": [], "holes": [], "alarms": [],
        "requests": {"list": 2, "get": 3, "head": 0, "put": 1},
        "freshness_ms": {"p50": 400, "p99": 800}, "ms": {"read": 100, "total": 420}
    })
}

fn troubles() -> Value {
    json!({
        "rejected": [
            {"source": "ads", "path": "dt=2026-05-01/a.ndjson", "row": 17, "reason": "`price`: \"x\" is no float64"},
            {"path": "", "row": 0, "reason": "the id is null"}
        ],
        "quarantined": [{
            "source": "ads", "path": "dt=2026-05-01/b.parquet", "size": 9, "etag": "e", "reason": "not Parquet",
            "since": "2026-05-01T12:00:03Z", "attempts": 2
        }],
        "holes": [{
            "source": "ads", "cause": "passed_over", "from": "2026-05-01T01:00:00Z", "to": "2026-05-01T03:00:00Z",
            "since": "2026-05-01T12:05:03Z"
        }],
        "alarms": [{
            "kind": "source_silent", "source": "ads", "since": "2026-05-01T11:00:00Z", "detail": "no data since 05:00"
        }]
    })
}

#[test]
fn a_batch_is_a_line() {
    assert_eq!(
        batch(&from(plain_batch())),
        "#42  12:05:03Z  W 12:00  +3 files  120 up  4 del  152,328 docs  fresh p99 0.80 s  0.42 s\n"
    );
}

#[test]
fn a_quiet_tick_says_so() {
    let quiet = json!({
        "mode": "none", "files_read": 0, "upserts": 0, "deletes": 0, "watermark": "2026-04-30T23:55:00Z",
        "freshness_ms": null, "ms": {}
    });
    assert_eq!(
        batch(&from(with(plain_batch(), quiet))),
        "#42  12:05:03Z  W 2026-04-30 23:55  no change  152,328 docs\n"
    );
}

#[test]
fn what_is_wrong_is_named() {
    let wrong = json!({"files_dropped": 1200, "rejected_rows": 2, "duplicate_ids": 3});
    let report = with(with(plain_batch(), wrong), troubles());
    insta::assert_snapshot!(batch(&from(report)));
}

#[test]
fn a_status_is_a_block() {
    let report = json!({
        "pipeline": "ads", "seq": 42, "watermark": "2026-05-01T12:00:00Z", "frontier": "2026-05-01T12:05:00Z",
        "processing_lag_s": 300.0, "data_age_s": 33.5, "newest": {"ads": "2026-05-01T12:05:00Z"},
        "files": {"ads": 1234, "shops": 1}, "documents": 152328, "generation": "g1",
        "freshness_s": {"p50": 0.4, "p99": 7205.0}, "holes": [], "quarantined": [], "alarms": [], "rejected": [],
        "writer": {"holder": "host:17", "since": "2026-05-01T10:00:00Z"}
    });
    insta::assert_snapshot!(status(&from(with(report, troubles()))));
    let fresh = json!({
        "pipeline": "ads", "seq": null, "watermark": null, "frontier": "2026-05-01T12:05:00Z", "processing_lag_s": null,
        "data_age_s": null, "newest": {}, "files": {}, "documents": 0, "generation": "g1", "freshness_s": null,
        "holes": [], "quarantined": [], "alarms": [], "rejected": [], "writer": null
    });
    insta::assert_snapshot!("status_before_the_first_batch", status(&from(fresh)));
}

#[test]
fn holes_are_a_table_with_what_to_do() {
    let hole = |cause: &str, more: Value| {
        let hole = json!({
            "source": "ads", "cause": cause, "from": "2026-05-01T09:00:00Z", "to": "2026-05-01T09:05:00Z",
            "since": "2026-05-01T11:00:00Z"
        });
        with(hole, more)
    };
    let open = [
        hole("passed_over", json!({})),
        hole("quarantined", json!({"path": "hr=09/a.parquet", "detail": "no footer"})),
        hole("under_filled", json!({"detail": "1 of usually 12 files, 20 of usually 3400 bytes", "count": 3})),
    ];
    let closed = hole("late_file", json!({"path": "x", "end": "removed", "closed": "2026-05-01T11:30:00Z"}));
    let report = json!({"pipeline": "ads", "complete": null, "holes": open, "holes_closed": [closed]});
    insta::assert_snapshot!(holes(&from(report)));
    assert_eq!(holes(&from(json!({"pipeline": "ads", "complete": null, "holes": []}))), "no hole is open\n");
}

#[test]
fn the_status_says_what_is_complete_and_what_is_not() {
    let hole = |from: &str, to: &str| json!({"source": "ads", "cause": "late_file", "path": "x", "from": from, "to": to, "since": to});
    let line = |changes: Value| {
        let report = json!({
            "pipeline": "ads", "seq": 42, "watermark": "2026-05-01T12:00:00Z", "frontier": "2026-05-01T12:05:00Z",
            "processing_lag_s": 300.0, "data_age_s": 33.5, "newest": {"ads": "2026-05-01T12:05:00Z"}, "files": {},
            "documents": 1, "generation": "g1", "freshness_s": null, "quarantined": [], "alarms": [], "rejected": [],
            "complete": {"from": "2026-05-01T07:00:00Z", "to": "2026-05-01T12:00:00Z"}, "holes": [], "writer": null
        });
        complete(&from(with(report, changes))).unwrap_or_default()
    };
    let before = hole("2026-05-01T06:00:00Z", "2026-05-01T07:00:00Z");
    let first = hole("2026-05-01T06:55:00Z", "2026-05-01T07:05:00Z");
    let timeless = hole("2026-05-01T13:00:00Z", "2026-05-01T13:00:00Z");
    let lines = [
        line(json!({"holes": [before]})),
        line(json!({"holes": [before, first]})),
        line(json!({"holes": [first, timeless, first, first, before]})),
        line(json!({"complete": null})),
        line(json!({"complete": null, "newest": {}})),
    ];
    insta::assert_snapshot!(lines.join("\n"), @"
    from 2026-05-01 07:00:00Z to 2026-05-01 12:00:00Z; newer files are searchable as they land
    from 2026-05-01 07:00:00Z to 2026-05-01 12:00:00Z except 1 hole: ads: 2026-05-01 06:55:00Z to 2026-05-01 07:05:00Z, late file x; newer files are searchable as they land
    from 2026-05-01 07:00:00Z to 2026-05-01 12:00:00Z except 4 holes: ads: 2026-05-01 06:55:00Z to 2026-05-01 07:05:00Z, late file x; ads: 2026-05-01 13:00:00Z to 2026-05-01 13:00:00Z, late file x; ads: 2026-05-01 06:55:00Z to 2026-05-01 07:05:00Z, late file x; …; newer files are searchable as they land
    at no time yet: the watermark is not past the begin of the live range
    ");
}

#[test]
fn the_log_is_a_table() {
    let record = |seq: u64, body: Value| {
        let head = json!({"format": 1, "seq": seq, "writer": "w", "epoch": 9, "clock": "2026-05-01T12:05:03Z"});
        from::<Record>(with(head, body))
    };
    let batch = json!({
        "kind": "batch", "watermark": "2026-05-01T12:00:00Z", "sources": {}, "alarms": troubles()["alarms"],
        "receipt": {"mode": "full", "files_read": 1200, "upserts": 5, "documents": 5, "rejected_rows": 2}
    });
    let records = [
        record(9, json!({"kind": "claim", "holder": "host:17", "version": "0.1.0"})),
        record(10, batch),
        record(11, json!({"kind": "advance", "watermark": "2026-05-01T12:05:00Z"})),
    ];
    insta::assert_snapshot!(log(&records));
}

#[test]
fn hits_say_how_fresh_they_are() {
    let as_of = json!({"seq": 42, "watermark": "2026-05-01T12:00:00Z", "newest": {}});
    let hit = json!({"id": "p2", "score": 1.25, "document": {"id": "p2", "title": "Kettle"}});
    let report = json!({"as_of": as_of, "total": 1200, "hits": [hit]});
    insta::assert_snapshot!(search(&from(report)));
    let one = json!({"as_of": as_of, "id": "p2", "seq": 7, "document": {"id": "p2", "title": "Kettle"}});
    assert_eq!(document(&from(one)), "{\"id\":\"p2\",\"title\":\"Kettle\"}\n");
}

#[test]
fn a_verification_is_a_verdict() {
    let verdict = |changes: Value| {
        let base = json!({"equal": true, "documents": 1000, "missing": [], "extra": [], "different": [], "gone": []});
        verify(&from(with(base, changes)))
    };
    let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let all = [
        verdict(json!({})),
        verdict(json!({"equal": false, "missing": many, "extra": ["x"], "different": ["y", "z"]})),
        verdict(json!({"equal": null, "gone": ["ads: dt=2026-05-01/a.parquet"]})),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn figures_are_readable() {
    assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(
        [0.0, 0.004, 1.26, 119.0, 300.0, 7200.0].map(seconds),
        ["0 s", "0.00 s", "1.3 s", "119.0 s", "5 min", "2.0 h"]
    );
}
