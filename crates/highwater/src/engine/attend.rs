//! The life of generations, between two ticks: candidates are begun, fed, judged and promoted, former ones kept fresh and
//! dropped. Computes no documents and decides no gate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use highwater_core::Timestamp;
use highwater_core::driver::{Between, Driver, Ports};
use highwater_core::generation::{GenerationChange, GenerationName, Generations, Judgement, Role, Switch};
use highwater_core::log::{BatchLog, Body, Claimed, PipelineState};
use highwater_core::ports::{Fault, Order};
use highwater_core::receipt::Alarm;
use tokio::task::JoinHandle;

use super::executor::{Engine, Outgrown};
use super::follow::{Following, Terms};
use super::gates::{self, Verdict};
use super::pipeline::Pipeline;
use super::progress::Audience;
use crate::task::{self, Behind};

/// How often orders are looked for. Each look is a request to the state's store.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// When an index that could not be deleted is tried again.
const DELETE_AGAIN: Duration = Duration::from_secs(2);
/// How long batches wait for a follower's last step before a switch. One that takes longer is tried again later.
const LAST_STEP: Duration = Duration::from_secs(30);

/// Attends to the generations of one pipeline, for as long as its process writes it.
pub(super) struct Attendant {
    pipeline: Pipeline,
    audience: Audience,
    followers: BTreeMap<GenerationName, Following>,
    looked: Option<Duration>,
    /// What is to be live as soon as it holds the last batch.
    wanted: Option<Wanted>,
    judging: Option<(GenerationName, JoinHandle<Result<Verdict, Fault>>)>,
    beginning: Option<Beginning>,
    first_look: Option<Timestamp>,
    /// The live generation cannot hold what the configuration asks for: its engine finds out.
    outgrown: Outgrown,
    /// A switch whose last step took too long is tried again then.
    not_before: Option<Duration>,
    /// Why the last look failed, if it did.
    failing: Option<String>,
    /// Why a rebuild that is due cannot begin.
    stuck: Option<String>,
    /// The engine of what was switched to.
    successor: Option<Engine>,
    /// What was dropped, and is not yet deleted.
    leaving: Vec<JoinHandle<()>>,
    terms: Terms,
}

/// An operator's wish.
struct Wanted {
    to: GenerationName,
    rollback: bool,
    forced: Option<String>,
    /// To be deleted once it is done.
    order: Order,
}

/// A candidate in the making.
struct Beginning {
    name: GenerationName,
    asked: Asked,
    task: JoinHandle<Result<(Engine, serde_json::Value), Fault>>,
}

/// Why, by whom, and what for.
struct Asked {
    reason: String,
    promote: bool,
    /// To be deleted once the log knows of it.
    order: Option<Order>,
}

impl Attendant {
    pub(super) fn new(pipeline: Pipeline, audience: Audience) -> Result<Self, Fault> {
        let (behind, share) = (Behind::start()?, pipeline.share(false));
        let terms = Terms { behind, share, progress: audience.followers.clone(), clock: pipeline.clock.clone() };
        Ok(Self {
            pipeline,
            audience,
            followers: BTreeMap::new(),
            looked: None,
            wanted: None,
            judging: None,
            beginning: None,
            first_look: None,
            outgrown: Outgrown::default(),
            not_before: None,
            failing: None,
            stuck: None,
            successor: None,
            leaving: Vec::new(),
            terms,
        })
    }

    /// A session begins, with that engine for the live generation.
    pub(super) fn begin_session(&mut self, engine: &Engine) {
        self.outgrown = engine.outgrown();
        self.stuck = None;
    }

    /// After a switch: the engine of what is live now, with the live one's share of the machine; the one that was goes on
    /// as a follower.
    pub(super) fn change_over(&mut self, from: &GenerationName, former: Engine) -> Option<Engine> {
        let mut successor = self.successor.take()?;
        self.followers.insert(from.clone(), Following::start(from, former, &self.terms));
        match successor.assume(self.pipeline.share(true), self.audience.live.clone()) {
            Ok(()) => Some(successor),
            Err(fault) => {
                tracing::warn!(error = %fault, "what is live now begins without what was read for it");
                None
            }
        }
    }

    /// Ends whatever follows a generation that is live now.
    pub(super) async fn let_go(&mut self, live: &GenerationName) {
        if let Some(following) = self.followers.remove(live) {
            following.abandon().await;
        }
    }

    /// Starts and ends followers as the log says, and tells them what to reach.
    fn tend(&mut self, driver: &Driver) -> Result<(), Fault> {
        let state = driver.state();
        let known = &state.generations.followers;
        let gone: Vec<GenerationName> =
            self.followers.keys().filter(|name| !known.contains_key(*name)).cloned().collect();
        for name in gone {
            self.followers.remove(&name);
        }
        for (name, follower) in known {
            if self.followers.contains_key(name) {
                continue;
            }
            let engine = self.pipeline.follower(name, follower.spec.as_ref(), self.audience.followers.clone())?;
            self.followers.insert(name.clone(), Following::start(name, engine, &self.terms));
        }
        let aimless = self.followers.values().filter(|following| !following.aims_at(state.stamp, driver.lease()));
        let aimless: Vec<&Following> = aimless.collect();
        if !aimless.is_empty() {
            let state = Arc::new(state.clone());
            aimless.iter().for_each(|following| following.aim(&state, driver.lease()));
        }
        Ok(())
    }

    /// Takes up what operators ordered.
    async fn heed_orders(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<(), Fault> {
        let now = self.pipeline.clock.monotonic();
        if self.looked.is_some_and(|looked| now < looked + LOOK_EVERY) {
            return Ok(());
        }
        self.looked = Some(now);
        for order in ports.orders.waiting().await? {
            let generations = &driver.state().generations;
            if order.id().is_some_and(|id| generations.done_by(id).is_some()) {
                // Its process ended before it could be deleted.
                ports.orders.done(std::slice::from_ref(&order)).await?;
                continue;
            }
            match &order {
                Order::Rebuild { reason, promote, .. } => {
                    let asked = Asked { reason: reason.clone(), promote: *promote, order: Some(order.clone()) };
                    self.prepare(driver.state(), asked)?;
                }
                Order::Promote { to, force, .. } => {
                    if generations.candidate() != Some(to) {
                        self.refuse(ports, &order, "the candidate that was meant is not there any more").await?;
                        continue;
                    }
                    let (to, forced) = (to.clone(), force.clone());
                    self.wish(Wanted { to, rollback: false, forced, order: order.clone() });
                }
                Order::Rollback { to, reason, .. } => {
                    if !generations.followers.get(to).is_some_and(|follower| follower.role == Role::Former) {
                        self.refuse(ports, &order, "the former generation that was meant is not kept any more").await?;
                        continue;
                    }
                    let (to, forced) = (to.clone(), Some(reason.clone()));
                    self.wish(Wanted { to, rollback: true, forced, order: order.clone() });
                }
                Order::Drop { name, reason, .. } => {
                    if let Some(why) = self.pipeline.is_needed(generations, name).await? {
                        self.refuse(ports, &order, &why).await?;
                        continue;
                    }
                    let id = order.id().map(str::to_owned);
                    self.drop_one(driver, ports, name.clone(), (reason.clone(), id)).await?;
                    ports.orders.done(std::slice::from_ref(&order)).await?;
                }
                Order::AcceptRemovals { .. } | Order::Retry { .. } | Order::Backfill { .. } => {}
            }
        }
        Ok(())
    }

    /// An order is found again and again until it is done.
    fn wish(&mut self, wanted: Wanted) {
        if self.wanted.as_ref().is_none_or(|known| known.order != wanted.order) {
            self.wanted = Some(wanted);
        }
    }

    async fn refuse(&self, ports: Ports<'_>, order: &Order, why: &str) -> Result<(), Fault> {
        tracing::warn!(why, "an order could not be carried out");
        ports.orders.done(std::slice::from_ref(order)).await
    }

    /// Has a candidate prepared: its columns are learnt anew from every pinned file, which takes its time.
    fn prepare(&mut self, state: &PipelineState, asked: Asked) -> Result<(), Fault> {
        if self.beginning.is_some() {
            return Ok(());
        }
        let name = state.generations.unused();
        let mut engine = self.pipeline.follower(&name, None, self.audience.followers.clone())?;
        let (inputs, home) = (engine.inputs(state), self.pipeline.home.clone());
        let task = self.terms.behind.spawn(async move {
            home.can_grow().await?;
            let moved = engine.prepare(&inputs).await?;
            if let Some((source, path)) = moved.first() {
                return Err(Fault::Unavailable(format!("{source}: {path} is not what the last batch pinned any more")));
            }
            let spec = engine.ready()?.spec.to_log()?;
            engine.begin(Some(&spec))?;
            Ok((engine, spec))
        });
        self.beginning = Some(Beginning { name, asked, task });
        Ok(())
    }

    /// Begins a candidate that is prepared; one that is there already is dropped first.
    async fn begin(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<(), Fault> {
        let Some(Beginning { name, asked, task }) = self.beginning.take_if(|begun| begun.task.is_finished()) else {
            return Ok(());
        };
        let prepared = task.await.map_err(|error| Fault::Internal(format!("a rebuild died: {error}")))?;
        let (engine, spec) = match (prepared, &asked.order) {
            (Ok(prepared), _) => prepared,
            (Err(fault), _) if is_for_later(&fault) => return Err(fault),
            (Err(fault), Some(order)) => return self.refuse(ports, order, &fault.to_string()).await,
            (Err(fault), None) => {
                self.stuck = Some(format!("a rebuild cannot begin: {fault}"));
                return Ok(());
            }
        };
        while let Some(name) = driver.state().generations.candidate().cloned() {
            self.drop_one(driver, ports, name, ("another one is begun".into(), None)).await?;
        }
        let Asked { reason, promote, order } = asked;
        let id = order.as_ref().and_then(|order| Some(order.id()?.to_owned()));
        let change = GenerationChange::Begun { name: name.clone(), spec, reason, promote, order: id };
        self.change(driver, ports, change).await?;
        let following = Following::start(&name, engine, &self.terms);
        self.followers.insert(name, following);
        match order {
            Some(order) => ports.orders.done(std::slice::from_ref(&order)).await,
            None => Ok(()),
        }
    }

    async fn drop_one(
        &mut self,
        driver: &mut Driver,
        ports: Ports<'_>,
        name: GenerationName,
        (reason, order): (String, Option<String>),
    ) -> Result<(), Fault> {
        self.change(driver, ports, GenerationChange::Dropped { name: name.clone(), reason, order }).await?;
        if let Some((_, task)) = self.judging.take_if(|(judged, _)| *judged == name) {
            task.abort();
        }
        if self.wanted.as_ref().is_some_and(|wanted| wanted.to == name) {
            self.finish_wish(ports).await;
        }
        // Its merges may have to end first: batches do not wait for that.
        let (following, pipeline) = (self.followers.remove(&name), self.pipeline.clone());
        self.leaving.retain(|task| !task.is_finished());
        self.leaving.push(task::spawn(async move {
            if let Some(following) = following {
                following.abandon().await;
            }
            pipeline.delete(&name).await;
        }));
        Ok(())
    }

    /// Waits until what was dropped is deleted.
    pub(super) async fn see_off(&mut self) {
        for task in self.leaving.drain(..) {
            _ = task.await;
        }
    }

    /// Former generations leave when they were kept long enough.
    pub(super) async fn retire(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<(), Fault> {
        let keep = self.pipeline.config.generations.keep_hot;
        let clock = driver.state().clock_at(ports.clock.now());
        let known = &driver.state().generations.followers;
        let over = known
            .iter()
            .filter(|(_, follower)| follower.role == Role::Former && clock.duration_since(follower.since) >= keep);
        let over: Vec<GenerationName> = over.map(|(name, _)| name.clone()).collect();
        for name in over {
            if self.wanted.as_ref().is_none_or(|wanted| wanted.to != name) {
                self.drop_one(driver, ports, name, ("keep_hot is over".into(), None)).await?;
            }
        }
        Ok(())
    }

    /// Begins a candidate where the schedule, or a change of the configuration, asks for one.
    fn rebuild_if_due(&mut self, driver: &Driver, ports: Ports<'_>) -> Result<(), Fault> {
        let config = &self.pipeline.config.generations;
        let state = driver.state();
        let held = state.generations.rolled_back || state.generations.candidate().is_some();
        if held || self.stuck.is_some() || self.beginning.is_some() {
            return Ok(());
        }
        let clock = state.clock_at(ports.clock.now());
        // Where none was ever built, the first period begins with the first look.
        let begun = latest(&state.generations).unwrap_or(*self.first_look.get_or_insert(clock));
        let due = config.rebuild_every.is_some_and(|every| clock.duration_since(begun) >= every);
        let reason = match self.outgrown.get() {
            Some(outgrown) if config.rebuild_on_change => outgrown,
            _ if due => "rebuild_every".to_owned(),
            _ => return Ok(()),
        };
        self.prepare(state, Asked { reason, promote: true, order: None })
    }

    /// Has the gates judge a candidate that holds the last batch, once.
    async fn judge(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<(), Fault> {
        if let Some((name, task)) = self.judging.take_if(|(_, task)| task.is_finished()) {
            let verdict = task.await.map_err(|error| Fault::Internal(format!("the gates died: {error}")))??;
            if driver.state().generations.followers.contains_key(&name) {
                let (clock, passed) = (driver.state().clock_at(ports.clock.now()), verdict.passed());
                let report = serde_json::to_value(&verdict).map_err(|error| Fault::Internal(error.to_string()))?;
                let judgement = Judgement { name: name.clone(), clock, passed, report };
                self.change(driver, ports, GenerationChange::Judged { judgement }).await?;
                if !passed && self.wanted.as_ref().is_some_and(|wanted| wanted.to == name && wanted.forced.is_none()) {
                    self.finish_wish(ports).await;
                }
            }
        }
        let state = driver.state();
        let Some(name) = state.generations.candidate().cloned() else { return Ok(()) };
        let asked_anew = self.wanted.as_ref().is_some_and(|wanted| wanted.to == name);
        let judged = state.generations.judgement(&name);
        let settled = judged.is_some_and(|judgement| judgement.passed || !asked_anew);
        // While batches go on it is always a little behind.
        let standing = self.followers.get(&name).map(Following::standing).unwrap_or_default();
        let reached = standing.reached.filter(|_| standing.lacking.is_empty());
        if let (None, Some(stamp), false) = (&self.judging, reached, settled) {
            let (pipeline, live, candidate) = (self.pipeline.clone(), state.generations.live.clone(), name.clone());
            let verdict =
                self.terms.behind.spawn(async move { gates::judge(&pipeline, &live, &candidate, stamp).await });
            self.judging = Some((name, verdict));
        }
        Ok(())
    }

    /// Switches the name, if what is wanted may be live: it holds the last batch, and its gates passed or are overruled.
    async fn switch_if_wanted(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<bool, Fault> {
        let state = driver.state();
        let known = &state.generations;
        let by_itself = known.candidate().filter(|name| known.followers[*name].promote);
        let (to, rollback, forced) = match (&self.wanted, by_itself) {
            (Some(wanted), _) => (wanted.to.clone(), wanted.rollback, wanted.forced.clone()),
            (None, Some(candidate)) => (candidate.clone(), false, None),
            (None, None) => return Ok(false),
        };
        let passed = known.judgement(&to).is_some_and(|judgement| judgement.passed);
        let (true, Some(stamp)) = ((rollback || forced.is_some() || passed) && !state.add_only, state.stamp) else {
            return Ok(false);
        };
        let Some(following) = self.followers.get(&to) else {
            self.finish_wish(ports).await;
            return Ok(false);
        };
        // No batch comes while this waits: the follower has the last one to make good, no more.
        let standing = following.standing();
        let ready = standing.reached.is_some() && standing.lacking.is_empty() && standing.failed.is_none();
        let now = self.pipeline.clock.monotonic();
        if !ready || self.not_before.is_some_and(|at| now < at) {
            return Ok(false);
        }
        if !following.reaches(stamp, LAST_STEP, &*self.pipeline.clock).await {
            self.not_before = Some(self.pipeline.clock.monotonic() + 4 * LAST_STEP);
            return Ok(false);
        }
        // The index itself has to say that it is there, and what it holds.
        let found = self.pipeline.home.searcher(&to).await?.as_of().await?.map(|(as_of, _)| as_of.stamp);
        if found != Some(stamp) {
            return Err(Fault::Unavailable(format!(
                "{to} does not hold batch {} that it was brought to",
                stamp.sequence
            )));
        }
        let standing = following.standing();
        let switch = Switch {
            from: state.generations.live.clone(),
            to: to.clone(),
            rollback,
            forced,
            documents: standing.documents,
            order: self.wanted.as_ref().and_then(|wanted| Some(wanted.order.id()?.to_owned())),
        };
        if let Some(seen) = seen_instead(&self.pipeline, &switch.from).await? {
            return Err(Fault::Invalid(format!("readers see {seen}, and the log says {}", switch.from)));
        }
        self.change(driver, ports, GenerationChange::Switching { switch }).await?;
        // From here on the log says what is meant: whoever reads it ends it, and no batch comes in between.
        let switched = async {
            point(&self.pipeline, &to).await?;
            self.change(driver, ports, GenerationChange::Switched { to: to.clone() }).await
        };
        if let Err(fault) = switched.await {
            driver.end_session();
            return Err(fault);
        }
        if let Some(following) = self.followers.remove(&to) {
            match following.end().await {
                Ok(engine) => self.successor = Some(engine),
                // The next session makes another: this one must not go on with what was live before.
                Err(fault) => tracing::warn!(error = %fault, "what is live now begins without what was read for it"),
            }
        }
        self.finish_wish(ports).await;
        Ok(true)
    }

    async fn finish_wish(&mut self, ports: Ports<'_>) {
        let Some(Wanted { order, .. }) = self.wanted.take() else { return };
        if let Err(error) = ports.orders.done(std::slice::from_ref(&order)).await {
            tracing::warn!(%error, "an order that was carried out could not be deleted");
        }
    }

    /// What an operator should know.
    fn alarms(&self, state: &PipelineState) -> Vec<Alarm> {
        let known = &state.generations;
        let clock = state.clock.unwrap_or_default();
        let alarm = |kind: &str, detail: String| Alarm { kind: kind.into(), source: None, since: clock, detail };
        let mut alarms = Vec::new();
        let stuck = self.stuck.iter().chain(&self.failing);
        alarms.extend(stuck.take(1).map(|why| alarm("rebuild_failed", why.clone())));
        if let Some(judgement) = known.candidate().and_then(|name| known.judgement(name)).filter(|found| !found.passed)
        {
            alarms
                .push(alarm("gates_failed", format!("{} is not promoted; the live generation stays", judgement.name)));
        }
        let failing = self.followers.iter().filter_map(|(name, following)| Some((name, following.standing().failed?)));
        let failing: Vec<String> = failing.map(|(name, why)| format!("{name}: {why}")).collect();
        if !failing.is_empty() {
            alarms.push(alarm("generation_behind", failing.join("; ")));
        }
        alarms
    }

    async fn attend(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<bool, Fault> {
        self.tend(driver)?;
        driver.raise(self.alarms(driver.state()));
        if !driver.is_settled() || driver.state().stamp.is_none() {
            return Ok(false);
        }
        // What one of them is about does not keep the others.
        let heeded = self.heed_orders(driver, ports).await;
        let mut failed = first(driver, None, heeded)?;
        let retired = self.retire(driver, ports).await;
        failed = first(driver, failed, retired)?;
        let due = self.rebuild_if_due(driver, ports);
        failed = first(driver, failed, due)?;
        let begun = self.begin(driver, ports).await;
        failed = first(driver, failed, begun)?;
        let judged = self.judge(driver, ports).await;
        failed = first(driver, failed, judged)?;
        let switched = self.switch_if_wanted(driver, ports).await?;
        match failed {
            Some(fault) if !switched => Err(fault),
            _ => Ok(switched),
        }
    }

    async fn change(&self, driver: &mut Driver, ports: Ports<'_>, change: GenerationChange) -> Result<(), Fault> {
        tracing::info!(change = change.describe(), "generations");
        driver.change_generations(ports, change).await.map(drop)
    }
}

#[async_trait]
impl Between for Attendant {
    async fn between(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<bool, Fault> {
        match self.attend(driver, ports).await {
            // The live index goes on, whatever becomes of the others.
            Err(fault) if !(driver.is_broken() || matches!(fault, Fault::Fenced(_))) => {
                let text = fault.to_string();
                if self.failing.as_ref() != Some(&text) {
                    tracing::warn!(error = %fault, "generations could not be attended to; it is tried again");
                }
                self.failing = Some(text);
                Ok(false)
            }
            attended => {
                self.failing = None;
                attended
            }
        }
    }
}

/// The first failure of several steps; at once, where the session is over.
fn first(driver: &Driver, failed: Option<Fault>, step: Result<(), Fault>) -> Result<Option<Fault>, Fault> {
    match step {
        Err(fault) if driver.is_broken() || matches!(fault, Fault::Fenced(_)) => Err(fault),
        Err(fault) => Ok(failed.or(Some(fault))),
        Ok(()) => Ok(failed),
    }
}

/// True if waiting may mend it, or the session is over: not the matter of one order.
fn is_for_later(fault: &Fault) -> bool {
    matches!(fault, Fault::Unavailable(_) | Fault::Fenced(_))
}

/// When the newest generation was begun, or the newest judgement made.
fn latest(generations: &Generations) -> Option<Timestamp> {
    let followers = generations.followers.values().map(|follower| follower.since);
    let judged = generations.judgements.iter().map(|judgement| judgement.clock);
    followers.chain(judged).chain(generations.live_since).max()
}

/// Has readers see a generation, and reads back that they do.
async fn point(pipeline: &Pipeline, to: &GenerationName) -> Result<(), Fault> {
    pipeline.home.switch(to).await?;
    match seen_instead(pipeline, to).await? {
        None => Ok(()),
        Some(seen) => Err(Fault::Unavailable(format!("readers were pointed at {to}, and see {seen}"))),
    }
}

/// What readers see, where it is not that generation.
async fn seen_instead(pipeline: &Pipeline, wanted: &GenerationName) -> Result<Option<String>, Fault> {
    Ok(match pipeline.home.live().await? {
        Some(live) if live == *wanted => None,
        live => Some(live.map_or_else(|| "none".to_owned(), |live| live.to_string())),
    })
}

/// At a session's beginning: a switch that was begun and of which nobody knows that it ended is ended. Its files are those
/// of the last batch, for none was made since.
pub(super) async fn end_switch(pipeline: &Pipeline, log: &dyn BatchLog, claimed: &mut Claimed) -> Result<(), Fault> {
    let Some(switch) = claimed.state.generations.switching.clone() else { return Ok(()) };
    point(pipeline, &switch.to).await?;
    let change = GenerationChange::Switched { to: switch.to };
    tracing::info!(change = change.describe(), "a switch that was begun before is ended");
    let clock = claimed.state.clock_at(pipeline.clock.now());
    highwater_core::log::append(log, claimed, clock, Body::Generation { change }).await.map(drop)
}

impl Pipeline {
    /// Deletes an index that was dropped; a thread may still write to it for a moment.
    async fn delete(&self, name: &GenerationName) {
        for is_last in [false, false, true] {
            match self.home.delete(name).await {
                Ok(()) => return,
                Err(_) if !is_last => self.clock.sleep(DELETE_AGAIN).await,
                Err(fault) => {
                    tracing::warn!(generation = %name, error = %fault, "its index could not be deleted; the next start tries again");
                }
            }
        }
    }

    /// Why a generation cannot be dropped; `None` if it can.
    pub(super) async fn is_needed(&self, known: &Generations, name: &GenerationName) -> Result<Option<String>, Fault> {
        Ok(match known.followers.get(name).map(|follower| follower.role) {
            _ if known.live == *name => Some(format!("{name} is live")),
            Some(Role::Candidate) => None,
            Some(Role::Former) => Some(format!(
                "{name} is kept so that a rollback is instant; `keep_hot` of [generations] says for how long"
            )),
            None if self.home.all().await?.contains(name) => None,
            None => Some(format!("there is no generation {name}")),
        })
    }

    /// At a session's beginning: readers see what the log calls live. Somebody may have changed the name, or a record was
    /// lost.
    pub(super) async fn point_at_live(&self, live: &GenerationName) -> Result<(), Fault> {
        let Some(seen) = self.home.live().await?.filter(|seen| seen != live) else { return Ok(()) };
        if !self.home.all().await?.contains(live) {
            return Err(Fault::Invalid(format!(
                "readers see generation {seen}, and the log calls {live} live, which is not there: bring its index back, or move \
                 all of the index away so that it fills anew"
            )));
        }
        tracing::warn!(%seen, %live, "readers saw another generation than the log calls live; they are pointed at it");
        point(self, live).await
    }

    /// Deletes what no name points at any more: a crash came between a record and the deletion.
    pub(super) async fn sweep(&self, state: &PipelineState) -> Result<(), Fault> {
        let known = &state.generations;
        for name in self.home.all().await? {
            let is_named = name == known.live || known.followers.contains_key(&name);
            let was_ours = name.number().is_some_and(|number| number <= known.greatest);
            if !is_named && was_ours {
                self.home.delete(&name).await?;
            }
        }
        Ok(())
    }
}
