//! The plan of one source: its watermark, its eviction bound, and which file versions come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Facts, Scope, SourcePlan};
use crate::file::{FileVersion, SourceName};
use crate::holes::{Hole, HoleCause};
use crate::listing::{Placed, View};
use crate::log::{PipelineState, SourceState};
use crate::policy::{Partitioned, PipelinePolicy};
use crate::receipt::{Alarm, Quarantined};

const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(60);
const LAST_RETRY: SignedDuration = SignedDuration::from_secs(3600);

/// One source's part of a plan.
pub(super) struct Planned {
    pub plan: SourcePlan,
    pub late: Vec<Hole>,
}

/// W: the least of the sources' watermarks, never moving back.
pub(super) fn watermark(
    clock: Timestamp,
    state: &PipelineState,
    facts: &BTreeMap<SourceName, Facts<'_>>,
    policy: &PipelinePolicy,
    lagging: bool,
) -> Timestamp {
    let mut least: Option<Timestamp> = None;
    for (name, facts) in facts {
        let Some(time) = facts.policy.partitioned() else { continue };
        let newest = state.sources.get(name).and_then(|source| source.newest_end);
        let passed = if lagging { None } else { state.watermark };
        let here = watermark_of(clock, passed, time, facts, newest);
        least = Some(least.map_or(here, |least| least.min(here)));
    }
    let least = least.unwrap_or_else(|| policy.calendar.frontier(clock, policy.settle));
    state.watermark.map_or(least, |before| before.max(least))
}

/// The frontier of one source, held back by the first partition that was not listed completely since it settled.
pub fn watermark_of(
    clock: Timestamp,
    passed: Option<Timestamp>,
    time: &Partitioned,
    facts: &Facts<'_>,
    newest_before: Option<Timestamp>,
) -> Timestamp {
    let frontier = time.calendar.frontier(clock, time.settle);
    let newest = newest_before.max(newest_end(clock, time, facts.view));
    let from = passed.unwrap_or_else(|| time.eviction_bound(frontier, newest));
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

/// End of the newest partition with data that listings saw; what lies too far in the future does not count.
pub(super) fn newest_end(clock: Timestamp, time: &Partitioned, view: &View) -> Option<Timestamp> {
    let latest = clock + time.max_skew;
    let live = view.files().values().filter(|file| file.version.size > 0);
    live.filter_map(|file| file.partition.as_ref()).filter(|p| p.start <= latest).map(|p| p.end).max()
}

/// Plans one source at watermark `watermark`; `until` ends the live range of a batch that catches up.
pub(super) fn plan(
    clock: Timestamp,
    watermark: Timestamp,
    until: Option<Timestamp>,
    before: Option<&SourceState>,
    facts: &Facts<'_>,
    scope: Scope,
    alarms: &mut Vec<Alarm>,
) -> Planned {
    let nothing = SourceState::default();
    let before = before.unwrap_or(&nothing);
    let range = Range::new(clock, watermark, until, before, facts);
    let mut planned = Planned {
        plan: SourcePlan { evict_before: range.evict_before, newest_end: range.newest_end, ..SourcePlan::default() },
        late: Vec::new(),
    };
    for path in candidates(before, facts.view, &range, scope) {
        consider(&path, clock, before, facts, &range, &mut planned);
    }
    raise(clock, watermark, facts, &range, &planned, alarms);
    planned
}

/// Which partitions are live, and which of them are open to what listings see.
struct Range {
    clock: Timestamp,
    /// Live files lie at or after it.
    evict_before: Option<Timestamp>,
    /// New files are taken in only at or after it: later than `evict_before` where rows stay for ever.
    accept_from: Option<Timestamp>,
    /// Partitions that start later are ignored.
    latest_start: Option<Timestamp>,
    /// Partitions at or after it wait (catching up).
    until: Option<Timestamp>,
    newest_end: Option<Timestamp>,
    evict_moved: bool,
}

impl Range {
    fn new(
        clock: Timestamp,
        watermark: Timestamp,
        until: Option<Timestamp>,
        before: &SourceState,
        facts: &Facts<'_>,
    ) -> Self {
        let Some(time) = facts.policy.partitioned() else {
            return Self {
                clock,
                evict_before: None,
                accept_from: None,
                latest_start: None,
                until: None,
                newest_end: None,
                evict_moved: false,
            };
        };
        let newest_end = before.newest_end.max(newest_end(clock, time, facts.view));
        let windowed = time.eviction_bound(watermark, newest_end);
        let (evict_before, accept_from) = match time.forever_since {
            None => {
                let bound = before.evict_before.map_or(windowed, |was| was.max(windowed));
                (bound, bound)
            }
            Some(since) => {
                let start = time.calendar.floor(since);
                let first_time = before.evict_before.is_none();
                (start, if first_time { start } else { windowed.max(start) })
            }
        };
        Self {
            clock,
            evict_before: Some(evict_before),
            accept_from: Some(accept_from),
            latest_start: Some(clock + time.max_skew),
            until,
            newest_end,
            evict_moved: before.evict_before.is_some_and(|was| was < evict_before),
        }
    }

    /// Live as far as time goes; what is too far ahead, or waits for a later batch, is not.
    fn holds(&self, file: &Placed) -> bool {
        let Some(partition) = &file.partition else { return true };
        self.evict_before.is_none_or(|bound| partition.start >= bound)
            && self.latest_start.is_none_or(|latest| partition.start <= latest)
            && self.until.is_none_or(|until| partition.start < until)
    }

    fn is_late(&self, file: &Placed) -> bool {
        let Some(partition) = &file.partition else { return false };
        self.accept_from.is_some_and(|bound| partition.start < bound)
    }

    fn is_future(&self, file: &Placed) -> bool {
        let Some(partition) = &file.partition else { return false };
        self.latest_start.is_some_and(|latest| partition.start > latest)
    }
}

/// Paths that may come or go, in order.
fn candidates(before: &SourceState, view: &View, range: &Range, scope: Scope) -> BTreeSet<Arc<str>> {
    let mut paths: BTreeSet<Arc<str>> = before.quarantined.keys().cloned().collect();
    match scope {
        Scope::Changed => {
            paths.extend(view.changed().iter().cloned());
            paths.extend(ahead_of(range.clock, view));
        }
        Scope::All => paths.extend(view.files().keys().cloned()),
    }
    if scope == Scope::All || range.evict_moved {
        paths.extend(before.live.keys().cloned());
    }
    paths
}

/// Files of partitions that have not begun: what was too far in the future may be live now.
fn ahead_of(clock: Timestamp, view: &View) -> impl Iterator<Item = Arc<str>> {
    let ahead = move |file: &&Placed| file.partition.as_ref().is_some_and(|partition| partition.start > clock);
    view.files().values().filter(ahead).map(|file| file.version.path.clone())
}

fn consider(
    path: &Arc<str>,
    clock: Timestamp,
    before: &SourceState,
    facts: &Facts<'_>,
    range: &Range,
    planned: &mut Planned,
) {
    let live = before.live.get(path);
    let quarantined = before.quarantined.get(path);
    let plan = &mut planned.plan;
    let Some(seen) = facts.view.files().get(path) else {
        let looked_at = facts.prefixes.of_path(path).is_some_and(|prefix| facts.view.listed_at(&prefix).is_some());
        if looked_at || is_evicted(path, range, facts) {
            plan.dropped.extend(live.cloned());
            plan.released.extend(quarantined.map(|_| path.clone()));
        }
        return;
    };
    if !range.holds(seen) {
        plan.dropped.extend(live.cloned());
        plan.released.extend(quarantined.map(|_| path.clone()));
    }
    if range.is_late(seen) && live.is_none() {
        if facts.view.arrivals().contains(path) && seen.version.size > 0 {
            planned.late.extend(late(clock, facts, seen));
        }
        return;
    }
    if !range.holds(seen) {
        return;
    }
    if live == Some(&seen.version) {
        plan.released.extend(quarantined.map(|_| path.clone()));
        return;
    }
    if seen.version.size == 0 {
        if live.is_some() && quarantined.is_none_or(|known| known.version != seen.version) {
            plan.quarantined.push(set_aside(clock, facts, &seen.version));
        }
        return;
    }
    if quarantined.is_some_and(|known| known.version == seen.version && clock < retry_at(known)) {
        return;
    }
    plan.added.push(seen.version.clone());
    plan.dropped.extend(live.cloned());
}

/// A live path that no listing knows: its partition may have left the window before this process saw it.
fn is_evicted(path: &str, range: &Range, facts: &Facts<'_>) -> bool {
    let (Some(time), Some(bound)) = (facts.policy.partitioned(), range.evict_before) else { return false };
    time.layout.locate(path).is_ok_and(|located| time.calendar.holding_civil(located.civil).start < bound)
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

fn late(clock: Timestamp, facts: &Facts<'_>, file: &Placed) -> Option<Hole> {
    let partition = file.partition.as_ref()?;
    Some(Hole {
        source: facts.policy.name.clone(),
        cause: HoleCause::LateFile,
        from: partition.start,
        to: partition.end,
        path: Some(file.version.path.to_string()),
        since: clock,
    })
}

/// When a version in quarantine is due again: after a minute, then after twice as long each time, at most hourly.
fn retry_at(known: &Quarantined) -> Timestamp {
    let mut due = known.since;
    let mut pause = FIRST_RETRY;
    for _ in 0..known.attempts {
        due += pause;
        pause = (pause + pause).min(LAST_RETRY);
    }
    due
}

fn raise(
    clock: Timestamp,
    watermark: Timestamp,
    facts: &Facts<'_>,
    range: &Range,
    planned: &Planned,
    alarms: &mut Vec<Alarm>,
) {
    let mut add = |kind: &str, detail: String| {
        alarms.push(Alarm { kind: kind.into(), source: Some(facts.policy.name.clone()), since: clock, detail });
    };
    let failures: Vec<String> = facts
        .view
        .failures()
        .map(|(prefix, why)| format!("{}: {why}", if prefix.is_empty() { "/" } else { prefix }))
        .collect();
    if !failures.is_empty() {
        add("listing_failed", format!("the watermark waits for a complete listing of {}", failures.join("; ")));
    }
    if let (Some(time), Some(bound)) = (facts.policy.partitioned(), range.evict_before)
        && time.forever_since.is_none()
        && time.is_silent(watermark, range.newest_end)
    {
        let newest = range.newest_end.map_or_else(|| "ever".into(), |end| format!("since {end}"));
        add("source_silent", format!("no new data {newest}; the window is held at {bound}"));
    }
    let future: Vec<&Placed> = facts.view.files().values().filter(|file| range.is_future(file)).collect();
    if let Some(first) = future.first() {
        let count = future.len();
        add(
            "future_partition",
            format!("{count} files lie further in the future than max_skew, such as {}", first.version.path),
        );
    }
    for hole in &planned.late {
        add(
            "late_out_of_window",
            format!("{} landed behind the window and was not taken in", hole.path.as_deref().unwrap_or("")),
        );
    }
    let misplaced = facts.view.misplaced();
    if misplaced.count > 0 {
        add(
            "misplaced_files",
            format!("{} files do not fit the layout: {}", misplaced.count, misplaced.named.join("; ")),
        );
    }
    let empty = facts.view.empty();
    if empty.count > 0 {
        add("empty_files", format!("{} files hold no bytes and were skipped: {}", empty.count, empty.named.join("; ")));
    }
}
