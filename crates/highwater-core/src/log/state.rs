//! The state of a pipeline: the fold of its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::file::{FileVersion, SourceName};
use crate::generation::Generations;
use crate::holes::{CLOSED_KEPT, ClosedHole, Hole};
use crate::log::record::{BatchRecord, Body, Cursor, Record, Sequence};
use crate::ports::Stamp;
use crate::receipt::Quarantined;
use crate::withheld::Withheld;

/// How many void numbers a state remembers.
pub const VOID_KEPT: usize = 64;

/// What the log says up to one record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineState {
    /// The last record folded in; 0 before any.
    pub last: Sequence,
    /// The number of the newest claim.
    pub epoch: Sequence,
    /// The clock of the last record.
    pub clock: Option<Timestamp>,
    /// The frontier of the last committed batch or advance.
    pub watermark: Option<Timestamp>,
    /// The stamp of the last committed batch.
    pub stamp: Option<Stamp>,
    /// Documents in the index after the last batch.
    pub documents: u64,
    /// Sources by name.
    pub sources: BTreeMap<SourceName, SourceState>,
    /// Holes written down and not closed.
    pub holes: Vec<Hole>,
    /// The last [`CLOSED_KEPT`] holes that were closed, the newest last.
    #[serde(default)]
    pub closed_holes: Vec<ClosedHole>,
    /// True if the last batch could only add: once all rows are at hand again, the next one has to make good what it
    /// left out.
    #[serde(default)]
    pub add_only: bool,
    /// The live generation's spec.
    pub spec: Option<serde_json::Value>,
    /// The generations.
    #[serde(default)]
    pub generations: Generations,
    /// The last [`VOID_KEPT`] numbers up to `last` that are no batch, advance or generation record that could be read: claims,
    /// damaged and missing records. An attempt that died may have stamped documents with one of them. Ascending.
    #[serde(default)]
    pub void: Vec<Sequence>,
    /// The newest number whose content this state may lack (a record that could not be read, a void number forgotten
    /// before any batch looked for it). While it stands, a batch lists everything and compares everything; a batch of
    /// a writer that started after it makes it good.
    #[serde(default)]
    pub gap: Option<Sequence>,
}

/// What the log says of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// Eviction bound E.
    pub evict_before: Option<Timestamp>,
    /// End of the newest partition in which data was ever seen.
    pub newest_end: Option<Timestamp>,
    /// The pinned versions by path: exactly the files of the table.
    #[serde(with = "live_as_list")]
    pub live: Arc<BTreeMap<Arc<str>, FileVersion>>,
    /// Files that could not be read, by path.
    pub quarantined: BTreeMap<Arc<str>, Quarantined>,
    /// Pinned files that are gone from the listings.
    #[serde(default)]
    pub withheld: Withheld,
}

impl PipelineState {
    /// The number of the next record.
    pub fn next(&self) -> Sequence {
        self.last.next()
    }

    /// The clock of a batch begun at `now`: time never goes back behind the last record.
    pub fn clock_at(&self, now: Timestamp) -> Timestamp {
        self.clock.map_or(now, |last| last.max(now))
    }

    /// Folds one record in. Records come in ascending order; gaps are allowed (a damaged one was stepped over).
    pub fn apply(&mut self, record: &Record) {
        self.note_numbers(record);
        self.last = record.seq;
        self.epoch = self.epoch.max(record.epoch);
        self.clock = self.clock.max(Some(record.clock));
        match &record.body {
            Body::Claim { .. } => {}
            Body::Advance { watermark, holes, closed, sources, .. } => {
                self.watermark = self.watermark.max(Some(*watermark));
                self.apply_holes(holes, closed);
                for (name, cursor) in sources {
                    self.sources.entry(name.clone()).or_default().apply(cursor, record.clock);
                }
            }
            Body::Batch(batch) => self.apply_batch(record, batch),
            Body::Generation { change } => {
                self.generations.apply(change, record.clock, &mut self.spec, &mut self.documents);
            }
        }
    }

    fn note_numbers(&mut self, record: &Record) {
        let before = record.seq.0.saturating_sub(1);
        if before > self.last.0 {
            self.gap = Some(Sequence(before));
            let first = (self.last.0 + 1).max(record.seq.0.saturating_sub(VOID_KEPT as u64));
            for number in first..=before {
                self.note_void(Sequence(number));
            }
        }
        match record.body {
            Body::Claim { .. } => self.note_void(record.seq),
            // The writer read the log with the gap in it, so this batch compared everything.
            Body::Batch(_) if self.gap.is_some_and(|gap| record.epoch > gap) => self.gap = None,
            Body::Batch(_) | Body::Advance { .. } | Body::Generation { .. } => {}
        }
    }

    fn note_void(&mut self, number: Sequence) {
        self.void.push(number);
        if self.void.len() <= VOID_KEPT {
            return;
        }
        let forgotten = self.void.remove(0);
        if self.stamp.is_none_or(|stamp| forgotten > stamp.sequence) {
            self.gap = self.gap.max(Some(forgotten));
        }
    }

    /// An entry for what is open already takes its place.
    fn apply_holes(&mut self, opened: &[Hole], closed: &[ClosedHole]) {
        for hole in opened {
            match self.holes.iter_mut().find(|known| known.is_same(hole)) {
                Some(known) => known.clone_from(hole),
                None => self.holes.push(hole.clone()),
            }
        }
        for ended in closed {
            self.holes.retain(|hole| !hole.is_same(&ended.hole));
            self.closed_holes.push(ended.clone());
        }
        let surplus = self.closed_holes.len().saturating_sub(CLOSED_KEPT);
        self.closed_holes.drain(..surplus);
    }

    fn apply_batch(&mut self, record: &Record, batch: &BatchRecord) {
        self.watermark = self.watermark.max(Some(batch.watermark));
        self.stamp = Some(Stamp { sequence: record.seq, watermark: batch.watermark });
        self.documents = batch.receipt.documents;
        self.add_only = batch.receipt.add_only;
        self.apply_holes(&batch.holes, &batch.closed);
        if batch.spec.is_some() {
            self.spec.clone_from(&batch.spec);
        }
        for (name, cursor) in &batch.sources {
            self.sources.entry(name.clone()).or_default().apply(cursor, record.clock);
        }
    }
}

impl SourceState {
    fn apply(&mut self, cursor: &Cursor, clock: Timestamp) {
        self.evict_before = self.evict_before.max(cursor.evict_before);
        self.newest_end = self.newest_end.max(cursor.newest_end);
        if !cursor.added.is_empty() || !cursor.removed.is_empty() {
            let live = Arc::make_mut(&mut self.live);
            for path in &cursor.removed {
                live.remove(path);
                self.withheld.paths.remove(path);
            }
            for version in &cursor.added {
                self.withheld.paths.remove(&version.path);
                live.insert(version.path.clone(), version.clone());
            }
        }
        for path in &cursor.released {
            self.quarantined.remove(path);
        }
        for entry in &cursor.quarantined {
            self.quarantined.insert(entry.version.path.clone(), entry.clone());
        }
        self.withheld.apply(&cursor.withheld, clock);
    }
}

mod live_as_list {
    //! The live files as a plain list: a path stands once.
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::file::FileVersion;

    pub fn serialize<S: Serializer>(live: &Arc<BTreeMap<Arc<str>, FileVersion>>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(live.values())
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Arc<BTreeMap<Arc<str>, FileVersion>>, D::Error> {
        let files = Vec::<FileVersion>::deserialize(from)?;
        Ok(Arc::new(files.into_iter().map(|file| (file.path.clone(), file)).collect()))
    }
}
