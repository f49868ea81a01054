//! Names of sources and versions of files; knows nothing of where files are stored.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a source: the table that the document SQL reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SourceName(Arc<str>);

impl SourceName {
    /// Takes a name as it stands in the configuration.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One version of one file. Two versions with equal path, size and etag hold the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct FileVersion {
    /// The key below the source's location, byte for byte as the listing gave it, without a leading slash.
    pub path: Arc<str>,
    /// Stored length in bytes.
    pub size: u64,
    /// The store's entity tag; for a local file made of its change time, inode and, when just changed, its hash.
    pub etag: Arc<str>,
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, {})", self.path, self.size, self.etag)
    }
}

/// A file as one listing saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFile {
    /// What identifies the content.
    pub version: FileVersion,
    /// When the store says it was written: for freshness figures only, never for order.
    pub modified: Option<Timestamp>,
}

/// Paths of files of base snapshots begin with it: their key below the base's location stands behind it. The name is
/// hidden, so that no file of the source's own location has such a path.
pub const BASE: &str = ".base/";

/// The key below the base's location; `None` for a file of the source's own location.
pub fn below_base(path: &str) -> Option<&str> {
    path.strip_prefix(BASE)
}

/// True if a component of a path below a location starts with `_` or `.`: what is there is no data.
pub fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with(['_', '.']))
}
