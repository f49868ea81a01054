//! Pipelines and an index that are made up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use highwater_core::holes::{ClosedHole, Hole, HoleCause, HoleEnd};
use highwater_core::ports::{Clock, Fault, Stamp};
use highwater_core::receipt::{Alarm, Mode, Quarantined, RejectedRow, Requests};
use highwater_core::{FileVersion, Sequence, SourceName, Timestamp};

use crate::index::{AsOf, Dump, Found, Hit, SearchError, SearchQuery, Searcher, StoredDocument};
use crate::report::{BatchReport, Complete, HolesReport, Percentiles, StatusReport, WriterReport};
use crate::serve::{PipelineView, Progress};

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// 12:07 of a day in May, until it is set.
pub struct FixedClock(Mutex<Timestamp>);

impl Default for FixedClock {
    fn default() -> Self {
        Self(Mutex::new(at("2026-05-01T12:07:00Z")))
    }
}

impl FixedClock {
    pub fn set(&self, text: &str) {
        *self.0.lock().unwrap() = at(text);
    }
}

#[async_trait]
impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {}
}

/// A pipeline whose every answer can be set.
pub struct FakeView {
    pub name: String,
    pub status: Result<StatusReport, Fault>,
    pub batches: Result<Vec<BatchReport>, Fault>,
    pub index: Result<Arc<FakeIndex>, SearchError>,
    pub progress: Progress,
    pub ready: Result<(), String>,
}

impl FakeView {
    /// Fresh, with three documents and 30 batches.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            status: Ok(status(name)),
            batches: Ok((1..=30).rev().map(batch).collect()),
            index: Ok(Arc::new(FakeIndex::default())),
            progress: Progress {
                last_tick: Some(at("2026-05-01T12:06:59Z")),
                expected_every: Duration::from_secs(10),
                loop_runs_here: true,
            },
            ready: Ok(()),
        }
    }

    /// Before its first batch.
    pub fn waiting(name: &str) -> Self {
        let mut view = Self::new(name);
        let status = view.status.as_mut().unwrap();
        (status.seq, status.watermark, status.documents) = (None, None, 0);
        (status.processing_lag_s, status.data_age_s, status.freshness_s) = (None, None, None);
        status.newest.clear();
        status.files.clear();
        view.batches = Ok(Vec::new());
        view.index = Err(SearchError::Empty);
        view.ready = Err("no batch was committed yet".to_owned());
        view
    }

    /// With one of everything that needs a look.
    pub fn troubled(name: &str) -> Self {
        let mut view = Self::new(name);
        let status = view.status.as_mut().unwrap();
        let source = SourceName::new("ads");
        status.alarms = vec![
            alarm("misplaced_files", "12 files do not fit the layout: dt=2026-05-01/hr=11"),
            alarm("misplaced_files", "30 files do not fit the layout: <b>dt=2026-05-01/hr=10</b>"),
            alarm("brand_new_kind", "something else"),
        ];
        status.quarantined = vec![Quarantined {
            source: source.clone(),
            version: FileVersion { path: "hr=12/<img src=x>.parquet".into(), size: 7, etag: "\"e\"".into() },
            reason: "not a parquet file: no footer".to_owned(),
            since: at("2026-05-01T11:00:00Z"),
            attempts: 3,
        }];
        status.holes = vec![Hole {
            source: source.clone(),
            cause: HoleCause::PassedOver,
            from: at("2026-04-30T01:00:00Z"),
            to: at("2026-04-30T03:00:00Z"),
            path: None,
            since: at("2026-05-01T11:00:00Z"),
            detail: None,
            count: None,
        }];
        status.rejected = vec![RejectedRow {
            source: Some(source),
            path: "hr=12/a.csv".into(),
            row: 17,
            reason: "price: \"<i>x\" is not a number".to_owned(),
        }];
        status.processing_lag_s = Some(420.0);
        view.ready = Err("the watermark is 420 s behind".to_owned());
        view
    }
}

fn alarm(kind: &str, detail: &str) -> Alarm {
    Alarm {
        kind: kind.to_owned(),
        source: Some(SourceName::new("ads")),
        since: at("2026-05-01T12:00:00Z"),
        detail: detail.to_owned(),
    }
}

#[async_trait]
impl PipelineView for FakeView {
    fn name(&self) -> &str {
        &self.name
    }

    async fn status(&self) -> Result<StatusReport, Fault> {
        self.status.clone()
    }

    async fn holes(&self) -> Result<HolesReport, Fault> {
        let StatusReport { pipeline, complete, holes, .. } = self.status.clone()?;
        let ended = holes.iter().cloned().map(|hole| ClosedHole {
            hole,
            end: HoleEnd::LeftWindow,
            closed: at("2026-05-01T12:00:00Z"),
        });
        Ok(HolesReport { pipeline, complete, holes_closed: Some(ended.collect()), holes })
    }

    async fn batches(&self, limit: usize) -> Result<Vec<BatchReport>, Fault> {
        let mut batches = self.batches.clone()?;
        batches.truncate(limit);
        Ok(batches)
    }

    async fn searcher(&self) -> Result<Arc<dyn Searcher>, SearchError> {
        Ok(self.index.clone()?)
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn ready(&self) -> Result<(), String> {
        self.ready.clone()
    }
}

/// Finds documents whose JSON contains the query; `[` is its syntax error.
pub struct FakeIndex(pub Vec<(String, String)>);

impl Default for FakeIndex {
    fn default() -> Self {
        let documents = [
            ("1", r#"{"id":"1","title":"Blue kettle","price":19.90,"stock":18446744073709551615,"note":null}"#),
            ("de/2 ü", r#"{"id":"de/2 ü","title":"Red kettle","tags":["a","b"]}"#),
            ("x<script>", r#"{"id":"x<script>","body":"<script>alert(1)</script> & \"quotes\""}"#),
        ];
        Self(documents.map(|(id, json)| (id.to_owned(), json.to_owned())).to_vec())
    }
}

impl FakeIndex {
    fn stored((id, json): &(String, String)) -> StoredDocument {
        StoredDocument { id: id.as_str().into(), json: json.as_bytes().into(), hash: [0; 16], sequence: Sequence(9) }
    }

    fn stamp() -> AsOf {
        let stamp = Stamp { sequence: Sequence(30), watermark: at("2026-05-01T12:05:00Z") };
        AsOf { stamp, newest: BTreeMap::from([(SourceName::new("ads"), at("2026-05-01T12:05:00Z"))]) }
    }
}

#[async_trait]
impl Searcher for FakeIndex {
    async fn search(&self, query: &SearchQuery) -> Result<Found, SearchError> {
        if query.query == "[" {
            return Err(SearchError::Query("expected a range at 1: <[>".to_owned()));
        }
        let all = matches!(query.query.as_str(), "" | "*");
        let matching: Vec<_> = self.0.iter().filter(|(_, json)| all || json.contains(&query.query)).collect();
        let page = matching.iter().skip(query.offset).take(query.limit);
        let hits = page.map(|document| Hit { score: 1.5, document: Self::stored(document) }).collect();
        Ok(Found { as_of: Self::stamp(), total: matching.len() as u64, hits })
    }

    async fn get(&self, id: &str) -> Result<(Option<StoredDocument>, AsOf), SearchError> {
        let found = self.0.iter().find(|(known, _)| known == id).map(Self::stored);
        Ok((found, Self::stamp()))
    }

    async fn dump(&self) -> Result<(Option<AsOf>, Dump), Fault> {
        Ok((Some(Self::stamp()), stream::empty().boxed()))
    }

    async fn as_of(&self) -> Result<Option<(AsOf, u64)>, Fault> {
        Ok(Some((Self::stamp(), self.0.len() as u64)))
    }
}

pub fn status(name: &str) -> StatusReport {
    let source = SourceName::new("ads");
    StatusReport {
        pipeline: name.to_owned(),
        seq: Some(Sequence(30)),
        watermark: Some(at("2026-05-01T12:05:00Z")),
        frontier: at("2026-05-01T12:05:00Z"),
        processing_lag_s: Some(0.0),
        data_age_s: Some(120.0),
        newest: BTreeMap::from([(source.clone(), at("2026-05-01T12:05:00Z"))]),
        files: BTreeMap::from([(source, 61)]),
        documents: 1_204_331,
        generation: "g1".to_owned(),
        freshness_s: Some(Percentiles { p50: 4.2, p99: 9.75 }),
        complete: Some(Complete { from: at("2026-05-01T07:05:00Z"), to: at("2026-05-01T12:05:00Z") }),
        holes: Vec::new(),
        quarantined: Vec::new(),
        alarms: Vec::new(),
        rejected: Vec::new(),
        writer: Some(WriterReport { holder: "host-1:4711".to_owned(), since: at("2026-05-01T08:00:00Z") }),
    }
}

pub fn batch(seq: u64) -> BatchReport {
    BatchReport {
        add_only: false,
        seq: Sequence(seq),
        clock: at("2026-05-01T12:00:00Z"),
        watermark: Some(at("2026-05-01T11:55:00Z")),
        mode: Mode::Incremental,
        files_read: 2,
        files_dropped: 1,
        upserts: 100 + seq,
        deletes: 3,
        unchanged: 5,
        documents: 1_204_000 + seq,
        rejected_rows: 1,
        rejected: Vec::new(),
        duplicate_ids: 0,
        quarantined: Vec::new(),
        holes: Vec::new(),
        holes_closed: Vec::new(),
        alarms: Vec::new(),
        requests: Requests { list: 2, get: 4, head: 0, put: 1 },
        freshness_ms: Some(Percentiles { p50: 4_200, p99: 9_000 }),
        ms: BTreeMap::from([("read".to_owned(), 100), ("total".to_owned(), 400 + 17 * (seq * 7 % 11))]),
    }
}
