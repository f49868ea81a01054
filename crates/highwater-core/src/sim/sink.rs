//! A sink that keeps documents one by one, each under the number of the batch that wrote it. Its commit is only a stamp:
//! what was written before it is there already, unless a whole batch comes in with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::Sequence;
use crate::ports::Stamp;

/// A document's id: the number of a bit.
pub(super) type Id = u8;

/// What the sink keeps of one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub sequence: Sequence,
    /// `None`: a tombstone.
    pub content: Option<String>,
}

/// One document to write, or to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub id: Id,
    pub content: Option<String>,
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub entries: BTreeMap<Id, Entry>,
    pub stamp: Option<Stamp>,
    /// Every number that was ever committed.
    pub committed: BTreeSet<Sequence>,
}

impl Sink {
    /// Writes one change, unless the sink holds a newer version of the id.
    pub fn write(&mut self, sequence: Sequence, change: &Change) {
        let stale = self.entries.get(&change.id).is_some_and(|entry| entry.sequence > sequence);
        if !stale {
            self.entries.insert(change.id, Entry { sequence, content: change.content.clone() });
        }
    }

    pub fn commit(&mut self, stamp: Stamp) {
        self.committed.insert(stamp.sequence);
        self.stamp = Some(stamp);
    }

    /// The documents, tombstones left out.
    pub fn documents(&self) -> BTreeMap<Id, String> {
        self.entries.iter().filter_map(|(id, entry)| Some((*id, entry.content.clone()?))).collect()
    }

    /// Ids that were written under one of these numbers.
    pub fn under(&self, numbers: &[Sequence]) -> Vec<Id> {
        let ids = self.entries.iter().filter(|(_, entry)| numbers.contains(&entry.sequence));
        ids.map(|(id, _)| *id).collect()
    }
}
