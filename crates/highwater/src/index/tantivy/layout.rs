//! Where an embedded index lies on the disk: one folder a generation, and a pointer that names the current one. Knows
//! nothing of what is in the indexes.
//!
//! ```text
//! <path>/writer.lock                      held by the one writer
//! <path>/current                          the name of the generation that readers see; replaced by rename
//! <path>/generations/<name>/shape.json    what the generation is built by; written once
//! <path>/generations/<name>/index/        the index's own files
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::index::{Field, IndexError, Shape};

/// The folder of an embedded index.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Takes the folder, whether or not it is there.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The folder itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Takes the writer's lock, creating the folder where needed. The lock is the operating system's: it ends with the
    /// process, however that ends.
    pub(super) fn lock(&self) -> Result<File, IndexError> {
        fs::create_dir_all(self.root.join("generations")).map_err(|error| unavailable(&self.root, &error))?;
        let path = self.root.join("writer.lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| unavailable(&path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(IndexError::Held(path.display().to_string())),
            Err(TryLockError::Error(error)) => Err(unavailable(&path, &error)),
        }
    }

    /// The generation that readers see; `None` before there is one.
    pub(super) fn current(&self) -> Result<Option<String>, IndexError> {
        let path = self.root.join("current");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unavailable(&path, &error)),
        };
        let name = text.trim();
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(self.names_a_stranger(name));
        }
        Ok(Some(name.to_owned()))
    }

    /// The file `current` names no generation of ours.
    pub(super) fn names_a_stranger(&self, name: &str) -> IndexError {
        IndexError::Damaged(format!("{} names no generation: `{name}`", self.root.join("current").display()))
    }

    /// True if a generation's own index is there: its commit file is written last when it is made.
    pub(super) fn is_made(&self, name: &str) -> bool {
        self.index(name).join("meta.json").exists()
    }

    /// The names of what lies beside each other, whether or not they are whole.
    pub(super) fn all(&self) -> Result<Vec<String>, IndexError> {
        let folder = self.root.join("generations");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unavailable(&folder, &error)),
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let names: Result<Vec<String>, io::Error> = names.collect();
        names.map_err(|error| unavailable(&folder, &error))
    }

    /// Takes a generation away that readers do not see.
    pub(super) fn delete(&self, name: &str) -> Result<(), IndexError> {
        if self.current()?.as_deref() == Some(name) {
            return Err(IndexError::Damaged(format!(
                "generation {name} is the one that readers see; it is not deleted"
            )));
        }
        let folder = self.generation(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unavailable(&folder, &error)),
            _ => sync_folder(&self.root.join("generations")),
        }
    }

    /// Points readers at a generation, in one atomic step.
    pub(super) fn set_current(&self, name: &str) -> Result<(), IndexError> {
        replace(&self.root, "current", format!("{name}\n").as_bytes())
    }

    /// The folder of a generation.
    pub(super) fn generation(&self, name: &str) -> PathBuf {
        self.root.join("generations").join(name)
    }

    /// The folder of a generation's own index files.
    pub(super) fn index(&self, name: &str) -> PathBuf {
        self.generation(name).join("index")
    }

    /// Makes a generation's folders anew and writes its shape down. What stood there before is taken away: the caller
    /// knows that it holds no commit.
    pub(super) fn create(&self, name: &str, shape: &Shape) -> Result<(), IndexError> {
        let folder = self.generation(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| unavailable(&folder, &error))?;
        }
        fs::create_dir_all(self.index(name)).map_err(|error| unavailable(&folder, &error))?;
        let text = serde_json::to_vec_pretty(shape).map_err(|error| IndexError::Shape(error.to_string()))?;
        replace(&folder, "shape.json", &text)?;
        sync_folder(&self.root.join("generations"))
    }

    /// The shape that a generation was built by.
    pub(super) fn shape(&self, name: &str) -> Result<Shape, IndexError> {
        let path = self.generation(name).join("shape.json");
        let text = fs::read(&path).map_err(|error| unavailable(&path, &error))?;
        serde_json::from_slice(&text)
            .map_err(|error| IndexError::Damaged(format!("{} is not a shape: {error}", path.display())))
    }
}

/// What differs between the stored and the wanted shape, in words; `None` if nothing does.
pub(super) fn difference(stored: &Shape, wanted: &Shape) -> Option<String> {
    let mut changes = Vec::new();
    if stored.pipeline != wanted.pipeline {
        changes.push(format!("it belongs to pipeline `{}`, not `{}`", stored.pipeline, wanted.pipeline));
    }
    if stored.id != wanted.id {
        changes.push(format!("the id was `{}` and is `{}`", stored.id, wanted.id));
    }
    let named = |shape: &Shape, name: &str| shape.fields.iter().find(|field| field.name == name).cloned();
    for field in &wanted.fields {
        match named(stored, &field.name) {
            None => changes.push(format!("`{}` was added ({})", field.name, describe(field))),
            Some(before) if before != *field => {
                changes.push(format!("`{}` was {} and is {}", field.name, describe(&before), describe(field)));
            }
            Some(_) => {}
        }
    }
    for field in &stored.fields {
        if named(wanted, &field.name).is_none() {
            changes.push(format!("`{}` was removed ({})", field.name, describe(field)));
        }
    }
    if changes.is_empty() { None } else { Some(changes.join("; ")) }
}

fn describe(field: &Field) -> String {
    let kind = format!("{:?}", field.kind).to_lowercase();
    let kind = if field.many { format!("a list of {kind}") } else { kind };
    match field.hint {
        Some(hint) => format!("{kind} as {}", format!("{hint:?}").to_lowercase()),
        None => kind,
    }
}

/// Replaces a file so that a reader, or a crash, sees the old content or the new, never a part.
fn replace(folder: &Path, name: &str, content: &[u8]) -> Result<(), IndexError> {
    let path = folder.join(name);
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    };
    write().map_err(|error| unavailable(&path, &error))?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> Result<(), IndexError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|error| unavailable(folder, &error))
}

fn unavailable(path: &Path, error: &io::Error) -> IndexError {
    IndexError::Unavailable(format!("{}: {error}", path.display()))
}
