//! What operators order of a pipeline, seen from outside: what there is to decide, and how an order is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use highwater_core::log::{PipelineState, Record, SourceState};
use highwater_core::orders::ObjectOrders;
use highwater_core::plan::{BASE_WITHHELD, fillable};
use highwater_core::ports::{Fault, Order, Orders};
use highwater_core::receipt::Quarantined;
use highwater_core::{SourceName, Timestamp};

use super::pipeline::Pipeline;
use super::view::writer;
use crate::config::SourceConfig;
use crate::nonce::nonce;
use crate::report::{AcceptReport, BackfillReport, RetryReport, WithheldReport, WriterReport};

/// How many paths a report names for each source.
const NAMED: usize = 10;

impl Pipeline {
    /// Accepts the removals that are withheld now, of one source or of all; the writer carries it out.
    pub async fn accept_removals(&self, source: Option<&str>) -> Result<AcceptReport, Fault> {
        let source = self.meant(source)?;
        let loaded = self.load().await?;
        let state = loaded.state;
        let mut withheld = BTreeMap::new();
        let mut until: Option<Timestamp> = None;
        for (name, known) in meant(&state, source.as_ref()) {
            let Some(since) = known.withheld.paths.values().min() else { continue };
            until = until.max(known.withheld.paths.values().max().copied());
            let report = WithheldReport {
                files: known.withheld.paths.len() as u64,
                of: known.live.len() as u64,
                since: *since,
                paths: known.withheld.paths.keys().take(NAMED).map(ToString::to_string).collect(),
            };
            withheld.insert(name.clone(), report);
        }
        let bases = bases_withheld(&loaded.recent, source.as_ref());
        if !bases.is_empty() {
            until = until.max(Some(self.clock.now()));
        }
        let mut report = AcceptReport { order: None, withheld, bases, writer: writer(loaded.recent.iter()) };
        if let Some(at) = until {
            report.order = Some(self.leave(&Order::AcceptRemovals { source, at }).await?);
        }
        Ok(report)
    }

    /// Has files in quarantine tried again, of one source or of all, one path or all; the writer carries it out.
    pub async fn retry(&self, source: Option<&str>, path: Option<&str>) -> Result<RetryReport, Fault> {
        let source = self.meant(source)?;
        let (state, writer) = self.standing().await?;
        let mut quarantined: Vec<Quarantined> = Vec::new();
        for (_, known) in meant(&state, source.as_ref()) {
            let wanted =
                known.quarantined.values().filter(|entry| path.is_none_or(|path| path == &*entry.version.path));
            quarantined.extend(wanted.cloned());
        }
        let mut report = RetryReport { order: None, quarantined, writer };
        if !report.quarantined.is_empty() {
            let path = path.map(Arc::from);
            report.order = Some(self.leave(&Order::Retry { source, path }).await?);
        }
        Ok(report)
    }

    /// Has the files in holes of tables that keep their rows read, of one source or of all; the writer carries it out.
    pub async fn backfill(&self, source: Option<&str>) -> Result<BackfillReport, Fault> {
        let source = self.meant(source)?;
        let keeps = |name: &SourceName| self.config().sources.get(name).is_some_and(SourceConfig::keeps_rows);
        if let Some(source) = source.as_ref().filter(|source| !keeps(source)) {
            return Err(Fault::Invalid(format!(
                "rows of source {source} leave with their partition: its holes are not filled; retain = \"forever\" keeps rows"
            )));
        }
        let (state, writer) = self.standing().await?;
        let mut holes = Vec::new();
        for (name, _) in meant(&state, source.as_ref()).into_iter().filter(|(name, _)| keeps(name)) {
            holes.extend(fillable(name, &state.holes).cloned());
        }
        let mut report = BackfillReport { order: None, holes, writer };
        if !report.holes.is_empty() {
            report.order = Some(self.leave(&Order::Backfill { source }).await?);
        }
        Ok(report)
    }

    async fn leave(&self, order: &Order) -> Result<String, Fault> {
        let name = nonce();
        self.orders.give(&name, order).await?;
        Ok(name)
    }

    async fn standing(&self) -> Result<(PipelineState, Option<WriterReport>), Fault> {
        let loaded = self.load().await?;
        let writer = writer(loaded.recent.iter());
        Ok((loaded.state, writer))
    }

    fn meant(&self, source: Option<&str>) -> Result<Option<SourceName>, Fault> {
        let Some(source) = source.map(SourceName::new) else { return Ok(None) };
        if self.config().sources.contains_key(&source) {
            return Ok(Some(source));
        }
        let known: Vec<&str> = self.config().sources.keys().map(SourceName::as_str).collect();
        Err(Fault::Invalid(format!("there is no source {source}; the configuration has {}", known.join(", "))))
    }
}

/// Snapshots that the last tick on record did not take.
fn bases_withheld(recent: &[Record], source: Option<&SourceName>) -> BTreeMap<SourceName, String> {
    let last = recent.iter().rev().find_map(Record::alarms);
    let withheld = last.into_iter().flatten().filter(|alarm| alarm.kind == BASE_WITHHELD);
    let named = withheld.filter_map(|alarm| Some((alarm.source.clone()?, alarm.detail.clone())));
    named.filter(|(name, _)| source.is_none_or(|source| source == name)).collect()
}

fn meant<'a>(state: &'a PipelineState, source: Option<&SourceName>) -> Vec<(&'a SourceName, &'a SourceState)> {
    state.sources.iter().filter(|(name, _)| source.is_none_or(|source| source == *name)).collect()
}

/// The orders that wait, and one more: every removal is accepted.
pub(super) struct Accepting(pub Arc<ObjectOrders>);

#[async_trait]
impl Orders for Accepting {
    async fn waiting(&self) -> Result<Vec<Order>, Fault> {
        // Orders that cannot be looked for are no reason to forget this one.
        let mut waiting = self.0.waiting().await.unwrap_or_default();
        waiting.push(Order::AcceptRemovals { source: None, at: Timestamp::MAX });
        Ok(waiting)
    }

    async fn done(&self, orders: &[Order]) -> Result<(), Fault> {
        self.0.done(orders).await
    }
}
