//! Bytes to records and snapshots and back; knows nothing of stores.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::LogError;
use super::record::{FORMAT, Record, Sequence};
use super::state::PipelineState;

/// Why bytes are no record or snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A newer build wrote them, in this format.
    Newer(u32),
    /// They are not what a writer wrote.
    Damaged(String),
}

/// What every format has in common.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

#[derive(Serialize)]
struct SnapshotOut<'a> {
    format: u32,
    seq: Sequence,
    state: &'a PipelineState,
}

#[derive(Deserialize)]
struct SnapshotIn {
    seq: Sequence,
    state: PipelineState,
}

/// One JSON object, indented: people read the log.
pub(super) fn write_record(record: &Record) -> Result<Bytes, LogError> {
    finish(serde_json::to_vec_pretty(record), record.seq)
}

/// One JSON object in one line: it names every live file.
pub(super) fn write_snapshot(state: &PipelineState) -> Result<Bytes, LogError> {
    finish(serde_json::to_vec(&SnapshotOut { format: FORMAT, seq: state.last, state }), state.last)
}

pub(super) fn read_record(number: Sequence, bytes: &[u8]) -> Result<Record, Unreadable> {
    let record: Record = parse(bytes)?;
    check_number(number, record.seq)?;
    Ok(record)
}

pub(super) fn read_snapshot(number: Sequence, bytes: &[u8]) -> Result<PipelineState, Unreadable> {
    let snapshot: SnapshotIn = parse(bytes)?;
    check_number(number, snapshot.seq)?;
    check_number(number, snapshot.state.last)?;
    Ok(snapshot.state)
}

fn finish(json: serde_json::Result<Vec<u8>>, number: Sequence) -> Result<Bytes, LogError> {
    let mut bytes =
        json.map_err(|error| LogError::Unwritable { object: number.object_name(), reason: error.to_string() })?;
    bytes.push(b'\n');
    Ok(bytes.into())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    if bytes.is_empty() {
        return Err(Unreadable::Damaged("it is empty".into()));
    }
    let damaged = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
    // The format comes first, for in a newer one everything else may be different.
    let head: Head = serde_json::from_slice(bytes).map_err(damaged)?;
    if head.format > FORMAT {
        return Err(Unreadable::Newer(head.format));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

fn check_number(name: Sequence, content: Sequence) -> Result<(), Unreadable> {
    if name == content {
        return Ok(());
    }
    Err(Unreadable::Damaged(format!("it says that it is number {content}")))
}
