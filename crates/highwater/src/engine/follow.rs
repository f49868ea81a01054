//! A generation that is not live: brought to what the log pins, again and again, beside the batches of the live one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use highwater_core::SourceName;
use highwater_core::generation::GenerationName;
use highwater_core::lease::Lease;
use highwater_core::log::PipelineState;
use highwater_core::ports::{Attempt, Clock, Executed, Executor as _, Fault, SourceInput, Stamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::budget::Share;
use super::executor::Engine;
use super::progress::Progress;
use crate::task::Behind;

/// How long a follower waits after a failure; then twice as long, up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Where a follower stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The batch that it holds, whole.
    pub reached: Option<Stamp>,
    /// How many documents that is.
    pub documents: u64,
    /// Files whose rows are not at hand: while there are any, it is not what the SQL says.
    pub lacking: Vec<String>,
    /// Why its last step failed.
    pub failed: Option<String>,
}

impl Standing {
    /// True if it holds exactly what that batch pinned.
    pub fn is_at(&self, stamp: Stamp) -> bool {
        self.reached == Some(stamp) && self.lacking.is_empty()
    }
}

/// What a follower is to reach.
#[derive(Clone)]
struct Aim {
    state: Arc<PipelineState>,
    lease: Arc<dyn Lease>,
}

/// What followers work with.
pub(super) struct Terms {
    pub behind: Behind,
    pub share: Share,
    pub progress: Arc<dyn Progress>,
    pub clock: Arc<dyn Clock>,
}

/// A follower at work.
pub(super) struct Following {
    aim: Option<watch::Sender<Option<Aim>>>,
    standing: watch::Receiver<Standing>,
    task: Option<JoinHandle<Engine>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Following {
    /// Takes an engine up, whatever it was before.
    pub(super) fn start(name: &GenerationName, mut engine: Engine, terms: &Terms) -> Self {
        let (aim, aims) = watch::channel(None);
        let (stands, standing) = watch::channel(Standing::default());
        let (name, clock) = (name.clone(), terms.clock.clone());
        let (share, progress) = (terms.share, terms.progress.clone());
        let task = terms.behind.spawn(async move {
            if let Err(fault) = engine.assume(share, progress) {
                tracing::warn!(generation = %name, error = %fault, "a generation follows with what it had as the live one");
            }
            follow(&name, engine, aims, &stands, &*clock).await
        });
        Self { aim: Some(aim), standing, task: Some(task) }
    }

    /// True if that batch is what it is to reach, under this lease.
    pub(super) fn aims_at(&self, stamp: Option<Stamp>, lease: &Arc<dyn Lease>) -> bool {
        let is_it = |aim: &Aim| aim.state.stamp == stamp && Arc::ptr_eq(&aim.lease, lease);
        self.aim.as_ref().is_some_and(|aim| aim.borrow().as_ref().is_some_and(is_it))
    }

    /// Has it reach the state's last batch, under this lease.
    pub(super) fn aim(&self, state: &Arc<PipelineState>, lease: &Arc<dyn Lease>) {
        if let Some(aim) = &self.aim {
            aim.send_replace(Some(Aim { state: state.clone(), lease: lease.clone() }));
        }
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Waits until it holds exactly that batch; false if it does not in time.
    pub(super) async fn reaches(&self, stamp: Stamp, limit: Duration, clock: &dyn Clock) -> bool {
        let mut standing = self.standing.clone();
        tokio::select! {
            reached = standing.wait_for(|standing| standing.is_at(stamp)) => reached.is_ok(),
            () = clock.sleep(limit) => false,
        }
    }

    /// Ends it once its step in hand is over, and takes its engine.
    pub(super) async fn end(mut self) -> Result<Engine, Fault> {
        self.aim = None;
        let task = self.task.take().ok_or_else(|| Fault::Internal("a follower was ended twice".into()))?;
        task.await.map_err(|error| Fault::Internal(format!("a follower died: {error}")))
    }

    /// Ends it now, with whatever it was about.
    pub(super) async fn abandon(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            _ = task.await;
        }
    }
}

async fn follow(
    name: &GenerationName,
    mut engine: Engine,
    mut aims: watch::Receiver<Option<Aim>>,
    stands: &watch::Sender<Standing>,
    clock: &dyn Clock,
) -> Engine {
    let mut pause = FIRST_PAUSE;
    loop {
        let aim = aims.borrow_and_update().clone();
        let reached = stands.borrow().reached;
        match aim.filter(|aim| aim.state.stamp.is_some() && aim.state.stamp != reached) {
            None => {
                if aims.changed().await.is_err() {
                    engine.close();
                    return engine;
                }
            }
            Some(aim) => match engine.follow(&aim.state, &*aim.lease).await {
                Ok(standing) => {
                    pause = FIRST_PAUSE;
                    // The merges of a fill end before it counts: no switch waits for them.
                    if reached.is_none() {
                        engine.close();
                    }
                    stands.send_replace(standing);
                }
                Err(fault) => {
                    engine.abandon().await;
                    tracing::warn!(generation = %name, error = %fault, "a generation could not be brought up to date; it is tried again");
                    stands.send_modify(|standing| standing.failed = Some(fault.to_string()));
                    tokio::select! {
                        () = clock.sleep(pause) => {}
                        closed = aims.wait_for(|_| false) => if closed.is_err() { return engine },
                    }
                    pause = (pause * 2).min(LAST_PAUSE);
                }
            },
        }
    }
}

impl Engine {
    /// Makes the index hold what the state's last batch pinned.
    async fn follow(&mut self, state: &PipelineState, lease: &dyn Lease) -> Result<Standing, Fault> {
        let Some(stamp) = state.stamp else { return Ok(Standing::default()) };
        let attempt = Attempt {
            sequence: stamp.sequence,
            clock: state.clock.unwrap_or_default(),
            watermark: stamp.watermark,
            sources: self.inputs(state),
            compare_all: true,
            unseen: Vec::new(),
            void: state.void.clone(),
        };
        self.expect(state.documents);
        let mut give_up: Vec<(SourceName, Arc<str>)> = Vec::new();
        loop {
            match self.execute(&attempt, &give_up, lease).await? {
                Executed::Committed(committed) => {
                    self.recorded();
                    let receipt = committed.receipt;
                    let (upserts, deletes, unchanged) = (receipt.upserts, receipt.deletes, receipt.unchanged);
                    let generation = self.generation();
                    tracing::info!(%generation, sequence = %stamp.sequence, upserts, deletes, unchanged, "a generation follows");
                    return Ok(Standing {
                        reached: Some(stamp),
                        documents: receipt.documents,
                        lacking: receipt.lacking,
                        failed: None,
                    });
                }
                // Pinned, and not there any more: the log alone says what replaces it.
                Executed::Moved(files) => give_up.extend(files),
                Executed::Unreadable(files) => {
                    let named: Vec<String> = files.iter().map(|file| file.version.path.to_string()).collect();
                    return Err(Fault::Data(format!("files of the last batch cannot be read: {}", named.join(", "))));
                }
            }
        }
    }

    /// What the state pins, of every source of the configuration.
    pub(super) fn inputs(&self, state: &PipelineState) -> BTreeMap<SourceName, SourceInput> {
        let input = |name: &SourceName| {
            let Some(source) = state.sources.get(name) else { return SourceInput::default() };
            SourceInput {
                live: source.live.clone(),
                newest_end: source.newest_end,
                withheld: source.withheld.paths.keys().cloned().collect(),
                ..SourceInput::default()
            }
        };
        self.config().sources.keys().map(|name| (name.clone(), input(name))).collect()
    }
}
