//! The metrics text, read as a scraper reads it.

use std::collections::BTreeMap;

use highwater_core::ports::Fault;
use highwater_core::receipt::Mode;

use super::Served;
use super::fake::{FakeView, batch};

/// Samples by name and labels; checks the form of each line.
async fn scrape(served: &Served) -> BTreeMap<String, f64> {
    let answer = served.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let mut families = BTreeMap::new();
    let mut samples = BTreeMap::new();
    let body = answer.text.strip_suffix("# EOF\n").expect("an end");
    for line in body.lines() {
        if let Some(meta) = line.strip_prefix("# ") {
            let words: Vec<_> = meta.splitn(3, ' ').collect();
            if words[0] == "TYPE" {
                assert!(families.insert(words[1].to_owned(), words[2].to_owned()).is_none(), "{line} stands twice");
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        assert!(series.contains("pipeline=\""), "{line}");
        assert!(name.starts_with("highwater_"), "{line}");
        let family = ["_total", "_bucket", "_count", "_sum"].iter().find_map(|end| {
            let family = name.strip_suffix(end)?;
            let kind = families.get(family)?;
            (kind == if *end == "_total" { "counter" } else { "histogram" }).then_some(family)
        });
        assert!(family.is_some() || families.get(name).is_some_and(|kind| kind == "gauge"), "{line}");
        assert!(samples.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line} stands twice");
    }
    samples
}

#[tokio::test]
async fn counters_stand_at_zero_before_the_first_batch() {
    let samples = scrape(&Served::ads().await).await;
    for series in [
        "highwater_batches_total{pipeline=\"ads\",mode=\"full\"}",
        "highwater_upserts_total{pipeline=\"ads\"}",
        "highwater_deletes_total{pipeline=\"ads\"}",
        "highwater_files_read_total{pipeline=\"ads\"}",
        "highwater_rejected_rows_total{pipeline=\"ads\"}",
        "highwater_store_requests_total{pipeline=\"ads\",kind=\"list\"}",
        "highwater_batch_duration_seconds_count{pipeline=\"ads\"}",
        "highwater_freshness_seconds_count{pipeline=\"ads\"}",
    ] {
        assert_eq!(samples.get(series), Some(&0.0), "{series}");
    }
}

#[tokio::test]
async fn batches_are_counted_as_they_happen() {
    let served = Served::new(vec![FakeView::new("ads"), FakeView::new("items")]).await;
    let mut first = batch(1);
    first.mode = Mode::Full;
    first.ms.insert("total".to_owned(), 1_500);
    served.metrics.observe(&first, "ads");
    served.metrics.observe(&batch(2), "ads");
    let mut idle = batch(3);
    idle.mode = Mode::None;
    served.metrics.observe(&idle, "ads");
    let samples = scrape(&served).await;
    for (series, value) in [
        ("highwater_batches_total{pipeline=\"ads\",mode=\"full\"}", 1.0),
        ("highwater_batches_total{pipeline=\"ads\",mode=\"incremental\"}", 1.0),
        ("highwater_batches_total{pipeline=\"items\",mode=\"full\"}", 0.0),
        ("highwater_upserts_total{pipeline=\"ads\"}", 203.0),
        ("highwater_deletes_total{pipeline=\"ads\"}", 6.0),
        ("highwater_files_read_total{pipeline=\"ads\"}", 4.0),
        ("highwater_rejected_rows_total{pipeline=\"ads\"}", 2.0),
        ("highwater_store_requests_total{pipeline=\"ads\",kind=\"list\"}", 6.0),
        ("highwater_store_requests_total{pipeline=\"ads\",kind=\"get\"}", 12.0),
        ("highwater_store_requests_total{pipeline=\"ads\",kind=\"head\"}", 0.0),
        ("highwater_batch_duration_seconds_count{pipeline=\"ads\"}", 2.0),
        ("highwater_batch_duration_seconds_bucket{le=\"1.0\",pipeline=\"ads\"}", 1.0),
        ("highwater_freshness_seconds_sum{pipeline=\"ads\"}", 18.0),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series} in {samples:#?}");
    }
}

#[tokio::test]
async fn gauges_say_what_the_status_says() {
    let samples = scrape(&Served::new(vec![FakeView::troubled("ads")]).await).await;
    for (series, value) in [
        ("highwater_up{pipeline=\"ads\"}", 1.0),
        ("highwater_ready{pipeline=\"ads\"}", 0.0),
        ("highwater_documents{pipeline=\"ads\"}", 1_204_331.0),
        ("highwater_watermark_timestamp_seconds{pipeline=\"ads\"}", 1_777_637_100.0),
        ("highwater_processing_lag_seconds{pipeline=\"ads\"}", 420.0),
        ("highwater_data_age_seconds{pipeline=\"ads\"}", 120.0),
        ("highwater_newest_data_timestamp_seconds{pipeline=\"ads\",source=\"ads\"}", 1_777_637_100.0),
        ("highwater_live_files{pipeline=\"ads\",source=\"ads\"}", 61.0),
        ("highwater_quarantined_files{pipeline=\"ads\"}", 1.0),
        ("highwater_holes{pipeline=\"ads\",cause=\"passed_over\"}", 1.0),
        ("highwater_holes{pipeline=\"ads\",cause=\"late_file\"}", 0.0),
        ("highwater_alarms{pipeline=\"ads\",kind=\"misplaced_files\"}", 2.0),
        ("highwater_alarms{pipeline=\"ads\",kind=\"brand_new_kind\"}", 1.0),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series} in {samples:#?}");
    }
}

#[tokio::test]
async fn what_is_not_known_has_no_series() {
    let samples = scrape(&Served::new(vec![FakeView::waiting("ads")]).await).await;
    assert_eq!(samples["highwater_documents{pipeline=\"ads\"}"], 0.0);
    assert!(samples.keys().all(|series| !series.contains("watermark") && !series.contains("_lag_")), "{samples:#?}");

    let mut view = FakeView::new("ads");
    view.status = Err(Fault::Unavailable("gone".to_owned()));
    let samples = scrape(&Served::new(vec![view]).await).await;
    assert_eq!(samples["highwater_up{pipeline=\"ads\"}"], 0.0);
    assert!(!samples.contains_key("highwater_documents{pipeline=\"ads\"}"));
}
