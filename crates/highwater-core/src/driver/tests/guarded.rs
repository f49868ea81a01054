//! Removals that are withheld, over ticks and restarts, and the orders that end it.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use super::super::*;
use super::bench::{Bench, pinned};
use crate::ports::Orders;

/// Fourteen files in two hours, indexed.
async fn filled() -> (Bench, Driver) {
    let mut bench = Bench::new();
    for name in 0..7 {
        bench.shelf.put(&format!("08/{name}#1"));
        bench.shelf.put(&format!("09/{name}#1"));
    }
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(bench.model.index.len(), 14);
    (bench, driver)
}

fn empty_shelf(bench: &Bench) {
    bench.shelf.files.lock().unwrap().clear();
}

fn kinds(report: &TickReport) -> Vec<&str> {
    report.alarms.iter().map(|alarm| alarm.kind.as_str()).collect()
}

async fn look(bench: &mut Bench, driver: &mut Driver) -> TickReport {
    bench.wait(60);
    let log = bench.log();
    bench.tick_on(driver, &log, Look::Everything).await.unwrap()
}

#[tokio::test]
async fn an_empty_listing_costs_one_record_no_batch_and_no_document() {
    let (mut bench, mut driver) = filled().await;
    let attempts = bench.attempts().len();
    empty_shelf(&bench);
    let report = look(&mut bench, &mut driver).await;
    assert_eq!(kinds(&report), ["removals_withheld"]);
    assert!(matches!(report.record, Some(Record { body: Body::Advance { .. }, .. })), "{:?}", report.record);
    assert_eq!((bench.attempts().len(), bench.model.index.len()), (attempts, 14));
    let again = look(&mut bench, &mut driver).await;
    assert!(again.record.is_none(), "it is written down once");
    assert_eq!(kinds(&again), ["removals_withheld"]);
}

#[tokio::test]
async fn a_restart_remembers_and_batches_only_add_until_the_files_return() {
    let (mut bench, mut driver) = filled().await;
    let files = bench.shelf.files.lock().unwrap().clone();
    empty_shelf(&bench);
    let since = look(&mut bench, &mut driver).await.alarms[0].since;
    let mut driver = bench.start(true).await;
    bench.shelf.put("10/new#1");
    let report = look(&mut bench, &mut driver).await;
    assert_eq!(kinds(&report), ["removals_withheld", "add_only"]);
    assert_eq!(report.alarms[0].since, since, "since it was first seen, by whichever process");
    assert_eq!(bench.model.index.len(), 15, "the new one came in, none went");
    assert!(driver.state().add_only);

    *bench.shelf.files.lock().unwrap() = files;
    let report = look(&mut bench, &mut driver).await;
    assert!(report.alarms.is_empty(), "{:?}", report.alarms);
    assert!(bench.attempts().last().unwrap().compare_all, "what was left out meanwhile is made good");
    assert_eq!((bench.model.index.len(), driver.state().add_only), (14, false));
    assert!(look(&mut bench, &mut driver).await.record.is_none());
}

#[tokio::test]
async fn an_order_is_carried_out_recorded_and_deleted() {
    let (mut bench, mut driver) = filled().await;
    empty_shelf(&bench);
    let clock = look(&mut bench, &mut driver).await.clock;
    let early = Order::AcceptRemovals { source: None, at: clock - jiff::SignedDuration::from_secs(1) };
    bench.orders().give("early", &early).await.unwrap();
    look(&mut bench, &mut driver).await;
    assert_eq!(bench.model.index.len(), 14, "what vanished later was not seen");
    let other = Order::AcceptRemovals { source: Some(SourceName::new("other")), at: clock };
    bench.orders().give("other", &other).await.unwrap();
    look(&mut bench, &mut driver).await;
    assert_eq!(bench.model.index.len(), 14);
    bench.orders().give("now", &Order::AcceptRemovals { source: None, at: clock }).await.unwrap();
    let report = look(&mut bench, &mut driver).await;
    assert!(report.alarms.is_empty(), "{:?}", report.alarms);
    assert_eq!((bench.model.index.len(), pinned(&driver)), (0, String::new()));
    assert_eq!(bench.orders().waiting().await.unwrap(), [], "all three are done");
}

#[tokio::test]
async fn removals_are_not_accepted_where_a_look_failed() {
    let (mut bench, mut driver) = filled().await;
    empty_shelf(&bench);
    let at = look(&mut bench, &mut driver).await.clock;
    bench.orders().give("now", &Order::AcceptRemovals { source: None, at }).await.unwrap();
    bench.shelf.break_hour("09");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    assert_eq!((bench.model.index.len(), bench.orders().waiting().await.unwrap().len()), (14, 1));
    bench.shelf.mend();
    look(&mut bench, &mut driver).await;
    assert_eq!((bench.model.index.len(), bench.orders().waiting().await.unwrap().len()), (0, 0));
}

#[tokio::test]
async fn a_file_in_quarantine_is_tried_at_once_when_it_is_ordered_and_only_once() {
    let mut bench = Bench::new();
    bench.shelf.put("08/a#1");
    bench.shelf.put("08/b#1");
    bench.model.unreadable.insert("2026-05-01/08/b#1".into());
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    let tried = |driver: &Driver| {
        let source = driver.state().sources.values().next().unwrap();
        source.quarantined.values().map(|entry| entry.attempts).collect::<Vec<_>>()
    };
    assert_eq!(tried(&driver), [1]);
    let order = Order::Retry { source: None, path: Some("2026-05-01/08/b".into()) };
    bench.orders().give("retry", &order).await.unwrap();
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(tried(&driver), [2], "it still cannot be read");
    assert_eq!(bench.orders().waiting().await.unwrap(), []);
    bench.model.unreadable.clear();
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(bench.index(), "08/a#1", "it waits for its time again");
    bench.orders().give("retry", &order).await.unwrap();
    bench.tick(&mut driver).await.unwrap();
    assert_eq!((bench.index(), tried(&driver)), ("08/a#1 08/b#1".into(), vec![]));
}

#[derive(Default)]
struct Counted(AtomicU32);

#[async_trait]
impl Orders for Counted {
    async fn waiting(&self) -> Result<Vec<Order>, Fault> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Vec::new())
    }

    async fn done(&self, _orders: &[Order]) -> Result<(), Fault> {
        Ok(())
    }
}

#[tokio::test]
async fn a_quiet_pipeline_asks_for_no_orders() {
    let (mut bench, mut driver) = filled().await;
    let orders = Counted::default();
    let (clock, store, log) = (bench.time.clone(), bench.shelf.clone(), bench.log());
    let ports = Ports { clock: &*clock, store: &*store, log: &log, orders: &orders };
    bench.shelf.put("10/new#1");
    driver.tick(ports, &mut bench.model, Look::Everything).await.unwrap();
    driver.tick(ports, &mut bench.model, Look::Everything).await.unwrap();
    assert_eq!(orders.0.load(Ordering::Relaxed), 0);
    empty_shelf(&bench);
    driver.tick(ports, &mut bench.model, Look::Everything).await.unwrap();
    driver.tick(ports, &mut bench.model, Look::Everything).await.unwrap();
    assert_eq!(orders.0.load(Ordering::Relaxed), 2, "once a tick while something is withheld");
}
