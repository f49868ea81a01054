//! What operators ask of generations: an order is left, whoever writes the pipeline carries it out, or this process does
//! where nobody writes it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use highwater_core::generation::{GenerationName, Generations};
use highwater_core::lease::{Patience, Wait};
use highwater_core::log::PipelineState;
use highwater_core::orders::ObjectOrders;
use highwater_core::ports::{Fault, Order, Orders as _};

use super::gates::GateReport;
use super::pipeline::{Pipeline, Reports};
use super::progress::{Audience, Progress, Silent};
use crate::nonce::nonce;
use crate::report::{GenerationReport, GenerationsReport, JudgementReport};

/// How often the log is looked at while another process carries an order out.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is tried whether the other process is gone.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// How often it is looked whether an index that was dropped is gone.
const LOOKS_FOR_AN_END: u32 = 120;

/// What a command waits for.
enum Goal {
    /// The candidate that the order began is judged, or live where that was asked for.
    Rebuilt { promote: bool },
    /// This one is live.
    Live(GenerationName),
    /// This one is gone, from the log and from the index's home.
    Dropped(GenerationName),
}

impl Goal {
    /// Whether it is reached; `Err`: it will not be.
    fn reached(&self, order: &Order, known: &Generations) -> Option<Result<(), Fault>> {
        let gone = |name: &GenerationName| {
            let gone = known.live != *name && !known.followers.contains_key(name);
            gone.then(|| {
                Err(Fault::Data(format!(
                    "generation {name} is not there any more: it was dropped, or another one took its place"
                )))
            })
        };
        match self {
            Self::Live(name) if known.live == *name => Some(Ok(())),
            Self::Live(name) => gone(name),
            Self::Dropped(_) => known.done_by(order.id()?).map(|_| Ok(())),
            Self::Rebuilt { promote } => {
                let name = known.done_by(order.id()?)?;
                match known.judgement(name) {
                    _ if known.live == *name => Some(Ok(())),
                    Some(judgement) if !judgement.passed => Some(Err(failed(name, &judgement.report))),
                    Some(_) if !*promote => Some(Ok(())),
                    _ => gone(name),
                }
            }
        }
    }
}

fn failed(name: &GenerationName, report: &serde_json::Value) -> Fault {
    let failing = gates(report).into_iter().filter(|gate| !gate.passed);
    let failing: Vec<String> = failing.map(|gate| format!("{}: {}", gate.gate, gate.detail)).collect();
    Fault::Data(format!(
        "{name} failed its gates and is not live ({}); mend the cause and rebuild, or `promote --force REASON`",
        failing.join("; ")
    ))
}

fn gates(report: &serde_json::Value) -> Vec<GateReport> {
    serde_json::from_value(report.clone()).unwrap_or_default()
}

impl Pipeline {
    /// The generations, as the log tells of them.
    pub async fn generations(&self) -> Result<GenerationsReport, Fault> {
        let state = self.load().await?.state;
        Ok(report(&state))
    }

    /// Has a candidate built from the files that are pinned, and judged; with `promote` it is live where its gates pass.
    pub async fn rebuild(
        &self,
        reason: &str,
        promote: bool,
        reports: &mut dyn Reports,
        progress: Arc<dyn Progress>,
        stop: impl Future<Output = ()>,
    ) -> Result<GenerationsReport, Fault> {
        let state = self.load().await?.state;
        if state.stamp.is_none() {
            return Err(Fault::Data(
                "no batch was committed yet: there is nothing to rebuild; begin with `run` or `once`".into(),
            ));
        }
        self.home.can_grow().await?;
        let order = Order::Rebuild { id: nonce(), reason: reason.to_owned(), promote };
        self.carry_out(order, Goal::Rebuilt { promote }, reports, progress, stop).await
    }

    /// Makes the candidate live; `force`, with a reason, though a gate failed.
    pub async fn promote(
        &self,
        force: Option<&str>,
        reports: &mut dyn Reports,
        progress: Arc<dyn Progress>,
        stop: impl Future<Output = ()>,
    ) -> Result<GenerationsReport, Fault> {
        let known = self.load().await?.state.generations;
        let Some(name) = known.candidate().cloned() else {
            return Err(Fault::Data("there is no candidate to promote: begin with `rebuild`".into()));
        };
        if let Some(judgement) = known.judgement(&name).filter(|judgement| !judgement.passed && force.is_none()) {
            return Err(failed(&name, &judgement.report));
        }
        let order = Order::Promote { id: nonce(), to: name.clone(), force: force.map(str::to_owned) };
        self.carry_out(order, Goal::Live(name), reports, progress, stop).await
    }

    /// Makes the former generation live again.
    pub async fn rollback(
        &self,
        reason: &str,
        reports: &mut dyn Reports,
        progress: Arc<dyn Progress>,
        stop: impl Future<Output = ()>,
    ) -> Result<GenerationsReport, Fault> {
        let known = self.load().await?.state.generations;
        let Some(name) = known.former().cloned() else {
            return Err(Fault::Data(
                "no former generation is kept: `keep_hot` of [generations] says for how long they are".into(),
            ));
        };
        let order = Order::Rollback { id: nonce(), to: name.clone(), reason: reason.to_owned() };
        self.carry_out(order, Goal::Live(name), reports, progress, stop).await
    }

    /// Takes a generation away that nobody needs, and frees its disk.
    pub async fn drop_generation(
        &self,
        name: &str,
        reason: &str,
        reports: &mut dyn Reports,
        progress: Arc<dyn Progress>,
        stop: impl Future<Output = ()>,
    ) -> Result<GenerationsReport, Fault> {
        let name = GenerationName::parse(name)
            .ok_or_else(|| Fault::Invalid(format!("{name:?} is no generation's name: they are g1, g2, …")))?;
        let known = self.load().await?.state.generations;
        if let Some(why) = self.is_needed(&known, &name).await? {
            return Err(Fault::Data(why));
        }
        let order = Order::Drop { id: nonce(), name: name.clone(), reason: reason.to_owned() };
        self.carry_out(order, Goal::Dropped(name), reports, progress, stop).await
    }

    async fn carry_out(
        &self,
        order: Order,
        goal: Goal,
        reports: &mut dyn Reports,
        progress: Arc<dyn Progress>,
        stop: impl Future<Output = ()>,
    ) -> Result<GenerationsReport, Fault> {
        let name = nonce();
        self.orders.give(&name, &order).await?;
        let done = self.see_through(&order, goal, reports, progress, stop).await;
        if done.is_err() {
            // Nobody waits for it any more: a later writer must not be surprised by it.
            self.orders.withdraw(&name).await?;
        }
        done
    }

    async fn see_through(
        &self,
        order: &Order,
        goal: Goal,
        reports: &mut dyn Reports,
        progress: Arc<dyn Progress>,
        stop: impl Future<Output = ()>,
    ) -> Result<GenerationsReport, Fault> {
        let interrupted =
            || Fault::Data("stopped before it was done; the order was taken back, if it was not begun".into());
        let done = self.watch(order, goal);
        tokio::pin!(done, stop);
        let mut hold = self.hold(Patience::Refuse)?;
        loop {
            let free = {
                let mut tell = |wait: &Wait| reports.waits(wait);
                tokio::select! {
                    done = &mut done => return done,
                    free = hold.free(&mut tell) => free,
                    () = &mut stop => return Err(interrupted()),
                }
            };
            match free {
                Ok(()) => break,
                // A writer looks for orders by itself; but it may end.
                Err(Fault::Fenced(_)) => {
                    progress.begin("carried out by the process that writes the pipeline", 0);
                    let ended = tokio::select! {
                        done = &mut done => Some(done),
                        () = &mut stop => Some(Err(interrupted())),
                        () = self.clock.sleep(TRY_EVERY) => None,
                    };
                    if let Some(ended) = ended {
                        progress.end();
                        return ended;
                    }
                }
                Err(fault) => return Err(fault),
            }
        }
        let mut outcome = None;
        let end = async {
            tokio::select! {
                done = &mut done => outcome = Some(done),
                () = &mut stop => {}
            }
        };
        let audience = Audience { live: Arc::new(Silent), followers: progress };
        self.run(&mut hold, reports, audience, end).await?;
        outcome.unwrap_or_else(|| Err(interrupted()))
    }

    /// Resolves once the log says that the goal is reached, or that it will not be.
    async fn watch(&self, order: &Order, goal: Goal) -> Result<GenerationsReport, Fault> {
        // Orders of its own, for it must not take the found ones from the writer in this process.
        let orders = ObjectOrders::clone_of(&self.orders);
        let mut gone = false;
        loop {
            let state = self.load().await?.state;
            match goal.reached(order, &state.generations) {
                Some(Ok(())) => {
                    if let Goal::Dropped(name) = &goal {
                        self.see_gone(name).await?;
                    }
                    return Ok(report(&state));
                }
                Some(Err(fault)) => return Err(fault),
                None => {}
            }
            let begun = order.id().is_some_and(|id| state.generations.done_by(id).is_some());
            if gone && !begun {
                return Err(Fault::Data("the order was refused by the writer; its log and `status` say why".into()));
            }
            gone = !begun && !orders.waiting().await?.contains(order);
            self.clock.sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until nothing is left of an index. One that cannot be deleted is the next start's.
    async fn see_gone(&self, name: &GenerationName) -> Result<(), Fault> {
        for _ in 0..LOOKS_FOR_AN_END {
            if !self.home.all().await?.contains(name) {
                return Ok(());
            }
            self.clock.sleep(LOOK_EVERY).await;
        }
        Err(Fault::Unavailable(format!(
            "{name} is dropped, and its index is not deleted yet; the next start tries again"
        )))
    }
}

fn report(state: &PipelineState) -> GenerationsReport {
    let known = &state.generations;
    let judgement = |name: &GenerationName| {
        let judgement = known.judgement(name)?;
        let (clock, passed, gates) = (judgement.clock, judgement.passed, gates(&judgement.report));
        Some(JudgementReport { clock, passed, gates })
    };
    let mut generations = vec![GenerationReport {
        name: known.live.clone(),
        role: "live".into(),
        since: known.live_since,
        reason: String::new(),
        judgement: judgement(&known.live),
    }];
    for (name, follower) in known.followers.iter().rev() {
        let role = match follower.role {
            highwater_core::generation::Role::Candidate => "candidate",
            highwater_core::generation::Role::Former => "former",
        };
        let (since, reason, judgement) = (Some(follower.since), follower.reason.clone(), judgement(name));
        generations.push(GenerationReport { name: name.clone(), role: role.into(), since, reason, judgement });
    }
    GenerationsReport { live: known.live.clone(), documents: state.documents, generations }
}
