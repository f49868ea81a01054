//! What a batch did: the receipt that `once --json` prints and the log keeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::{FileVersion, SourceName};

/// How a batch computed its documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// All documents were computed and compared.
    Full,
    /// Only the documents that the change can touch.
    Incremental,
    /// Nothing changed; no batch was needed.
    #[default]
    None,
}

/// Requests to the store, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Pages listed (a local folder walk counts as one).
    pub list: u64,
    /// Objects or ranges read; local files hashed count here too.
    pub get: u64,
    /// Metadata looked up.
    pub head: u64,
    /// Objects written.
    pub put: u64,
}

impl Requests {
    /// What was requested since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            list: self.list - earlier.list,
            get: self.get - earlier.get,
            head: self.head - earlier.head,
            put: self.put - earlier.put,
        }
    }
}

/// A file whose content could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quarantined {
    /// Its source.
    pub source: SourceName,
    /// The version that could not be read.
    #[serde(flatten)]
    pub version: FileVersion,
    /// What was wrong with it.
    pub reason: String,
    /// The clock of the batch that first met this version.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
}

/// One row or document that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectedRow {
    /// Its source; `None` for a document that the SQL yielded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
    /// The file's path below the source's location, or empty for a document.
    pub path: Arc<str>,
    /// Row number in the file from 1 (for text formats the line number); 0 for a document.
    pub row: u64,
    /// Why it was refused, naming the column or the id.
    pub reason: String,
}

/// Something that an operator should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alarm {
    /// `source_silent`, `listing_failed`, `future_partition`, `late_out_of_window`, `misplaced_files`, `add_only`, …
    pub kind: String,
    /// The source concerned, if one is.
    pub source: Option<SourceName>,
    /// The clock of the tick that first raised it.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// What is the matter, with the names of keys.
    pub detail: String,
}

/// What a batch did with rows and documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Receipt {
    /// How documents were computed.
    pub mode: Mode,
    /// File versions read and decoded.
    pub files_read: u64,
    /// File versions that left the tables (removed, replaced or evicted).
    pub files_dropped: u64,
    /// Documents written.
    pub upserts: u64,
    /// Documents deleted.
    pub deletes: u64,
    /// Documents computed and found as they were.
    pub unchanged: u64,
    /// Documents in the index after the batch.
    pub documents: u64,
    /// Rows of files and documents refused in this batch.
    pub rejected_rows: u64,
    /// The first refused rows, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedRow>,
    /// Rows of the SQL that lost to another row with the same id.
    pub duplicate_ids: u64,
    /// Files that could not be read in this batch.
    pub quarantined: Vec<Quarantined>,
    /// True while rows may be lacking, so that nothing may be deleted: those of a pinned version are not at hand, or the
    /// index may hold documents of files that could not be listed.
    pub add_only: bool,
    /// The first of these files and prefixes, as `source: path`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
    /// Milliseconds by phase: `read`, `transform`, `difference`, `apply`, `commit`, `total`.
    pub ms: BTreeMap<String, u64>,
}
