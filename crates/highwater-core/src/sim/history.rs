//! What happens in one simulation, as plain values: the pipeline's policies and a list of steps. A step names places
//! relative to the time at which it happens, so that a list stays a history whatever is taken out of it.

use std::fmt;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::file::SourceName;
use crate::partition::{Calendar, Layout};
use crate::policy::{Guard, GuardLimit, OnLag, Partitioned, PipelinePolicy, Retention, SourcePolicy, TimePolicy};

/// When every history begins.
pub(super) const BEGIN: &str = "2026-05-01T10:00:00Z";
/// The pause between two ticks.
pub(super) const POLL: Duration = Duration::from_secs(10);
/// How long a partition waits for its last files.
pub(super) const SETTLE: SignedDuration = SignedDuration::from_secs(60);

/// The length of every file that has bytes.
pub(super) const FILE_BYTES: u64 = 7;

/// So many files of a source may vanish at once.
pub(super) const GUARDED: u64 = 2;

/// How the files of one source are named, and how long its rows stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Folders of ten minutes, a window of one hour.
    Short,
    /// Folders of one hour below a captured region, a window of three hours.
    Captured,
    /// Folders of one hour, a window of three; rows stay for ever.
    Forever,
    /// All files below the location.
    Reference,
}

/// Who keeps a second writer out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// A lock that ends with its process.
    Lock,
    /// A heartbeat that expires.
    Heartbeat,
}

/// The policies of one simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The sources, by number.
    pub kinds: Vec<Kind>,
    /// After a lag.
    pub on_lag: OnLag,
    /// How far the window slides past the newest data, in minutes; `None`: the clock alone decides.
    pub hold_min: Option<i64>,
    /// How second writers are kept out.
    pub lease: LeaseKind,
    /// The log believes a create under its lease, without a listing.
    pub leased_log: bool,
    /// Holes of tables that keep their rows are filled, two files a batch.
    pub backfill: bool,
    /// The sink's commit makes all of a batch visible at once.
    pub atomic_sink: bool,
    /// Documents hold the watermark.
    pub reads_watermark: bool,
    /// At the end the processes are killed, not left to finish.
    pub end_by_crash: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file lands, or replaces the one under the same path.
    Land {
        /// Where.
        place: Place,
        /// The ids that it holds rows of, as bits.
        ids: u8,
        /// What its bytes are like.
        quality: Quality,
    },
    /// A file is removed, if it is there.
    Remove {
        /// Where.
        place: Place,
    },
    /// All files of a partition become one.
    Compact {
        /// Any file of the partition.
        place: Place,
    },
    /// Time passes.
    Wait {
        /// So many seconds.
        seconds: u32,
    },
    /// A process's clock goes wrong.
    Skew {
        /// Whose.
        host: usize,
        /// By so much, from now on.
        seconds: i32,
    },
    /// A process that is down starts, one that is idle ticks, one that is in the midst of something goes on.
    Run {
        /// Which.
        host: usize,
        /// It is stopped again after so many gates: two each request, one before it and one after.
        gates: u16,
        /// A tick looks at everything.
        everything: bool,
    },
    /// Several ticks at equal pauses.
    Cruise {
        /// Whose.
        host: usize,
        /// How many.
        ticks: u8,
        /// The pause.
        seconds: u16,
    },
    /// A process dies where it stands.
    Crash {
        /// Which.
        host: usize,
    },
    /// Requests will meet trouble.
    Arm {
        /// Which requests.
        point: Point,
        /// So many go well before.
        skip: u8,
        /// So many meet it.
        times: u8,
        /// What they meet.
        trouble: Trouble,
    },
    /// Listings of sources show what was there so many seconds ago.
    Lag {
        /// 0: they show what is there.
        seconds: u16,
    },
    /// The heartbeats of a process do not arrive.
    Deafen {
        /// Whose.
        host: usize,
        /// False: they do again.
        deaf: bool,
    },
    /// What was armed is taken back; listings are prompt, heartbeats arrive.
    Mend,
}

/// Where a file stands, seen from the present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the source.
    pub source: u8,
    /// Partitions back from the next one: 1 is the one that is open now.
    pub back: u8,
    /// Number of the file in its partition.
    pub name: u8,
}

/// What a file's bytes are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// Rows.
    Good,
    /// It cannot be decoded.
    Broken,
    /// No bytes.
    Empty,
    /// Bytes, but no rows.
    Rowless,
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Something of the log is created.
    LogPut,
    /// Something of the log is read.
    LogGet,
    /// The log is listed.
    LogList,
    /// Something of the log is removed.
    LogDelete,
    /// A source is listed.
    SourceList,
    /// A file of a source is read.
    SourceRead,
    /// The sink is asked for its stamp or documents.
    SinkRead,
    /// Documents are written.
    SinkWrite,
    /// The sink commits.
    SinkCommit,
}

/// What may befall a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is not done, and fails.
    Fail,
    /// It is done, and its reply is lost.
    Lose,
    /// A create is not done and answered with "already exists" (409).
    Conflict,
    /// A create is not done and answered with "precondition failed" (412).
    Precondition,
    /// Half the answer arrives: an error where the client counts, else a lie.
    Cut,
    /// A listing looks complete, and is empty.
    Hide,
    /// It takes so many seconds.
    Slow(u16),
}

/// A simulation from its beginning to the moment when faults stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Policies.
    pub setup: Setup,
    /// What happens.
    pub steps: Vec<Step>,
}

impl Kind {
    /// The length of a partition; that of a reference source is only how its steps are counted.
    pub(super) fn step(self) -> SignedDuration {
        match self {
            Self::Short | Self::Reference => SignedDuration::from_mins(10),
            Self::Captured | Self::Forever => SignedDuration::from_hours(1),
        }
    }

    fn layout(self) -> &'static str {
        match self {
            Self::Short => "%Y-%m-%d/%H/%M",
            Self::Captured => "region={region}/%Y-%m-%d/%H",
            Self::Forever | Self::Reference => "%Y-%m-%d/%H",
        }
    }

    /// The folder of the files of a partition, ending in `/`, for the file of that number.
    pub(super) fn folder(self, start: Timestamp, name: u8) -> String {
        match self {
            Self::Short => start.strftime("%Y-%m-%d/%H/%M/").to_string(),
            Self::Captured => {
                let region = if name.is_multiple_of(2) { "east" } else { "west" };
                format!("region={region}/{}", start.strftime("%Y-%m-%d/%H/"))
            }
            Self::Forever => start.strftime("%Y-%m-%d/%H/").to_string(),
            Self::Reference => String::new(),
        }
    }
}

impl Setup {
    /// The name of a source.
    pub(super) fn name(&self, source: usize) -> SourceName {
        let kind = match self.kinds[source] {
            Kind::Short => "short",
            Kind::Captured => "captured",
            Kind::Forever => "forever",
            Kind::Reference => "reference",
        };
        SourceName::new(format!("{kind}{source}"))
    }

    /// The pipeline's policy.
    pub(super) fn policy(&self, on_lag: OnLag) -> PipelinePolicy {
        PipelinePolicy { poll: POLL, on_lag, calendar: calendar(Kind::Short), settle: SETTLE }
    }

    /// The sources' policies.
    pub(super) fn sources(&self) -> Vec<SourcePolicy> {
        (0..self.kinds.len()).map(|source| self.source(source)).collect()
    }

    fn source(&self, number: usize) -> SourcePolicy {
        let kind = self.kinds[number];
        let time = match kind {
            Kind::Reference => TimePolicy::Reference { every: Duration::from_secs(60) },
            Kind::Short | Kind::Captured | Kind::Forever => TimePolicy::Partitioned(Box::new(Partitioned {
                calendar: calendar(kind),
                layout: layout(kind),
                window: if kind == Kind::Short { SignedDuration::from_hours(1) } else { SignedDuration::from_hours(3) },
                settle: SETTLE,
                hold_after: self.hold_min.map(SignedDuration::from_mins),
                max_skew: kind.step(),
                retention: match kind {
                    Kind::Forever => Retention::Since(begin() - SignedDuration::from_hours(6)),
                    _ => Retention::Window,
                },
                backfill: self.backfill.then_some(2 * FILE_BYTES),
            })),
        };
        let limit = Some(GuardLimit { files: GUARDED, percent: 10 });
        SourcePolicy { name: self.name(number), time, guard: Guard { limit, settle: SETTLE } }
    }
}

/// When every history begins.
pub(super) fn begin() -> Timestamp {
    BEGIN.parse().unwrap_or_default()
}

#[allow(clippy::expect_used, reason = "both are constants, which every test of the simulator tries")]
fn calendar(kind: Kind) -> Calendar {
    Calendar::new(kind.step(), TimeZone::UTC).expect("a step that divides a day")
}

#[allow(clippy::expect_used, reason = "both are constants, which every test of the simulator tries")]
fn layout(kind: Kind) -> Layout {
    Layout::parse(kind.layout()).expect("a layout")
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.setup)?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{number:4}  {step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Land { place, ids, quality } => write!(f, "land {place}, ids {ids:06b}, {quality:?}"),
            Self::Remove { place } => write!(f, "remove {place}"),
            Self::Compact { place } => write!(f, "compact the partition of {place}"),
            Self::Wait { seconds } => write!(f, "wait {seconds} s"),
            Self::Skew { host, seconds } => write!(f, "clock of host {host} is off by {seconds} s"),
            Self::Run { host, gates, everything } => {
                let all = if *everything { ", looks at everything" } else { "" };
                write!(f, "run host {host} for {gates} gates{all}")
            }
            Self::Cruise { host, ticks, seconds } => write!(f, "host {host} ticks {ticks} times, every {seconds} s"),
            Self::Crash { host } => write!(f, "host {host} crashes"),
            Self::Arm { point, skip, times, trouble } => {
                write!(f, "trouble {trouble:?} for {times} of {point:?}, after {skip}")
            }
            Self::Lag { seconds } => write!(f, "listings lag by {seconds} s"),
            Self::Deafen { host, deaf: true } => write!(f, "heartbeats of host {host} are lost"),
            Self::Deafen { host, deaf: false } => write!(f, "heartbeats of host {host} arrive"),
            Self::Mend => f.write_str("what was armed is taken back"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {} partition -{} file {}", self.source, self.back, self.name)
    }
}
