//! The index's folder as the library sees it: what the disk refuses is noted, and readers write nothing. Knows nothing of
//! documents.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ::tantivy::directory::error::{DeleteError, LockError, OpenDirectoryError, OpenReadError, OpenWriteError};
use ::tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite, WatchCallback,
    WatchHandle, WritePtr,
};

/// What the disk last refused. The library's own errors keep no more than a text of it, if that.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    last: Arc<Mutex<Option<String>>>,
    #[cfg(test)]
    full: Arc<std::sync::atomic::AtomicBool>,
}

impl Trouble {
    /// What was refused since the last call.
    pub(super) fn take(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note<T>(&self, path: &Path, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| {
            let text = format!("{}: {error}", path.display());
            self.last.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
        })
    }

    /// From now on every write fails, or none.
    #[cfg(test)]
    pub(super) fn fill(&self, full: bool) {
        self.full.store(full, std::sync::atomic::Ordering::SeqCst);
    }

    fn room(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.full.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// A folder on a local disk.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    inner: MmapDirectory,
    folder: PathBuf,
    trouble: Trouble,
    /// Where locks are shared and nothing is written.
    shared: Option<PathBuf>,
}

impl Disk {
    /// For the writer.
    pub(super) fn writing(folder: &Path, trouble: &Trouble) -> Result<Self, OpenDirectoryError> {
        let inner = MmapDirectory::open(folder)?;
        Ok(Self { inner, folder: folder.to_path_buf(), trouble: trouble.clone(), shared: None })
    }

    /// For a reader. Its locks are shared ones on files that are there, so that it can do with reading alone; they keep the
    /// writer from deleting files that are just being opened all the same, since the writer's is exclusive.
    pub(super) fn reading(folder: &Path) -> Result<Self, OpenDirectoryError> {
        let inner = MmapDirectory::open(folder)?;
        let folder = folder.to_path_buf();
        Ok(Self { inner, folder: folder.clone(), trouble: Trouble::default(), shared: Some(folder) })
    }
}

impl Disk {
    fn note<T>(&self, path: &Path, done: io::Result<T>) -> io::Result<T> {
        self.trouble.note(&self.folder.join(path), done)
    }
}

impl Directory for Disk {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.inner.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.inner.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.inner.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = self.inner.open_write(path).inspect_err(|error| {
            if let OpenWriteError::IoError { io_error, .. } = error {
                _ = self.note::<()>(path, Err(io::Error::new(io_error.kind(), Arc::clone(io_error))));
            }
        })?;
        let noted = Noted { file, path: self.folder.join(path), trouble: self.trouble.clone() };
        Ok(BufWriter::new(Box::new(noted)))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.inner.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.note(path, self.trouble.room().and_then(|()| self.inner.atomic_write(path, data)))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.note(Path::new(""), self.inner.sync_directory())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let Some(folder) = &self.shared else { return self.inner.acquire_lock(lock) };
        match File::open(folder.join(&lock.filepath)) {
            Ok(file) => match file.lock_shared() {
                Ok(()) => Ok(DirectoryLock::from(Box::new(file))),
                Err(error) if error.kind() == ErrorKind::Unsupported => Ok(DirectoryLock::from(Box::new(()))),
                Err(error) => Err(LockError::wrap_io_error(error)),
            },
            // No writer has deleted anything yet.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(DirectoryLock::from(Box::new(()))),
            Err(error) => Err(LockError::wrap_io_error(error)),
        }
    }

    fn watch(&self, watch_callback: WatchCallback) -> ::tantivy::Result<WatchHandle> {
        self.inner.watch(watch_callback)
    }
}

/// A file that is being written.
struct Noted {
    file: WritePtr,
    path: PathBuf,
    trouble: Trouble,
}

impl Write for Noted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.trouble.room().and_then(|()| self.file.write(bytes));
        self.trouble.note(&self.path, done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.file.flush();
        self.trouble.note(&self.path, done)
    }
}

impl TerminatingWrite for Noted {
    fn terminate_ref(&mut self, token: AntiCallToken) -> io::Result<()> {
        let done = self.file.terminate_ref(token);
        self.trouble.note(&self.path, done)
    }
}
