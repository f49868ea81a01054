use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;

use super::super::*;
use super::bench::{Bench, On, Time};
use crate::log::ObjectLog;
use crate::plan::tests::script::at;
use crate::policy::OnLag;
use crate::ports::NoOrders;

#[derive(Default)]
struct Seen(Vec<String>);

impl Observer for Seen {
    fn ticked(&mut self, tick: Result<&TickReport, &Fault>) {
        self.0.push(match tick {
            Ok(report) => report.record.as_ref().map_or("nothing".into(), |record| format!("record {}", record.seq)),
            Err(fault) => fault.to_string(),
        });
    }
}

async fn go(
    bench: &mut Bench,
    driver: &mut Driver,
    stop: impl Future<Output = ()>,
) -> (Result<Ended, Fault>, Vec<String>) {
    let log: ObjectLog = bench.log();
    let (clock, store) = (bench.time.clone(), bench.shelf.clone());
    let ports = Ports { clock: &*clock, store: &*store, log: &log, orders: &NoOrders };
    let mut seen = Seen::default();
    let ended = run(driver, ports, &mut bench.model, &mut Unattended, &mut seen, stop, None).await;
    (ended, seen.0)
}

/// Resolves once so many pauses were made.
fn after_pauses(time: &Arc<Time>, count: usize) -> impl Future<Output = ()> + use<> {
    let time = time.clone();
    poll_fn(move |_| if time.slept.lock().unwrap().len() >= count { Poll::Ready(()) } else { Poll::Pending })
}

#[tokio::test]
async fn when_its_time_is_over_the_loop_ends_after_the_tick_in_hand() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    let mut driver = bench.start(true).await;
    let (log, store, clock) = (bench.log(), bench.shelf.clone(), bench.time.clone());
    let ports = Ports { clock: &*clock, store: &*store, log: &log, orders: &NoOrders };
    let retire_at = Some(clock.monotonic() + Duration::from_millis(1_500));
    let mut seen = Seen::default();
    let ended =
        run(&mut driver, ports, &mut bench.model, &mut Unattended, &mut seen, std::future::pending(), retire_at).await;
    assert_eq!(ended.unwrap(), Ended::Retired);
    assert_eq!(seen.0, ["record 2", "nothing", "nothing"]);
    assert!(!driver.is_broken());
}

/// Resolves once so many attempts were begun.
fn after_attempts(bench: &Bench, count: usize) -> impl Future<Output = ()> + use<> {
    let attempts = bench.model.attempts.clone();
    poll_fn(move |_| if attempts.lock().unwrap().len() >= count { Poll::Ready(()) } else { Poll::Pending })
}

fn pauses(bench: &Bench) -> Vec<u64> {
    bench.time.slept.lock().unwrap().iter().map(Duration::as_secs).collect()
}

#[tokio::test]
async fn a_stop_between_ticks_ends_the_loop() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    let mut driver = bench.start(true).await;
    let stop = after_pauses(&bench.time, 3);
    let (ended, seen) = go(&mut bench, &mut driver, stop).await;
    ended.unwrap();
    assert_eq!(seen[..3], ["record 2", "nothing", "nothing"]);
    assert!(seen.len() <= 4, "{seen:?}");
    assert_eq!(pauses(&bench)[..3], [1, 1, 1]);
    assert!(!driver.is_broken());
}

#[tokio::test]
async fn a_batch_in_hand_ends_before_the_loop_does() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    bench.model.script = [On::Slow].into();
    let mut driver = bench.start(true).await;
    let (log, store, stop) = (bench.log(), bench.shelf.clone(), after_attempts(&bench, 1));
    let ports = Ports { clock: &Patient(bench.time.now()), store: &*store, log: &log, orders: &NoOrders };
    let mut seen = Seen::default();
    run(&mut driver, ports, &mut bench.model, &mut Unattended, &mut seen, stop, None).await.unwrap();
    assert_eq!(seen.0, ["record 2"]);
    assert!(!driver.is_broken());
}

#[tokio::test]
async fn batches_that_catch_up_follow_each_other_without_a_pause() {
    let mut bench = Bench::new();
    bench.policy.on_lag = OnLag::CatchUp;
    bench.shelf.put("09/a#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    for hour in 10..23 {
        bench.shelf.put(&format!("{hour}/a#1"));
    }
    bench.set("23:10");
    let mut driver = bench.start(true).await;
    let stop = after_pauses(&bench.time, 1);
    let (ended, seen) = go(&mut bench, &mut driver, stop).await;
    ended.unwrap();
    assert_eq!(seen[..5], ["record 4", "record 5", "record 6", "record 7", "record 8"]);
    assert_eq!(driver.state().watermark, Some(at("23:00")));
    assert_eq!(bench.index(), "20/a#1 21/a#1 22/a#1");
    assert!(driver.state().holes.is_empty());
}

/// A clock that stands still, and whose pauses do not end.
struct Patient(Timestamp);

#[async_trait]
impl Clock for Patient {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_batch_that_does_not_end_is_abandoned_and_repaired_by_the_next_start() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    bench.model.script = [On::Hang].into();
    let mut driver = bench.start(true).await;
    let stop = after_attempts(&bench, 1);
    let (ended, seen) = go(&mut bench, &mut driver, stop).await;
    ended.unwrap();
    assert!(seen.is_empty());
    assert_eq!(pauses(&bench), [4]);
    assert!(driver.is_broken());
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(bench.index(), "10/a#1");
}

#[tokio::test]
async fn what_is_out_of_reach_is_tried_again_after_growing_pauses() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    bench.model.script = [On::FailBefore, On::FailBefore, On::FailBefore, On::FailBefore, On::FailBefore].into();
    let mut driver = bench.start(true).await;
    let stop = after_pauses(&bench.time, 7);
    let (ended, seen) = go(&mut bench, &mut driver, stop).await;
    ended.unwrap();
    assert_eq!(pauses(&bench)[..7], [2, 4, 8, 10, 10, 1, 1]);
    assert_eq!(seen[4..6], ["the sink is out of reach", "record 2"]);
}

#[tokio::test]
async fn an_attempt_whose_end_is_unknown_ends_the_loop() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    bench.model.script = [On::FailAfter].into();
    let mut driver = bench.start(true).await;
    let (ended, seen) = go(&mut bench, &mut driver, std::future::pending()).await;
    assert!(matches!(ended, Err(Fault::Unavailable(_))), "{ended:?}");
    assert_eq!(seen, ["the reply was lost"]);
    assert!(driver.is_broken());
}

#[tokio::test]
async fn a_newer_writer_ends_the_loop() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    let mut driver = bench.start(false).await;
    bench.start(false).await;
    let (ended, seen) = go(&mut bench, &mut driver, std::future::pending()).await;
    assert!(matches!(ended, Err(Fault::Fenced(_))), "{ended:?}");
    assert_eq!(seen.len(), 1);
    assert!(bench.attempts().is_empty());
}
