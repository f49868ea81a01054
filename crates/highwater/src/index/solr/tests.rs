use std::sync::atomic::{AtomicU64, Ordering};

use futures::TryStreamExt;
use highwater_core::lease::Unguarded;
use highwater_core::ports::Clock as _;
use serde_json::{Value, json};

use super::client::{Ask, Trouble};
use super::*;
use crate::clock::SystemClock;
use crate::config::{Secret, SolrAuth};
use crate::index::bulk::Patience;
use crate::index::contract::{self, Bench, as_of, document};
use crate::index::{FieldKind, SearchError, SearchQuery, Searcher};
use crate::transform::Document;

/// The nodes that `./test` (or services/solr/start.sh) started.
fn nodes() -> Vec<String> {
    let urls = std::env::var("HIGHWATER_TEST_SOLR");
    let urls =
        urls.expect("HIGHWATER_TEST_SOLR is not set: run ./test, or services/solr/start.sh and export its answer");
    urls.split(',').map(str::to_owned).collect()
}

/// A collection of two shards that no other test has.
struct Cloud {
    config: SolrConfig,
}

impl Cloud {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let collection = format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let config = SolrConfig { urls: nodes(), collection, shards: 2, replicas: 1, configset: None, auth: None };
        Self { config }
    }

    async fn open(&self) -> Result<SolrSink, Fault> {
        SolrSink::open(&self.config, &contract::shape()).await
    }

    fn client(&self) -> Client {
        Client::new(&self.config).unwrap()
    }

    async fn admin(&self, action: &str, more: &[(&str, &str)]) -> Result<Value, Trouble> {
        let mut query = vec![("action", action)];
        query.extend(more);
        self.client().json(Ask::get("/admin/collections", &query)).await
    }

    async fn schema(&self, command: Value) {
        let path = format!("/{}/schema", self.config.collection);
        self.client().json(Ask::post(path, &[], "application/json", command.to_string())).await.unwrap();
    }
}

impl Drop for Cloud {
    /// A core costs memory for as long as it is there.
    fn drop(&mut self) {
        let config = self.config.clone();
        let away = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let cloud = Client::new(&config).unwrap();
                let query = [("action", "DELETE"), ("name", config.collection.as_str())];
                _ = cloud.json(Ask::get("/admin/collections", &query)).await;
                let name = config.configset.unwrap_or_else(|| format!("highwater.{}", config.collection));
                _ = cloud.json(Ask::get("/admin/configs", &[("action", "DELETE"), ("name", &name)])).await;
            });
        });
        _ = away.unwrap().join();
    }
}

#[async_trait]
impl Bench for Cloud {
    async fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.open().await.unwrap())
    }

    async fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        Some(Arc::new(SolrSearcher::open(&self.config)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_the_contract() {
    contract::run(&|| Box::new(Cloud::new())).await;
}

async fn apply(sink: &mut SolrSink, n: u64, changes: Vec<Change>) -> Vec<Refused> {
    let refused = sink.stage(Sequence(n), changes, &Unguarded).await.unwrap();
    sink.commit(&as_of(n), &Unguarded).await.unwrap();
    refused
}

async fn pairs(sink: &SolrSink) -> Vec<(String, u64)> {
    let blocks: Vec<Vec<Pair>> = sink.pairs().await.unwrap().try_collect().await.unwrap();
    blocks.into_iter().flatten().map(|pair| (pair.id.into(), pair.sequence.0)).collect()
}

fn upsert(id: &str, version: i64) -> Change {
    Change::Upsert(document(id, version))
}

/// A document of the contract's shape with other values in some fields.
fn with(id: &str, fields: Value) -> Change {
    let mut row: Value = serde_json::from_slice(&document(id, 1).json).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        row[name] = value.clone();
    }
    let json = serde_json::to_vec(&row).unwrap().into_boxed_slice();
    Change::Upsert(Document { id: id.into(), json, hash: [7; 16] })
}

fn impatient(sink: &mut SolrSink) {
    let pause = std::time::Duration::from_millis(10);
    let patience = Patience { tries: 2, first_pause: pause, longest_pause: pause, ..Patience::default() };
    sink.writer.be_patient(patience);
}

#[tokio::test]
async fn a_stale_writer_loses() {
    let cloud = Cloud::new();
    let (mut old, mut new) = (cloud.open().await.unwrap(), cloud.open().await.unwrap());
    apply(&mut old, 1, vec![upsert("a", 1), upsert("b", 1), upsert("c", 1)]).await;
    apply(&mut new, 3, vec![upsert("a", 3), Change::Delete("b".into())]).await;
    // It was paused in the middle of batch 2, and does not know.
    old.stage(Sequence(2), vec![upsert("a", 2), upsert("b", 2)], &Unguarded).await.unwrap();
    let fault = old.commit(&as_of(2), &Unguarded).await.unwrap_err();
    assert!(matches!(&fault, Fault::Fenced(why) if why.contains("batch 3")), "{fault:?}");
    assert_eq!(pairs(&new).await, [("a".into(), 3), ("c".into(), 1)]);
    assert_eq!(new.as_of().await.unwrap(), Some(as_of(3)));
    let fault = cloud.open().await.unwrap().stage(Sequence(2), vec![], &Unguarded).await.unwrap_err();
    assert!(matches!(&fault, Fault::Fenced(why) if why.contains("name a new collection")), "{fault:?}");
}

#[tokio::test]
async fn old_tombstones_are_purged_and_younger_ones_stay() {
    let cloud = Cloud::new();
    let mut sink = cloud.open().await.unwrap();
    let left = || async {
        let found = cloud.client().everything(&[("q", "*:*"), ("rows", "10"), ("sort", "id asc")]).await.unwrap();
        let documents = found["response"]["docs"].as_array().unwrap();
        documents.iter().map(|one| format!("{} {}", one["id"], one["_hw_del_"])).collect::<Vec<_>>().join(", ")
    };
    apply(&mut sink, 2, vec![upsert("a", 1), upsert("b", 1), upsert("c", 1), upsert("d", 1)]).await;
    apply(&mut sink, 3, vec![Change::Delete("a".into()), Change::Delete("never there".into())]).await;
    apply(&mut sink, 4, vec![Change::Delete("b".into()), upsert("c", 2)]).await;
    let all = r#""_hw_stamp_" true, "a" true, "b" true, "c" null, "d" null, "never there" true"#;
    assert_eq!(left().await, all, "none of them is old");
    // Another writer, to whom whatever came before it is old.
    let mut sink = cloud.open().await.unwrap();
    sink.writer.keep_tombstones(jiff::SignedDuration::ZERO);
    apply(&mut sink, 5, vec![upsert("c", 3)]).await;
    assert_eq!(left().await, all, "batch 2 left none");
    apply(&mut sink, 6, vec![Change::Delete("d".into())]).await;
    assert_eq!(left().await, r#""_hw_stamp_" true, "c" null, "d" true"#);
    apply(&mut sink, 7, vec![upsert("a", 7)]).await;
    assert_eq!(pairs(&sink).await, [("a".into(), 7), ("c".into(), 5)]);
}

/// A chain that answers with success whatever becomes of its documents, as collections of others have it.
async fn tolerant() -> Cloud {
    let mut cloud = Cloud::new();
    let name = format!("{}-tolerant", cloud.config.collection);
    let config = String::from_utf8_lossy(include_bytes!("configset/solrconfig.xml")).replacen(
        "<processor ",
        "<processor class=\"solr.TolerantUpdateProcessorFactory\"><int name=\"maxErrors\">-1</int></processor><processor ",
        1,
    );
    cloud.config.configset = Some(name.clone());
    let schema = include_bytes!("configset/managed-schema.xml");
    let files = [("solrconfig.xml", config.as_bytes()), ("managed-schema.xml", &schema[..])];
    let query = [("action", "UPLOAD"), ("name", name.as_str())];
    let upload = Ask::post("/admin/configs", &query, "application/octet-stream", zip::archive(&files));
    cloud.client().json(upload).await.unwrap();
    cloud
}

/// What each document is refused for, in order.
fn told(refused: &[Refused]) -> Vec<String> {
    let mut told: Vec<String> = refused.iter().map(|refused| format!("{}: {}", refused.id, refused.reason)).collect();
    told.sort();
    told
}

/// A chain that names the bad document within a success, and one that fails the whole request without a name.
#[tokio::test]
async fn a30_one_bad_document_of_a_hundred_on_solr() {
    for cloud in [Cloud::new(), tolerant().await] {
        let mut sink = cloud.open().await.unwrap();
        // Whatever is a title here must be a time as well: the server alone knows that.
        cloud.schema(json!({"add-field": {"name": "strict", "type": "hw_date"}})).await;
        cloud.schema(json!({"add-copy-field": {"source": "title", "dest": "strict"}})).await;
        let time = "2026-05-01T10:00:00Z";
        let all = || -> Vec<Change> {
            let title = |n| if n == 57 { "2024-13-45" } else { time };
            (0..100).map(|n| with(&format!("{n:03}"), json!({"title": title(n)}))).collect()
        };
        let check = |refused: &[Refused]| {
            let told = told(refused);
            assert!(told.len() == 1 && told[0].starts_with("057: ") && told[0].contains("2024-13-45"), "{told:?}");
        };
        check(&apply(&mut sink, 1, all()).await);
        assert_eq!(sink.as_of().await.unwrap(), Some(as_of(1)), "the batch is committed without it");
        let held = pairs(&sink).await;
        assert!(held.len() == 99 && !held.contains(&("057".into(), 1)), "{held:?}");
        drop(sink);
        // A restart meets the same document, and goes on.
        let mut sink = cloud.open().await.unwrap();
        check(&apply(&mut sink, 2, all().split_off(57)).await);
        assert_eq!(pairs(&sink).await.len(), 99);
        check(&apply(&mut sink, 3, vec![all().swap_remove(57), Change::Delete("000".into())]).await);
        assert_eq!((pairs(&sink).await.len(), sink.as_of().await.unwrap()), (98, Some(as_of(3))));
    }
}

/// A collection that takes nothing for a while tells that of each document within a success, where its chain is tolerant.
#[tokio::test]
async fn a32_refusals_inside_a_success_on_solr() {
    let cloud = tolerant().await;
    let mut sink = cloud.open().await.unwrap();
    apply(&mut sink, 1, vec![upsert("060", 1)]).await;
    let name = cloud.config.collection.clone();
    let read_only = async |value: &str| {
        cloud.admin("MODIFYCOLLECTION", &[("collection", &name), ("readOnly", value)]).await.unwrap();
    };
    let changes = || -> Vec<Change> {
        let written = (0..100).filter(|n| ![60, 61].contains(n)).map(|n| upsert(&format!("{n:03}"), 2));
        written.chain(["060", "061"].map(|id| Change::Delete(id.into()))).collect()
    };
    read_only("true").await;
    impatient(&mut sink);
    let fault = sink.stage(Sequence(2), changes(), &Unguarded).await.unwrap_err();
    assert!(
        matches!(&fault, Fault::Unavailable(why) if why.contains("100 of 100") && why.contains("read-only")),
        "{fault:?}"
    );
    assert!(sink.commit(&as_of(2), &Unguarded).await.is_err(), "nothing is stamped before it is written");
    assert_eq!(sink.as_of().await.unwrap(), Some(as_of(1)));
    read_only("").await;
    sink.abandon().await.unwrap();
    read_only("true").await;
    let pause = std::time::Duration::from_millis(100);
    sink.writer.be_patient(Patience { tries: 100, first_pause: pause, longest_pause: pause, ..Patience::default() });
    let (refused, ()) = tokio::join!(sink.stage(Sequence(3), changes(), &Unguarded), async {
        SystemClock.sleep(std::time::Duration::from_millis(500)).await;
        read_only("").await;
    });
    assert_eq!(refused.unwrap(), []);
    sink.commit(&as_of(3), &Unguarded).await.unwrap();
    let wanted: Vec<(String, u64)> =
        (0..100).filter(|n| ![60, 61].contains(n)).map(|n| (format!("{n:03}"), 3)).collect();
    assert_eq!(pairs(&sink).await, wanted);
}

#[tokio::test]
async fn bad_documents_cost_themselves() {
    let cloud = Cloud::new();
    let mut sink = cloud.open().await.unwrap();
    let mut changes: Vec<Change> = (0..100).map(|n| upsert(&format!("{n:03}"), 1)).collect();
    changes[58] = with("058", json!({"day": "2024-13-45"}));
    changes[59] = with("059", json!({"version": 1e300}));
    changes[60] = with("060", json!({"tags": ["a\u{1}b\u{0}c", "\u{7f}"]}));
    let told = told(&apply(&mut sink, 1, changes).await);
    assert_eq!(
        told,
        [
            "058: field `day`: \"2024-13-45\" is none of the days that Solr can hold",
            "059: field `version`: 1e+300 is none of the whole numbers that Solr can hold"
        ]
    );
    let held = pairs(&sink).await;
    assert_eq!(held.len(), 98);
    assert!(held.contains(&("060".into(), 1)), "control characters are characters");
}

#[test]
fn values_become_what_their_fields_take() {
    let field = |kind, hint, many| crate::index::Field { name: "f".into(), kind, hint, many };
    let check = |kind, hint, many, value: Value| {
        let shape = Shape { pipeline: "p".into(), id: "id".into(), fields: vec![field(kind, hint, many)] };
        let change = with("x", json!({"f": value}));
        match convert::entry(&fields::columns(&shape).unwrap(), Sequence(1), 1, &change) {
            Ok(entry) => entry.get("f").map_or_else(|| "nothing".into(), Value::to_string),
            Err(reason) => reason,
        }
    };
    let keyword = Some(crate::config::FieldHint::Keyword);
    let long = "x".repeat(32_767);
    for (kind, hint, value, wanted) in [
        (FieldKind::Text, None, json!(5), "\"5\""),
        (FieldKind::Text, None, json!(null), "nothing"),
        (FieldKind::Text, None, json!({"a": 1}), "field `f`: an object is none of the text that Solr can hold"),
        (FieldKind::Text, keyword, json!(long), "field `f`: an exact term of 32767 bytes, more than 32766"),
        (FieldKind::I64, None, json!("9223372036854775807"), "9223372036854775807"),
        (
            FieldKind::U64,
            None,
            json!("18446744073709551615"),
            "field `f`: \"18446744073709551615\" is none of the whole numbers that Solr can hold",
        ),
        (FieldKind::F64, None, json!(0.5), "0.5"),
        (FieldKind::Bool, None, json!(true), "true"),
        (FieldKind::Time, None, json!("2026-05-01T12:00:00+02:00"), "\"2026-05-01T10:00:00Z\""),
        (FieldKind::Time, None, json!("soon"), "field `f`: \"soon\" is none of the times that Solr can hold"),
        (FieldKind::Date, None, json!("2026-05-01"), "\"2026-05-01T00:00:00Z\""),
        (FieldKind::Object, None, json!({"a": 1}), "nothing"),
        (FieldKind::I64, Some(crate::config::FieldHint::Stored), json!("odd"), "nothing"),
    ] {
        assert_eq!(check(kind, hint, false, value), wanted);
    }
    assert_eq!(check(FieldKind::I64, None, true, json!([1, null, 2])), "[1,2]");
    assert_eq!(check(FieldKind::I64, None, true, json!([])), "nothing");
}

#[test]
fn names_that_solr_cannot_have_are_refused() {
    for (name, why) in
        [("_hw_seq_", "reserved"), ("id", "unique key"), ("score", "how well"), ("a b", "letters"), ("1a", "begin")]
    {
        let field = crate::index::Field { name: name.into(), kind: FieldKind::I64, hint: None, many: false };
        let shape = Shape { pipeline: "p".into(), id: "key".into(), fields: vec![field] };
        let error = fields::columns(&shape).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(why) && error.contains("rename it"), "{error}");
    }
}

#[tokio::test]
async fn searches_speak_solr() {
    let cloud = Cloud::new();
    let searcher = SolrSearcher::open(&cloud.config);
    let ask = async |query: &str| searcher.search(&SearchQuery { query: query.into(), limit: 10, offset: 0 }).await;
    assert!(matches!(ask("*").await, Err(SearchError::Empty)), "no collection yet");
    assert_eq!(searcher.as_of().await.unwrap(), None);
    let mut sink = cloud.open().await.unwrap();
    let changes = vec![
        with("1", json!({"title": "Copper kettle", "price": 9.5, "tags": ["kitchen"]})),
        with("2", json!({"title": "Kettle, kettle", "price": 20.0, "at": "2026-06-01T00:00:00Z"})),
        with("3", json!({"title": "Copper wire"})),
        with("4", json!({"title": "gone kettle"})),
    ];
    apply(&mut sink, 1, changes).await;
    apply(&mut sink, 2, vec![Change::Delete("4".into())]).await;
    let ids = async |query: &str| -> Vec<String> {
        let found = ask(query).await.unwrap();
        assert_eq!((found.as_of, found.total), (as_of(2), found.hits.len() as u64), "{query}");
        assert!(found.hits.is_sorted_by(|a, b| a.score >= b.score), "{query}");
        found.hits.into_iter().map(|hit| hit.document.id.into()).collect()
    };
    for (query, wanted) in [
        ("kettle", &["2", "1"][..]),
        ("copper kettle", &["1"]),
        ("kettle OR wire", &["3", "2", "1"]),
        ("title:copper AND price:[9 TO 10]", &["1"]),
        ("tags:kitchen", &["1"]),
        ("\"copper wire\"", &["3"]),
        ("at:[2026-05-15T00:00:00Z TO *]", &["2"]),
        ("_hw_del_:true", &[]),
        ("*", &["1", "2", "3"]),
        ("kettle -copper", &["2"]),
    ] {
        let mut found = ids(query).await;
        if query.contains(" OR ") {
            found.sort_by(|a, b| b.cmp(a));
        }
        assert_eq!(found, wanted, "{query}");
    }
    let odd = ask("price:[cheap TO dear] AND \"").await.unwrap();
    assert_eq!(odd.total, 0, "what does not parse is looked for as words");
    let long = ask(&"x".repeat(5_000)).await;
    assert!(matches!(&long, Err(SearchError::Query(why)) if why.contains("5000 bytes")), "{long:?}");
    let found = searcher.search(&SearchQuery { query: "kettle".into(), limit: 0, offset: 0 }).await.unwrap();
    assert_eq!((found.total, found.hits.len()), (2, 0));
    assert_eq!(searcher.get("4").await.unwrap().0, None);

    // Who asks Solr itself sees neither tombstones nor the stamp.
    let direct = cloud.client().query("/select", &[("q", "*:*")]).await.unwrap();
    assert_eq!(direct["response"]["numFound"], 3);
    let all = cloud.client().query("/highwater", &[("q", "*:*")]).await.unwrap();
    assert_eq!(all["response"]["numFound"], 5);
}

/// Fields as a collection has them that another program made.
const STRANGE: &str = r#"<schema name="strange" version="1.6"><uniqueKey>id</uniqueKey>
    <field name="id" type="string" indexed="true" stored="true" docValues="true" required="true"/>
    <field name="_version_" type="long" docValues="true"/>
    <field name="price" type="int" indexed="true"/>
    <fieldType name="string" class="solr.StrField"/><fieldType name="long" class="solr.LongPointField"/>
    <fieldType name="int" class="solr.IntPointField"/></schema>"#;

#[tokio::test]
async fn a_strangers_collection_is_left_alone() {
    let mut cloud = Cloud::new();
    let (name, mine) = (format!("{}-strange", cloud.config.collection), include_bytes!("configset/solrconfig.xml"));
    cloud.config.configset = Some(name.clone());
    let fault = cloud.open().await.err().unwrap();
    assert!(matches!(&fault, Fault::Invalid(why) if why.contains(&format!("no configset `{name}`"))), "{fault:?}");

    let config = String::from_utf8_lossy(mine).replace("name=\"highwater\" default", "name=\"other\" default");
    let (before, rest) = config.split_once("<processor class=\"solr.DocBased").unwrap();
    let config = format!("{before}{}", rest.split_once("</processor>").unwrap().1);
    let files = [("solrconfig.xml", config.as_bytes()), ("managed-schema.xml", STRANGE.as_bytes())];
    let query = [("action", "UPLOAD"), ("name", name.as_str())];
    let upload = Ask::post("/admin/configs", &query, "application/octet-stream", zip::archive(&files));
    cloud.client().json(upload).await.unwrap();
    let fault = cloud.open().await.err().unwrap().to_string();
    for word in ["_hw_seq_", "_hw_version_", "_hw_hash_", "_hw_del_", "_source_", "chain `highwater`", "docs/solr.md"] {
        assert!(fault.contains(word), "{fault}");
    }
    let fields =
        cloud.client().json(Ask::get(format!("/{}/schema/fields", cloud.config.collection), &[])).await.unwrap();
    assert_eq!(fields["fields"].as_array().unwrap().len(), 3, "nothing was added");
}

/// As docs/solr.md says: its fields added to a schema of others, its chain beside theirs.
#[tokio::test]
async fn a_prepared_collection_is_kept_beside_documents_of_others() {
    let mut cloud = Cloud::new();
    let name = format!("{}-prepared", cloud.config.collection);
    cloud.config.configset = Some(name.clone());
    let page = include_str!("../../../../../docs/solr.md");
    let of_page = |from: &str, to: &str| {
        let start = page.find(from).unwrap();
        &page[start..start + page[start..].find(to).unwrap() + to.len()]
    };
    let fields = of_page("<field name=\"_hw_seq_\"", "docValues=\"false\"/>").replace("plong", "long");
    let boolean = "<fieldType name=\"boolean\" class=\"solr.BoolField\"/></schema>";
    let schema = STRANGE.replace("</schema>", &(fields + boolean));
    let chain = of_page("<updateRequestProcessorChain", "</updateRequestProcessorChain>");
    let config = format!(
        "<config><luceneMatchVersion>9.12</luceneMatchVersion><updateHandler class=\"solr.DirectUpdateHandler2\"><updateLog/>\
         </updateHandler><schemaFactory class=\"ManagedIndexSchemaFactory\"><bool name=\"mutable\">true</bool>\
         <str name=\"managedSchemaResourceName\">managed-schema.xml</str></schemaFactory>\
         <requestHandler name=\"/select\" class=\"solr.SearchHandler\"/>{chain}</config>"
    );
    let files = [("solrconfig.xml", config.as_bytes()), ("managed-schema.xml", schema.as_bytes())];
    let query = [("action", "UPLOAD"), ("name", name.as_str())];
    let upload = Ask::post("/admin/configs", &query, "application/octet-stream", zip::archive(&files));
    cloud.client().json(upload).await.unwrap();
    let more = [("numShards", "2"), ("replicationFactor", "1"), ("collection.configName", name.as_str())];
    let create = [&[("name", cloud.config.collection.as_str())][..], &more].concat();
    cloud.admin("CREATE", &create).await.unwrap();
    let theirs: Vec<Value> = (0..50).map(|n| json!({"id": format!("t{n:02}"), "price": n})).collect();
    let path = format!("/{}/update", cloud.config.collection);
    let ask = Ask::post(path, &[("commit", "true")], "application/json", Value::from(theirs).to_string());
    cloud.client().json(ask).await.unwrap();

    let mut shape = contract::shape();
    shape.fields.retain(|field| field.name != "price");
    let mut sink = SolrSink::open(&cloud.config, &shape).await.unwrap();
    let held = pairs(&sink).await;
    assert_eq!((held.len(), held.first()), (50, Some(&("t00".into(), 0))));
    assert_eq!(sink.as_of().await.unwrap(), None);
    apply(&mut sink, 1, vec![upsert("t07", 1), Change::Delete("t08".into()), upsert("new", 1)]).await;
    let held = pairs(&sink).await;
    assert_eq!(held.len(), 50);
    assert!(held.contains(&("t07".into(), 1)) && held.contains(&("t09".into(), 0)));
    let direct = cloud.client().query("/select", &[("q", "price:[0 TO *]"), ("rows", "0")]).await.unwrap();
    assert_eq!(direct["response"]["numFound"], 48, "theirs are as they were");
    let searcher = SolrSearcher::open(&cloud.config);
    assert_eq!(&*searcher.get("t09").await.unwrap().0.unwrap().json, br#"{"id":"t09"}"#);
    assert!(!sink.traces(&[Sequence(7)]).await.unwrap());
}

#[tokio::test]
async fn a_field_of_another_type_is_named() {
    let cloud = Cloud::new();
    drop(cloud.open().await.unwrap());
    let mut shape = contract::shape();
    let price = shape.fields.iter_mut().find(|field| field.name == "price").unwrap();
    price.kind = FieldKind::Text;
    shape.fields.iter_mut().find(|field| field.name == "day").unwrap().many = true;
    let fault = SolrSink::open(&cloud.config, &shape).await.err().unwrap().to_string();
    assert!(fault.contains("`price` is of the type `hw_double` (solr.DoublePointField)"), "{fault}");
    assert!(fault.contains("text") && fault.contains("solr.TextField"), "{fault}");
    assert!(fault.contains("`day` takes one value"), "{fault}");
    // A field more is added to what is there.
    let mut shape = contract::shape();
    shape.fields.push(crate::index::Field { name: "more".into(), kind: FieldKind::Bool, many: true, hint: None });
    SolrSink::open(&cloud.config, &shape).await.unwrap();
}

#[tokio::test]
async fn another_pipelines_collection_is_refused() {
    let cloud = Cloud::new();
    apply(&mut cloud.open().await.unwrap(), 1, vec![]).await;
    let shape = Shape { pipeline: "other".into(), ..contract::shape() };
    let fault = SolrSink::open(&cloud.config, &shape).await.err().unwrap().to_string();
    assert!(fault.contains("kept by the pipeline `contract`") && fault.contains("`other`"), "{fault}");
}

#[tokio::test]
async fn a_read_only_collection_is_waited_for() {
    let cloud = Cloud::new();
    let mut sink = cloud.open().await.unwrap();
    impatient(&mut sink);
    let name = cloud.config.collection.clone();
    cloud.admin("MODIFYCOLLECTION", &[("collection", &name), ("readOnly", "true")]).await.unwrap();
    let fault = sink.stage(Sequence(1), vec![upsert("a", 1)], &Unguarded).await.unwrap_err();
    assert!(matches!(&fault, Fault::Unavailable(why) if why.contains("read-only")), "{fault:?}");
    let fault = sink.commit(&as_of(1), &Unguarded).await.unwrap_err();
    assert!(matches!(fault, Fault::Internal(_)), "a part is not committed: {fault:?}");
    cloud.admin("MODIFYCOLLECTION", &[("collection", &name), ("readOnly", "")]).await.unwrap();
    sink.abandon().await.unwrap();
    apply(&mut sink, 2, vec![upsert("a", 1)]).await;
    assert_eq!(pairs(&sink).await, [("a".into(), 2)]);
}

#[tokio::test]
async fn a_collection_deleted_under_us_is_told_and_made_anew() {
    let cloud = Cloud::new();
    let mut sink = cloud.open().await.unwrap();
    apply(&mut sink, 1, vec![upsert("a", 1)]).await;
    cloud.admin("DELETE", &[("name", &cloud.config.collection)]).await.unwrap();
    let fault = sink.stage(Sequence(2), vec![upsert("b", 1)], &Unguarded).await.unwrap_err();
    assert!(matches!(&fault, Fault::Invalid(why) if why.contains("is not there")), "{fault:?}");
    let mut sink = cloud.open().await.unwrap();
    assert_eq!((sink.as_of().await.unwrap(), sink.count().await.unwrap()), (None, 0));
    apply(&mut sink, 3, vec![upsert("a", 1)]).await;
    assert_eq!(pairs(&sink).await, [("a".into(), 3)]);
}

#[tokio::test]
async fn a_dead_node_is_passed_over_and_a_dead_cloud_is_named() {
    let mut cloud = Cloud::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}/solr", closed.local_addr().unwrap());
    drop(closed);
    let alive = std::mem::replace(&mut cloud.config.urls, vec![dead.clone()]);
    let fault = cloud.open().await.err().unwrap();
    assert!(matches!(&fault, Fault::Unavailable(why) if why.contains(&dead)), "{fault:?}");
    let error = SolrSearcher::open(&cloud.config).as_of().await.unwrap_err();
    assert!(matches!(error, Fault::Unavailable(_)), "{error:?}");
    cloud.config.urls.extend(alive);
    apply(&mut cloud.open().await.unwrap(), 1, vec![upsert("a", 1)]).await;
}

/// A server that answers as told, one answer after the other, and then with successes.
/// As a balancer does whose node is gone.
#[tokio::test]
async fn a_node_that_hangs_up_is_passed_over_by_readers() {
    let mut cloud = Cloud::new();
    apply(&mut cloud.open().await.unwrap(), 1, vec![upsert("a", 1)]).await;
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    cloud.config.urls.insert(0, format!("http://{}/solr", mute.local_addr().unwrap()));
    std::thread::Builder::new().spawn(move || mute.incoming().for_each(drop)).unwrap();
    let searcher = SolrSearcher::open(&cloud.config);
    assert_eq!(searcher.as_of().await.unwrap(), Some((as_of(1), 1)));
    let held: Vec<Vec<Pair>> = cloud.open().await.unwrap().pairs().await.unwrap().try_collect().await.unwrap();
    assert_eq!(held.concat().len(), 1);
    // What changes something is for who asks to repeat.
    let update = Ask::post(format!("/{}/update", cloud.config.collection), &[], "application/json", "[]");
    assert!(matches!(cloud.client().json(update).await, Err(Trouble::Unreachable(_))));
}

async fn scripted(answers: Vec<wiremock::ResponseTemplate>) -> wiremock::MockServer {
    let server = wiremock::MockServer::start().await;
    let answers = std::sync::Mutex::new(answers.into_iter());
    let reply = move |_: &wiremock::Request| {
        let next = answers.lock().unwrap().next();
        next.unwrap_or_else(|| wiremock::ResponseTemplate::new(200).set_body_string("{}"))
    };
    wiremock::Mock::given(wiremock::matchers::any()).respond_with(reply).mount(&server).await;
    server
}

fn at(server: &wiremock::MockServer, auth: Option<SolrAuth>) -> SolrConfig {
    let urls = vec![format!("{}/solr", server.uri())];
    SolrConfig { urls, collection: "c".into(), shards: 1, replicas: 1, configset: None, auth }
}

#[tokio::test]
async fn overload_is_waited_out() {
    let busy = |status| wiremock::ResponseTemplate::new(status).set_body_string(r#"{"error":{"msg":"busy"}}"#);
    let server = scripted(vec![busy(429).insert_header("Retry-After", "1"), busy(503), busy(503)]).await;
    let client = Arc::new(Client::new(&at(&server, None)).unwrap());
    let columns = fields::columns(&contract::shape()).unwrap();
    let mut writer = Writer::new(client, "p", columns, 0, None);
    let pause = std::time::Duration::from_millis(5);
    writer.be_patient(Patience { tries: 3, first_pause: pause, longest_pause: pause, ..Patience::default() });
    assert_eq!(writer.stage(Sequence(1), vec![upsert("a", 1)], &Unguarded).await.unwrap(), []);
    assert_eq!(server.received_requests().await.unwrap().len(), 4);

    let server = scripted((0..9).map(|_| busy(503)).collect()).await;
    let client = Arc::new(Client::new(&at(&server, None)).unwrap());
    let mut writer = Writer::new(client, "p", fields::columns(&contract::shape()).unwrap(), 0, None);
    writer.be_patient(Patience { tries: 3, first_pause: pause, longest_pause: pause, ..Patience::default() });
    let fault = writer.stage(Sequence(1), vec![upsert("a", 1)], &Unguarded).await.unwrap_err();
    assert!(matches!(&fault, Fault::Unavailable(why) if why.contains("busy")), "{fault:?}");
}

#[tokio::test]
async fn no_request_is_begun_without_the_lease() {
    #[derive(Debug)]
    struct Ended;
    impl Lease for Ended {
        fn holds(&self) -> bool {
            false
        }
    }
    let server = scripted(vec![]).await;
    let client = Arc::new(Client::new(&at(&server, None)).unwrap());
    let mut writer = Writer::new(client, "p", fields::columns(&contract::shape()).unwrap(), 0, None);
    assert!(matches!(writer.commit(&as_of(1), &Ended).await, Err(Fault::Fenced(_))));
    writer.be_patient(Patience::default());
    assert!(writer.stage(Sequence(1), vec![upsert("a", 1)], &Ended).await.is_err());
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn credentials_go_with_every_request_and_nowhere_else() {
    for (auth, header) in [
        (SolrAuth::Basic { user: "u".into(), password: Secret::new("pass word") }, "Basic dTpwYXNzIHdvcmQ="),
        (SolrAuth::Bearer(Secret::new("tok.en")), "Bearer tok.en"),
    ] {
        let server = scripted(vec![wiremock::ResponseTemplate::new(401); 4]).await;
        let config = at(&server, Some(auth));
        assert!(!format!("{config:?}").contains("pass word") && !format!("{config:?}").contains("tok.en"));
        let fault = SolrSearcher::open(&config).as_of().await.unwrap_err();
        assert!(matches!(&fault, Fault::Invalid(why) if why.contains("check the credentials")), "{fault:?}");
        for request in server.received_requests().await.unwrap() {
            assert_eq!(request.headers["authorization"], header);
        }
    }
}

#[test]
fn an_export_is_whole_or_an_error() {
    let read = |text: &str, size: usize| {
        let mut scanner = export::Scanner::default();
        let mut ids = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            ids.extend(scanner.read(chunk)?.into_iter().map(|pair| format!("{} {}", pair.id, pair.sequence)));
        }
        scanner.end().map(|()| ids)
    };
    let head = r#"{"responseHeader":{"status":0},"response":{"numFound":2,"docs":["#;
    let whole = format!(r#"{head}{{"id":"a\"}}]{{","_hw_seq_":3,"_hw_hash_":"0f"}},{{"id":"日"}}]}}}}"#);
    for size in [1, 2, 3, 7, 1_000] {
        assert_eq!(read(&whole, size).unwrap(), ["a\"}]{ 3", "日 0"]);
    }
    assert_eq!(read(r#"{"response":{"numFound":0,"docs":[]}}"#, 9).unwrap(), Vec::<String>::new());
    for (text, why) in [
        (format!(r#"{head}{{"id":"a"}},{{"EXCEPTION":"disk gone"}}]}}}}"#), "disk gone"),
        (format!(r#"{head}{{"id":"a"}}]}}}}"#), "1 documents of 2"),
        (format!(r#"{head}{{"id":"a"}},{{"id":"b"}}"#), "broke off after 2"),
        (r#"{"error":{"msg":"no such field"}}"#.to_owned(), "no such field"),
    ] {
        let error = read(&text, 5).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
