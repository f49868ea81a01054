//! What a store must do for a log to be safe on it, as cases that anyone can run on their store: memory, a folder, an
//! S3 endpoint. Each case works below a path of its own, which must be empty, and leaves its objects there.

mod append;
pub mod faulty;
mod load;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use self::faulty::Faulty;
use super::{
    Appended, BatchLog, BatchRecord, Body, Claimed, Cursor, FORMAT, Loaded, ObjectLog, Record, Sequence, Writer,
    WriterId, claim,
};
use crate::file::{FileVersion, SourceName};
use crate::ports::Clock;
use crate::receipt::Receipt;

/// How one case ended.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case, as a sentence.
    pub case: &'static str,
    /// What was not as it should be.
    pub outcome: Result<(), String>,
}

/// Runs every case on `store` below `root`, one after the other.
pub async fn check(store: Arc<dyn ObjectStore>, root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, (case, run)) in append::CASES.iter().chain(load::CASES).enumerate() {
        let place = Place { store: store.clone(), root: root.clone().join(format!("case-{number:02}")) };
        findings.push(Finding { case, outcome: run(place).await });
    }
    findings
}

type Outcome = Result<(), String>;
type Case = (&'static str, fn(Place) -> BoxFuture<'static, Outcome>);

/// Where one case runs.
#[derive(Clone)]
struct Place {
    store: Arc<dyn ObjectStore>,
    root: Path,
}

impl Place {
    fn log(&self) -> ObjectLog {
        ObjectLog::new(self.store.clone(), self.root.clone(), Arc::new(Hasty)).keeping(5)
    }

    /// The same log through a network that fails by script.
    fn log_through(&self, script: impl FnOnce(Faulty) -> Faulty) -> ObjectLog {
        let store = Arc::new(script(Faulty::new(self.store.clone())));
        ObjectLog::new(store, self.root.clone(), Arc::new(Hasty)).keeping(5)
    }

    fn record(&self, number: u64) -> Path {
        self.root.clone().join("log").join(Sequence(number).object_name())
    }

    fn snapshot(&self, number: u64) -> Path {
        self.root.clone().join("snapshot").join(Sequence(number).object_name())
    }

    async fn overwrite(&self, path: &Path, content: impl Into<Vec<u8>>) -> Outcome {
        self.store.put(path, content.into().into()).await.map(|_| ()).map_err(say)
    }

    async fn remove(&self, path: &Path) -> Outcome {
        self.store.delete(path).await.map_err(say)
    }

    async fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let found = self.store.get(path).await.map_err(say)?;
        Ok(found.bytes().await.map_err(say)?.to_vec())
    }
}

/// A clock that stands still and never waits.
struct Hasty;

#[async_trait]
impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _length: Duration) {}
}

fn say(error: impl Display) -> String {
    error.to_string()
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    ensure(found == expected, || format!("{what}: {found:?} instead of {expected:?}"))
}

fn writer(name: &str) -> Writer {
    Writer { id: WriterId(name.into()), holder: format!("{name}, process 1"), version: "0.0.0".into() }
}

/// A batch that pins one file.
fn batch(path: &str) -> Body {
    let version = FileVersion { path: path.into(), size: 7, etag: format!("etag of {path}").into() };
    let cursor = Cursor { kind: "files".into(), added: vec![version], ..Cursor::default() };
    Body::Batch(Box::new(BatchRecord {
        requests: Default::default(),
        watermark: Timestamp::UNIX_EPOCH,
        sources: [(SourceName::new("ads"), cursor)].into(),
        receipt: Receipt::default(),
        holes: Vec::new(),
        closed: Vec::new(),
        alarms: Vec::new(),
        spec: None,
        freshness_ms: Vec::new(),
    }))
}

fn record(seq: u64, name: &str, body: Body) -> Record {
    Record {
        format: FORMAT,
        seq: Sequence(seq),
        writer: WriterId(name.into()),
        epoch: Sequence(1),
        clock: Timestamp::UNIX_EPOCH,
        body,
    }
}

/// Appends a batch that pins `path` and folds it in.
async fn commit(log: &dyn BatchLog, claimed: &mut Claimed, path: &str) -> Outcome {
    let record = claimed.record(Timestamp::UNIX_EPOCH, batch(path));
    same("append", log.append(&record).await.map_err(say)?, Appended::Written)?;
    claimed.state.apply(&record);
    Ok(())
}

/// A log of one claim and batches up to number `last`, batch `n` pinning `f<n>`.
async fn filled(log: &dyn BatchLog, last: u64) -> Result<Claimed, String> {
    let mut claimed = claim(log, Timestamp::UNIX_EPOCH, &writer("first")).await.map_err(say)?;
    for number in 2..=last {
        commit(log, &mut claimed, &format!("f{number}")).await?;
    }
    Ok(claimed)
}

fn live(loaded: &Loaded) -> Vec<&str> {
    loaded.state.sources.values().flat_map(|source| source.live.keys().map(|path| &**path)).collect()
}

fn files(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut names: Vec<_> = numbers.into_iter().map(|number| format!("f{number}")).collect();
    names.sort();
    names
}

fn numbers(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq.0).collect()
}
