use super::super::*;
use super::bench::{Bench, hour_prefix, pinned};
use crate::partition::Layout;
use crate::plan::tests::script::{at, source};
use crate::policy::TimePolicy;

#[tokio::test]
async fn a_look_at_everything_fails_the_tick_and_writes_nothing_when_one_listing_fails() {
    let mut bench = Bench::new();
    bench.shelf.put("08/a#1");
    let mut driver = bench.start(false).await;
    bench.tick_on(&mut driver, &bench.log(), Look::Everything).await.unwrap();
    bench.shelf.put("09/late#1");
    bench.shelf.remove("08/a");
    bench.shelf.break_hour("09");
    bench.wait(3600);
    let failed = bench.tick_on(&mut driver, &bench.log(), Look::Everything).await;
    let Err(Fault::Unavailable(text)) = failed else { panic!("{failed:?}") };
    assert_eq!(text, r#"source ads: listing "2026-05-01/09/" failed: connection reset"#);
    assert_eq!(bench.log().highest().await.unwrap(), Sequence(2));
    assert_eq!(bench.index(), "08/a#1");
    bench.shelf.mend();
    let report = bench.tick_on(&mut driver, &bench.log(), Look::Everything).await.unwrap();
    assert_eq!(report.watermark, Some(at("11:00")));
    assert_eq!(bench.index(), "09/late#1");
}

#[tokio::test]
async fn a_failed_listing_holds_the_watermark_raises_an_alarm_that_keeps_its_time_and_deletes_nothing() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    bench.shelf.break_hour("10");
    bench.set("11:06");
    let mut since = None;
    for _ in 0..20 {
        let report = bench.tick(&mut driver).await.unwrap();
        assert_eq!(report.watermark, Some(at("10:00")));
        if let Some(alarm) = report.alarms.iter().find(|alarm| alarm.kind == "listing_failed") {
            assert_eq!(*since.get_or_insert(alarm.since), alarm.since);
        }
        bench.wait(1);
    }
    bench.shelf.put("11/b#1");
    let Body::Batch(batch) = bench.tick(&mut driver).await.unwrap().record.unwrap().body else { panic!("no batch") };
    assert_eq!(batch.alarms.iter().map(|alarm| alarm.since).collect::<Vec<_>>(), [since.unwrap()]);
    assert_eq!(bench.index(), "10/a#1 11/b#1");
    bench.shelf.mend();
    for _ in 0..20 {
        bench.wait(1);
        bench.tick(&mut driver).await.unwrap();
    }
    let report = bench.tick(&mut driver).await.unwrap();
    assert_eq!((report.watermark, report.alarms), (Some(at("11:00")), Vec::new()));
}

#[tokio::test]
async fn a_file_removed_while_nobody_looked_goes_once_its_prefix_is_listed() {
    let mut bench = Bench::new();
    bench.shelf.put("08/a#1");
    bench.shelf.put("10/b#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    bench.shelf.remove("08/a");
    bench.shelf.break_hour("08");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(pinned(&driver), "08/a#1 10/b#1");
    bench.shelf.mend();
    for _ in 0..600 {
        bench.wait(1);
        bench.tick(&mut driver).await.unwrap();
    }
    assert_eq!((bench.index(), pinned(&driver)), ("10/b#1".into(), "10/b#1".into()));
}

#[tokio::test]
async fn a_table_for_ever_does_not_begin_with_a_part_of_its_files() {
    let mut bench = Bench::new();
    bench.source = source("ads", "1h", &["forever=01:00"]);
    for text in ["01/a#1", "03/b#1", "10/c#1"] {
        bench.shelf.put(text);
    }
    bench.shelf.break_hour("03");
    let mut driver = bench.start(true).await;
    assert!(matches!(bench.tick(&mut driver).await, Err(Fault::Unavailable(_))));
    assert_eq!(bench.log().highest().await.unwrap(), Sequence(1));
    bench.shelf.mend();
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(bench.index(), "01/a#1 03/b#1 10/c#1");
}

fn by_region(bench: &mut Bench) {
    let TimePolicy::Partitioned(time) = &mut bench.source.time else { panic!("no time") };
    time.layout = Layout::parse("region={region}/%Y-%m-%d/%H").unwrap();
}

#[tokio::test]
async fn the_watermark_waits_until_capture_values_were_looked_for() {
    let mut bench = Bench::new();
    by_region(&mut bench);
    bench.shelf.put("region=eu/2026-05-01/09/a#1");
    bench.shelf.broken.lock().unwrap().insert(String::new());
    let mut driver = bench.start(true).await;
    let report = bench.tick(&mut driver).await.unwrap();
    assert_eq!(report.watermark, Some(at("07:00")));
    bench.shelf.mend();
    for _ in 0..600 {
        bench.wait(1);
        bench.tick(&mut driver).await.unwrap();
    }
    assert_eq!(driver.state().watermark, Some(at("10:00")));
    assert_eq!(bench.index(), "region=eu/09/a#1");
}

#[tokio::test]
async fn files_of_a_capture_value_that_vanished_while_nobody_looked_go() {
    let mut bench = Bench::new();
    by_region(&mut bench);
    bench.shelf.put("region=eu/2026-05-01/09/a#1");
    bench.shelf.put("region=us/2026-05-01/09/b#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    bench.shelf.remove("region=eu/2026-05-01/09/a");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    assert_eq!((bench.index(), pinned(&driver)), ("region=us/09/b#1".into(), "region=us/09/b#1".into()));
    assert_eq!(hour_prefix("09"), "2026-05-01/09/");
}

#[tokio::test]
async fn a_reference_that_could_not_be_listed_is_looked_at_again_at_the_next_tick() {
    let mut bench = Bench::new();
    bench.source = source("brands", "reference", &[]);
    bench.shelf.put("brands#1");
    bench.shelf.broken.lock().unwrap().insert(String::new());
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    assert!(bench.attempts().is_empty());
    bench.shelf.mend();
    bench.wait(1);
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(bench.index(), "brands#1");
    bench.wait(1);
    assert_eq!(bench.tick(&mut driver).await.unwrap().requests.list, 0, "then by schedule");
}
