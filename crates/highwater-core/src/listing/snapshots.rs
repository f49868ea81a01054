//! The base snapshots of one source: which there are, and which of them are complete. Knows no files.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::policy::Partitioned;

/// How many complete snapshots are listed beside the one in use: where the newest cannot be read, the one before it may.
pub const LISTED: usize = 2;

/// Snapshots by their times, as the last complete look at the base's folders found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots(BTreeMap<Timestamp, Arc<str>>);

/// One snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The time that its folder's name tells.
    pub time: Timestamp,
    /// Its folder, with [`BASE`](crate::file::BASE), ending in `/`.
    pub prefix: Arc<str>,
}

impl FromIterator<Snapshot> for Snapshots {
    fn from_iter<I: IntoIterator<Item = Snapshot>>(snapshots: I) -> Self {
        Self(snapshots.into_iter().map(|snapshot| (snapshot.time, snapshot.prefix)).collect())
    }
}

impl Snapshots {
    /// Those that can be told to be complete at `clock`, the newest first: `settle` after their time, or when a newer one
    /// exists. What lies further ahead than `max_skew` does not count.
    pub fn complete(&self, time: &Partitioned, clock: Timestamp) -> impl Iterator<Item = Snapshot> {
        let settle = time.base().map(|base| base.settle);
        let known = self.0.range(..=clock + time.max_skew).rev().enumerate();
        known.filter_map(move |(newer, (at, prefix))| {
            let is_complete = newer > 0 || settle.is_some_and(|settle| *at + settle <= clock);
            is_complete.then(|| Snapshot { time: *at, prefix: prefix.clone() })
        })
    }

    /// The one of that time.
    pub fn of(&self, time: Timestamp) -> Option<Snapshot> {
        self.0.get(&time).map(|prefix| Snapshot { time, prefix: prefix.clone() })
    }
}
