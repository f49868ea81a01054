//! The embedded index: a sink and a searcher over Tantivy in a folder. Knows nothing of sources or SQL.
//!
//! The library has no primary key: an upsert is a deletion by the exact id, then an addition, in one commit. The commit's
//! payload carries the stamp. After any failure the writer is made anew, from the last commit: the library's own rollback
//! hands out operation numbers a second time.

mod bounds;
mod convert;
mod disk;
mod home;
mod layout;
mod schema;
mod search;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use highwater_core::Sequence;
use highwater_core::generation::GenerationName;
use highwater_core::lease::Lease;
use highwater_core::ports::Fault;

pub use self::home::TantivyHome;
pub use self::search::TantivySearcher;
use self::snapshot::Snapshots;
use self::writer::Writer;
use crate::index::{AsOf, Change, IndexError, Pair, Refused, Shape, Sink};
use crate::task;

/// How much an index writer may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TantivyOptions {
    /// Bytes for all indexing threads together. Each takes at least 16 MB, so fewer bytes mean fewer threads.
    pub writer_memory_bytes: usize,
    /// Indexing threads, at most 8. Each writes a segment of its own a commit.
    pub threads: usize,
}

impl Default for TantivyOptions {
    fn default() -> Self {
        Self { writer_memory_bytes: 128 * 1024 * 1024, threads: 2 }
    }
}

/// An embedded index, open for writing. Dropping it forgets what was staged, waits for merges that run, and then lets go
/// of the folder.
pub struct TantivySink {
    writer: Arc<Mutex<Writer>>,
    snapshots: Snapshots,
}

impl TantivySink {
    /// Opens the first generation of the index in a folder, creating it where there is none.
    ///
    /// # Errors
    /// `Held` while another sink has it open, in this process or another; `ShapeChanged` if it was built for other fields.
    pub fn open(path: &Path, shape: &Shape, options: TantivyOptions) -> Result<Self, IndexError> {
        TantivyHome::new(path).sink((&GenerationName::default(), true), shape, options)
    }

    fn new(writer: Writer, snapshots: Snapshots) -> Self {
        Self { writer: Arc::new(Mutex::new(writer)), snapshots }
    }

    /// How many values were kept in their documents and could not be made searchable, since the sink was opened: they did
    /// not fit their field, or were exact terms of more than 65,530 bytes.
    pub fn unsearchable_values(&self) -> u64 {
        lock(&self.writer).unsearchable()
    }

    /// Ends the sink as dropping it does, without blocking the caller's thread.
    pub async fn close(self) -> Result<(), Fault> {
        task::blocking(move || drop(self)).await
    }
}

#[async_trait]
impl Sink for TantivySink {
    async fn as_of(&self) -> Result<Option<AsOf>, Fault> {
        Ok(self.snapshots.latest()?.as_of.clone())
    }

    async fn count(&self) -> Result<u64, Fault> {
        Ok(self.snapshots.latest()?.count())
    }

    async fn pairs(&self) -> Result<BoxStream<'static, Result<Vec<Pair>, Fault>>, Fault> {
        Ok(self.snapshots.latest()?.pairs())
    }

    async fn stage(
        &mut self,
        sequence: Sequence,
        changes: Vec<Change>,
        _lease: &dyn Lease,
    ) -> Result<Vec<Refused>, Fault> {
        let writer = Arc::clone(&self.writer);
        task::blocking(move || lock(&writer).stage(sequence, changes)).await?
    }

    async fn checkpoint(&mut self, _lease: &dyn Lease) -> Result<(), Fault> {
        let is_stamped = self.as_of().await?.is_some();
        let writer = Arc::clone(&self.writer);
        task::blocking(move || lock(&writer).checkpoint(is_stamped)).await?
    }

    async fn commit(&mut self, as_of: &AsOf, _lease: &dyn Lease) -> Result<(), Fault> {
        let committed = self.as_of().await?;
        let (writer, as_of) = (Arc::clone(&self.writer), as_of.clone());
        task::blocking(move || lock(&writer).commit(&as_of, committed.as_ref())).await?
    }

    async fn abandon(&mut self) -> Result<(), Fault> {
        let writer = Arc::clone(&self.writer);
        task::blocking(move || lock(&writer).abandon()).await?
    }
}

fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}
