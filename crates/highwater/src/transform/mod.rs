//! The document SQL: tables in, documents out. The only room that names DataFusion.

mod canonical;
mod civil;
mod compile;
mod determinism;
mod document;
mod exact;
mod exact_aggregate;
mod fields;
mod functions;
mod lineage;
mod provider;
mod session;
mod statement;
mod upsert;

#[cfg(test)]
mod tests;

pub use compile::{Compiled, SqlProblem, SqlSpec, compile};
pub use document::{DocumentBlock, MAX_ID_BYTES};
pub use session::Resources;

use highwater_core::ports::Fault;

use crate::table::TableError;

/// One document: the canonical JSON of one row of the SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The key, as text.
    pub id: Box<str>,
    /// Canonical bytes: JSON of the whole row, the id column included.
    pub json: Box<[u8]>,
    /// First 16 bytes of BLAKE3 over the spec's version and the canonical bytes.
    pub hash: DocumentHash,
}

/// Decides whether a document is written.
pub type DocumentHash = [u8; 16];

/// The hash of canonical bytes under one version of the spec.
pub fn hash_document(version: u32, json: &[u8]) -> DocumentHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(json);
    let mut hash = DocumentHash::default();
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

/// Why tables gave no documents.
#[derive(Debug, thiserror::Error)]
pub enum TransformError {
    /// The SQL cannot work on these rows (a cast that fails, a division by zero): change it or the data.
    #[error("the SQL fails on these rows: {0}; let it yield null instead (try_cast, nullif), or mend the data")]
    Sql(String),
    /// The memory budget is too small even with everything spilled that can be.
    #[error("the SQL needs more memory than its budget: {0}; raise memory, or lower what is joined")]
    Memory(String),
    /// The local disk refused.
    #[error("the SQL cannot use the local disk: {0}")]
    Disk(String),
    /// Rows of a part could not be had back.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Our own defect.
    #[error("internal error in the SQL's plan: {0}")]
    Internal(String),
}

impl From<TransformError> for Fault {
    fn from(error: TransformError) -> Self {
        let message = error.to_string();
        match error {
            TransformError::Sql(_) | TransformError::Memory(_) => Self::Data(message),
            TransformError::Disk(_) | TransformError::Table(_) => Self::Unavailable(message),
            TransformError::Internal(_) => Self::Internal(message),
        }
    }
}
