//! A sink over HTTP, for tests: one collection on a scripted server, which takes updates, commits and roll-backs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::stream::BoxStream;
use highwater_core::lease::Unguarded;
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;
use crate::index::contract::{self, Bench};
use crate::index::{AsOf, MAX_ID_BYTES, Pair, Searcher, Sink};

/// What the server holds: what was committed, and what is only staged.
#[derive(Default)]
pub struct Collection {
    committed: BTreeMap<String, Pair>,
    staged: BTreeMap<String, Pair>,
    as_of: Option<AsOf>,
    /// Every request: its path, and how many operations it carried.
    pub asked: Vec<(String, usize)>,
    /// Operations by id, as often as each was applied.
    pub applied: BTreeMap<String, usize>,
}

impl Collection {
    /// Applies one operation, as it should be: the status, and a word on it.
    pub fn apply(&mut self, operation: &Value) -> (u16, String) {
        let sequence = Sequence(operation["sequence"].as_u64().unwrap());
        let id = operation["id"].as_str().unwrap();
        *self.applied.entry(id.to_owned()).or_default() += 1;
        if self.staged.get(id).is_some_and(|found| found.sequence > sequence) {
            return (409, "a newer version is there".into());
        }
        let Some(json) = operation["json"].as_str() else {
            return if self.staged.remove(id).is_some() { (200, String::new()) } else { (404, "not found".into()) };
        };
        if id.is_empty() || id.len() > MAX_ID_BYTES || serde_json::from_str::<Value>(json).is_err() {
            return (400, "no document".into());
        }
        let hash = serde_json::from_value(operation["hash"].clone()).unwrap();
        self.staged.insert(id.to_owned(), Pair { id: id.into(), hash, sequence });
        (200, String::new())
    }

    /// Applies all of a request, and tells of each.
    pub fn apply_all(&mut self, operations: &[Value]) -> Vec<(u16, String)> {
        operations.iter().map(|operation| self.apply(operation)).collect()
    }

    pub fn pairs(&self) -> Vec<Pair> {
        self.committed.values().cloned().collect()
    }
}

/// An answer that tells of each operation.
pub fn told(items: &[(u16, String)]) -> ResponseTemplate {
    let items: Vec<Value> = items.iter().map(|(status, error)| json!({"status": status, "error": error})).collect();
    ResponseTemplate::new(200).set_body_string(json!({ "items": items }).to_string())
}

/// What the server does with an update, by its number from 0: `None` ends the connection.
pub type Script = Arc<dyn Fn(usize, &mut Collection, &[Value]) -> Option<ResponseTemplate> + Send + Sync>;

pub struct Server {
    server: MockServer,
    pub collection: Arc<Mutex<Collection>>,
    pub waits: Arc<Waits>,
}

impl Server {
    pub async fn start(script: Script) -> Self {
        let server = MockServer::start().await;
        let collection: Arc<Mutex<Collection>> = Arc::default();
        let (state, updates) = (collection.clone(), AtomicUsize::new(0));
        // The first mock answers, unless its matcher was told to hang up; the second one hangs up.
        let answers: Arc<Mutex<Option<ResponseTemplate>>> = Arc::default();
        let answer = answers.clone();
        let decide = move |request: &Request| {
            let mut collection = state.lock().unwrap();
            let path = request.url.path().to_owned();
            let body = String::from_utf8(request.body.clone()).unwrap();
            let operations: Vec<Value> = match path.as_str() {
                "/update" => body.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
                _ => Vec::new(),
            };
            collection.asked.push((path.clone(), operations.len()));
            let decided = match path.as_str() {
                "/commit" => {
                    collection.committed = collection.staged.clone();
                    collection.as_of = Some(serde_json::from_str(&body).unwrap());
                    Some(ResponseTemplate::new(200))
                }
                "/rollback" => {
                    collection.staged = collection.committed.clone();
                    Some(ResponseTemplate::new(200))
                }
                _ => script(updates.fetch_add(1, Ordering::SeqCst), &mut collection, &operations),
            };
            let replies = decided.is_some();
            *answer.lock().unwrap() = decided;
            replies
        };
        let reply = move |_: &Request| answers.lock().unwrap().take().unwrap();
        Mock::given(decide).respond_with(reply).with_priority(1).mount(&server).await;
        let hang_up = |_: &Request| std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        Mock::given(wiremock::matchers::any()).respond_with_err(hang_up).with_priority(2).mount(&server).await;
        Self { server, collection, waits: Arc::default() }
    }

    pub async fn open(&self) -> HttpSink {
        let sink = HttpSink {
            wire: Wire { client: reqwest::Client::new(), base: self.server.uri() },
            collection: self.collection.clone(),
            waits: self.waits.clone(),
        };
        sink.wire.post("/rollback", String::new()).await.unwrap();
        sink
    }
}

struct Wire {
    client: reqwest::Client,
    base: String,
}

impl Wire {
    async fn post(&self, path: &str, body: String) -> Result<(u16, String), String> {
        let sent = self.client.post(format!("{}{path}", self.base)).body(body).send().await;
        let answer = sent.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        Ok((status, answer.text().await.map_err(|error| error.to_string())?))
    }
}

fn operation(sequence: Sequence, change: &Change) -> String {
    let operation = match change {
        Change::Upsert(document) => {
            let json = String::from_utf8_lossy(&document.json);
            json!({"sequence": sequence, "id": document.id, "json": json, "hash": document.hash})
        }
        Change::Delete(id) => json!({"sequence": sequence, "id": id}),
    };
    operation.to_string()
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, sequence: Sequence, changes: &[&Change]) -> Answer {
        let body: Vec<String> = changes.iter().map(|change| operation(sequence, change)).collect();
        let (status, text) = match self.post("/update", body.join("\n")).await {
            Ok(answer) => answer,
            Err(reason) => return Answer::Later { reason, after: None },
        };
        if status != 200 {
            return of_request(status, "the test's collection", &text, None);
        }
        let answer: Value = serde_json::from_str(&text).unwrap();
        if let Some(errors) = answer["errors"].as_array() {
            // As Solr's tolerant processor has it: all are in but these.
            let error = |change: &&Change| errors.iter().find(|error| error["id"] == change.id());
            let outcome = |change| match error(change) {
                None => Outcome::Done,
                Some(error) => Outcome::Refused(error["message"].as_str().unwrap().to_owned()),
            };
            return Answer::Each(changes.iter().map(outcome).collect());
        }
        let items = answer["items"].as_array().unwrap();
        let outcome = |(item, change): (&Value, &&Change)| {
            of_item(item["status"].as_u64().unwrap() as u16, change, item["error"].as_str().unwrap())
        };
        Answer::Each(items.iter().zip(changes).map(outcome).collect())
    }
}

pub struct HttpSink {
    wire: Wire,
    collection: Arc<Mutex<Collection>>,
    waits: Arc<Waits>,
}

impl HttpSink {
    pub async fn deliver(&self, sequence: Sequence, changes: Vec<Change>) -> Result<Delivered, Fault> {
        deliver(&self.wire, &*self.waits, &Unguarded, Patience::default(), sequence, changes).await
    }
}

#[async_trait]
impl Sink for HttpSink {
    async fn as_of(&self) -> Result<Option<AsOf>, Fault> {
        Ok(self.collection.lock().unwrap().as_of.clone())
    }

    async fn count(&self) -> Result<u64, Fault> {
        Ok(self.collection.lock().unwrap().committed.len() as u64)
    }

    async fn pairs(&self) -> Result<BoxStream<'static, Result<Vec<Pair>, Fault>>, Fault> {
        let pairs = self.collection.lock().unwrap().pairs();
        Ok(futures::stream::iter([Ok(pairs)]).boxed())
    }

    async fn stage(
        &mut self,
        sequence: Sequence,
        changes: Vec<Change>,
        _lease: &dyn Lease,
    ) -> Result<Vec<Refused>, Fault> {
        Ok(self.deliver(sequence, changes).await?.refused)
    }

    async fn commit(&mut self, as_of: &AsOf, _lease: &dyn Lease) -> Result<(), Fault> {
        let body = serde_json::to_string(as_of).unwrap();
        self.wire.post("/commit", body).await.map(drop).map_err(Fault::Unavailable)
    }

    async fn abandon(&mut self) -> Result<(), Fault> {
        self.wire.post("/rollback", String::new()).await.map(drop).map_err(Fault::Unavailable)
    }
}

#[async_trait]
impl Bench for Server {
    async fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.open().await)
    }

    async fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_over_http_keeps_the_contract() {
    let good: Script = Arc::new(|_, collection, operations| Some(told(&collection.apply_all(operations))));
    contract::run(&|| fresh(&good)).await;
}

/// Every third update is lost on its way, others on their way back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_over_a_bad_line_keeps_the_contract() {
    let bad: Script = Arc::new(|number, collection, operations| match number % 12 {
        0 | 3 | 6 => None,
        4 | 8 => {
            collection.apply_all(operations);
            None
        }
        _ => Some(told(&collection.apply_all(operations))),
    });
    contract::a_batch_becomes_visible_whole(&*fresh(&bad)).await;
    contract::a_commit_is_idempotent(&*fresh(&bad)).await;
    contract::an_abandoned_batch_can_be_retried(&*fresh(&bad)).await;
    contract::the_same_id_in_two_calls_stays_one(&*fresh(&bad)).await;
    contract::a_bad_document_costs_one_document(&*fresh(&bad)).await;
    contract::random_batches_leave_what_the_model_holds(&*fresh(&bad), 1).await;
}

fn fresh(script: &Script) -> Box<dyn Bench> {
    let start = Server::start(script.clone());
    Box::new(tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(start)))
}
