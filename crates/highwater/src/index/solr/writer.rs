//! The writer: batches on their way into a collection, and the commit that shows them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use highwater_core::Sequence;
use highwater_core::lease::Lease;
use highwater_core::ports::{Clock, Fault};
use jiff::SignedDuration;
use serde_json::json;

use super::client::{Ask, Client, Trouble};
use super::convert;
use super::fields::{CHAIN, Column, DELETED, ID, SEQUENCE, STAMP};
use super::reading::Stamped;
use super::tombstones::{self, Mark, Session};
use crate::clock::SystemClock;
use crate::index::bulk::{Answer, Outcome, Patience, Transport, deliver};
use crate::index::{AsOf, Change, Refused};
use crate::task;

/// How many requests are under way at once; of a generation that readers do not see, one.
const REQUESTS_AT_ONCE: usize = 4;
/// How many requests are made while others are under way.
const REQUESTS_AHEAD: usize = 2;
/// How many changes a request carries at most, and how many bytes of documents before it is sent.
const CHANGES_A_REQUEST: usize = 1_024;
const BYTES_A_REQUEST: usize = 5_000_000;
/// A version is a batch's number, then which of its calls wrote: an id that a batch writes twice ends as written last.
const CALLS_A_BATCH: u32 = 20;
const JSON: &str = "application/json";

/// What is to be committed next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Staged {
    Nothing,
    Batch(Sequence),
    /// A failure left a part of a batch in the collection.
    Part,
}

pub(super) struct Writer {
    client: Arc<Client>,
    pipeline: String,
    columns: Arc<BTreeMap<String, Column>>,
    at_once: usize,
    patience: Patience,
    staged: Staged,
    /// The highest version that was ever used.
    version: i64,
    committed: Option<Stamped>,
    /// The last batch before this writer's, and when it began by the monotonic clock.
    begun_after: Option<Sequence>,
    begun: Duration,
    tombstones_kept: SignedDuration,
}

impl Writer {
    pub(super) fn new(
        client: Arc<Client>,
        pipeline: &str,
        columns: BTreeMap<String, Column>,
        version: i64,
        committed: Option<Stamped>,
    ) -> Self {
        Self {
            client,
            pipeline: pipeline.to_owned(),
            columns: Arc::new(columns),
            at_once: REQUESTS_AT_ONCE,
            patience: Patience::default(),
            staged: Staged::Nothing,
            version,
            begun_after: committed.as_ref().map(|stamped| stamped.as_of.stamp.sequence),
            committed,
            begun: SystemClock.monotonic(),
            tombstones_kept: tombstones::KEPT,
        }
    }

    /// Has one request under way at a time.
    pub(super) fn be_modest(&mut self) {
        self.at_once = 1;
    }

    #[cfg(test)]
    pub(super) fn keep_tombstones(&mut self, kept: SignedDuration) {
        self.tombstones_kept = kept;
    }

    #[cfg(test)]
    pub(super) fn be_patient(&mut self, patience: Patience) {
        self.patience = patience;
    }

    pub(super) async fn stage(
        &mut self,
        sequence: Sequence,
        changes: Vec<Change>,
        lease: &dyn Lease,
    ) -> Result<Vec<Refused>, Fault> {
        match self.staged {
            Staged::Batch(staged) if staged != sequence => {
                return Err(Fault::Internal(format!(
                    "batch {sequence} was staged onto batch {staged}, which was neither committed nor abandoned"
                )));
            }
            Staged::Part => return Err(lost()),
            Staged::Batch(_) | Staged::Nothing => {}
        }
        let version = self.next_version(sequence)?;
        self.staged = Staged::Part;
        let (client, patience) = (&*self.client, self.patience);
        let delivered: Vec<_> = stream::iter(requests(changes))
            .map(|changes| encode(self.columns.clone(), (sequence, version), changes))
            .buffered(REQUESTS_AHEAD)
            .map(|encoded| async move {
                let (changes, entries) = encoded?;
                deliver(&Wire { client, entries }, &SystemClock, lease, patience, sequence, changes).await
            })
            .buffered(self.at_once)
            .try_collect()
            .await?;
        self.staged = Staged::Batch(sequence);
        Ok(delivered.into_iter().flat_map(|delivered| delivered.refused).collect())
    }

    pub(super) async fn commit(&mut self, as_of: &AsOf, lease: &dyn Lease) -> Result<(), Fault> {
        let sequence = as_of.stamp.sequence;
        match self.staged {
            Staged::Part => return Err(lost()),
            Staged::Nothing if self.committed.as_ref().is_some_and(|stamped| stamped.as_of == *as_of) => return Ok(()),
            Staged::Batch(staged) if staged != sequence => {
                return Err(Fault::Internal(format!(
                    "batch {staged} was staged and batch {sequence} is to be committed"
                )));
            }
            Staged::Nothing | Staged::Batch(_) => {}
        }
        let version = self.next_version(sequence)?;
        self.staged = Staged::Part;
        let marks = self.purge(sequence, lease).await?;
        let stamped = Stamped { format: 1, pipeline: self.pipeline.clone(), as_of: as_of.clone(), marks };
        let text = serde_json::to_string(&stamped)
            .map_err(|error| Fault::Internal(format!("the stamp cannot be written: {error}")))?;
        let body = format!("[{}]", convert::stamp(sequence, version, &text));
        // Only now: whoever sees the stamp is to see the documents.
        self.insist(lease, || self.client.update(body.clone())).await?;
        self.insist(lease, || self.client.make_visible()).await?;
        match self.client.stamp().await? {
            Some(seen) if seen == stamped => {}
            Some(seen) if seen.as_of.stamp.sequence > sequence => {
                return Err(Fault::Fenced(format!(
                    "{} was stamped with batch {} by another writer, beyond batch {sequence}",
                    self.client.place(),
                    seen.as_of.stamp.sequence
                )));
            }
            _ => {
                return Err(Fault::Unavailable(format!(
                    "{} does not show the stamp of batch {sequence} after its commit",
                    self.client.place()
                )));
            }
        }
        self.staged = Staged::Nothing;
        self.committed = Some(stamped);
        Ok(())
    }

    /// Takes tombstones away that no writer can be behind, where it is time to. The marks that the stamp is to carry.
    async fn purge(&self, sequence: Sequence, lease: &dyn Lease) -> Result<Vec<Mark>, Fault> {
        let marks = self.committed.as_ref().map_or(&[][..], |stamped| &stamped.marks);
        let age = SignedDuration::try_from(SystemClock.monotonic().saturating_sub(self.begun)).unwrap_or_default();
        let session = Session { begun_after: self.begun_after, age };
        let batch = (sequence, SystemClock.now());
        let (next, purged) = tombstones::advance(marks, batch, session, self.tombstones_kept);
        let Some(purged) = purged else { return Ok(next) };
        lease.check()?;
        match self.client.purge(purged).await {
            Ok(()) => Ok(next),
            Err(trouble) => {
                let error = self.client.fault(trouble);
                tracing::warn!(%error, "old tombstones could not be taken away; the next batch tries again");
                Ok(marks.to_vec())
            }
        }
    }

    pub(super) async fn abandon(&mut self) -> Result<(), Fault> {
        if self.staged == Staged::Nothing {
            return Ok(());
        }
        self.staged = Staged::Part;
        self.client.make_visible().await.map_err(|trouble| self.client.fault(trouble))?;
        self.committed = self.client.stamp().await?;
        self.staged = Staged::Nothing;
        Ok(())
    }

    /// Greater than every version before it, in the room of the batch.
    fn next_version(&mut self, sequence: Sequence) -> Result<i64, Fault> {
        let room = i64::try_from(sequence.0).ok().and_then(|number| number.checked_mul(1 << CALLS_A_BATCH));
        let room = room.ok_or_else(|| Fault::Internal(format!("the batch's number {sequence} is too large")))?;
        let version = room.max(self.version + 1);
        let holds = version >> CALLS_A_BATCH;
        if holds > room >> CALLS_A_BATCH {
            return Err(Fault::Fenced(format!(
                "{} holds changes of batch {holds}, and this is batch {sequence}: another writer has it; or, if the \
                 pipeline's state was lost, name a new collection",
                self.client.place()
            )));
        }
        self.version = version;
        Ok(version)
    }

    /// Sends what changes nothing when it is sent twice, until it is done or patience ends.
    async fn insist<F: Future<Output = Result<(), Trouble>>>(
        &self,
        lease: &dyn Lease,
        send: impl Fn() -> F,
    ) -> Result<(), Fault> {
        let mut pause = self.patience.first_pause;
        for _ in 0..self.patience.tries {
            lease.check()?;
            let Err(trouble) = send().await else { return Ok(()) };
            match self.client.answer(trouble) {
                Answer::Later { reason, after } => {
                    tracing::warn!(reason, "the index is asked again");
                    pause = after.map_or(pause, |after| after.max(pause)).min(self.patience.longest_pause);
                }
                Answer::Fatal(fault) => return Err(fault),
                Answer::Whole(reason) => return Err(Fault::Internal(format!("the stamp was refused: {reason}"))),
                Answer::Each(_) => return Err(self.client.odd()),
            }
            SystemClock.sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
        lease.check()?;
        send().await.map_err(|trouble| self.client.fault(trouble))
    }
}

impl Client {
    /// Sends documents, each so that an older version never replaces a newer one.
    async fn update(&self, body: String) -> Result<(), Trouble> {
        let path = format!("/{}/update", self.collection());
        // A tolerant chain of others would tell of errors within a success, and not of their kind.
        let query = [("update.chain", CHAIN), ("maxErrors", "0")];
        self.json(Ask::post(path, &query, JSON, body)).await.map(drop)
    }

    /// Takes away the tombstones of a batch and of all before it. It shows with the next commit.
    async fn purge(&self, up_to: Sequence) -> Result<(), Trouble> {
        let query = format!("+{DELETED}:true +{SEQUENCE}:[* TO {up_to}] -{ID}:{STAMP}");
        self.update(json!({"delete": {"query": query}}).to_string()).await
    }
}

/// Changes as requests carry them.
fn requests(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let (mut requests, mut request, mut bytes) = (Vec::new(), Vec::new(), 0);
    for change in changes {
        // A document stands in its request twice: whole, and field by field.
        let size = match &change {
            Change::Upsert(document) => document.id.len() + 2 * document.json.len(),
            Change::Delete(id) => id.len(),
        };
        if !request.is_empty() && (request.len() == CHANGES_A_REQUEST || bytes + size > BYTES_A_REQUEST) {
            requests.push(std::mem::take(&mut request));
            bytes = 0;
        }
        bytes += size;
        request.push(change);
    }
    if !request.is_empty() {
        requests.push(request);
    }
    requests
}

/// Changes as they are sent, by id; or why the index cannot take one.
type Entries = HashMap<Box<str>, Result<Box<str>, String>>;

/// Writes a request's changes down, on a thread of its own: others are sent meanwhile.
async fn encode(
    columns: Arc<BTreeMap<String, Column>>,
    (sequence, version): (Sequence, i64),
    changes: Vec<Change>,
) -> Result<(Vec<Change>, Entries), Fault> {
    task::blocking(move || {
        let entry = |change: &Change| convert::entry(&columns, sequence, version, change);
        let written = |change: &Change| entry(change).map(|entry| entry.to_string().into_boxed_str());
        let entries = changes.iter().map(|change| (change.id().into(), written(change))).collect();
        (changes, entries)
    })
    .await
}

/// One request of a batch, and what is sent again of it.
///
/// A bad document fails its request, and is found by halving it. Solr's tolerant processor would name it at once, and
/// answers with a success where a shard was out of reach and its documents are lost.
struct Wire<'a> {
    client: &'a Client,
    entries: Entries,
}

#[async_trait]
impl Transport for Wire<'_> {
    async fn send(&self, _sequence: Sequence, changes: &[&Change]) -> Answer {
        let (mut body, mut outcomes) = (String::from("["), Vec::with_capacity(changes.len()));
        for change in changes {
            match self.entries.get(change.id()) {
                None => return Answer::Fatal(Fault::Internal("a change was never written down".into())),
                Some(Err(reason)) => outcomes.push(Outcome::Refused(reason.clone())),
                Some(Ok(entry)) => {
                    if body.len() > 1 {
                        body.push(',');
                    }
                    body.push_str(entry);
                    outcomes.push(Outcome::Done);
                }
            }
        }
        body.push(']');
        if body.len() > 2
            && let Err(trouble) = self.client.update(body).await
        {
            return self.client.answer(trouble);
        }
        Answer::Each(outcomes)
    }
}

fn lost() -> Fault {
    Fault::Internal("a failure left a part of the batch: abandon it and stage the batch again".to_owned())
}
