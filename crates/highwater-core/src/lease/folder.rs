//! The lock of a pipeline on one machine: an OS lock on a file in the state folder. The one place of this crate that does
//! local I/O, because a lock is worth something only while the file that carries it stays open here.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{HeldBy, Holder, Lease};

/// The lock's file below the pipeline's folder.
pub const LOCK_FILE: &str = "lock";

/// An OS lock on `<folder>/lock`. Ends when it is dropped or its process ends, however that ends: it is never stale.
/// The file stays and keeps the last holder's name; removing it while somebody waits would make two locks of one.
#[derive(Debug)]
pub struct FolderLock {
    // Holding it open is holding the lock.
    file: File,
    path: PathBuf,
}

impl FolderLock {
    /// Takes the lock of a pipeline's folder, without waiting; makes the folder if it is missing. The inner error is the
    /// lost race, the outer one a folder that cannot be locked.
    pub fn acquire(folder: &Path, holder: &Holder) -> io::Result<Result<Self, HeldBy>> {
        std::fs::create_dir_all(folder).map_err(|error| name(folder, error))?;
        let path = folder.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| name(&path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(HeldBy(read_holder(&mut file)))),
            Err(TryLockError::Error(error)) => return Err(name(&path, error)),
        }
        write_holder(&mut file, holder).map_err(|error| name(&path, error))?;
        Ok(Ok(Self { file, path }))
    }
}

impl Lease for FolderLock {
    /// False once somebody removed the file: a lock on its successor would not meet ours.
    fn holds(&self) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), std::fs::metadata(&self.path)) else { return false };
        same_file(&ours, &there)
    }
}

#[cfg(unix)]
fn same_file(ours: &Metadata, there: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

#[cfg(not(unix))]
fn same_file(_ours: &Metadata, _there: &Metadata) -> bool {
    true
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    let mut text = serde_json::to_vec(holder)?;
    text.push(b'\n');
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&text)
}

fn name(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32) -> Holder {
        Holder { host: "web-1".into(), pid, since: "2026-05-01T10:00:00Z".parse().unwrap() }
    }

    #[test]
    fn a_second_taker_is_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipeline = folder.path().join("state/ads");
        let lock = FolderLock::acquire(&pipeline, &holder(123)).unwrap().unwrap();
        assert!(lock.holds());

        let held = FolderLock::acquire(&pipeline, &holder(7)).unwrap().unwrap_err();
        assert_eq!(held.to_string(), "held by host web-1, process 123, since 2026-05-01T10:00:00Z");
        let again = FolderLock::acquire(&pipeline, &holder(7)).unwrap().unwrap_err();
        assert_eq!(again, held, "a refused taker leaves the file as it was");
    }

    #[test]
    fn a_dropped_lock_is_free_and_its_file_is_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let first = Holder { host: "a-host-with-a-long-name".into(), ..holder(4_000_000) };
        drop(FolderLock::acquire(folder.path(), &first).unwrap().unwrap());
        let _lock = FolderLock::acquire(folder.path(), &holder(7)).unwrap().unwrap();
        let held = FolderLock::acquire(folder.path(), &holder(8)).unwrap().unwrap_err();
        assert_eq!(held, HeldBy(Some(holder(7))));
    }

    #[test]
    fn a_damaged_file_still_locks() {
        let folder = tempfile::tempdir().unwrap();
        let _lock = FolderLock::acquire(folder.path(), &holder(1)).unwrap().unwrap();
        std::fs::write(folder.path().join(LOCK_FILE), "{").unwrap();
        let held = FolderLock::acquire(folder.path(), &holder(2)).unwrap().unwrap_err();
        assert_eq!(held, HeldBy(None));
        assert_eq!(held.to_string(), "held by another process");
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_whose_file_was_removed_holds_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::acquire(folder.path(), &holder(1)).unwrap().unwrap();
        std::fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
        assert!(!lock.holds());
        let other = FolderLock::acquire(folder.path(), &holder(2)).unwrap().unwrap();
        assert!(other.holds() && !lock.holds());
    }

    #[test]
    fn a_folder_that_cannot_be_locked_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = FolderLock::acquire(&file, &holder(1)).unwrap_err();
        assert!(error.to_string().starts_with(&file.display().to_string()), "{error}");
    }
}
