//! One process of highwater as a supervisor sees it: it starts, ticks, dies, and is started again. What it does between
//! two gates is done at once; at a gate it can be left standing, or be killed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::task::noop_waker;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::executor::Model;
use super::objects::SimStore;
use super::world::{Port, World, lock};
use crate::driver::{Driver, Look, Ports, Session, TickReport};
use crate::log::{ObjectLog, Writer, WriterId, claim};
use crate::policy::OnLag;
use crate::ports::{Clock as _, Fault};

/// Polls in a row that may come to nothing: streams pause between polls of their own accord.
const IDLE_POLLS: u32 = 100;
/// A log's trimming leaves so many records here, so that it happens at all.
const KEEP: u64 = 20;

/// A process, or none.
#[derive(Default)]
pub(super) struct Process {
    phase: Phase,
    /// `on_lag = "halt"` stopped it: an operator chose how it goes on.
    halted: bool,
    /// Sessions of this host.
    sessions: u64,
    /// The files that the last batch lacked, if it could only add.
    pub lacking: Vec<String>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Down,
    /// Its session ended; another one begins.
    Between(Box<Model>),
    Idle(Box<Mind>),
    Busy(Pin<Box<dyn Future<Output = Done> + Send>>),
}

/// What a process has in memory.
pub(super) struct Mind {
    pub driver: Driver,
    model: Model,
    log: ObjectLog,
    port: Port,
}

enum Done {
    Started(Result<Box<Mind>, (Fault, Box<Model>)>),
    Ticked(Box<Mind>, Result<Box<TickReport>, Fault>),
}

/// How a turn of a process ended.
#[derive(Clone, Debug)]
pub(super) enum Turn {
    /// It does nothing: another process holds the pipeline.
    Kept,
    /// It stands at a gate.
    Standing,
    /// A session began.
    Started,
    /// A tick ended well.
    Ticked(Box<TickReport>),
    /// A tick, or a start, failed.
    Failed(Fault),
}

impl Process {
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle(_) | Phase::Between(_))
    }

    pub fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Busy(_))
    }

    /// What the process has in mind between two ticks.
    pub fn mind(&self) -> Option<&Mind> {
        match &self.phase {
            Phase::Idle(mind) => Some(mind),
            _ => None,
        }
    }

    /// It dies where it stands.
    pub fn crash(&mut self, world: &Mutex<World>, host: usize) {
        if !matches!(self.phase, Phase::Down) {
            self.phase = Phase::Down;
            lock(world).lease.ended(host, false);
        }
    }

    /// Starts, ticks or goes on, for so many gates.
    pub fn run(
        &mut self,
        world: &Arc<Mutex<World>>,
        objects: &Arc<InMemory>,
        host: usize,
        gates: u16,
        look: Look,
    ) -> Turn {
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Down => {
                let Some(life) = begin_life(world, host) else { return Turn::Kept };
                let model = Box::new(Model::new(Port::new(world.clone(), host, life)));
                self.start(world, objects, host, model)
            }
            Phase::Between(_) if !lock(world).holds(host) => {
                return Turn::Failed(Fault::Fenced("the lease ended".into()));
            }
            Phase::Between(model) => self.start(world, objects, host, model),
            Phase::Idle(mind) => tick(mind, look),
            busy @ Phase::Busy(_) => busy,
        };
        self.poll(world, host, gates)
    }

    fn start(
        &mut self,
        world: &Arc<Mutex<World>>,
        objects: &Arc<InMemory>,
        host: usize,
        mut model: Box<Model>,
    ) -> Phase {
        self.sessions += 1;
        let (setup, life) = {
            let mut world = lock(world);
            world.oracle.session(host);
            let state = &mut world.hosts[host];
            (state.tick_clock, state.has_read_clock) = (None, false);
            let life = state.life;
            (world.setup.clone(), life)
        };
        let port = Port::new(world.clone(), host, life);
        let store = Arc::new(SimStore::new(objects.clone(), port.clone()));
        let mut log = ObjectLog::new(store, Path::from("state"), Arc::new(port.clone())).keeping(KEEP);
        if setup.leased_log {
            log = log.leased(Arc::new(port.clone()));
        }
        let writer = Writer {
            id: WriterId(format!("{host}-{}", self.sessions).into()),
            holder: format!("host {host}"),
            version: "0.0.0".into(),
        };
        let on_lag = if self.halted { OnLag::SkipToLatest } else { setup.on_lag };
        let exclusive = setup.lease == super::history::LeaseKind::Lock;
        let start = async move {
            let started = async {
                let claimed = claim(&log, port.now(), &writer).await.map_err(Fault::from)?;
                let session = Session { claimed, exclusive, lease: Arc::new(port.clone()) };
                Driver::start(setup.policy(on_lag), setup.sources(), session, &mut *model).await
            };
            match started.await {
                Ok(driver) => Done::Started(Ok(Box::new(Mind { driver, model: *model, log, port }))),
                Err(fault) => Done::Started(Err((fault, model))),
            }
        };
        Phase::Busy(Box::pin(start))
    }

    /// Lets it through so many gates.
    fn poll(&mut self, world: &Arc<Mutex<World>>, host: usize, gates: u16) -> Turn {
        let Phase::Busy(work) = &mut self.phase else { return Turn::Standing };
        lock(world).hosts[host].credits = gates;
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        let mut idle = 0;
        let mut left = gates;
        let done = loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                break Some(done);
            }
            let credits = lock(world).hosts[host].credits;
            idle = if credits == left { idle + 1 } else { 0 };
            left = credits;
            if credits == 0 {
                break None;
            }
            if idle > IDLE_POLLS {
                lock(world).oracle.broken("a tick waits for nothing but its ports", format!("host {host} is stuck"));
                break None;
            }
        };
        lock(world).hosts[host].credits = 0;
        match done {
            None => Turn::Standing,
            Some(done) => self.done(world, host, done),
        }
    }

    fn done(&mut self, world: &Arc<Mutex<World>>, host: usize, done: Done) -> Turn {
        let (turn, phase) = match done {
            Done::Started(Ok(mind)) => (Turn::Started, Phase::Idle(mind)),
            Done::Started(Err((fault, model))) => (Turn::Failed(fault), Phase::Between(model)),
            Done::Ticked(mind, Ok(report)) => {
                let complete = mind.driver.require_complete().is_ok();
                lock(world).tick_ended(host, &report, mind.driver.state(), complete);
                if let Some(crate::log::Body::Batch(batch)) = report.record.as_ref().map(|record| &record.body) {
                    self.lacking.clone_from(&batch.receipt.lacking);
                    self.halted = false;
                }
                (Turn::Ticked(report), Phase::Idle(mind))
            }
            Done::Ticked(mind, Err(fault)) if mind.driver.is_broken() => {
                (Turn::Failed(fault), Phase::Between(Box::new(mind.model)))
            }
            Done::Ticked(mind, Err(fault)) => (Turn::Failed(fault), Phase::Idle(mind)),
        };
        self.phase = phase;
        if let Turn::Failed(fault) = &turn {
            self.failed(world, host, fault);
        }
        turn
    }

    /// What waiting does not mend ends the process.
    fn failed(&mut self, world: &Arc<Mutex<World>>, host: usize, fault: &Fault) {
        match fault {
            Fault::Unavailable(_) | Fault::Data(_) => return,
            Fault::Fenced(_) => {}
            Fault::Halted(_) => self.halted = true,
            Fault::Invalid(_) | Fault::Internal(_) => {
                lock(world).oracle.broken("nothing is wrong with the pipeline", fault.to_string());
            }
        }
        self.phase = Phase::Down;
        lock(world).lease.ended(host, true);
    }
}

/// A new process, if it gets the lease.
fn begin_life(world: &Mutex<World>, host: usize) -> Option<u64> {
    let mut world = lock(world);
    let (life, now) = (world.hosts[host].life + 1, world.now);
    if !world.lease.take(host, life, now) {
        return None;
    }
    world.hosts[host].life = life;
    Some(life)
}

fn tick(mut mind: Box<Mind>, look: Look) -> Phase {
    {
        let mut world = mind.port.world();
        let host = &mut world.hosts[mind.port.host];
        (host.tick_clock, host.has_read_clock) = (mind.driver.state().clock, false);
    }
    Phase::Busy(Box::pin(async move {
        let Mind { driver, model, log, port } = &mut *mind;
        let ports = Ports { clock: &*port, store: &*port, log: &*log, orders: &*port };
        let ticked = driver.tick(ports, model, look).await.map(Box::new);
        Done::Ticked(mind, ticked)
    }))
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Down => "down",
            Phase::Between(_) => "between",
            Phase::Idle(_) => "idle",
            Phase::Busy(_) => "busy",
        };
        write!(f, "Process({phase})")
    }
}
