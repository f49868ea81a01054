//! The state of a pipeline: the fold of its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::file::{FileVersion, SourceName};
use crate::holes::Hole;
use crate::log::record::{BatchRecord, Body, Cursor, Record, Sequence};
use crate::ports::Stamp;
use crate::receipt::Quarantined;

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
    /// The generation's spec.
    pub spec: Option<serde_json::Value>,
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
}

impl PipelineState {
    /// Folds one record in. Records come in ascending order; gaps are allowed (a damaged one was stepped over).
    pub fn apply(&mut self, record: &Record) {
        self.last = record.seq;
        self.epoch = self.epoch.max(record.epoch);
        self.clock = self.clock.max(Some(record.clock));
        match &record.body {
            Body::Claim { .. } => {}
            Body::Advance { watermark } => self.watermark = self.watermark.max(Some(*watermark)),
            Body::Batch(batch) => self.apply_batch(record.seq, batch),
        }
    }

    fn apply_batch(&mut self, seq: Sequence, batch: &BatchRecord) {
        self.watermark = self.watermark.max(Some(batch.watermark));
        self.stamp = Some(Stamp { sequence: seq, watermark: batch.watermark });
        self.documents = batch.receipt.documents;
        self.holes.extend(batch.holes.iter().cloned());
        if batch.spec.is_some() {
            self.spec.clone_from(&batch.spec);
        }
        for (name, cursor) in &batch.sources {
            self.sources.entry(name.clone()).or_default().apply(cursor);
        }
    }
}

impl SourceState {
    fn apply(&mut self, cursor: &Cursor) {
        self.evict_before = self.evict_before.max(cursor.evict_before);
        self.newest_end = self.newest_end.max(cursor.newest_end);
        if !cursor.added.is_empty() || !cursor.removed.is_empty() {
            let live = Arc::make_mut(&mut self.live);
            for path in &cursor.removed {
                live.remove(path);
            }
            for version in &cursor.added {
                live.insert(version.path.clone(), version.clone());
            }
        }
        for path in &cursor.released {
            self.quarantined.remove(path);
        }
        for entry in &cursor.quarantined {
            self.quarantined.insert(entry.version.path.clone(), entry.clone());
        }
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
