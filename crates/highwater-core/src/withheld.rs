//! Removals that are seen and not applied, and what the log keeps of them: plain values and their fold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the log says of one source's withheld removals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Withheld {
    /// Pinned paths that are gone from complete listings, and the clock that first saw each gone.
    pub paths: BTreeMap<Arc<str>, Timestamp>,
    /// Partitions that gained files while removals of theirs are withheld, in order.
    pub standing: Vec<Standing>,
    /// Removals that were applied lately.
    pub vanished: Vanished,
}

/// Since when the listing of a rewritten partition has been what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The partition's start; `None` in a reference source, which is one partition.
    pub partition: Option<Timestamp>,
    /// A digest of the files that were listed there.
    pub listing: String,
    /// The clock that first saw this listing.
    pub since: Timestamp,
}

/// Removals counted over one revisit cycle, and at most two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vanished {
    /// When the count of `now` began; `None` before any removal.
    pub since: Option<Timestamp>,
    /// Files removed since then.
    pub now: u64,
    /// Files removed in the cycle before.
    pub before: u64,
}

/// How [`Withheld`] changes with one record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WithheldChange {
    /// Pinned paths that are gone since the record's clock, and stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Arc<str>>,
    /// Paths that were withheld and are listed again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<Arc<str>>,
    /// Partitions with another listing than before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Standing>,
    /// Partitions that stand no more: applied, or with nothing to apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<Option<Timestamp>>,
    /// The count of removals, where it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vanished: Option<Vanished>,
}

impl WithheldChange {
    /// True if nothing changes.
    pub fn is_empty(&self) -> bool {
        let Self { withheld, returned, standing, resolved, vanished } = self;
        withheld.is_empty() && returned.is_empty() && standing.is_empty() && resolved.is_empty() && vanished.is_none()
    }
}

impl Withheld {
    /// Folds one record's change in; `clock` is the record's.
    pub fn apply(&mut self, change: &WithheldChange, clock: Timestamp) {
        for path in &change.returned {
            self.paths.remove(path);
        }
        for path in &change.withheld {
            self.paths.entry(path.clone()).or_insert(clock);
        }
        let replaced = |stood: &Standing| {
            change.resolved.contains(&stood.partition)
                || change.standing.iter().any(|stands| stands.partition == stood.partition)
        };
        self.standing.retain(|stood| !replaced(stood));
        self.standing.extend(change.standing.iter().cloned());
        self.standing.sort_by_key(|stands| stands.partition);
        self.vanished = change.vanished.unwrap_or(self.vanished);
    }

    /// What is known of a partition's listing.
    pub fn standing(&self, partition: Option<Timestamp>) -> Option<&Standing> {
        let at = self.standing.binary_search_by_key(&partition, |stands| stands.partition).ok()?;
        self.standing.get(at)
    }
}

impl Vanished {
    /// How many files were removed within the last `cycle`; some of up to two cycles ago may be among them.
    pub fn within(&self, cycle: Duration, clock: Timestamp) -> u64 {
        match self.age(cycle, clock) {
            Some(0) => self.now + self.before,
            Some(1) => self.now,
            _ => 0,
        }
    }

    /// With `files` more.
    pub fn plus(&self, files: u64, cycle: Duration, clock: Timestamp) -> Self {
        match self.age(cycle, clock) {
            Some(0) => Self { now: self.now + files, ..*self },
            Some(1) => Self { since: Some(clock), now: files, before: self.now },
            _ => Self { since: Some(clock), now: files, before: 0 },
        }
    }

    /// Whole cycles since the count began.
    fn age(&self, cycle: Duration, clock: Timestamp) -> Option<u128> {
        let passed = clock.duration_since(self.since?).unsigned_abs();
        Some(passed.as_millis() / cycle.as_millis().max(1))
    }
}
