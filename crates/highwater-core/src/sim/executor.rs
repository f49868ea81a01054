//! A model in place of SQL: one document an id, whose content names every file version that holds the id. It computes
//! only what a change can touch where it may, keeps what it read as long as its process lives, and writes documents one
//! by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use super::history::{Point, Trouble};
use super::lake::{ids_of, value};
use super::sink::{Change, Id};
use super::store::Read;
use super::world::Port;
use crate::file::{FileVersion, SourceName};
use crate::lease::Lease;
use crate::log::Sequence;
use crate::ports::{Attempt, Committed, Executed, Executor, Fault, SourceInput, Stamp};
use crate::receipt::{Mode, Quarantined, Receipt};

type Version = (SourceName, FileVersion);

/// Executes batches in one process.
#[derive(Debug)]
pub(super) struct Model {
    port: Port,
    /// Ids by version read.
    rows: BTreeMap<Version, u8>,
    /// Pinned versions that the store has no more.
    gone: BTreeSet<Version>,
    /// What stands in the sink does not follow from `rows`: all of it is compared.
    cold: bool,
}

/// What reading came to.
#[derive(Default)]
struct Parts {
    here: BTreeMap<Version, u8>,
    moved: Vec<(SourceName, Arc<str>)>,
    quarantined: Vec<Quarantined>,
    lacking: Vec<Version>,
}

/// The documents of these rows.
pub(super) fn documents(rows: &BTreeMap<Version, u8>, watermark: Option<jiff::Timestamp>) -> BTreeMap<Id, String> {
    let mut documents: BTreeMap<Id, String> = BTreeMap::new();
    for ((source, version), ids) in rows {
        for id in ids_of(*ids) {
            let document = documents.entry(id).or_default();
            *document += &(value(source, version) + " ");
        }
    }
    if let Some(watermark) = watermark {
        documents.values_mut().for_each(|document| *document += &format!("at {watermark}"));
    }
    documents
}

impl Model {
    pub fn new(port: Port) -> Self {
        Self { port, rows: BTreeMap::new(), gone: BTreeSet::new(), cold: true }
    }

    /// Brings every live version's rows to hand.
    async fn parts(&mut self, attempt: &Attempt, give_up: &[(SourceName, Arc<str>)]) -> Result<Parts, Fault> {
        let mut parts = Parts::default();
        for (name, input) in &attempt.sources {
            for version in input.live.values() {
                let key = (name.clone(), version.clone());
                if let Some(ids) = self.rows.get(&key) {
                    parts.here.insert(key, *ids);
                } else if self.gone.contains(&key) {
                    parts.lacking.push(key);
                } else {
                    // What is withheld is known to be gone: no listing says more of it.
                    let is_withheld = input.withheld.contains(&version.path);
                    let gave_up = is_withheld || give_up.contains(&(name.clone(), version.path.clone()));
                    self.part(attempt, input, key, gave_up, &mut parts).await?;
                }
            }
        }
        Ok(parts)
    }

    async fn part(
        &mut self,
        attempt: &Attempt,
        input: &SourceInput,
        key: Version,
        gave_up: bool,
        parts: &mut Parts,
    ) -> Result<(), Fault> {
        let (name, version) = &key;
        let is_new = input.added.contains(version);
        let set_aside = |reason: &str| Quarantined {
            source: name.clone(),
            version: version.clone(),
            reason: reason.into(),
            since: attempt.clock,
            attempts: 1,
        };
        match self.port.read(name, version).await? {
            Read::Rows(0) if is_new && self.had_rows(name, input, version) => {
                parts.quarantined.push(set_aside("no rows, where the file had some"));
            }
            Read::Rows(ids) => {
                self.rows.insert(key.clone(), ids);
                parts.here.insert(key, ids);
            }
            Read::Moved if !gave_up => parts.moved.push((name.clone(), version.path.clone())),
            Read::Moved if is_new => parts.quarantined.push(set_aside("kept changing")),
            Read::Broken if is_new => parts.quarantined.push(set_aside("broken")),
            Read::Moved => {
                self.gone.insert(key.clone());
                parts.lacking.push(key);
            }
            Read::Broken => parts.lacking.push(key),
        }
        Ok(())
    }

    /// True if a version replaces one that had rows, or of whose rows nothing is known.
    fn had_rows(&self, name: &SourceName, input: &SourceInput, version: &FileVersion) -> bool {
        let former = input.dropped.iter().find(|former| former.path == version.path);
        former.is_some_and(|former| self.rows.get(&(name.clone(), former.clone())).is_none_or(|ids| *ids > 0))
    }

    /// The ids that the batch can touch; `None`: any.
    fn affected(&self, attempt: &Attempt) -> Option<BTreeSet<Id>> {
        if attempt.compare_all || self.cold || self.reads_watermark() {
            return None;
        }
        let mut ids = 0;
        for (name, input) in &attempt.sources {
            for version in input.added.iter().chain(&input.dropped) {
                ids |= self.rows.get(&(name.clone(), version.clone()))?;
            }
        }
        Some(ids_of(ids).collect())
    }

    /// What differs from the sink.
    async fn difference(&mut self, attempt: &Attempt, parts: &Parts) -> Result<(Vec<Change>, Mode), Fault> {
        let add_only = is_add_only(attempt, parts);
        let affected = if add_only { None } else { self.affected(attempt) };
        let watermark = self.reads_watermark().then_some(attempt.watermark);
        let wanted = documents(&parts.here, watermark);
        self.sink_read("pairs").await?;
        let there = self.port.world().sink.documents();
        let mut changes = Vec::new();
        for id in 0..8 {
            if affected.as_ref().is_some_and(|affected| !affected.contains(&id)) {
                continue;
            }
            let (wanted, there) = (wanted.get(&id), there.get(&id));
            if wanted == there || add_only && (there.is_some() || wanted.is_none()) {
                continue;
            }
            changes.push(Change { id, content: wanted.cloned() });
        }
        Ok((changes, if affected.is_some() { Mode::Incremental } else { Mode::Full }))
    }

    async fn sink_read(&self, what: &str) -> Result<(), Fault> {
        let trouble = self.port.request(Point::SinkRead, &format!("sink: {what}")).await;
        self.port.replied().await;
        if trouble.is_some() { Err(unreachable_sink()) } else { Ok(()) }
    }

    /// Begins a request that writes, under the lease; answers whether it is done, and whether its reply arrives.
    async fn sink_write(&self, point: Point, what: &str, lease: &dyn Lease) -> Result<(bool, bool), Fault> {
        let trouble = self.port.request(point, what).await;
        lease.check()?;
        Ok((trouble != Some(Trouble::Fail), trouble.is_none()))
    }

    async fn write(&self, sequence: Sequence, change: &Change, lease: &dyn Lease) -> Result<(), Fault> {
        let what = format!("sink: write {} under {sequence}: {:?}", change.id, change.content);
        let (done, answered) = self.sink_write(Point::SinkWrite, &what, lease).await?;
        if done {
            self.port.world().sink_written(self.port.host, sequence, change);
        }
        self.port.replied().await;
        if answered { Ok(()) } else { Err(unreachable_sink()) }
    }

    /// Stamps the sink, with the changes that come in with it.
    async fn commit(&self, stamp: Stamp, staged: &[Change], lease: &dyn Lease) -> Result<(), Fault> {
        let what = format!("sink: commit {} at {}", stamp.sequence, stamp.watermark);
        let (done, answered) = self.sink_write(Point::SinkCommit, &what, lease).await?;
        if done {
            let mut world = self.port.world();
            for change in staged {
                world.sink_written(self.port.host, stamp.sequence, change);
            }
            world.sink_committed(self.port.host, stamp);
        }
        self.port.replied().await;
        if answered { Ok(()) } else { Err(unreachable_sink()) }
    }

    fn keep_only(&mut self, attempt: &Attempt) {
        let live = |(name, version): &Version| {
            attempt.sources.get(name).and_then(|input| input.live.get(&version.path)).is_some_and(|pin| pin == version)
        };
        self.rows.retain(|key, _| live(key));
        self.gone.retain(live);
    }
}

fn is_add_only(attempt: &Attempt, parts: &Parts) -> bool {
    !(parts.lacking.is_empty() && attempt.unseen.is_empty())
}

fn unreachable_sink() -> Fault {
    Fault::Unavailable("the sink is out of reach".into())
}

#[async_trait]
impl Executor for Model {
    async fn execute(
        &mut self,
        attempt: &Attempt,
        give_up: &[(SourceName, Arc<str>)],
        lease: &dyn Lease,
    ) -> Result<Executed, Fault> {
        let parts = self.parts(attempt, give_up).await?;
        if !parts.moved.is_empty() {
            return Ok(Executed::Moved(parts.moved));
        }
        if !parts.quarantined.is_empty() {
            return Ok(Executed::Unreadable(parts.quarantined));
        }
        let (changes, mode) = self.difference(attempt, &parts).await?;
        let is_atomic = self.port.world().setup.atomic_sink;
        let staged: &[Change] = if is_atomic { &changes } else { &[] };
        if !is_atomic {
            for change in &changes {
                self.write(attempt.sequence, change, lease).await?;
            }
        }
        let stamp = Stamp { sequence: attempt.sequence, watermark: attempt.watermark };
        self.commit(stamp, staged, lease).await?;
        let add_only = is_add_only(attempt, &parts);
        self.cold = add_only;
        self.keep_only(attempt);
        let files = parts.lacking.iter().map(|(name, version)| format!("{name}: {}", version.path));
        let lacking = attempt.unseen.iter().cloned().chain(files).collect();
        let documents = self.port.world().sink.documents().len() as u64;
        let receipt = Receipt { mode, documents, add_only, lacking, ..Receipt::default() };
        Ok(Executed::Committed(Box::new(Committed { receipt, ..Committed::default() })))
    }

    async fn traces(&mut self, void: &[Sequence]) -> Result<bool, Fault> {
        self.sink_read("traces").await?;
        let world = self.port.world();
        // The stamp tells of a batch that came in whole.
        Ok(!world.setup.atomic_sink && !world.sink.under(void).is_empty())
    }

    fn recorded(&mut self) {}

    async fn stamp(&mut self) -> Result<Option<Stamp>, Fault> {
        self.sink_read("stamp").await?;
        Ok(self.port.world().sink.stamp)
    }

    fn is_current(&self) -> bool {
        true
    }

    fn reads_watermark(&self) -> bool {
        self.port.world().setup.reads_watermark
    }
}
