//! Which holes open with a plan and which ones end. Knows what is planned; plans nothing.

mod quarantine;
mod thin;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::source::{Planned, Times};
use super::{Facts, SourcePlan};
use crate::file::SourceName;
use crate::holes::{ClosedHole, Hole, HoleCause, HoleEnd, OPEN_KEPT};
use crate::log::SourceState;
use crate::partition::Partition;
use crate::policy::{Partitioned, Retention};

pub(crate) use quarantine::quarantine;

/// So many partitions of a hole without files end at once, where nothing else is to be recorded.
const PIECE: i64 = 64;
/// How many late files of one partition have an entry by name; the others of it are counted in one more.
const NAMED_LATE: usize = 3;

/// The open holes of a state, and how they change.
pub(super) struct Ledger<'a> {
    clock: Timestamp,
    open: &'a [Hole],
    pub opened: Vec<Hole>,
    pub closed: Vec<ClosedHole>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(clock: Timestamp, open: &'a [Hole]) -> Self {
        Self { clock, open, opened: Vec::new(), closed: Vec::new() }
    }

    /// Every hole that is open as things stand.
    pub(super) fn current(&self) -> impl Iterator<Item = &Hole> {
        let superseded = |hole: &&Hole| {
            self.opened.iter().any(|opened| opened.is_same(hole)) || self.closed.iter().any(|c| c.hole.is_same(hole))
        };
        self.open.iter().filter(move |hole| !superseded(hole)).chain(&self.opened)
    }

    fn of(&self, source: &SourceName, cause: HoleCause) -> Vec<Hole> {
        let mut holes: Vec<Hole> =
            self.current().filter(|hole| hole.source == *source && hole.cause == cause).cloned().collect();
        holes.sort_by(|a, b| (a.from, &a.path).cmp(&(b.from, &b.path)));
        holes
    }

    fn has(&self, source: &SourceName, cause: HoleCause) -> bool {
        self.open.iter().chain(&self.opened).any(|hole| hole.source == *source && hole.cause == cause)
    }

    /// Opens a hole, or changes the open one that is the same.
    fn put(&mut self, hole: Hole) {
        self.opened.retain(|opened| !opened.is_same(&hole));
        if !self.open.contains(&hole) {
            self.opened.push(hole);
        }
    }

    fn close(&mut self, hole: &Hole, end: HoleEnd) {
        self.opened.retain(|opened| !opened.is_same(hole));
        if self.open.iter().any(|open| open.is_same(hole)) {
            self.closed.push(ClosedHole { hole: hole.clone(), end, closed: self.clock });
        }
    }

    /// Part of a hole is one no more; what is left of it is put anew.
    fn end_part(&mut self, part: Hole, end: HoleEnd) {
        self.opened.retain(|opened| !opened.is_same(&part));
        self.closed.push(ClosedHole { hole: part, end, closed: self.clock });
    }

    fn hole(&self, source: &SourceName, cause: HoleCause, from: Timestamp, to: Timestamp) -> Hole {
        let (source, since) = (source.clone(), self.clock);
        Hole { source, cause, from, to, path: None, since, detail: None, count: None }
    }

    /// A lag passed `[from, to)` over. What it continues grows: a lag that lasts is one entry.
    pub(super) fn pass_over(&mut self, source: &SourceName, from: Timestamp, to: Timestamp) {
        let known = self.of(source, HoleCause::PassedOver).into_iter().find(|h| h.from <= from && from <= h.to);
        match known {
            Some(known) if known.to < to => self.put(Hole { to, ..known }),
            Some(_) => {}
            None => self.put(self.hole(source, HoleCause::PassedOver, from, to)),
        }
    }

    /// Goes through what one source's plan means for its holes.
    pub(super) fn tend(&mut self, times: Times, before: &SourceState, facts: &Facts<'_>, planned: &Planned) {
        let Some(time) = facts.policy.partitioned() else { return };
        let name = &facts.policy.name;
        self.open_late(name, &planned.late);
        self.close_late(before, facts, &planned.plan);
        self.fill(time, facts, planned);
        thin::tend(self, &thin::Look { times, before, facts, time, planned });
        self.leave(name, time, &planned.plan, times.watermark);
        for cause in [HoleCause::PassedOver, HoleCause::LateFile, HoleCause::UnderFilled] {
            self.fold(name, cause);
        }
    }

    fn open_late(&mut self, source: &SourceName, late: &[(Arc<str>, Partition)]) {
        if late.is_empty() {
            return;
        }
        let mut by_partition: BTreeMap<Partition, Vec<&Arc<str>>> = BTreeMap::new();
        for (path, partition) in late {
            by_partition.entry(*partition).or_default().push(path);
        }
        let known = self.of(source, HoleCause::LateFile);
        for (partition, paths) in by_partition {
            let here: Vec<&Hole> = known.iter().filter(|hole| hole.from == partition.start).collect();
            let blank = self.hole(source, HoleCause::LateFile, partition.start, partition.end);
            let mut room = NAMED_LATE.saturating_sub(here.iter().filter(|hole| hole.path.is_some()).count());
            let mut more = 0;
            for path in paths {
                if here.iter().any(|hole| hole.path.as_deref() == Some(path)) {
                    continue;
                }
                if room > 0 {
                    room -= 1;
                    self.put(Hole { path: Some(path.to_string()), ..blank.clone() });
                } else {
                    more += 1;
                }
            }
            if more > 0 {
                let counted = here.iter().find(|hole| hole.path.is_none());
                let counted = counted.map_or(Hole { count: Some(0), ..blank }, |hole| (*hole).clone());
                let count = counted.stands_for() + more;
                self.put(Hole {
                    count: Some(count),
                    detail: Some(format!("{count} more of this partition")),
                    ..counted
                });
            }
        }
    }

    /// A late file that was read after all, or is gone: only a complete listing tells.
    fn close_late(&mut self, before: &SourceState, facts: &Facts<'_>, plan: &SourcePlan) {
        let source = &facts.policy.name;
        if !self.has(source, HoleCause::LateFile) {
            return;
        }
        let view = facts.view;
        let moved = !view.changed().is_empty() || !view.first_listed().is_empty();
        let pinned = |path: &str| {
            before.live.contains_key(path) || plan.added.binary_search_by(|version| (*version.path).cmp(path)).is_ok()
        };
        for hole in self.of(source, HoleCause::LateFile) {
            let end = match &hole.path {
                Some(path) if pinned(path) => Some(HoleEnd::Filled),
                Some(path) => {
                    let there = view.files().get(path.as_str()).is_some_and(|file| file.version.size > 0);
                    let prefix = facts.prefixes.of_path(path);
                    let looked = prefix.is_some_and(|prefix| view.listed_at(&prefix).is_some());
                    (looked && !there).then_some(HoleEnd::Removed)
                }
                None if moved || !plan.filled.is_empty() => {
                    let end = if facts.backfill.is_some() { HoleEnd::Filled } else { HoleEnd::Removed };
                    self.is_empty(&hole, facts, &pinned).then_some(end)
                }
                None => None,
            };
            if let Some(end) = end {
                self.close(&hole, end);
            }
        }
    }

    /// A hole that a lag left is filled from its newest end on: as far as complete listings since it opened show no file
    /// that is not taken by now.
    fn fill(&mut self, time: &Partitioned, facts: &Facts<'_>, planned: &Planned) {
        let Some(bound) = planned.plan.evict_before.filter(|_| facts.backfill.is_some()) else {
            return;
        };
        let ours = |hole: &&Hole| hole.source == facts.policy.name && hole.cause == HoleCause::PassedOver;
        // One that this plan makes longer was not looked into yet.
        let unchanged = |hole: &&Hole| self.open.contains(hole);
        let open: Vec<Hole> = self.current().filter(ours).filter(unchanged).cloned().collect();
        for hole in open {
            let is_filled = |partition: &Partition| {
                let prefixes = facts.prefixes.of_range(partition.start, partition.end);
                let is_listed = |prefix: &String| facts.view.listed_at(prefix).is_some_and(|at| at >= hole.since);
                partition.start < bound
                    || !planned.left_out.contains(&partition.start) && prefixes.iter().all(is_listed)
            };
            let mut to = hole.to;
            while hole.from < to {
                let last = time.calendar.holding(to - SignedDuration::from_nanos(1));
                if !is_filled(&last) {
                    break;
                }
                to = last.start;
            }
            // A long hole without files is not to become a record a tick.
            let piece = SignedDuration::from_secs(time.calendar.step().as_secs().saturating_mul(PIECE));
            let is_told = planned.plan.changes() || hole.to.duration_since(to) >= piece;
            if to <= hole.from {
                self.close(&hole, HoleEnd::Filled);
            } else if to < hole.to && is_told {
                self.end_part(Hole { from: to, ..hole.clone() }, HoleEnd::Filled);
                self.put(Hole { to, ..hole });
            }
        }
    }

    /// True if complete listings of all its time show no file that is not in the table.
    fn is_empty(&self, hole: &Hole, facts: &Facts<'_>, pinned: &dyn Fn(&str) -> bool) -> bool {
        let prefixes = facts.prefixes.of_range(hole.from, hole.to);
        if !prefixes.iter().all(|prefix| facts.view.listed_at(prefix).is_some()) {
            return false;
        }
        let inside = |partition: &Partition| hole.from <= partition.start && partition.start < hole.to;
        !facts.view.files().values().any(|file| {
            file.version.size > 0 && file.partition.as_ref().is_some_and(inside) && !pinned(&file.version.path)
        })
    }

    /// What is missing would have left the table by now. Rows that stay for ever never leave it. A hole that a lag left
    /// holds the eviction bound up: it ends only once both the bound and the watermark are past it for good.
    fn leave(&mut self, source: &SourceName, time: &Partitioned, plan: &SourcePlan, watermark: Timestamp) {
        let Some(bound) = plan.evict_before else { return };
        // Behind the bound the rows of a base stand for the partitions.
        let behind = match &time.retention {
            Retention::Since(_) => return,
            Retention::Window => bound - time.window,
            Retention::Base(_) => bound,
        };
        let gone = |hole: &&Hole| {
            let behind = match hole.cause {
                HoleCause::PassedOver | HoleCause::LateFile => hole.to <= behind,
                HoleCause::UnderFilled => hole.to <= bound,
                HoleCause::Quarantined => false,
            };
            hole.source == *source && behind && hole.to <= watermark
        };
        let gone: Vec<Hole> = self.current().filter(gone).cloned().collect();
        for hole in gone {
            self.close(&hole, if time.base().is_some() { HoleEnd::Rebased } else { HoleEnd::LeftWindow });
        }
    }

    /// Past [`OPEN_KEPT`] entries the oldest become one: a table that keeps its rows for ever keeps its holes too.
    fn fold(&mut self, source: &SourceName, cause: HoleCause) {
        let ours = |hole: &&Hole| hole.source == *source && hole.cause == cause;
        if self.open.iter().chain(&self.opened).filter(ours).count() <= OPEN_KEPT {
            return;
        }
        let all = self.of(source, cause);
        let Some(surplus) = all.len().checked_sub(OPEN_KEPT).filter(|surplus| *surplus > 0) else { return };
        let oldest = &all[..=surplus];
        let count: u64 = oldest.iter().map(Hole::stands_for).sum();
        let merged = Hole {
            to: oldest.iter().map(|hole| hole.to).max().unwrap_or(oldest[0].to),
            since: oldest.iter().map(|hole| hole.since).min().unwrap_or(self.clock),
            path: None,
            count: Some(count),
            detail: Some(format!("the oldest {count}; the records tell each")),
            ..oldest[0].clone()
        };
        let keys: BTreeSet<(Timestamp, &Option<String>)> = oldest.iter().map(|hole| (hole.from, &hole.path)).collect();
        let folded =
            |hole: &Hole| hole.source == *source && hole.cause == cause && keys.contains(&(hole.from, &hole.path));
        self.opened.retain(|hole| !folded(hole));
        for hole in self.open.iter().filter(|hole| folded(hole) && !hole.is_same(&merged)) {
            self.closed.push(ClosedHole { hole: hole.clone(), end: HoleEnd::Merged, closed: self.clock });
        }
        self.put(merged);
    }
}
