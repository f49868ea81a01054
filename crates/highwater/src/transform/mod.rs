//! The document SQL: tables in, documents out. The only room that names DataFusion.

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
