//! Keeps decoded parts between batches within a budget of memory; the least recently used ones go to the local disk.
//! Knows nothing of which files are live: its owner drops what left the tables.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use highwater_core::{FileVersion, SourceName};

use super::{DiskRows, Part, PartRows, TableError};

type Key = (SourceName, FileVersion);

/// Parts by source and file version. Its methods may write to the disk: call them where blocking is fine.
#[derive(Debug)]
pub struct PartCache {
    folder: PathBuf,
    budget_bytes: u64,
    memory_bytes: u64,
    parts: HashMap<Key, Kept>,
    /// Keys of parts in memory, by when they were last used.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
}

#[derive(Debug)]
struct Kept {
    part: Arc<Part>,
    used: u64,
}

impl PartCache {
    /// An empty cache that keeps up to `budget_bytes` in memory and the rest in files of `folder`, which must exist.
    pub fn new(folder: PathBuf, budget_bytes: u64) -> Self {
        Self { folder, budget_bytes, memory_bytes: 0, parts: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The part of one file version, if it is kept; in memory or on disk.
    pub fn get(&mut self, source: &SourceName, version: &FileVersion) -> Option<Arc<Part>> {
        let key = (source.clone(), version.clone());
        let kept = self.parts.get_mut(&key)?;
        if let PartRows::Memory(_) = kept.part.rows {
            self.by_use.remove(&kept.used);
            self.uses += 1;
            kept.used = self.uses;
            self.by_use.insert(self.uses, key);
        }
        Some(Arc::clone(&kept.part))
    }

    /// Keeps a part and moves the least recently used ones to disk until the rest fits. A part that is in use elsewhere
    /// frees its memory when it is let go there. Gives the part as it is kept now: on disk if it alone is over budget.
    pub fn insert(&mut self, source: &SourceName, part: Part) -> Result<Arc<Part>, TableError> {
        self.remove(source, &part.version);
        let key = (source.clone(), part.version.clone());
        let part = Arc::new(part);
        self.uses += 1;
        if let PartRows::Memory(_) = part.rows {
            self.memory_bytes += part.memory_bytes;
            self.by_use.insert(self.uses, key.clone());
        }
        self.parts.insert(key.clone(), Kept { part: Arc::clone(&part), used: self.uses });
        drop(part);
        self.fit()?;
        Ok(Arc::clone(&self.parts[&key].part))
    }

    /// Keeps up to so many bytes in memory from now on.
    pub fn resize(&mut self, budget_bytes: u64) -> Result<(), TableError> {
        self.budget_bytes = budget_bytes;
        self.fit()
    }

    fn fit(&mut self) -> Result<(), TableError> {
        while self.memory_bytes > self.budget_bytes {
            let Some((used, oldest)) = self.by_use.pop_first() else { break };
            if let Err(error) = self.spill(&oldest) {
                self.by_use.insert(used, oldest);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Forgets a part, and its file with it; true if it was kept.
    pub fn remove(&mut self, source: &SourceName, version: &FileVersion) -> bool {
        let Some(kept) = self.parts.remove(&(source.clone(), version.clone())) else { return false };
        if self.by_use.remove(&kept.used).is_some() {
            self.memory_bytes -= kept.part.memory_bytes;
        }
        true
    }

    /// Forgets every part for which `keep` says false.
    pub fn retain(&mut self, mut keep: impl FnMut(&SourceName, &FileVersion) -> bool) {
        let gone: Vec<Key> = self.parts.keys().filter(|(source, version)| !keep(source, version)).cloned().collect();
        for (source, version) in gone {
            self.remove(&source, &version);
        }
    }

    /// Bytes of the parts in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// How many parts are kept.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// True if none is kept.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn spill(&mut self, key: &Key) -> Result<(), TableError> {
        let Some(kept) = self.parts.get_mut(key) else { return Ok(()) };
        let part = &kept.part;
        let PartRows::Memory(batches) = &part.rows else { return Ok(()) };
        let Some(first) = batches.first() else {
            self.memory_bytes -= part.memory_bytes;
            return Ok(());
        };
        let rows = DiskRows::write(&self.folder, &first.schema(), batches)
            .map_err(|error| part.disk_error(&format!("{}: {error}", self.folder.display())))?;
        self.memory_bytes -= part.memory_bytes;
        kept.part = Arc::new(Part {
            version: part.version.clone(),
            partition: part.partition,
            rows: PartRows::Disk(rows),
            row_count: part.row_count,
            memory_bytes: part.memory_bytes,
            row_numbers: part.row_numbers.clone(),
        });
        Ok(())
    }
}
