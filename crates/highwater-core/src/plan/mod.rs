//! The plan of a batch: a pure function of one clock reading, the log's state, what listings saw, and policy. No I/O, no
//! clock, no log line.

mod alarms;
mod base;
mod display;
mod guard;
mod holes;
mod source;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;

use crate::file::{FileVersion, SourceName};
use crate::holes::{ClosedHole, Hole, HoleCause};
use crate::listing::View;
use crate::log::{Cursor, PipelineState, SourceState};
use crate::policy::{OnLag, PipelinePolicy, SourcePolicy};
use crate::receipt::{Alarm, Quarantined};
use crate::withheld::WithheldChange;
use base::Ground;
use holes::Ledger;

pub use alarms::{BASE_WITHHELD, REMOVALS_WITHHELD};
pub(crate) use base::pinned as pinned_base;
pub(crate) use holes::quarantine;
pub use source::watermark_of;

/// What a batch would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The one clock reading, never before the last record's.
    pub clock: Timestamp,
    /// The watermark that the batch commits.
    pub watermark: Timestamp,
    /// The watermark before it.
    pub watermark_before: Option<Timestamp>,
    /// By source.
    pub sources: BTreeMap<SourceName, SourcePlan>,
    /// Holes that it writes down.
    pub holes: Vec<Hole>,
    /// Holes that end with it.
    pub closed: Vec<ClosedHole>,
    /// Alarms that stand.
    pub alarms: Vec<Alarm>,
    /// True for a bounded batch of `catch_up`, which ends before the frontier.
    pub catching_up: bool,
}

/// What a batch would do with one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePlan {
    /// Eviction bound E; `None` for a reference source.
    pub evict_before: Option<Timestamp>,
    /// The time of the base snapshot that the table stands on, where it has one.
    pub base: Option<Timestamp>,
    /// True if a newer snapshot is not taken because it is so much smaller.
    pub withholds_base: bool,
    /// End of the newest partition in which data was ever seen.
    pub newest_end: Option<Timestamp>,
    /// Versions to read and pin, in path order; a replaced path stands here and in `dropped`.
    pub added: Vec<FileVersion>,
    /// Those of `added` that lay in holes.
    pub filled: BTreeSet<Arc<str>>,
    /// True if this plan leaves something of holes for later: files, by its budget or by the guard, or time to be listed.
    pub unfilled: bool,
    /// Versions that are pinned no more, in path order.
    pub dropped: Vec<FileVersion>,
    /// Versions set aside without reading them.
    pub quarantined: Vec<Quarantined>,
    /// Paths that leave the quarantine without being read: their file is gone, or out of the live range.
    pub released: Vec<Arc<str>>,
    /// Pinned paths that stay though no complete listing shows their pinned version: removals that are withheld, and
    /// files whose new version waits with them.
    pub withheld: BTreeSet<Arc<str>>,
    /// Versions that wait for withheld removals of their partition, in path order.
    pub held: Vec<FileVersion>,
    /// What the log is to know of withheld removals.
    pub change: WithheldChange,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unplanned {
    /// `on_lag = "halt"`, and the lag is longer than the window.
    #[error(
        "halted: the watermark {watermark} lies before {bound}, where the window begins now; \
         go on with on_lag = \"skip_to_latest\" (jumps and writes the hole down) or \"catch_up\""
    )]
    Halted {
        /// Where the watermark stands.
        watermark: Timestamp,
        /// Where the live range would begin.
        bound: Timestamp,
    },
    /// A table whose base has no snapshot that can be used, and that never had one.
    #[error(
        "source {source_name} has no base snapshot yet that can be used: one is when it is complete ({settle:#} after the \
         time that its folder names, or when a newer one exists), holds files, and all of them can be read"
    )]
    NoBase {
        /// The source.
        source_name: SourceName,
        /// `settle` of its base.
        settle: jiff::SignedDuration,
    },
}

/// Which paths may differ from what the log pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any: compare everything that is known with everything that is pinned.
    All,
    /// Those that listings saw change since the last plan was committed.
    Changed,
}

/// What the planner knows of one source.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its policy.
    pub policy: &'a SourcePolicy,
    /// What listings saw.
    pub view: &'a View,
    /// Tells under which prefix a path is listed.
    pub prefixes: &'a dyn Prefixes,
    /// Removals that are withheld since then or longer are accepted.
    pub accepted: Option<Timestamp>,
    /// So many bytes of files in holes may be read; `None` where rows leave with their partition, too.
    pub backfill: Option<u64>,
}

/// Ties paths and partitions to listed prefixes, and says how often these are listed.
pub trait Prefixes: std::fmt::Debug + Send + Sync {
    /// The prefix that `path` is listed under.
    fn of_path(&self, path: &str) -> Option<String>;
    /// Every prefix that may hold files of partitions in `[from, to)`.
    fn of_range(&self, from: Timestamp, to: Timestamp) -> Vec<String>;
    /// R: within so long every prefix of the live range is listed.
    fn revisit_bound(&self, clock: Timestamp) -> Duration;
}

/// Plans one batch at clock `now`.
pub fn plan(
    now: Timestamp,
    state: &PipelineState,
    facts: &BTreeMap<SourceName, Facts<'_>>,
    policy: &PipelinePolicy,
    scope: Scope,
) -> Result<Plan, Unplanned> {
    let clock = state.clock.map_or(now, |last| now.max(last));
    let nothing = SourceState::default();
    let mut grounds = BTreeMap::new();
    for (name, facts) in facts {
        let before = state.sources.get(name).unwrap_or(&nothing);
        grounds.insert(name, source::ground(clock, before, facts)?);
    }
    let lag = lag(clock, state, facts, &grounds);
    let mut ledger = Ledger::new(clock, &state.holes);
    let mut limit = None;
    if let Some(lag) = &lag {
        match policy.on_lag {
            OnLag::Halt => return Err(Unplanned::Halted { watermark: lag.watermark, bound: lag.bound }),
            OnLag::SkipToLatest => lag.write_down(&mut ledger),
            OnLag::CatchUp => limit = lag.next_stop(facts),
        }
    }
    let mut watermark = source::watermark(clock, state, facts, policy, limit.is_none());
    if let Some(stop) = limit {
        watermark = state.watermark.map_or(stop, |before| before.max(stop)).min(watermark);
    }
    let mut plan = Plan {
        clock,
        watermark,
        watermark_before: state.watermark,
        sources: BTreeMap::new(),
        holes: Vec::new(),
        closed: Vec::new(),
        alarms: Vec::new(),
        catching_up: limit.is_some(),
    };
    let until = limit.map(|_| watermark);
    let scope = if limit.is_some() { Scope::All } else { scope };
    for (name, facts) in facts {
        let passed_over = passed_over(name, ledger.current());
        let before = state.sources.get(name).unwrap_or(&nothing);
        let times = source::Times { clock, watermark, until, passed_over, watermark_before: state.watermark };
        let missed = if until.is_none() { missed(facts, &state.holes) } else { Vec::new() };
        let stands = source::Stands { ground: &grounds[name], missed: &missed };
        let mut planned = source::plan(times, before, facts, stands, scope, &mut plan.alarms);
        ledger.tend(times, before, facts, &planned);
        planned.plan.unfilled |= facts.backfill.is_some() && self::passed_over(name, ledger.current()).is_some();
        plan.sources.insert(name.clone(), planned.plan);
    }
    (plan.holes, plan.closed) = (ledger.opened, ledger.closed);
    Ok(plan)
}

impl Plan {
    /// True if the tables change, so that a batch is needed.
    pub fn changes(&self) -> bool {
        self.sources.values().any(SourcePlan::changes)
    }

    /// True if removals are withheld, by this plan or since an earlier one.
    pub fn withholds(&self) -> bool {
        self.sources.values().any(|source| !source.withheld.is_empty() || source.withholds_base)
    }

    /// True if something became known that the log keeps, though the tables stay as they are.
    pub fn learns(&self) -> bool {
        !(self.holes.is_empty() && self.closed.is_empty())
            || self.sources.values().any(|source| !source.change.is_empty())
    }

    /// Cursors of a record that pins nothing: what became known of withheld removals, and, as what the record says of
    /// holes stands on it, how far the time of the sources that have begun has come.
    pub fn learnt(&self, state: &PipelineState) -> BTreeMap<SourceName, Cursor> {
        let tells = !(self.holes.is_empty() && self.closed.is_empty());
        let mut cursors = BTreeMap::new();
        for (name, planned) in &self.sources {
            let mut cursor = Cursor { kind: "files".into(), withheld: planned.change.clone(), ..Cursor::default() };
            if tells && state.sources.get(name).is_some_and(|source| source.evict_before.is_some()) {
                (cursor.evict_before, cursor.newest_end) = (planned.evict_before, planned.newest_end);
            }
            if !planned.change.is_empty() || cursor.evict_before.is_some() {
                cursors.insert(name.clone(), cursor);
            }
        }
        cursors
    }

    /// True if the watermark moves.
    pub fn advances(&self) -> bool {
        self.watermark_before != Some(self.watermark)
    }
}

impl SourcePlan {
    /// Puts paths in order, where several rules have named them.
    fn in_order(&mut self) {
        let versions = [&mut self.added, &mut self.dropped, &mut self.held];
        versions.into_iter().for_each(|list| list.sort_by(|a, b| a.path.cmp(&b.path)));
        self.released.sort();
    }

    /// True if the source's table, or what is known of its quarantine, changes.
    pub fn changes(&self) -> bool {
        let Self { added, dropped, quarantined, released, .. } = self;
        !(added.is_empty() && dropped.is_empty() && quarantined.is_empty() && released.is_empty())
    }
}

/// A lag that the window does not cover.
struct Lag {
    watermark: Timestamp,
    bound: Timestamp,
    sources: Vec<Behind>,
}

/// A source that the lag is too long for.
struct Behind {
    source: SourceName,
    /// Where what it passes over begins.
    from: Timestamp,
    /// Where its live range would begin now.
    bound: Timestamp,
}

/// W_before < E as computed at F(t), for the clock alone: silence that `hold_after` holds is no lag.
fn lag(
    clock: Timestamp,
    state: &PipelineState,
    facts: &BTreeMap<SourceName, Facts<'_>>,
    grounds: &BTreeMap<&SourceName, Ground>,
) -> Option<Lag> {
    let watermark = state.watermark?;
    let frontier = source::frontier(clock, facts)?;
    let nothing = SourceState::default();
    let mut sources = Vec::new();
    for (name, facts) in facts {
        let Some(time) = facts.policy.partitioned() else { continue };
        let before = state.sources.get(name).unwrap_or(&nothing);
        let bound = source::bound_at(frontier, clock, time, facts, before);
        if watermark < bound {
            // A table that keeps its rows and never had a batch is passed over from its start on.
            let start = source::kept_since(time, &grounds[name]).filter(|_| before.evict_before.is_none());
            let from = start.map_or(watermark, |start| watermark.min(start));
            sources.push(Behind { source: name.clone(), from, bound });
        }
    }
    let bound = sources.iter().map(|behind| behind.bound).min()?;
    Some(Lag { watermark, bound, sources })
}

/// Time whose files a table that keeps its rows may still take in: open holes that reading can fill, as `[from, to)`.
fn missed(facts: &Facts<'_>, holes: &[Hole]) -> Vec<(Timestamp, Timestamp)> {
    if facts.backfill.is_none() {
        return Vec::new();
    }
    fillable(&facts.policy.name, holes).map(|hole| (hole.from, hole.to)).collect()
}

/// Open holes of a source that end once their files are read.
pub fn fillable<'a>(source: &'a SourceName, holes: &'a [Hole]) -> impl Iterator<Item = &'a Hole> {
    let can = |hole: &&Hole| matches!(hole.cause, HoleCause::PassedOver | HoleCause::LateFile);
    holes.iter().filter(move |hole| hole.source == *source).filter(can)
}

/// End of the last hole that a lag left in the source.
fn passed_over<'a>(source: &SourceName, holes: impl Iterator<Item = &'a Hole>) -> Option<Timestamp> {
    let lags = holes.filter(|hole| hole.source == *source && hole.cause == HoleCause::PassedOver);
    lags.map(|hole| hole.to).max()
}

impl Lag {
    /// What is passed over and not written down yet.
    fn write_down(&self, ledger: &mut Ledger<'_>) {
        for Behind { source, from, bound } in &self.sources {
            let known = passed_over(source, ledger.current());
            let from = known.map_or(*from, |end| end.max(*from));
            if from < *bound {
                ledger.pass_over(source, from, *bound);
            }
        }
    }

    /// Where a bounded batch of `catch_up` ends: one window past the watermark, of the narrowest source.
    fn next_stop(&self, facts: &BTreeMap<SourceName, Facts<'_>>) -> Option<Timestamp> {
        let mut stop: Option<Timestamp> = None;
        for facts in facts.values() {
            let Some(time) = facts.policy.partitioned() else { continue };
            let here = time.calendar.floor(self.watermark + time.window);
            stop = Some(stop.map_or(here, |stop| stop.min(here)));
        }
        stop
    }
}
