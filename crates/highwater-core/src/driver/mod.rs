//! The one loop: look, plan, execute, commit, record. Decides nothing that the planner can decide, and does no I/O but
//! through the ports.

mod commit;
mod orders;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::file::SourceName;
use crate::generation::GenerationChange;
use crate::holes::Hole;
use crate::lease::Lease;
use crate::listing::{Missed, SourceLister};
use crate::log::{BatchLog, Body, Claimed, PipelineState, Record, Sequence, fenced};
use crate::plan::{Facts, Plan, Scope, Unplanned, fillable, plan};
use crate::policy::{PipelinePolicy, SourcePolicy, frontier};
use crate::ports::{Attempt, Clock, Executed, Executor, Fault, Order, Orders, SourceInput, Store};
use crate::receipt::{Alarm, Quarantined, Requests};

use orders::carried_out;
pub use run::{Between, Ended, GRACE, Observer, Unattended, run};

/// The alarm of batches that lack rows of a pinned file.
const ADD_ONLY: &str = "add_only";
/// The alarm of a generation that cannot hold what the configuration asks for.
const REBUILD_DUE: &str = "rebuild_due";
/// How often a file may move between listing and reading before it is set aside.
const MOVES: usize = 3;
/// How many prefixes a tick lists for holes that are filled by themselves.
const PREFIXES_OF_HOLES: usize = 2;

/// What the loop needs of the world, besides the executor.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// Time.
    pub clock: &'a dyn Clock,
    /// The sources' stores.
    pub store: &'a dyn Store,
    /// The pipeline's log.
    pub log: &'a dyn BatchLog,
    /// What operators ask for.
    pub orders: &'a dyn Orders,
}

/// One writer's hold on a pipeline, from its claim on.
#[derive(Clone, Debug)]
pub struct Session {
    /// The log with our claim at its end.
    pub claimed: Claimed,
    /// True where the lease keeps every other writer out; false where only the log does.
    pub exclusive: bool,
    /// Nothing is written outside it.
    pub lease: Arc<dyn Lease>,
}

/// Drives one pipeline for one session.
#[derive(Debug)]
pub struct Driver {
    policy: PipelinePolicy,
    listers: BTreeMap<SourceName, SourceLister>,
    session: Session,
    /// The next batch compares everything, and is needed even if nothing changed.
    compare_all: bool,
    /// The sink may hold documents that no record knows of.
    sink_is_ahead: bool,
    /// No tick was completed in this session yet.
    fresh: bool,
    /// No batch was committed in this session yet.
    first_batch: bool,
    /// What the last step left behind is not known: only a new session can tell.
    broken: bool,
    alarms: BTreeMap<(String, Option<SourceName>), Timestamp>,
    since_snapshot: commit::SinceSnapshot,
    /// The store's counter at the end of the last tick.
    requests: Option<Requests>,
    /// What the last batch lacked, if it could only add.
    lacking: Vec<String>,
    /// The last batch could only add because looks had failed: once none does, another one makes good what it left out.
    owes_batch: bool,
    /// What the live generation cannot hold, as the last batch told.
    outgrown: Option<String>,
    /// Alarms from between the ticks.
    raised: Vec<Alarm>,
    /// Records from between the ticks.
    between: Vec<Record>,
}

/// What one tick did.
#[derive(Clone, Debug)]
pub struct TickReport {
    /// Records that were written between the tick before and this one.
    pub between: Vec<Record>,
    /// The record that it wrote, if it wrote one.
    pub record: Option<Record>,
    /// The number of the last record.
    pub last: Sequence,
    /// The clock that it was planned by.
    pub clock: Timestamp,
    /// The watermark after it.
    pub watermark: Option<Timestamp>,
    /// Documents in the index.
    pub documents: u64,
    /// Alarms that stand.
    pub alarms: Vec<Alarm>,
    /// Requests to the sources' stores.
    pub requests: Requests,
    /// Prefixes listed, by source.
    pub listed: BTreeMap<SourceName, usize>,
    /// A bounded batch of `catch_up` ended before the frontier: tick again at once.
    pub behind: bool,
}

/// How much of the store a tick looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// What the schedule says.
    Scheduled,
    /// Every prefix of the live range; any failed look fails the tick.
    Everything,
}

impl Driver {
    /// Begins a session: the sink's stamp is held against the log's.
    pub async fn start(
        policy: PipelinePolicy,
        sources: Vec<SourcePolicy>,
        session: Session,
        executor: &mut dyn Executor,
    ) -> Result<Self, Fault> {
        let stamp = executor.stamp().await?;
        let state = &session.claimed.state;
        let traces = executor.traces(&state.void).await?;
        let compare_all =
            state.gap.is_some() || state.add_only || stamp != state.stamp || traces || !executor.is_current();
        let sink_is_ahead = traces || stamp.is_some() && stamp != state.stamp;
        let mut driver = Self::resume(policy, sources, session, compare_all);
        driver.sink_is_ahead = sink_is_ahead;
        Ok(driver)
    }

    /// Begins without a sink: to plan, not to execute.
    pub fn resume(policy: PipelinePolicy, sources: Vec<SourcePolicy>, session: Session, compare_all: bool) -> Self {
        let mut listers = BTreeMap::new();
        for source in sources {
            listers.insert(source.name.clone(), SourceLister::new(source, policy.poll));
        }
        let (records, changes) = session.claimed.replayed;
        Self {
            policy,
            listers,
            session,
            compare_all,
            sink_is_ahead: false,
            fresh: true,
            first_batch: true,
            broken: false,
            alarms: BTreeMap::new(),
            since_snapshot: commit::SinceSnapshot { records, changes },
            requests: None,
            lacking: Vec::new(),
            owes_batch: false,
            outgrown: None,
            raised: Vec::new(),
            between: Vec::new(),
        }
    }

    /// What the log says now.
    pub fn state(&self) -> &PipelineState {
        &self.session.claimed.state
    }

    /// The right to write, as this session has it.
    pub fn lease(&self) -> &Arc<dyn Lease> {
        &self.session.lease
    }

    /// True once a batch or record may or may not have happened: the driver is of no use any more, and the next session
    /// finds out from the log and the sink.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// One tick: at most one batch. On `Err` nothing was recorded, unless [`Driver::is_broken`]; the next tick tries anew.
    pub async fn tick(
        &mut self,
        ports: Ports<'_>,
        executor: &mut dyn Executor,
        look: Look,
    ) -> Result<TickReport, Fault> {
        // Without a lease nothing may be written, and one that is lost for good is told even where nothing is to be.
        self.session.lease.check()?;
        let now = ports.clock.now();
        self.requests.get_or_insert_with(|| ports.store.requests());
        let clock = self.state().clock_at(now);
        let everything = look == Look::Everything || self.fresh;
        let mut listed = self.look(ports.store, clock, everything).await;
        if look == Look::Everything {
            self.require_complete()?;
        }
        self.require_first_listings()?;
        let mut moves: BTreeMap<(SourceName, Arc<str>), usize> = BTreeMap::new();
        let mut unreadable: Vec<Quarantined> = Vec::new();
        let mut orders: Option<Vec<Order>> = None;
        if self.has_use_for_orders() {
            orders = Some(self.waiting_orders(ports.orders).await);
        }
        self.look_at_missed(ports.store, clock, orders.as_deref().unwrap_or_default(), &mut listed).await;
        loop {
            let mut plan = self.plan_without(clock, &unreadable, orders.as_deref().unwrap_or_default())?;
            if orders.is_none() && plan.withholds() {
                orders = Some(self.waiting_orders(ports.orders).await);
                continue;
            }
            self.add_alarms(ports.store, &mut plan);
            self.date(&mut plan.alarms);
            if !self.needs_batch(&plan, executor.reads_watermark()) {
                let done = orders::done_with(orders, &plan);
                let report = self.finish_without_batch(ports, plan, listed).await?;
                carried_out(ports.orders, done).await;
                return Ok(report);
            }
            let attempt = self.attempt(&plan);
            self.require_newest_claim(ports.log).await?;
            let give_up: Vec<_> = moves.iter().filter(|(_, n)| **n >= MOVES).map(|(file, _)| file.clone()).collect();
            match self.execute(executor, &attempt, &give_up).await? {
                Executed::Committed(committed) => {
                    let record = self.record(ports, &plan, *committed).await?;
                    self.owes_batch = !attempt.unseen.is_empty();
                    executor.recorded();
                    carried_out(ports.orders, orders::done_with(orders, &plan)).await;
                    return Ok(self.report(ports, plan, Some(record), listed));
                }
                Executed::Unreadable(files) => unreadable.extend(files),
                Executed::Moved(files) => {
                    self.look_again(ports.store, clock, &files, &mut listed).await;
                    for file in files {
                        tracing::info!(source = %file.0, path = &*file.1, "not as it was listed: it was listed again");
                        *moves.entry(file).or_default() += 1;
                    }
                }
            }
        }
    }

    /// What the sink holds is what the log says, as far as this session knows: only then may a number be taken that is no
    /// batch's.
    pub fn is_settled(&self) -> bool {
        !(self.broken || self.fresh || self.compare_all || self.sink_is_ahead)
    }

    /// Ends the session: what the last step left behind is for the next one to find out.
    pub fn end_session(&mut self) {
        self.broken = true;
    }

    /// Alarms that whoever attends between ticks raises; they stand until they are told otherwise.
    pub fn raise(&mut self, alarms: Vec<Alarm>) {
        self.raised = alarms;
    }

    /// Appends a change to the pipeline's generations, between two ticks.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where a batch has to come first (see [`Driver::is_settled`]), or the log is out of reach.
    pub async fn change_generations(&mut self, ports: Ports<'_>, change: GenerationChange) -> Result<Record, Fault> {
        if !self.is_settled() {
            return Err(Fault::Unavailable(
                "the index is not known to be what the log says; a batch comes first".into(),
            ));
        }
        self.require_newest_claim(ports.log).await?;
        let clock = self.state().clock_at(ports.clock.now());
        let record = self.append(ports.log, clock, Body::Generation { change }).await?;
        self.between.push(record.clone());
        self.shorten(ports.log).await;
        Ok(record)
    }

    /// Runs an attempt. One that failed has either left no trace in the sink, so that its number is free, or breaks the
    /// session: two different batches must never carry one number.
    async fn execute(
        &mut self,
        executor: &mut dyn Executor,
        attempt: &Attempt,
        give_up: &[(SourceName, Arc<str>)],
    ) -> Result<Executed, Fault> {
        let before = self.session.claimed.state.stamp;
        self.broken = true;
        let lease = self.session.lease.clone();
        let executed = executor.execute(attempt, give_up, &*lease).await;
        if executed.is_err() {
            self.compare_all = true;
            self.sink_is_ahead = true;
            self.broken = match executor.stamp().await {
                Ok(stamp) => stamp != before && stamp.is_some_and(|stamp| stamp.sequence == attempt.sequence),
                Err(_) => true,
            };
        }
        if let Ok(Executed::Moved(_) | Executed::Unreadable(_)) = executed {
            self.broken = false;
        }
        executed
    }

    /// What the next batch would be, from what was last listed.
    pub fn plan(&self, clock: Timestamp) -> Result<Plan, Fault> {
        self.plan_from(clock, self.state(), &[])
    }

    fn plan_from(&self, clock: Timestamp, state: &PipelineState, orders: &[Order]) -> Result<Plan, Fault> {
        let mut facts = BTreeMap::new();
        for (name, lister) in &self.listers {
            let (policy, view, prefixes) = (lister.policy(), lister.view(), lister.prefixes());
            let accepted = orders::accepted(orders, name);
            let backfill = policy.backfill(orders::backfill(orders, name));
            facts.insert(name.clone(), Facts { policy, view, prefixes, accepted, backfill });
        }
        let scope = if self.fresh || self.compare_all { Scope::All } else { Scope::Changed };
        plan(clock, state, &facts, &self.policy, scope).map_err(|unplanned| match unplanned {
            Unplanned::Halted { .. } => Fault::Halted(unplanned.to_string()),
            Unplanned::NoBase { .. } => Fault::Data(unplanned.to_string()),
        })
    }

    /// The plan, with these files in quarantine: what cannot be read is no data, moves no window, and replaces nothing.
    fn plan_without(&self, clock: Timestamp, unreadable: &[Quarantined], orders: &[Order]) -> Result<Plan, Fault> {
        if unreadable.is_empty() && orders.is_empty() {
            return self.plan(clock);
        }
        let mut state = self.state().clone();
        let mut entries = Vec::new();
        for entry in unreadable {
            let source = state.sources.entry(entry.source.clone()).or_default();
            let entry = commit::tried_again(entry, source.quarantined.get(&entry.version.path));
            source.quarantined.insert(entry.version.path.clone(), entry.clone());
            entries.push(entry);
        }
        orders::retry(orders, unreadable, &mut state);
        let mut plan = self.plan_from(clock, &state, orders)?;
        for entry in entries {
            if let Some(source) = plan.sources.get_mut(&entry.source) {
                source.quarantined.push(entry);
            }
        }
        Ok(plan)
    }

    /// Looks at every prefix, or at those that are due; failures are noted in the views. Answers prefixes by source.
    pub async fn look(&mut self, store: &dyn Store, clock: Timestamp, everything: bool) -> BTreeMap<SourceName, usize> {
        let mut listed = BTreeMap::new();
        let frontier = frontier(clock, self.listers.values().map(SourceLister::policy));
        let watermark = self.session.claimed.state.watermark.or(frontier);
        let state = &self.session.claimed.state;
        let looks = self.listers.iter_mut().map(|(name, lister)| {
            let before = state.sources.get(name);
            let fills = lister.policy().backfill(None).is_some();
            let holes: Vec<Hole> = fillable(name, &state.holes).filter(|_| fills).cloned().collect();
            let prefixes = if everything { usize::MAX } else { PREFIXES_OF_HOLES };
            async move {
                let missed = Missed { holes: &holes, prefixes };
                (name.clone(), lister.look(store, clock, watermark, before, everything, missed).await)
            }
        });
        for (name, count) in futures::future::join_all(looks).await {
            listed.insert(name, count);
        }
        listed
    }

    /// Lists what orders to fill holes need.
    async fn look_at_missed(
        &mut self,
        store: &dyn Store,
        clock: Timestamp,
        orders: &[Order],
        listed: &mut BTreeMap<SourceName, usize>,
    ) {
        let state = &self.session.claimed.state;
        for (name, lister) in &mut self.listers {
            if orders::backfill(orders, name).is_some() {
                let holes: Vec<Hole> = fillable(name, &state.holes).cloned().collect();
                let looks = lister.look_at_missed(store, clock, state.sources.get(name), &holes).await;
                *listed.entry(name.clone()).or_default() += looks;
            }
        }
    }

    /// The plan's alarms, with what its batch, if it had one, turned out to lack.
    fn alarms_after(&self, plan: &Plan) -> Vec<Alarm> {
        let mut alarms = plan.alarms.clone();
        alarms.retain(|alarm| alarm.kind != ADD_ONLY && alarm.kind != REBUILD_DUE);
        alarms.extend(self.of_last_batch(plan.clock));
        self.date(&mut alarms);
        alarms
    }

    /// What the last batch turned out to lack, and what its index cannot hold.
    fn of_last_batch(&self, clock: Timestamp) -> impl Iterator<Item = Alarm> {
        let due =
            |detail: &String| Alarm { kind: REBUILD_DUE.into(), source: None, since: clock, detail: detail.clone() };
        lacking(&self.lacking, clock).into_iter().chain(self.outgrown.as_ref().map(due))
    }

    /// Alarms that the planner cannot know of.
    fn add_alarms(&self, store: &dyn Store, plan: &mut Plan) {
        plan.alarms.extend(self.of_last_batch(plan.clock));
        plan.alarms.extend(self.raised.iter().cloned());
        for name in self.listers.keys() {
            let skipped = store.skipped(name);
            if !skipped.is_empty() {
                let named = skipped.iter().take(10).cloned().collect::<Vec<_>>().join("; ");
                let detail = format!("{} names cannot be read as files: {named}", skipped.len());
                plan.alarms.push(Alarm {
                    kind: "skipped_names".into(),
                    source: Some(name.clone()),
                    since: plan.clock,
                    detail,
                });
            }
        }
    }

    async fn look_again(
        &mut self,
        store: &dyn Store,
        clock: Timestamp,
        files: &[(SourceName, Arc<str>)],
        listed: &mut BTreeMap<SourceName, usize>,
    ) {
        for (name, lister) in &mut self.listers {
            let paths: Vec<&str> = files.iter().filter(|(source, _)| source == name).map(|(_, path)| &**path).collect();
            if !paths.is_empty() {
                *listed.entry(name.clone()).or_default() += lister.look_again(store, clock, &paths).await;
            }
        }
    }

    /// Fails with the first look that failed.
    pub fn require_complete(&self) -> Result<(), Fault> {
        match self.failures().next() {
            Some((name, prefix, why)) => {
                Err(Fault::Unavailable(format!("source {name}: listing {prefix:?} failed: {why}")))
            }
            None => Ok(()),
        }
    }

    /// Looks that failed, by source and prefix, with the reasons.
    fn failures(&self) -> impl Iterator<Item = (&SourceName, &str, &str)> {
        let by_source = self.listers.iter().map(|(name, lister)| (name, lister.view().failures()));
        by_source.flat_map(|(name, failures)| failures.map(move |(prefix, why)| (name, prefix, why)))
    }

    /// The prefixes that could not be listed, where the sink may hold documents of files that no record pins: a batch that
    /// was committed and not recorded took them in.
    fn unseen(&self) -> Vec<String> {
        if !(self.sink_is_ahead || self.state().add_only) {
            return Vec::new();
        }
        self.failures()
            .map(|(name, prefix, _)| format!("{name}: {}", if prefix.is_empty() { "/" } else { prefix }))
            .collect()
    }

    /// The first batch of a table that keeps its rows for ever needs everything since its start: what it missed would
    /// lie behind the window of every later one.
    fn require_first_listings(&self) -> Result<(), Fault> {
        let begun = |name| self.state().sources.get(name).is_some_and(|source| source.evict_before.is_some());
        if self.listers.iter().any(|(name, lister)| lister.policy().keeps_rows() && !begun(name)) {
            return self.require_complete();
        }
        Ok(())
    }

    /// True if a tick with this plan would execute a batch.
    pub fn needs_batch(&self, plan: &Plan, reads_watermark: bool) -> bool {
        plan.changes()
            || self.state().add_only && plan.sources.values().any(|source| !source.change.returned.is_empty())
            || (self.compare_all || self.owes_batch && self.require_complete().is_ok()) && self.has_data(plan)
            || reads_watermark && plan.advances() && self.has_data(plan)
    }

    /// False only before the first file was ever seen: there is nothing to learn a schema from, and nothing to index. What
    /// a first batch left in the sink, whose files are gone since, has to go too; but not because a look failed.
    fn has_data(&self, plan: &Plan) -> bool {
        self.session.claimed.state.stamp.is_some()
            || plan.sources.values().any(|source| !source.added.is_empty())
            || self.sink_is_ahead && self.require_complete().is_ok()
    }

    fn attempt(&self, plan: &Plan) -> Attempt {
        let mut sources = BTreeMap::new();
        for (name, planned) in &plan.sources {
            let mut live =
                self.session.claimed.state.sources.get(name).map(|source| source.live.clone()).unwrap_or_default();
            if !planned.added.is_empty() || !planned.dropped.is_empty() {
                let files = Arc::make_mut(&mut live);
                for version in &planned.dropped {
                    files.remove(&version.path);
                }
                for version in &planned.added {
                    files.insert(version.path.clone(), version.clone());
                }
            }
            let (added, dropped, newest_end) = (planned.added.clone(), planned.dropped.clone(), planned.newest_end);
            let withheld = planned.withheld.clone();
            sources.insert(name.clone(), SourceInput { live, added, dropped, newest_end, withheld });
        }
        Attempt {
            sequence: self.state().next(),
            clock: plan.clock,
            watermark: plan.watermark,
            sources,
            compare_all: self.compare_all || self.state().add_only,
            unseen: self.unseen(),
            void: self.state().void.clone(),
        }
    }

    /// On a store without locks the newest claim is the writer; an older one must not touch the sink.
    async fn require_newest_claim(&self, log: &dyn BatchLog) -> Result<(), Fault> {
        self.session.lease.check()?;
        if self.session.exclusive {
            return Ok(());
        }
        let highest = log.highest().await.map_err(Fault::from)?;
        if highest > self.session.claimed.state.last {
            return Err(fenced(highest));
        }
        Ok(())
    }

    async fn finish_without_batch(
        &mut self,
        ports: Ports<'_>,
        plan: Plan,
        listed: BTreeMap<SourceName, usize>,
    ) -> Result<TickReport, Fault> {
        if self.sink_is_ahead {
            // An attempt left documents under the next number, perhaps: a batch repairs them, or a claim makes it void. An
            // advance would do neither.
            return Ok(self.report(ports, plan, None, listed));
        }
        let step = |watermark| self.policy.calendar.floor(watermark);
        let advances = match plan.watermark_before {
            Some(before) => step(before) != step(plan.watermark) || plan.catching_up && plan.advances(),
            None => true,
        };
        let (holes, closed) = self.ledger(&plan, &BTreeMap::new());
        let mut record = None;
        if advances || plan.learns() || !holes.is_empty() || !closed.is_empty() {
            let (sources, alarms) = (plan.learnt(self.state()), plan.alarms.clone());
            let body = Body::Advance { watermark: plan.watermark, holes, closed, sources, alarms };
            record = Some(self.append(ports.log, plan.clock, body).await?);
            self.shorten(ports.log).await;
        }
        self.settle(&plan);
        Ok(self.report(ports, plan, record, listed))
    }

    /// The listings' changes are in the log, or are none of its concern.
    fn settle(&mut self, plan: &Plan) {
        self.fresh = false;
        if !plan.catching_up {
            for (name, lister) in &mut self.listers {
                lister.settled(
                    self.session.claimed.state.sources.get(name),
                    self.session.claimed.state.watermark,
                    plan.clock,
                );
            }
        }
    }

    /// An alarm that stood after the last tick stands since then.
    fn date(&self, alarms: &mut [Alarm]) {
        for alarm in alarms {
            let standing = self.alarms.get(&(alarm.kind.clone(), alarm.source.clone()));
            alarm.since = standing.copied().unwrap_or(alarm.since);
        }
    }

    fn report(
        &mut self,
        ports: Ports<'_>,
        plan: Plan,
        record: Option<Record>,
        listed: BTreeMap<SourceName, usize>,
    ) -> TickReport {
        let requests = ports.store.requests();
        let made = requests.since(self.requests.unwrap_or(requests));
        self.requests = Some(requests);
        let behind = plan.catching_up && plan.advances();
        let alarms = self.alarms_after(&plan);
        self.alarms = alarms.iter().map(|a| ((a.kind.clone(), a.source.clone()), a.since)).collect();
        TickReport {
            between: std::mem::take(&mut self.between),
            record,
            last: self.session.claimed.state.last,
            clock: plan.clock,
            watermark: self.session.claimed.state.watermark,
            documents: self.session.claimed.state.documents,
            alarms,
            requests: made,
            listed,
            behind,
        }
    }
}

fn lacking(files: &[String], since: Timestamp) -> Option<Alarm> {
    if files.is_empty() {
        return None;
    }
    let detail = format!(
        "documents are only added, none is changed or deleted, until these can be listed and read again or are removed: {}",
        files.join("; ")
    );
    Some(Alarm { kind: ADD_ONLY.into(), source: None, since, detail })
}
