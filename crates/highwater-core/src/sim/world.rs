//! What is outside the processes: time, the lake, the sink, the lease, and the troubles that requests meet. A process
//! reaches it through a [`Port`], and only when it is let through a gate.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::history::{LeaseKind, Point, Setup, Trouble, begin};
use super::lake::Lake;
use super::oracle::Oracle;
use super::sink::Sink;
use super::trace::Trace;
use crate::lease::Lease;
use crate::ports::{Clock, Fault, Order, Orders};

/// How long a request takes.
const REQUEST: SignedDuration = SignedDuration::from_millis(5);
/// How long a heartbeat lasts.
pub(super) const LEASE: SignedDuration = SignedDuration::from_secs(10);
/// Processes at most.
pub(super) const HOSTS: usize = 2;

/// Everything outside.
#[derive(Debug)]
pub(super) struct World {
    pub setup: Setup,
    /// The true time; processes' clocks may be off.
    pub now: Timestamp,
    pub lake: Lake,
    pub sink: Sink,
    pub lease: Hold,
    pub hosts: [Host; HOSTS],
    pub troubles: Vec<Armed>,
    /// By how many seconds listings of sources lag.
    pub lag_s: u16,
    /// An operator accepts all removals.
    pub accepts: bool,
    pub oracle: Oracle,
    pub trace: Trace,
}

/// One machine with one process on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    /// Which of its processes lives, counted from 1.
    pub life: u64,
    pub credits: u16,
    pub skew: SignedDuration,
    /// Its heartbeats are lost.
    pub deaf: bool,
    /// The clock of the tick in hand, as one reading of its clock gives it.
    pub tick_clock: Option<Timestamp>,
    /// The tick in hand has read its clock.
    pub has_read_clock: bool,
}

/// Trouble that waits for requests.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    pub point: Point,
    pub skip: u8,
    pub times: u8,
    pub trouble: Trouble,
}

/// Who may write.
#[derive(Debug)]
pub(super) struct Hold {
    kind: LeaseKind,
    holder: Option<(usize, u64)>,
    expires: Timestamp,
}

impl World {
    pub fn new(setup: &Setup, traced: bool) -> Self {
        Self {
            setup: setup.clone(),
            now: begin(),
            lake: Lake::new(setup),
            sink: Sink::default(),
            lease: Hold { kind: setup.lease, holder: None, expires: begin() },
            hosts: Default::default(),
            troubles: Vec::new(),
            lag_s: 0,
            accepts: false,
            oracle: Oracle::default(),
            trace: Trace::new(traced),
        }
    }

    /// What a host's clock shows.
    pub fn clock_of(&self, host: usize) -> Timestamp {
        self.now + self.hosts[host].skew
    }

    /// What befalls a request that begins now.
    fn begin(&mut self, host: usize, point: Point, what: &str) -> Option<Trouble> {
        self.now += REQUEST;
        let met = self.meet(point);
        if let Some(Trouble::Slow(seconds)) = met {
            self.now += SignedDuration::from_secs(i64::from(seconds));
        }
        let clock = self.now;
        self.trace.note(|| match met {
            Some(trouble) => format!("{clock} host {host}: {what} -> {trouble:?}"),
            None => format!("{clock} host {host}: {what}"),
        });
        met.filter(|trouble| !matches!(trouble, Trouble::Slow(_)))
    }

    fn meet(&mut self, point: Point) -> Option<Trouble> {
        let armed = self.troubles.iter_mut().find(|armed| armed.point == point)?;
        if armed.skip > 0 {
            armed.skip -= 1;
            return None;
        }
        armed.times = armed.times.saturating_sub(1);
        let trouble = armed.trouble;
        self.troubles.retain(|armed| armed.times > 0);
        Some(trouble)
    }

    /// Lets time pass in which idle processes live on, and those in the midst of something stand still.
    pub fn wait(&mut self, length: SignedDuration, alive: &[usize]) {
        let beating = alive.iter().any(|host| self.lease.holder == Some((*host, self.hosts[*host].life)));
        let beating = beating && alive.iter().any(|host| !self.hosts[*host].deaf && self.holds(*host));
        self.now += length;
        if beating {
            self.lease.expires = self.now + LEASE;
        }
    }

    /// True while the process on the host may write.
    pub fn holds(&self, host: usize) -> bool {
        self.lease.holds(host, self.hosts[host].life, self.now)
    }

    fn beat(&mut self, host: usize) {
        if self.setup.lease == LeaseKind::Heartbeat && !self.hosts[host].deaf && self.holds(host) {
            self.lease.expires = self.now + LEASE;
        }
    }
}

impl Hold {
    fn holds(&self, host: usize, life: u64, now: Timestamp) -> bool {
        self.holder == Some((host, life)) && (self.kind == LeaseKind::Lock || now < self.expires)
    }

    /// Takes the lease, unless another holds it.
    pub fn take(&mut self, host: usize, life: u64, now: Timestamp) -> bool {
        let free = self.holder.is_none() || self.kind == LeaseKind::Heartbeat && now >= self.expires;
        if free {
            (self.holder, self.expires) = (Some((host, life)), now + LEASE);
        }
        free
    }

    /// The process ended: by itself, or not.
    pub fn ended(&mut self, host: usize, cleanly: bool) {
        let is_ours = self.holder.is_some_and(|(holder, _)| holder == host);
        if is_ours && (cleanly || self.kind == LeaseKind::Lock) {
            self.holder = None;
        }
    }
}

/// One process's way to the world.
#[derive(Clone)]
pub(super) struct Port {
    world: Arc<Mutex<World>>,
    pub host: usize,
    pub life: u64,
}

impl Port {
    pub fn new(world: Arc<Mutex<World>>, host: usize, life: u64) -> Self {
        Self { world, host, life }
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Waits until the process is let on.
    async fn gate(&self) {
        poll_fn(|context| {
            let mut world = self.world();
            if world.hosts[self.host].credits > 0 {
                world.hosts[self.host].credits -= 1;
                world.beat(self.host);
                return Poll::Ready(());
            }
            // Whoever lets it on polls again.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// A request begins, once it is let through; answers what befalls it.
    pub async fn request(&self, point: Point, what: &str) -> Option<Trouble> {
        self.gate().await;
        self.world().begin(self.host, point, what)
    }

    /// Its reply arrives, once it is let through.
    pub async fn replied(&self) {
        self.gate().await;
    }
}

pub(super) fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port(host {}, life {})", self.host, self.life)
    }
}

impl Lease for Port {
    fn holds(&self) -> bool {
        let world = self.world();
        world.lease.holds(self.host, self.life, world.now)
    }
}

#[async_trait]
impl Clock for Port {
    fn now(&self) -> Timestamp {
        let mut world = self.world();
        let now = world.clock_of(self.host);
        let host = &mut world.hosts[self.host];
        if !host.has_read_clock {
            host.has_read_clock = true;
            host.tick_clock = host.tick_clock.max(Some(now));
        }
        now
    }

    fn monotonic(&self) -> Duration {
        self.world().now.duration_since(begin()).unsigned_abs()
    }

    async fn sleep(&self, length: Duration) {
        self.gate().await;
        self.world().now += length;
    }
}

#[async_trait]
impl Orders for Port {
    async fn waiting(&self) -> Result<Vec<Order>, Fault> {
        let world = self.world();
        let order = Order::AcceptRemovals { source: None, at: Timestamp::MAX };
        Ok(if world.accepts { vec![order] } else { Vec::new() })
    }

    async fn done(&self, _orders: &[Order]) -> Result<(), Fault> {
        Ok(())
    }
}
