//! The start of a writer: load the log, put a claim at its end. From then on every older writer's next append is a
//! conflict. Draws no nonce and reads no clock: both are handed in.

use jiff::Timestamp;

use super::record::{Body, FORMAT, Record, Sequence, WriterId};
use super::state::PipelineState;
use super::{Appended, BatchLog, Damaged, LogError, fenced};
use crate::ports::Fault;

/// How many numbers a starter tries before it gives way.
const TRIES: u32 = 8;

/// Who starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// A nonce of this one start.
    pub id: WriterId,
    /// Host name and process id, for people.
    pub holder: String,
    /// The program's version.
    pub version: String,
}

/// A log with our claim at its end.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The writer of all records to come.
    pub writer: WriterId,
    /// The claim's number: the epoch of all records to come.
    pub epoch: Sequence,
    /// What the log says, the claim included.
    pub state: PipelineState,
    /// What could not be read.
    pub damaged: Vec<Damaged>,
    /// The last readable records, ascending, the claim at the end.
    pub recent: Vec<Record>,
    /// See [`Loaded::replayed`](super::Loaded::replayed); the claim counts.
    pub replayed: (u64, u64),
}

impl Claimed {
    /// The writer of the record right before the claim, which was the newest claimant until then: an older one cannot
    /// append any more. `None` if there is no such record, or it cannot be read.
    pub fn former(&self) -> Option<&WriterId> {
        let before = self.recent.iter().rev().nth(1)?;
        (before.seq.next() == self.epoch).then_some(&before.writer)
    }

    /// The next record of this writer, `clock` being [`PipelineState::clock_at`] of the batch.
    pub fn record(&self, clock: Timestamp, body: Body) -> Record {
        Record { format: FORMAT, seq: self.state.next(), writer: self.writer.clone(), epoch: self.epoch, clock, body }
    }
}

/// Appends the next record of this writer, or learns that the log has another one.
pub async fn append(log: &dyn BatchLog, claimed: &mut Claimed, clock: Timestamp, body: Body) -> Result<Record, Fault> {
    let record = claimed.record(clock, body);
    match log.append(&record).await.map_err(Fault::from)? {
        Appended::Conflict => Err(fenced(record.seq)),
        Appended::Written => {
            claimed.state.apply(&record);
            Ok(record)
        }
    }
}

/// Takes the log over at `now`. Another starter may take the number first; then the next one is tried, a bounded number
/// of times.
pub async fn claim(log: &dyn BatchLog, now: Timestamp, writer: &Writer) -> Result<Claimed, LogError> {
    for _ in 0..TRIES {
        if let Some(claimed) = claim_next(log, now, writer).await? {
            return Ok(claimed);
        }
    }
    Err(LogError::Contended { tries: TRIES })
}

/// Tries for the next number alone. `None`: another writer was faster, and may be one that should be left in peace.
pub async fn claim_next(log: &dyn BatchLog, now: Timestamp, writer: &Writer) -> Result<Option<Claimed>, LogError> {
    let loaded = log.load().await?;
    let seq = loaded.highest.next();
    let body = Body::Claim { holder: writer.holder.clone(), version: writer.version.clone() };
    let clock = loaded.state.clock_at(now);
    let record = Record { format: FORMAT, seq, writer: writer.id.clone(), epoch: seq, clock, body };
    if log.append(&record).await? == Appended::Conflict {
        return Ok(None);
    }
    let mut claimed = Claimed {
        writer: writer.id.clone(),
        epoch: seq,
        state: loaded.state,
        damaged: loaded.damaged,
        recent: loaded.recent,
        replayed: (loaded.replayed.0 + 1, loaded.replayed.1),
    };
    claimed.state.apply(&record);
    claimed.recent.push(record);
    Ok(Some(claimed))
}
