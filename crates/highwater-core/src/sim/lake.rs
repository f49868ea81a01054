//! The sources' files as they truly are and were, and what listings and reads make of them. Knows no pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::history::{FILE_BYTES, Place, Quality, Setup};
use super::replay::Bytes;
use crate::file::{FileVersion, SourceName};
use crate::policy::SourcePolicy;

/// What a version's bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub ids: u8,
    pub readable: bool,
}

/// A change to the lake, as bytes.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub source: SourceName,
    pub path: Arc<str>,
    /// `None`: the file was removed.
    pub bytes: Option<Bytes>,
}

/// When which version stood under a path.
type Past = Vec<(Timestamp, Option<FileVersion>)>;

/// All sources' files.
#[derive(Debug)]
pub(super) struct Lake {
    setup: Setup,
    policies: BTreeMap<SourceName, SourcePolicy>,
    sources: BTreeMap<SourceName, BTreeMap<Arc<str>, Past>>,
    contents: BTreeMap<FileVersion, Content>,
    writes: u64,
    /// Changes since they were last asked for.
    pub written: Vec<Written>,
}

impl Lake {
    pub fn new(setup: &Setup) -> Self {
        let policies: BTreeMap<_, _> =
            setup.sources().into_iter().map(|policy| (policy.name.clone(), policy)).collect();
        let sources = policies.keys().map(|name| (name.clone(), BTreeMap::new())).collect();
        Self { setup: setup.clone(), policies, sources, contents: BTreeMap::new(), writes: 0, written: Vec::new() }
    }

    pub fn policies(&self) -> &BTreeMap<SourceName, SourcePolicy> {
        &self.policies
    }

    /// The path of a place, seen from `now`.
    pub fn path(&self, place: Place, now: Timestamp) -> (SourceName, Arc<str>) {
        let (folder, source) = self.folder(place, now);
        (source, format!("{folder}f{}", place.name).into())
    }

    fn folder(&self, place: Place, now: Timestamp) -> (String, SourceName) {
        let number = usize::from(place.source) % self.setup.kinds.len();
        let kind = self.setup.kinds[number];
        let step = kind.step().as_secs();
        let open = now.as_second().div_euclid(step);
        let start = (open + 1 - i64::from(place.back)) * step;
        let start = Timestamp::from_second(start).unwrap_or_default();
        (kind.folder(start, place.name), self.setup.name(number))
    }

    /// A file lands. Equal content under an equal path is no new version where it is what stands there.
    pub fn land(&mut self, now: Timestamp, source: &SourceName, path: &Arc<str>, ids: u8, quality: Quality) {
        self.writes += 1;
        let content = match quality {
            Quality::Good => Content { ids, readable: true },
            Quality::Broken => Content { ids: 0, readable: false },
            Quality::Empty | Quality::Rowless => Content { ids: 0, readable: true },
        };
        let size = if quality == Quality::Empty { 0 } else { FILE_BYTES };
        let version = FileVersion { path: path.clone(), size, etag: format!("e{}", self.writes).into() };
        self.contents.insert(version.clone(), content);
        self.put(now, source, path, Some(version));
    }

    /// What stood there once stands there again.
    pub fn restore(&mut self, now: Timestamp, source: &SourceName, version: &FileVersion) {
        self.put(now, source, &version.path, Some(version.clone()));
    }

    pub fn remove(&mut self, now: Timestamp, source: &SourceName, path: &Arc<str>) {
        if self.version_at(source, path, now).is_some() {
            self.put(now, source, path, None);
        }
    }

    /// A partition's files become one of another name, with all their rows.
    pub fn compact(&mut self, now: Timestamp, place: Place) {
        let (folder, source) = self.folder(place, now);
        let there: Vec<FileVersion> =
            self.files_at(&source, now).into_iter().filter(|version| version.path.starts_with(&folder)).collect();
        let ids = there.iter().filter_map(|version| self.contents.get(version)).fold(0, |ids, file| ids | file.ids);
        if there.len() < 2 || ids == 0 {
            return;
        }
        for version in &there {
            self.put(now, &source, &version.path, None);
        }
        let path = format!("{folder}c{}", place.name).into();
        self.land(now, &source, &path, ids, Quality::Good);
    }

    fn put(&mut self, now: Timestamp, source: &SourceName, path: &Arc<str>, version: Option<FileVersion>) {
        let past = self.sources.entry(source.clone()).or_default().entry(path.clone()).or_default();
        past.push((now, version.clone()));
        let bytes = version.map(|version| self.bytes(source, &version));
        self.written.push(Written { source: source.clone(), path: path.clone(), bytes });
    }

    fn bytes(&self, source: &SourceName, version: &FileVersion) -> Bytes {
        let value = value(source, version);
        match self.contents.get(version) {
            Some(content) if content.ids != 0 => Bytes::Rows { ids: ids_of(content.ids).collect(), value },
            Some(content) if !content.readable => Bytes::Broken(value),
            _ if version.size == 0 => Bytes::Empty,
            _ => Bytes::Rowless(value),
        }
    }

    /// What stands under a path at a moment.
    pub fn version_at(&self, source: &SourceName, path: &str, at: Timestamp) -> Option<&FileVersion> {
        let past = self.sources.get(source)?.get(path)?;
        past.iter().rev().find(|(since, _)| *since <= at)?.1.as_ref()
    }

    /// Every file of a source at a moment.
    pub fn files_at(&self, source: &SourceName, at: Timestamp) -> Vec<FileVersion> {
        let paths = self.sources.get(source).into_iter().flat_map(BTreeMap::keys);
        paths.filter_map(|path| self.version_at(source, path, at).cloned()).collect()
    }

    /// The names of the folders directly below a prefix, at a moment.
    pub fn folders_at(&self, source: &SourceName, prefix: &str, at: Timestamp) -> BTreeSet<String> {
        let files = self.files_at(source, at);
        let below = files.iter().filter_map(|version| version.path.strip_prefix(prefix)?.split_once('/'));
        below.map(|(name, _)| name.to_owned()).collect()
    }

    /// What a version says, whether or not it still stands.
    pub fn content(&self, version: &FileVersion) -> Option<Content> {
        self.contents.get(version).copied()
    }

    /// True if at some moment of `[from, now]` something else, or nothing, stood under the version's path.
    pub fn was_not_there(&self, source: &SourceName, version: &FileVersion, from: Timestamp) -> bool {
        let Some(past) = self.sources.get(source).and_then(|files| files.get(&version.path)) else { return true };
        self.version_at(source, &version.path, from) != Some(version)
            || past.iter().any(|(at, there)| *at > from && there.as_ref() != Some(version))
    }

    /// The start of the partition that a path names; `None` in a reference source.
    pub fn start_of(&self, source: &SourceName, path: &str) -> Option<Timestamp> {
        let partition = self.policies.get(source)?.partitioned()?.partition_of(path).ok()?;
        Some(partition.start)
    }

    /// Whoever spoiled files writes them anew.
    pub fn heal(&mut self, now: Timestamp) {
        for source in self.policies.keys().cloned().collect::<Vec<_>>() {
            for version in self.files_at(&source, now) {
                let content = self.contents.get(&version).copied();
                if content.is_some_and(|content| !content.readable || content.ids == 0) {
                    self.land(now, &source, &version.path, 1 << (self.writes % 6), Quality::Good);
                }
            }
        }
    }

    /// The moment that listings show.
    pub fn seen_at(now: Timestamp, lag_s: u16) -> Timestamp {
        now - SignedDuration::from_secs(i64::from(lag_s))
    }
}

/// What stands in the documents of a version's ids: it names the version.
pub(super) fn value(source: &SourceName, version: &FileVersion) -> String {
    format!("{source}/{}#{}", version.path, version.etag)
}

/// The ids that a set of bits holds.
pub(super) fn ids_of(bits: u8) -> impl Iterator<Item = u8> {
    (0..8).filter(move |id| bits >> id & 1 == 1)
}
