use futures::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;

use super::super::*;
use super::bench::{Bench, pinned};
use crate::plan::tests::script::at;
use crate::ports::Stamp;

#[tokio::test]
async fn a_tick_without_change_writes_nothing_and_lists_two_prefixes_at_most() {
    let mut bench = Bench::new();
    bench.shelf.put("08/a#1");
    bench.shelf.put("10/b#1");
    let mut driver = bench.start(false).await;
    let first = bench.tick(&mut driver).await.unwrap();
    assert_eq!(first.record.unwrap().seq, Sequence(2), "after the claim");
    assert_eq!(bench.index(), "08/a#1 10/b#1");
    for _ in 0..200 {
        bench.wait(1);
        let report = bench.tick(&mut driver).await.unwrap();
        assert_eq!(report.record, None);
        assert!(report.listed.values().all(|count| *count <= 2), "{:?}", report.listed);
        assert_eq!(report.requests.list, report.listed.values().sum::<usize>() as u64);
    }
    assert_eq!(bench.log().highest().await.unwrap(), Sequence(2));
    assert_eq!(bench.attempts().len(), 1);
}

#[tokio::test]
async fn the_watermark_alone_is_recorded_once_a_step() {
    let mut bench = Bench::new();
    bench.shelf.put("10/b#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    let mut advances = Vec::new();
    for _ in 0..120 {
        bench.wait(60);
        advances.extend(bench.tick(&mut driver).await.unwrap().record);
    }
    let marks: Vec<_> = advances
        .iter()
        .map(|record| match &record.body {
            Body::Advance { watermark, .. } => *watermark,
            other => panic!("not an advance: {other:?}"),
        })
        .collect();
    assert_eq!(marks, [at("11:00"), at("12:00")]);
    assert_eq!(bench.attempts().len(), 1);
}

#[tokio::test]
async fn batches_are_numbered_like_the_log() {
    let mut bench = Bench::new();
    let mut driver = bench.start(true).await;
    for name in ["a", "b", "c"] {
        bench.shelf.put(&format!("10/{name}#1"));
        let record = bench.tick(&mut driver).await.unwrap().record.unwrap();
        assert_eq!(record.seq, bench.attempts().last().unwrap().sequence);
        assert_eq!(driver.state().stamp.unwrap().sequence, record.seq);
        bench.wait(1);
    }
    let numbers: Vec<u64> = bench.attempts().iter().map(|attempt| attempt.sequence.0).collect();
    assert_eq!(numbers, [2, 3, 4]);
    assert_eq!(bench.index(), "10/a#1 10/b#1 10/c#1");
}

#[tokio::test]
async fn without_any_file_there_is_no_batch() {
    let mut bench = Bench::new();
    let mut driver = bench.start(true).await;
    let report = bench.tick(&mut driver).await.unwrap();
    assert!(matches!(report.record.unwrap().body, Body::Advance { .. }));
    assert!(bench.attempts().is_empty());
}

#[tokio::test]
async fn a_stamp_that_the_log_does_not_know_forces_one_comparison_of_everything() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    let mut driver = bench.start(true).await;
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None, "where they agree, nothing is to do");

    bench.model.stamp = Some(Stamp { sequence: Sequence(1), watermark: at("09:00") });
    bench.model.index.insert("stray".into(), "1".into());
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert!(bench.attempts().last().unwrap().compare_all);
    assert_eq!(bench.index(), "10/a#1");
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None);
}

#[tokio::test]
async fn a_damaged_record_forces_a_comparison_too() {
    let mut bench = Bench::new();
    bench.shelf.put("10/a#1");
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap();
    let record = Path::from("state/log").join(Sequence(2).object_name());
    bench.objects.put_opts(&record, "{".into(), Default::default()).await.unwrap();
    let mut driver = bench.start(true).await;
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert!(bench.attempts().last().unwrap().compare_all);
    assert_eq!(bench.index(), pinned(&driver));
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None);
}

async fn snapshots(bench: &Bench) -> usize {
    bench.objects.list(Some(&Path::from("state/snapshot"))).count().await
}

#[tokio::test]
async fn a_snapshot_is_written_when_due_and_says_the_same_as_the_log() {
    let mut bench = Bench::new();
    let mut driver = bench.start(true).await;
    for number in 0..70 {
        bench.shelf.put(&format!("10/a#{}", number + 1));
        bench.tick(&mut driver).await.unwrap();
    }
    assert_eq!(snapshots(&bench).await, 1);
    let loaded = bench.log().load().await.unwrap();
    assert_eq!(&loaded.state, driver.state());
    assert!(loaded.replayed.0 < 20, "{:?}", loaded.replayed);
}

#[tokio::test]
async fn short_sessions_write_snapshots_too() {
    let mut bench = Bench::new();
    for number in 0..35 {
        bench.shelf.put(&format!("10/a#{}", number + 1));
        let mut driver = bench.start(true).await;
        bench.tick(&mut driver).await.unwrap();
    }
    assert_eq!(snapshots(&bench).await, 1);
}
