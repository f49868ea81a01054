//! What the configuration decided about time and files, as the planner needs it: plain values, no I/O.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::file::{BASE, SourceName, below_base};
use crate::partition::{Calendar, Layout, Misplaced, Partition};

/// What to do after a lag that the window does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLag {
    /// Jump to the newest state and write the hole down.
    SkipToLatest,
    /// Move the watermark by at most one window a batch.
    CatchUp,
    /// Stop; an operator decides.
    Halt,
}

/// The pipeline's own policy.
#[derive(Clone, Debug)]
pub struct PipelinePolicy {
    /// Pause between ticks.
    pub poll: Duration,
    /// After a lag.
    pub on_lag: OnLag,
    /// Partitions of the pipeline: the watermark of a pipeline whose sources are all references moves by these.
    pub calendar: Calendar,
    /// How long after its end a partition counts as complete, for the same.
    pub settle: SignedDuration,
}

/// One source's policy.
#[derive(Clone, Debug)]
pub struct SourcePolicy {
    /// The source.
    pub name: SourceName,
    /// Where its time is, or that it has none.
    pub time: TimePolicy,
    /// Which removals are withheld.
    pub guard: Guard,
}

/// When removals of files are not believed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// `None`: every removal is applied.
    pub limit: Option<GuardLimit>,
    /// How long a rewritten partition must stand unchanged before it is applied by itself.
    pub settle: SignedDuration,
}

/// Removals past both bounds within one revisit cycle are withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardLimit {
    /// So many files may vanish, whatever their share.
    pub files: u64,
    /// So many of a hundred live files may vanish, whatever their number.
    pub percent: u64,
}

impl Default for GuardLimit {
    fn default() -> Self {
        Self { files: 10, percent: 10 }
    }
}

impl GuardLimit {
    /// True if `vanished` of `live` files are more than may vanish.
    pub fn is_passed(&self, vanished: u64, live: u64) -> bool {
        let (share, allowed) = (u128::from(vanished) * 100, u128::from(live) * u128::from(self.percent));
        vanished > self.files && share > allowed
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self { limit: Some(GuardLimit::default()), settle: SignedDuration::from_mins(1) }
    }
}

/// Whether a source's files are named by time.
#[derive(Clone, Debug)]
pub enum TimePolicy {
    /// Files stand in folders named by time.
    Partitioned(Box<Partitioned>),
    /// All files below the location, looked at every so often.
    Reference {
        /// Pause between looks.
        every: Duration,
    },
}

/// The policy of a partitioned source.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// Its partitions.
    pub calendar: Calendar,
    /// Its path template.
    pub layout: Layout,
    /// How far behind the watermark it is looked at.
    pub window: SignedDuration,
    /// How long after its end a partition counts as complete.
    pub settle: SignedDuration,
    /// How far the window slides past the newest data; `None`: the clock alone decides.
    pub hold_after: Option<SignedDuration>,
    /// How far in the future a partition may start.
    pub max_skew: SignedDuration,
    /// How long its rows stay.
    pub retention: Retention,
    /// How many bytes of files that were missed a batch may read, where rows stay; `None`: none without an order.
    pub backfill: Option<u64>,
}

/// How long the rows of a table stay.
#[derive(Clone, Debug)]
pub enum Retention {
    /// They leave with their partition.
    Window,
    /// Those of partitions since this instant stay for ever.
    Since(Timestamp),
    /// Those of the newest usable base snapshot, and of every partition since its time less a margin.
    Base(Box<BasePolicy>),
}

/// Full snapshots of a table: a folder a snapshot, named by its time.
#[derive(Clone, Debug)]
pub struct BasePolicy {
    /// The path template of the snapshots; captures stand below the time.
    pub layout: Layout,
    /// Reads its times, to the second.
    pub calendar: Calendar,
    /// A snapshot is complete so long after its time, or when a newer one exists.
    pub settle: SignedDuration,
    /// How far before a snapshot's time the partitions begin that are read besides it.
    pub margin: SignedDuration,
}

impl BasePolicy {
    /// The time of the snapshot that the path of a file (with [`BASE`]) belongs to.
    pub fn time_of(&self, path: &str) -> Result<Timestamp, Misplaced> {
        let located = self.layout.locate(below_base(path).unwrap_or(path))?;
        Ok(self.calendar.holding_civil(located.civil).start)
    }

    /// The time of the snapshot whose folder (with [`BASE`], ending in `/`) it is.
    pub fn time_of_folder(&self, prefix: &str) -> Result<Timestamp, Misplaced> {
        let civil = self.layout.time_of_folder(below_base(prefix).unwrap_or(prefix))?;
        Ok(self.calendar.holding_civil(civil).start)
    }

    /// The prefix that the path of a file is listed under: its snapshot's folder.
    pub fn prefix_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        let below = below_base(path)?;
        let (slash, _) = below.match_indices('/').nth(self.layout.time_folders() - 1)?;
        Some(&path[..=BASE.len() + slash])
    }
}

/// The frontier of a pipeline at `clock`: the least of its partitioned sources'; `None` where it has none.
pub fn frontier<'a>(clock: Timestamp, sources: impl IntoIterator<Item = &'a SourcePolicy>) -> Option<Timestamp> {
    let times = sources.into_iter().filter_map(SourcePolicy::partitioned);
    times.map(|time| time.calendar.frontier(clock, time.settle)).min()
}

impl SourcePolicy {
    /// True if rows stay though their partition left the window.
    pub fn keeps_rows(&self) -> bool {
        self.partitioned().is_some_and(Partitioned::keeps_rows)
    }

    /// How many bytes of files that were missed a batch may read: by itself, or as much as is `ordered`. None where rows
    /// leave with their partition.
    pub fn backfill(&self, ordered: Option<u64>) -> Option<u64> {
        let itself = self.partitioned()?.backfill;
        itself.max(ordered).filter(|_| self.keeps_rows())
    }

    /// The partitioned policy, if it is one.
    pub fn partitioned(&self) -> Option<&Partitioned> {
        match &self.time {
            TimePolicy::Partitioned(policy) => Some(policy),
            TimePolicy::Reference { .. } => None,
        }
    }
}

impl Partitioned {
    /// The partition that a path names.
    pub fn partition_of(&self, path: &str) -> Result<Partition, Misplaced> {
        let located = self.layout.locate(path)?;
        Ok(self.calendar.holding_civil(located.civil))
    }

    /// True if rows stay though their partition left the window.
    pub fn keeps_rows(&self) -> bool {
        !matches!(self.retention, Retention::Window)
    }

    /// The base's policy, if the table stands on one.
    pub fn base(&self) -> Option<&BasePolicy> {
        match &self.retention {
            Retention::Base(base) => Some(base),
            Retention::Window | Retention::Since(_) => None,
        }
    }

    /// Where the partitions begin that are read besides the snapshot of `time`.
    pub fn since_base(&self, base: &BasePolicy, time: Timestamp) -> Timestamp {
        self.calendar.floor(time.saturating_sub(base.margin).unwrap_or(Timestamp::MIN))
    }

    /// The eviction bound E at a watermark: the start of the first live partition.
    pub fn eviction_bound(&self, watermark: Timestamp, newest_end: Option<Timestamp>) -> Timestamp {
        let by_clock = watermark - self.window;
        let held = match (self.hold_after, newest_end) {
            (Some(hold), Some(newest)) => by_clock.min(newest + hold - self.window),
            _ => by_clock,
        };
        self.calendar.floor(held)
    }

    /// True if silence alone holds the bound back at this watermark.
    pub fn is_silent(&self, watermark: Timestamp, newest_end: Option<Timestamp>) -> bool {
        self.eviction_bound(watermark, newest_end) < self.calendar.floor(watermark - self.window)
    }
}
