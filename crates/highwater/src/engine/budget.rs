//! What one pipeline may use of the machine: memory, cores, and a folder for what does not fit. Handed in, never looked up.

use std::path::Path;
use std::sync::Arc;

use highwater_core::ports::Fault;
use tempfile::TempDir;

use crate::transform::Resources;

/// The index writer never needs more: beyond it segments only grow.
const WRITER_MAX: u64 = 512 << 20;

/// Temporary folders are named by it, the process and a random part.
const PREFIX: &str = "highwater-spill-";

/// How much of the machine one generation's engine may use, and in which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its batches are what readers wait for.
    pub is_live: bool,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Threads.
    pub cores: usize,
}

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
        sweep();
        let folder = tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", std::process::id())).tempdir();
        let folder =
            folder.map_err(|error| Fault::Unavailable(format!("no temporary folder could be made: {error}")))?;
        Ok(Self::within(Arc::new(folder), memory_bytes, cores))
    }

    /// Another share, in the same folder.
    pub fn resized(&self, share: Share) -> Self {
        Self::within(self.folder.clone(), share.memory_bytes, share.cores)
    }

    fn within(folder: Arc<TempDir>, memory_bytes: u64, cores: usize) -> Self {
        let query = Resources {
            memory_bytes: memory_bytes / 2,
            target_partitions: cores,
            temp_folder: folder.path().to_owned(),
            frugal: false,
        };
        let (cache_bytes, writer_bytes) = (memory_bytes / 8 * 3, (memory_bytes / 8).min(WRITER_MAX));
        Self { cores, cache_bytes, writer_bytes, query, folder }
    }

    /// Where what does not fit into memory goes; removed with the last copy of the budget.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the temporary folders of processes that were killed. Where processes cannot be told, they stay.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let Some(process) = process.and_then(|(process, _)| process.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(process.to_string()).exists() {
            _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_processes_are_swept() {
        // No process has this number: it is greater than any that the kernel gives.
        let left = std::env::temp_dir().join(format!("{PREFIX}{}-test", u32::MAX));
        std::fs::create_dir_all(left.join("below")).unwrap();
        let budget = Budget::new(1 << 30, 1).unwrap();
        let folder = budget.folder().to_owned();
        assert!(!left.exists() && folder.exists());
        drop(Budget::new(1 << 30, 1).unwrap());
        assert!(folder.exists(), "a living process keeps its own");
    }
}
