//! The folder of an embedded index as a whole: its generations, and which of them readers see.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use highwater_core::Sequence;
use highwater_core::generation::GenerationName;
use highwater_core::ports::Fault;

use super::layout::Layout;
use super::{TantivyOptions, TantivySearcher, TantivySink, writer};
use crate::index::{Home, IndexError, Searcher, Shape, Sink};
use crate::task;

/// A folder with generations. Whatever writes to one of them holds the folder's one lock.
pub struct TantivyHome {
    layout: Layout,
    held: Mutex<Weak<File>>,
}

impl TantivyHome {
    /// Takes the folder, whether or not it is there.
    pub fn new(path: &Path) -> Self {
        Self { layout: Layout::new(path), held: Mutex::default() }
    }

    /// The folder's lock, which the sinks of this process share.
    fn hold(&self) -> Result<Arc<File>, IndexError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = held.upgrade() {
            return Ok(file);
        }
        let file = Arc::new(self.layout.lock()?);
        *held = Arc::downgrade(&file);
        Ok(file)
    }

    /// Opens a generation for writing, and makes it where it is not there.
    ///
    /// # Errors
    /// `Held` while another process has the folder; `ShapeChanged` if the generation was built for other fields.
    pub fn sink(
        &self,
        (name, is_live): (&GenerationName, bool),
        shape: &Shape,
        options: TantivyOptions,
    ) -> Result<TantivySink, IndexError> {
        let (writer, snapshots) = writer::open(&self.layout, (name.as_str(), is_live), self.hold()?, shape, options)?;
        Ok(TantivySink::new(writer, snapshots))
    }
}

#[async_trait]
impl Home for TantivyHome {
    async fn open(
        &self,
        name: &GenerationName,
        is_live: bool,
        shape: &Shape,
        writer_memory_bytes: u64,
        threads: usize,
    ) -> Result<Box<dyn Sink>, Fault> {
        let writer_memory_bytes = usize::try_from(writer_memory_bytes).unwrap_or(usize::MAX);
        Ok(Box::new(self.sink((name, is_live), shape, TantivyOptions { writer_memory_bytes, threads })?))
    }

    async fn can_grow(&self) -> Result<(), Fault> {
        Ok(())
    }

    async fn settle(&self, _name: &GenerationName) -> Result<(), Fault> {
        Ok(())
    }

    async fn traces(&self, _name: &GenerationName, _void: &[Sequence]) -> Result<bool, Fault> {
        Ok(false)
    }

    async fn searcher(&self, name: &GenerationName) -> Result<Arc<dyn Searcher>, Fault> {
        Ok(Arc::new(TantivySearcher::of(self.layout.clone(), name.as_str())))
    }

    async fn live(&self) -> Result<Option<GenerationName>, Fault> {
        let Some(name) = self.layout.current()? else { return Ok(None) };
        let known = GenerationName::parse(&name);
        known.map(Some).ok_or_else(|| self.layout.names_a_stranger(&name).into())
    }

    async fn switch(&self, to: &GenerationName) -> Result<(), Fault> {
        let _held = self.hold()?;
        Ok(self.layout.set_current(to.as_str())?)
    }

    async fn all(&self) -> Result<Vec<GenerationName>, Fault> {
        Ok(self.layout.all()?.iter().filter_map(|name| GenerationName::parse(name)).collect())
    }

    async fn delete(&self, name: &GenerationName) -> Result<(), Fault> {
        let (layout, name, held) = (self.layout.clone(), name.clone(), self.hold()?);
        let deleted = task::blocking(move || {
            let _held = held;
            layout.delete(name.as_str())
        });
        Ok(deleted.await??)
    }
}
