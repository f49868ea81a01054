//! What holds after any sequence of ticks, with whatever failures, changes and clocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::super::*;
use super::script::{World, at, file, pipeline, source};
use crate::file::SeenFile;
use crate::listing::SourceLister;

/// What happens before one tick.
#[derive(Clone, Debug)]
struct Step {
    /// Minutes that the clock moves; may be negative.
    minutes: i64,
    /// Hours back from the newest one: the file there is written (etag), emptied (0) or removed (`None`).
    changes: Vec<(u8, u8, Option<u8>)>,
    /// Hours back from the newest one whose listing fails.
    failures: Vec<u8>,
    /// Hours back that are not listed at all.
    skipped: Vec<u8>,
}

const REACH: i64 = 30;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let minutes = prop_oneof![6 => 0_i64..90, 1 => -200_i64..0, 1 => 200_i64..900];
    let change = (0_u8..9, 0_u8..3, prop::option::weighted(0.8, 0_u8..4));
    let some = || prop::collection::vec(0_u8..9, 0..2);
    let step = (minutes, prop::collection::vec(change, 0..4), some(), some());
    let step = step.prop_map(|(minutes, changes, failures, skipped)| Step { minutes, changes, failures, skipped });
    prop::collection::vec(step, 1..12)
}

fn any_rule() -> impl Strategy<Value = OnLag> {
    prop::sample::select(vec![OnLag::SkipToLatest, OnLag::SkipToLatest, OnLag::CatchUp])
}

fn any_source() -> impl Strategy<Value = SourcePolicy> {
    let options: Vec<&[&str]> = vec![
        &["hold=never", "guard=never"],
        &["hold=1h"],
        &["window=5h", "hold=3h", "guard=1/10%"],
        &["hold=never", "guard=1/30%"],
        &["hold=never", "forever=02:00", "guard=0/20%"],
        &["window=12h"],
        &["window=12h", "forever=02:00"],
    ];
    prop::sample::select(options).prop_map(|options| source("ads", "1h", options))
}

/// The store: etags by (hour since the day's start, file).
type Files = BTreeMap<(i64, u8), u8>;

struct Run {
    world: World,
    files: Files,
    now: Timestamp,
}

impl Run {
    fn new(policy: SourcePolicy, rule: OnLag) -> Self {
        let mut world = World { policy: PipelinePolicy { on_lag: rule, ..pipeline("1h") }, ..World::default() };
        world.add(policy);
        Self { world, files: Files::new(), now: at("22:10") }
    }

    /// One step of the world, then all listings but those that fail or are left out.
    fn step(&mut self, step: &Step) {
        self.now += SignedDuration::from_mins(step.minutes);
        let newest = hour_of(self.now) + 3;
        for (back, name, etag) in &step.changes {
            let key = (newest - i64::from(*back), *name);
            match etag {
                Some(etag) => self.files.insert(key, *etag),
                None => self.files.remove(&key),
            };
        }
        let back = |hours: &[u8], hour: i64| hours.iter().any(|back| newest - i64::from(*back) == hour);
        let clock = self.world.state.clock_at(self.now);
        for hour in (newest - REACH).max(0)..=newest.max(hour_of(clock) + 3) {
            if back(&step.failures, hour) {
                self.world.view("ads").failed(&prefix(hour), "out of reach".into());
            } else if !back(&step.skipped, hour) {
                self.world.listed("ads", &prefix(hour), clock, listing(&self.files, hour));
            }
        }
    }

    fn plan(&self) -> Plan {
        self.world.plan(self.now).unwrap()
    }
}

fn hour_of(time: Timestamp) -> i64 {
    time.duration_since(at("00:00")).as_hours()
}

fn prefix(hour: i64) -> String {
    (at("00:00") + SignedDuration::from_hours(hour)).strftime("%Y-%m-%d/%H/").to_string()
}

fn listing(files: &Files, hour: i64) -> Vec<FileVersion> {
    let here = files.iter().filter(|((at, _), _)| *at == hour);
    here.map(|((_, name), etag)| {
        let version = file(&format!("x/{name}#{etag}"));
        FileVersion { path: format!("{}{name}", prefix(hour)).into(), ..version }
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn time_moves_forward_without_gap(steps in steps(), policy in any_source(), rule in any_rule()) {
        let mut run = Run::new(policy, rule);
        let mut passed_over: Vec<Hole> = Vec::new();
        for step in &steps {
            run.step(step);
            let before = run.world.state.clone();
            // `World::plan` asserts that the changes alone give the same plan.
            let plan = run.plan();
            let planned = &plan.sources[&SourceName::new("ads")];
            let bound = planned.evict_before.unwrap();
            prop_assert!(before.watermark.is_none_or(|was| was <= plan.watermark), "the watermark moved back");
            prop_assert!(plan.clock >= self::max(before.clock, run.now));
            prop_assert!(plan.watermark <= source_frontier(plan.clock), "the watermark overtook the frontier");
            if let Some(was) = before.sources.get(&SourceName::new("ads")).and_then(|source| source.evict_before) {
                prop_assert!(was <= bound, "the eviction bound moved back");
            }
            let forever = run.world.sources.values().any(|s| s.lister.policy().partitioned().unwrap().keeps_rows());
            if let Some(was) = before.watermark.filter(|was| *was < bound && !forever) {
                let lags = before.holes.iter().chain(&plan.holes).filter(|hole| hole.cause == HoleCause::PassedOver);
                let passed = lags.map(|hole| hole.to).max().unwrap_or(was);
                prop_assert!(passed >= bound, "{} to {} is neither live nor a hole", was, bound);
            }
            let pinned: Vec<Arc<str>> = before.sources.values().flat_map(|s| s.live.keys().cloned()).collect();
            prop_assert!(planned.withheld.iter().all(|path| pinned.contains(path)), "what is withheld is pinned");
            // Every partition that the watermark never passed and that is live no more was written down.
            passed_over.extend(plan.holes.iter().filter(|hole| hole.cause == HoleCause::PassedOver).cloned());
            let mut hour = before.watermark.filter(|_| !forever).unwrap_or(bound);
            while hour < bound {
                let told = passed_over.iter().any(|hole| hole.from <= hour && hour < hole.to);
                prop_assert!(told, "{} is in no hole", hour);
                hour += SignedDuration::from_hours(1);
            }
            // That holes ended changed nothing of what is planned.
            let ended = before.closed_holes.iter().filter(|ended| ended.hole.cause == HoleCause::PassedOver);
            let mut remembered = before.clone();
            remembered.holes.extend(ended.map(|ended| ended.hole.clone()));
            run.world.state = remembered;
            let same = run.plan();
            prop_assert_eq!((&same.watermark, &same.sources), (&plan.watermark, &plan.sources));
            run.world.state = before;
            run.world.commit(&plan);
            ledger_is_bounded(&run.world.state.holes)?;
            for state in run.world.state.sources.values() {
                let known = &state.withheld;
                prop_assert!(known.paths.keys().all(|path| state.live.contains_key(path)), "what is withheld is pinned");
                prop_assert!(known.standing.len() <= known.paths.len(), "only partitions with withheld files stand");
            }
            let state = &run.world.state.sources.get(&SourceName::new("ads"));
            for version in state.iter().flat_map(|state| state.live.values()) {
                let hour = hour_of_path(&version.path);
                prop_assert!(hour >= bound, "{} is live before {}", version.path, bound);
            }
            let mut passed: Vec<(Timestamp, Timestamp)> = run.world.state.holes.iter()
                .filter(|hole| hole.cause == HoleCause::PassedOver).map(|hole| (hole.from, hole.to)).collect();
            passed.sort();
            prop_assert!(passed.windows(2).all(|two| two[0].1 <= two[1].0), "holes overlap: {:?}", passed);
        }
    }

    #[test]
    fn right_after_a_plan_was_committed_nothing_is_to_do(steps in steps(), policy in any_source()) {
        let mut run = Run::new(policy, OnLag::SkipToLatest);
        for step in &steps {
            run.step(step);
            let plan = run.plan();
            run.world.commit(&plan);
            let again = run.plan();
            prop_assert!(!again.changes(), "{}", again);
            prop_assert!(!again.advances(), "{}", again);
            prop_assert!(again.holes.is_empty(), "{}", again);
        }
    }

    #[test]
    fn catching_up_comes_to_an_end(steps in steps(), policy in any_source()) {
        let mut run = Run::new(policy, OnLag::CatchUp);
        for step in &steps {
            run.step(step);
            let mut last = run.plan();
            for _ in 0..20 {
                let plan = run.plan();
                run.world.commit(&plan);
                let moved = plan.advances();
                last = plan;
                if !(last.catching_up && moved) {
                    break;
                }
            }
            prop_assert!(!last.catching_up || !last.advances());
        }
        let everything = Step { minutes: 0, changes: vec![], failures: vec![], skipped: vec![] };
        run.step(&everything);
        for _ in 0..20 {
            let plan = run.plan();
            run.world.commit(&plan);
        }
        prop_assert_eq!(run.world.state.watermark, Some(source_frontier(run.world.state.clock_at(run.now))));
    }

    #[test]
    fn order_and_modification_times_of_listings_mean_nothing(
        steps in steps(), policy in any_source(), seconds in any::<u16>()
    ) {
        let (mut one, mut other) = (Run::new(policy.clone(), OnLag::SkipToLatest), Run::new(policy, OnLag::SkipToLatest));
        for step in &steps {
            one.step(step);
            other.step(step);
            // The other sees every listing anew, backwards, with a time of writing.
            let known = other.world.sources.get_mut(&SourceName::new("ads")).unwrap();
            let policy = known.lister.policy().clone();
            let modified = Some(Timestamp::from_second(seconds.into()).unwrap());
            let newest = hour_of(other.now) + 3;
            for hour in ((newest - REACH).max(0)..=newest).rev() {
                let prefix = prefix(hour);
                let Some(listed_at) = known.view.listed_at(&prefix) else { continue };
                let mut seen: Vec<SeenFile> = known.view.files().values()
                    .filter(|file| file.version.path.starts_with(&prefix))
                    .map(|file| SeenFile { version: file.version.clone(), modified })
                    .collect();
                seen.reverse();
                let failed = known.view.failures().any(|(failed, _)| failed == prefix);
                known.view.listed(&policy, &prefix, listed_at, seen);
                if failed {
                    known.view.failed(&prefix, "out of reach".into());
                }
            }
            let (plan, same) = (one.plan(), other.plan());
            prop_assert_eq!(&plan, &same);
            one.world.commit(&plan);
            other.world.commit(&same);
        }
    }
}

/// One entry a thing, four late files a partition, no under-filled partition twice.
fn ledger_is_bounded(holes: &[Hole]) -> Result<(), TestCaseError> {
    for (number, hole) in holes.iter().enumerate() {
        prop_assert!(!holes[..number].iter().any(|other| other.is_same(hole)), "twice: {:?}", hole);
        let thin = |hole: &Hole| hole.cause == HoleCause::UnderFilled;
        let twice = holes[..number].iter().any(|other| thin(other) && thin(hole) && other.touches(hole.from, hole.to));
        prop_assert!(!twice, "{:?}", holes);
        let late = |hole: &&Hole| hole.cause == HoleCause::LateFile;
        prop_assert!(holes.iter().filter(late).filter(|other| other.from == hole.from).count() <= 4, "{:?}", holes);
    }
    Ok(())
}

fn max(one: Option<Timestamp>, other: Timestamp) -> Timestamp {
    one.map_or(other, |one| one.max(other))
}

fn source_frontier(clock: Timestamp) -> Timestamp {
    let policy = pipeline("1h");
    policy.calendar.frontier(clock, policy.settle)
}

fn hour_of_path(path: &str) -> Timestamp {
    let lister = SourceLister::new(source("ads", "1h", &[]), Duration::from_secs(1));
    let time = lister.policy().partitioned().unwrap();
    time.calendar.holding_civil(time.layout.locate(path).unwrap().civil).start
}
