//! Holding a pipeline whose state is in an object store: a beat now and then, and what it proves.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use jiff::{SignedDuration, Timestamp};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::heartbeat::{Beat, Terms};
use super::{Lease, unavailable};
use crate::log::{ObjectLog, Sequence, fenced};
use crate::ports::{Clock, Fault};

/// A store tells times in whole seconds.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(1);

/// A lease that holds for as long as beats get through. Whoever has it must beat every [`HeartbeatLease::every`], or let
/// [`HeartbeatLease::keep`] do it.
pub struct HeartbeatLease {
    store: Arc<dyn ObjectStore>,
    place: Path,
    clock: Arc<dyn Clock>,
    log: ObjectLog,
    terms: Terms,
    inner: Mutex<Inner>,
}

struct Inner {
    last: Beat,
    /// Until when the lease holds, by the monotonic clock.
    until: Duration,
    /// The newest record of the log that is known to be ours.
    known: Sequence,
    /// Why it will never hold again.
    lost: Option<Fault>,
}

impl HeartbeatLease {
    /// Holds nothing before its first beat.
    pub(super) fn new(
        (store, place): (Arc<dyn ObjectStore>, Path),
        clock: Arc<dyn Clock>,
        log: ObjectLog,
        terms: Terms,
        first: Beat,
        claim: Sequence,
    ) -> Self {
        let inner = Inner { last: first, until: Duration::ZERO, known: claim, lost: None };
        Self { store, place, clock, log, terms, inner: Mutex::new(inner) }
    }

    /// The pause between two beats.
    pub fn every(&self) -> Duration {
        self.terms.every()
    }

    /// One beat: the object is written, then the log is asked whether the pipeline is still ours. Only both together
    /// renew the lease, and it counts from the moment before the first: a beat that hung holds for less. One that failed
    /// changes nothing; another one may be sent at any time, while this one hangs too. [`Fault::Fenced`] and
    /// [`Fault::Invalid`] are final.
    pub async fn beat(&self) -> Result<(), Fault> {
        let (sent, at, beat, known) = {
            let mut inner = self.inner();
            if let Some(lost) = &inner.lost {
                return Err(lost.clone());
            }
            inner.last.beat += 1;
            (self.clock.monotonic(), self.clock.now(), inner.last.clone(), inner.known)
        };
        self.put(&beat).await?;
        self.check_clock(at).await?;
        let newest = self.log.newest_after(known).await?;
        let mut inner = self.inner();
        if let Some((number, writer)) = newest {
            let Some(writer) = writer else {
                return Err(Fault::Unavailable(format!("record {number} of the log cannot be read")));
            };
            if writer != beat.writer {
                return Err(inner.lose(fenced(number)));
            }
            inner.known = inner.known.max(number);
        }
        if let Some(lost) = &inner.lost {
            return Err(lost.clone());
        }
        inner.until = inner.until.max(sent + self.terms.holds());
        Ok(())
    }

    /// Beats until the lease is lost. A beat that hangs is given up for the next one.
    pub async fn keep(&self) -> Fault {
        loop {
            self.clock.sleep(self.every()).await;
            let beat = std::pin::pin!(self.beat());
            let failed = match select(beat, self.clock.sleep(self.every() * 2)).await {
                Either::Left((Ok(()), _)) => continue,
                Either::Left((Err(fault), _)) => fault.to_string(),
                Either::Right(_) => "no answer in time".to_owned(),
            };
            if let Some(lost) = &self.inner().lost {
                return lost.clone();
            }
            tracing::warn!(reason = failed, "a heartbeat did not get through; the next one is tried");
        }
    }

    /// Ends the lease in order: from now on it does not hold, and the next writer need not wait. Only where no request
    /// to the sink is under way any more.
    pub async fn end(&self) -> Result<(), Fault> {
        let beat = {
            let mut inner = self.inner();
            if inner.lost.is_some() {
                return Ok(());
            }
            inner.lose(over());
            Beat { beat: inner.last.beat + 1, ended: true, ..inner.last.clone() }
        };
        self.put(&beat).await
    }

    /// From now on it does not hold. Others wait it out.
    pub fn give_up(&self) {
        self.inner().lose(over());
    }

    async fn put(&self, beat: &Beat) -> Result<(), Fault> {
        let put = self.store.put(&self.place, beat.to_bytes()?.into()).await;
        put.map(drop).map_err(|error| unavailable(&self.place, &error))
    }

    /// Holds our clock at the sending of a beat against the store's at its landing. A store's clock that is ahead of
    /// ours shows as nothing, or as a slow beat.
    async fn check_clock(&self, sent: Timestamp) -> Result<(), Fault> {
        let head = self.store.head(&self.place).await;
        let head = head.map_err(|error| unavailable(&self.place, &error))?;
        let Ok(landed) = Timestamp::from_millisecond(head.last_modified.timestamp_millis()) else { return Ok(()) };
        let ahead = sent.duration_since(landed) - RESOLUTION;
        if ahead <= self.terms.max_skew {
            return Ok(());
        }
        let fault = Fault::Invalid(format!(
            "the clock of this machine said {sent} when the store said {landed}: it is ahead by more than max_skew \
             ({:#}); set the clock right, or allow more with `max_skew`",
            self.terms.max_skew
        ));
        Err(self.inner().lose(fault))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What was first is told.
    fn lose(&mut self, fault: Fault) -> Fault {
        self.lost.get_or_insert(fault).clone()
    }
}

fn over() -> Fault {
    Fault::Fenced("the lease was given back".into())
}

impl Lease for HeartbeatLease {
    fn holds(&self) -> bool {
        self.check().is_ok()
    }

    fn check(&self) -> Result<(), Fault> {
        let inner = self.inner();
        if let Some(lost) = &inner.lost {
            return Err(lost.clone());
        }
        if self.clock.monotonic() < inner.until {
            return Ok(());
        }
        Err(Fault::Unavailable("no heartbeat got through in time: nothing is written until one does".into()))
    }
}

impl fmt::Debug for HeartbeatLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeartbeatLease").field("place", &self.place).field("holds", &self.holds()).finish()
    }
}
