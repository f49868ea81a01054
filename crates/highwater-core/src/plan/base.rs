//! Which base snapshot a table stands on: the newest one that is complete, was listed, and can be read. Once another one
//! is stood on, there is no way back: the partitions that an older one needs have left the table.

use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::Facts;
use super::source::retry_at;
use crate::file::{BASE, FileVersion};
use crate::listing::{Placed, Snapshot, View};
use crate::log::SourceState;
use crate::policy::{BasePolicy, Partitioned};

/// A snapshot with less than one part in so many of the bytes of the one in use is not believed.
const PARTS: u64 = 2;

/// What a table that has bases stands on.
#[derive(Clone, Debug, Default)]
pub(super) struct Ground {
    /// The snapshot whose rows it holds.
    pub time: Option<Timestamp>,
    /// Where its files are listed, if it is another one than before.
    pub newly: Option<Arc<str>>,
    /// A snapshot that is not taken because it is so much smaller.
    pub withheld: Option<String>,
}

/// The time of the snapshot that is pinned.
pub(crate) fn pinned(base: &BasePolicy, before: &SourceState) -> Option<Timestamp> {
    base.time_of(&files_of(before).next()?.path).ok()
}

/// Chooses the snapshot for a batch at `clock`.
pub(super) fn ground(clock: Timestamp, time: &Partitioned, before: &SourceState, facts: &Facts<'_>) -> Ground {
    let Some(base) = time.base() else { return Ground::default() };
    let in_use = pinned(base, before);
    let mut ground = Ground { time: in_use, ..Ground::default() };
    for snapshot in facts.view.snapshots().complete(time, clock) {
        if in_use >= Some(snapshot.time) {
            break;
        }
        if !is_readable(&snapshot, clock, before, facts.view) {
            continue;
        }
        if let Some(why) = shrinks(&snapshot, before, facts) {
            ground.withheld.get_or_insert(why);
            continue;
        }
        ground.time = Some(snapshot.time);
        ground.newly = Some(snapshot.prefix);
        break;
    }
    ground
}

/// The pinned files of a base.
fn files_of(before: &SourceState) -> impl Iterator<Item = &FileVersion> {
    let from = before.live.range::<str, _>((Bound::Included(BASE), Bound::Unbounded));
    from.map(|(_, version)| version).take_while(|version| version.path.starts_with(BASE))
}

/// True if it was listed, holds files, and none of them waits in quarantine.
fn is_readable(snapshot: &Snapshot, clock: Timestamp, before: &SourceState, view: &View) -> bool {
    let waits = |file: &Placed| {
        let known = before.quarantined.get(&file.version.path).filter(|known| known.version == file.version);
        known.is_some_and(|known| clock < retry_at(known))
    };
    view.listed_at(&snapshot.prefix).is_some()
        && view.below(&snapshot.prefix).any(|file| file.version.size > 0)
        && !view.below(&snapshot.prefix).any(waits)
}

fn shrinks(snapshot: &Snapshot, before: &SourceState, facts: &Facts<'_>) -> Option<String> {
    if facts.policy.guard.limit.is_none() || facts.accepted.is_some_and(|until| snapshot.time <= until) {
        return None;
    }
    let pinned: u64 = files_of(before).map(|version| version.size).sum();
    let offered: u64 = facts.view.below(&snapshot.prefix).map(|file| file.version.size).sum();
    (offered < pinned / PARTS).then(|| {
        format!(
            "{} has {offered} bytes, the snapshot in use {pinned}: it is not taken; if it is whole: highwater accept-removals {}",
            snapshot.prefix, facts.policy.name
        )
    })
}
