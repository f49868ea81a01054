//! A pipeline as readers see it: status, batches and search, from the running loop or from the log alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use highwater_core::driver::TickReport;
use highwater_core::generation::GenerationChange;
use highwater_core::holes::Hole;
use highwater_core::log::{BatchRecord, Body, PipelineState, Record};
use highwater_core::ports::Fault;
use highwater_core::receipt::{Alarm, Receipt, Requests};
use highwater_core::{Sequence, Timestamp};

use super::pipeline::Pipeline;
use crate::index::{self, SearchError, Searcher};
use crate::report::{BatchReport, Complete, HolesReport, Percentiles, StatusReport, WriterReport};
use crate::serve::{PipelineView, Progress};

/// Alarms that tell of generations.
const OF_GENERATIONS: [&str; 4] = ["rebuild_due", "rebuild_failed", "gates_failed", "generation_behind"];

/// How many batches are remembered for the page and the figures.
const REMEMBERED: usize = 200;
/// How long a batch may take before the loop counts as stuck, besides ten polls.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the running loop last knew.
#[derive(Debug, Default)]
pub struct LiveState {
    inner: RwLock<Live>,
}

#[derive(Debug, Default)]
struct Live {
    /// `None` before the first session.
    known: Option<Arc<Known>>,
    last_tick: Option<Timestamp>,
    /// The last time that the loop moved, whether or not it got anywhere.
    last_sign: Option<Timestamp>,
    /// Why the last tick failed, if it did.
    fault: Option<String>,
    /// What the loop waits for before it may begin.
    waiting: Option<String>,
}

/// What readers are answered from; shared with them, so that no request copies it.
#[derive(Clone, Debug, Default)]
struct Known {
    state: PipelineState,
    recent: VecDeque<Arc<Record>>,
    alarms: Vec<Alarm>,
}

impl Known {
    fn of_log(state: PipelineState, recent: Vec<Record>) -> Self {
        let recent: VecDeque<_> = recent.into_iter().map(Arc::new).collect();
        let mut switched = false;
        let alarms = recent.iter().rev().find_map(|record| {
            switched |= matches!(&record.body, Body::Generation { change: GenerationChange::Switched { .. } });
            record.alarms()
        });
        let mut alarms = alarms.unwrap_or_default().to_vec();
        // What an earlier record says of generations is over with the switch.
        alarms.retain(|alarm| !(switched && OF_GENERATIONS.contains(&alarm.kind.as_str())));
        Self { state, recent, alarms }
    }
}

impl LiveState {
    /// Takes in one tick of the loop.
    pub fn ticked(&self, tick: &TickReport, now: Timestamp) {
        let Ok(mut live) = self.inner.write() else { return };
        live.fault = None;
        live.last_tick = Some(now);
        live.last_sign = Some(now);
        let known = Arc::make_mut(live.known.get_or_insert_default());
        known.alarms.clone_from(&tick.alarms);
        for record in tick.between.iter().chain(&tick.record) {
            known.state.apply(record);
            known.recent.push_back(Arc::new(record.clone()));
            if known.recent.len() > REMEMBERED {
                known.recent.pop_front();
            }
        }
    }

    /// A tick failed and is tried again: the loop moves, and is not ready.
    pub fn failed(&self, fault: &Fault, now: Timestamp) {
        let Ok(mut live) = self.inner.write() else { return };
        live.fault = Some(fault.to_string());
        live.last_sign = Some(now);
    }

    /// The loop waits until the pipeline is its own: it moves, and is not ready.
    pub fn waits(&self, reason: String, now: Timestamp) {
        let Ok(mut live) = self.inner.write() else { return };
        live.waiting = Some(reason);
        live.last_sign = Some(now);
    }

    /// A batch in hand got on.
    pub fn moved(&self, now: Timestamp) {
        if let Ok(mut live) = self.inner.write() {
            live.last_sign = Some(now);
        }
    }

    /// Begins from what the log says. Alarms stand on until a tick tells of them.
    pub fn begin(&self, state: PipelineState, recent: Vec<Record>) {
        let Ok(mut live) = self.inner.write() else { return };
        let mut known = Known::of_log(state, recent);
        if let Some(before) = &live.known {
            known.alarms.clone_from(&before.alarms);
        }
        live.known = Some(Arc::new(known));
        live.waiting = None;
    }
}

fn last_batch(recent: &VecDeque<Arc<Record>>) -> Option<&BatchRecord> {
    recent.iter().rev().find_map(|record| match &record.body {
        Body::Batch(batch) => Some(&**batch),
        _ => None,
    })
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

    fn expected_every(&self) -> Duration {
        self.pipeline.config().pipeline.poll * 10 + PATIENCE
    }

    /// From where on every source is complete, and up to where.
    fn complete(&self, state: &PipelineState) -> Option<Complete> {
        let sources = state.sources.iter().filter(|(name, _)| self.pipeline.config().sources.contains_key(*name));
        let from = sources.filter_map(|(_, source)| source.evict_before).max()?;
        let to = state.watermark?;
        (from < to).then_some(Complete { from, to })
    }

    /// Those of configured sources, oldest first.
    fn open_holes(&self, state: &PipelineState) -> Vec<Hole> {
        let configured = &self.pipeline.config().sources;
        let mut holes: Vec<Hole> =
            state.holes.iter().filter(|hole| configured.contains_key(&hole.source)).cloned().collect();
        holes.sort_by(|a, b| (a.from, &a.source, &a.path).cmp(&(b.from, &b.source, &b.path)));
        holes
    }

    async fn known(&self) -> Result<Arc<Known>, Fault> {
        if let Some(live) = &self.live
            && let Ok(inner) = live.inner.read()
            && let Some(known) = &inner.known
        {
            return Ok(known.clone());
        }
        let loaded = self.pipeline.load().await?;
        Ok(Arc::new(Known::of_log(loaded.state, loaded.recent)))
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
        let state = &known.state;
        let configured = &self.pipeline.config().sources;
        // The log keeps a source that was taken out of the configuration until the next batch.
        let sources = || state.sources.iter().filter(|(name, _)| configured.contains_key(*name));
        let newest: BTreeMap<_, _> =
            sources().filter_map(|(name, source)| Some((name.clone(), source.newest_end?))).collect();
        let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
        Ok(StatusReport {
            pipeline: self.name().to_owned(),
            seq: state.stamp.map(|stamp| stamp.sequence),
            watermark: state.watermark,
            frontier,
            processing_lag_s: state.watermark.map(|watermark| seconds(watermark, frontier)),
            data_age_s: newest.values().min().map(|end| seconds(*end, now)),
            files: sources().map(|(name, source)| (name.clone(), source.live.len() as u64)).collect(),
            newest,
            documents: state.documents,
            generation: state.generations.live.to_string(),
            freshness_s: freshness_s(&known.recent),
            complete: self.complete(state),
            holes: self.open_holes(state),
            quarantined: sources().flat_map(|(_, source)| source.quarantined.values().cloned()).collect(),
            alarms: known.alarms.clone(),
            rejected: last_batch(&known.recent).map(|batch| batch.receipt.rejected.clone()).unwrap_or_default(),
            writer: writer(known.recent.iter().map(|record| &**record)),
        })
    }

    async fn holes(&self) -> Result<HolesReport, Fault> {
        let known = self.known().await?;
        let state = &known.state;
        Ok(HolesReport {
            pipeline: self.name().to_owned(),
            complete: self.complete(state),
            holes: self.open_holes(state),
            holes_closed: Some(state.closed_holes.clone()),
        })
    }

    async fn batches(&self, limit: usize) -> Result<Vec<BatchReport>, Fault> {
        let known = self.known().await?;
        Ok(known.recent.iter().rev().filter_map(|record| record_report(record)).take(limit).collect())
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
        let last_tick = self.live.as_ref().and_then(|live| live.inner.read().ok()?.last_sign);
        Progress { last_tick, expected_every: self.expected_every(), loop_runs_here: self.live.is_some() }
    }

    /// Without an objective of its own a pipeline is fresh while its loop ticks, a batch was committed, and all of its
    /// sources can be listed: the watermark waits where one cannot.
    fn ready(&self) -> Result<(), String> {
        let Some(live) = &self.live else { return Ok(()) };
        let live = live.inner.read().map_err(|_| "the loop's state is lost".to_owned())?;
        if let Some(waiting) = &live.waiting {
            return Err(waiting.clone());
        }
        if let Some(fault) = &live.fault {
            return Err(fault.clone());
        }
        let known = live.known.as_ref().ok_or("the loop has not begun")?;
        let last = live.last_tick.ok_or("no tick was completed yet")?;
        if known.state.stamp.is_none() {
            return Err("no batch was committed yet".into());
        }
        if let Some(alarm) = known.alarms.iter().find(|alarm| alarm.kind == "listing_failed") {
            let source = alarm.source.as_ref().map_or(String::new(), |source| format!("source {source}: "));
            return Err(format!("{source}{}", alarm.detail));
        }
        let silent = self.pipeline.clock.now().duration_since(last);
        if silent.unsigned_abs() > self.expected_every() {
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
        Body::Claim { .. } | Body::Generation { .. } => return None,
        Body::Advance { watermark, holes, closed, alarms, .. } => {
            report.holes_closed.clone_from(closed);
            report.alarms.clone_from(alarms);
            report.watermark = Some(*watermark);
            report.holes.clone_from(holes);
        }
        Body::Batch(batch) => {
            take(&mut report, &batch.receipt);
            report.watermark = Some(batch.watermark);
            report.holes.clone_from(&batch.holes);
            report.holes_closed.clone_from(&batch.closed);
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
        holes_closed: Vec::new(),
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

fn freshness_s(recent: &VecDeque<Arc<Record>>) -> Option<Percentiles<f64>> {
    let mut all = Vec::new();
    for record in recent {
        if let Body::Batch(batch) = &record.body {
            all.extend_from_slice(&batch.freshness_ms);
        }
    }
    let ms = percentiles(all)?;
    Some(Percentiles { p50: ms.p50 as f64 / 1000.0, p99: ms.p99 as f64 / 1000.0 })
}

/// Who wrote last, as the newest claim of these says.
pub(super) fn writer<'a>(recent: impl DoubleEndedIterator<Item = &'a Record>) -> Option<WriterReport> {
    recent.rev().find_map(|record| match &record.body {
        Body::Claim { holder, .. } => Some(WriterReport { holder: holder.clone(), since: record.clock }),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
