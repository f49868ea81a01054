//! The life of generations, between two ticks: candidates are begun, fed, judged and promoted, former ones kept fresh and
//! dropped. Computes no documents and decides no gate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use highwater_core::driver::{Between, Driver, Ports};
use highwater_core::generation::{GenerationChange, GenerationName, Generations, Judgement, Role, Switch};
use highwater_core::log::{BatchLog, Body, Claimed, PipelineState};
use highwater_core::ports::{Fault, Order};
use highwater_core::receipt::Alarm;
use tokio::task::JoinHandle;

use super::executor::{Engine, Outgrown};
use super::follow::Following;
use super::gates::{self, Verdict};
use super::pipeline::Pipeline;
use super::progress::Progress;
use crate::task;

/// How often orders are looked for. Each look is a request to the state's store.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long batches wait for a follower's last step before a switch. One that takes longer is tried again later.
const LAST_STEP: Duration = Duration::from_secs(30);

/// Attends to the generations of one pipeline, for as long as its process writes it.
pub(super) struct Attendant {
    pipeline: Pipeline,
    progress: Arc<dyn Progress>,
    followers: BTreeMap<GenerationName, Following>,
    looked: Option<Duration>,
    /// What is to be live as soon as it holds the last batch.
    wanted: Option<Wanted>,
    judging: Option<(GenerationName, JoinHandle<Result<Verdict, Fault>>)>,
    /// The live generation cannot hold what the configuration asks for: its engine finds out.
    outgrown: Outgrown,
    /// Why a rebuild that is due cannot begin.
    stuck: Option<String>,
    /// The engine of what was switched to.
    successor: Option<Engine>,
}

/// An operator's wish, or the schedule's.
struct Wanted {
    to: GenerationName,
    rollback: bool,
    forced: Option<String>,
    /// To be deleted once it is done.
    order: Option<Order>,
}

impl Attendant {
    pub(super) fn new(pipeline: Pipeline, progress: Arc<dyn Progress>) -> Self {
        Self {
            pipeline,
            progress,
            followers: BTreeMap::new(),
            looked: None,
            wanted: None,
            judging: None,
            outgrown: Outgrown::default(),
            stuck: None,
            successor: None,
        }
    }

    /// A session begins, with that engine for the live generation.
    pub(super) fn begin_session(&mut self, engine: &Engine) {
        self.outgrown = engine.outgrown();
        self.stuck = None;
    }

    /// After a switch: the engine of what is live now; the one that was goes on as a follower.
    pub(super) fn change_over(&mut self, from: &GenerationName, former: Engine) -> Option<Engine> {
        let successor = self.successor.take()?;
        let following = Following::start(from, former, self.pipeline.clock.clone());
        self.followers.insert(from.clone(), following);
        Some(successor)
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
            let engine = self.pipeline.follower(name, follower.spec.as_ref(), self.progress.clone())?;
            self.followers.insert(name.clone(), Following::start(name, engine, self.pipeline.clock.clone()));
        }
        if !self.followers.is_empty() {
            let state = Arc::new(state.clone());
            self.followers.values().for_each(|following| following.aim(&state, driver.lease()));
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
            if order.id().is_some_and(|id| generations.carried_out.iter().any(|done| done == id)) {
                // Its process ended before it could be deleted.
                ports.orders.done(std::slice::from_ref(&order)).await?;
                continue;
            }
            match &order {
                Order::Rebuild { id, reason, promote } => {
                    match self.begin(driver, ports, reason, *promote, Some(id.clone())).await {
                        Ok(()) => ports.orders.done(std::slice::from_ref(&order)).await?,
                        Err(fault) if is_for_later(&fault) => return Err(fault),
                        Err(fault) => self.refuse(ports, &order, &fault.to_string()).await?,
                    }
                }
                Order::Promote { force, .. } => {
                    let Some(to) = generations.candidate().cloned() else {
                        self.refuse(ports, &order, "there is no candidate to promote").await?;
                        continue;
                    };
                    if self.wanted.as_ref().is_none_or(|wanted| wanted.order.as_ref() != Some(&order)) {
                        let (forced, order) = (force.clone(), Some(order.clone()));
                        self.wanted = Some(Wanted { to, rollback: false, forced, order });
                    }
                }
                Order::Rollback { reason, .. } => {
                    let Some(to) = generations.former().cloned() else {
                        self.refuse(ports, &order, "no former generation is kept").await?;
                        continue;
                    };
                    if self.wanted.as_ref().is_none_or(|wanted| wanted.order.as_ref() != Some(&order)) {
                        let (forced, order) = (Some(reason.clone()), Some(order.clone()));
                        self.wanted = Some(Wanted { to, rollback: true, forced, order });
                    }
                }
                Order::AcceptRemovals { .. } | Order::Retry { .. } => {}
            }
        }
        Ok(())
    }

    async fn refuse(&self, ports: Ports<'_>, order: &Order, why: &str) -> Result<(), Fault> {
        tracing::warn!(why, "an order could not be carried out");
        ports.orders.done(std::slice::from_ref(order)).await
    }

    /// Begins a candidate; one that is there already is dropped first.
    async fn begin(
        &mut self,
        driver: &mut Driver,
        ports: Ports<'_>,
        reason: &str,
        promote: bool,
        order: Option<String>,
    ) -> Result<(), Fault> {
        self.pipeline.home.can_grow().await?;
        let name = driver.state().generations.unused();
        let mut engine = self.pipeline.follower(&name, None, self.progress.clone())?;
        let inputs = engine.inputs(driver.state());
        let moved = engine.prepare(&inputs).await?;
        if let Some((source, path)) = moved.first() {
            return Err(Fault::Unavailable(format!("{source}: {path} is not what the last batch pinned any more")));
        }
        let spec = engine.ready()?.spec.to_log()?;
        engine.begin(Some(&spec))?;
        while let Some(name) = driver.state().generations.candidate().cloned() {
            let reason = "another one is begun".to_owned();
            self.drop_one(driver, ports, name, reason).await?;
        }
        let change = GenerationChange::Begun { name: name.clone(), spec, reason: reason.to_owned(), promote, order };
        self.change(driver, ports, change).await?;
        let following = Following::start(&name, engine, self.pipeline.clock.clone());
        self.followers.insert(name, following);
        Ok(())
    }

    async fn drop_one(
        &mut self,
        driver: &mut Driver,
        ports: Ports<'_>,
        name: GenerationName,
        reason: String,
    ) -> Result<(), Fault> {
        self.change(driver, ports, GenerationChange::Dropped { name: name.clone(), reason }).await?;
        if let Some(following) = self.followers.remove(&name) {
            following.abandon().await;
        }
        if let Err(fault) = self.pipeline.home.delete(&name).await {
            tracing::warn!(generation = %name, error = %fault, "its index could not be deleted; the next start tries again");
        }
        Ok(())
    }

    /// Former generations leave when they were kept long enough.
    async fn retire(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<(), Fault> {
        let keep = self.pipeline.config.generations.keep_hot;
        let clock = driver.state().clock_at(ports.clock.now());
        let known = &driver.state().generations.followers;
        let over = known
            .iter()
            .filter(|(_, follower)| follower.role == Role::Former && clock.duration_since(follower.since) >= keep);
        let over: Vec<GenerationName> = over.map(|(name, _)| name.clone()).collect();
        for name in over {
            if self.wanted.as_ref().is_none_or(|wanted| wanted.to != name) {
                self.drop_one(driver, ports, name, "keep_hot is over".into()).await?;
            }
        }
        Ok(())
    }

    /// Begins a candidate where the schedule, or a change of the configuration, asks for one.
    async fn rebuild_if_due(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<(), Fault> {
        let config = &self.pipeline.config.generations;
        let state = driver.state();
        if self.stuck.is_some() || state.generations.candidate().is_some() {
            return Ok(());
        }
        let clock = state.clock_at(ports.clock.now());
        let begun = latest(&state.generations);
        let due =
            config.rebuild_every.is_some_and(|every| begun.is_none_or(|begun| clock.duration_since(begun) >= every));
        let reason = match self.outgrown.get() {
            Some(outgrown) if config.rebuild_on_change => outgrown,
            // The first period begins with the first look.
            _ if due && begun.is_some() => "rebuild_every".to_owned(),
            _ => return Ok(()),
        };
        match self.begin(driver, ports, &reason, true, None).await {
            Err(fault) if !is_for_later(&fault) => {
                self.stuck = Some(format!("a rebuild cannot begin: {fault}"));
                Ok(())
            }
            begun => begun,
        }
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
                    self.finish_wish(ports).await?;
                }
            }
        }
        let state = driver.state();
        let Some(name) = state.generations.candidate().cloned() else { return Ok(()) };
        let asked_anew = self.wanted.as_ref().is_some_and(|wanted| wanted.to == name && wanted.order.is_some());
        let judged = state.generations.judgement(&name);
        let settled = judged.is_some_and(|judgement| judgement.passed || !asked_anew);
        // While batches go on it is always a little behind.
        let standing = self.followers.get(&name).map(Following::standing).unwrap_or_default();
        let reached = standing.reached.filter(|_| standing.lacking.is_empty());
        if let (None, Some(stamp), false) = (&self.judging, reached, settled) {
            let (pipeline, live, candidate) = (self.pipeline.clone(), state.generations.live.clone(), name.clone());
            let verdict = task::spawn(async move { gates::judge(&pipeline, &live, &candidate, stamp).await });
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
            self.finish_wish(ports).await?;
            return Ok(false);
        };
        // No batch comes while this waits: the follower has the last one to make good, no more.
        let standing = following.standing();
        let ready = standing.reached.is_some() && standing.lacking.is_empty();
        if !ready || !following.reaches(stamp, LAST_STEP, &*self.pipeline.clock).await {
            return Ok(false);
        }
        let standing = following.standing();
        let switch = Switch {
            from: state.generations.live.clone(),
            to: to.clone(),
            rollback,
            forced,
            documents: standing.documents,
            order: self.wanted.as_ref().and_then(|wanted| Some(wanted.order.as_ref()?.id()?.to_owned())),
        };
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
            self.successor = Some(following.end().await?);
        }
        self.finish_wish(ports).await?;
        Ok(true)
    }

    async fn finish_wish(&mut self, ports: Ports<'_>) -> Result<(), Fault> {
        if let Some(order) = self.wanted.take().and_then(|wanted| wanted.order) {
            // Found anew, so that what was left under another name since is deleted too.
            if let Err(error) = ports.orders.done(std::slice::from_ref(&order)).await {
                tracing::warn!(%error, "an order that was carried out could not be deleted");
            }
        }
        Ok(())
    }

    /// What an operator should know.
    fn alarms(&self, state: &PipelineState) -> Vec<Alarm> {
        let known = &state.generations;
        let clock = state.clock.unwrap_or_default();
        let alarm = |kind: &str, detail: String| Alarm { kind: kind.into(), source: None, since: clock, detail };
        let mut alarms = Vec::new();
        if let Some(outgrown) = self.outgrown.get() {
            alarms.push(alarm("rebuild_due", outgrown));
        }
        alarms.extend(self.stuck.iter().map(|why| alarm("rebuild_failed", why.clone())));
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

    async fn change(&self, driver: &mut Driver, ports: Ports<'_>, change: GenerationChange) -> Result<(), Fault> {
        tracing::info!(change = change.describe(), "generations");
        driver.change_generations(ports, change).await.map(drop)
    }
}

#[async_trait]
impl Between for Attendant {
    async fn between(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<bool, Fault> {
        self.tend(driver)?;
        driver.raise(self.alarms(driver.state()));
        if !driver.is_settled() || driver.state().stamp.is_none() {
            return Ok(false);
        }
        self.heed_orders(driver, ports).await?;
        self.retire(driver, ports).await?;
        self.rebuild_if_due(driver, ports).await?;
        self.judge(driver, ports).await?;
        self.switch_if_wanted(driver, ports).await
    }
}

/// True if waiting may mend it, or the session is over: not the matter of one order.
fn is_for_later(fault: &Fault) -> bool {
    matches!(fault, Fault::Unavailable(_) | Fault::Fenced(_))
}

/// When the newest generation was begun, or the newest judgement made.
fn latest(generations: &Generations) -> Option<highwater_core::Timestamp> {
    let followers = generations.followers.values().map(|follower| follower.since);
    let judged = generations.judgements.iter().map(|judgement| judgement.clock);
    followers.chain(judged).chain(generations.live_since).max()
}

/// Has readers see a generation, and reads back that they do.
async fn point(pipeline: &Pipeline, to: &GenerationName) -> Result<(), Fault> {
    pipeline.home.switch(to).await?;
    match pipeline.home.live().await? {
        Some(live) if live == *to => Ok(()),
        live => {
            let live = live.map_or_else(|| "none".to_owned(), |live| live.to_string());
            Err(Fault::Unavailable(format!("readers were pointed at {to}, and see {live}")))
        }
    }
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
