//! From a committed batch to its record: what is pinned now, what is in quarantine, and the log's shortcuts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Driver, Ports};
use crate::file::{BASE, SourceName};
use crate::holes::{ClosedHole, Hole};
use crate::listing::SourceLister;
use crate::log::{BatchLog, BatchRecord, Body, Cursor, PipelineState, Record, append, snapshot_due};
use crate::plan::{Plan, SourcePlan, quarantine};
use crate::ports::{Committed, Fault};
use crate::receipt::Quarantined;

/// What the log gathered since its last snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SinceSnapshot {
    pub records: u64,
    pub changes: u64,
}

impl Driver {
    /// Records a batch that the sink committed.
    pub(super) async fn record(
        &mut self,
        ports: Ports<'_>,
        plan: &Plan,
        committed: Committed,
    ) -> Result<Record, Fault> {
        let committed_at = ports.clock.now();
        let mut sources = BTreeMap::new();
        for (name, planned) in &plan.sources {
            let failed: Vec<&Quarantined> =
                committed.receipt.quarantined.iter().filter(|q| q.source == *name).collect();
            sources.insert(name.clone(), cursor(planned, &failed, name, &self.session.claimed.state));
        }
        let freshness_ms = if self.first_batch { Vec::new() } else { self.freshness_ms(&sources, plan, committed_at) };
        let mut receipt = committed.receipt;
        receipt.quarantined = sources.values().flat_map(|cursor| cursor.quarantined.iter().cloned()).collect();
        let changes = sources.values().map(|cursor| cursor.added.len() + cursor.removed.len()).sum::<usize>();
        self.lacking.clone_from(&receipt.lacking);
        self.outgrown = committed.outgrown;
        let (holes, closed) = self.ledger(plan, &sources);
        let alarms = self.alarms_after(plan);
        let batch = BatchRecord {
            watermark: plan.watermark,
            sources,
            receipt,
            holes,
            closed,
            alarms,
            requests: ports.store.requests().since(self.requests.unwrap_or_default()),
            spec: committed.spec,
            freshness_ms,
        };
        let record = self.append(ports.log, plan.clock, Body::Batch(Box::new(batch))).await?;
        self.first_batch = false;
        (self.compare_all, self.sink_is_ahead) = (false, false);
        self.settle(plan);
        self.since_snapshot.changes += changes as u64;
        self.shorten(ports.log).await;
        Ok(record)
    }

    /// The holes that a record opens and ends: the plan's, and those of files that came into quarantine or left it.
    pub(super) fn ledger(&self, plan: &Plan, cursors: &BTreeMap<SourceName, Cursor>) -> (Vec<Hole>, Vec<ClosedHole>) {
        let policies = self.listers.values().map(SourceLister::policy);
        let (opened, ended) = quarantine(plan.clock, self.state(), cursors, policies);
        let (mut holes, mut closed) = (plan.holes.clone(), plan.closed.clone());
        holes.extend(opened);
        closed.extend(ended);
        (holes, closed)
    }

    /// Appends a record under the next number, or learns that the pipeline has another writer.
    pub(super) async fn append(&mut self, log: &dyn BatchLog, clock: Timestamp, body: Body) -> Result<Record, Fault> {
        self.broken = true;
        let record = append(log, &mut self.session.claimed, clock, body).await?;
        self.broken = false;
        self.since_snapshot.records += 1;
        Ok(record)
    }

    /// Writes a snapshot when due, and trims what it makes superfluous. Both are shortcuts: a failure costs nothing now.
    pub(super) async fn shorten(&mut self, log: &dyn BatchLog) {
        let live = self.session.claimed.state.sources.values().map(|source| source.live.len() as u64).sum();
        if !snapshot_due(self.since_snapshot.records, self.since_snapshot.changes, live) {
            return;
        }
        let stamp = self.session.claimed.state.stamp.map(|stamp| stamp.sequence).unwrap_or_default();
        let written = async {
            log.snapshot(&self.session.claimed.state).await?;
            log.trim(stamp).await.map(|_| ())
        };
        match written.await {
            Ok(()) => self.since_snapshot = SinceSnapshot::default(),
            Err(error) => tracing::warn!(%error, "the log's snapshot was not written; it will be tried again"),
        }
    }

    /// How long each file waited that came into a table in this batch and was not tried before. What fills a hole, and a
    /// snapshot, is no news.
    fn freshness_ms(&self, sources: &BTreeMap<SourceName, Cursor>, plan: &Plan, committed_at: Timestamp) -> Vec<u64> {
        let mut lags = Vec::new();
        for (name, cursor) in sources {
            let Some(lister) = self.listers.get(name) else { continue };
            let filled = plan.sources.get(name).map(|planned| &planned.filled);
            let is_news = |path: &Arc<str>| {
                !(cursor.released.contains(path)
                    || filled.is_some_and(|filled| filled.contains(path))
                    || path.starts_with(BASE))
            };
            for version in cursor.added.iter().filter(|version| is_news(&version.path)) {
                let modified = lister.view().files().get(&version.path).and_then(|file| file.modified);
                let lag = modified.map(|modified| committed_at.duration_since(modified).as_millis().max(0));
                lags.extend(lag.and_then(|ms| u64::try_from(ms).ok()));
            }
        }
        lags
    }
}

/// An entry, with the tries of the same version before it.
pub(super) fn tried_again(entry: &Quarantined, before: Option<&Quarantined>) -> Quarantined {
    let mut entry = entry.clone();
    if let Some(before) = before.filter(|before| before.version == entry.version) {
        entry.attempts = before.attempts + 1;
        entry.since = before.since;
    }
    entry
}

/// A replaced file that cannot be read keeps its pinned version; a new one is not pinned at all.
fn cursor(planned: &SourcePlan, failed: &[&Quarantined], source: &SourceName, state: &PipelineState) -> Cursor {
    let known = state.sources.get(source).map(|source| &source.quarantined);
    let failed_paths: BTreeSet<&Arc<str>> = failed.iter().map(|q| &q.version.path).collect();
    let planned_paths: BTreeSet<&Arc<str>> = planned.added.iter().map(|version| &version.path).collect();
    let mut cursor = Cursor {
        kind: "files".into(),
        evict_before: planned.evict_before,
        newest_end: planned.newest_end,
        released: planned.released.clone(),
        withheld: planned.change.clone(),
        ..Cursor::default()
    };
    for version in &planned.added {
        if failed_paths.contains(&version.path) {
            continue;
        }
        if known.is_some_and(|known| known.contains_key(&version.path)) {
            cursor.released.push(version.path.clone());
        }
        cursor.added.push(version.clone());
    }
    for version in &planned.dropped {
        if !planned_paths.contains(&version.path) {
            cursor.removed.push(version.path.clone());
        }
    }
    for entry in failed.iter().copied().chain(&planned.quarantined) {
        let entry = entry.clone();
        let is_new = planned_paths.contains(&entry.version.path) || planned.quarantined.contains(&entry);
        let before = known.and_then(|known| known.get(&entry.version.path));
        // A pinned version that is out of reach is met in every batch. Only a try that was due counts; and where a newer
        // version is in quarantine already, that one is what is tried.
        if before.is_some() && !is_new && !planned.released.contains(&entry.version.path) {
            continue;
        }
        cursor.quarantined.push(if planned.quarantined.contains(&entry) { entry } else { tried_again(&entry, before) });
    }
    cursor
}
