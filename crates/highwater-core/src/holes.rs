//! Holes: time that was passed over or could not be read, written down.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::SourceName;

/// Why a stretch of time is not, or not wholly, in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoleCause {
    /// A lag was longer than the window; the batch after it began at the newest state.
    PassedOver,
    /// A file landed behind the window.
    LateFile,
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
}
