//! A pipeline as readers see it: status, batches and search, from the running loop or from the log alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use highwater_core::driver::TickReport;
use highwater_core::log::{Body, PipelineState, Record};
use highwater_core::ports::Fault;
use highwater_core::receipt::{Alarm, Receipt, RejectedRow, Requests};
use highwater_core::{Sequence, Timestamp};

use super::pipeline::Pipeline;
use crate::index::{self, SearchError, Searcher};
use crate::report::{BatchReport, Percentiles, StatusReport, WriterReport};
use crate::serve::{PipelineView, Progress};

/// How many batches are remembered for the page and the figures.
const REMEMBERED: usize = 200;
/// How long a batch may take before the loop counts as stuck, besides ten polls.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the running loop last knew.
#[derive(Debug, Default)]
pub struct LiveState {
    inner: RwLock<Option<Known>>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    state: PipelineState,
    recent: VecDeque<Record>,
    alarms: Vec<Alarm>,
    last_tick: Option<Timestamp>,
    /// Why the last tick failed, if it did.
    fault: Option<String>,
}

impl LiveState {
    /// Takes in one tick of the loop.
    pub fn ticked(&self, tick: &TickReport, now: Timestamp) {
        let Ok(mut inner) = self.inner.write() else { return };
        let known = inner.get_or_insert_default();
        known.fault = None;
        known.alarms.clone_from(&tick.alarms);
        known.last_tick = Some(now);
        if let Some(record) = &tick.record {
            known.state.apply(record);
            known.recent.push_back(record.clone());
            if known.recent.len() > REMEMBERED {
                known.recent.pop_front();
            }
        }
    }

    /// A tick failed and is tried again.
    pub fn failed(&self, fault: &Fault) {
        if let Ok(mut inner) = self.inner.write() {
            inner.get_or_insert_default().fault = Some(fault.to_string());
        }
    }

    /// Begins from what the log says.
    pub fn begin(&self, state: PipelineState, recent: Vec<Record>) {
        let Ok(mut inner) = self.inner.write() else { return };
        let alarms = last_alarms(&recent);
        *inner = Some(Known { state, recent: recent.into(), alarms, ..Known::default() });
    }
}

fn last_alarms(recent: &[Record]) -> Vec<Alarm> {
    let batch = recent.iter().rev().find_map(|record| match &record.body {
        Body::Batch(batch) => Some(batch.alarms.clone()),
        _ => None,
    });
    batch.unwrap_or_default()
}

/// One pipeline's readers' side.
pub struct View {
    pipeline: Arc<Pipeline>,
    live: Option<Arc<LiveState>>,
    searcher: RwLock<Option<Arc<dyn Searcher>>>,
}

impl View {
    /// With `live`, the loop runs in this process; without, the log is read at each question.
    pub fn new(pipeline: Arc<Pipeline>, live: Option<Arc<LiveState>>) -> Self {
        Self { pipeline, live, searcher: RwLock::new(None) }
    }

    async fn known(&self) -> Result<Known, Fault> {
        if let Some(live) = &self.live
            && let Ok(inner) = live.inner.read()
            && let Some(known) = inner.clone()
        {
            return Ok(known);
        }
        let loaded = self.pipeline.load().await?;
        let alarms = last_alarms(&loaded.recent);
        Ok(Known { state: loaded.state, recent: loaded.recent.into(), alarms, ..Known::default() })
    }
}

#[async_trait]
impl PipelineView for View {
    fn name(&self) -> &str {
        &self.pipeline.config().pipeline.name
    }

    async fn status(&self) -> Result<StatusReport, Fault> {
        let known = self.known().await?;
        let now = self.pipeline.clock.now();
        let frontier = self.pipeline.frontier(now)?;
        let mut state = known.state;
        state.sources.retain(|name, _| self.pipeline.config().sources.contains_key(name));
        let newest: BTreeMap<_, _> =
            state.sources.iter().filter_map(|(name, source)| Some((name.clone(), source.newest_end?))).collect();
        let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
        Ok(StatusReport {
            pipeline: self.name().to_owned(),
            seq: state.stamp.map(|stamp| stamp.sequence),
            watermark: state.watermark,
            frontier,
            processing_lag_s: state.watermark.map(|watermark| seconds(watermark, frontier)),
            data_age_s: newest.values().min().map(|end| seconds(*end, now)),
            files: state.sources.iter().map(|(name, source)| (name.clone(), source.live.len() as u64)).collect(),
            newest,
            documents: state.documents,
            generation: "g1".into(),
            freshness_s: freshness_s(&known.recent),
            holes: state.holes.clone(),
            quarantined: state.sources.values().flat_map(|source| source.quarantined.values().cloned()).collect(),
            alarms: known.alarms.clone(),
            rejected: last_rejected(&known.recent),
            writer: writer(&known.recent),
        })
    }

    async fn batches(&self, limit: usize) -> Result<Vec<BatchReport>, Fault> {
        let known = self.known().await?;
        Ok(known.recent.iter().rev().filter_map(record_report).take(limit).collect())
    }

    async fn searcher(&self) -> Result<Arc<dyn Searcher>, SearchError> {
        if let Ok(open) = self.searcher.read()
            && let Some(searcher) = &*open
        {
            return Ok(searcher.clone());
        }
        let searcher = index::open_searcher(&self.pipeline.config().index);
        if let Ok(mut open) = self.searcher.write() {
            *open = Some(searcher.clone());
        }
        Ok(searcher)
    }

    fn progress(&self) -> Progress {
        let last_tick = self.live.as_ref().and_then(|live| live.inner.read().ok()?.as_ref()?.last_tick);
        let expected_every = self.pipeline.config().pipeline.poll * 10 + PATIENCE;
        Progress { last_tick, expected_every, loop_runs_here: self.live.is_some() }
    }

    /// Without an objective of its own a pipeline is fresh while its loop ticks and a batch was committed.
    fn ready(&self) -> Result<(), String> {
        let Some(live) = &self.live else { return Ok(()) };
        let inner = live.inner.read().map_err(|_| "the loop's state is lost".to_owned())?;
        let known = inner.as_ref().ok_or("the loop has not begun")?;
        let last = known.last_tick.ok_or("no tick was completed yet")?;
        if known.state.stamp.is_none() {
            return Err("no batch was committed yet".into());
        }
        if let Some(fault) = &known.fault {
            return Err(fault.clone());
        }
        let silent = self.pipeline.clock.now().duration_since(last);
        if silent.unsigned_abs() > self.progress().expected_every {
            return Err(format!("the last tick was completed at {last}"));
        }
        Ok(())
    }
}

/// A tick as the stable report.
pub fn batch_report(tick: &TickReport) -> BatchReport {
    let recorded = tick.record.as_ref().and_then(record_report);
    let mut report = recorded.unwrap_or_else(|| blank(tick.last, tick.clock));
    report.seq = tick.last;
    report.watermark = tick.watermark;
    report.documents = tick.documents;
    report.alarms.clone_from(&tick.alarms);
    report.requests = tick.requests;
    report
}

/// A batch or advance record as the stable report; claims are none.
pub fn record_report(record: &Record) -> Option<BatchReport> {
    let mut report = blank(record.seq, record.clock);
    match &record.body {
        Body::Claim { .. } => return None,
        Body::Advance { watermark, holes } => {
            report.watermark = Some(*watermark);
            report.holes.clone_from(holes);
        }
        Body::Batch(batch) => {
            take(&mut report, &batch.receipt);
            report.watermark = Some(batch.watermark);
            report.holes.clone_from(&batch.holes);
            report.alarms.clone_from(&batch.alarms);
            report.requests = batch.requests;
            report.freshness_ms = percentiles(batch.freshness_ms.clone());
        }
    }
    Some(report)
}

fn take(report: &mut BatchReport, receipt: &Receipt) {
    report.mode = receipt.mode;
    report.files_read = receipt.files_read;
    report.files_dropped = receipt.files_dropped;
    report.upserts = receipt.upserts;
    report.deletes = receipt.deletes;
    report.unchanged = receipt.unchanged;
    report.documents = receipt.documents;
    report.rejected_rows = receipt.rejected_rows;
    report.rejected.clone_from(&receipt.rejected);
    report.duplicate_ids = receipt.duplicate_ids;
    report.quarantined.clone_from(&receipt.quarantined);
    report.add_only = receipt.add_only;
    report.ms.clone_from(&receipt.ms);
}

fn blank(seq: Sequence, clock: Timestamp) -> BatchReport {
    let Receipt { mode, .. } = Receipt::default();
    BatchReport {
        seq,
        clock,
        watermark: None,
        mode,
        files_read: 0,
        files_dropped: 0,
        upserts: 0,
        deletes: 0,
        unchanged: 0,
        documents: 0,
        rejected_rows: 0,
        rejected: Vec::new(),
        duplicate_ids: 0,
        quarantined: Vec::new(),
        add_only: false,
        holes: Vec::new(),
        alarms: Vec::new(),
        requests: Requests::default(),
        freshness_ms: None,
        ms: BTreeMap::new(),
    }
}

/// Median and 99th percentile (nearest rank); `None` of nothing.
pub fn percentiles(mut values: Vec<u64>) -> Option<Percentiles<u64>> {
    if values.is_empty() {
        return None;
    }
    values.sort_unstable();
    let rank = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
    Some(Percentiles { p50: rank(50), p99: rank(99) })
}

fn freshness_s(recent: &VecDeque<Record>) -> Option<Percentiles<f64>> {
    let mut all = Vec::new();
    for record in recent {
        if let Body::Batch(batch) = &record.body {
            all.extend_from_slice(&batch.freshness_ms);
        }
    }
    let ms = percentiles(all)?;
    Some(Percentiles { p50: ms.p50 as f64 / 1000.0, p99: ms.p99 as f64 / 1000.0 })
}

fn last_rejected(recent: &VecDeque<Record>) -> Vec<RejectedRow> {
    let batch = recent.iter().rev().find_map(|record| match &record.body {
        Body::Batch(batch) => Some(batch.receipt.rejected.clone()),
        _ => None,
    });
    batch.unwrap_or_default()
}

fn writer(recent: &VecDeque<Record>) -> Option<WriterReport> {
    recent.iter().rev().find_map(|record| match &record.body {
        Body::Claim { holder, .. } => Some(WriterReport { holder: holder.clone(), since: record.clock }),
        _ => None,
    })
}
