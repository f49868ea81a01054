//! A history played: its steps one by one, then the faults stop, and the index must become what the files say.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use object_store::memory::InMemory;

use super::generate::TO_THE_END;
use super::history::{History, Kind, Place, Quality, Setup, Step};
use super::lake::Written;
use super::oracle::Violation;
use super::process::{Process, Turn};
use super::replay::Expected;
use super::world::{Armed, HOSTS, LEASE, World, lock};
use crate::driver::{Look, TickReport};
use crate::file::{FileVersion, SourceName};
use crate::holes::{Hole, HoleCause};
use crate::log::Body;
use crate::policy::SourcePolicy;
use crate::ports::Fault;

/// Ticks that it may take to converge, once faults stopped: one that commits. More only where a lag is caught up window
/// by window, or an operator restores files whose rows nobody has any more.
const TICKS: usize = 400;
/// More JSON than that is no bounded state, for so few files.
const STATE_BYTES: usize = 64 << 10;

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rule that was broken first, if one was.
    pub violation: Option<Violation>,
    /// Stands for all that happened: a history played twice has it twice.
    pub hash: u64,
    /// Batches that were recorded.
    pub batches: u64,
    /// Advances that were recorded.
    pub advances: u64,
    /// All that happened, where it was asked for.
    pub trace: Vec<String>,
}

/// Plays a history. What panics breaks a rule too.
pub fn play(history: &History, traced: bool) -> Outcome {
    let world = Arc::new(Mutex::new(World::new(&history.setup, traced)));
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut simulation = Simulation::new(world.clone());
        for step in &history.steps {
            simulation.step(step);
            if simulation.world().oracle.violation.is_some() {
                return;
            }
        }
        simulation.faults_stop();
    }));
    let mut world = lock(&world);
    if let Err(panic) = played {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.oracle.broken("nothing panics", text.unwrap_or_default());
    }
    Outcome {
        violation: world.oracle.violation.clone(),
        hash: world.trace.hash(),
        batches: world.oracle.batches,
        advances: world.oracle.advances,
        trace: world.trace.lines(),
    }
}

/// A world, and the processes in it.
pub(super) struct Simulation {
    setup: Setup,
    world: Arc<Mutex<World>>,
    objects: Arc<InMemory>,
    processes: [Process; HOSTS],
}

impl Simulation {
    fn new(world: Arc<Mutex<World>>) -> Self {
        let setup = lock(&world).setup.clone();
        Self { setup, world, objects: Arc::new(InMemory::new()), processes: Default::default() }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    pub fn of(setup: &Setup) -> Self {
        Self::new(Arc::new(Mutex::new(World::new(setup, false))))
    }

    /// What changed in the lake since it was last asked.
    pub fn written(&self) -> Vec<Written> {
        std::mem::take(&mut self.world().lake.written)
    }

    /// One tick without faults, of a process that is started where none is; answers its clock and what came of it.
    pub fn quiet_tick(&mut self) -> (Timestamp, Expected) {
        if self.processes[0].mind().is_none() {
            self.run(0, TO_THE_END, Look::Scheduled);
        }
        let clock = self.world().now;
        self.run(0, TO_THE_END, Look::Scheduled);
        let world = self.world();
        let documents = world.sink.documents().into_iter().map(|(id, content)| {
            let mut values: Vec<String> = content.split_whitespace().map(str::to_owned).collect();
            values.sort();
            (id, values)
        });
        (clock, Expected { watermark: world.oracle.state.watermark, documents: documents.collect() })
    }

    pub fn step(&mut self, step: &Step) {
        {
            let mut world = self.world();
            let now = world.now;
            world.trace.note(|| format!("{now} -- {step}"));
        }
        match *step {
            Step::Land { place, ids, quality } => self.land(place, ids, quality),
            Step::Remove { place } => {
                let world = &mut *self.world();
                let (source, path) = world.lake.path(place, world.now);
                world.lake.remove(world.now, &source, &path);
            }
            Step::Compact { place } => {
                let world = &mut *self.world();
                world.lake.compact(world.now, place);
            }
            Step::Wait { seconds } => self.wait(i64::from(seconds)),
            Step::Skew { host, seconds } => {
                self.world().hosts[host].skew = SignedDuration::from_secs(i64::from(seconds));
            }
            Step::Run { host, gates, everything } => {
                self.run(host, gates, if everything { Look::Everything } else { Look::Scheduled });
            }
            Step::Cruise { host, ticks, seconds } => {
                for _ in 0..ticks {
                    self.wait(i64::from(seconds));
                    self.run(host, TO_THE_END, Look::Scheduled);
                }
            }
            Step::Crash { host } => self.processes[host].crash(&self.world, host),
            Step::Arm { point, skip, times, trouble } => {
                self.world().troubles.push(Armed { point, skip, times, trouble });
            }
            Step::Lag { seconds } => {
                let mut world = self.world();
                world.lag_s = seconds;
                world.oracle.longest_lag_s = world.oracle.longest_lag_s.max(seconds);
            }
            Step::Deafen { host, deaf } => self.world().hosts[host].deaf = deaf,
            Step::Mend => self.mend(),
        }
    }

    fn land(&mut self, place: Place, ids: u8, quality: Quality) {
        let world = &mut *self.world();
        let (source, path) = world.lake.path(place, world.now);
        world.lake.land(world.now, &source, &path, ids, quality);
    }

    fn wait(&mut self, seconds: i64) {
        let alive: Vec<usize> = (0..HOSTS).filter(|host| self.processes[*host].is_idle()).collect();
        self.world().wait(SignedDuration::from_secs(seconds), &alive);
    }

    fn run(&mut self, host: usize, gates: u16, look: Look) -> Turn {
        let turn = self.processes[host].run(&self.world, &self.objects, host, gates, look);
        let mut world = self.world();
        let now = world.now;
        world.trace.note(|| match &turn {
            Turn::Kept => format!("{now} host {host} waits for the lease"),
            Turn::Standing => format!("{now} host {host} stands"),
            Turn::Started => format!("{now} host {host} began a session"),
            Turn::Ticked(report) => {
                let number = report.record.as_ref().map(|record| record.seq);
                format!("{now} host {host} ticked, W {:?}, record {number:?}, {:?}", report.watermark, report.alarms)
            }
            Turn::Failed(fault) => format!("{now} host {host} failed: {fault}"),
        });
        if gates == TO_THE_END && matches!(turn, Turn::Standing) {
            world.oracle.broken("a tick ends", format!("host {host} passes {gates} gates"));
        }
        drop(world);
        turn
    }

    fn mend(&mut self) {
        let mut world = self.world();
        world.troubles.clear();
        world.lag_s = 0;
        world.hosts.iter_mut().for_each(|host| host.deaf = false);
    }

    /// No more troubles; what was spoiled is written anew; one process remains.
    fn faults_stop(&mut self) {
        self.mend();
        {
            let world = &mut *self.world();
            world.trace.note(|| "faults stop".into());
            world.hosts.iter_mut().for_each(|host| host.skew = SignedDuration::ZERO);
            world.lake.heal(world.now);
        }
        for host in 0..HOSTS {
            if self.setup.end_by_crash {
                self.processes[host].crash(&self.world, host);
            } else if self.processes[host].is_busy() {
                self.run(host, TO_THE_END, Look::Scheduled);
            }
        }
        self.world().accepts = true;
        self.wait(2 * LEASE.as_secs());
        let writer = (0..HOSTS).find(|host| self.world().holds(*host)).unwrap_or_default();
        self.processes[1 - writer].crash(&self.world, 1 - writer);
        self.converge(writer);
    }

    fn converge(&mut self, host: usize) {
        // Data that lands at the end makes a batch due, whatever came before.
        let last = Place { source: 0, back: 1, name: 9 };
        self.land(last, 0b11, Quality::Good);
        if self.tick_until_caught_up(host).is_none() {
            return;
        }
        if self.world().oracle.add_only {
            self.restore_lost_files();
            self.processes[host].crash(&self.world, host);
            self.wait(2 * LEASE.as_secs());
            self.land(Place { name: 8, ..last }, 0b101, Quality::Good);
            if self.tick_until_caught_up(host).is_none() {
                return;
            }
        }
        self.check(host);
        let (batches, watermark) = {
            let world = self.world();
            (world.oracle.batches, world.oracle.state.watermark)
        };
        let Some(report) = self.tick(host) else { return };
        // Where W moved, files may have left the window.
        if report.watermark == watermark && self.world().oracle.batches > batches {
            self.world().oracle.broken("a tick without a change does nothing", "it made a batch".into());
        }
    }

    /// Files that are pinned and gone, behind the window of a table that keeps its rows: nobody has them any more.
    fn restore_lost_files(&mut self) {
        let world = &mut *self.world();
        world.trace.note(|| "lost files are restored".into());
        for (name, source) in &world.oracle.state.sources {
            for version in source.live.values() {
                if world.lake.version_at(name, &version.path, world.now) != Some(version) {
                    world.lake.restore(world.now, name, version);
                }
            }
        }
    }

    fn tick_until_caught_up(&mut self, host: usize) -> Option<TickReport> {
        for _ in 0..TICKS {
            let report = self.tick(host)?;
            // A late file is told by one batch, and read by the next.
            let batch = report.record.as_ref().is_some_and(|record| matches!(record.body, Body::Batch(_)));
            let goes_on = report.behind || self.setup.backfill && batch || self.is_filling(host);
            if !goes_on {
                return Some(report);
            }
        }
        self.world().oracle.broken("it converges", format!("still behind after {TICKS} ticks"));
        None
    }

    /// True while holes stand open that are to be filled.
    fn is_filling(&self, host: usize) -> bool {
        let Some(mind) = self.processes[host].mind() else { return false };
        let world = self.world();
        let keeps = |name: &SourceName| world.lake.policies().get(name).is_some_and(SourcePolicy::keeps_rows);
        let open = |hole: &Hole| hole.cause == HoleCause::PassedOver && keeps(&hole.source);
        let plan = mind.driver.plan(mind.driver.state().clock_at(world.now));
        let fills = plan.is_ok_and(|plan| plan.sources.values().any(|source| !source.filled.is_empty()));
        fills || world.setup.backfill && mind.driver.state().holes.iter().any(open)
    }

    /// One tick that ends well; a new session where the last one ended.
    fn tick(&mut self, host: usize) -> Option<TickReport> {
        let mut last = None;
        for _ in 0..6 {
            match self.run(host, TO_THE_END, Look::Everything) {
                Turn::Ticked(report) => return Some(*report),
                Turn::Started => {}
                Turn::Failed(Fault::Halted(_) | Fault::Fenced(_)) => {}
                turn => last = Some(turn),
            }
            if self.world().oracle.violation.is_some() {
                return None;
            }
        }
        self.world().oracle.broken("it converges", format!("no tick ends well: {last:?}"));
        None
    }

    /// The index is what the pinned files say, and those are the files that there truly are.
    fn check(&mut self, host: usize) {
        let Some(mind) = self.processes[host].mind() else { return };
        let world = &mut *self.world();
        let clock = mind.driver.state().clock.unwrap_or(world.now);
        let plan = match mind.driver.plan(clock) {
            Ok(plan) => plan,
            Err(fault) => return world.oracle.broken("it converges", fault.to_string()),
        };
        if plan.changes() {
            world.oracle.broken("one batch takes in everything", format!("left over:\n{plan}"));
        }
        if world.oracle.add_only {
            world.oracle.broken("it converges", format!("rows are lacking still: {:?}", self.processes[host].lacking));
        }
        world.check_index("at the end");
        let state = mind.driver.state();
        let bytes = serde_json::to_vec(state).map_or(0, |json| json.len());
        if bytes > STATE_BYTES {
            world.oracle.broken("the state is bounded", format!("{bytes} bytes"));
        }
        for (name, planned) in &plan.sources {
            let live = state.sources.get(name).map(|source| source.live.clone()).unwrap_or_default();
            let pinned: BTreeMap<_, _> = live.iter().map(|(path, version)| (path.clone(), version.clone())).collect();
            let there = world.files_in(name, planned.evict_before, clock);
            if let Some(detail) = differ(world, name, &pinned, &there, clock) {
                world.oracle.broken("what is pinned is what is there", format!("{name}, {detail}"));
            }
        }
    }
}

type Files = BTreeMap<Arc<str>, FileVersion>;

/// How pinned files and those that are there differ.
fn differ(world: &World, name: &SourceName, pinned: &Files, there: &Files, clock: Timestamp) -> Option<String> {
    if !world.setup.kinds.iter().enumerate().any(|(n, kind)| world.setup.name(n) == *name && *kind == Kind::Forever) {
        return (pinned != there).then(|| format!("pinned {pinned:?}, there {there:?}"));
    }
    // Behind the window of a table that keeps its rows for ever, what was pinned stays, and what came too late is out.
    let time = world.lake.policies().get(name).and_then(|policy| policy.partitioned())?;
    let newest = world.oracle.state.sources.get(name).and_then(|source| source.newest_end);
    let bound = time.eviction_bound(world.oracle.state.watermark.unwrap_or(clock), newest);
    let fills = world.setup.backfill;
    let is_out = |start| world.oracle.is_passed_over(name, start, fills);
    let in_window = |files: &Files| -> Files {
        let start = |path: &str| world.lake.start_of(name, path);
        let inside = files.iter().filter(|(path, _)| start(path).is_some_and(|start| start >= bound && !is_out(start)));
        inside.map(|(path, version)| (path.clone(), version.clone())).collect()
    };
    let (pinned, there) = (in_window(pinned), in_window(there));
    (pinned != there).then(|| format!("from {bound} pinned {pinned:?}, there {there:?}"))
}

impl World {
    /// The files of the live range that hold data, as they are now.
    fn files_in(&self, name: &SourceName, bound: Option<Timestamp>, clock: Timestamp) -> Files {
        let skew = self.lake.policies().get(name).and_then(|policy| policy.partitioned()).map(|time| time.max_skew);
        let mut files = Files::new();
        for version in self.lake.files_at(name, self.now) {
            let start = self.lake.start_of(name, &version.path);
            let is_live = start.is_none_or(|start| {
                bound.is_none_or(|bound| start >= bound) && skew.is_none_or(|skew| start <= clock + skew)
            });
            if is_live && version.size > 0 {
                files.insert(version.path.clone(), version);
            }
        }
        files
    }
}
