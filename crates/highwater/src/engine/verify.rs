//! `verify`: the index equation, proven anew from the pinned file versions. Reads everything, writes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use highwater_core::driver::Driver;
use highwater_core::log::PipelineState;
use highwater_core::ports::{Fault, SourceInput};
use highwater_core::{SourceName, Timestamp};

use super::pipeline::{Pipeline, looking};
use super::progress::Progress;
use super::spec::{Spec, definition};
use crate::config::Absent;
use crate::index::{self, AsOf, Dump, StoredDocument};
use crate::report::VerifyReport;
use crate::transform::Document;

/// How many ids of each kind a report names.
const NAMED: usize = 1000;
/// A batch may stand between its commit and its record for a moment.
const LOOKS: usize = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Pipeline {
    /// Computes the documents from the file versions of the index's own batch and compares them with the index, byte for
    /// byte. With `relist` the files are those that the store holds now, by the clock of the last record.
    pub async fn verify(&self, relist: bool, progress: Arc<dyn Progress>) -> Result<VerifyReport, Fault> {
        let (state, dump) = match self.index_and_state().await? {
            Ok(found) => found,
            Err(unproven) => return Ok(unproven),
        };
        let mut inputs = pinned(&state);
        inputs.retain(|name, _| self.config().sources.contains_key(name));
        if relist {
            self.relist(&state, &mut inputs).await?;
        }
        let mut engine = self.engine(progress, &state)?;
        let moved = engine.prepare(&inputs).await?;
        if let Some((source, path)) = moved.first() {
            return Ok(unproven(format!("{source}: {path}")));
        }
        // Where the index cannot hold what the configuration asks for, the engine goes by what it was built by.
        let stored = state.spec.as_ref().map(Spec::from_log).transpose()?;
        if stored.is_some_and(|spec| spec.definition != definition(engine.config())) {
            let why = "the configuration computes documents otherwise than the index's batch did: the next batch compares them";
            return Ok(unproven(why.into()));
        }
        let clock = state.clock.unwrap_or_default();
        let mut parts = engine.parts(&inputs, clock, &[]).await?;
        let mut report = VerifyReport { equal: None, ..empty() };
        report.gone.extend(parts.moved.iter().map(|(source, path)| format!("{source}: {path}")));
        report.gone.extend(parts.lacking.iter().map(|(source, version)| format!("{source}: {}", version.path)));
        report.gone.extend(parts.quarantined.iter().map(|file| format!("{}: {}", file.source, file.version.path)));
        if !report.gone.is_empty() {
            return Ok(report);
        }
        let tables = engine.tables(&mut parts)?;
        let compiled = &engine.ready()?.compiled;
        let owned = match self.config().index.absent {
            Absent::Keep => Some(compiled.owned_ids(&tables)?.unwrap_or_default()),
            Absent::Delete => None,
        };
        let watermark = state.stamp.map(|stamp| stamp.watermark).unwrap_or_default();
        let mut documents = compiled.documents(tables, watermark, &engine.budget().query);
        let mut held = Held { dump, block: VecDeque::new() };
        while let Some(block) = documents.next().await {
            for document in block?.documents {
                compare(&document, &mut held, owned.as_deref(), &mut report).await?;
            }
        }
        held.pass(None, owned.as_deref(), &mut report).await?;
        report.equal = Some(report.missing.is_empty() && report.extra.is_empty() && report.different.is_empty());
        Ok(report)
    }

    /// One commit of the index and the log's state at that very batch.
    async fn index_and_state(&self) -> Result<Result<(PipelineState, Dump), VerifyReport>, Fault> {
        let mut seen: Option<AsOf> = None;
        for _ in 0..LOOKS {
            let (as_of, dump) = index::open_searcher(&self.config().index).dump().await?;
            let state = self.load().await?.state;
            match &as_of {
                Some(as_of) if Some(as_of.stamp) == state.stamp => return Ok(Ok((state, dump))),
                None if state.stamp.is_none() => {
                    return Err(nothing_yet());
                }
                _ => seen = as_of,
            }
            self.clock.sleep(LOOK_AGAIN).await;
        }
        let seen = seen.map_or_else(|| "nothing".into(), |as_of| format!("batch {}", as_of.stamp.sequence));
        let why = format!("the index holds {seen}, which is not the log's last batch: the next batch repairs it");
        Ok(Err(unproven(why)))
    }

    /// Replaces pinned versions by what the store holds now, by the clock of the last record.
    async fn relist(&self, state: &PipelineState, inputs: &mut BTreeMap<SourceName, SourceInput>) -> Result<(), Fault> {
        self.remember(state);
        let clock: Timestamp = state.clock.unwrap_or_else(|| self.clock.now());
        let mut driver = Driver::resume(self.policy()?, self.sources()?, looking(state.clone()), true);
        driver.look(&*self.stores, clock, true).await;
        driver.require_complete()?;
        for (name, planned) in driver.plan(clock)?.sources {
            let input = inputs.entry(name.clone()).or_default();
            let live = Arc::make_mut(&mut input.live);
            // What is in quarantine could not be read: its last good version, if there is one, is the table's.
            let aside = state.sources.get(&name).map(|source| &source.quarantined);
            let set_aside = |path: &Arc<str>| aside.is_some_and(|files| files.contains_key(path));
            for version in planned.dropped.iter().filter(|version| !set_aside(&version.path)) {
                live.remove(&version.path);
            }
            for version in planned.added.into_iter().filter(|version| !set_aside(&version.path)) {
                live.insert(version.path.clone(), version);
            }
        }
        Ok(())
    }
}

/// It cannot be told, for this reason.
fn unproven(why: String) -> VerifyReport {
    VerifyReport { gone: vec![why], ..empty() }
}

fn nothing_yet() -> Fault {
    Fault::Unavailable("the index holds no committed batch yet: start with `highwater once` or `highwater run`".into())
}

fn pinned(state: &PipelineState) -> BTreeMap<SourceName, SourceInput> {
    let mut inputs = BTreeMap::new();
    for (name, source) in &state.sources {
        inputs.insert(name.clone(), SourceInput { live: source.live.clone(), ..SourceInput::default() });
    }
    inputs
}

fn empty() -> VerifyReport {
    VerifyReport {
        equal: None,
        documents: 0,
        missing: Vec::new(),
        extra: Vec::new(),
        different: Vec::new(),
        gone: Vec::new(),
    }
}

/// The index's documents, one at a time.
struct Held {
    dump: Dump,
    block: VecDeque<StoredDocument>,
}

impl Held {
    async fn peek(&mut self) -> Result<Option<&StoredDocument>, Fault> {
        while self.block.is_empty() {
            match self.dump.next().await {
                None => return Ok(None),
                Some(block) => self.block.extend(block?),
            }
        }
        Ok(self.block.front())
    }

    /// Documents before `bound` are extra, unless they are none of ours.
    async fn pass(
        &mut self,
        bound: Option<&str>,
        owned: Option<&[Box<str>]>,
        report: &mut VerifyReport,
    ) -> Result<(), Fault> {
        while let Some(held) = self.peek().await? {
            if bound.is_some_and(|bound| held.id.as_bytes() >= bound.as_bytes()) {
                return Ok(());
            }
            let id = held.id.clone();
            self.block.pop_front();
            let ours =
                owned.is_none_or(|owned| owned.binary_search_by(|own| own.as_bytes().cmp(id.as_bytes())).is_ok());
            if ours {
                name(&mut report.extra, &id);
            }
        }
        Ok(())
    }
}

async fn compare(
    document: &Document,
    held: &mut Held,
    owned: Option<&[Box<str>]>,
    report: &mut VerifyReport,
) -> Result<(), Fault> {
    report.documents += 1;
    held.pass(Some(&document.id), owned, report).await?;
    match held.peek().await? {
        Some(found) if found.id == document.id => {
            if found.json != document.json || found.hash != document.hash {
                name(&mut report.different, &document.id);
            }
            held.block.pop_front();
        }
        _ => name(&mut report.missing, &document.id),
    }
    Ok(())
}

fn name(ids: &mut Vec<String>, id: &str) {
    if ids.len() < NAMED {
        ids.push(id.to_owned());
    }
}
