//! Holes of files in quarantine: one a file, by name, as long as it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Ledger;
use crate::file::SourceName;
use crate::holes::{ClosedHole, Hole, HoleCause, HoleEnd, OPEN_KEPT};
use crate::log::{Cursor, PipelineState, SourceState};
use crate::partition::Partition;
use crate::policy::SourcePolicy;
use crate::receipt::Quarantined;

/// What the record with these cursors means for the holes of files in quarantine. Only a batch's end tells which of its
/// files could not be read.
pub(crate) fn quarantine<'a>(
    clock: Timestamp,
    state: &PipelineState,
    cursors: &BTreeMap<SourceName, Cursor>,
    policies: impl Iterator<Item = &'a SourcePolicy>,
) -> (Vec<Hole>, Vec<ClosedHole>) {
    let mut ledger = Ledger::new(clock, &state.holes);
    let (no_state, no_cursor) = (SourceState::default(), Cursor::default());
    for policy in policies {
        let name = &policy.name;
        let before = state.sources.get(name).unwrap_or(&no_state);
        let cursor = cursors.get(name).unwrap_or(&no_cursor);
        let ours = |hole: &&Hole| hole.source == *name && hole.cause == HoleCause::Quarantined;
        let told: u64 = state.holes.iter().filter(ours).map(Hole::stands_for).sum();
        let moved = !cursor.quarantined.is_empty() || !cursor.released.is_empty();
        if moved || told != before.quarantined.len() as u64 {
            reconcile(&mut ledger, policy, before, cursor);
        }
    }
    (ledger.opened, ledger.closed)
}

fn reconcile(ledger: &mut Ledger<'_>, policy: &SourcePolicy, before: &SourceState, cursor: &Cursor) {
    let released: BTreeSet<&Arc<str>> = cursor.released.iter().collect();
    let stay = before.quarantined.iter().filter(|(path, _)| !released.contains(path));
    let mut after: BTreeMap<&str, &Quarantined> = stay.map(|(path, entry)| (&**path, entry)).collect();
    after.extend(cursor.quarantined.iter().map(|entry| (&*entry.version.path, entry)));

    let (mut named, mut rest) = (0, None);
    for hole in ledger.of(&policy.name, HoleCause::Quarantined) {
        let Some(path) = &hole.path else {
            rest = Some(hole);
            continue;
        };
        match after.remove(path.as_str()) {
            Some(entry) => {
                named += 1;
                ledger.put(Hole { detail: Some(entry.reason.clone()), ..hole.clone() });
            }
            None => ledger.close(&hole, end_of(path, policy, before, cursor)),
        }
    }
    let mut unnamed = after.into_values();
    for entry in unnamed.by_ref().take(OPEN_KEPT.saturating_sub(named)) {
        let (from, to) = range_of(entry, policy);
        let blank = ledger.hole(&policy.name, HoleCause::Quarantined, from, to);
        let (path, detail) = (Some(entry.version.path.to_string()), Some(entry.reason.clone()));
        ledger.put(Hole { path, detail, ..blank });
    }
    count_rest(ledger, policy, &unnamed.collect::<Vec<_>>(), rest);
}

/// The files past those with a name of their own.
fn count_rest(ledger: &mut Ledger<'_>, policy: &SourcePolicy, files: &[&Quarantined], known: Option<Hole>) {
    let ranges: Vec<(Timestamp, Timestamp)> = files.iter().map(|entry| range_of(entry, policy)).collect();
    let (from, to) = (ranges.iter().map(|range| range.0).min(), ranges.iter().map(|range| range.1).max());
    let (Some(from), Some(to)) = (from, to) else {
        if let Some(known) = known {
            ledger.close(&known, HoleEnd::Merged);
        }
        return;
    };
    let count = files.len() as u64;
    let blank = ledger.hole(&policy.name, HoleCause::Quarantined, from, to);
    let hole = match known {
        Some(known) if known.from <= from => known,
        Some(known) => {
            ledger.close(&known, HoleEnd::Merged);
            blank
        }
        None => blank,
    };
    let detail = Some(format!("{count} more of this source"));
    ledger.put(Hole { to: hole.to.max(to), count: Some(count), detail, ..hole });
}

/// The file's partition; where the source has no time, the instant at which it was found.
fn range_of(entry: &Quarantined, policy: &SourcePolicy) -> (Timestamp, Timestamp) {
    let partition = partition_of(&entry.version.path, policy);
    partition.map_or((entry.since, entry.since), |partition| (partition.start, partition.end))
}

fn partition_of(path: &str, policy: &SourcePolicy) -> Option<Partition> {
    policy.partitioned()?.partition_of(path).ok()
}

fn end_of(path: &str, policy: &SourcePolicy, before: &SourceState, cursor: &Cursor) -> HoleEnd {
    let taken = cursor.added.iter().any(|version| &*version.path == path);
    let stays = before.live.contains_key(path) && !cursor.removed.iter().any(|removed| &**removed == path);
    if taken || stays {
        return HoleEnd::Filled;
    }
    let bound = cursor.evict_before.max(before.evict_before);
    let start = partition_of(path, policy).map(|partition| partition.start);
    if start.is_some() && start < bound { HoleEnd::LeftWindow } else { HoleEnd::Removed }
}
