//! Holes: time that was passed over, could not be read or came in thin, written down, and how each one ended.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::SourceName;

/// How many closed holes a state remembers: enough to tell what became of the last ones; the records tell the rest.
pub const CLOSED_KEPT: usize = 100;

/// How many entries of one source and cause stay open by themselves: past it the oldest become one, which counts them.
pub const OPEN_KEPT: usize = 100;

/// Why a stretch of time is not, or not wholly, in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoleCause {
    /// A lag was longer than the window; the batch after it began at the newest state.
    PassedOver,
    /// A file landed behind the window.
    LateFile,
    /// A file cannot be read; its last good version, if it had one, stands in the table.
    Quarantined,
    /// A settled partition holds far fewer files or bytes than its source's partitions usually do.
    UnderFilled,
}

/// One hole of one source, `[from, to)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hole {
    /// The source whose time is missing.
    pub source: SourceName,
    /// Why.
    pub cause: HoleCause,
    /// Start of the first partition concerned.
    #[schemars(with = "String")]
    pub from: Timestamp,
    /// End of the last partition concerned.
    #[schemars(with = "String")]
    pub to: Timestamp,
    /// The file, where one file is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The clock of the batch that wrote it down.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// What is the matter, in words, where the cause alone does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How many files (`late_file`, `quarantined`), partitions (`under_filled`) or lags (`passed_over`) the entry stands
    /// for, where it is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// How a hole ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoleEnd {
    /// What was missing was read.
    Filled,
    /// The file that was the cause is gone from the store.
    Removed,
    /// Its time lies so far behind the window that its rows would have left the table by now.
    LeftWindow,
    /// It is part of a wider entry now, which is open.
    Merged,
    /// A newer base snapshot stands for its time.
    Rebased,
}

/// A hole that is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClosedHole {
    /// What it was.
    #[serde(flatten)]
    pub hole: Hole,
    /// How it ended.
    pub end: HoleEnd,
    /// The clock of the batch that closed it.
    #[schemars(with = "String")]
    pub closed: Timestamp,
}

impl Hole {
    /// True if both are entries for the same missing thing.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.source, self.cause, self.from, &self.path) == (&other.source, other.cause, other.from, &other.path)
    }

    /// How many files, partitions or lags it stands for.
    pub fn stands_for(&self) -> u64 {
        self.count.unwrap_or(1)
    }

    /// True if a part of it lies in `[from, to)`; one of a source without time always does.
    pub fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.from == self.to || self.from < to && from < self.to
    }
}

impl HoleCause {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::PassedOver, Self::LateFile, Self::Quarantined, Self::UnderFilled];

    /// The name in records and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PassedOver => "passed_over",
            Self::LateFile => "late_file",
            Self::Quarantined => "quarantined",
            Self::UnderFilled => "under_filled",
        }
    }
}

impl HoleEnd {
    /// The name in records and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filled => "filled",
            Self::Removed => "removed",
            Self::LeftWindow => "left_window",
            Self::Merged => "merged",
            Self::Rebased => "rebased",
        }
    }
}
