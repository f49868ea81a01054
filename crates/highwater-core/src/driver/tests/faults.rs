use std::sync::Arc;

use super::super::*;
use super::bench::{Bench, On, pinned};
use crate::log::contract::faulty::{Faulty, OnPut};
use crate::receipt::Quarantined;

async fn begun() -> (Bench, Driver) {
    let mut bench = Bench::new();
    bench.shelf.put("08/a#1");
    bench.shelf.put("10/b#1");
    let mut driver = bench.start(false).await;
    bench.tick(&mut driver).await.unwrap();
    bench.wait(1);
    (bench, driver)
}

#[tokio::test]
async fn a_file_that_moved_is_listed_and_planned_again() {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/c#1");
    bench.model.script = [On::Replace("10/c#2")].into();
    let record = bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!(record.seq, Sequence(3), "the second try has the number of the first");
    assert_eq!(bench.index(), "08/a#1 10/b#1 10/c#2");
    assert_eq!(bench.attempts().len(), 3);
    assert!(!driver.is_broken());
}

#[tokio::test]
async fn a_file_that_moves_for_ever_is_set_aside_after_three_times() {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/c#1");
    bench.shelf.put("10/ghost#1");
    bench.model.ghosts.insert("2026-05-01/10/ghost".into());
    let record = bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!(bench.attempts().len(), 1 + 3 + 2);
    assert_eq!(bench.index(), "08/a#1 10/b#1 10/c#1");
    assert_eq!(quarantined(&driver), ["10/ghost#1 tried 1"]);
    let Body::Batch(batch) = record.body else { panic!("not a batch") };
    assert_eq!(batch.receipt.quarantined.len(), 1);
}

#[tokio::test]
async fn a_pinned_file_that_is_listed_and_gone_keeps_its_documents_and_the_pipeline_goes_on() {
    let (mut bench, _) = begun().await;
    bench.model.ghosts.insert("2026-05-01/10/b".into());
    bench.shelf.put("10/c#1");
    let mut driver = bench.start(false).await;
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!(bench.index(), "08/a#1 10/b#1 10/c#1");
    assert_eq!(quarantined(&driver), ["10/b#1 tried 1"]);
    let tries = bench.attempts().len();
    for _ in 0..50 {
        bench.wait(1);
        assert_eq!(bench.tick(&mut driver).await.unwrap().record, None);
    }
    assert_eq!(bench.attempts().len(), tries);
    for number in 0..5 {
        bench.shelf.put(&format!("10/d{number}#1"));
        bench.tick(&mut driver).await.unwrap();
    }
    assert_eq!(quarantined(&driver), ["10/b#1 tried 1"], "batches for other files are no tries");
    bench.wait(10);
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(quarantined(&driver), ["10/b#1 tried 2"]);
}

#[tokio::test]
async fn an_older_writer_touches_nothing() {
    let (mut bench, mut old) = begun().await;
    bench.start(false).await;
    bench.shelf.put("10/c#1");
    let tries = bench.attempts().len();
    assert!(matches!(bench.tick(&mut old).await, Err(Fault::Fenced(_))));
    assert_eq!(bench.attempts().len(), tries);
    assert_eq!(bench.index(), "08/a#1 10/b#1");
}

#[tokio::test]
async fn an_older_writer_that_believes_in_its_lock_is_fenced_by_the_log_and_repaired() {
    let (mut bench, _) = begun().await;
    let mut old = bench.start(true).await;
    bench.start(true).await;
    bench.shelf.put("10/c#1");
    assert!(matches!(bench.tick(&mut old).await, Err(Fault::Fenced(_))));
    assert!(old.is_broken());
    bench.shelf.remove("10/c");
    bench.shelf.put("10/d#1");
    let mut newest = bench.start(true).await;
    bench.tick(&mut newest).await.unwrap();
    assert_eq!(bench.index(), pinned(&newest));
    assert_eq!(bench.index(), "08/a#1 10/b#1 10/d#1");
}

#[tokio::test]
async fn a_number_whose_attempt_left_no_trace_is_used_again() {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/c#1");
    bench.model.script = [On::FailBefore].into();
    assert!(matches!(bench.tick(&mut driver).await, Err(Fault::Unavailable(_))));
    assert!(!driver.is_broken());
    bench.wait(1);
    let record = bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!(record.seq, Sequence(3));
    assert!(bench.attempts().last().unwrap().compare_all);
    assert_eq!(bench.index(), "08/a#1 10/b#1 10/c#1");
    bench.shelf.put("10/d#1");
    bench.tick(&mut driver).await.unwrap();
    assert!(!bench.attempts().last().unwrap().compare_all);
}

#[tokio::test]
async fn an_attempt_that_may_have_been_committed_ends_the_session() {
    for mute in [false, true] {
        let (mut bench, mut driver) = begun().await;
        bench.shelf.put("10/c#1");
        bench.model.script = [On::FailAfter].into();
        bench.model.mute = mute;
        assert!(matches!(bench.tick(&mut driver).await, Err(Fault::Unavailable(_))));
        assert!(driver.is_broken());
        bench.model.mute = false;
        let mut driver = bench.start(false).await;
        bench.tick(&mut driver).await.unwrap().record.unwrap();
        assert!(bench.attempts().last().unwrap().compare_all);
        assert_eq!(bench.index(), "08/a#1 10/b#1 10/c#1");
        assert_eq!(bench.index(), pinned(&driver));
    }
}

#[tokio::test]
async fn an_append_that_failed_ends_the_session_and_the_next_one_converges() {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/c#1");
    let log = bench.log_on(Arc::new(Faulty::new(bench.objects.clone()).on_puts([OnPut::TimeOut; 20])));
    assert!(matches!(bench.tick_on(&mut driver, &log, Look::Scheduled).await, Err(Fault::Unavailable(_))));
    assert!(driver.is_broken());
    bench.shelf.remove("10/c");
    let mut driver = bench.start(false).await;
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!(bench.index(), "08/a#1 10/b#1");
    assert_eq!(bench.index(), pinned(&driver));
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None);
}

/// After a batch that was committed and never recorded, whose file `10/c` the next session cannot list.
async fn unrecorded_and_unseen() -> (Bench, Driver) {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/c#1");
    let log = bench.log_on(Arc::new(Faulty::new(bench.objects.clone()).on_puts([OnPut::TimeOut; 20])));
    bench.tick_on(&mut driver, &log, Look::Scheduled).await.unwrap_err();
    bench.shelf.break_hour("10");
    let mut driver = bench.start(false).await;
    bench.shelf.put("09/d#1");
    let report = bench.tick(&mut driver).await.unwrap();
    assert_eq!(bench.index(), "08/a#1 09/d#1 10/b#1 10/c#1", "nothing goes because a look failed");
    let alarm = report.alarms.iter().find(|alarm| alarm.kind == "add_only").unwrap();
    assert!(alarm.detail.ends_with("are removed: ads: 2026-05-01/10/"), "{}", alarm.detail);
    assert!(driver.state().add_only);
    (bench, driver)
}

#[tokio::test]
async fn documents_of_an_unrecorded_batch_stay_until_their_files_can_be_listed() {
    let (mut bench, mut driver) = unrecorded_and_unseen().await;
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None, "one such batch is enough");
    bench.shelf.mend();
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!((bench.index(), driver.state().add_only), (pinned(&driver), false));
    assert_eq!(pinned(&driver), "08/a#1 09/d#1 10/b#1 10/c#1");
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None);
}

#[tokio::test]
async fn documents_of_an_unrecorded_batch_go_once_a_listing_shows_that_their_files_are_gone() {
    let (mut bench, _) = unrecorded_and_unseen().await;
    // Yet another session, which finds that sink and log agree.
    let mut driver = bench.start(false).await;
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!(bench.index(), "08/a#1 09/d#1 10/b#1 10/c#1");
    bench.shelf.remove("10/c");
    bench.shelf.mend();
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!((bench.index(), driver.state().add_only), (pinned(&driver), false));
    assert_eq!(bench.index(), "08/a#1 09/d#1 10/b#1");
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None);
}

#[tokio::test]
async fn a_reply_that_was_lost_is_no_fault() {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/c#1");
    let log = bench.log_on(Arc::new(Faulty::new(bench.objects.clone()).on_puts([OnPut::LoseReply])));
    bench.tick_on(&mut driver, &log, Look::Scheduled).await.unwrap().record.unwrap();
    assert!(!driver.is_broken());
    assert_eq!(bench.log().highest().await.unwrap(), Sequence(3));
}

#[tokio::test]
async fn a_replaced_file_that_cannot_be_read_keeps_its_last_good_version_until_it_can() {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/b#2");
    bench.model.unreadable.insert("2026-05-01/10/b#2".into());
    let Body::Batch(batch) = bench.tick(&mut driver).await.unwrap().record.unwrap().body else { panic!("no batch") };
    let cursor = &batch.sources[&SourceName::new("ads")];
    assert!(cursor.added.is_empty() && cursor.removed.is_empty(), "{cursor:?}");
    let first = cursor.quarantined.clone();
    assert_eq!((first[0].attempts, first[0].since), (1, bench.attempts()[1].clock));
    assert_eq!((bench.index(), pinned(&driver)), ("08/a#1 10/b#1".into(), "08/a#1 10/b#1".into()));

    bench.wait(59);
    assert_eq!(bench.tick(&mut driver).await.unwrap().record, None);
    bench.wait(1);
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    let entry: Vec<Quarantined> =
        driver.state().sources[&SourceName::new("ads")].quarantined.values().cloned().collect();
    assert_eq!((entry[0].attempts, entry[0].since), (2, first[0].since));

    bench.model.unreadable.clear();
    bench.wait(120);
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!((bench.index(), pinned(&driver)), ("08/a#1 10/b#2".into(), "08/a#1 10/b#2".into()));
    assert!(quarantined(&driver).is_empty());
}

#[tokio::test]
async fn tries_are_counted_on_where_the_last_good_version_is_out_of_reach_too() {
    let (mut bench, mut driver) = begun().await;
    bench.shelf.put("10/b#2");
    bench.model.unreadable.insert("2026-05-01/10/b#2".into());
    bench.tick(&mut driver).await.unwrap();
    bench.wait(60);
    bench.tick(&mut driver).await.unwrap();
    assert_eq!(quarantined(&driver), ["10/b#2 tried 2"]);
    let mut driver = bench.start(false).await;
    bench.shelf.put("10/c#1");
    bench.tick(&mut driver).await.unwrap().record.unwrap();
    assert_eq!(quarantined(&driver), ["10/b#2 tried 2"]);
    assert_eq!(bench.index(), "08/a#1 10/b#1 10/c#1");
}

fn quarantined(driver: &Driver) -> Vec<String> {
    let entries = driver.state().sources.values().flat_map(|source| source.quarantined.values());
    let shown = entries.map(|q| format!("{}#{} tried {}", q.version.path, q.version.etag, q.attempts));
    shown.map(|text| text.replace("2026-05-01/", "")).collect()
}
