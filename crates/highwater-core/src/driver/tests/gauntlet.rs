//! Cases of the gauntlet that are the driver's: one reading of the clock, files behind the window, two writers.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::super::*;
use super::bench::{Bench, pinned};
use crate::holes::HoleCause;
use crate::log::{Appended, Loaded, LogError, Writer, WriterId, claim};
use crate::plan::tests::script::at;
use crate::ports::NoOrders;

/// A clock that tells another time each time it is asked; the last one again and again.
struct Jumpy(Mutex<VecDeque<Timestamp>>);

#[async_trait]
impl Clock for Jumpy {
    fn now(&self) -> Timestamp {
        let mut times = self.0.lock().unwrap();
        if times.len() > 1 { times.pop_front().unwrap() } else { times[0] }
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    async fn sleep(&self, _length: std::time::Duration) {}
}

/// One tick over these files, by these readings of the clock: the batch's clock, its watermark, and what it pins.
async fn tick(files: &[String], readings: Vec<Timestamp>) -> (Timestamp, Option<Timestamp>, String) {
    let mut bench = Bench::new();
    files.iter().for_each(|file| bench.shelf.put(file));
    *bench.time.slept.lock().unwrap() = Vec::new();
    bench.set("08:00");
    let mut driver = bench.start(true).await;
    let (clock, shelf, log) = (Jumpy(Mutex::new(readings.into())), bench.shelf.clone(), bench.log());
    let ports = Ports { clock: &clock, store: &*shelf, log: &log, orders: &NoOrders };
    let report = driver.tick(ports, &mut bench.model, Look::Scheduled).await.unwrap();
    assert_eq!(bench.index(), pinned(&driver));
    (report.clock, report.watermark, pinned(&driver))
}

#[tokio::test]
async fn a02_the_clock_ticks_over_in_the_middle_of_a_listing() {
    let files = ["09/x1#1", "09/x2#1"].map(str::to_owned);
    let (before, after) = (at("10:05") - SignedDuration::from_millis(1), at("10:05") + SignedDuration::from_millis(1));
    for readings in [vec![before, after], vec![after, before], vec![before, after, before, after]] {
        let steady = tick(&files, vec![readings[0]]).await;
        assert_eq!(tick(&files, readings.clone()).await, steady, "{readings:?}");
        assert_eq!(steady.1, Some(if readings[0] == before { at("09:00") } else { at("10:00") }));
        assert_eq!(steady.2, "09/x1#1 09/x2#1");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a02_a_batch_goes_by_one_reading_of_the_clock(
        files in prop::collection::btree_set((4_u8..14, 0_u8..4), 1..20),
        first in 0_i64..10_800_000,
        jitter in prop::collection::vec(-7_200_000_i64..7_200_000, 1..12),
    ) {
        let files: Vec<String> = files.iter().map(|(hour, name)| format!("{hour:02}/{name}#1")).collect();
        let first = at("09:00") + SignedDuration::from_millis(first);
        let readings: Vec<Timestamp> =
            [0].iter().chain(&jitter).map(|millis| first + SignedDuration::from_millis(*millis)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (steady, jumpy) = runtime.block_on(async { (tick(&files, vec![first]).await, tick(&files, readings).await) });
        prop_assert_eq!(jumpy, steady);
    }
}

/// Inside the window it is read within minutes; behind the window an audit that looks at times finds and names it.
#[tokio::test]
async fn a09_late_file_behind_the_window_is_found_and_named() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    bench.set("14:06");
    bench.shelf.put("14/b#1");
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(pinned(&driver), "14/b#1", "10:00 left the window of three hours");
    bench.shelf.put("10/late#1");
    bench.shelf.put("11/inside#1");
    let late = |driver: &Driver| {
        let holes = driver.state().holes.iter().filter(|hole| hole.cause == HoleCause::LateFile);
        holes.map(|hole| (hole.path.clone().unwrap(), hole.from, hole.to)).collect::<Vec<_>>()
    };
    let mut minutes = 0;
    while late(&driver).is_empty() {
        assert!(minutes < 180, "not seen within twice the audit's interval");
        minutes += 1;
        bench.wait(60);
        bench.tick(&mut driver).await.unwrap();
        assert!(minutes < 10 || bench.index().starts_with("11/inside#1"), "a late file inside the window is taken in");
    }
    assert_eq!(late(&driver), [("2026-05-01/10/late".to_owned(), at("10:00"), at("11:00"))]);
    assert_eq!(bench.index(), "11/inside#1 14/b#1");
    for _ in 0..300 {
        bench.wait(60);
        bench.tick(&mut driver).await.unwrap();
    }
    assert_eq!(late(&driver).len(), 1, "named once");
}

/// A log before whose next batch record another writer starts.
struct Overtaken {
    inner: crate::log::ObjectLog,
    by: Mutex<Option<Writer>>,
    now: Timestamp,
}

#[async_trait]
impl BatchLog for Overtaken {
    async fn load(&self) -> Result<Loaded, LogError> {
        self.inner.load().await
    }

    async fn append(&self, record: &Record) -> Result<Appended, LogError> {
        let other = self.by.lock().unwrap().take();
        if let Some(other) = other {
            claim(&self.inner, self.now, &other).await?;
        }
        self.inner.append(record).await
    }

    async fn highest(&self) -> Result<Sequence, LogError> {
        self.inner.highest().await
    }

    async fn snapshot(&self, state: &PipelineState) -> Result<(), LogError> {
        self.inner.snapshot(state).await
    }

    async fn trim(&self, behind: Sequence) -> Result<u64, LogError> {
        self.inner.trim(behind).await
    }
}

/// The first one has written to the sink, and not yet to the log, when the second one starts and sees one file more.
#[tokio::test]
async fn a37_two_writers_of_one_number() {
    for exclusive in [false, true] {
        let mut bench = Bench::new();
        bench.shelf.put("10/a#1");
        let mut first = bench.start(exclusive).await;
        bench.tick(&mut first).await.unwrap();
        bench.shelf.put("10/b#1");
        let other = Writer { id: WriterId("other".into()), holder: "host".into(), version: "0".into() };
        let log = Overtaken { inner: bench.log(), by: Mutex::new(Some(other)), now: bench.time.now() };
        let fault = bench.tick_on(&mut first, &log, Look::Scheduled).await.unwrap_err();
        assert!(matches!(fault, Fault::Fenced(_)), "{fault}");
        assert!(first.is_broken(), "of no more use: `run` ends");
        assert_eq!(bench.index(), "10/a#1 10/b#1", "its batch is in the sink, under a number that is no batch");

        bench.shelf.remove("10/b");
        bench.shelf.put("10/c#1");
        let mut second = bench.start(exclusive).await;
        bench.tick(&mut second).await.unwrap().record.unwrap();
        assert!(bench.attempts().last().unwrap().compare_all, "the stamp is not the log's");
        assert_eq!(bench.index(), "10/a#1 10/c#1", "as one writer alone would have left it");
        assert_eq!(bench.index(), pinned(&second));
        let records = bench.log().load().await.unwrap().recent;
        let batches = records.iter().filter(|record| matches!(record.body, Body::Batch(_))).map(|record| record.seq.0);
        assert_eq!(batches.collect::<Vec<_>>(), [2, 5], "3 is the other's claim, 4 the second one's");
        assert_eq!(bench.tick(&mut second).await.unwrap().record, None);
    }
}
