//! The suite that every sink must pass, written against the traits alone. Knows no sink by name.
//!
//! A sink's own tests hand in a [`Bench`] and call [`run`], or the cases one by one. The cases fail by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a suite of tests, for other crates' tests too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::TryStreamExt;
use highwater_core::lease::Unguarded;
use highwater_core::ports::Stamp;
use highwater_core::{Sequence, SourceName, Timestamp};
use serde_json::json;

use crate::index::{
    AsOf, Change, Field, FieldKind, MAX_ID_BYTES, Pair, SearchError, SearchQuery, Searcher, Shape, Sink, StoredDocument,
};
use crate::task;
use crate::transform::Document;

/// One index under test, empty at first, of [`shape`].
#[async_trait]
pub trait Bench: Send + Sync {
    /// Opens it for writing. The suite dropped the sink that it opened before, as a process that died would.
    async fn sink(&self) -> Box<dyn Sink>;
    /// Opens it for reading, while a sink may be open; `None` if it is no searcher.
    async fn searcher(&self) -> Option<Arc<dyn Searcher>>;
}

/// Runs every case on a bench of its own. Wants a runtime with more than one thread.
pub async fn run(fresh: &dyn Fn() -> Box<dyn Bench>) {
    nothing_is_visible_before_the_commit(&*fresh()).await;
    a_batch_becomes_visible_whole(&*fresh()).await;
    an_upsert_replaces(&*fresh()).await;
    deleting_what_is_not_there_is_fine(&*fresh()).await;
    a_commit_is_idempotent(&*fresh()).await;
    an_empty_batch_moves_the_stamp(&*fresh()).await;
    abandoned_changes_are_gone_or_traced(&*fresh()).await;
    an_abandoned_batch_can_be_retried(&*fresh()).await;
    the_same_id_in_two_calls_stays_one(&*fresh()).await;
    a_reopened_index_keeps_its_commit(&*fresh()).await;
    a_crash_loses_what_was_staged_or_leaves_traces(&*fresh()).await;
    a_checkpoint_is_no_batch(&*fresh()).await;
    odd_ids_are_ids(&*fresh()).await;
    a_bad_document_costs_one_document(&*fresh()).await;
    pairs_are_sorted_over_many_commits(&*fresh()).await;
    readers_see_whole_batches(&*fresh()).await;
    for seed in 1..=3 {
        random_batches_leave_what_the_model_holds(&*fresh(), seed).await;
    }
}

/// The shape of the suite's documents.
pub fn shape() -> Shape {
    let field = |name: &str, kind| Field { name: name.to_owned(), kind, many: false, hint: None };
    Shape {
        pipeline: "contract".to_owned(),
        id: "id".to_owned(),
        fields: vec![
            field("id", FieldKind::Text),
            field("title", FieldKind::Text),
            field("version", FieldKind::I64),
            field("price", FieldKind::F64),
            field("live", FieldKind::Bool),
            field("at", FieldKind::Time),
            field("day", FieldKind::Date),
            Field { name: "tags".to_owned(), kind: FieldKind::Text, many: true, hint: None },
            field("extra", FieldKind::Object),
        ],
    }
}

/// A document of that shape; different for each version.
pub fn document(id: &str, version: i64) -> Document {
    let row = json!({
        "id": id, "title": format!("title {version} of it"), "version": version, "price": 0.5, "live": version % 2 == 0,
        "at": "2026-05-01T10:00:00Z", "day": "2026-05-01", "tags": ["a", format!("t{version}")],
        "extra": {"nested": {"n": version}},
    });
    let json = serde_json::to_vec(&row).unwrap().into_boxed_slice();
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(&json).as_bytes()[..16]);
    Document { id: id.into(), json, hash }
}

/// A stamp of batch `n`.
pub fn as_of(n: u64) -> AsOf {
    let watermark = Timestamp::from_second(1_780_000_000 + n as i64 * 300).unwrap();
    let newest =
        BTreeMap::from([(SourceName::new("ads"), watermark), (SourceName::new("clicks"), Timestamp::UNIX_EPOCH)]);
    AsOf { stamp: Stamp { sequence: Sequence(n), watermark }, newest }
}

fn upsert(id: &str, version: i64) -> Change {
    Change::Upsert(document(id, version))
}

async fn apply(sink: &mut dyn Sink, n: u64, changes: Vec<Change>) {
    let refused = sink.stage(Sequence(n), changes, &Unguarded).await.unwrap();
    assert_eq!(refused, vec![], "batch {n}");
    sink.commit(&as_of(n), &Unguarded).await.unwrap();
}

async fn pairs(sink: &dyn Sink) -> Vec<Pair> {
    let blocks: Vec<Vec<Pair>> = sink.pairs().await.unwrap().try_collect().await.unwrap();
    blocks.into_iter().flatten().collect()
}

async fn dump(searcher: &dyn Searcher) -> Vec<StoredDocument> {
    let blocks: Vec<Vec<StoredDocument>> = searcher.dump().await.unwrap().1.try_collect().await.unwrap();
    blocks.into_iter().flatten().collect()
}

fn all(limit: usize) -> SearchQuery {
    SearchQuery { query: "*".to_owned(), limit, offset: 0 }
}

/// What the index should hold: the version and the batch of each id.
type Expected = BTreeMap<Box<str>, (i64, u64)>;

async fn check(bench: &dyn Bench, sink: &dyn Sink, expected: &Expected, n: Option<u64>) {
    let stamp = n.map(as_of);
    assert_eq!(sink.as_of().await.unwrap(), stamp);
    assert_eq!(sink.count().await.unwrap(), expected.len() as u64);
    let wanted: Vec<StoredDocument> = expected
        .iter()
        .map(|(id, (version, n))| {
            let Document { id, json, hash } = document(id, *version);
            StoredDocument { id, json, hash, sequence: Sequence(*n) }
        })
        .collect();
    let wanted_pairs: Vec<Pair> = wanted
        .iter()
        .map(|document| Pair { id: document.id.clone(), hash: document.hash, sequence: document.sequence })
        .collect();
    assert_eq!(pairs(sink).await, wanted_pairs);

    let Some(searcher) = bench.searcher().await else { return };
    assert_eq!(dump(&*searcher).await, wanted);
    let Some(stamp) = stamp else {
        assert_eq!(searcher.as_of().await.unwrap(), None);
        assert!(matches!(searcher.search(&all(1)).await, Err(SearchError::Empty)));
        assert!(matches!(searcher.get("x").await, Err(SearchError::Empty)));
        return;
    };
    assert_eq!(searcher.as_of().await.unwrap(), Some((stamp.clone(), wanted.len() as u64)));
    let found = searcher.search(&all(wanted.len() + 10)).await.unwrap();
    assert_eq!((&found.as_of, found.total), (&stamp, wanted.len() as u64));
    let hits: Vec<StoredDocument> = found.hits.into_iter().map(|hit| hit.document).collect();
    assert_eq!(hits, wanted);
    for document in wanted.iter().take(20) {
        assert_eq!(searcher.get(&document.id).await.unwrap(), (Some(document.clone()), stamp.clone()));
    }
}

/// Staged documents are neither counted nor found.
pub async fn nothing_is_visible_before_the_commit(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    check(bench, &*sink, &Expected::new(), None).await;
    sink.stage(Sequence(1), vec![upsert("a", 1)], &Unguarded).await.unwrap();
    check(bench, &*sink, &Expected::new(), None).await;
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    sink.stage(Sequence(2), vec![upsert("b", 2), Change::Delete("a".into())], &Unguarded).await.unwrap();
    check(bench, &*sink, &Expected::from([("a".into(), (1, 1))]), Some(1)).await;
}

/// Several calls make one batch.
pub async fn a_batch_becomes_visible_whole(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    sink.stage(Sequence(1), vec![upsert("a", 1), upsert("b", 1)], &Unguarded).await.unwrap();
    sink.stage(Sequence(1), vec![upsert("c", 1)], &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    let mut expected = Expected::from([("a".into(), (1, 1)), ("b".into(), (1, 1)), ("c".into(), (1, 1))]);
    check(bench, &*sink, &expected, Some(1)).await;
    sink.stage(Sequence(4), vec![Change::Delete("a".into())], &Unguarded).await.unwrap();
    sink.stage(Sequence(4), vec![upsert("b", 2)], &Unguarded).await.unwrap();
    sink.commit(&as_of(4), &Unguarded).await.unwrap();
    expected.remove("a");
    expected.insert("b".into(), (2, 4));
    check(bench, &*sink, &expected, Some(4)).await;
}

/// One id is one document, whatever was there.
pub async fn an_upsert_replaces(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    for n in 1..=5 {
        apply(&mut *sink, n, vec![upsert("a", n as i64)]).await;
        check(bench, &*sink, &Expected::from([("a".into(), (n as i64, n))]), Some(n)).await;
    }
}

/// A deletion of an absent id changes nothing.
pub async fn deleting_what_is_not_there_is_fine(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    apply(&mut *sink, 1, vec![Change::Delete("ghost".into()), upsert("a", 1)]).await;
    apply(&mut *sink, 2, vec![Change::Delete("ghost".into())]).await;
    check(bench, &*sink, &Expected::from([("a".into(), (1, 1))]), Some(2)).await;
}

/// A commit whose reply was lost can be made again; so can the whole batch.
pub async fn a_commit_is_idempotent(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    let expected = Expected::from([("a".into(), (1, 1))]);
    apply(&mut *sink, 1, vec![upsert("a", 1), Change::Delete("b".into())]).await;
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    check(bench, &*sink, &expected, Some(1)).await;
    apply(&mut *sink, 1, vec![upsert("a", 1), Change::Delete("b".into())]).await;
    check(bench, &*sink, &expected, Some(1)).await;
}

/// The watermark moves even where no document does.
pub async fn an_empty_batch_moves_the_stamp(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    check(bench, &*sink, &Expected::new(), Some(1)).await;
    apply(&mut *sink, 2, vec![upsert("a", 1)]).await;
    sink.commit(&as_of(3), &Unguarded).await.unwrap();
    check(bench, &*sink, &Expected::from([("a".into(), (1, 2))]), Some(3)).await;
}

/// What was abandoned never shows, not even with the next commit; without rollback it shows at once, and is traced.
pub async fn abandoned_changes_are_gone_or_traced(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    sink.abandon().await.unwrap();
    apply(&mut *sink, 1, vec![upsert("a", 1), upsert("b", 1)]).await;
    sink.stage(Sequence(2), vec![upsert("c", 2), Change::Delete("a".into()), upsert("b", 2)], &Unguarded)
        .await
        .unwrap();
    sink.abandon().await.unwrap();
    let mut expected = Expected::from([("a".into(), (1, 1)), ("b".into(), (1, 1))]);
    if !sink.is_atomic() {
        expected = Expected::from([("b".into(), (2, 2)), ("c".into(), (2, 2))]);
    }
    check(bench, &*sink, &expected, Some(1)).await;
    assert_eq!(sink.traces(&[Sequence(2)]).await.unwrap(), !sink.is_atomic());
    assert!(!sink.traces(&[Sequence(3), Sequence(4)]).await.unwrap());
    apply(&mut *sink, 3, vec![upsert("d", 3)]).await;
    expected.insert("d".into(), (3, 3));
    check(bench, &*sink, &expected, Some(3)).await;
}

/// A retried batch is exact: an id staged, abandoned, and staged again stands once.
pub async fn an_abandoned_batch_can_be_retried(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    let ids: Vec<String> = (0..100).map(|n| format!("id-{n:03}")).collect();
    apply(&mut *sink, 1, ids.iter().map(|id| upsert(id, 1)).collect()).await;
    for _ in 0..3 {
        sink.stage(Sequence(2), ids.iter().take(50).map(|id| upsert(id, 2)).collect(), &Unguarded).await.unwrap();
        sink.abandon().await.unwrap();
    }
    sink.stage(Sequence(2), ids.iter().take(60).map(|id| upsert(id, 2)).collect(), &Unguarded).await.unwrap();
    sink.stage(Sequence(2), ids.iter().skip(80).map(|id| Change::Delete(id.as_str().into())).collect(), &Unguarded)
        .await
        .unwrap();
    sink.commit(&as_of(2), &Unguarded).await.unwrap();
    let expected = (0..80).map(|n| (ids[n].as_str().into(), if n < 60 { (2, 2) } else { (1, 1) })).collect();
    check(bench, &*sink, &expected, Some(2)).await;
}

/// The last of several changes to one id wins, in an empty index and in one that has it.
pub async fn the_same_id_in_two_calls_stays_one(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    for n in 1..=2 {
        sink.stage(Sequence(n), vec![upsert("a", 1)], &Unguarded).await.unwrap();
        sink.stage(Sequence(n), vec![Change::Delete("a".into())], &Unguarded).await.unwrap();
        sink.stage(Sequence(n), vec![upsert("a", 2)], &Unguarded).await.unwrap();
        sink.stage(Sequence(n), vec![upsert("a", 3)], &Unguarded).await.unwrap();
        sink.commit(&as_of(n), &Unguarded).await.unwrap();
        check(bench, &*sink, &Expected::from([("a".into(), (3, n))]), Some(n)).await;
    }
}

/// A new process finds the last commit.
pub async fn a_reopened_index_keeps_its_commit(bench: &dyn Bench) {
    let mut expected = Expected::new();
    for n in 1..=4 {
        let mut sink = bench.sink().await;
        check(bench, &*sink, &expected, (n > 1).then_some(n - 1)).await;
        apply(&mut *sink, n, vec![upsert(&format!("id {n}"), 1), upsert("same", n as i64)]).await;
        expected.insert(format!("id {n}").into(), (1, n));
        expected.insert("same".into(), (n as i64, n));
    }
    let sink = bench.sink().await;
    check(bench, &*sink, &expected, Some(4)).await;
}

/// A process that dies between stage and commit leaves the last commit; without rollback, what it staged too.
pub async fn a_crash_loses_what_was_staged_or_leaves_traces(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    sink.stage(Sequence(1), vec![upsert("x", 1)], &Unguarded).await.unwrap();
    drop(sink);
    let mut sink = bench.sink().await;
    let atomic = sink.is_atomic();
    let left = if atomic { Expected::new() } else { Expected::from([("x".into(), (1, 1))]) };
    check(bench, &*sink, &left, None).await;
    apply(&mut *sink, 2, vec![upsert("a", 2), Change::Delete("x".into())]).await;
    assert!(!sink.traces(&[Sequence(1)]).await.unwrap(), "repaired");
    sink.stage(Sequence(3), vec![Change::Delete("a".into()), upsert("b", 3)], &Unguarded).await.unwrap();
    drop(sink);
    let mut sink = bench.sink().await;
    let left = if atomic { ("a".into(), (2, 2)) } else { ("b".into(), (3, 3)) };
    check(bench, &*sink, &Expected::from([left]), Some(2)).await;
    assert_eq!(sink.traces(&[Sequence(3)]).await.unwrap(), !atomic);
    apply(&mut *sink, 4, vec![upsert("b", 4)]).await;
    assert_eq!(sink.traces(&[Sequence(3)]).await.unwrap(), !atomic, "of the deletion");
    apply(&mut *sink, 5, vec![Change::Delete("a".into()), Change::Delete("b".into())]).await;
    assert!(!sink.traces(&[Sequence(3)]).await.unwrap());
    check(bench, &*sink, &Expected::new(), Some(5)).await;
}

/// What a checkpoint keeps has no stamp, whatever comes after it; the batch is whole once it is committed.
pub async fn a_checkpoint_is_no_batch(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    sink.stage(Sequence(1), vec![upsert("a", 1), upsert("b", 1)], &Unguarded).await.unwrap();
    sink.checkpoint(&Unguarded).await.unwrap();
    assert_eq!(sink.as_of().await.unwrap(), None);
    if let Some(searcher) = bench.searcher().await {
        assert_eq!(searcher.as_of().await.unwrap(), None);
        assert!(matches!(searcher.search(&all(1)).await, Err(SearchError::Empty)));
    }
    sink.stage(Sequence(1), vec![upsert("c", 1)], &Unguarded).await.unwrap();
    drop(sink);
    let mut sink = bench.sink().await;
    assert_eq!(sink.as_of().await.unwrap(), None);
    let kept: Vec<Box<str>> = pairs(&*sink).await.into_iter().map(|pair| pair.id).collect();
    let left = ["a", "b", "c", "d"].into_iter().filter(|id| !kept.iter().any(|kept| &**kept == *id));
    let left: Vec<Change> = left.map(|id| upsert(id, 1)).collect();
    sink.stage(Sequence(1), left, &Unguarded).await.unwrap();
    sink.checkpoint(&Unguarded).await.unwrap();
    apply(&mut *sink, 1, vec![upsert("e", 1)]).await;
    let expected: Expected = ["a", "b", "c", "d", "e"].map(|id| (id.into(), (1, 1))).into();
    check(bench, &*sink, &expected, Some(1)).await;
    sink.stage(Sequence(2), vec![upsert("f", 2)], &Unguarded).await.unwrap();
    sink.checkpoint(&Unguarded).await.unwrap();
    if sink.is_atomic() {
        check(bench, &*sink, &expected, Some(1)).await;
    }
}

/// Ids are bytes to compare, nothing else: no signs mean anything in them, and they sort by their UTF-8.
pub async fn odd_ids_are_ids(bench: &dyn Bench) {
    let long = "é".repeat(MAX_ID_BYTES / 2);
    let mut ids: Vec<String> = vec![long.clone(), format!("{}x", &long[2..])];
    let short = [
        " ",
        "a b",
        " a b ",
        "+",
        "-",
        "a+b",
        "*",
        "?",
        "\"",
        "'",
        "\\",
        "a\"b",
        "a:b",
        "id:a",
        "(",
        "[a TO b]",
        "AND",
        "a/b",
        "..",
        "A",
        "a",
        "ä",
        "a\u{308}",
        "\u{10ffff}",
        "\u{ffff}",
        "\u{e000}",
        "日本",
        "🦀",
        "a\nb",
        "a\0b",
        "\0",
        "1",
        "01",
        "1.0",
        "null",
        "ａ",
        "%20",
        "&amp;",
        "{}",
        "😀 😀",
    ];
    ids.extend(short.map(str::to_owned));
    let mut expected = Expected::new();
    let mut sink = bench.sink().await;
    apply(&mut *sink, 1, ids.iter().map(|id| upsert(id, 1)).collect()).await;
    expected.extend(ids.iter().map(|id| (id.as_str().into(), (1, 1))));
    check(bench, &*sink, &expected, Some(1)).await;
    if let Some(searcher) = bench.searcher().await {
        for id in &ids {
            let (document, _) = searcher.get(id).await.unwrap();
            assert_eq!(document.map(|document| document.id), Some(id.as_str().into()));
        }
        assert_eq!(searcher.get("b").await.unwrap().0, None);
    }
    apply(&mut *sink, 2, ids.iter().map(|id| upsert(id, 2)).collect()).await;
    expected.values_mut().for_each(|value| *value = (2, 2));
    check(bench, &*sink, &expected, Some(2)).await;
    for (n, some) in (3..).zip(ids.chunks(5)) {
        apply(&mut *sink, n, some.iter().map(|id| Change::Delete(id.as_str().into())).collect()).await;
        some.iter().for_each(|id| assert!(expected.remove(id.as_str()).is_some()));
        let left: Vec<Box<str>> = pairs(&*sink).await.into_iter().map(|pair| pair.id).collect();
        assert!(left.iter().eq(expected.keys()), "after deleting {some:?}");
    }
}

/// Others of the same call are taken, and the refused one is named.
pub async fn a_bad_document_costs_one_document(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    let mut broken = document("broken", 1);
    broken.json = b"{\"id\": \"broken\", ".to_vec().into_boxed_slice();
    let long = "x".repeat(MAX_ID_BYTES + 1);
    let changes = vec![upsert("a", 1), Change::Upsert(broken), upsert(&long, 1), upsert("", 1), upsert("b", 1)];
    let refused = sink.stage(Sequence(1), changes, &Unguarded).await.unwrap();
    let named: BTreeSet<Box<str>> = refused.iter().map(|refused| refused.id.clone()).collect();
    assert_eq!(named, BTreeSet::from(["broken".into(), long.into(), "".into()]));
    assert!(refused.iter().all(|refused| !refused.reason.is_empty()));
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    check(bench, &*sink, &Expected::from([("a".into(), (1, 1)), ("b".into(), (1, 1))]), Some(1)).await;
}

/// The order holds over commits that interleave, past one block.
pub async fn pairs_are_sorted_over_many_commits(bench: &dyn Bench) {
    let mut sink = bench.sink().await;
    let mut expected = Expected::new();
    for n in 1..=12_u64 {
        let ids: Vec<String> = (0..900).map(|k| format!("{:05}", (k * 12 + n * 7) % 10_800)).collect();
        let changes = ids.iter().map(|id| upsert(id, n as i64)).collect();
        apply(&mut *sink, n, changes).await;
        expected.extend(ids.iter().map(|id| (id.as_str().into(), (n as i64, n))));
    }
    check(bench, &*sink, &expected, Some(12)).await;
    if let Some(searcher) = bench.searcher().await {
        let page = SearchQuery { query: String::new(), limit: 3, offset: 8_500 };
        let found = searcher.search(&page).await.unwrap();
        let hits: Vec<&str> = found.hits.iter().map(|hit| &*hit.document.id).collect();
        let wanted: Vec<&str> = expected.keys().skip(8_500).take(3).map(|id| &**id).collect();
        assert_eq!(hits, wanted);
    }
}

/// A reader that never pauses sees each batch whole, and the stamp that belongs to it. Without rollback: never less than
/// the batch before the stamp's, and after the commit all of it.
pub async fn readers_see_whole_batches(bench: &dyn Bench) {
    const DOCUMENTS: u64 = 20;
    const BATCHES: u64 = 25;
    let Some(searcher) = bench.searcher().await else { return };
    let mut sink = bench.sink().await;
    let atomic = sink.is_atomic();
    let stop = Arc::new(AtomicBool::new(false));
    let last_round = Arc::clone(&stop);
    let reader = task::spawn(async move {
        let mut seen = BTreeSet::new();
        loop {
            let done = last_round.load(Ordering::SeqCst);
            match searcher.search(&all(1_000)).await {
                Err(SearchError::Empty) => {}
                Err(error) => panic!("{error}"),
                Ok(found) => {
                    let n = found.as_of.stamp.sequence.0;
                    assert_eq!(found.as_of, as_of(n));
                    assert_eq!(found.hits.len() as u64, found.total, "batch {n}");
                    if atomic || done {
                        assert_eq!(found.total, DOCUMENTS + n, "batch {n}");
                    } else if n > 1 {
                        assert!(found.total >= DOCUMENTS + n - 1, "batch {n}: {}", found.total);
                    }
                    for hit in found.hits.iter().filter(|hit| hit.document.id.starts_with("doc")) {
                        let wrote = hit.document.sequence.0;
                        assert!(wrote == n || !atomic && !done && wrote + 1 >= n, "batch {n}: {wrote}");
                        assert_eq!(hit.document.json, document(&hit.document.id, wrote as i64).json);
                    }
                    assert!(seen.last().is_none_or(|last| *last <= n), "a reader never goes back");
                    seen.insert(n);
                }
            }
            if done {
                return seen;
            }
            tokio::task::yield_now().await;
        }
    });
    for n in 1..=BATCHES {
        let mut changes: Vec<Change> = (0..DOCUMENTS).map(|k| upsert(&format!("doc {k:02}"), n as i64)).collect();
        changes.push(upsert(&format!("new {n:02}"), n as i64));
        let rest = changes.split_off(7);
        sink.stage(Sequence(n), changes, &Unguarded).await.unwrap();
        sink.stage(Sequence(n), rest, &Unguarded).await.unwrap();
        sink.commit(&as_of(n), &Unguarded).await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let seen = reader.await.unwrap();
    assert_eq!(seen.last(), Some(&BATCHES));
}

/// Batches, abandoned batches and restarts at random leave exactly what a map would hold.
pub async fn random_batches_leave_what_the_model_holds(bench: &dyn Bench, seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut expected = Expected::new();
    let mut committed = None;
    let mut sink = bench.sink().await;
    for n in 1..=30 {
        let mut next = expected.clone();
        let mut changes = BTreeMap::new();
        for _ in 0..random.below(40) {
            let id = format!("{}", random.below(60));
            let version = random.below(1_000) as i64;
            if random.below(3) == 0 {
                next.remove(id.as_str());
                changes.insert(id.clone(), Change::Delete(id.as_str().into()));
            } else {
                next.insert(id.as_str().into(), (version, n));
                changes.insert(id.clone(), upsert(&id, version));
            }
        }
        let mut changes: Vec<Change> = changes.into_values().collect();
        while !changes.is_empty() {
            let rest = changes.split_off(changes.len().min(1 + random.below(15) as usize));
            assert_eq!(sink.stage(Sequence(n), changes, &Unguarded).await.unwrap(), vec![]);
            changes = rest;
        }
        match random.below(10) {
            0 | 1 => {
                sink.abandon().await.unwrap();
                if !sink.is_atomic() {
                    expected = next;
                }
            }
            2 | 3 => {
                drop(sink);
                sink = bench.sink().await;
                if !sink.is_atomic() {
                    expected = next;
                }
            }
            _ => {
                sink.commit(&as_of(n), &Unguarded).await.unwrap();
                expected = next;
                committed = Some(n);
            }
        }
        check(bench, &*sink, &expected, committed).await;
    }
}

/// A xorshift generator: the same numbers for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
