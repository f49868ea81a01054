//! A local folder: walked and read with plain file calls on blocking threads. Knows nothing of what is in the files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;

use highwater_core::file::is_hidden;
use highwater_core::ports::{Clock, Fault};
use highwater_core::{FileVersion, SeenFile, Timestamp};

use super::http::Counters;
use super::identity::{Decision, Identity, Marks, Stat, digest};
use super::{Content, FetchError, MEMORY_BYTES, Skipped, StoreError, no_spool};
use crate::task;

/// How often a file that changes while it is hashed is hashed again before the reader is left to find out.
const HASH_TRIES: u32 = 2;
/// Bytes read at a time.
const CHUNK: usize = 128 * 1024;

/// One folder that a source's files are in.
pub(super) struct Local {
    root: PathBuf,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    marks: Mutex<Marks>,
    skipped: Skipped,
    memory_bytes: u64,
}

impl Local {
    pub(super) fn new(root: PathBuf, clock: Arc<dyn Clock>, counters: Arc<Counters>, skipped: Skipped) -> Self {
        Self { root, clock, counters, marks: Mutex::default(), skipped, memory_bytes: MEMORY_BYTES }
    }

    /// Every file below `prefix`; zero-byte files too.
    pub(super) async fn files(self: &Arc<Self>, prefix: &str) -> Result<Vec<SeenFile>, Fault> {
        let (folder, prefix) = (Arc::clone(self), prefix.to_owned());
        task::blocking(move || folder.list(&prefix)).await?
    }

    /// The folders directly below `prefix`.
    pub(super) async fn folders(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>, Fault> {
        let (folder, prefix) = (Arc::clone(self), prefix.to_owned());
        task::blocking(move || folder.list_folders(&prefix)).await?
    }

    /// The bytes of exactly this version.
    pub(super) async fn fetch(self: &Arc<Self>, version: &FileVersion) -> Result<Content, FetchError> {
        let (folder, version) = (Arc::clone(self), version.clone());
        let done = task::blocking(move || folder.read(&version)).await;
        done.map_err(|fault| FetchError::Unavailable(fault.to_string()))?
    }

    /// Whether the folder is there and can be listed.
    pub(super) async fn reach(self: &Arc<Self>) -> Result<(), StoreError> {
        let folder = Arc::clone(self);
        let done = task::blocking(move || folder.check_root()).await;
        done.map_err(|fault| StoreError::Unavailable(fault.to_string()))?
            .map_err(|fault| StoreError::Unavailable(fault.to_string()))
    }

    /// Takes over what pinned etags say, before the first listing of a process.
    pub(super) fn remember<'a>(&self, versions: impl IntoIterator<Item = &'a FileVersion>) {
        self.marks().remember(versions);
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A root that is missing or cannot be read is a fault: a disk that is not mounted holds no fewer files than before.
    fn check_root(&self) -> Result<(), Fault> {
        fs::read_dir(&self.root).map(drop).map_err(|error| {
            let root = self.root.display();
            match error.kind() {
                ErrorKind::NotFound => Fault::Unavailable(format!("folder {root} does not exist: create or mount it")),
                ErrorKind::NotADirectory => Fault::Unavailable(format!("{root} is not a folder")),
                ErrorKind::PermissionDenied => Fault::Unavailable(format!("folder {root} may not be read")),
                _ => Fault::Unavailable(format!("folder {root} cannot be read: {error}")),
            }
        })
    }

    /// The folder of `prefix`, and the ids of the folders from the root to it; `None` if there is no such folder.
    fn descend(&self, prefix: &str) -> Result<Option<(PathBuf, Vec<Id>)>, Fault> {
        self.check_root()?;
        let mut path = self.root.clone();
        let mut chain = vec![id(&stat_folder(&path)?.ok_or_else(|| vanished(&path))?)];
        for name in prefix.split('/').filter(|name| !name.is_empty()) {
            path.push(name);
            match stat_folder(&path)? {
                Some(meta) => chain.push(id(&meta)),
                None => {
                    self.check_root()?;
                    return Ok(None);
                }
            }
        }
        Ok(Some((path, chain)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<SeenFile>, Fault> {
        self.counters.list();
        self.skipped.clear(prefix);
        let mut found = Vec::new();
        if !is_hidden(prefix)
            && let Some((path, chain)) = self.descend(prefix)?
        {
            let mut walk = Walk { folder: self, chain, open: Vec::new(), found };
            walk.folder(path, prefix.to_owned())?;
            found = walk.found;
        }
        let paths: BTreeSet<&str> = found.iter().map(|file| &*file.version.path).collect();
        self.marks().keep(prefix, &|path| paths.contains(path));
        Ok(found)
    }

    fn list_folders(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        self.counters.list();
        let mut names = Vec::new();
        if is_hidden(prefix) {
            return Ok(names);
        }
        let Some((path, _)) = self.descend(prefix)? else { return Ok(names) };
        for name in names_in(&path)? {
            let Some(text) = self.readable(prefix, &name) else { continue };
            if !is_hidden(text) && stat_folder(&path.join(text))?.is_some() {
                names.push(text.to_owned());
            }
        }
        Ok(names)
    }

    /// The name as text; one that is not UTF-8 is reported, and has no path that a listing could tell.
    fn readable<'a>(&self, prefix: &str, name: &'a OsString) -> Option<&'a str> {
        let text = name.to_str();
        if text.is_none() {
            self.skipped.add(format!("{prefix}{}", name.to_string_lossy()), "its name is not UTF-8: rename it");
        }
        text
    }

    /// One file as it is now; `None` if it has just gone.
    fn see(&self, path: &Path, key: &str, meta: &Metadata, now: Timestamp) -> Result<Option<SeenFile>, Fault> {
        let mut stat = Stat::of(meta);
        let decision = self.marks().decide(key, &stat, now);
        let etag = match decision {
            Decision::Etag(etag) => etag,
            Decision::Read => match self.hash(path) {
                Ok((seen, digest)) => {
                    stat = seen;
                    self.marks().was_read(key, stat, digest, now)
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) if exhausted(&error) => return Err(cannot_read(path, &error)),
                // It is there; whoever reads it meets the same error and can say which file it is.
                Err(_) => Marks::unread(&stat),
            },
        };
        let modified = i32::try_from(meta.mtime_nsec()).ok().and_then(|n| Timestamp::new(meta.mtime(), n).ok());
        Ok(Some(SeenFile { version: FileVersion { path: key.into(), size: stat.size, etag }, modified }))
    }

    /// Hashes a file; what it answers belongs together unless the file changes faster than it can be read.
    fn hash(&self, path: &Path) -> io::Result<(Stat, Arc<str>)> {
        let mut tries = 1;
        loop {
            self.counters.get();
            let file = File::open(path)?;
            let before = Stat::of(&file.metadata()?);
            let mut hasher = blake3::Hasher::new();
            copy(&file, before.size, &mut |bytes| {
                hasher.update(bytes);
                Ok(())
            })?;
            let after = Stat::of(&file.metadata()?);
            if before == after || tries == HASH_TRIES {
                return Ok((after, digest(&hasher.finalize())));
            }
            tries += 1;
        }
    }

    fn read(&self, version: &FileVersion) -> Result<Content, FetchError> {
        let moved = |why: &str| FetchError::Moved(format!("{} {why} since it was listed", version.path));
        let identity = Identity::parse(version).ok_or_else(|| moved("has another kind of etag"))?;
        self.counters.get();
        let path = self.root.join(&*version.path);
        let file = File::open(&path).map_err(|error| self.fetch_error(version, &error))?;
        let failed = |error: io::Error| self.fetch_error(version, &error);
        let before = file.metadata().map_err(failed)?;
        if !before.is_file() || Stat::of(&before) != identity.stat {
            return Err(moved("has changed"));
        }
        let mut hasher = blake3::Hasher::new();
        let hashed = identity.digest.is_some();
        let mut update = |bytes: &[u8]| {
            if hashed {
                hasher.update(bytes);
            }
        };
        let (content, length) = if version.size <= self.memory_bytes {
            let mut bytes = Vec::with_capacity(usize::try_from(version.size).unwrap_or(0));
            let length = copy(&file, version.size, &mut |piece| {
                update(piece);
                bytes.extend_from_slice(piece);
                Ok(())
            });
            (Content::Bytes(bytes.into()), length.map_err(failed)?)
        } else {
            let mut spool = tempfile::tempfile().map_err(|error| no_spool(&error))?;
            let mut spool_fault = None;
            let length = copy(&file, version.size, &mut |piece| {
                update(piece);
                spool.write_all(piece).inspect_err(|error| spool_fault = Some(no_spool(error)))
            });
            if let Some(fault) = spool_fault {
                return Err(fault);
            }
            let length = length.map_err(failed)?;
            spool.seek(SeekFrom::Start(0)).map_err(|error| no_spool(&error))?;
            (Content::Spooled { file: spool, len: version.size }, length)
        };
        if length != version.size || Stat::of(&file.metadata().map_err(failed)?) != identity.stat {
            return Err(moved("has changed"));
        }
        if let Some(listed) = &identity.digest
            && *listed != digest(&hasher.finalize())
        {
            self.marks().forget(&version.path);
            return Err(moved("has other bytes"));
        }
        Ok(content)
    }

    fn fetch_error(&self, version: &FileVersion, error: &io::Error) -> FetchError {
        let path = &version.path;
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle => {
                match self.check_root() {
                    Ok(()) => FetchError::Moved(format!("{path} is gone since it was listed")),
                    Err(fault) => FetchError::Unavailable(fault.to_string()),
                }
            }
            ErrorKind::PermissionDenied => FetchError::Unreadable(format!("{path} may not be read")),
            _ if exhausted(error) => FetchError::Unavailable(format!("{path} cannot be opened: {error}")),
            _ => FetchError::Unreadable(format!("{path} cannot be read: {error}")),
        }
    }
}

/// Device and inode of a folder.
type Id = (u64, u64);

fn id(meta: &Metadata) -> Id {
    (meta.dev(), meta.ino())
}

/// One walk. Folders that wait to be read to their end stand in `open`, not on the thread's stack: a lake may be any
/// number of folders deep.
struct Walk<'a> {
    folder: &'a Local,
    /// The folders from the root to the one being read, so that a link back to any is seen.
    chain: Vec<Id>,
    open: Vec<Open>,
    found: Vec<SeenFile>,
}

/// A folder that is being read.
struct Open {
    path: PathBuf,
    prefix: String,
    left: vec::IntoIter<OsString>,
}

impl Walk<'_> {
    /// Everything below a folder, which is the last of the chain.
    fn folder(&mut self, path: PathBuf, prefix: String) -> Result<(), Fault> {
        self.enter(path, prefix)?;
        while let Some(open) = self.open.last_mut() {
            let Some(name) = open.left.next() else {
                self.open.pop();
                self.chain.pop();
                continue;
            };
            let Some(text) = self.folder.readable(&open.prefix, &name) else { continue };
            if is_hidden(text) {
                continue;
            }
            let (path, key) = (open.path.join(text), format!("{}{text}", open.prefix));
            if let Some(id) = self.entry(&path, &key)? {
                self.chain.push(id);
                self.enter(path, key + "/")?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, path: PathBuf, prefix: String) -> Result<(), Fault> {
        let left = names_in(&path)?.into_iter();
        self.open.push(Open { path, prefix, left });
        Ok(())
    }

    /// Takes in a file, or answers which folder it is that is to be entered.
    fn entry(&mut self, path: &Path, key: &str) -> Result<Option<Id>, Fault> {
        let skipped = &self.folder.skipped;
        // The clock comes before the look at the file, so that an age is never taken for longer than it is.
        let now = self.folder.clock.now();
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(cannot_read(path, &error)),
            Err(error) if error.kind() == ErrorKind::InvalidFilename => {
                skipped.add(key, "its path is longer than the system can open: nest fewer folders");
                return Ok(None);
            }
            Err(error) => {
                match fs::symlink_metadata(path) {
                    Ok(link) if link.is_symlink() => skipped.add(key, "it is a link that leads nowhere"),
                    Ok(_) => return Err(cannot_read(path, &error)),
                    Err(gone) if gone.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(cannot_read(path, &error)),
                }
                return Ok(None);
            }
        };
        if meta.is_file() {
            self.found.extend(self.folder.see(path, key, &meta, now)?);
        } else if !meta.is_dir() {
            skipped.add(key, "it is neither a file nor a folder");
        } else if self.chain.contains(&id(&meta)) {
            skipped.add(key, "it is a link to a folder that it is in");
        } else {
            return Ok(Some(id(&meta)));
        }
        Ok(None)
    }
}

/// Names in a folder, sorted. A folder that cannot be read to its end fails the listing: half a folder is not a folder.
fn names_in(path: &Path) -> Result<Vec<OsString>, Fault> {
    let entries = fs::read_dir(path).map_err(|error| cannot_read(path, &error))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|error| cannot_read(path, &error))?.file_name());
    }
    names.sort_unstable();
    Ok(names)
}

/// Metadata of a folder, links followed; `None` if there is none by that name.
fn stat_folder(path: &Path) -> Result<Option<Metadata>, Fault> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(meta).filter(Metadata::is_dir)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) => Ok(None),
        Err(error) => Err(cannot_read(path, &error)),
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NotFound => vanished(path),
        ErrorKind::PermissionDenied => Fault::Unavailable(format!("{} may not be read", path.display())),
        _ => Fault::Unavailable(format!("{} cannot be read: {error}", path.display())),
    }
}

fn vanished(path: &Path) -> Fault {
    Fault::Unavailable(format!("{} vanished while it was listed", path.display()))
}

/// Out of file handles or memory: says nothing about the file.
fn exhausted(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    error.kind() == ErrorKind::OutOfMemory || matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Hands a file's bytes to `take`, at most one more than `size`; answers how many there were.
fn copy(file: &File, size: u64, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut file = file.take(size.saturating_add(1));
    let mut chunk = vec![0; CHUNK];
    let mut length = 0;
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(length),
            Ok(n) => {
                take(&chunk[..n])?;
                length += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
