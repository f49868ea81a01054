//! Taking a pipeline whose state is in an object store: who beats there is left alone; who does not beat any more is
//! waited out. `docs/decisions/0005-heartbeat.md` has the argument why no two writers are inside a lease at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::SignedDuration;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use super::beating::HeartbeatLease;
use super::{HeldBy, Holder, probe, unavailable};
use crate::log::{Claimed, LogError, ObjectLog, Sequence, Writer, WriterId, claim_next};
use crate::ports::{Clock, Fault};

/// The heartbeat's object below the pipeline's folder.
pub const HEARTBEAT: &str = "heartbeat.json";
/// The format that this build writes.
const FORMAT: u32 = 1;
/// Two machines' seconds differ by less than this part: holders give up so much earlier, takers wait so much longer.
const MARGIN: u32 = 10;
/// Beats in one lease.
const BEATS: u32 = 3;
/// How often a heartbeat is read that makes no sense.
const READS: u32 = 3;
/// The longest pause between two looks at a heartbeat.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many starters may be faster, one after another.
const TRIES: u32 = 8;

/// What the heartbeat's object says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beat {
    pub format: u32,
    /// As in the log.
    pub writer: WriterId,
    pub holder: Holder,
    /// Counts up: it is the change that tells a live writer from a dead one.
    pub beat: u64,
    pub lease_ms: u64,
    /// The writer ended in order, and holds nothing any more.
    pub ended: bool,
}

impl Beat {
    pub fn new(writer: WriterId, holder: Holder, beat: u64, lease: Duration, ended: bool) -> Self {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        Self { format: FORMAT, writer, holder, beat, lease_ms, ended }
    }

    pub fn to_bytes(&self) -> Result<Bytes, Fault> {
        let text = serde_json::to_vec_pretty(self);
        text.map(Bytes::from).map_err(|error| Fault::Internal(format!("a heartbeat cannot be written: {error}")))
    }
}

/// By which rules a lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a beat holds.
    pub lease: Duration,
    /// How far our clock may be ahead of the store's.
    pub max_skew: SignedDuration,
}

impl Terms {
    /// How long after it was sent a beat holds, by the holder's clock.
    pub fn holds(&self) -> Duration {
        self.lease - self.lease / MARGIN
    }

    /// How long a taker waits, by its own.
    pub fn outlasts(&self) -> Duration {
        self.lease + self.lease / MARGIN
    }

    /// The pause between two beats.
    pub fn every(&self) -> Duration {
        self.lease / BEATS
    }
}

/// What a taker does about a holder that beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Gives way: [`Fault::Fenced`].
    Refuse,
    /// Waits until it is gone.
    Wait,
}

/// What a taker waits for, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Whether the last holder still beats.
    Unsure {
        /// Who it is.
        held: HeldBy,
        /// At most so long.
        at_most: Duration,
    },
    /// It beats: until it does not.
    Standby(HeldBy),
    /// The pipeline is claimed; a writer that was fenced by that may be inside its lease still.
    Out {
        /// Exactly so long.
        length: Duration,
    },
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsure { held, at_most } => {
                write!(f, "waiting up to {} s for the lease of the last writer ({held})", seconds(*at_most))
            }
            Self::Standby(held) => write!(f, "standby: the pipeline is {held}"),
            Self::Out { length } => {
                write!(f, "waiting {} s: a former writer's lease may last so long", seconds(*length))
            }
        }
    }
}

fn seconds(length: Duration) -> u64 {
    length.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

/// The object as it was read.
#[derive(Clone, Debug)]
struct Seen {
    bytes: Bytes,
    modified_ms: i64,
    /// `None`: damaged, or of a newer format.
    beat: Option<Beat>,
    /// When it was first read so, by the monotonic clock, after the reply.
    since: Duration,
}

impl Seen {
    fn same(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.modified_ms == other.modified_ms
    }

    fn held(&self) -> HeldBy {
        HeldBy(self.beat.as_ref().map(|beat| beat.holder.clone()))
    }
}

/// Takes one pipeline, any number of times one after another, for one process.
pub struct Taker {
    store: Arc<dyn ObjectStore>,
    root: Path,
    clock: Arc<dyn Clock>,
    log: ObjectLog,
    terms: Terms,
    /// Every id that this process claimed with.
    own: Vec<WriterId>,
    seen: Option<Seen>,
    given: Option<Arc<HeartbeatLease>>,
}

impl Taker {
    /// For the pipeline whose folder is `root`. `clock` is the machine's own, never a batch's.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, clock: Arc<dyn Clock>, terms: Terms) -> Self {
        let log = ObjectLog::new(store.clone(), root.clone(), clock.clone());
        Self { store, root, clock, log, terms, own: Vec::new(), seen: None, given: None }
    }

    /// Returns once nobody else beats, or with [`Fault::Fenced`] as soon as somebody is seen to, where `patience` says
    /// so. Takes nothing. What was seen is kept: a second call does not wait again.
    pub async fn free(&mut self, patience: Patience, tell: &mut (dyn FnMut(&Wait) + Send)) -> Result<(), Fault> {
        loop {
            let beats = self.look().await?;
            let Some(seen) = self.seen.as_ref().filter(|seen| !self.is_over(seen)) else { return Ok(()) };
            let (age, outlasts) = (self.clock.monotonic().saturating_sub(seen.since), self.outlasts(Some(seen)));
            if age >= outlasts {
                return Ok(());
            }
            match patience {
                Patience::Refuse if beats => return Err(Fault::Fenced(format!("the pipeline is {}", seen.held()))),
                Patience::Refuse => tell(&Wait::Unsure { held: seen.held(), at_most: outlasts }),
                Patience::Wait => tell(&Wait::Standby(seen.held())),
            }
            let pause = (self.terms.lease / 10).min(LOOK_EVERY).min(outlasts - age);
            self.clock.sleep(pause).await;
        }
    }

    /// Claims the log under `writer`'s id once nobody beats, and begins to hold the lease. The lease that was given
    /// before is over. `now` is the batch's clock, for the claim's record. [`Fault::Invalid`] where the store or this
    /// machine's clock is not fit for it.
    pub async fn take(
        &mut self,
        now: &dyn Clock,
        writer: &Writer,
        holder: &Holder,
        patience: Patience,
        tell: &mut (dyn FnMut(&Wait) + Send),
    ) -> Result<(Claimed, Arc<HeartbeatLease>), Fault> {
        if let Some(former) = self.given.take() {
            former.give_up();
        }
        let mut tries = 0;
        loop {
            self.free(patience, tell).await?;
            probe(&*self.store, &self.root, &writer.id).await?;
            let before = self.seen.clone();
            if !self.own.contains(&writer.id) {
                self.own.push(writer.id.clone());
            }
            let Some(claimed) = claim_next(&self.log, now.now(), writer).await? else {
                tries += 1;
                self.lost_race(patience, tries).await?;
                continue;
            };
            self.wait_out(&claimed, before.as_ref(), tell).await?;
            let lease = HeartbeatLease::new(
                (self.store.clone(), self.root.clone().join(HEARTBEAT)),
                self.clock.clone(),
                self.log.clone(),
                self.terms,
                Beat::new(writer.id.clone(), holder.clone(), 0, self.terms.lease, false),
                claimed.epoch,
            );
            let lease = Arc::new(lease);
            match lease.beat().await {
                Ok(()) => {
                    self.given = Some(lease.clone());
                    return Ok((claimed, lease));
                }
                Err(Fault::Fenced(_)) if patience == Patience::Wait => self.step_back().await,
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Another writer got the number: it is left in peace, if it is not an earlier self of ours.
    async fn lost_race(&mut self, patience: Patience, tries: u32) -> Result<(), Fault> {
        if let Some((number, Some(writer))) = self.log.newest_after(Sequence(0)).await?
            && !self.own.contains(&writer)
        {
            if patience == Patience::Refuse {
                return Err(Fault::Fenced(format!("another writer took record {number} of the log just now")));
            }
            self.step_back().await;
            return Ok(());
        }
        if tries >= TRIES {
            return Err(LogError::Contended { tries }.into());
        }
        self.clock.sleep(self.terms.every()).await;
        Ok(())
    }

    /// Gives a faster starter time to begin to beat.
    async fn step_back(&mut self) {
        self.clock.sleep(self.terms.outlasts()).await;
        if let Some(seen) = &mut self.seen {
            seen.since = self.clock.monotonic();
        }
    }

    /// The claim stands: no lease can be renewed any more but by a beat that was sent, and landed, before it. Where it is
    /// not known that all of those are over, it takes one lease from now.
    async fn wait_out(
        &mut self,
        claimed: &Claimed,
        before: Option<&Seen>,
        tell: &mut (dyn FnMut(&Wait) + Send),
    ) -> Result<(), Fault> {
        let claimed_at = self.clock.monotonic();
        self.look().await?;
        let Some(after) = &self.seen else { return Ok(()) };
        // Only the newest claimant's beats are believed: it began to beat when all leases before it were over. Another's
        // may hide those of somebody else.
        let newest = after.beat.as_ref().is_some_and(|beat| claimed.former() == Some(&beat.writer));
        let unchanged = before.is_some_and(|before| before.same(after));
        let outlasts = self.outlasts(Some(after));
        let waited = self.clock.monotonic().saturating_sub(after.since) >= outlasts;
        if newest && unchanged && (waited || self.is_over(after)) {
            return Ok(());
        }
        let length = (claimed_at + outlasts).saturating_sub(self.clock.monotonic());
        tell(&Wait::Out { length });
        self.clock.sleep(length).await;
        Ok(())
    }

    /// Reads the object. True if it is another one than that which was seen before: its writer lives.
    async fn look(&mut self) -> Result<bool, Fault> {
        let Some(mut found) = self.read().await? else {
            self.seen = None;
            return Ok(false);
        };
        match &self.seen {
            Some(seen) if seen.same(&found) => Ok(false),
            seen => {
                let beats = seen.is_some();
                found.since = self.clock.monotonic();
                self.seen = Some(found);
                Ok(beats)
            }
        }
    }

    /// What makes no sense is read again: an answer that was cut short, whatever length it claimed, must not pass for a
    /// beat. A damaged object stays as it is.
    async fn read(&self) -> Result<Option<Seen>, Fault> {
        let mut found = self.read_once().await?;
        for _ in 1..READS {
            if found.as_ref().is_none_or(|seen| seen.beat.is_some()) {
                break;
            }
            found = self.read_once().await?;
        }
        Ok(found)
    }

    async fn read_once(&self) -> Result<Option<Seen>, Fault> {
        let place = self.root.clone().join(HEARTBEAT);
        let found = match self.store.get(&place).await {
            Ok(found) => found,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(unavailable(&place, &error)),
        };
        let (size, modified_ms) = (found.meta.size, found.meta.last_modified.timestamp_millis());
        let bytes = found.bytes().await.map_err(|error| unavailable(&place, &error))?;
        if bytes.len() as u64 != size {
            return Err(Fault::Unavailable(format!("{place}: {} of {size} bytes arrived", bytes.len())));
        }
        let beat = serde_json::from_slice(&bytes).ok().filter(|beat: &Beat| beat.format <= FORMAT);
        Ok(Some(Seen { bytes, modified_ms, beat, since: Duration::ZERO }))
    }

    /// True if its writer said that it ended, or was an earlier self of ours.
    fn is_over(&self, seen: &Seen) -> bool {
        seen.beat.as_ref().is_some_and(|beat| beat.ended || self.own.contains(&beat.writer))
    }

    /// The longest lease that is known of may be another configuration's.
    fn outlasts(&self, seen: Option<&Seen>) -> Duration {
        let theirs = seen.and_then(|seen| seen.beat.as_ref()).map_or(Duration::ZERO, |beat| {
            let lease = Duration::from_millis(beat.lease_ms);
            Terms { lease, ..self.terms }.outlasts()
        });
        theirs.max(self.terms.outlasts())
    }
}
