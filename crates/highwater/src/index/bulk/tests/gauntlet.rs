//! Ways in which other sinks over HTTP lost, doubled or hid documents: A30, A32, A33.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::http::{HttpSink, Script, Server, told};
use super::*;
use crate::index::contract::{as_of, document};
use crate::index::{Pair, Sink};

/// What a pipeline wants the index to hold.
type Wanted = BTreeMap<String, i64>;

fn wanted(ids: impl IntoIterator<Item = usize>) -> Wanted {
    ids.into_iter().map(|n| (format!("{n}"), 1)).collect()
}

/// The difference of a batch.
fn difference(sink: &HttpSink, wanted: &Wanted) -> Vec<Change> {
    let held: BTreeMap<String, Pair> = pairs(sink).into_iter().map(|pair| (pair.id.to_string(), pair)).collect();
    let documents = wanted.iter().map(|(id, version)| document(id, *version));
    let differs =
        |document: &crate::transform::Document| held.get(&*document.id).is_none_or(|p| p.hash != document.hash);
    let upserts = documents.filter(differs).map(Change::Upsert);
    let deletes = held.keys().filter(|id| !wanted.contains_key(*id)).map(|id| Change::Delete(id.as_str().into()));
    upserts.chain(deletes).collect()
}

fn pairs(sink: &HttpSink) -> Vec<Pair> {
    let blocks = futures::executor::block_on_stream(futures::executor::block_on(sink.pairs()).unwrap());
    blocks.flat_map(|block| block.unwrap()).collect()
}

/// One batch: what was delivered, committed under its number.
async fn batch(sink: &mut HttpSink, n: u64, wanted: &Wanted) -> Delivered {
    let changes = difference(sink, wanted);
    let delivered = sink.deliver(Sequence(n), changes).await.unwrap();
    sink.commit(&as_of(n), &Unguarded).await.unwrap();
    delivered
}

/// What every case asserts at its end, `bad` being ids that the server never takes.
async fn check(server: &Server, script: Script, wanted: &Wanted, bad: &[&str]) {
    let again = |sink: &HttpSink| -> Vec<String> {
        difference(sink, wanted).iter().map(|change| change.id().to_owned()).collect()
    };
    let sink = server.open().await;
    let before = pairs(&sink);
    assert_eq!(again(&sink), bad, "a second batch has nothing to do but what was refused");
    sink.deliver(Sequence(90), wanted.keys().map(|id| Change::Upsert(document(id, 7))).collect()).await.unwrap();
    drop(sink);
    let mut sink = server.open().await;
    assert_eq!(pairs(&sink), before, "what a killed process staged is gone");
    let delivered = batch(&mut sink, 91, wanted).await;
    let refused: Vec<&str> = delivered.refused.iter().map(|refused| &*refused.id).collect();
    assert_eq!((delivered.upserts, delivered.deletes, refused.as_slice()), (0, 0, bad), "refused by name, each time");
    assert_eq!(pairs(&sink), before);

    let fresh = Server::start(script).await;
    let mut sink = fresh.open().await;
    let delivered = batch(&mut sink, 1, wanted).await;
    let hashes = |pairs: Vec<Pair>| pairs.into_iter().map(|pair| (pair.id, pair.hash)).collect::<Vec<_>>();
    assert_eq!(hashes(pairs(&sink)), hashes(before), "filled anew");
    assert_eq!(delivered.upserts as usize + delivered.refused.len(), wanted.len(), "every document counts once");
}

fn is_57(operation: &Value) -> bool {
    operation["id"] == "57"
}

/// The first ones are applied, then the whole request is refused; nothing says which one was at fault.
fn refuses_whole() -> Script {
    Arc::new(|_, collection, operations| {
        let bad = operations.iter().position(is_57);
        let items = collection.apply_all(&operations[..bad.unwrap_or(operations.len())]);
        Some(match bad {
            Some(_) => ResponseTemplate::new(400).set_body_string("Invalid Date in Date Math String:'2024-13-45'"),
            None => told(&items),
        })
    })
}

/// Success, and the error hides inside.
fn hides_error() -> Script {
    Arc::new(|_, collection, operations| {
        let mut errors = Vec::new();
        for operation in operations {
            match is_57(operation) {
                true => errors.push(json!({"type": "ADD", "id": "57", "message": "Invalid Date '2024-13-45'"})),
                false => drop(collection.apply(operation)),
            }
        }
        Some(ResponseTemplate::new(200).set_body_string(json!({ "errors": errors }).to_string()))
    })
}

#[tokio::test]
async fn a30_one_bad_document_of_a_hundred() {
    for (script, requests) in [(refuses_whole as fn() -> Script, 2..=15), (hides_error, 1..=1)] {
        let server = Server::start(script()).await;
        let mut sink = server.open().await;
        let wanted = wanted(1..=100);
        let delivered = batch(&mut sink, 1, &wanted).await;
        assert_eq!(delivered.upserts, 99);
        assert_eq!(&*delivered.refused[0].id, "57");
        assert!(delivered.refused[0].reason.contains("2024-13-45"), "{:?}", delivered.refused);
        assert!(requests.contains(&delivered.requests), "{} requests", delivered.requests);
        assert_eq!(sink.as_of().await.unwrap(), Some(as_of(1)), "the batch is committed without it");
        let held: Vec<Box<str>> = pairs(&sink).into_iter().map(|pair| pair.id).collect();
        assert!(held.len() == 99 && !held.contains(&"57".into()));
        check(&server, script(), &wanted, &["57"]).await;
    }
}

/// 1 to 90 are to be written, 60 and 61 to be deleted; what the server answers the first time goes by the id.
fn overloaded() -> Script {
    Arc::new(|number, collection, operations| {
        let mut items = Vec::new();
        for operation in operations {
            let (id, deletes) = (operation["id"].as_str().unwrap(), operation["json"].is_null());
            let id: usize = id.parse().unwrap();
            items.push(match id {
                10..=19 if number == 0 => (429, "rejected execution".to_owned()),
                50 => (400, "mapper_parsing_exception".to_owned()),
                60 if number == 0 && deletes => (503, "shard not available".to_owned()),
                _ => collection.apply(operation),
            });
        }
        Some(told(&items))
    })
}

#[tokio::test]
async fn a32_overload_inside_a_success() {
    let server = Server::start(overloaded()).await;
    let mut sink = server.open().await;
    // An index that has 60 already, and 61 never had.
    server.collection.lock().unwrap().apply(&json!({"sequence": 1, "id": "60", "json": "{}", "hash": vec![0; 16]}));
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    let wanted = wanted((0..100).filter(|n| ![60, 61].contains(n)));
    let mut changes = difference(&sink, &wanted);
    changes.push(Change::Delete("61".into()));
    server.collection.lock().unwrap().asked.clear();
    let delivered = sink.deliver(Sequence(2), changes).await.unwrap();
    sink.commit(&as_of(2), &Unguarded).await.unwrap();
    assert_eq!((delivered.upserts, delivered.deletes, delivered.sent_again), (97, 2, 11));
    assert_eq!(&*delivered.refused[0].id, "50");
    assert!(delivered.refused[0].reason.contains("mapper_parsing_exception"));
    assert_eq!(*server.waits.0.lock().unwrap(), [Duration::from_millis(100)]);
    let asked = server.collection.lock().unwrap().asked.clone();
    let expected = [("/update", 100), ("/update", 11), ("/commit", 0)];
    assert_eq!(asked, expected.map(|(path, n)| (path.to_owned(), n)), "committed after the repetition, not before");
    assert_eq!(pairs(&sink).len(), 97);
    check(&server, overloaded(), &wanted, &["50"]).await;
}

/// The first update is applied, and its answer never comes.
fn hangs_up() -> Script {
    Arc::new(|number, collection, operations| {
        let items = collection.apply_all(operations);
        (number > 0).then(|| told(&items))
    })
}

#[tokio::test]
async fn a33_connection_closed_after_the_bulk_was_applied() {
    let server = Server::start(hangs_up()).await;
    let mut sink = server.open().await;
    for n in 0..20 {
        let old = json!({"sequence": 1, "id": format!("old {n}"), "json": "{}", "hash": vec![0; 16]});
        server.collection.lock().unwrap().apply(&old);
    }
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    server.collection.lock().unwrap().applied.clear();
    let wanted = wanted(0..80);
    let delivered = batch(&mut sink, 2, &wanted).await;
    assert_eq!((delivered.upserts, delivered.deletes, delivered.refused.len()), (80, 20, 0), "each counts once");
    assert_eq!((delivered.requests, delivered.sent_again), (2, 100));
    let ids: Vec<String> = pairs(&sink).into_iter().map(|pair| pair.id.into()).collect();
    assert_eq!(ids, wanted.keys().cloned().collect::<Vec<_>>(), "no copies");
    {
        let collection = server.collection.lock().unwrap();
        assert!(collection.applied.values().all(|times| *times == 2), "{:?}", collection.applied);
        assert_eq!(collection.asked.iter().filter(|(path, _)| path == "/commit").count(), 2);
    }
    check(&server, hangs_up(), &wanted, &[]).await;
}
