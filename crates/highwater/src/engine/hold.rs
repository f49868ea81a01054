//! This process's hold on a pipeline: a lock, a heartbeat, or the user's promise. Knows nothing of batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use highwater_core::driver::Session;
use highwater_core::lease::{FolderLock, HeartbeatLease, Holder, Lease, Patience, Taker, Terms, Unguarded, Wait};
use highwater_core::log::{ObjectLog, Writer, WriterId, claim};
use highwater_core::ports::{Clock, Fault};
use jiff::SignedDuration;
use tokio::task::JoinHandle;

use crate::config::{Config, Location};
use crate::nonce::nonce;
use crate::store::open_state;
use crate::task;

/// How often a lock is tried while another process has it.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// How long telling the next writer that it need not wait may take.
const FAREWELL: Duration = Duration::from_millis(800);

/// Takes a pipeline and lets go of it; one at a time.
pub struct Hold {
    pipeline: String,
    kind: Kind,
    clock: Arc<dyn Clock>,
    patience: Patience,
}

enum Kind {
    Lock { folder: PathBuf, lock: Option<Arc<FolderLock>> },
    Beats { taker: Box<Taker>, beating: Option<Beating> },
    Promised,
}

/// A lease whose beats go on in the background.
struct Beating {
    lease: Arc<HeartbeatLease>,
    task: JoinHandle<Fault>,
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hold {
    /// Holds nothing yet. `clock` is the machine's own.
    pub fn new(config: &Config, clock: Arc<dyn Clock>, patience: Patience) -> Result<Self, Fault> {
        let pipeline = &config.pipeline;
        let kind = match &pipeline.state {
            Location::Folder(state) => Kind::Lock { folder: state.join(&pipeline.name), lock: None },
            Location::S3 { .. } if pipeline.single_writer && patience == Patience::Wait => {
                return Err(Fault::Invalid(
                    "a standby cannot know when `single_writer = true` lets it write; take that key out".into(),
                ));
            }
            Location::S3 { .. } if pipeline.single_writer => Kind::Promised,
            state @ Location::S3 { .. } => {
                let (store, root) = open_state(state, &config.stores)?;
                let max_skew = config.sources.values().map(|source| source.max_skew).max();
                let terms = Terms { lease: pipeline.lease, max_skew: max_skew.unwrap_or(SignedDuration::MAX) };
                let taker = Taker::new(store, root.join(pipeline.name.as_str()), clock.clone(), terms);
                Kind::Beats { taker: Box::new(taker), beating: None }
            }
        };
        Ok(Self { pipeline: pipeline.name.clone(), kind, clock, patience })
    }

    /// Returns once no other process holds the pipeline; where patience has an end, [`Fault::Fenced`] names who does.
    pub async fn free(&mut self, tell: &mut (dyn FnMut(&Wait) + Send)) -> Result<(), Fault> {
        let holder = holder(&*self.clock);
        let (folder, lock) = match &mut self.kind {
            Kind::Promised => return Ok(()),
            Kind::Beats { taker, .. } => return taker.free(self.patience, tell).await,
            Kind::Lock { lock: Some(_), .. } => return Ok(()),
            Kind::Lock { folder, lock } => (folder, lock),
        };
        loop {
            match FolderLock::acquire(folder, &holder) {
                Err(error) => return Err(Fault::Unavailable(format!("the state folder cannot be locked: {error}"))),
                Ok(Ok(taken)) => {
                    *lock = Some(Arc::new(taken));
                    return Ok(());
                }
                Ok(Err(held)) if self.patience == Patience::Refuse => {
                    return Err(Fault::Fenced(format!("the pipeline {} is {held}", self.pipeline)));
                }
                Ok(Err(held)) => tell(&Wait::Standby(held)),
            }
            self.clock.sleep(TRY_EVERY).await;
        }
    }

    /// Takes the pipeline and claims its log; a session of ours before this one is over. `now` is the batch's clock.
    pub async fn take(
        &mut self,
        log: &ObjectLog,
        now: &dyn Clock,
        tell: &mut (dyn FnMut(&Wait) + Send),
    ) -> Result<(Session, ObjectLog), Fault> {
        let holder = holder(&*self.clock);
        let writer = Writer {
            id: WriterId(nonce().into()),
            holder: format!("host {}, process {}", holder.host, holder.pid),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        if let Kind::Lock { .. } = self.kind {
            self.free(tell).await?;
        }
        match &mut self.kind {
            Kind::Lock { lock, .. } => {
                let lock = lock.clone().ok_or_else(|| Fault::Internal("a lock was taken and is not there".into()))?;
                let log = log.clone().leased(lock.clone());
                let claimed = claim(&log, now.now(), &writer).await?;
                Ok((Session { claimed, exclusive: true, lease: lock }, log))
            }
            Kind::Beats { taker, beating } => {
                *beating = None;
                let (claimed, lease) = taker.take(now, &writer, &holder, self.patience, tell).await?;
                let kept = lease.clone();
                *beating = Some(Beating { lease: lease.clone(), task: task::spawn(async move { kept.keep().await }) });
                let log = log.clone().leased(lease.clone());
                Ok((Session { claimed, exclusive: false, lease }, log))
            }
            Kind::Promised => {
                let claimed = claim(log, now.now(), &writer).await?;
                let lease: Arc<dyn Lease> = Arc::new(Unguarded);
                Ok((Session { claimed, exclusive: false, lease }, log.clone()))
            }
        }
    }

    /// Lets go in order, so that the next writer need not wait. Only where nothing of a batch is under way any more.
    pub async fn release(&mut self) {
        match &mut self.kind {
            Kind::Promised => {}
            Kind::Lock { lock, .. } => *lock = None,
            Kind::Beats { beating, .. } => {
                let Some(beating) = beating.take() else { return };
                beating.task.abort();
                let failed = tokio::select! {
                    ended = beating.lease.end() => ended.err().map(|fault| fault.to_string()),
                    () = self.clock.sleep(FAREWELL) => Some("no answer in time".to_owned()),
                };
                if let Some(reason) = failed {
                    tracing::warn!(reason, "the lease could not be given back; the next writer waits it out");
                }
            }
        }
    }
}

fn holder(clock: &dyn Clock) -> Holder {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "unknown" } else { host.trim() };
    Holder { host: host.to_owned(), pid: std::process::id(), since: clock.now() }
}
