//! What one record says, and its JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::file::{FileVersion, SourceName};
use crate::generation::GenerationChange;
use crate::holes::{ClosedHole, Hole};
use crate::receipt::{Alarm, Quarantined, Receipt, Requests};
use crate::withheld::WithheldChange;

/// The format that this build writes; it reads this and all lower ones.
pub const FORMAT: u32 = 4;

/// The number of a record, and the version of every document that its batch wrote. Counts from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The number after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The object's name below `log/`.
    pub fn object_name(self) -> String {
        format!("{:020}.json", self.0)
    }

    /// The number that an object's name says; `None` for a foreign name. Numbers past `i64::MAX` are foreign too: no
    /// log gets there, and sinks store numbers as signed ones.
    pub fn from_object_name(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".json")?;
        if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        u64::try_from(number).ok().filter(|number| *number > 0).map(Self)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The nonce of one writer's one start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WriterId(pub Arc<str>);

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// See [`FORMAT`].
    pub format: u32,
    /// Its number; equals the object's name.
    pub seq: Sequence,
    /// Who wrote it.
    pub writer: WriterId,
    /// The number of the writer's claim.
    pub epoch: Sequence,
    /// The writer's clock, never before the clock of the record before.
    pub clock: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub body: Body,
}

impl Record {
    /// How many file versions it adds and removes: the growth of a replay, for [`snapshot_due`](super::snapshot_due).
    pub fn changes(&self) -> u64 {
        match &self.body {
            Body::Batch(batch) => {
                batch.sources.values().map(|cursor| (cursor.added.len() + cursor.removed.len()) as u64).sum()
            }
            Body::Claim { .. } | Body::Advance { .. } | Body::Generation { .. } => 0,
        }
    }

    /// The alarms that stood at its tick; `None` where it is no tick's.
    pub fn alarms(&self) -> Option<&[Alarm]> {
        match &self.body {
            Body::Batch(batch) => Some(&batch.alarms),
            Body::Advance { alarms, .. } => Some(alarms),
            Body::Claim { .. } | Body::Generation { .. } => None,
        }
    }
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// A writer started.
    Claim {
        /// Host name and process id, for people.
        holder: String,
        /// The program's version.
        version: String,
    },
    /// The sink committed a batch under this number.
    Batch(Box<BatchRecord>),
    /// The watermark moved, or what is known of holes, quarantine or withheld removals changed; the documents stayed as
    /// they were.
    Advance {
        /// Where the watermark stands now.
        watermark: Timestamp,
        /// Holes written down.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        holes: Vec<Hole>,
        /// Holes that ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        closed: Vec<ClosedHole>,
        /// What became known of sources, no file versions among it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sources: BTreeMap<SourceName, Cursor>,
        /// Alarms that stood at its tick.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        alarms: Vec<Alarm>,
    },
    /// Which generations there are, or which of them is live, changed; the files stayed as they were.
    Generation {
        /// How.
        #[serde(flatten)]
        change: GenerationChange,
    },
}

/// The record of a committed batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRecord {
    /// The watermark that it committed.
    pub watermark: Timestamp,
    /// What changed, by source.
    pub sources: BTreeMap<SourceName, Cursor>,
    /// What it did.
    pub receipt: Receipt,
    /// Holes that it wrote down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<Hole>,
    /// Holes that ended with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<ClosedHole>,
    /// Alarms that stood at its tick.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
    /// Requests to the sources' stores, from the end of the tick before.
    #[serde(default)]
    pub requests: Requests,
    /// The generation's spec, where this batch set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<serde_json::Value>,
    /// Milliseconds from a file's own time to the commit, one for each file that this batch added to a running
    /// pipeline; empty for the first batch after a start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freshness_ms: Vec<u64>,
}

/// How one source moved in one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// `files`; a table format's log will have its own.
    pub kind: String,
    /// Eviction bound E after the batch: live partitions start at or after it. `None` for a reference source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evict_before: Option<Timestamp>,
    /// End of the newest partition in which data was ever seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_end: Option<Timestamp>,
    /// Versions pinned anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<FileVersion>,
    /// Paths pinned no more (a replaced path stands in `added` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<Arc<str>>,
    /// Versions that could not be read, new or tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<Quarantined>,
    /// Paths that are in quarantine no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Arc<str>>,
    /// What became known of withheld removals.
    #[serde(default, skip_serializing_if = "WithheldChange::is_empty")]
    pub withheld: WithheldChange,
}
