//! An index in memory: what the other sinks are measured by, and the sink of simulations. Can be told to fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use highwater_core::Sequence;
use highwater_core::lease::Lease;
use highwater_core::ports::Fault;

use crate::index::{
    AsOf, Change, Dump, Found, Hit, MAX_ID_BYTES, Pair, Refused, SearchError, SearchQuery, Searcher, Sink,
    StoredDocument,
};

const DOCUMENTS_A_BLOCK: usize = 1_000;

/// The index: what outlives its sinks. Clones share it.
#[derive(Clone, Default)]
pub struct ModelIndex {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    committed: Arc<Commit>,
    /// The newest sink; older ones are fenced.
    writer: u64,
    stages: u64,
    commits: u64,
    failures: Vec<Failure>,
}

#[derive(Clone, Default)]
struct Commit {
    as_of: Option<AsOf>,
    documents: BTreeMap<Box<str>, StoredDocument>,
}

/// A call of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Sink::stage`].
    Stage,
    /// [`Sink::commit`].
    Commit,
}

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing of it was done.
    Before,
    /// All of it was done, and the reply is lost.
    After,
}

struct Failure {
    call: Call,
    nth: u64,
    when: When,
}

impl ModelIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens it for writing. A sink that was opened before is fenced from now on.
    pub fn sink(&self) -> ModelSink {
        let mut state = self.state();
        state.writer += 1;
        ModelSink { index: self.clone(), writer: state.writer, staged: BTreeMap::new(), sequence: None }
    }

    /// Opens it for reading.
    pub fn searcher(&self) -> ModelSearcher {
        ModelSearcher { index: self.clone() }
    }

    /// Makes the `nth` such call from now on fail once, counted from 1 over all sinks.
    pub fn fail(&self, call: Call, nth: u64, when: When) {
        let mut state = self.state();
        let so_far = match call {
            Call::Stage => state.stages,
            Call::Commit => state.commits,
        };
        state.failures.push(Failure { call, nth: so_far + nth, when });
    }

    /// How often each call was made, failed ones included: stages, commits.
    pub fn calls(&self) -> (u64, u64) {
        let state = self.state();
        (state.stages, state.commits)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn committed(&self) -> Arc<Commit> {
        Arc::clone(&self.state().committed)
    }
}

impl State {
    /// Counts a call, and says how it is to fail.
    fn count(&mut self, call: Call, writer: u64) -> Result<Option<When>, Fault> {
        if writer != self.writer {
            return Err(Fault::Fenced("the model index was opened by another sink".to_owned()));
        }
        let counter = match call {
            Call::Stage => &mut self.stages,
            Call::Commit => &mut self.commits,
        };
        *counter += 1;
        let nth = *counter;
        let found = self.failures.iter().position(|failure| failure.call == call && failure.nth == nth);
        Ok(found.map(|n| self.failures.swap_remove(n).when))
    }
}

/// The model index, open for writing.
pub struct ModelSink {
    index: ModelIndex,
    writer: u64,
    staged: BTreeMap<Box<str>, Option<StoredDocument>>,
    sequence: Option<Sequence>,
}

#[async_trait]
impl Sink for ModelSink {
    async fn as_of(&self) -> Result<Option<AsOf>, Fault> {
        Ok(self.index.committed().as_of.clone())
    }

    async fn count(&self) -> Result<u64, Fault> {
        Ok(self.index.committed().documents.len() as u64)
    }

    async fn pairs(&self) -> Result<BoxStream<'static, Result<Vec<Pair>, Fault>>, Fault> {
        let commit = self.index.committed();
        let pairs: Vec<Pair> = commit
            .documents
            .values()
            .map(|document| Pair { id: document.id.clone(), hash: document.hash, sequence: document.sequence })
            .collect();
        Ok(blocks(pairs))
    }

    async fn stage(
        &mut self,
        sequence: Sequence,
        changes: Vec<Change>,
        _lease: &dyn Lease,
    ) -> Result<Vec<Refused>, Fault> {
        let failure = self.index.state().count(Call::Stage, self.writer)?;
        if failure == Some(When::Before) {
            return Err(told_to_fail(Call::Stage));
        }
        if self.sequence.is_some_and(|staged| staged != sequence) {
            return Err(Fault::Internal(format!("batch {sequence} was staged onto another batch")));
        }
        self.sequence = Some(sequence);
        let mut refused = Vec::new();
        for change in changes {
            match change {
                Change::Delete(id) => {
                    self.staged.insert(id, None);
                }
                Change::Upsert(document) => match problem(&document.id, &document.json) {
                    Some(reason) => refused.push(Refused { id: document.id, reason }),
                    None => {
                        let (id, json, hash) = (document.id, document.json, document.hash);
                        self.staged.insert(id.clone(), Some(StoredDocument { id, json, hash, sequence }));
                    }
                },
            }
        }
        if failure == Some(When::After) { Err(told_to_fail(Call::Stage)) } else { Ok(refused) }
    }

    async fn commit(&mut self, as_of: &AsOf, _lease: &dyn Lease) -> Result<(), Fault> {
        let mut state = self.index.state();
        let failure = state.count(Call::Commit, self.writer)?;
        if failure == Some(When::Before) {
            return Err(told_to_fail(Call::Commit));
        }
        if self.sequence.is_some_and(|staged| staged != as_of.stamp.sequence) {
            return Err(Fault::Internal(format!("batch {} was not the one staged", as_of.stamp.sequence)));
        }
        let mut commit = Commit::clone(&state.committed);
        for (id, document) in std::mem::take(&mut self.staged) {
            match document {
                Some(document) => commit.documents.insert(id, document),
                None => commit.documents.remove(&id),
            };
        }
        commit.as_of = Some(as_of.clone());
        state.committed = Arc::new(commit);
        self.sequence = None;
        if failure == Some(When::After) { Err(told_to_fail(Call::Commit)) } else { Ok(()) }
    }

    async fn abandon(&mut self) -> Result<(), Fault> {
        self.staged.clear();
        self.sequence = None;
        Ok(())
    }
}

fn problem(id: &str, json: &[u8]) -> Option<String> {
    if id.is_empty() {
        return Some("the id is empty".to_owned());
    }
    if id.len() > MAX_ID_BYTES {
        return Some(format!("the id has {} bytes, more than {MAX_ID_BYTES}", id.len()));
    }
    let object: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_slice(json);
    object.err().map(|error| format!("the document is no JSON object: {error}"))
}

fn told_to_fail(call: Call) -> Fault {
    Fault::Unavailable(format!("the model index was told to fail: {call:?}"))
}

fn blocks<T: Send + 'static>(items: Vec<T>) -> BoxStream<'static, Result<Vec<T>, Fault>> {
    stream::iter(items).chunks(DOCUMENTS_A_BLOCK).map(Ok).boxed()
}

/// The model index, open for reading. A query is a part of the document's JSON, as it stands there.
#[derive(Clone)]
pub struct ModelSearcher {
    index: ModelIndex,
}

impl ModelSearcher {
    fn committed(&self) -> Result<(Arc<Commit>, AsOf), SearchError> {
        let commit = self.index.committed();
        let as_of = commit.as_of.clone().ok_or(SearchError::Empty)?;
        Ok((commit, as_of))
    }
}

#[async_trait]
impl Searcher for ModelSearcher {
    async fn search(&self, query: &SearchQuery) -> Result<Found, SearchError> {
        let (commit, as_of) = self.committed()?;
        let wanted = query.query.trim();
        let matches = |document: &&StoredDocument| {
            wanted.is_empty() || wanted == "*" || String::from_utf8_lossy(&document.json).contains(wanted)
        };
        let found: Vec<&StoredDocument> = commit.documents.values().filter(matches).collect();
        let page = found.iter().skip(query.offset).take(query.limit);
        let hits = page.map(|document| Hit { score: 1.0, document: (*document).clone() }).collect();
        Ok(Found { as_of, total: found.len() as u64, hits })
    }

    async fn get(&self, id: &str) -> Result<(Option<StoredDocument>, AsOf), SearchError> {
        let (commit, as_of) = self.committed()?;
        Ok((commit.documents.get(id).cloned(), as_of))
    }

    async fn dump(&self) -> Result<(Option<AsOf>, Dump), Fault> {
        let commit = self.index.committed();
        Ok((commit.as_of.clone(), blocks(commit.documents.values().cloned().collect())))
    }

    async fn as_of(&self) -> Result<Option<(AsOf, u64)>, Fault> {
        let commit = self.index.committed();
        Ok(commit.as_of.clone().map(|as_of| (as_of, commit.documents.len() as u64)))
    }
}
