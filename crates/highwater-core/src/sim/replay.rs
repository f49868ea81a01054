//! A history without its faults, as what another pipeline must be given to end alike: files that land and go, restarts,
//! and ticks at fixed clocks, each with what the model says of the index then.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::history::{History, LeaseKind, Setup, Step};
use super::lake::Written;
use super::run::Simulation;
use crate::file::SourceName;
use crate::policy::{OnLag, PipelinePolicy, SourcePolicy};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file lands, or replaces the one that is there.
    Land {
        /// Its source.
        source: SourceName,
        /// Its path below the source's location.
        path: Arc<str>,
        /// What it holds.
        bytes: Bytes,
    },
    /// A file is removed.
    Remove {
        /// Its source.
        source: SourceName,
        /// Its path below the source's location.
        path: Arc<str>,
    },
    /// The process is killed between two ticks; another starts before the next one.
    Restart,
    /// One tick.
    Tick {
        /// The clock that it reads.
        clock: Timestamp,
        /// What must come of it.
        expected: Expected,
    },
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// One row for each id, with the same value in each, which names the file's version.
    Rows {
        /// The ids.
        ids: Vec<u8>,
        /// The value.
        value: String,
    },
    /// Something that cannot be decoded; the name keeps versions apart.
    Broken(String),
    /// Bytes without a row; the name keeps versions apart.
    Rowless(String),
    /// No bytes.
    Empty,
}

/// What the model says after a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The watermark.
    pub watermark: Option<Timestamp>,
    /// Ids, each with the values of all rows that hold it, ascending.
    pub documents: BTreeMap<u8, Vec<String>>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Replay {
    setup: Setup,
    /// In order.
    pub events: Vec<Event>,
}

impl Replay {
    /// The pipeline's policy.
    pub fn policy(&self) -> PipelinePolicy {
        self.setup.policy(self.setup.on_lag)
    }

    /// The sources' policies; their names say of which [`Kind`](super::Kind) they are.
    pub fn sources(&self) -> Vec<SourcePolicy> {
        self.setup.sources()
    }
}

/// Plays a history without its faults, `ticks` ticks at most.
pub fn replay(history: &History, ticks: usize) -> Replay {
    let mut setup = history.setup.clone();
    (setup.lease, setup.atomic_sink, setup.reads_watermark) = (LeaseKind::Lock, true, false);
    if setup.on_lag == OnLag::Halt {
        setup.on_lag = OnLag::SkipToLatest;
    }
    let mut simulation = Simulation::of(&setup);
    let (mut events, mut left) = (Vec::new(), ticks);
    for step in &history.steps {
        match step {
            Step::Land { .. } | Step::Remove { .. } | Step::Compact { .. } | Step::Wait { .. } => simulation.step(step),
            Step::Crash { .. } => {
                simulation.step(&Step::Crash { host: 0 });
                events.push(Event::Restart);
            }
            Step::Run { .. } if left > 0 => {
                left -= 1;
                let (clock, expected) = simulation.quiet_tick();
                events.push(Event::Tick { clock, expected });
            }
            _ => {}
        }
        for Written { source, path, bytes } in simulation.written() {
            events.push(match bytes {
                Some(bytes) => Event::Land { source, path, bytes },
                None => Event::Remove { source, path },
            });
        }
    }
    let (clock, expected) = simulation.quiet_tick();
    events.push(Event::Tick { clock, expected });
    Replay { setup, events }
}
