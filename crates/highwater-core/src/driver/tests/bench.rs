//! A pipeline in memory: a clock that is set, a store of etags, a log of objects, and a sink whose documents are the
//! files themselves, their etags the content.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::super::*;
use crate::file::{FileVersion, SeenFile};
use crate::lease::Unguarded;
use crate::log::{ObjectLog, Writer, WriterId, claim};
use crate::orders::ObjectOrders;
use crate::plan::tests::script::{at, file, pipeline, source};
use crate::ports::{Committed, Stamp};
use crate::receipt::Quarantined;

/// A clock that moves when it is told to, and by what is slept.
pub struct Time {
    now: Mutex<Timestamp>,
    pub slept: Mutex<Vec<Duration>>,
}

#[async_trait]
impl Clock for Time {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now.lock().unwrap().as_millisecond().unsigned_abs())
    }

    async fn sleep(&self, length: Duration) {
        *self.now.lock().unwrap() += length;
        self.slept.lock().unwrap().push(length);
        tokio::task::yield_now().await;
    }
}

/// Files by path, each with its etag; `0` is one of zero bytes.
#[derive(Default)]
pub struct Shelf {
    pub files: Mutex<BTreeMap<String, String>>,
    /// Prefixes that cannot be listed.
    pub broken: Mutex<BTreeSet<String>>,
    /// Every prefix that was listed.
    pub listed: Mutex<Vec<String>>,
}

impl Shelf {
    pub fn put(&self, text: &str) {
        let version = file(text);
        self.files.lock().unwrap().insert(version.path.to_string(), version.etag.to_string());
    }

    pub fn remove(&self, path: &str) {
        let path = file(&format!("{path}#1")).path.to_string();
        assert!(self.files.lock().unwrap().remove(&path).is_some(), "no file {path}");
    }

    pub fn break_hour(&self, hour: &str) {
        self.broken.lock().unwrap().insert(hour_prefix(hour));
    }

    pub fn mend(&self) {
        self.broken.lock().unwrap().clear();
    }

    fn look(&self, prefix: &str) -> Result<Vec<(String, String)>, Fault> {
        self.listed.lock().unwrap().push(prefix.to_owned());
        if self.broken.lock().unwrap().contains(prefix) {
            return Err(Fault::Unavailable("connection reset".into()));
        }
        let files = self.files.lock().unwrap();
        Ok(files.iter().filter(|(path, _)| path.starts_with(prefix)).map(|(p, e)| (p.clone(), e.clone())).collect())
    }
}

pub fn hour_prefix(hour: &str) -> String {
    format!("{}/", file(&format!("{hour}#1")).path)
}

#[async_trait]
impl Store for Shelf {
    async fn files(&self, _: &SourceName, prefix: &str) -> Result<Vec<SeenFile>, Fault> {
        let seen = self.look(prefix)?.into_iter().map(|(path, etag)| {
            let version = FileVersion { path: path.into(), size: u64::from(etag != "0"), etag: etag.into() };
            SeenFile { version, modified: None }
        });
        Ok(seen.collect())
    }

    async fn folders(&self, _: &SourceName, prefix: &str) -> Result<Vec<String>, Fault> {
        let below = self.look(prefix)?;
        let names = below.iter().filter_map(|(path, _)| path[prefix.len()..].split_once('/'));
        Ok(names.map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn skipped(&self, _source: &SourceName) -> Vec<String> {
        Vec::new()
    }

    fn requests(&self) -> Requests {
        Requests { list: self.listed.lock().unwrap().len() as u64, ..Requests::default() }
    }
}

/// What happens to one attempt.
#[derive(Clone, Debug)]
pub enum On {
    /// Nothing is written.
    FailBefore,
    /// The sink commits, the reply is lost.
    FailAfter,
    /// The file changes on the shelf before it is read.
    Replace(&'static str),
    /// It never ends.
    Hang,
    /// It takes a while.
    Slow,
}

/// The sink and its executor.
pub struct Model {
    pub shelf: Arc<Shelf>,
    /// Etag by path.
    pub index: BTreeMap<String, String>,
    pub stamp: Option<Stamp>,
    /// `path#etag` that cannot be decoded.
    pub unreadable: BTreeSet<String>,
    /// Paths that are listed, and are not there.
    pub ghosts: BTreeSet<String>,
    pub script: VecDeque<On>,
    pub attempts: Arc<Mutex<Vec<Attempt>>>,
    /// Versions whose rows are at hand.
    pub parts: BTreeSet<FileVersion>,
    /// The stamp cannot be read.
    pub mute: bool,
}

#[async_trait]
impl Executor for Model {
    async fn execute(
        &mut self,
        attempt: &Attempt,
        give_up: &[(SourceName, Arc<str>)],
        _lease: &dyn Lease,
    ) -> Result<Executed, Fault> {
        self.attempts.lock().unwrap().push(attempt.clone());
        let on = self.script.pop_front();
        match on {
            Some(On::FailBefore) => return Err(Fault::Unavailable("the sink is out of reach".into())),
            Some(On::Replace(text)) => self.shelf.put(text),
            Some(On::Hang) => loop {
                tokio::task::yield_now().await;
            },
            Some(On::Slow) => {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            }
            Some(On::FailAfter) | None => {}
        }
        assert!(self.stamp.is_none_or(|stamp| stamp.sequence < attempt.sequence), "a stale writer came through");
        let (mut moved, mut failed, mut wanted) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut lacking = attempt.unseen.clone();
        for (name, input) in &attempt.sources {
            for version in input.live.values() {
                match self.read(version) {
                    Read::Rows => {
                        wanted.insert(version.path.to_string(), version.etag.to_string());
                        continue;
                    }
                    Read::Other if input.withheld.contains(&version.path) => {
                        lacking.push(version.path.to_string());
                        continue;
                    }
                    Read::Other if !give_up.contains(&(name.clone(), version.path.clone())) => {
                        moved.push((name.clone(), version.path.clone()));
                        continue;
                    }
                    Read::Other | Read::Broken => {}
                }
                let (source, version, since) = (name.clone(), version.clone(), attempt.clock);
                failed.push(Quarantined { source, version, reason: "broken".into(), since, attempts: 1 });
            }
        }
        if !moved.is_empty() {
            return Ok(Executed::Moved(moved));
        }
        let new: Vec<Quarantined> =
            failed.iter().filter(|f| attempt.sources[&f.source].added.contains(&f.version)).cloned().collect();
        if !new.is_empty() {
            return Ok(Executed::Unreadable(new));
        }
        for file in &failed {
            let path = file.version.path.to_string();
            wanted.extend(self.index.get(&path).map(|etag| (path, etag.clone())));
        }
        if !lacking.is_empty() {
            // Nothing is taken away, and nothing is written over.
            wanted.extend(self.index.clone());
        }
        self.check_difference(attempt, &wanted);
        self.index = wanted;
        self.stamp = Some(Stamp { sequence: attempt.sequence, watermark: attempt.watermark });
        if matches!(on, Some(On::FailAfter)) {
            return Err(Fault::Unavailable("the reply was lost".into()));
        }
        let mut committed = Committed::default();
        committed.receipt.quarantined = failed;
        committed.receipt.add_only = !lacking.is_empty();
        committed.receipt.lacking = lacking;
        committed.receipt.documents = self.index.len() as u64;
        Ok(Executed::Committed(Box::new(committed)))
    }

    async fn traces(&mut self, _void: &[Sequence]) -> Result<bool, Fault> {
        Ok(false)
    }

    async fn stamp(&mut self) -> Result<Option<Stamp>, Fault> {
        if self.mute { Err(Fault::Unavailable("the sink is out of reach".into())) } else { Ok(self.stamp) }
    }

    fn recorded(&mut self) {}

    fn is_current(&self) -> bool {
        true
    }

    fn reads_watermark(&self) -> bool {
        false
    }
}

enum Read {
    Rows,
    Broken,
    Other,
}

impl Model {
    fn read(&mut self, version: &FileVersion) -> Read {
        if self.parts.contains(version) {
            return Read::Rows;
        }
        let there = self.shelf.files.lock().unwrap().get(&*version.path).is_some_and(|etag| **etag == *version.etag);
        if !there || self.ghosts.contains(&*version.path) {
            return Read::Other;
        }
        if self.unreadable.contains(&format!("{}#{}", version.path, version.etag)) {
            return Read::Broken;
        }
        self.parts.insert(version.clone());
        Read::Rows
    }

    /// Where the sink is trusted, the named changes must lead to the same documents.
    fn check_difference(&self, attempt: &Attempt, wanted: &BTreeMap<String, String>) {
        if attempt.compare_all {
            return;
        }
        let mut changed = BTreeSet::new();
        for input in attempt.sources.values() {
            changed.extend(input.added.iter().chain(&input.dropped).map(|version| version.path.to_string()));
        }
        for path in self.index.keys().chain(wanted.keys()).filter(|path| !changed.contains(*path)) {
            assert_eq!(self.index.get(path), wanted.get(path), "{path} changed without being named");
        }
    }
}

/// All of it.
pub struct Bench {
    pub time: Arc<Time>,
    pub shelf: Arc<Shelf>,
    pub objects: Arc<InMemory>,
    pub model: Model,
    pub source: SourcePolicy,
    pub policy: PipelinePolicy,
    starts: u32,
}

impl Bench {
    pub fn new() -> Self {
        let shelf = Arc::new(Shelf::default());
        let model = Model {
            shelf: shelf.clone(),
            index: BTreeMap::new(),
            stamp: None,
            unreadable: BTreeSet::new(),
            ghosts: BTreeSet::new(),
            script: VecDeque::new(),
            attempts: Arc::default(),
            parts: BTreeSet::new(),
            mute: false,
        };
        Self {
            time: Arc::new(Time { now: Mutex::new(at("10:10")), slept: Mutex::default() }),
            shelf,
            objects: Arc::new(InMemory::new()),
            model,
            source: source("ads", "1h", &[]),
            policy: pipeline("1h"),
            starts: 0,
        }
    }

    pub fn log_on(&self, store: Arc<dyn ObjectStore>) -> ObjectLog {
        ObjectLog::new(store, Path::from("state"), self.time.clone())
    }

    pub fn log(&self) -> ObjectLog {
        self.log_on(self.objects.clone())
    }

    pub fn wait(&self, seconds: i64) {
        *self.time.now.lock().unwrap() += SignedDuration::from_secs(seconds);
    }

    pub fn set(&self, time: &str) {
        *self.time.now.lock().unwrap() = at(time);
    }

    /// A new process: nothing of the files' rows is at hand.
    pub async fn start(&mut self, exclusive: bool) -> Driver {
        self.starts += 1;
        let id = WriterId(format!("w{}", self.starts).into());
        let writer = Writer { id, holder: "host".into(), version: "0".into() };
        let claimed = claim(&self.log(), self.time.now(), &writer).await.unwrap();
        self.model.parts.clear();
        let session = Session { claimed, exclusive, lease: Arc::new(Unguarded) };
        Driver::start(self.policy.clone(), vec![self.source.clone()], session, &mut self.model).await.unwrap()
    }

    pub async fn tick(&mut self, driver: &mut Driver) -> Result<TickReport, Fault> {
        self.tick_on(driver, &self.log(), Look::Scheduled).await
    }

    pub async fn tick_on(&mut self, driver: &mut Driver, log: &dyn BatchLog, look: Look) -> Result<TickReport, Fault> {
        let (clock, store) = (self.time.clone(), self.shelf.clone());
        let orders = self.orders();
        let ports = Ports { clock: &*clock, store: &*store, log, orders: &orders };
        driver.tick(ports, &mut self.model, look).await
    }

    pub fn orders(&self) -> ObjectOrders {
        ObjectOrders::new(self.objects.clone(), &Path::from("state"))
    }

    /// `path#etag` of each document, the day left out.
    pub fn index(&self) -> String {
        let documents = self.model.index.iter().map(|(path, etag)| format!("{path}#{etag}"));
        documents.collect::<Vec<_>>().join(" ").replace("2026-05-01/", "")
    }

    pub fn attempts(&self) -> Vec<Attempt> {
        self.model.attempts.lock().unwrap().clone()
    }
}

/// `path#etag` of each pinned version, the day left out.
pub fn pinned(driver: &Driver) -> String {
    let live = driver.state().sources.values().flat_map(|source| source.live.values());
    live.map(|v| format!("{}#{}", v.path, v.etag)).collect::<Vec<_>>().join(" ").replace("2026-05-01/", "")
}
