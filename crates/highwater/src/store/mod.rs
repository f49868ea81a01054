//! Where files are: a local folder or S3, listed and fetched with every request counted. Knows nothing of what is in them.

mod credentials;
mod http;
mod identity;
mod local;
mod page;
mod s3;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use highwater_core::file::{BASE, below_base};
use highwater_core::ports::{Clock, Fault, Store};
use highwater_core::receipt::Requests;
use highwater_core::{FileVersion, SeenFile, SourceName};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use thiserror::Error;

use crate::config::{Config, Location, StoreConfig};
use crate::task;
use http::Counters;
use local::Local;
use s3::{Bucket, Prefix, Tuning};

/// Content above it is spooled to an unnamed temporary file.
const MEMORY_BYTES: u64 = 64 << 20;
/// How many skipped names are kept for [`Stores::skipped`].
const SKIPPED_NAMES: usize = 1_000;

/// The whole content of one file version: in memory, or spooled to an unnamed temporary file when large.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Bytes(Bytes),
    /// On the local disk, at offset 0.
    Spooled {
        /// Open for reading.
        file: File,
        /// Its length.
        len: u64,
    },
}

impl Content {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Spooled { len, .. } => *len,
        }
    }
}

/// Why a file version could not be fetched.
#[derive(Clone, Debug, Error)]
pub enum FetchError {
    /// The file is not (any more) the version that was listed: gone, or replaced. List again.
    #[error("{0}")]
    Moved(String),
    /// The store is out of reach, after retries.
    #[error("{0}")]
    Unavailable(String),
    /// This file alone cannot be read (denied, ghost): quarantine it.
    #[error("{0}")]
    Unreadable(String),
}

/// Why a store could not be opened or reached.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// Out of reach, denied, or not there: try again later.
    #[error("{0}")]
    Unavailable(String),
    /// Cannot work as configured: fix it.
    #[error("{0}")]
    Invalid(String),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(why) => Self::Unavailable(why),
            StoreError::Invalid(why) => Self::Invalid(why),
        }
    }
}

/// The stores of all sources of a pipeline.
///
/// A listing holds zero-byte files (size 0), which are no data: whoever plans drops and counts them. It leaves out hidden
/// names (a component below the location starts with `_` or `.`) and directory markers without a word, and names that
/// cannot be told or followed with a warning and an entry in [`Store::skipped`].
///
/// Files of a source's base snapshots stand behind [`BASE`] in prefixes and paths.
pub struct Stores {
    places: BTreeMap<(SourceName, Tree), (Location, Place)>,
    counters: Arc<Counters>,
    skipped: Arc<Mutex<BTreeMap<(SourceName, String), String>>>,
}

/// Which of a source's two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    Own,
    Base,
}

impl Tree {
    /// The place that a path or prefix is of, and the path within it.
    fn of(path: &str) -> (Self, &str) {
        below_base(path).map_or((Self::Own, path), |below| (Self::Base, below))
    }

    /// What stands before the paths of the place.
    fn root(self) -> &'static str {
        match self {
            Self::Own => "",
            Self::Base => BASE,
        }
    }

    /// The same file under its path in the other sense.
    fn rooted(self, version: FileVersion) -> FileVersion {
        match self {
            Self::Own => version,
            Self::Base => FileVersion { path: format!("{BASE}{}", version.path).into(), ..version },
        }
    }
}

enum Place {
    Local(Arc<Local>),
    S3(Prefix),
}

impl Stores {
    /// Opens the stores of all sources; asks nothing of them yet. `clock` must be the machine's own, not a batch's: it is
    /// compared with the change times of local files.
    pub fn open(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let own = config.sources.iter().map(|(name, source)| (name.clone(), Tree::Own, source.location.clone()));
        let based = config.sources.iter().filter_map(|(name, source)| Some((name, source.base()?)));
        let bases = based.map(|(name, base)| (name.clone(), Tree::Base, base.location.clone()));
        Self::open_all(own.chain(bases), &config.stores, clock)
    }

    /// As [`Stores::open`], from a plain list and `[store."s3://bucket"]` by that URL.
    pub fn new(
        sources: impl IntoIterator<Item = (SourceName, Location)>,
        configs: &BTreeMap<String, StoreConfig>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        Self::open_all(sources.into_iter().map(|(source, location)| (source, Tree::Own, location)), configs, clock)
    }

    fn open_all(
        trees: impl IntoIterator<Item = (SourceName, Tree, Location)>,
        configs: &BTreeMap<String, StoreConfig>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let counters = Arc::new(Counters::default());
        let names = Arc::default();
        let mut buckets: BTreeMap<String, Arc<Bucket>> = BTreeMap::new();
        let mut places = BTreeMap::new();
        for (source, tree, location) in trees {
            let skipped = Skipped { source: source.clone(), root: tree.root(), names: Arc::clone(&names) };
            let place = match &location {
                Location::Folder(root) => {
                    Place::Local(Arc::new(Local::new(root.clone(), Arc::clone(&clock), Arc::clone(&counters), skipped)))
                }
                Location::S3 { bucket, prefix } => {
                    let shared = match buckets.get(bucket) {
                        Some(shared) => Arc::clone(shared),
                        None => {
                            let opened = open_bucket(bucket, configs, &clock, &counters)?;
                            buckets.insert(bucket.clone(), Arc::clone(&opened));
                            opened
                        }
                    };
                    Place::S3(Prefix::new(shared, prefix, skipped))
                }
            };
            places.insert((source, tree), (location, place));
        }
        Ok(Self { places, counters, skipped: names })
    }

    /// The bytes of exactly this version of a source's file, or an error that says what to do; never a part of them, nor
    /// another version's.
    pub async fn fetch(&self, source: &SourceName, version: &FileVersion) -> Result<Content, FetchError> {
        let (tree, below) = Tree::of(&version.path);
        let version = FileVersion { path: below.into(), ..version.clone() };
        match self.place(source, tree).map_err(|fault| FetchError::Unavailable(fault.to_string()))? {
            Place::Local(folder) => folder.fetch(&version).await,
            Place::S3(prefix) => prefix.fetch(&version).await,
        }
    }

    /// Takes over the versions that the log pins for a source. Call it before the first listing of a process: a local
    /// file that was new when it was pinned keeps its etag only if its store knows that etag. Nothing to do for S3.
    pub fn remember<'a>(&self, source: &SourceName, versions: impl IntoIterator<Item = &'a FileVersion>) {
        let (bases, own): (Vec<_>, Vec<_>) =
            versions.into_iter().partition(|version| below_base(&version.path).is_some());
        if let Some((_, Place::Local(folder))) = self.places.get(&(source.clone(), Tree::Own)) {
            folder.remember(own);
        }
        if let Some((_, Place::Local(folder))) = self.places.get(&(source.clone(), Tree::Base)) {
            let below =
                |version: &FileVersion| FileVersion { path: Tree::of(&version.path).1.into(), ..version.clone() };
            folder.remember(&bases.into_iter().map(below).collect::<Vec<_>>());
        }
    }

    /// Asks each source's location whether it can be listed, at one request each; the error says what is wrong and where.
    pub async fn reach(&self) -> Vec<(SourceName, Location, Result<(), StoreError>)> {
        let mut answers = Vec::new();
        for ((source, _), (location, place)) in &self.places {
            let answer = match place {
                Place::Local(folder) => folder.reach().await,
                Place::S3(prefix) => prefix.reach().await,
            };
            answers.push((source.clone(), location.clone(), answer));
        }
        answers
    }

    fn place(&self, source: &SourceName, tree: Tree) -> Result<&Place, Fault> {
        let found = self.places.get(&(source.clone(), tree)).map(|(_, place)| place);
        found.ok_or_else(|| Fault::Internal(format!("source `{source}` has no store")))
    }
}

#[async_trait]
impl Store for Stores {
    async fn files(&self, source: &SourceName, prefix: &str) -> Result<Vec<SeenFile>, Fault> {
        let (tree, prefix) = Tree::of(prefix);
        check_prefix(prefix);
        let files = match self.place(source, tree)? {
            Place::Local(folder) => folder.files(prefix).await,
            Place::S3(place) => place.files(prefix).await,
        };
        if tree == Tree::Own {
            return files;
        }
        Ok(files?.into_iter().map(|file| SeenFile { version: tree.rooted(file.version), ..file }).collect())
    }

    async fn folders(&self, source: &SourceName, prefix: &str) -> Result<Vec<String>, Fault> {
        let (tree, prefix) = Tree::of(prefix);
        check_prefix(prefix);
        match self.place(source, tree)? {
            Place::Local(folder) => folder.folders(prefix).await,
            Place::S3(place) => place.folders(prefix).await,
        }
    }

    fn skipped(&self, source: &SourceName) -> Vec<String> {
        let names = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = names.iter().filter(|((of, _), _)| of == source);
        ours.map(|((_, name), reason)| format!("{name}: {reason}")).collect()
    }

    /// Retries included.
    fn requests(&self) -> Requests {
        self.counters.read()
    }
}

/// Opens the place of the batch log, not counted in [`Stores::requests`]: the store, and the path of `location` in it.
/// A folder is made if it is missing.
pub fn open_state(
    location: &Location,
    configs: &BTreeMap<String, StoreConfig>,
) -> Result<(Arc<dyn ObjectStore>, Path), StoreError> {
    match location {
        Location::Folder(folder) => {
            let shown = folder.display();
            std::fs::create_dir_all(folder)
                .map_err(|error| StoreError::Unavailable(format!("state folder {shown} cannot be made: {error}")))?;
            let store = LocalFileSystem::new_with_prefix(folder)
                .map_err(|error| StoreError::Unavailable(format!("state folder {shown} cannot be opened: {error}")))?;
            Ok((Arc::new(store), Path::ROOT))
        }
        Location::S3 { bucket, prefix } => {
            let path = Path::parse(prefix)
                .map_err(|error| StoreError::Invalid(format!("{location} cannot hold the state: {error}")))?;
            let builder = s3::builder(bucket, &config_of(bucket, configs))?;
            let store = s3::build(builder, bucket, Arc::default(), s3::log_retry())?;
            Ok((Arc::new(store), path))
        }
    }
}

fn open_bucket(
    bucket: &str,
    configs: &BTreeMap<String, StoreConfig>,
    clock: &Arc<dyn Clock>,
    counters: &Arc<Counters>,
) -> Result<Arc<Bucket>, StoreError> {
    let builder = s3::builder(bucket, &config_of(bucket, configs))?;
    let bucket = Bucket::new(bucket, builder, Arc::clone(clock), Arc::clone(counters), Tuning::default())?;
    Ok(Arc::new(bucket))
}

fn config_of(bucket: &str, configs: &BTreeMap<String, StoreConfig>) -> StoreConfig {
    configs.get(&format!("s3://{bucket}")).cloned().unwrap_or_default()
}

fn check_prefix(prefix: &str) {
    assert!(prefix.is_empty() || (prefix.ends_with('/') && !prefix.starts_with('/')), "bad prefix `{prefix}`");
}

/// Where one source's listings note what they leave out.
#[derive(Clone)]
struct Skipped {
    source: SourceName,
    /// Stands before the names.
    root: &'static str,
    names: Arc<Mutex<BTreeMap<(SourceName, String), String>>>,
}

impl Skipped {
    /// A listing of `prefix` begins: what it meets replaces what the one before met.
    fn clear(&self, prefix: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = |name: &str| Tree::of(name).0.root() == self.root && Tree::of(name).1.starts_with(prefix);
        names.retain(|(source, name), _| *source != self.source || !ours(name));
    }

    fn add(&self, name: impl Into<String>, reason: &str) {
        let name = format!("{}{}", self.root, name.into());
        tracing::warn!(source = %self.source, name, "left out of the listing: {reason}");
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < SKIPPED_NAMES {
            names.insert((self.source.clone(), name), reason.to_owned());
        }
    }
}

/// An unnamed temporary file that grows.
struct Spool {
    file: File,
    len: u64,
}

impl Spool {
    async fn open() -> Result<Self, FetchError> {
        on_disk(move || Ok(Self { file: tempfile::tempfile()?, len: 0 })).await
    }

    async fn append(mut self, bytes: Bytes) -> Result<Self, FetchError> {
        on_disk(move || {
            self.file.write_all(&bytes)?;
            self.len += bytes.len() as u64;
            Ok(self)
        })
        .await
    }

    async fn finish(mut self) -> Result<Content, FetchError> {
        on_disk(move || {
            self.file.seek(SeekFrom::Start(0))?;
            Ok(Content::Spooled { file: self.file, len: self.len })
        })
        .await
    }
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, FetchError> {
    let done = task::blocking(work).await.map_err(|fault| FetchError::Unavailable(fault.to_string()))?;
    done.map_err(|error| no_spool(&error))
}

/// Says that there is no room for large content, and the way out.
fn no_spool(error: &io::Error) -> FetchError {
    let folder = std::env::temp_dir();
    FetchError::Unavailable(format!(
        "no room for a temporary file in {}: {error} (TMPDIR names another)",
        folder.display()
    ))
}
