//! The contract of sinks: an index that is kept, batch by batch. Knows nothing of sources or SQL.

pub mod bulk;
pub mod contract;
pub mod model;
pub mod solr;
pub mod tantivy;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use highwater_core::generation::GenerationName;
use highwater_core::lease::Lease;
use highwater_core::ports::{Fault, Stamp};
use highwater_core::{Sequence, SourceName, Timestamp};
use serde::{Deserialize, Serialize};

use crate::config::{FieldHint, IndexConfig, IndexKind};
use crate::transform::{Document, DocumentHash};

/// The longest id that any sink takes, in bytes.
pub const MAX_ID_BYTES: usize = 32_766;

/// The longest query that is parsed, in bytes.
pub const MAX_QUERY_BYTES: usize = 4_096;
/// The most `(`, and the most `NOT`, in a query.
pub const MAX_QUERY_NESTING: usize = 64;

/// Why an index could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexError {
    /// Another process (or another sink of this one) writes to it: wait until it is gone, or name another folder.
    #[error(
        "the index is held by another process ({0}): a former writer has not ended yet, or another pipeline names the \
         same [index] path"
    )]
    Held(String),
    /// It was built by another shape: take a new path.
    #[error("the index was built for other fields: {0}")]
    ShapeChanged(String),
    /// The shape cannot be indexed: rename or hint the field.
    #[error("{0}")]
    Shape(String),
    /// The folder cannot be read or written: try again.
    #[error("{0}")]
    Unavailable(String),
    /// What stands in the folder is not what this program writes: look at it.
    #[error("{0}")]
    Damaged(String),
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        let message = error.to_string();
        match error {
            // The pipeline is ours: whoever still has its index held the pipeline before, and ends.
            IndexError::Held(_) | IndexError::Unavailable(_) => Self::Unavailable(message),
            IndexError::ShapeChanged(_) | IndexError::Shape(_) | IndexError::Damaged(_) => Self::Invalid(message),
        }
    }
}

/// One field of the documents, as the sink is to search it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Its name in the document.
    pub name: String,
    /// What its values are.
    pub kind: FieldKind,
    /// Values are lists of that kind.
    #[serde(default)]
    pub many: bool,
    /// What the user asked for.
    #[serde(default)]
    pub hint: Option<FieldHint>,
}

/// What a field's values are, in the canonical JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Text; searched as text unless hinted otherwise.
    Text,
    /// A signed integer.
    I64,
    /// An unsigned integer past the range of a signed one.
    U64,
    /// A number with a fraction (decimals too).
    F64,
    /// True or false.
    Bool,
    /// An instant, RFC 3339.
    Time,
    /// A day, `YYYY-MM-DD`.
    Date,
    /// An object, kept whole and searchable by path.
    Object,
}

/// The shape of an index: what a generation is built by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The pipeline that owns the index.
    pub pipeline: String,
    /// The field that holds the id.
    pub id: String,
    /// All fields of the documents, the id's too, in the SQL's order.
    pub fields: Vec<Field>,
}

/// What is known of one document in the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Its id.
    pub id: Box<str>,
    /// Its hash.
    pub hash: DocumentHash,
    /// The batch that wrote it.
    pub sequence: Sequence,
}

/// One change to the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Write the document, whether or not the id is there.
    Upsert(Document),
    /// Take the id away; absent is fine.
    Delete(Box<str>),
}

impl Change {
    /// The id that it writes or takes away.
    pub fn id(&self) -> &str {
        match self {
            Self::Upsert(document) => &document.id,
            Self::Delete(id) => id,
        }
    }
}

/// What a commit carries, besides the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsOf {
    /// Batch and watermark.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// End of the newest partition with data, by source.
    pub newest: BTreeMap<SourceName, Timestamp>,
}

/// A sink, as the engine writes to it. One writer at a time.
///
/// Batch n is `stage`d any number of times, then `commit`ted once. In an atomic sink what was staged and not committed is
/// never visible and is gone after `abandon` or a restart, and all of a batch becomes visible at once, or nothing of it.
/// A sink that is not atomic has no rollback: there `abandon`, and opening it for writing, make visible whatever was left,
/// under the number that it was staged by, while the stamp stays what it was. Then `pairs` is the truth about it, and the
/// next batch repairs it.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Whether a batch shows whole or not at all.
    fn is_atomic(&self) -> bool {
        true
    }
    /// What the last commit carried; `None` for an index that never saw one.
    async fn as_of(&self) -> Result<Option<AsOf>, Fault>;
    /// How many documents the last commit left.
    async fn count(&self) -> Result<u64, Fault>;
    /// Every committed document's pair, ascending by the bytes of the id, in blocks.
    async fn pairs(&self) -> Result<BoxStream<'static, Result<Vec<Pair>, Fault>>, Fault>;
    /// Stages changes of batch `sequence`. An id stands once in a batch. Documents that this sink alone cannot take
    /// come back with a reason; the others are staged. No request to a server is begun while `lease` does not hold.
    async fn stage(
        &mut self,
        sequence: Sequence,
        changes: Vec<Change>,
        lease: &dyn Lease,
    ) -> Result<Vec<Refused>, Fault>;
    /// Keeps what was staged so far, for a sink that is opened after a crash to find in `pairs`; the batch goes on. Only
    /// before the first commit, and where readers see another index: no stamp tells what is kept. One that keeps what was
    /// staged anyway, or not at all before a commit, does nothing.
    async fn checkpoint(&mut self, _lease: &dyn Lease) -> Result<(), Fault> {
        Ok(())
    }
    /// Makes all that was staged visible, stamped. Idempotent for an equal stamp. No request to a server is begun while
    /// `lease` does not hold.
    async fn commit(&mut self, as_of: &AsOf, lease: &dyn Lease) -> Result<(), Fault>;
    /// Gives up what was staged: it is forgotten, or (without rollback) made visible for the next batch to repair.
    async fn abandon(&mut self) -> Result<(), Fault>;
    /// True if it holds documents or tombstones that were staged under one of these numbers, which are no committed
    /// batches. An atomic sink never does.
    async fn traces(&self, _void: &[Sequence]) -> Result<bool, Fault> {
        Ok(false)
    }
    /// How many documents, without tombstones, it holds that were staged under one of these numbers.
    async fn left_by(&self, _void: &[Sequence]) -> Result<u64, Fault> {
        Ok(0)
    }
}

/// A document that the sink could not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its id.
    pub id: Box<str>,
    /// Why.
    pub reason: String,
}

/// An index, as readers ask it. Each call sees one commit, and says which.
#[async_trait]
pub trait Searcher: Send + Sync {
    /// Looks for documents in the sink's own query language.
    async fn search(&self, query: &SearchQuery) -> Result<Found, SearchError>;
    /// One document by id, with the commit that it was read from.
    async fn get(&self, id: &str) -> Result<(Option<StoredDocument>, AsOf), SearchError>;
    /// The newest commit and every document of it, ascending by the bytes of the id, in blocks of canonical JSON.
    async fn dump(&self) -> Result<(Option<AsOf>, Dump), Fault>;
    /// The commit that a search would see now, and its number of documents; `None` before the first.
    async fn as_of(&self) -> Result<Option<(AsOf, u64)>, Fault>;
}

/// Documents of one commit, in blocks.
pub type Dump = BoxStream<'static, Result<Vec<StoredDocument>, Fault>>;

/// What to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    /// In the sink's query language; empty or `*` means all.
    pub query: String,
    /// How many hits at most.
    pub limit: usize,
    /// How many to pass over.
    pub offset: usize,
}

/// A document as it stands in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its id.
    pub id: Box<str>,
    /// Canonical JSON.
    pub json: Box<[u8]>,
    /// Its hash.
    pub hash: DocumentHash,
    /// The batch that wrote it.
    pub sequence: Sequence,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The commit that was searched.
    pub as_of: AsOf,
    /// How many documents match.
    pub total: u64,
    /// The best ones.
    pub hits: Vec<Hit>,
}

/// One hit.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// How well it matches.
    pub score: f32,
    /// The document.
    pub document: StoredDocument,
}

/// Why a search gave nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SearchError {
    /// The query does not parse or names no field: the reader's mistake.
    #[error("{0}")]
    Query(String),
    /// No batch was committed yet.
    #[error("the index holds no committed batch yet")]
    Empty,
    /// The index cannot be read.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The physical indexes of one pipeline: one a generation, and the name that readers ask by.
#[async_trait]
pub trait Home: Send + Sync {
    /// Opens a generation for writing, and makes it where it is not there. Where readers see none yet and this is the live
    /// one, they see it from now on.
    async fn open(
        &self,
        name: &GenerationName,
        is_live: bool,
        shape: &Shape,
        writer_memory_bytes: u64,
        threads: usize,
    ) -> Result<Box<dyn Sink>, Fault>;
    /// Whether another generation can stand beside the live one; `Invalid` says why not, and what to do.
    async fn can_grow(&self) -> Result<(), Fault>;
    /// Makes visible what a writer that ended left uncommitted in a generation, where the sink cannot forget it: what it
    /// holds is to be known before the next batch. One that is not there yet is fine.
    async fn settle(&self, name: &GenerationName) -> Result<(), Fault>;
    /// [`Sink::traces`], of a generation that is not open.
    async fn traces(&self, name: &GenerationName, void: &[Sequence]) -> Result<bool, Fault>;
    /// Reads one generation, whichever is live; it need not be there yet.
    async fn searcher(&self, name: &GenerationName) -> Result<Arc<dyn Searcher>, Fault>;
    /// The generation that readers see, read from where they read it; `None` before there is one.
    async fn live(&self) -> Result<Option<GenerationName>, Fault>;
    /// Has readers see another generation, in one atomic step. Done twice it does no harm. On `Err` it may be done or not:
    /// [`Home::live`] tells.
    async fn switch(&self, to: &GenerationName) -> Result<(), Fault>;
    /// Every generation that there is something of.
    async fn all(&self) -> Result<Vec<GenerationName>, Fault>;
    /// Takes a generation away. The one that readers see is refused.
    async fn delete(&self, name: &GenerationName) -> Result<(), Fault>;
}

/// The indexes of a configuration.
pub fn home(index: &IndexConfig) -> Arc<dyn Home> {
    match &index.kind {
        IndexKind::Tantivy { path } => Arc::new(tantivy::TantivyHome::new(path)),
        IndexKind::Solr(config) => Arc::new(solr::SolrHome::new(config)),
    }
}

/// Opens the index of a configuration for reading; it need not be there yet.
pub fn open_searcher(index: &IndexConfig) -> Arc<dyn Searcher> {
    match &index.kind {
        IndexKind::Tantivy { path } => Arc::new(tantivy::TantivySearcher::open(path)),
        IndexKind::Solr(config) => Arc::new(solr::SolrSearcher::open(config)),
    }
}
