//! A pipeline opened: its stores, its log, its claim. `once`, `run` and `plan` are here.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use highwater_core::driver::{self, Driver, Ended, Look, Observer, Ports, Session, TickReport};
use highwater_core::generation::GenerationName;
use highwater_core::lease::{Patience, Unguarded, Wait};
use highwater_core::listing::SourceLister;
use highwater_core::log::{BatchLog, Claimed, Loaded, ObjectLog, PipelineState, WriterId};
use highwater_core::orders::ObjectOrders;
use highwater_core::partition::Calendar;
use highwater_core::plan::Plan;
use highwater_core::policy::{
    self, BasePolicy, Guard, Partitioned, PipelinePolicy, Retention, SourcePolicy, TimePolicy,
};
use highwater_core::ports::{Clock, Executor as _, Fault, Orders};
use highwater_core::{SourceName, Timestamp};
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::attend::{Attendant, end_switch};
use super::budget::{Budget, Share};
use super::executor::Engine;
use super::hold::Hold;
use super::orders::Accepting;
use super::progress::{Audience, Progress, Silent};
use super::view::batch_report;
use crate::config::{Config, Location, OnLag, OnMaxUptime, Retain, SourceConfig, TableKind};
use crate::index::{self, Home};
use crate::report::BatchReport;
use crate::store::{Stores, open_state};

/// How often a reference source is looked at.
const REFERENCE_EVERY: Duration = Duration::from_secs(60);

/// A pipeline whose stores and log are open; nothing is claimed yet.
#[derive(Clone)]
pub struct Pipeline {
    pub(super) config: Arc<Config>,
    pub(super) stores: Arc<Stores>,
    pub(super) home: Arc<dyn Home>,
    pub(super) log: ObjectLog,
    pub(super) orders: Arc<ObjectOrders>,
    pub(super) clock: Arc<dyn Clock>,
}

/// What a pipeline is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written, nor made.
    Read,
    /// The state's folder is made if it is missing.
    Write,
}

/// What `plan` shows.
#[derive(Debug)]
pub struct LookAhead {
    /// The next batch.
    pub plan: Plan,
    /// False if nothing asks for a batch.
    pub due: bool,
    /// The bound R by source: a late file anywhere in the window is seen within it.
    pub revisit: BTreeMap<SourceName, Duration>,
    /// Prefixes that a first tick lists, by source.
    pub prefixes: BTreeMap<SourceName, usize>,
}

/// Is told of batches, in words that every surface shares.
pub trait Reports: Send {
    /// The pipeline is another's, or may be: this is waited for. Told again and again.
    fn waits(&mut self, _wait: &Wait) {}
    /// `max_uptime` is over: the loop ended in order, and begins anew if `restarts`.
    fn retires(&mut self, _restarts: bool) {}
    /// A session began: the pipeline is ours.
    fn begin(&mut self, claimed: &Claimed);
    /// A tick ended; `changed` says whether it wrote a record.
    fn tick(&mut self, report: &BatchReport, tick: &TickReport, changed: bool);
    /// A tick failed and is tried again.
    fn failed(&mut self, fault: &Fault);
}

impl Pipeline {
    /// Opens stores and log.
    pub fn open(config: Arc<Config>, clock: Arc<dyn Clock>, access: Access) -> Result<Self, Fault> {
        let stores = Arc::new(Stores::open(&config, clock.clone())?);
        let (store, root) = match &config.pipeline.state {
            Location::Folder(folder) if access == Access::Read && !folder.exists() => nothing_kept(),
            state => open_state(state, &config.stores)?,
        };
        let root = root.join(config.pipeline.name.as_str());
        let orders = Arc::new(ObjectOrders::new(store.clone(), &root));
        let log = ObjectLog::new(store, root, clock.clone());
        let home = index::home(&config.index);
        Ok(Self { config, stores, home, log, orders, clock })
    }

    /// The configuration that it was opened by.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// What the log says, without claiming anything.
    pub async fn load(&self) -> Result<Loaded, Fault> {
        self.log.load().await.map_err(Fault::from)
    }

    /// The means to take it; holds nothing yet.
    pub fn hold(&self, patience: Patience) -> Result<Hold, Fault> {
        Hold::new(&self.config, self.clock.clone(), patience)
    }

    /// One batch over everything in the window. With `now` the clock is fixed, for replays; with `accept` removals are
    /// applied, however many. `tell` hears of what it waits for.
    pub async fn once(
        &self,
        now: Option<Timestamp>,
        accept: bool,
        progress: Arc<dyn Progress>,
        tell: &mut (dyn FnMut(&Wait) + Send),
    ) -> Result<BatchReport, Fault> {
        let clock = self.fixed(now).await?;
        let mut hold = self.hold(Patience::Refuse)?;
        let (mut session, log) = hold.take(&self.log, &*clock, tell).await?;
        self.look_over(&mut session.claimed, &log).await?;
        let mut engine = self.engine(progress, &session.claimed.state)?;
        let mut driver = self.driver(session, &mut engine).await?;
        let accepting = Accepting(self.orders.clone());
        let orders: &dyn Orders = if accept { &accepting } else { &*self.orders };
        let ports = Ports { clock: &*clock, store: &*self.stores, log: &log, orders };
        let mut tick = driver.tick(ports, &mut engine, Look::Everything).await;
        while tick.as_ref().is_ok_and(|tick| tick.behind) {
            tick = driver.tick(ports, &mut engine, Look::Everything).await;
        }
        if tick.is_ok() {
            let mut attendant = Attendant::new(self.clone(), Audience::none())?;
            attendant.retire(&mut driver, ports).await?;
            attendant.see_off().await;
        }
        if !driver.is_broken() {
            hold.release().await;
        }
        Ok(batch_report(&tick?))
    }

    /// Batches for as long as `stop` does not resolve. A store out of reach is waited for.
    pub async fn run(
        &self,
        hold: &mut Hold,
        reports: &mut dyn Reports,
        audience: Audience,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Fault> {
        tokio::pin!(stop);
        let mut engine: Option<Engine> = None;
        let progress = audience.live.clone();
        let mut attendant = Attendant::new(self.clone(), audience)?;
        let mut pause = self.config.pipeline.poll;
        let mut begun = self.clock.monotonic();
        loop {
            let session = tokio::select! {
                biased;
                session = self.session(hold, &mut engine, &mut attendant, reports, &progress) => session,
                () = &mut stop => {
                    hold.release().await;
                    return Ok(());
                }
            };
            let fault = match session {
                Err(fault) => fault,
                Ok((mut driver, log)) => {
                    let Some(engine_here) = engine.as_mut() else { continue };
                    let orders = &*self.orders;
                    let ports = Ports { clock: &*self.clock, store: &*self.stores, log: &log, orders };
                    let mut observer = Tell(reports);
                    let retire_at = self.config.pipeline.max_uptime.map(|uptime| begun + uptime);
                    let live = driver.state().generations.live.clone();
                    attendant.begin_session(engine_here);
                    let between = &mut attendant;
                    let ended =
                        driver::run(&mut driver, ports, engine_here, between, &mut observer, &mut stop, retire_at)
                            .await;
                    let restart = self.config.pipeline.on_max_uptime == OnMaxUptime::Restart;
                    if matches!(ended, Ok(Ended::Retired)) {
                        reports.retires(restart);
                    }
                    match ended {
                        Ok(Ended::Switched) => {
                            if let Some(former) = engine.take() {
                                engine = attendant.change_over(&live, former);
                            }
                            continue;
                        }
                        Ok(Ended::Retired) if restart => {
                            engine = None;
                            begun = self.clock.monotonic();
                            continue;
                        }
                        Ok(_) => {
                            // What an abandoned batch began may still be under way: then the lease runs out by itself.
                            if !driver.is_broken() {
                                hold.release().await;
                            }
                            return Ok(());
                        }
                        Err(fault) => fault,
                    }
                }
            };
            if !matches!(fault, Fault::Unavailable(_) | Fault::Data(_)) {
                return Err(fault);
            }
            reports.failed(&fault);
            pause = (pause * 2).min(Duration::from_secs(10));
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                () = &mut stop => return Ok(()),
            }
        }
    }

    /// Takes the pipeline, and begins to drive it.
    async fn session(
        &self,
        hold: &mut Hold,
        engine: &mut Option<Engine>,
        attendant: &mut Attendant,
        reports: &mut dyn Reports,
        progress: &Arc<dyn Progress>,
    ) -> Result<(Driver, ObjectLog), Fault> {
        let (mut session, log) = hold.take(&self.log, &*self.clock, &mut |wait| reports.waits(wait)).await?;
        self.look_over(&mut session.claimed, &log).await?;
        reports.begin(&session.claimed);
        // A switch may have been ended since: whatever keeps what is live now lets go of it, and what kept it before too.
        let live = &session.claimed.state.generations.live;
        engine.take_if(|engine| engine.generation() != live);
        attendant.let_go(live).await;
        let spec = session.claimed.state.spec.as_ref();
        let ready = match engine {
            Some(ready) => {
                ready.begin(spec)?;
                ready
            }
            None => engine.insert(self.engine(progress.clone(), &session.claimed.state)?),
        };
        Ok((self.driver(session, ready).await?, log))
    }

    /// Takes in what the log says at a session's beginning, and ends what another session began.
    async fn look_over(&self, claimed: &mut Claimed, log: &ObjectLog) -> Result<(), Fault> {
        for damaged in &claimed.damaged {
            tracing::warn!(object = damaged.object, reason = damaged.reason, "a record of the log was stepped over");
        }
        end_switch(self, log, claimed).await?;
        self.point_at_live(&claimed.state.generations.live).await?;
        self.sweep(&claimed.state).await?;
        self.remember(&claimed.state);
        Ok(())
    }

    /// What the next batch would be, and how late files are found. Claims and writes nothing.
    pub async fn plan(&self, now: Option<Timestamp>) -> Result<LookAhead, Fault> {
        let clock = self.fixed(now).await?;
        let loaded = self.load().await?;
        self.remember(&loaded.state);
        let now = clock.now();
        let policies = self.sources()?;
        let mut revisit = BTreeMap::new();
        for policy in &policies {
            let lister = SourceLister::new(policy.clone(), self.config.pipeline.poll);
            revisit.insert(policy.name.clone(), lister.revisit_bound(now));
        }
        let mut engine = self.engine(Arc::new(Silent), &loaded.state)?;
        let session = looking(loaded.state);
        let mut driver = Driver::start(self.policy()?, policies, session, &mut engine).await?;
        let prefixes = driver.look(&*self.stores, now, true).await;
        driver.require_complete()?;
        let plan = driver.plan(now)?;
        let due = driver.needs_batch(&plan, engine.reads_watermark());
        Ok(LookAhead { plan, due, revisit, prefixes })
    }

    /// The clock of a batch: the machine's, or one that stands still where the user put it.
    async fn fixed(&self, now: Option<Timestamp>) -> Result<Arc<dyn Clock>, Fault> {
        let Some(now) = now else { return Ok(self.clock.clone()) };
        if now > self.clock.now() {
            return Err(Fault::Invalid(format!("--now {now} lies after the clock of this machine")));
        }
        if let Some(last) = self.load().await?.state.clock
            && now < last
        {
            return Err(Fault::Invalid(format!("--now {now} lies before the clock of the last record, {last}")));
        }
        Ok(Arc::new(crate::clock::FixedClock(now)))
    }

    /// The engine of the live generation.
    pub(super) fn engine(&self, progress: Arc<dyn Progress>, state: &PipelineState) -> Result<Engine, Fault> {
        self.engine_of(&state.generations.live, state.spec.as_ref(), progress, self.share(true))
    }

    /// A live generation may use the machine. One that follows has one core and a quarter of the memory, so that the live
    /// one's batches find theirs.
    pub(super) fn share(&self, is_live: bool) -> Share {
        let memory_bytes = self.config.pipeline.memory_bytes;
        match is_live {
            true => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                Share { is_live, memory_bytes, cores }
            }
            false => Share { is_live, memory_bytes: memory_bytes / 4, cores: 1 },
        }
    }

    /// The engine of a generation that is not live.
    pub(super) fn follower(
        &self,
        name: &GenerationName,
        spec: Option<&serde_json::Value>,
        progress: Arc<dyn Progress>,
    ) -> Result<Engine, Fault> {
        self.engine_of(name, spec, progress, self.share(false))
    }

    fn engine_of(
        &self,
        name: &GenerationName,
        spec: Option<&serde_json::Value>,
        progress: Arc<dyn Progress>,
        share: Share,
    ) -> Result<Engine, Fault> {
        let budget = Budget::new(share.memory_bytes, share.cores)?;
        let index = (self.home.clone(), name.clone(), share.is_live);
        Engine::new(self.config.clone(), self.stores.clone(), index, budget, progress, spec)
    }

    async fn driver(&self, session: Session, engine: &mut Engine) -> Result<Driver, Fault> {
        Driver::start(self.policy()?, self.sources()?, session, engine).await
    }

    /// The stores know local files again by what the log pins.
    pub(super) fn remember(&self, state: &PipelineState) {
        for (name, source) in &state.sources {
            self.stores.remember(name, source.live.values());
        }
    }

    /// Where the watermark would stand at `now` if nothing were behind.
    pub(super) fn frontier(&self, now: Timestamp) -> Result<Timestamp, Fault> {
        let policy = self.policy()?;
        Ok(policy::frontier(now, &self.sources()?).unwrap_or_else(|| policy.calendar.frontier(now, policy.settle)))
    }

    pub(super) fn policy(&self) -> Result<PipelinePolicy, Fault> {
        let pipeline = &self.config.pipeline;
        let calendar =
            Calendar::new(pipeline.step, TimeZone::UTC).map_err(|error| Fault::Invalid(error.to_string()))?;
        let on_lag = match pipeline.on_lag {
            OnLag::SkipToLatest => policy::OnLag::SkipToLatest,
            OnLag::CatchUp => policy::OnLag::CatchUp,
            OnLag::Halt => policy::OnLag::Halt,
        };
        Ok(PipelinePolicy { poll: pipeline.poll, on_lag, calendar, settle: SignedDuration::ZERO })
    }

    pub(super) fn sources(&self) -> Result<Vec<SourcePolicy>, Fault> {
        self.config.sources.values().map(source_policy).collect()
    }
}

fn source_policy(source: &SourceConfig) -> Result<SourcePolicy, Fault> {
    let time = match source.time().map_err(Fault::Invalid)? {
        None => TimePolicy::Reference { every: REFERENCE_EVERY },
        Some((layout, calendar)) => TimePolicy::Partitioned(Box::new(Partitioned {
            calendar,
            layout,
            window: source.window,
            settle: source.settle,
            hold_after: source.hold_after,
            max_skew: source.max_skew,
            retention: retention(source)?,
            backfill: source.backfill(),
        })),
    };
    let guard = Guard { limit: source.guard, settle: source.settle };
    Ok(SourcePolicy { name: source.name.clone(), time, guard })
}

fn retention(source: &SourceConfig) -> Result<Retention, Fault> {
    let TableKind::Upsert { retain, .. } = &source.kind else { return Ok(Retention::Window) };
    Ok(match retain {
        Retain::Window => Retention::Window,
        Retain::Forever { start } => Retention::Since(*start),
        Retain::Based(base) => {
            let (layout, calendar) = base.time(&source.time_zone).map_err(Fault::Invalid)?;
            Retention::Base(Box::new(BasePolicy { layout, calendar, settle: base.settle, margin: base.margin }))
        }
    })
}

/// The state of a pipeline that never ran.
fn nothing_kept() -> (Arc<dyn ObjectStore>, Path) {
    (Arc::new(InMemory::new()), Path::ROOT)
}

/// A session that only looks: it claims nothing, and its driver must not execute.
pub(super) fn looking(state: PipelineState) -> Session {
    let (writer, epoch) = (WriterId("".into()), state.epoch);
    let claimed = Claimed { writer, epoch, state, damaged: Vec::new(), recent: Vec::new(), replayed: (0, 0) };
    Session { claimed, exclusive: true, lease: Arc::new(Unguarded) }
}

/// Turns the driver's ticks into reports.
struct Tell<'a>(&'a mut dyn Reports);

impl Observer for Tell<'_> {
    fn ticked(&mut self, tick: Result<&TickReport, &Fault>) {
        match tick {
            Ok(tick) => self.0.tick(&batch_report(tick), tick, tick.record.is_some()),
            Err(fault) => self.0.failed(fault),
        }
    }
}
