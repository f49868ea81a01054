//! What one pipeline may use of the machine: memory, cores, and a folder for what does not fit. Handed in, never looked up.

use std::path::Path;
use std::sync::Arc;

use highwater_core::ports::Fault;
use tempfile::TempDir;

use crate::transform::Resources;

/// The index writer never needs more: beyond it segments only grow.
const WRITER_MAX: u64 = 512 << 20;

/// A pipeline's share of the machine.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Files read, and threads used, at once.
    pub cores: usize,
    /// Bytes of decoded files kept in memory; past it they are kept on disk.
    pub cache_bytes: u64,
    /// Bytes for the index writer.
    pub writer_bytes: u64,
    /// For queries.
    pub query: Resources,
    folder: Arc<TempDir>,
}

impl Budget {
    /// Divides `memory_bytes`: half for queries, three eighths for decoded files, the rest for the index writer.
    pub fn new(memory_bytes: u64, cores: usize) -> Result<Self, Fault> {
        let folder = tempfile::Builder::new().prefix("highwater-").tempdir();
        let folder =
            folder.map_err(|error| Fault::Unavailable(format!("no temporary folder could be made: {error}")))?;
        let query = Resources {
            memory_bytes: memory_bytes / 2,
            target_partitions: cores,
            temp_folder: folder.path().to_owned(),
        };
        Ok(Self {
            cores,
            cache_bytes: memory_bytes / 8 * 3,
            writer_bytes: (memory_bytes / 8).min(WRITER_MAX),
            query,
            folder: Arc::new(folder),
        })
    }

    /// Where what does not fit into memory goes; removed with the last copy of the budget.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
