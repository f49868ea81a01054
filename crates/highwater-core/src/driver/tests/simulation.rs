//! Random changes, faults and crashes. Once they stop, one full look must leave exactly the files of the live range.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::super::*;
use super::bench::{Bench, On};
use crate::log::contract::faulty::{Faulty, OnPut};
use crate::plan::tests::script::{at, source};
use crate::policy::OnLag;

/// What happens before a tick. Hours count back from the third one after now.
#[derive(Clone, Debug)]
enum Event {
    Nothing,
    Put(u8, u8, u8),
    Remove(u8, u8),
    Wait(i64),
    BreakHour(u8),
    Mend,
    Spoil(u8, u8),
    Heal,
    Sink(On),
    Log(OnPut, usize),
    Crash,
    OtherWriter,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let (back, name) = (|| 0_u8..8, || 0_u8..3);
    let log = prop::sample::select(vec![OnPut::LoseReply, OnPut::TimeOut, OnPut::Refuse]);
    let event = prop_oneof![
        3 => Just(Event::Nothing),
        8 => (back(), name(), 0_u8..5).prop_map(|(back, name, etag)| Event::Put(back, name, etag)),
        3 => (back(), name()).prop_map(|(back, name)| Event::Remove(back, name)),
        6 => (0_i64..40).prop_map(Event::Wait),
        1 => (-90_i64..700).prop_map(Event::Wait),
        2 => back().prop_map(Event::BreakHour),
        2 => Just(Event::Mend),
        2 => (back(), name()).prop_map(|(back, name)| Event::Spoil(back, name)),
        1 => Just(Event::Heal),
        2 => prop::sample::select(vec![On::FailBefore, On::FailAfter]).prop_map(Event::Sink),
        2 => (log, 1_usize..8).prop_map(|(put, times)| Event::Log(put, times)),
        2 => Just(Event::Crash),
        1 => Just(Event::OtherWriter),
    ];
    prop::collection::vec(event, 1..200)
}

struct Simulation {
    bench: Bench,
    driver: Driver,
    exclusive: bool,
    watermark: Option<Timestamp>,
}

impl Simulation {
    async fn new(rule: OnLag, options: &[&str], exclusive: bool) -> Self {
        let mut bench = Bench::new();
        bench.source = source("ads", "1h", options);
        bench.policy.on_lag = rule;
        let driver = bench.start(exclusive).await;
        Self { bench, driver, exclusive, watermark: None }
    }

    fn path(&self, back: u8, name: u8) -> String {
        format!("{}{name}", self.prefix(back))
    }

    fn prefix(&self, back: u8) -> String {
        let hour = self.bench.time.now() + SignedDuration::from_hours(3 - i64::from(back));
        hour.strftime("%Y-%m-%d/%H/").to_string()
    }

    async fn step(&mut self, event: &Event) {
        let shelf = self.bench.shelf.clone();
        let mut log = self.bench.log();
        match event {
            Event::Nothing => {}
            Event::Put(back, name, etag) => {
                shelf.files.lock().unwrap().insert(self.path(*back, *name), etag.to_string());
            }
            Event::Remove(back, name) => {
                shelf.files.lock().unwrap().remove(&self.path(*back, *name));
            }
            Event::Wait(minutes) => self.bench.wait(minutes * 60),
            Event::BreakHour(back) => {
                shelf.broken.lock().unwrap().insert(self.prefix(*back));
            }
            Event::Mend => shelf.mend(),
            Event::Spoil(back, name) => {
                let path = self.path(*back, *name);
                let etag = shelf.files.lock().unwrap().get(&path).cloned().unwrap_or_else(|| "1".into());
                self.bench.model.unreadable.insert(format!("{path}#{etag}"));
            }
            Event::Heal => self.bench.model.unreadable.clear(),
            Event::Sink(on) => self.bench.model.script = [on.clone()].into(),
            Event::Log(put, times) => {
                let faulty = Faulty::new(self.bench.objects.clone()).on_puts(vec![*put; *times]);
                log = self.bench.log_on(Arc::new(faulty));
            }
            Event::Crash => self.driver = self.bench.start(self.exclusive).await,
            // Where a lock keeps others out, nobody else starts.
            Event::OtherWriter if self.exclusive => {}
            Event::OtherWriter => drop(self.bench.start(false).await),
        }
        let ticked = self.bench.tick_on(&mut self.driver, &log, Look::Scheduled).await;
        self.after(ticked).await;
    }

    /// A broken or fenced session is followed by another, as the process would be by its supervisor.
    async fn after(&mut self, ticked: Result<TickReport, Fault>) {
        if self.driver.is_broken() || matches!(ticked, Err(Fault::Fenced(_))) {
            self.driver = self.bench.start(self.exclusive).await;
        }
        let watermark = self.driver.state().watermark;
        assert!(self.watermark <= watermark, "the watermark moved back from {:?} to {watermark:?}", self.watermark);
        self.watermark = watermark;
    }

    async fn faults_stop(&mut self) {
        self.bench.shelf.mend();
        self.bench.model.unreadable.clear();
        self.bench.model.script.clear();
        for etag in self.bench.shelf.files.lock().unwrap().values_mut().filter(|etag| *etag == "0") {
            *etag = "9".into();
        }
        self.bench.wait(2 * 3600);
        let everything = Order::AcceptRemovals { source: None, at: Timestamp::MAX };
        self.bench.orders().give("all", &everything).await.unwrap();
        let log = self.bench.log();
        for _ in 0..100 {
            match self.bench.tick_on(&mut self.driver, &log, Look::Everything).await {
                Ok(report) if !report.behind => return,
                Ok(_) => {}
                Err(Fault::Fenced(_)) => self.driver = self.bench.start(self.exclusive).await,
                Err(fault) => panic!("{fault}"),
            }
        }
        panic!("it never catches up");
    }

    fn check(&self) {
        let clock = self.driver.state().clock_at(self.bench.time.now());
        let plan = self.driver.plan(clock).unwrap();
        assert!(!plan.changes(), "{plan}");
        let time = self.bench.source.partitioned().unwrap();
        let bound = plan.sources[&self.bench.source.name].evict_before.unwrap();
        let live = |path: &str| {
            let start = time.calendar.holding_civil(time.layout.locate(path).unwrap().civil).start;
            start >= bound && start <= clock + time.max_skew
        };
        let files = self.bench.shelf.files.lock().unwrap().clone();
        let expected: BTreeMap<String, String> = files.into_iter().filter(|(path, _)| live(path)).collect();
        assert_eq!(self.bench.model.index, expected, "the index, and the files from {bound}");
        let state = self.driver.state();
        let versions = state.sources.values().flat_map(|source| source.live.values());
        let pinned: BTreeMap<String, String> = versions.map(|v| (v.path.to_string(), v.etag.to_string())).collect();
        assert_eq!(self.bench.model.index, pinned, "the index, and what the log pins");
        assert!(state.sources.values().all(|source| source.quarantined.is_empty()));
        assert!(state.watermark >= Some(at("10:00")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn once_faults_stop_the_index_is_what_the_files_say(
        events in events(),
        rule in prop::sample::select(vec![OnLag::SkipToLatest, OnLag::CatchUp]),
        hold in prop::sample::select(vec!["hold=never", "hold=1h", "hold=3h"]),
        exclusive in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut simulation = Simulation::new(rule, &[hold], exclusive).await;
            for event in &events {
                simulation.step(event).await;
            }
            simulation.faults_stop().await;
            simulation.check();
        });
    }
}
