//! The one writer of an embedded index: stages, commits, and starts anew after a failure. Knows nothing of readers.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;

use ::tantivy::directory::error::LockError;
use ::tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use ::tantivy::schema::Term;
use ::tantivy::{Index, IndexSettings, IndexWriter, TantivyError};
use highwater_core::Sequence;
use highwater_core::ports::Fault;

use super::TantivyOptions;
use super::convert;
use super::disk::{Disk, Trouble};
use super::layout::{self, Layout};
use super::schema::Physical;
use super::snapshot::{Payload, Snapshots, fault};
use crate::index::{AsOf, Change, IndexError, Refused, Shape};

const LEAST_BYTES_A_THREAD: usize = 16_000_000;
const MOST_BYTES_A_THREAD: usize = 4_000_000_000;
const MOST_THREADS: usize = 8;
/// Segments with a greater part of deleted documents are rewritten.
const DELETED_RATIO: f32 = 0.3;
/// Segments with more live documents are left alone, so that no merge takes minutes.
const LARGEST_MERGED: usize = 5_000_000;

/// Opens a generation for writing, creating it where there is none. Where readers see none yet, they see the live one.
pub(super) fn open(
    layout: &Layout,
    (name, is_live): (&str, bool),
    held: Arc<File>,
    shape: &Shape,
    options: TantivyOptions,
) -> Result<(Writer, Snapshots), IndexError> {
    let physical = Arc::new(Physical::of(shape)?);
    let trouble = Trouble::default();
    let index = match layout.current()? {
        Some(current) if current == name || layout.is_made(name) => open_generation(layout, name, shape, &trouble)?,
        None if !is_live && layout.is_made(name) => open_generation(layout, name, shape, &trouble)?,
        current => create(layout, name, is_live && current.is_none(), shape, &physical, &trouble)?,
    };
    if index.schema() != physical.schema {
        return Err(IndexError::Damaged(format!(
            "{}: the index was laid out by another version of this program; use a new path",
            layout.root().display()
        )));
    }
    Physical::register(&index);
    let snapshots = Snapshots::new(index.clone(), Arc::clone(&physical)).map_err(broken)?;
    let writer = Writer::new(index, physical, options, held, trouble)?;
    Ok((writer, snapshots))
}

fn open_generation(layout: &Layout, name: &str, shape: &Shape, trouble: &Trouble) -> Result<Index, IndexError> {
    let stored = layout.shape(name)?;
    if let Some(difference) = layout::difference(&stored, shape) {
        return Err(IndexError::ShapeChanged(format!(
            "{difference}; {} keeps its fields for life: give the index a new path, it fills anew from the sources",
            layout.root().display()
        )));
    }
    open_index(&layout.index(name), trouble)
}

/// `first`: readers see no generation yet.
fn create(
    layout: &Layout,
    name: &str,
    first: bool,
    shape: &Shape,
    physical: &Physical,
    trouble: &Trouble,
) -> Result<Index, IndexError> {
    let folder = layout.index(name);
    // A leftover that was never pointed at is the trace of a creation that died, unless someone lost the pointer.
    if first
        && folder.join("meta.json").exists()
        && open_index(&folder, trouble)?.load_metas().map_err(broken)?.payload.is_some()
    {
        return Err(IndexError::Damaged(format!(
            "{} holds an index and no file `current` names it: write `{name}` into that file, or move the folder away",
            layout.generation(name).display()
        )));
    }
    layout.create(name, shape)?;
    let directory = Disk::writing(&folder, trouble).map_err(|error| broken(error.into()))?;
    let index = Index::create(directory, physical.schema.clone(), IndexSettings::default())
        .map_err(|error| refused(trouble).unwrap_or_else(|| broken(error)))?;
    if first {
        layout.set_current(name)?;
    }
    Ok(index)
}

fn open_index(folder: &Path, trouble: &Trouble) -> Result<Index, IndexError> {
    let directory = Disk::writing(folder, trouble).map_err(|error| broken(error.into()))?;
    Index::open(directory).map_err(broken)
}

/// What the disk refused tells more than what the library made of it.
fn refused(trouble: &Trouble) -> Option<IndexError> {
    trouble.take().map(|why| IndexError::Unavailable(format!("the index cannot be written: {why}")))
}

fn broken(error: TantivyError) -> IndexError {
    let message = format!("index: {error}");
    match error {
        TantivyError::LockFailure(LockError::IoError(error), _) => {
            IndexError::Unavailable(format!("index: a lock cannot be taken: {error}"))
        }
        TantivyError::LockFailure(..) => IndexError::Held(message),
        TantivyError::IoError(_)
        | TantivyError::OpenDirectoryError(_)
        | TantivyError::OpenReadError(_)
        | TantivyError::OpenWriteError(_)
        | TantivyError::SystemError(_) => IndexError::Unavailable(message),
        _ => IndexError::Damaged(message),
    }
}

/// What is to be committed next.
enum Staged {
    Nothing,
    Batch(Sequence),
    /// A failure, or a creation that failed, left the writer in a state that must not be committed.
    Lost,
}

/// The writer.
pub(super) struct Writer {
    inner: Option<IndexWriter>,
    index: Index,
    physical: Arc<Physical>,
    options: TantivyOptions,
    staged: Staged,
    /// While an empty index is loaded for the first time: which ids were added, by hash. Others need no deletion first.
    loading: Option<HashSet<u64>>,
    hasher: RandomState,
    unsearchable: u64,
    pub(super) trouble: Trouble,
    _held: Arc<File>,
}

impl Writer {
    fn new(
        index: Index,
        physical: Arc<Physical>,
        options: TantivyOptions,
        held: Arc<File>,
        trouble: Trouble,
    ) -> Result<Self, IndexError> {
        let inner = open_writer(&index, options).map_err(|error| refused(&trouble).unwrap_or_else(|| broken(error)))?;
        Ok(Self {
            inner: Some(inner),
            index,
            physical,
            options,
            staged: Staged::Nothing,
            loading: None,
            hasher: RandomState::new(),
            unsearchable: 0,
            trouble,
            _held: held,
        })
    }

    /// As after a failure.
    #[cfg(test)]
    pub(super) fn lose(&mut self) {
        self.staged = Staged::Lost;
    }

    #[cfg(test)]
    pub(super) fn merge_policy(&self) -> String {
        self.inner.as_ref().map(|writer| format!("{:?}", writer.get_merge_policy())).unwrap_or_default()
    }

    pub(super) fn unsearchable(&self) -> u64 {
        self.unsearchable
    }

    pub(super) fn stage(&mut self, sequence: Sequence, changes: Vec<Change>) -> Result<Vec<Refused>, Fault> {
        self.begin(sequence)?;
        // Until all of it is in, an early return leaves a part of the call staged.
        self.staged = Staged::Lost;
        let mut refused = Vec::new();
        let mut unsearchable = Unsearchable::default();
        for change in changes {
            match change {
                Change::Delete(id) => self.delete(&id)?,
                Change::Upsert(document) => match convert::entry(&self.physical, sequence, &document) {
                    Err(reason) => refused.push(Refused { id: document.id, reason }),
                    Ok(entry) => {
                        unsearchable.count(&document.id, &entry.unsearchable);
                        self.delete(&document.id)?;
                        self.note_added(&document.id);
                        self.inner()?.add_document(entry.document).map_err(|error| failed(&self.trouble, error))?;
                    }
                },
            }
        }
        self.unsearchable += unsearchable.values;
        unsearchable.tell(sequence);
        self.staged = Staged::Batch(sequence);
        Ok(refused)
    }

    fn begin(&mut self, sequence: Sequence) -> Result<(), Fault> {
        match self.staged {
            Staged::Batch(staged) if staged == sequence => Ok(()),
            Staged::Batch(staged) => Err(Fault::Internal(format!(
                "batch {sequence} was staged onto batch {staged}, which was neither committed nor abandoned"
            ))),
            Staged::Lost => Err(lost()),
            Staged::Nothing => {
                // What a merge in the background met says nothing about this batch.
                self.trouble.take();
                let empty =
                    self.index.load_metas().map_err(fault)?.segments.iter().all(|segment| segment.num_docs() == 0);
                self.loading = empty.then(HashSet::new);
                Ok(())
            }
        }
    }

    /// Commits what is staged without a stamp, and stays within the batch.
    pub(super) fn checkpoint(&mut self, is_stamped: bool) -> Result<(), Fault> {
        let sequence = match self.staged {
            Staged::Lost => return Err(lost()),
            Staged::Batch(sequence) if !is_stamped => sequence,
            Staged::Nothing | Staged::Batch(_) => return Ok(()),
        };
        self.staged = Staged::Lost;
        let trouble = self.trouble.clone();
        self.inner()?.commit().map_err(|error| failed(&trouble, error))?;
        self.staged = Staged::Batch(sequence);
        Ok(())
    }

    pub(super) fn commit(&mut self, as_of: &AsOf, committed: Option<&AsOf>) -> Result<(), Fault> {
        match self.staged {
            Staged::Lost => return Err(lost()),
            Staged::Nothing if committed == Some(as_of) => return Ok(()),
            Staged::Batch(staged) if staged != as_of.stamp.sequence => {
                return Err(Fault::Internal(format!(
                    "batch {staged} was staged and batch {} is to be committed",
                    as_of.stamp.sequence
                )));
            }
            Staged::Nothing | Staged::Batch(_) => {}
        }
        let payload = serde_json::to_string(&Payload { format: 1, as_of: as_of.clone() })
            .map_err(|error| Fault::Internal(format!("the stamp cannot be written: {error}")))?;
        self.staged = Staged::Lost;
        let trouble = self.trouble.clone();
        let mut prepared = self.inner()?.prepare_commit().map_err(|error| failed(&trouble, error))?;
        prepared.set_payload(&payload);
        prepared.commit().map_err(|error| failed(&trouble, error))?;
        self.staged = Staged::Nothing;
        self.loading = None;
        Ok(())
    }

    pub(super) fn abandon(&mut self) -> Result<(), Fault> {
        if matches!(self.staged, Staged::Nothing) {
            return Ok(());
        }
        self.staged = Staged::Lost;
        self.loading = None;
        self.stop();
        self.trouble.take();
        let opened = open_writer(&self.index, self.options);
        self.inner = Some(opened.map_err(|error| failed(&self.trouble, error))?);
        self.staged = Staged::Nothing;
        Ok(())
    }

    /// Ends the writer and all its threads: a merge that ended later could publish over its successor.
    fn stop(&mut self) {
        if let Some(writer) = self.inner.take()
            && let Err(error) = writer.wait_merging_threads()
        {
            tracing::warn!(%error, "an index writer ended badly; the last commit stands");
        }
    }

    fn inner(&mut self) -> Result<&mut IndexWriter, Fault> {
        self.inner.as_mut().ok_or_else(lost)
    }

    fn delete(&mut self, id: &str) -> Result<(), Fault> {
        if let Some(added) = &self.loading
            && !added.contains(&self.hasher.hash_one(id))
        {
            return Ok(());
        }
        let term = Term::from_field_text(self.physical.key, id);
        self.inner()?.delete_term(term);
        Ok(())
    }

    fn note_added(&mut self, id: &str) {
        let hash = self.hasher.hash_one(id);
        if let Some(added) = &mut self.loading {
            added.insert(hash);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn failed(trouble: &Trouble, error: TantivyError) -> Fault {
    refused(trouble).map_or_else(|| fault(error), Fault::from)
}

fn lost() -> Fault {
    Fault::Internal("a failure lost what was staged: abandon it and stage the batch again".to_owned())
}

/// Opens a writer that numbers from past the last commit, and clears away what a killed one left: a file of deletions
/// under a number that is used again would make the next commit fail.
pub(super) fn open_writer(index: &Index, options: TantivyOptions) -> Result<IndexWriter, TantivyError> {
    let affordable = (options.writer_memory_bytes / LEAST_BYTES_A_THREAD).max(1);
    let threads = options.threads.clamp(1, MOST_THREADS).min(affordable);
    let bytes = (options.writer_memory_bytes / threads).clamp(LEAST_BYTES_A_THREAD, MOST_BYTES_A_THREAD);
    let options = IndexWriterOptions::builder()
        .num_worker_threads(threads)
        .memory_budget_per_thread(bytes)
        .num_merge_threads(1)
        .build();
    let writer: IndexWriter = index.writer_with_options(options)?;
    let mut policy = LogMergePolicy::default();
    policy.set_max_docs_before_merge(LARGEST_MERGED);
    policy.set_del_docs_ratio_before_merge(DELETED_RATIO);
    writer.set_merge_policy(Box::new(policy));
    // The first number would be that of the last commit, and a merge would apply a deletion of that number uncommitted.
    writer.run(Vec::new())?;
    writer.garbage_collect_files().wait()?;
    Ok(writer)
}

/// Values of one call that cannot be searched, told once.
#[derive(Default)]
struct Unsearchable {
    values: u64,
    first: Option<(Box<str>, String)>,
}

impl Unsearchable {
    fn count(&mut self, id: &str, fields: &[String]) {
        self.values += fields.len() as u64;
        if let (None, Some(field)) = (&self.first, fields.first()) {
            self.first = Some((id.into(), field.clone()));
        }
    }

    fn tell(&self, sequence: Sequence) {
        if let Some((id, field)) = &self.first {
            tracing::warn!(%sequence, values = self.values, %id, %field, "values are kept and cannot be searched: first one");
        }
    }
}
