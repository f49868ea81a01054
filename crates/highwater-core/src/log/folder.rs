//! A folder of numbered objects in an object store, and the one place that decides what is tried again; knows nothing
//! of what the objects say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode};

use super::LogError;
use super::record::Sequence;
use crate::ports::{Clock, root_cause};

/// How often one request is tried.
pub(super) const TRIES: u32 = 5;

/// What became of a create.
pub(super) enum Created {
    /// Our bytes stand under the number.
    Ours,
    /// These bytes of another do.
    Taken(Bytes),
}

/// Objects named `<20-digit number>.json` directly below one path; all else there is foreign and not seen.
#[derive(Clone)]
pub(super) struct Folder {
    store: Arc<dyn ObjectStore>,
    path: Path,
    clock: Arc<dyn Clock>,
}

impl Folder {
    pub fn new(store: Arc<dyn ObjectStore>, path: Path, clock: Arc<dyn Clock>) -> Self {
        Self { store, path, clock }
    }

    /// Where a number's object stands.
    pub fn place(&self, number: Sequence) -> Path {
        self.path.clone().join(number.object_name())
    }

    /// Waits before the `round`-th repetition, counted from 1.
    pub async fn pause(&self, round: u32) {
        self.clock.sleep(Duration::from_millis(50 << round.min(8))).await;
    }

    /// Every number in use. Stores disagree on the order of keys and on what start-after skips, so all of it is listed.
    pub async fn numbers(&self) -> Result<BTreeSet<Sequence>, LogError> {
        let mut round = 0;
        loop {
            let listed: Result<Vec<_>, _> = self.store.list(Some(&self.path)).try_collect().await;
            match listed {
                Ok(objects) => {
                    return Ok(objects.iter().filter_map(|object| self.number_of(&object.location)).collect());
                }
                Err(StoreError::NotFound { .. }) => return Ok(BTreeSet::new()),
                Err(error) => round = self.again(round, &self.path, &error).await?,
            }
        }
    }

    /// The object's bytes; `None` if there is none.
    pub async fn get(&self, number: Sequence) -> Result<Option<Bytes>, LogError> {
        let place = self.place(number);
        let mut round = 0;
        loop {
            match self.read_whole(&place).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(StoreError::NotFound { .. }) => return Ok(None),
                Err(error) => round = self.again(round, &place, &error).await?,
            }
        }
    }

    /// Puts `bytes` under a free number. A reply is not believed unless it is a plain success: "already exists" may be
    /// our own put whose first reply was lost, or a refusal with nothing written; a time-out may have been a success.
    /// What stands there decides.
    pub async fn create(&self, number: Sequence, bytes: &Bytes) -> Result<Created, LogError> {
        let place = self.place(number);
        let mut round = 0;
        loop {
            let Err(error) = self.store.put_opts(&place, bytes.clone().into(), PutMode::Create.into()).await else {
                return Ok(Created::Ours);
            };
            match self.get(number).await? {
                Some(found) if found == *bytes => return Ok(Created::Ours),
                // The beginning of ours is an answer that was cut short, whatever length it claimed.
                Some(found) if bytes.starts_with(&found) && round + 1 < TRIES => {
                    round += 1;
                    self.pause(round).await;
                }
                Some(found) => return Ok(Created::Taken(found)),
                None => round = self.again(round, &place, &error).await?,
            }
        }
    }

    /// Removes objects, those that are gone already included; returns how many were there.
    pub async fn delete(&self, numbers: Vec<Sequence>) -> Result<u64, LogError> {
        let places: Vec<_> = numbers.into_iter().map(|number| Ok(self.place(number))).collect();
        let mut deleted = self.store.delete_stream(stream::iter(places).boxed());
        let mut count = 0;
        while let Some(outcome) = deleted.next().await {
            match outcome {
                Ok(_) => count += 1,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(self.refused(&self.path, &error)),
            }
        }
        Ok(count)
    }

    fn number_of(&self, location: &Path) -> Option<Sequence> {
        let mut parts = location.prefix_match(&self.path)?;
        let name = parts.next()?;
        if parts.next().is_some() {
            return None;
        }
        Sequence::from_object_name(name.as_ref())
    }

    /// A body that ends early is a failed read, not a damaged object.
    async fn read_whole(&self, place: &Path) -> object_store::Result<Bytes> {
        let found = self.store.get(place).await?;
        let expected = found.meta.size;
        let bytes = found.bytes().await?;
        if bytes.len() as u64 == expected {
            return Ok(bytes);
        }
        let reason = format!("{} of {expected} bytes arrived", bytes.len());
        Err(StoreError::Generic { store: "log", source: reason.into() })
    }

    /// Waits for the next round, or gives up.
    async fn again(&self, round: u32, place: &Path, error: &StoreError) -> Result<u32, LogError> {
        if round + 1 >= TRIES || !passing(error) {
            return Err(self.refused(place, error));
        }
        self.pause(round + 1).await;
        Ok(round + 1)
    }

    fn refused(&self, place: &Path, error: &StoreError) -> LogError {
        let (object, reason) = (format!("{place} of {}", self.store), root_cause(error));
        if unusable(error) { LogError::Unusable { object, reason } } else { LogError::Unavailable { object, reason } }
    }
}

/// True if the same request may succeed a moment later.
fn passing(error: &StoreError) -> bool {
    !unusable(error) && !matches!(error, StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. })
}

fn unusable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotSupported { .. }
            | StoreError::NotImplemented { .. }
            | StoreError::InvalidPath { .. }
            | StoreError::UnknownConfigurationKey { .. }
    )
}
