//! The batch log: numbered records, created only if absent, that are the pipeline's only state. Knows nothing of files'
//! contents or of the sink.

mod claim;
mod codec;
pub mod contract;
mod folder;
mod object;
mod record;
mod state;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use thiserror::Error;

pub use claim::{Claimed, Writer, append, claim, claim_next};
pub use object::{KEEP, ObjectLog, RECENT, snapshot_due};
pub use record::{BatchRecord, Body, Cursor, FORMAT, Record, Sequence, WriterId};
pub use state::{PipelineState, SourceState, VOID_KEPT};

use crate::ports::Fault;

/// The log of one pipeline.
///
/// Numbers only rise. Of all writers that try to append one number exactly one gets [`Appended::Written`], and what
/// stands under a number never changes afterwards. Implementers retry passing faults by themselves, a bounded number of
/// times.
#[async_trait]
pub trait BatchLog: Send + Sync {
    /// The state that the records add up to. Records that cannot be read are stepped over and reported; a record of a
    /// newer format is [`LogError::NewerFormat`]. Right while others append and trim: the answer is the state at some
    /// moment between call and return.
    async fn load(&self) -> Result<Loaded, LogError>;

    /// Writes `record` under its number, which the caller took as the highest one + 1. Idempotent: after an error it is
    /// unknown whether the record was written, and appending the very same record again tells. After an error the
    /// caller must do that, or load, before it appends anything else.
    async fn append(&self, record: &Record) -> Result<Appended, LogError>;

    /// The highest number in use, 0 for an empty log: one request to the store for each 1,000 records. A number above
    /// one's own last record means that a newer writer has the pipeline.
    async fn highest(&self) -> Result<Sequence, LogError>;

    /// Keeps `state`, every record of which is in the log, as a shortcut for the next load. A failure costs nothing but
    /// that load's time. [`snapshot_due`] says when it pays.
    async fn snapshot(&self, state: &PipelineState) -> Result<(), LogError>;

    /// Removes records up to and with `behind`, where snapshots stand for them, and old snapshots; keeps the last few
    /// hundred records in any case. Returns how many objects were removed. May be killed at any point and run again.
    async fn trim(&self, behind: Sequence) -> Result<u64, LogError>;
}

/// What a log says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The fold of the records that could be read.
    pub state: PipelineState,
    /// The highest number in use, readable or not: the next one is free.
    pub highest: Sequence,
    /// What could not be read, old records that the state no longer needs included. Whether the state lacks something
    /// is told by [`PipelineState::gap`], once the next record is folded in.
    pub damaged: Vec<Damaged>,
    /// The last readable records, ascending, [`RECENT`] at most.
    pub recent: Vec<Record>,
    /// How many records were read on top of the snapshot, and how many file versions they add and remove: the replay
    /// that the next snapshot saves, for [`snapshot_due`].
    pub replayed: (u64, u64),
}

/// An object of the log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where it stands, or should.
    pub object: String,
    /// Its number.
    pub sequence: Sequence,
    /// What is wrong with it.
    pub reason: String,
}

/// How an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The record is in the log, by this call or by an earlier one whose reply was lost.
    Written,
    /// The number is another writer's, or lies behind the log's end: the caller is fenced and stops. The record may
    /// stand in the log all the same, where a newer writer has read it.
    Conflict,
}

/// What went wrong with the log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// Written by a newer build.
    #[error("{object} has format {found}, this highwater reads up to {known}; upgrade highwater")]
    NewerFormat {
        /// The record or snapshot.
        object: String,
        /// Its format.
        found: u32,
        /// The newest format that this build reads.
        known: u32,
    },
    /// The store is out of reach; whether a write happened is unknown.
    #[error("{object}: {reason}")]
    Unavailable {
        /// The object or folder that was asked for.
        object: String,
        /// The store's last answer.
        reason: String,
    },
    /// The store cannot hold a log.
    #[error("{object}: the store cannot hold a log: {reason}")]
    Unusable {
        /// The object or folder that was asked for.
        object: String,
        /// The store's answer.
        reason: String,
    },
    /// A record that this writer believed unwritten stands under the number.
    #[error("{object} holds an earlier record of this writer; start again from the log")]
    Earlier {
        /// The record.
        object: String,
    },
    /// Other starters took every number that was tried.
    #[error("{tries} other writers started at the same time; run one writer a pipeline")]
    Contended {
        /// How many numbers were tried.
        tries: u32,
    },
    /// A value could not be put in words: our own defect.
    #[error("{object}: cannot be written as JSON: {reason}")]
    Unwritable {
        /// The record or snapshot.
        object: String,
        /// What the serializer says.
        reason: String,
    },
}

/// What a writer learns from a record that is another's.
pub(crate) fn fenced(by: Sequence) -> Fault {
    Fault::Fenced(format!("record {by} of the log was written by another writer, which has the pipeline now"))
}

impl From<LogError> for Fault {
    fn from(error: LogError) -> Self {
        let text = error.to_string();
        match error {
            LogError::NewerFormat { .. } | LogError::Unusable { .. } => Self::Invalid(text),
            LogError::Unavailable { .. } => Self::Unavailable(text),
            LogError::Earlier { .. } | LogError::Contended { .. } => Self::Fenced(text),
            LogError::Unwritable { .. } => Self::Internal(text),
        }
    }
}
