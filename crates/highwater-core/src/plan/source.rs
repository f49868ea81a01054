//! The plan of one source: its watermark, its eviction bound, and which file versions come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::alarms::{BASE_WITHHELD, raise};
use super::base::{self, Ground};
use super::guard::{self, Asked, Withholding, start_of};
use super::{Facts, Scope, SourcePlan, Unplanned, passed_over};
use crate::file::{BASE, FileVersion, SourceName};
use crate::listing::{Placed, View};
use crate::log::{PipelineState, SourceState};
use crate::partition::Partition;
use crate::policy::{self, BasePolicy, Partitioned, PipelinePolicy, Retention};
use crate::receipt::{Alarm, Quarantined};

const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(60);
const LAST_RETRY: SignedDuration = SignedDuration::from_secs(3600);

/// One source's part of a plan.
pub(super) struct Planned {
    pub plan: SourcePlan,
    /// Files that came too late for the live range, with their partitions, in path order.
    pub late: Vec<(Arc<str>, Partition)>,
    /// Files that lie in holes and may be read.
    missed: Vec<Placed>,
    /// Starts of the partitions whose files in holes were not all taken.
    pub left_out: BTreeSet<Timestamp>,
    pub withholding: Option<Withholding>,
}

/// Takes files in holes as far as the budget goes, one at least: the newest time first.
fn fill(budget: u64, planned: &mut Planned, asked: &mut Asked) {
    let start = |file: &Placed| file.partition.map(|partition| partition.start);
    planned.missed.sort_by(|a, b| (start(b), &a.version.path).cmp(&(start(a), &b.version.path)));
    let mut bytes = 0;
    for file in &planned.missed {
        if bytes > 0 && bytes + file.version.size > budget {
            break;
        }
        bytes += file.version.size;
        asked.comes(file, None);
    }
}

impl Planned {
    /// What became of files in holes: those that the budget or the guard left out are not filled.
    fn tell_filled(&mut self) {
        for file in &self.missed {
            let path = &file.version.path;
            if self.plan.added.binary_search_by(|version| version.path.cmp(path)).is_ok() {
                self.plan.filled.insert(path.clone());
            } else {
                self.left_out.extend(file.partition.map(|partition| partition.start));
            }
        }
        self.plan.unfilled = !self.left_out.is_empty();
    }
}

/// W: the least of the sources' watermarks, never moving back. Where the batch `skips` a lag, what lies before the live
/// range need not have been listed; else every partition from the watermark on must have been.
pub(super) fn watermark(
    clock: Timestamp,
    state: &PipelineState,
    facts: &BTreeMap<SourceName, Facts<'_>>,
    policy: &PipelinePolicy,
    skips: bool,
) -> Timestamp {
    let Some(frontier) = frontier(clock, facts) else {
        let frontier = policy.calendar.frontier(clock, policy.settle);
        return state.watermark.map_or(frontier, |before| before.max(frontier));
    };
    let nothing = SourceState::default();
    let mut least = frontier;
    for (name, facts) in facts {
        let Some(time) = facts.policy.partitioned() else { continue };
        let before = state.sources.get(name).unwrap_or(&nothing);
        let skipped = if skips { Some(bound_at(frontier, clock, time, facts, before)) } else { None };
        let skipped = skipped.max(passed_over(name, state.holes.iter()));
        let passed = state.watermark.map(|passed| skipped.map_or(passed, |skipped| passed.max(skipped)));
        let here = watermark_of(clock, passed, time, facts, before);
        least = least.min(here);
    }
    state.watermark.map_or(least, |before| before.max(least))
}

/// The frontier of one source, held back by the first partition that was not listed completely since it settled.
pub fn watermark_of(
    clock: Timestamp,
    passed: Option<Timestamp>,
    time: &Partitioned,
    facts: &Facts<'_>,
    before: &SourceState,
) -> Timestamp {
    let frontier = time.calendar.frontier(clock, time.settle);
    let from = passed.unwrap_or_else(|| {
        // What lies before the first partition of a table that keeps its rows is not its own.
        let first = kept_since(time, &base::ground(clock, time, before, facts));
        bound_at(frontier, clock, time, facts, before).max(first.unwrap_or(Timestamp::MIN)).min(frontier)
    });
    let mut partition = time.calendar.holding(from);
    while partition.end <= frontier {
        let settled = partition.end + time.settle;
        let prefixes = facts.prefixes.of_range(partition.start, partition.end);
        if !prefixes.iter().all(|prefix| facts.view.listed_at(prefix).is_some_and(|at| at >= settled)) {
            return partition.start.max(from);
        }
        partition = time.calendar.next(&partition);
    }
    frontier.max(from)
}

pub(super) fn frontier(clock: Timestamp, facts: &BTreeMap<SourceName, Facts<'_>>) -> Option<Timestamp> {
    policy::frontier(clock, facts.values().map(|facts| facts.policy))
}

/// Where a source's window would begin with the watermark at `frontier`.
pub(super) fn bound_at(
    frontier: Timestamp,
    clock: Timestamp,
    time: &Partitioned,
    facts: &Facts<'_>,
    before: &SourceState,
) -> Timestamp {
    let newest = before.newest_end.max(newest_end(clock, time, facts.view, before));
    time.eviction_bound(frontier, newest)
}

/// End of the newest partition with data that listings saw; what lies too far in the future, or could not be read, does
/// not count.
fn newest_end(clock: Timestamp, time: &Partitioned, view: &View, before: &SourceState) -> Option<Timestamp> {
    view.newest_end(clock + time.max_skew, before.quarantined.values().map(|entry| &entry.version))
}

/// The times that one source is planned by.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub clock: Timestamp,
    pub watermark: Timestamp,
    pub watermark_before: Option<Timestamp>,
    /// End of the live range of a batch that catches up.
    pub until: Option<Timestamp>,
    /// End of the last hole that a lag left.
    pub passed_over: Option<Timestamp>,
}

/// What the source's table stands on; an error where a table that needs a snapshot has none.
pub(super) fn ground(clock: Timestamp, before: &SourceState, facts: &Facts<'_>) -> Result<Ground, Unplanned> {
    let Some((time, policy)) = facts.policy.partitioned().and_then(|time| Some((time, time.base()?))) else {
        return Ok(Ground::default());
    };
    let ground = base::ground(clock, time, before, facts);
    if ground.time.is_none() && before.evict_before.is_none() {
        let (source_name, settle) = (facts.policy.name.clone(), policy.settle);
        return Err(Unplanned::NoBase { source_name, settle });
    }
    Ok(ground)
}

/// Where the partitions begin whose rows stay for ever.
pub(super) fn kept_since(time: &Partitioned, ground: &Ground) -> Option<Timestamp> {
    match &time.retention {
        Retention::Window => None,
        Retention::Since(since) => Some(time.calendar.floor(*since)),
        Retention::Base(base) => ground.time.map(|at| time.since_base(base, at)),
    }
}

/// What else decides which files are live.
#[derive(Clone, Copy)]
pub(super) struct Stands<'a> {
    pub ground: &'a Ground,
    /// Time that holes say is missing and may be filled.
    pub missed: &'a [(Timestamp, Timestamp)],
}

/// Plans one source.
pub(super) fn plan(
    times: Times,
    before: &SourceState,
    facts: &Facts<'_>,
    stands: Stands<'_>,
    scope: Scope,
    alarms: &mut Vec<Alarm>,
) -> Planned {
    let Stands { ground, missed } = stands;
    let range = Range { missed, ..Range::new(times, before, facts, ground) };
    let mut planned = Planned {
        plan: SourcePlan {
            evict_before: range.evict_before,
            base: ground.time,
            withholds_base: ground.withheld.is_some(),
            newest_end: range.newest_end,
            ..SourcePlan::default()
        },
        late: Vec::new(),
        missed: Vec::new(),
        left_out: BTreeSet::new(),
        withholding: None,
    };
    let mut asked = Asked::default();
    for path in candidates(before, facts, &range, scope) {
        consider(&path, times.clock, before, facts, &range, &mut planned, &mut asked);
    }
    fill(facts.backfill.unwrap_or_default(), &mut planned, &mut asked);
    planned.withholding = guard::decide(times.clock, before, facts, asked, &mut planned.plan);
    planned.plan.in_order();
    planned.tell_filled();
    raise(times.clock, times.watermark, facts, &range, &planned, alarms);
    let withheld = ground.withheld.iter().map(|detail| Alarm {
        kind: BASE_WITHHELD.into(),
        source: Some(facts.policy.name.clone()),
        since: times.clock,
        detail: detail.clone(),
    });
    alarms.extend(withheld);
    planned
}

/// Which partitions are live, and which of them are open to what listings see.
pub(super) struct Range<'a> {
    /// The base's policy, and what the table stands on.
    base: Option<(&'a BasePolicy, &'a Ground)>,
    /// Another snapshot is stood on than before.
    base_moved: bool,
    /// Live files lie at or after it.
    pub evict_before: Option<Timestamp>,
    /// New files are taken in only at or after it: later than `evict_before` where rows stay for ever.
    accept_from: Option<Timestamp>,
    /// Partitions that start later are ignored.
    latest_start: Option<Timestamp>,
    /// Partitions at or after it wait (catching up).
    until: Option<Timestamp>,
    pub newest_end: Option<Timestamp>,
    evict_moved: bool,
    /// Time that holes say is missing and may be filled.
    missed: &'a [(Timestamp, Timestamp)],
    /// Time that was live before and is no more, and that no lag passed over: what is new there came too late.
    left: Option<(Timestamp, Timestamp)>,
}

impl<'a> Range<'a> {
    fn new(times: Times, before: &SourceState, facts: &Facts<'a>, ground: &'a Ground) -> Self {
        let Times { clock, watermark, until, passed_over, .. } = times;
        let Some(time) = facts.policy.partitioned() else {
            return Self {
                base: None,
                base_moved: false,
                evict_before: None,
                accept_from: None,
                latest_start: None,
                until: None,
                newest_end: None,
                evict_moved: false,
                missed: &[],
                left: None,
            };
        };
        let newest_end = before.newest_end.max(newest_end(clock, time, facts.view, before));
        // What a lag passed over stays out, though the watermark may still wait short of the frontier.
        let windowed = time.eviction_bound(watermark, newest_end).max(passed_over.unwrap_or(Timestamp::MIN));
        let base = time.base();
        let (evict_before, accept_from) = if time.keeps_rows() {
            let kept = kept_since(time, ground);
            // What an older snapshot needs has left the table with the one that came after it.
            let was = if base.is_some() { before.evict_before } else { None };
            let start = kept.max(was).unwrap_or(windowed);
            let first_time = before.evict_before.is_none();
            (start, if first_time { start.max(passed_over.unwrap_or(start)) } else { windowed.max(start) })
        } else {
            let bound = before.evict_before.map_or(windowed, |was| was.max(windowed));
            (bound, bound)
        };
        let left = before.evict_before.zip(times.watermark_before).map(|(evicted, passed)| {
            let since = if time.keeps_rows() {
                time.eviction_bound(passed, before.newest_end)
            } else {
                // What is older would have left the table since, had it come in time.
                time.calendar.floor(evict_before - time.window)
            };
            (since.max(evicted).max(passed_over.unwrap_or(evicted)), passed)
        });
        Self {
            base: base.map(|base| (base, ground)),
            base_moved: base.is_some_and(|base| base::pinned(base, before) != ground.time),
            evict_before: Some(evict_before),
            accept_from: Some(accept_from),
            missed: &[],
            left,
            latest_start: Some(clock + time.max_skew),
            until,
            newest_end,
            evict_moved: before.evict_before.is_some_and(|was| was < evict_before),
        }
    }

    /// True for a file of a snapshot that the table does not stand on.
    fn is_elsewhere(&self, path: &str) -> bool {
        let stood_on =
            |(base, ground): (&BasePolicy, &Ground)| ground.time.is_some() && base.time_of(path).ok() == ground.time;
        path.starts_with(BASE) && !self.base.is_some_and(stood_on)
    }

    /// True for a file of a snapshot that may be stood on later.
    fn may_come(&self, path: &str) -> bool {
        self.base.is_some_and(|(base, ground)| base.time_of(path).is_ok_and(|time| Some(time) > ground.time))
    }

    /// Live as far as time goes; what is too far ahead is not.
    fn holds(&self, file: &Placed) -> bool {
        let Some(partition) = &file.partition else { return true };
        self.evict_before.is_none_or(|bound| partition.start >= bound)
            && self.latest_start.is_none_or(|latest| partition.start <= latest)
    }

    /// True if what is new there is for a later batch of those that catch up.
    fn waits(&self, file: &Placed) -> bool {
        file.partition.as_ref().is_some_and(|partition| self.until.is_some_and(|until| partition.start >= until))
    }

    fn is_late(&self, file: &Placed) -> bool {
        let Some(partition) = &file.partition else { return false };
        self.accept_from.is_some_and(|bound| partition.start < bound)
    }

    /// True for a file in a hole that may be filled.
    fn may_fill(&self, file: &Placed) -> bool {
        let holds = |partition: &Partition| {
            self.missed.iter().any(|(from, to)| *from <= partition.start && partition.start < *to)
        };
        file.version.size > 0 && self.holds(file) && file.partition.as_ref().is_some_and(holds)
    }

    /// True if the view holds files that are too far ahead.
    pub(super) fn has_future(&self, view: &View) -> bool {
        self.latest_start.is_some_and(|latest| view.reaches_beyond(latest))
    }

    /// True if the file landed in time that was live when the last record was written, and is too late now.
    fn missed(&self, file: &Placed) -> bool {
        let (Some(partition), Some((from, to))) = (&file.partition, self.left) else { return false };
        from <= partition.start && partition.end <= to
    }

    pub(super) fn is_future(&self, file: &Placed) -> bool {
        let Some(partition) = &file.partition else { return false };
        self.latest_start.is_some_and(|latest| partition.start > latest)
    }
}

/// Paths that may come or go, in order.
fn candidates(before: &SourceState, facts: &Facts<'_>, range: &Range<'_>, scope: Scope) -> BTreeSet<Arc<str>> {
    let view = facts.view;
    let mut paths: BTreeSet<Arc<str>> = before.quarantined.keys().cloned().collect();
    match scope {
        Scope::Changed => {
            paths.extend(view.changed().iter().cloned());
            paths.extend(pinned_below(view.first_listed(), before, facts));
        }
        Scope::All => paths.extend(view.files().keys().cloned()),
    }
    if scope == Scope::All || range.evict_moved || range.base_moved {
        paths.extend(before.live.keys().cloned());
    }
    if let Some(prefix) = range.base.and_then(|(_, ground)| ground.newly.as_deref()) {
        paths.extend(view.below(prefix).map(|file| file.version.path.clone()));
    }
    if !range.missed.is_empty() {
        let in_holes = view.files().values().filter(|file| range.is_late(file) && range.may_fill(file));
        paths.extend(in_holes.map(|file| file.version.path.clone()));
    }
    paths.extend(concerned_by_withheld(before, facts));
    paths
}

/// Withheld files, and what is listed in their partitions: the log, not the listings' changes, says that they wait.
fn concerned_by_withheld(before: &SourceState, facts: &Facts<'_>) -> BTreeSet<Arc<str>> {
    let withheld = &before.withheld.paths;
    if withheld.is_empty() {
        return BTreeSet::new();
    }
    let partitions: BTreeSet<_> = withheld.keys().map(|path| start_of(path, facts)).collect();
    let there = |file: &&Placed| partitions.contains(&file.partition.map(|partition| partition.start));
    let listed = facts.view.files().values().filter(there).map(|file| file.version.path.clone());
    withheld.keys().cloned().chain(listed).collect()
}

/// Pinned files below prefixes that were listed for the first time: one that is not there has vanished unseen.
fn pinned_below(prefixes: &BTreeSet<Arc<str>>, before: &SourceState, facts: &Facts<'_>) -> Vec<Arc<str>> {
    if prefixes.is_empty() {
        return Vec::new();
    }
    let below = |path: &&Arc<str>| facts.prefixes.of_path(path).is_some_and(|prefix| prefixes.contains(&*prefix));
    before.live.keys().filter(below).cloned().collect()
}

fn consider(
    path: &Arc<str>,
    clock: Timestamp,
    before: &SourceState,
    facts: &Facts<'_>,
    range: &Range<'_>,
    planned: &mut Planned,
    asked: &mut Asked,
) {
    let live = before.live.get(path);
    let quarantined = before.quarantined.get(path);
    let plan = &mut planned.plan;
    let seen = facts.view.files().get(path);
    if range.is_elsewhere(path) {
        plan.dropped.extend(live.cloned());
        let waits = seen.is_some() && range.may_come(path);
        plan.released.extend(quarantined.filter(|_| !waits).map(|_| path.clone()));
        return;
    }
    let Some(seen) = seen else {
        let looked_at = facts.prefixes.of_path(path).is_some_and(|prefix| facts.view.listed_at(&prefix).is_some());
        let evicted = is_evicted(path, range, facts);
        match live {
            Some(version) if looked_at && !evicted => asked.goes(version),
            _ if looked_at || evicted => {
                plan.dropped.extend(live.cloned());
                plan.released.extend(quarantined.map(|_| path.clone()));
            }
            _ => {}
        }
        return;
    };
    if !range.holds(seen) {
        plan.dropped.extend(live.cloned());
        plan.released.extend(quarantined.map(|_| path.clone()));
    }
    if range.is_late(seen) && live.is_none() && quarantined.is_none() {
        if range.may_fill(seen) {
            planned.missed.push(seen.clone());
            return;
        }
        if seen.version.size > 0 && (facts.view.arrivals().contains(path) || range.missed(seen)) {
            planned.late.extend(seen.partition.map(|partition| (path.clone(), partition)));
        }
        return;
    }
    if !range.holds(seen) || range.waits(seen) {
        return;
    }
    let due = quarantined.is_none_or(|known| known.version != seen.version || clock >= retry_at(known));
    if live == Some(&seen.version) {
        // Where the pinned version itself can no longer be read, its quarantine ends with the next try.
        plan.released.extend(quarantined.filter(|_| due).map(|_| path.clone()));
        return;
    }
    if seen.version.size == 0 {
        match live {
            Some(_) if quarantined.is_none_or(|known| known.version != seen.version) => {
                plan.quarantined.push(set_aside(clock, facts, &seen.version));
            }
            Some(_) => {}
            None => plan.released.extend(quarantined.map(|_| path.clone())),
        }
        return;
    }
    if !due {
        return;
    }
    asked.comes(seen, live);
}

/// A live path that no listing knows: its partition may have left the window before this process saw it, or the layout
/// is another one now.
fn is_evicted(path: &str, range: &Range<'_>, facts: &Facts<'_>) -> bool {
    if path.starts_with(BASE) {
        return false;
    }
    let (Some(time), Some(bound)) = (facts.policy.partitioned(), range.evict_before) else { return false };
    time.partition_of(path).map_or(true, |partition| partition.start < bound)
}

fn set_aside(clock: Timestamp, facts: &Facts<'_>, version: &FileVersion) -> Quarantined {
    Quarantined {
        source: facts.policy.name.clone(),
        version: version.clone(),
        reason: "zero bytes, where the file had rows before; its rows stay until it has some again or is removed"
            .into(),
        since: clock,
        attempts: 1,
    }
}

/// When a version in quarantine is due again: after a minute, then after twice as long each time, at most hourly.
pub(super) fn retry_at(known: &Quarantined) -> Timestamp {
    let mut due = known.since;
    let mut pause = FIRST_RETRY;
    for _ in 0..known.attempts {
        due += pause;
        pause = (pause + pause).min(LAST_RETRY);
    }
    due
}
