//! The log as objects of a store: `log/<number>.json` and, as shortcuts, `snapshot/<number>.json`. Needs nothing of the
//! store but create-if-absent, reads after writes, and complete listings; no order of keys, no compare-and-swap.
//!
//! On a local folder a record appears whole or not at all (it is linked into place), but the operating system is not
//! asked to flush it: a killed process loses nothing, a machine that loses power may lose its last records or leave
//! them empty. Empty ones are damaged ones; with the stamp ahead of the log the next batch compares everything.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;

use super::codec::{self, Unreadable};
use super::folder::{Created, Folder, TRIES};
use super::record::{FORMAT, Record, Sequence, WriterId};
use super::state::PipelineState;
use super::{Appended, BatchLog, Damaged, Loaded, LogError};
use crate::lease::Lease;
use crate::ports::Clock;

/// Records that trimming leaves in any case: with those since the last two snapshots a small pipeline's log stays
/// within one page of 1,000 names.
pub const KEEP: u64 = 800;

/// How many records [`Loaded::recent`] holds at most.
pub const RECENT: usize = 300;

/// A start reads at most about this many records.
const REPLAY_MAX: u64 = 1_000;

/// Below this many records a snapshot is not worth its request.
const REPLAY_MIN: u64 = 64;

/// Reading one more record costs a start about as much as this many file versions in a snapshot.
const FILES_PER_RECORD: u64 = 50;

/// Records read at once.
const READ_AT_ONCE: usize = 16;

/// How often an object is read that makes no sense.
const READS: u32 = 3;

/// Missing numbers looked up at most.
const PROBED: usize = 64;

/// True when a snapshot pays: a snapshot costs its live files, so it waits until the replay that it saves has grown to
/// as much. `records_since` and `changes_since` (see [`Record::changes`]) count from the last snapshot.
pub fn snapshot_due(records_since: u64, changes_since: u64, live_files: u64) -> bool {
    if records_since < REPLAY_MIN {
        return false;
    }
    let replay = records_since.saturating_mul(FILES_PER_RECORD).saturating_add(changes_since);
    records_since >= REPLAY_MAX || replay >= live_files
}

/// A log in an object store.
#[derive(Clone)]
pub struct ObjectLog {
    records: Folder,
    snapshots: Folder,
    lease: Option<Arc<dyn Lease>>,
    keep: u64,
}

impl ObjectLog {
    /// The log below `root`, the pipeline's own folder. `clock` only waits between repeated requests.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, clock: Arc<dyn Clock>) -> Self {
        let records = Folder::new(store.clone(), root.clone().join("log"), clock.clone());
        let snapshots = Folder::new(store, root.join("snapshot"), clock);
        Self { records, snapshots, lease: None, keep: KEEP }
    }

    /// Under a lease that still holds after a record was created, the listing that looks for higher numbers is saved.
    pub fn leased(mut self, lease: Arc<dyn Lease>) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Trimming leaves this many records instead of [`KEEP`].
    pub fn keeping(mut self, records: u64) -> Self {
        self.keep = records;
        self
    }

    /// The newest record above `known`, and whose it is (`None`: it cannot be read); `None` if there is none. Whose the
    /// newest record is has the pipeline: an older writer's next append is a conflict. One listing, and one read where
    /// there is something new.
    pub async fn newest_after(&self, known: Sequence) -> Result<Option<(Sequence, Option<WriterId>)>, LogError> {
        let highest = self.records.numbers().await?.last().copied().unwrap_or_default();
        if highest <= known {
            return Ok(None);
        }
        let bytes = self.records.get(highest).await?;
        let writer = match bytes.map(|bytes| codec::read_record(highest, &bytes)) {
            Some(Ok(record)) => Some(record.writer),
            Some(Err(reason)) => {
                damage(&self.records, highest, reason)?;
                None
            }
            None => None,
        };
        Ok(Some((highest, writer)))
    }

    /// The newest snapshot that can be read, those above it that cannot, and the highest number of all; `None` as in
    /// [`Self::look`].
    async fn base(&self, last: bool) -> Result<Option<Base>, LogError> {
        let numbers = self.snapshots.numbers().await?;
        let mut base = Base { highest: numbers.last().copied().unwrap_or_default(), ..Base::default() };
        for number in numbers.into_iter().rev() {
            let Some(read) = read(&self.snapshots, number, codec::read_snapshot).await? else {
                if last {
                    continue;
                }
                return Ok(None);
            };
            match read {
                Ok(state) => {
                    base.state = Some(state);
                    break;
                }
                Err(reason) => base.damaged.push(damage(&self.snapshots, number, reason)?),
            }
        }
        Ok(Some(base))
    }

    /// One look at the log; `None` if something was trimmed between listing and reading. `last` takes such an object as
    /// damaged instead: some stores list what they can no longer give.
    async fn look(&self, last: bool) -> Result<Option<Loaded>, LogError> {
        // Records first: what is trimmed after this listing stands in the snapshots that are listed now.
        let listed = self.records.numbers().await?;
        let Some(base) = self.base(last).await? else { return Ok(None) };
        let mut loaded = Loaded {
            highest: base.highest.max(listed.last().copied().unwrap_or_default()),
            damaged: base.damaged,
            state: base.state.unwrap_or_default(),
            recent: Vec::new(),
            replayed: (0, 0),
        };
        let behind = loaded.state.last;
        if let Some(lost) = lost_beginning(behind, &listed) {
            loaded.damaged.push(self.missing(lost, "it and all before it are gone, and no snapshot can be read"));
        }

        let wanted = wanted(behind, &listed);
        let mut found = stream::iter(wanted)
            .map(|number| async move { (number, read(&self.records, number, codec::read_record).await) })
            .buffered(READ_AT_ONCE);
        let mut recent = VecDeque::new();
        while let Some((number, read)) = found.next().await {
            let Some(read) = read? else {
                match (number > behind, listed.contains(&number)) {
                    (false, _) => {}
                    (true, true) if !last => return Ok(None),
                    (true, true) => loaded.damaged.push(self.missing(number, "it is listed but cannot be read")),
                    (true, false) => loaded.damaged.push(self.missing(number, "it is missing")),
                }
                continue;
            };
            match read {
                Ok(record) => {
                    if number > behind {
                        loaded.state.apply(&record);
                        loaded.replayed = (loaded.replayed.0 + 1, loaded.replayed.1 + record.changes());
                    }
                    keep_recent(&mut recent, record);
                }
                Err(reason) => loaded.damaged.push(damage(&self.records, number, reason)?),
            }
        }
        loaded.recent = recent.into();
        Ok(Some(loaded))
    }

    fn missing(&self, sequence: Sequence, reason: &str) -> Damaged {
        Damaged { object: self.records.place(sequence).to_string(), sequence, reason: reason.into() }
    }

    /// Our number holds other bytes: whose?
    fn judge(&self, record: &Record, found: &Bytes) -> Result<Appended, LogError> {
        match codec::read_record(record.seq, found) {
            Ok(other) if other.writer == record.writer => {
                Err(LogError::Earlier { object: self.records.place(record.seq).to_string() })
            }
            _ => Ok(Appended::Conflict),
        }
    }

    /// The numbers of the two newest snapshots that can be read, newest first.
    async fn good_snapshots(&self, numbers: &BTreeSet<Sequence>) -> Result<Vec<Sequence>, LogError> {
        let mut good = Vec::new();
        for number in numbers.iter().rev() {
            if matches!(read(&self.snapshots, *number, codec::read_snapshot).await?, Some(Ok(_))) {
                good.push(*number);
            }
            if good.len() == 2 {
                break;
            }
        }
        Ok(good)
    }
}

#[async_trait]
impl BatchLog for ObjectLog {
    async fn load(&self) -> Result<Loaded, LogError> {
        for round in 1..TRIES {
            if let Some(loaded) = self.look(false).await? {
                return Ok(loaded);
            }
            self.records.pause(round).await;
        }
        let reason = "its records vanish faster than they can be read".to_owned();
        self.look(true).await?.ok_or(LogError::Unavailable { object: "log".into(), reason })
    }

    async fn append(&self, record: &Record) -> Result<Appended, LogError> {
        let bytes = codec::write_record(record)?;
        match self.records.create(record.seq, &bytes).await? {
            Created::Taken(found) => return self.judge(record, &found),
            Created::Ours => {}
        }
        if self.lease.as_ref().is_some_and(|lease| lease.holds()) {
            return Ok(Appended::Written);
        }
        // A writer that slept while others went on finds its number free again once they have trimmed the log.
        if self.highest().await? > record.seq { Ok(Appended::Conflict) } else { Ok(Appended::Written) }
    }

    async fn highest(&self) -> Result<Sequence, LogError> {
        Ok(self.records.numbers().await?.last().copied().unwrap_or_default())
    }

    async fn snapshot(&self, state: &PipelineState) -> Result<(), LogError> {
        if state.last == Sequence(0) {
            return Ok(());
        }
        let bytes = codec::write_snapshot(state)?;
        // A number's state is the same whoever folded it, so one that stands already will do.
        self.snapshots.create(state.last, &bytes).await.map(|_| ())
    }

    async fn trim(&self, behind: Sequence) -> Result<u64, LogError> {
        let records = self.records.numbers().await?;
        let snapshots = self.snapshots.numbers().await?;
        // Two good snapshots stay, and every record after the older: either may be damaged later on.
        let [_, base] = self.good_snapshots(&snapshots).await?[..] else { return Ok(0) };
        let highest = records.last().copied().unwrap_or_default();
        let floor = base.min(behind).min(Sequence(highest.0.saturating_sub(self.keep)));
        let old_snapshots = snapshots.into_iter().filter(|number| *number < base).collect();
        let old_records = records.into_iter().take_while(|number| *number <= floor).collect();
        Ok(self.records.delete(old_records).await? + self.snapshots.delete(old_snapshots).await?)
    }
}

#[derive(Default)]
struct Base {
    state: Option<PipelineState>,
    damaged: Vec<Damaged>,
    highest: Sequence,
}

/// Reads one object and makes sense of it; `None` if there is none. What makes no sense is read again: an answer that was
/// cut short, and claimed to be whole, looks like a damaged object, but a damaged object stays as it is.
async fn read<T>(
    folder: &Folder,
    number: Sequence,
    parse: fn(Sequence, &[u8]) -> Result<T, Unreadable>,
) -> Result<Option<Result<T, Unreadable>>, LogError> {
    let mut round = 1;
    loop {
        let Some(bytes) = folder.get(number).await? else { return Ok(None) };
        match parse(number, &bytes) {
            Err(Unreadable::Damaged(_)) if round < READS => {
                folder.pause(round).await;
                round += 1;
            }
            parsed => return Ok(Some(parsed)),
        }
    }
}

/// The last number before a log whose beginning was trimmed, where no snapshot stands for it.
fn lost_beginning(behind: Sequence, listed: &BTreeSet<Sequence>) -> Option<Sequence> {
    let first = *listed.first()?;
    (behind == Sequence(0) && first > Sequence(1)).then(|| Sequence(first.0 - 1))
}

/// The numbers to read, ascending: those that the state lacks, and the recent ones. Between those that the state lacks
/// a listing may have missed some (it takes time, and its order is the store's own): they are looked up by name.
fn wanted(behind: Sequence, listed: &BTreeSet<Sequence>) -> BTreeSet<Sequence> {
    let Some(highest) = listed.last().copied() else { return BTreeSet::new() };
    let first = if behind == Sequence(0) { listed.first().copied().unwrap_or_default() } else { behind.next() };
    let mut wanted: BTreeSet<Sequence> = listed.range(first..).copied().collect();
    let expected = (highest.0 + 1).saturating_sub(first.0);
    if wanted.len() as u64 != expected {
        let missing = (first.0..=highest.0).rev().map(Sequence).filter(|number| !listed.contains(number));
        wanted.extend(missing.take(PROBED));
    }
    wanted.extend(listed.iter().rev().take(RECENT));
    wanted
}

fn keep_recent(recent: &mut VecDeque<Record>, record: Record) {
    if recent.len() == RECENT {
        recent.pop_front();
    }
    recent.push_back(record);
}

fn damage(folder: &Folder, sequence: Sequence, reason: Unreadable) -> Result<Damaged, LogError> {
    let object = folder.place(sequence).to_string();
    match reason {
        Unreadable::Newer(found) => Err(LogError::NewerFormat { object, found, known: FORMAT }),
        Unreadable::Damaged(reason) => Ok(Damaged { object, sequence, reason }),
    }
}
