//! The executor of batches: read what changed, compute all documents, write what differs, commit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use highwater_core::generation::GenerationName;
use highwater_core::lease::Lease;
use highwater_core::ports::{Attempt, Committed, Executed, Executor, Fault, SourceInput, Stamp};
use highwater_core::receipt::{Mode, Quarantined, Receipt, RejectedRow};
use highwater_core::{FileVersion, Sequence, SourceName, Timestamp};

use super::budget::{Budget, Share};
use super::difference::{Absent, Difference, Held, Pairs};
use super::progress::Progress;
use super::reading::{Read, Reader};
use super::spec::{Learnt, OTHER_SHAPE, Ready, Spec, definition, make, resume};
use crate::clock::Stopwatch;
use crate::config::{self, Config};
use crate::index::{AsOf, Change, Home, Sink};
use crate::store::Stores;
use crate::table::{Part, PartCache, Table};
use crate::task;
use crate::transform::TransformError;

/// How many refused rows a receipt names.
const NAMED_REJECTS: usize = 100;
/// How many blocks of documents are computed while others are staged.
const BLOCKS_AHEAD: usize = 4;
/// How often a batch is committed at most, where its commit shows what another writer sent.
const LOOKS: u32 = 3;
/// How many changes are staged at once.
const STAGE_BLOCK: usize = 4096;
/// After how many changes of a first fill the sink keeps what it has: so much is done again after a crash.
const CHECKPOINT: usize = 30_000;

/// Computes and commits batches of one pipeline, into one generation.
pub struct Engine {
    config: Arc<Config>,
    home: Arc<dyn Home>,
    generation: GenerationName,
    is_live: bool,
    /// What the configuration asks for that this generation cannot hold.
    outgrown: Outgrown,
    reader: Reader,
    cache: PartCache,
    budget: Budget,
    progress: Arc<dyn Progress>,
    /// How many documents it is about to compute, as far as that is known.
    expected: u64,
    stored: Option<Spec>,
    ready: Option<Ready>,
    sink: Option<Box<dyn Sink>>,
    /// What was read since the last committed batch: a round that ended before its batch has read for the next one.
    read: ReadSince,
    /// The last run of the SQL did not fit its memory.
    out_of_memory: bool,
    /// Pinned versions that the store has no more: their rows are at hand only while the cache holds them.
    gone: HashSet<(SourceName, FileVersion)>,
    /// Withheld versions that the store was asked for in vain.
    withheld: HashSet<(SourceName, FileVersion)>,
    /// The sink's stamp as the driver was last told it.
    told: Option<Option<Stamp>>,
}

/// Why a generation cannot hold what the configuration asks for, as its engine finds out.
#[derive(Clone, Debug, Default)]
pub struct Outgrown(Arc<Mutex<Option<String>>>);

impl Outgrown {
    /// The reason; `None` while there is none that is known.
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reason: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

/// Files read and rows refused.
#[derive(Default)]
struct ReadSince {
    files: u64,
    rejected_rows: u64,
    rejected: Vec<RejectedRow>,
}

/// What reading came to.
#[derive(Default)]
pub(super) struct Parts {
    pub by_source: BTreeMap<SourceName, Vec<Arc<Part>>>,
    pub moved: Vec<(SourceName, Arc<str>)>,
    pub quarantined: Vec<Quarantined>,
    /// Pinned versions whose rows are not at hand.
    pub lacking: Vec<(SourceName, FileVersion)>,
}

impl Engine {
    /// Takes up a generation of a pipeline; `stored` is its spec, as the log keeps it.
    pub fn new(
        config: Arc<Config>,
        stores: Arc<Stores>,
        (home, generation, is_live): (Arc<dyn Home>, GenerationName, bool),
        budget: Budget,
        progress: Arc<dyn Progress>,
        stored: Option<&serde_json::Value>,
    ) -> Result<Self, Fault> {
        let stored = stored.map(Spec::from_log).transpose()?;
        let reader = Reader::new(&config, stores, budget.cores)?;
        let cache = PartCache::new(budget.folder().to_owned(), budget.cache_bytes);
        Ok(Self {
            config,
            home,
            generation,
            is_live,
            outgrown: Outgrown::default(),
            reader,
            cache,
            budget,
            progress,
            expected: 0,
            stored,
            ready: None,
            sink: None,
            read: ReadSince::default(),
            out_of_memory: false,
            gone: HashSet::new(),
            withheld: HashSet::new(),
            told: None,
        })
    }

    /// Begins a session of the driver: the generation's spec is what the log says, and nothing else.
    pub fn begin(&mut self, stored: Option<&serde_json::Value>) -> Result<(), Fault> {
        let stored = stored.map(Spec::from_log).transpose()?;
        if stored.is_some() && stored != self.stored {
            self.ready = None;
        }
        self.stored = stored;
        Ok(())
    }

    /// Makes schemas, SQL and sink ready, learning the columns of sources that the generation does not know yet.
    /// Files that are not what was listed are the answer; nothing is frozen then.
    pub(super) async fn prepare(
        &mut self,
        sources: &BTreeMap<SourceName, SourceInput>,
    ) -> Result<Vec<(SourceName, Arc<str>)>, Fault> {
        if self.ready.is_some() {
            return Ok(Vec::new());
        }
        let (mut learnt, mut moved) = (Learnt::default(), Vec::new());
        for (name, input) in sources {
            if self.stored.as_ref().is_some_and(|spec| spec.sources.contains_key(name)) {
                continue;
            }
            let files: Vec<FileVersion> = input.live.values().cloned().collect();
            self.progress.begin(&format!("learning the columns of {name}"), files.len() as u64);
            let changed = self.reader.learn(name, &files, &mut learnt).await?;
            moved.extend(changed.into_iter().map(|path| (name.clone(), path)));
        }
        if !moved.is_empty() {
            return Ok(moved);
        }
        let ready = match &self.stored {
            None => make(&self.config, &learnt)?,
            Some(spec) => resume(&self.config, spec, &learnt)?,
        };
        let refusal = self.stored.as_ref().and_then(|spec| Some((spec, spec.refusal(&ready.spec.shape)?)));
        self.ready = Some(match refusal {
            None => ready,
            Some((spec, refusal)) => {
                // The generation goes on as it was built; another one can hold what is asked for now.
                let former = spec.document_of(&self.config).map(Arc::new);
                let former = former.ok_or_else(|| Fault::Invalid(format!("{refusal}; {OTHER_SHAPE}")))?;
                let ready = resume(&former, spec, &learnt)?;
                self.config = former;
                self.outgrown.set(refusal);
                ready
            }
        });
        Ok(moved)
    }

    /// The generation that it keeps.
    pub(super) fn generation(&self) -> &GenerationName {
        &self.generation
    }

    /// Goes on in another role, within that one's share. The index is opened anew: its threads are of the former role.
    pub(super) fn assume(&mut self, share: Share, progress: Arc<dyn Progress>) -> Result<(), Fault> {
        self.close();
        (self.is_live, self.progress, self.expected, self.told) = (share.is_live, progress, 0, None);
        self.budget = self.budget.resized(share);
        self.reader.resize(share.cores);
        self.cache.resize(self.budget.cache_bytes).map_err(|error| Fault::Unavailable(error.to_string()))
    }

    /// Lets go of the index, once whatever it does in the background has ended.
    pub(super) fn close(&mut self) {
        if let Some(sink) = self.sink.take() {
            task::in_place(|| drop(sink));
        }
    }

    /// So many documents are to be computed next, or about as many.
    pub(super) fn expect(&mut self, documents: u64) {
        self.expected = documents;
    }

    /// Forgets what a step that failed has staged: it takes room.
    pub(super) async fn abandon(&mut self) {
        if let Some(sink) = &mut self.sink
            && let Err(error) = sink.abandon().await
        {
            tracing::debug!(%error, "what was staged could not be forgotten; the next step does");
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// What the configuration asks for that this generation cannot hold: a rebuild is due.
    pub fn outgrown(&self) -> Outgrown {
        self.outgrown.clone()
    }

    async fn open_sink(&mut self) -> Result<(), Fault> {
        if self.sink.is_some() {
            return Ok(());
        }
        let ready = self.ready.as_ref().ok_or_else(not_ready)?;
        let (shape, bytes, cores) = (ready.spec.shape.clone(), self.budget.writer_bytes, self.budget.cores);
        let sink = self.home.open(&self.generation, self.is_live, &shape, bytes, cores).await?;
        let stamp = sink.as_of().await?.map(|as_of| as_of.stamp);
        self.sink = Some(sink);
        if self.told.is_some_and(|told| told != stamp) {
            // A former writer was in the middle of a commit when its lease ended, and kept the index until now.
            return Err(Fault::Unavailable(
                "another process committed to the index after this one had looked at it; all is compared anew".into(),
            ));
        }
        Ok(())
    }

    /// Brings every live version's part to hand: from the cache, or from the store.
    pub(super) async fn parts(
        &mut self,
        sources: &BTreeMap<SourceName, SourceInput>,
        clock: Timestamp,
        give_up: &[(SourceName, Arc<str>)],
    ) -> Result<Parts, Fault> {
        let mut parts = Parts::default();
        let ready = self.ready.as_ref().ok_or_else(not_ready)?;
        let (files, tables) = (ready.file_schemas.clone(), ready.table_schemas.clone());
        self.forget_returned(sources);
        for (name, input) in sources {
            let schemas = (files[name].clone(), tables[name].clone());
            let added: HashSet<&FileVersion> = input.added.iter().collect();
            let mut here: Vec<Arc<Part>> = Vec::with_capacity(input.live.len());
            let mut wanted = Vec::new();
            for version in input.live.values() {
                match self.cache.get(name, version) {
                    Some(part) => here.push(part),
                    None if self.is_known_gone(name, version) => {
                        parts.lacking.push((name.clone(), version.clone()));
                    }
                    None => wanted.push(version.clone()),
                }
            }
            if !wanted.is_empty() {
                self.progress.begin(&format!("reading {name}"), wanted.len() as u64);
            }
            for block in wanted.chunks(self.budget.cores * 4) {
                for (version, read) in self.reader.read(name, schemas.clone(), block).await? {
                    self.progress.advance(1);
                    let is_new = added.contains(&version);
                    let gave_up = give_up.iter().any(|(source, path)| source == name && *path == version.path);
                    match read {
                        Read::Part(part, _, 0)
                            if is_new && part.row_count == 0 && self.had_rows(name, input, &version) =>
                        {
                            let reason = "no rows, where the file had some before; they stay until it has rows again or \
                                          is removed";
                            parts.quarantined.push(set_aside(name, &version, reason.into(), clock));
                        }
                        Read::Part(part, rejected, count) => {
                            self.read.files += 1;
                            self.read.rejected_rows += count;
                            let room = NAMED_REJECTS.saturating_sub(self.read.rejected.len());
                            self.read.rejected.extend(rejected.into_iter().take(room));
                            let part = self.cache.insert(name, *part);
                            here.push(part.map_err(|error| Fault::Unavailable(error.to_string()))?);
                        }
                        // No listing shows it, so there is nothing to list again.
                        Read::Moved(_) if input.withheld.contains(&version.path) => {
                            self.withheld.insert((name.clone(), version.clone()));
                            parts.lacking.push((name.clone(), version));
                        }
                        Read::Moved(_) if !gave_up => parts.moved.push((name.clone(), version.path.clone())),
                        Read::Moved(why) | Read::Broken(why) if is_new => {
                            let reason = if gave_up { format!("kept changing while it was read: {why}") } else { why };
                            parts.quarantined.push(set_aside(name, &version, reason, clock));
                        }
                        Read::Moved(_) => {
                            self.gone.insert((name.clone(), version.clone()));
                            parts.lacking.push((name.clone(), version));
                        }
                        Read::Broken(why) => {
                            tracing::warn!(
                                source = name.as_str(),
                                path = &*version.path,
                                why,
                                "a pinned file cannot be read"
                            );
                            parts.lacking.push((name.clone(), version));
                        }
                    }
                }
            }
            here.sort_by(|a, b| (a.partition, &a.version.path).cmp(&(b.partition, &b.version.path)));
            parts.by_source.insert(name.clone(), here);
        }
        Ok(parts)
    }

    /// True if the store was asked for a version without rows at hand, and will not have it.
    fn is_known_gone(&self, name: &SourceName, version: &FileVersion) -> bool {
        let key = (name.clone(), version.clone());
        self.gone.contains(&key) || self.withheld.contains(&key)
    }

    /// What is listed again can be had again.
    fn forget_returned(&mut self, sources: &BTreeMap<SourceName, SourceInput>) {
        self.withheld.retain(|(name, version)| {
            sources.get(name).is_some_and(|input| {
                input.withheld.contains(&version.path) && input.live.get(&version.path) == Some(version)
            })
        });
    }

    /// True if a version replaces one that had rows, or of whose rows nothing is known.
    fn had_rows(&mut self, name: &SourceName, input: &SourceInput, version: &FileVersion) -> bool {
        let Some(former) = former_of(input, version) else { return false };
        self.cache.get(name, former).is_none_or(|part| part.row_count > 0)
    }

    /// Tables over parts, as the SQL sees them.
    pub(super) fn tables(&self, parts: &mut Parts) -> Result<Vec<Table>, Fault> {
        let ready = self.ready.as_ref().ok_or_else(not_ready)?;
        let mut tables = Vec::new();
        for (name, source) in &self.config.sources {
            tables.push(Table {
                source: name.clone(),
                schema: ready.table_schemas[name].clone(),
                kind: source.kind.clone(),
                parts: parts.by_source.remove(name).unwrap_or_default(),
            });
        }
        Ok(tables)
    }

    pub(super) fn ready(&self) -> Result<&Ready, Fault> {
        self.ready.as_ref().ok_or_else(not_ready)
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Computes all documents and stages what differs; answers the receipt so far, and what the sink should hold then.
    async fn apply(
        &mut self,
        attempt: &Attempt,
        tables: Vec<Table>,
        add_only: bool,
        lease: &dyn Lease,
    ) -> Result<(Receipt, Held), Fault> {
        let watch = Stopwatch::start();
        let (Some(ready), Some(sink)) = (&self.ready, &mut self.sink) else { return Err(not_ready()) };
        let owned = match self.config.index.absent {
            config::Absent::Keep if !add_only => ready.compiled.owned_ids(&tables)?.unwrap_or_default(),
            _ => Vec::new(),
        };
        let absent = match (add_only, self.config.index.absent) {
            (true, _) => Absent::AddOnly,
            (false, config::Absent::Keep) => Absent::Owned(&owned),
            (false, config::Absent::Delete) => Absent::Delete,
        };
        let mut difference = Difference::new(Pairs::new(sink.pairs().await?), absent, &attempt.void);
        let mut receipt = Receipt { mode: Mode::Full, add_only, ..Receipt::default() };
        let is_fill = !self.is_live && sink.as_of().await?.is_none();
        let mut stage = Stage { sequence: attempt.sequence, lease, pending: Vec::new(), is_fill, unkept: 0 };
        let phase = "computing documents";
        let phase = if self.is_live { phase.to_owned() } else { format!("{}: {phase}", self.generation) };
        self.progress.begin(&phase, self.expected);
        let documents = ready.compiled.documents(tables, attempt.watermark, &self.budget.query);
        let mut documents = task::ahead(documents, BLOCKS_AHEAD);
        let mut applying = 0;
        while let Some(block) = documents.next().await {
            let block = block.inspect_err(|error| {
                self.out_of_memory = matches!(error, TransformError::Memory(_));
            })?;
            receipt.duplicate_ids += block.duplicate_ids;
            receipt.rejected_rows += block.rejected.len() as u64;
            name_rejects(&mut receipt, block.rejected);
            self.progress.advance(block.documents.len() as u64);
            let changes = difference.advance(block.documents).await?;
            let apply = Stopwatch::start();
            stage.add(sink.as_mut(), changes, &mut receipt, STAGE_BLOCK).await?;
            applying += apply.ms();
        }
        let changes = difference.finish().await?;
        let apply = Stopwatch::start();
        stage.add(sink.as_mut(), changes, &mut receipt, 0).await?;
        applying += apply.ms();
        receipt.unchanged = difference.unchanged;
        receipt.ms.insert("transform".into(), watch.ms().saturating_sub(applying));
        receipt.ms.insert("apply".into(), applying);
        Ok((receipt, difference.after))
    }

    /// Commits, and looks whether that has shown more than was staged: a writer that was taken over may have sent something
    /// that came after this batch had read the sink. Then it is compared once more, under the same number.
    async fn commit(
        &mut self,
        attempt: &Attempt,
        (mut receipt, mut expected): (Receipt, Held),
        (tables, add_only): (Vec<Table>, bool),
        lease: &dyn Lease,
    ) -> Result<Receipt, Fault> {
        let stamp = Stamp { sequence: attempt.sequence, watermark: attempt.watermark };
        let newest =
            attempt.sources.iter().filter_map(|(name, input)| Some((name.clone(), input.newest_end?))).collect();
        let as_of = AsOf { stamp, newest };
        for look in 1.. {
            lease.check()?;
            let sink = self.sink.as_mut().ok_or_else(not_ready)?;
            sink.commit(&as_of, lease).await?;
            receipt.documents = sink.count().await?;
            if sink.is_atomic() || look == LOOKS {
                break;
            }
            let void = sink.left_by(&attempt.void).await?;
            // Where others write too, their documents come and go.
            let is_shared = matches!(self.config.index.absent, config::Absent::Keep);
            let fits = |expected: u64, found: u64| found <= expected && expected - found <= receipt.rejected_rows;
            if fits(expected.void, void) && (is_shared || fits(expected.documents, receipt.documents)) {
                break;
            }
            tracing::warn!("the commit has shown what another writer sent: the index is compared once more");
            let (more, after) = self.apply(attempt, tables.clone(), add_only, lease).await?;
            (receipt.upserts, receipt.deletes) = (receipt.upserts + more.upserts, receipt.deletes + more.deletes);
            (receipt.unchanged, expected) = (more.unchanged, after);
        }
        Ok(receipt)
    }
}

/// Changes on their way into the sink.
struct Stage<'a> {
    sequence: Sequence,
    lease: &'a dyn Lease,
    pending: Vec<Change>,
    /// Nothing was ever committed, and readers see another generation.
    is_fill: bool,
    /// Changes since the last checkpoint.
    unkept: usize,
}

impl Stage<'_> {
    async fn add(
        &mut self,
        sink: &mut dyn Sink,
        changes: Vec<Change>,
        receipt: &mut Receipt,
        keep_below: usize,
    ) -> Result<(), Fault> {
        for change in &changes {
            match change {
                Change::Upsert(_) => receipt.upserts += 1,
                Change::Delete(_) => receipt.deletes += 1,
            }
        }
        self.pending.extend(changes);
        if self.pending.is_empty() || self.pending.len() < keep_below {
            return Ok(());
        }
        self.unkept += self.pending.len();
        let refused = sink.stage(self.sequence, std::mem::take(&mut self.pending), self.lease).await?;
        if self.is_fill && self.unkept >= CHECKPOINT {
            sink.checkpoint(self.lease).await?;
            self.unkept = 0;
        }
        receipt.upserts -= refused.len() as u64;
        receipt.rejected_rows += refused.len() as u64;
        let mut rows = Vec::new();
        for refused in refused {
            let reason = format!("document {:?}: {}", refused.id, refused.reason);
            rows.push(RejectedRow { source: None, path: "".into(), row: 0, reason });
        }
        name_rejects(receipt, rows);
        Ok(())
    }
}

fn name_rejects(receipt: &mut Receipt, rows: Vec<RejectedRow>) {
    let room = NAMED_REJECTS.saturating_sub(receipt.rejected.len());
    receipt.rejected.extend(rows.into_iter().take(room));
}

#[async_trait]
impl Executor for Engine {
    async fn execute(
        &mut self,
        attempt: &Attempt,
        give_up: &[(SourceName, Arc<str>)],
        lease: &dyn Lease,
    ) -> Result<Executed, Fault> {
        let whole = Stopwatch::start();
        if let Some(sink) = &mut self.sink {
            // What an attempt before this one left behind, whatever became of it.
            sink.abandon().await?;
        }
        let mut moved = self.prepare(&attempt.sources).await?;
        moved.retain(|file| !give_up.contains(file));
        if !moved.is_empty() {
            return Ok(Executed::Moved(moved));
        }
        let mut parts = self.parts(&attempt.sources, attempt.clock, give_up).await?;
        if !parts.moved.is_empty() {
            return Ok(Executed::Moved(parts.moved));
        }
        if !parts.quarantined.is_empty() {
            return Ok(Executed::Unreadable(parts.quarantined));
        }
        self.reader.forget();
        let read_ms = whole.ms();
        self.open_sink().await?;
        let tables = self.tables(&mut parts)?;
        let add_only = !(parts.lacking.is_empty() && attempt.unseen.is_empty());
        let mut applied = self.apply(attempt, tables.clone(), add_only, lease).await;
        if applied.is_err() && std::mem::take(&mut self.out_of_memory) && !self.budget.query.frugal {
            self.budget.query.frugal = true;
            if let Some(sink) = &mut self.sink {
                sink.abandon().await?;
            }
            applied = self.apply(attempt, tables.clone(), add_only, lease).await;
        }
        let applied = match applied {
            Ok(applied) => applied,
            Err(fault) => {
                self.progress.end();
                return Err(fault);
            }
        };
        let commit = Stopwatch::start();
        let mut receipt = self.commit(attempt, applied, (tables, add_only), lease).await?;
        let read = std::mem::take(&mut self.read);
        receipt.files_read = read.files;
        receipt.files_dropped = attempt.sources.values().map(|input| input.dropped.len() as u64).sum();
        let files = parts.lacking.iter().map(|(source, version)| format!("{source}: {}", version.path));
        receipt.lacking = attempt.unseen.iter().cloned().chain(files).take(NAMED_REJECTS).collect();
        receipt.rejected_rows += read.rejected_rows;
        name_rejects(&mut receipt, read.rejected);
        for (phase, ms) in [("read", read_ms), ("commit", commit.ms()), ("total", whole.ms())] {
            receipt.ms.insert(phase.into(), ms);
        }
        self.progress.end();
        self.keep_only(attempt);
        let ready = self.ready.as_ref().ok_or_else(not_ready)?;
        let spec = if self.stored.as_ref() == Some(&ready.spec) { None } else { Some(ready.spec.to_log()?) };
        Ok(Executed::Committed(Box::new(Committed { receipt, spec, outgrown: self.outgrown.get() })))
    }

    async fn traces(&mut self, void: &[Sequence]) -> Result<bool, Fault> {
        match &self.sink {
            Some(sink) => sink.traces(void).await,
            None => self.home.traces(&self.generation, void).await,
        }
    }

    fn recorded(&mut self) {
        self.stored = self.ready.as_ref().map(|ready| ready.spec.clone());
    }

    async fn stamp(&mut self) -> Result<Option<Stamp>, Fault> {
        let as_of = match &mut self.sink {
            Some(sink) => {
                // What an attempt left behind may hold the stamp.
                sink.abandon().await?;
                sink.as_of().await?
            }
            None => {
                self.home.settle(&self.generation).await?;
                self.home.searcher(&self.generation).await?.as_of().await?.map(|(as_of, _)| as_of)
            }
        };
        let stamp = as_of.map(|as_of| as_of.stamp);
        self.told = Some(stamp);
        Ok(stamp)
    }

    fn is_current(&self) -> bool {
        self.stored.as_ref().is_none_or(|spec| spec.definition == definition(&self.config))
    }

    fn reads_watermark(&self) -> bool {
        match (&self.ready, &self.stored) {
            (Some(ready), _) => ready.compiled.reads_watermark,
            (None, stored) => stored.as_ref().is_some_and(|spec| spec.reads_watermark),
        }
    }
}

impl Engine {
    /// Drops parts that no table holds any more.
    fn keep_only(&mut self, attempt: &Attempt) {
        let mut live: HashMap<&SourceName, HashSet<&FileVersion>> = HashMap::new();
        for (name, input) in &attempt.sources {
            let versions = live.entry(name).or_default();
            versions.extend(input.live.values());
        }
        self.cache.retain(|name, version| live.get(name).is_some_and(|versions| versions.contains(version)));
        self.gone.retain(|(name, version)| live.get(name).is_some_and(|versions| versions.contains(version)));
    }
}

/// The version that this one replaces.
fn former_of<'a>(input: &'a SourceInput, version: &FileVersion) -> Option<&'a FileVersion> {
    input.dropped.iter().find(|former| former.path == version.path)
}

fn set_aside(source: &SourceName, version: &FileVersion, reason: String, since: Timestamp) -> Quarantined {
    Quarantined { source: source.clone(), version: version.clone(), reason, since, attempts: 1 }
}

fn not_ready() -> Fault {
    Fault::Internal("the engine was asked for documents before it was ready".into())
}
