//! Metrics in the OpenMetrics text format: counters kept as batches happen, gauges taken from the status when asked.
//! Knows nothing of how batches run.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use highwater_core::Timestamp;
use highwater_core::holes::HoleCause;
use highwater_core::ports::Fault;
use highwater_core::receipt::Mode;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::Site;
use super::answer::Refusal;
use crate::report::{BatchReport, StatusReport};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPipeline {
    pipeline: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    pipeline: String,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSource {
    pipeline: String,
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMode {
    pipeline: String,
    mode: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCause {
    pipeline: String,
    cause: &'static str,
}

type Number = Gauge<f64, AtomicU64>;

/// What this process has counted since it started, by pipeline.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    batches: Family<OfMode, Counter>,
    upserts: Family<OfPipeline, Counter>,
    deletes: Family<OfPipeline, Counter>,
    files_read: Family<OfPipeline, Counter>,
    rejected_rows: Family<OfPipeline, Counter>,
    requests: Family<OfKind, Counter>,
    duration: Family<OfPipeline, Histogram>,
    freshness: Family<OfPipeline, Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        let batches = Family::default();
        let upserts = Family::default();
        let deletes = Family::default();
        let files_read = Family::default();
        let rejected_rows = Family::default();
        let requests = Family::default();
        let duration = Family::new_with_constructor(duration_buckets as fn() -> Histogram);
        let freshness = Family::new_with_constructor(freshness_buckets as fn() -> Histogram);

        let mut registry = Registry::with_prefix("highwater");
        registry.register(
            "batches",
            "Batches committed by this process, by how documents were computed",
            batches.clone(),
        );
        registry.register("upserts", "Documents written", upserts.clone());
        registry.register("deletes", "Documents deleted", deletes.clone());
        registry.register("files_read", "File versions read", files_read.clone());
        registry.register("rejected_rows", "Rows of files and documents refused", rejected_rows.clone());
        registry.register("store_requests", "Requests to the stores of the sources", requests.clone());
        let help = "Time from planning to commit, of each batch";
        registry.register_with_unit("batch_duration", help, Unit::Seconds, duration.clone());
        let help = "Time from a file's own time to the commit: of each batch with new files, their 99th percentile";
        registry.register_with_unit("freshness", help, Unit::Seconds, freshness.clone());
        Self { registry, batches, upserts, deletes, files_read, rejected_rows, requests, duration, freshness }
    }

    /// Counts one tick of a pipeline. Ticks without a batch count their requests only.
    pub fn observe(&self, report: &BatchReport, pipeline: &str) {
        let of = OfPipeline { pipeline: pipeline.to_owned() };
        for (kind, number) in requests(report) {
            let labels = OfKind { pipeline: pipeline.to_owned(), kind: kind.to_owned() };
            self.requests.get_or_create(&labels).inc_by(number);
        }
        let Some(mode) = mode(report.mode) else { return };
        self.batches.get_or_create(&OfMode { pipeline: pipeline.to_owned(), mode }).inc();
        self.upserts.get_or_create(&of).inc_by(report.upserts);
        self.deletes.get_or_create(&of).inc_by(report.deletes);
        self.files_read.get_or_create(&of).inc_by(report.files_read);
        self.rejected_rows.get_or_create(&of).inc_by(report.rejected_rows);
        if let Some(total) = report.ms.get("total") {
            self.duration.get_or_create(&of).observe(seconds(*total));
        }
        if let Some(freshness) = &report.freshness_ms {
            self.freshness.get_or_create(&of).observe(seconds(freshness.p99));
        }
    }

    /// Makes a pipeline's counters stand at zero, so that the first increase is seen as one.
    pub(super) fn announce(&self, pipeline: &str) {
        let of = OfPipeline { pipeline: pipeline.to_owned() };
        for family in [&self.upserts, &self.deletes, &self.files_read, &self.rejected_rows] {
            drop(family.get_or_create(&of));
        }
        for family in [&self.duration, &self.freshness] {
            drop(family.get_or_create(&of));
        }
        for mode in ["full", "incremental"] {
            drop(self.batches.get_or_create(&OfMode { pipeline: pipeline.to_owned(), mode }));
        }
        for kind in ["list", "get", "head", "put"] {
            drop(self.requests.get_or_create(&OfKind { pipeline: pipeline.to_owned(), kind: kind.to_owned() }));
        }
    }
}

pub(super) async fn show(State(site): State<Arc<Site>>) -> Result<Response, Refusal> {
    let gauges = Gauges::default();
    for view in &site.views {
        let of = OfPipeline { pipeline: view.name().to_owned() };
        let status = view.status().await;
        gauges.up.get_or_create(&of).set(i64::from(status.is_ok()));
        gauges.ready.get_or_create(&of).set(i64::from(view.ready().is_ok()));
        if let Ok(status) = status {
            gauges.set(&of, &status);
        }
    }
    let mut body = String::new();
    let written = text::encode_registry(&mut body, &site.metrics.registry)
        .and_then(|()| text::encode_registry(&mut body, &gauges.registry()))
        .and_then(|()| text::encode_eof(&mut body));
    written.map_err(|error| Fault::Internal(format!("metrics cannot be written: {error}")))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response())
}

/// The gauges of one scrape, made anew each time: an alarm that ended leaves no stale series.
#[derive(Default)]
struct Gauges {
    up: Family<OfPipeline, Gauge>,
    ready: Family<OfPipeline, Gauge>,
    documents: Family<OfPipeline, Number>,
    watermark: Family<OfPipeline, Number>,
    lag: Family<OfPipeline, Number>,
    data_age: Family<OfPipeline, Number>,
    newest: Family<OfSource, Number>,
    files: Family<OfSource, Number>,
    quarantined: Family<OfPipeline, Number>,
    holes: Family<OfCause, Number>,
    alarms: Family<OfKind, Number>,
}

impl Gauges {
    fn set(&self, of: &OfPipeline, status: &StatusReport) {
        self.documents.get_or_create(of).set(status.documents as f64);
        self.quarantined.get_or_create(of).set(status.quarantined.len() as f64);
        for cause in HoleCause::ALL {
            let open = status.holes.iter().filter(|hole| hole.cause == cause).count();
            let labels = OfCause { pipeline: of.pipeline.clone(), cause: cause.as_str() };
            self.holes.get_or_create(&labels).set(open as f64);
        }
        let timestamp = status.watermark.map(unix_seconds);
        for (family, value) in
            [(&self.watermark, timestamp), (&self.lag, status.processing_lag_s), (&self.data_age, status.data_age_s)]
        {
            // A figure that is not known yet has no series: zero would look fresh.
            if let Some(value) = value {
                family.get_or_create(of).set(value);
            }
        }
        for (source, newest) in &status.newest {
            self.newest.get_or_create(&of.source(source.as_str())).set(unix_seconds(*newest));
        }
        for (source, files) in &status.files {
            self.files.get_or_create(&of.source(source.as_str())).set(*files as f64);
        }
        for alarm in &status.alarms {
            let labels = OfKind { pipeline: of.pipeline.clone(), kind: alarm.kind.clone() };
            self.alarms.get_or_create(&labels).inc();
        }
    }

    fn registry(self) -> Registry {
        let mut registry = Registry::with_prefix("highwater");
        registry.register("up", "1: the status could be read", self.up);
        registry.register("ready", "1: fresh within its objective", self.ready);
        registry.register("documents", "Documents in the index", self.documents);
        let help = "The watermark, as seconds since 1970";
        registry.register_with_unit("watermark_timestamp", help, Unit::Seconds, self.watermark);
        let help = "Frontier less watermark";
        registry.register_with_unit("processing_lag", help, Unit::Seconds, self.lag);
        let help = "Now less the end of the newest partition with data, of the source furthest behind";
        registry.register_with_unit("data_age", help, Unit::Seconds, self.data_age);
        let help = "End of the newest partition with data, as seconds since 1970";
        registry.register_with_unit("newest_data_timestamp", help, Unit::Seconds, self.newest);
        registry.register("live_files", "Files in the tables", self.files);
        registry.register("quarantined_files", "Files in quarantine", self.quarantined);
        registry.register("holes", "Holes that are open, by cause", self.holes);
        registry.register("alarms", "Alarms that stand, by kind", self.alarms);
        registry
    }
}

impl OfPipeline {
    fn source(&self, source: &str) -> OfSource {
        OfSource { pipeline: self.pipeline.clone(), source: source.to_owned() }
    }
}

fn mode(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Full => Some("full"),
        Mode::Incremental => Some("incremental"),
        Mode::None => None,
    }
}

fn requests(report: &BatchReport) -> [(&'static str, u64); 4] {
    let requests = &report.requests;
    [("list", requests.list), ("get", requests.get), ("head", requests.head), ("put", requests.put)]
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn unix_seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1_000.0
}

/// From a batch over a few small files to a full computation.
fn duration_buckets() -> Histogram {
    Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0])
}

/// From a poll to a few steps.
fn freshness_buckets() -> Histogram {
    Histogram::new([0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0])
}
