use std::path::PathBuf;

use highwater_core::lease::Unguarded;
use highwater_core::ports::Fault;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::FieldHint;
use crate::index::contract::{self, Bench, as_of};
use crate::index::model::{Call, ModelIndex, When};
use crate::index::{Field, FieldKind, SearchError, SearchQuery, Searcher};
use crate::transform::Document;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("index")
    }

    fn open(&self, shape: &Shape) -> Result<TantivySink, IndexError> {
        TantivySink::open(&self.path(), shape, TantivyOptions { writer_memory_bytes: 32_000_000, threads: 2 })
    }
}

#[async_trait]
impl Bench for Folder {
    async fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.open(&contract::shape()).unwrap())
    }

    async fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        Some(Arc::new(TantivySearcher::open(&self.path())))
    }
}

#[async_trait]
impl Bench for ModelIndex {
    async fn sink(&self) -> Box<dyn Sink> {
        Box::new(ModelIndex::sink(self))
    }

    async fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        Some(Arc::new(ModelIndex::searcher(self)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_the_contract() {
    contract::run(&|| Box::new(Folder::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_keeps_the_contract() {
    contract::run(&|| Box::new(ModelIndex::new())).await;
}

#[tokio::test]
async fn a_checkpoint_is_there_after_a_crash_and_what_came_later_is_not() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    let change = |id: &str| vec![Change::Upsert(contract::document(id, 1))];
    sink.stage(Sequence(1), change("a"), &Unguarded).await.unwrap();
    sink.checkpoint(&Unguarded).await.unwrap();
    sink.stage(Sequence(1), change("b"), &Unguarded).await.unwrap();
    sink.abandon().await.unwrap();
    assert_eq!(sink.count().await.unwrap(), 1, "abandoned");
    sink.stage(Sequence(1), change("c"), &Unguarded).await.unwrap();
    drop(sink);
    let sink = folder.open(&contract::shape()).unwrap();
    assert_eq!((sink.count().await.unwrap(), sink.as_of().await.unwrap()), (1, None), "dropped");
}

#[tokio::test]
async fn the_model_fails_when_told() {
    let index = ModelIndex::new();
    let mut sink = index.sink();
    let change = |n| vec![Change::Upsert(contract::document("a", n))];
    index.fail(Call::Stage, 1, When::Before);
    index.fail(Call::Stage, 3, When::After);
    assert!(matches!(sink.stage(Sequence(1), change(1), &Unguarded).await, Err(Fault::Unavailable(_))));
    sink.stage(Sequence(1), change(2), &Unguarded).await.unwrap();
    assert!(sink.stage(Sequence(1), change(3), &Unguarded).await.is_err());
    index.fail(Call::Commit, 1, When::Before);
    assert!(sink.commit(&as_of(1), &Unguarded).await.is_err());
    assert_eq!(sink.as_of().await.unwrap(), None);
    index.fail(Call::Commit, 1, When::After);
    assert!(sink.commit(&as_of(1), &Unguarded).await.is_err());
    assert_eq!(sink.as_of().await.unwrap(), Some(as_of(1)));
    let (document, _) = index.searcher().get("a").await.unwrap();
    assert_eq!(document.unwrap().hash, contract::document("a", 3).hash);
    assert_eq!(index.calls(), (3, 2));
    let _newer = index.sink();
    assert!(matches!(sink.stage(Sequence(2), change(1), &Unguarded).await, Err(Fault::Fenced(_))));
}

#[tokio::test]
async fn one_writer_at_a_time() {
    let folder = Folder::new();
    let first = folder.open(&contract::shape()).unwrap();
    let held = folder.open(&contract::shape()).err().unwrap();
    assert!(matches!(held, IndexError::Held(_)), "{held}");
    assert!(held.to_string().contains("held by another process"), "{held}");
    first.close().await.unwrap();
    folder.open(&contract::shape()).unwrap();
}

#[tokio::test]
async fn another_shape_is_refused_by_name() {
    let folder = Folder::new();
    let shape = contract::shape();
    drop(folder.open(&shape).unwrap());
    let mut other = shape.clone();
    other.fields.retain(|field| field.name != "price");
    other.fields[1].hint = Some(FieldHint::Keyword);
    other.fields.push(Field { name: "colour".to_owned(), kind: FieldKind::Text, many: true, hint: None });
    let error = folder.open(&other).err().unwrap();
    assert!(matches!(error, IndexError::ShapeChanged(_)));
    let message = error.to_string();
    for part in [
        "`price` was removed (f64)",
        "`title` was text and is text as keyword",
        "`colour` was added (a list of text)",
        "give the index a new path",
    ] {
        assert!(message.contains(part), "{message}");
    }
    other = shape.clone();
    other.pipeline = "other".to_owned();
    assert!(folder.open(&other).err().unwrap().to_string().contains("belongs to pipeline `contract`"));
    folder.open(&shape).unwrap();
}

#[test]
fn names_that_cannot_be_indexed_are_refused() {
    for name in ["", "__id", "__x", "-a", "a\nb", "id"] {
        let mut shape = contract::shape();
        shape.fields.push(Field { name: name.to_owned(), kind: FieldKind::Text, many: false, hint: None });
        let error = schema::Physical::of(&shape).err().unwrap();
        assert!(matches!(error, IndexError::Shape(_)), "{name:?}");
    }
}

#[tokio::test]
async fn a_creation_that_died_is_made_again_and_a_lost_pointer_is_not_overwritten() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    drop(sink);
    std::fs::remove_file(folder.path().join("current")).unwrap();
    sink = folder.open(&contract::shape()).unwrap();
    sink.stage(Sequence(1), vec![Change::Upsert(contract::document("a", 1))], &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    drop(sink);
    std::fs::remove_file(folder.path().join("current")).unwrap();
    let error = folder.open(&contract::shape()).err().unwrap();
    assert!(matches!(error, IndexError::Damaged(_)), "{error}");
    std::fs::write(folder.path().join("current"), "g1").unwrap();
    assert_eq!(folder.open(&contract::shape()).unwrap().count().await.unwrap(), 1);
}

/// A writer killed between its files of deletions and its commit leaves them, under a number that the next one uses again.
#[tokio::test]
async fn files_of_a_killed_commit_do_not_stop_the_next() {
    let folder = Folder::new();
    let batch = |n: i64| (0..40).map(|k| Change::Upsert(contract::document(&format!("{k}"), n))).collect::<Vec<_>>();
    let one_thread = TantivyOptions { threads: 1, ..TantivyOptions::default() };
    let mut sink = TantivySink::open(&folder.path(), &contract::shape(), one_thread).unwrap();
    sink.stage(Sequence(1), batch(1), &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    drop(sink);
    let mut sink = TantivySink::open(&folder.path(), &contract::shape(), one_thread).unwrap();
    let index = folder.path().join("generations/g1/index");
    let before = (std::fs::read(index.join("meta.json")).unwrap(), std::fs::read(index.join(".managed.json")).unwrap());
    let segments = names(&index);
    sink.stage(Sequence(2), batch(2)[..2].to_vec(), &Unguarded).await.unwrap();
    sink.commit(&as_of(2), &Unguarded).await.unwrap();
    let managed = std::fs::read(index.join(".managed.json")).unwrap();
    drop(sink);
    assert_ne!(before.1, managed);
    assert!(names(&index).iter().any(|name| name.ends_with(".del") && !segments.contains(name)));
    std::fs::write(index.join("meta.json"), before.0).unwrap();

    let mut sink = TantivySink::open(&folder.path(), &contract::shape(), one_thread).unwrap();
    assert_eq!(sink.as_of().await.unwrap(), Some(as_of(1)));
    sink.stage(Sequence(2), batch(2)[..2].to_vec(), &Unguarded).await.unwrap();
    sink.commit(&as_of(2), &Unguarded).await.unwrap();
    assert_eq!((sink.as_of().await.unwrap(), sink.count().await.unwrap()), (Some(as_of(2)), 40));
}

/// Otherwise a merge before the next commit would take its first deletion for a committed one.
#[tokio::test]
async fn a_new_writer_numbers_past_the_last_commit() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    sink.stage(Sequence(1), vec![Change::Upsert(contract::document("a", 1))], &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    drop(sink);
    let index = ::tantivy::Index::open_in_dir(folder.path().join("generations/g1/index")).unwrap();
    let writer = writer::open_writer(&index, TantivyOptions::default()).unwrap();
    let key = index.schema().get_field("id").unwrap();
    let number = writer.delete_term(::tantivy::schema::Term::from_field_text(key, "a"));
    assert!(number > index.load_metas().unwrap().opstamp);
}

#[tokio::test]
async fn a_stamp_is_paired_with_its_own_documents_alone() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    let meta = folder.path().join("generations/g1/index/meta.json");
    let mut commits = Vec::new();
    for n in 1..=2 {
        sink.stage(Sequence(n), vec![Change::Upsert(contract::document("a", n as i64))], &Unguarded).await.unwrap();
        sink.commit(&as_of(n), &Unguarded).await.unwrap();
        commits.push(std::fs::read(&meta).unwrap());
    }
    sink.snapshots.latest().unwrap();
    assert!(sink.snapshots.pair(&commits[0]).unwrap().is_none());
    let paired = sink.snapshots.pair(&commits[1]).unwrap().unwrap();
    assert_eq!((paired.as_of.clone(), paired.get("a").unwrap().unwrap().sequence), (Some(as_of(2)), Sequence(2)));
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn a_failed_stage_must_be_abandoned() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    sink.stage(Sequence(1), vec![Change::Upsert(contract::document("a", 1))], &Unguarded).await.unwrap();
    assert!(matches!(sink.stage(Sequence(2), vec![], &Unguarded).await, Err(Fault::Internal(_))), "another batch");
    assert!(matches!(sink.commit(&as_of(2), &Unguarded).await, Err(Fault::Internal(_))), "another batch");
    lock(&sink.writer).lose();
    assert!(sink.stage(Sequence(1), vec![], &Unguarded).await.is_err());
    assert!(sink.commit(&as_of(1), &Unguarded).await.is_err());
    sink.abandon().await.unwrap();
    sink.stage(Sequence(2), vec![Change::Upsert(contract::document("b", 1))], &Unguarded).await.unwrap();
    sink.commit(&as_of(2), &Unguarded).await.unwrap();
    assert_eq!(sink.count().await.unwrap(), 1);
}

/// A disk that was full for a while: nothing is lost, and nothing needs a restart.
#[tokio::test]
async fn a_full_disk_is_out_of_reach_until_there_is_room() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    let batch = |n: i64| (0..40).map(|k| Change::Upsert(contract::document(&format!("{k}"), n))).collect::<Vec<_>>();
    sink.stage(Sequence(1), batch(1), &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    let trouble = lock(&sink.writer).trouble.clone();
    sink.stage(Sequence(2), batch(2), &Unguarded).await.unwrap();
    trouble.fill(true);
    let fault = sink.commit(&as_of(2), &Unguarded).await.unwrap_err();
    assert!(matches!(fault, Fault::Unavailable(_)), "{fault:?}");
    assert!(fault.to_string().contains("the index cannot be written"), "{fault}");
    match sink.abandon().await {
        Ok(()) | Err(Fault::Unavailable(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
    assert_eq!((sink.as_of().await.unwrap(), sink.count().await.unwrap()), (Some(as_of(1)), 40));
    trouble.fill(false);
    sink.abandon().await.unwrap();
    sink.stage(Sequence(3), batch(3)[..2].to_vec(), &Unguarded).await.unwrap();
    sink.commit(&as_of(3), &Unguarded).await.unwrap();
    assert_eq!((sink.as_of().await.unwrap(), sink.count().await.unwrap()), (Some(as_of(3)), 40));
}

#[test]
fn a_lock_that_fails_is_no_other_writer() {
    use ::tantivy::TantivyError;
    use ::tantivy::directory::error::LockError;
    let failed = LockError::wrap_io_error(std::io::ErrorKind::ReadOnlyFilesystem.into());
    let fault = snapshot::fault(TantivyError::LockFailure(failed, None));
    assert!(matches!(fault, Fault::Unavailable(_)), "{fault:?}");
    let fault = snapshot::fault(TantivyError::LockFailure(LockError::LockBusy, None));
    assert!(matches!(fault, Fault::Fenced(_)), "{fault:?}");
}

#[tokio::test]
async fn readers_write_nothing_and_hold_deletions_back() {
    use ::tantivy::directory::{Directory, META_LOCK};
    let folder = Folder::new();
    let (sink, _) = filled(&folder).await;
    drop(sink);
    let index = folder.path().join("generations/g1/index");
    let path = index.join(&META_LOCK.filepath);
    std::fs::remove_file(&path).unwrap();
    let searcher = TantivySearcher::open(&folder.path());
    assert_eq!(ids(&searcher, "red").await.unwrap(), ["ad-1", "ad-2"]);
    assert!(!path.exists(), "a reader made a file");

    let writer = std::fs::File::create(&path).unwrap();
    let (first, second) = (disk::Disk::reading(&index).unwrap(), disk::Disk::reading(&index).unwrap());
    let locks = (first.acquire_lock(&META_LOCK).unwrap(), second.acquire_lock(&META_LOCK).unwrap());
    assert!(matches!(writer.try_lock(), Err(std::fs::TryLockError::WouldBlock)));
    drop(locks);
    writer.try_lock().unwrap();
}

/// Many small commits are merged, and the deleted documents go with them.
#[tokio::test]
async fn small_commits_are_merged_and_deletions_purged() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    for n in 1..=40 {
        let changes = (0..5).map(|k| Change::Upsert(contract::document(&format!("{k}"), n))).collect();
        sink.stage(Sequence(n as u64), changes, &Unguarded).await.unwrap();
        sink.commit(&as_of(n as u64), &Unguarded).await.unwrap();
    }
    drop(sink);
    let sink = folder.open(&contract::shape()).unwrap();
    let snapshot = sink.snapshots.latest().unwrap();
    let readers = snapshot.searcher.segment_readers();
    let held: u32 = readers.iter().map(|reader| reader.max_doc()).sum();
    assert!(readers.len() < 16 && held < 80, "{} segments with {held} entries for 5 documents", readers.len());
    assert_eq!(sink.count().await.unwrap(), 5);
}

fn ads() -> Shape {
    let field = |name: &str, kind| Field { name: name.to_owned(), kind, many: false, hint: None };
    let hinted = |name: &str, kind, hint| Field { hint: Some(hint), ..field(name, kind) };
    Shape {
        pipeline: "ads".to_owned(),
        id: "id".to_owned(),
        fields: vec![
            field("id", FieldKind::Text),
            field("title", FieldKind::Text),
            field("body", FieldKind::Text),
            hinted("campaign", FieldKind::Text, FieldHint::Keyword),
            field("bid_micros", FieldKind::I64),
            field("big", FieldKind::U64),
            field("ctr", FieldKind::F64),
            field("flag", FieldKind::Bool),
            field("at", FieldKind::Time),
            field("day", FieldKind::Date),
            Field { name: "tags".to_owned(), kind: FieldKind::Text, many: true, hint: Some(FieldHint::Keyword) },
            field("attrs", FieldKind::Object),
            field("a.b", FieldKind::I64),
            field("my field", FieldKind::I64),
            field("_partition", FieldKind::Time),
            hinted("note", FieldKind::Text, FieldHint::Stored),
            hinted("code", FieldKind::I64, FieldHint::Keyword),
        ],
    }
}

fn ad(row: serde_json::Value) -> Change {
    let id = row["id"].as_str().unwrap().into();
    Change::Upsert(Document { id, json: serde_json::to_vec(&row).unwrap().into(), hash: [7; 16] })
}

async fn filled(folder: &Folder) -> (TantivySink, TantivySearcher) {
    let mut sink = folder.open(&ads()).unwrap();
    let changes = vec![
        ad(json!({"id": "ad-1", "title": "Red Running Shoes", "body": "light and fast", "campaign": "noble oasis",
            "bid_micros": 150, "big": 18_446_744_073_709_551_615_u64, "ctr": 0.25, "flag": true,
            "at": "2026-01-01T00:00:00Z", "day": "2026-01-01", "tags": ["sale", "new in"],
            "attrs": {"size": 42, "colour": "Deep Red", "made": {"in": "PT"}}, "a.b": 1, "my field": 5,
            "_partition": "2026-01-01T00:00:00Z", "note": "hidden", "code": 7})),
        ad(json!({"id": "ad-2", "title": "Blue shoes", "body": "red laces", "campaign": "noble", "bid_micros": -5,
            "ctr": 2, "flag": false, "at": "2026-02-01T12:30:00.5Z", "day": "2026-02-01", "tags": [],
            "attrs": null, "a.b": 2, "my field": 6, "code": 77})),
        ad(json!({"id": "a b+c", "title": "Grüne Mütze", "campaign": "x".repeat(70_000), "bid_micros": 200,
            "ctr": "12.50", "flag": "maybe", "at": "9999-12-31T23:59:59Z", "day": "2026-03-01"})),
    ];
    assert_eq!(sink.stage(Sequence(1), changes, &Unguarded).await.unwrap(), vec![]);
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    (sink, TantivySearcher::open(&folder.path()))
}

async fn ids(searcher: &TantivySearcher, query: &str) -> Result<Vec<String>, SearchError> {
    let found = searcher.search(&SearchQuery { query: query.to_owned(), limit: 10, offset: 0 }).await?;
    assert_eq!(found.total, found.hits.len() as u64, "{query}");
    let mut ids: Vec<String> = found.hits.into_iter().map(|hit| hit.document.id.into()).collect();
    ids.sort();
    Ok(ids)
}

#[tokio::test]
async fn the_query_language_is_as_documented() {
    let folder = Folder::new();
    let (sink, searcher) = filled(&folder).await;
    let cases: &[(&str, &[&str])] = &[
        ("*", &["a b+c", "ad-1", "ad-2"]),
        ("", &["a b+c", "ad-1", "ad-2"]),
        ("shoes", &["ad-1", "ad-2"]),
        ("SHOES", &["ad-1", "ad-2"]),
        ("red shoes", &["ad-1", "ad-2"]),
        ("running blue", &[]),
        ("running OR blue", &["ad-1", "ad-2"]),
        ("shoes -blue", &["ad-1"]),
        ("shoes NOT blue", &["ad-1"]),
        ("-blue", &["a b+c", "ad-1"]),
        ("NOT blue", &["a b+c", "ad-1"]),
        ("\"running shoes\"", &["ad-1"]),
        ("\"shoes running\"", &[]),
        ("\"red shoes\"~1", &["ad-1"]),
        ("\"red run\"*", &["ad-1"]),
        ("mütze", &["a b+c"]),
        ("title:red", &["ad-1"]),
        ("title:/shoe.*/", &["ad-1", "ad-2"]),
        ("campaign:\"noble oasis\"", &["ad-1"]),
        ("campaign:noble", &["ad-2"]),
        ("campaign:Noble", &[]),
        ("campaign: IN [noble \"noble oasis\"]", &["ad-1", "ad-2"]),
        ("tags:sale", &["ad-1"]),
        ("tags:\"new in\"", &["ad-1"]),
        ("tags:*", &["ad-1"]),
        ("bid_micros:[100 TO 200]", &["a b+c", "ad-1"]),
        ("bid_micros:[100 TO 200}", &["ad-1"]),
        ("bid_micros:>150", &["a b+c"]),
        ("bid_micros:-5", &["ad-2"]),
        ("bid_micros:[* TO 0]", &["ad-2"]),
        ("big:18446744073709551615", &["ad-1"]),
        ("ctr:[0.2 TO 2]", &["ad-1", "ad-2"]),
        ("ctr:12.5", &["a b+c"]),
        ("flag:true", &["ad-1"]),
        ("flag:false", &["ad-2"]),
        ("at:[2026-01-01T00:00:00Z TO *]", &["a b+c", "ad-1", "ad-2"]),
        ("at:[2026-02-01T12:30:00.5Z TO 2026-03-01T00:00:00Z]", &["ad-2"]),
        ("at:{2026-02-01T12:30:00.5Z TO 2026-03-01T00:00:00Z]", &[]),
        ("at:\"2026-01-01T00:00:00Z\"", &["ad-1"]),
        ("day:2026-02-01", &["ad-2"]),
        ("day:[2026-01-02 TO 2026-03-01]", &["a b+c", "ad-2"]),
        ("day:>=2026-02-01", &["a b+c", "ad-2"]),
        ("attrs.size:42", &["ad-1"]),
        ("attrs.size:[40 TO 50]", &["ad-1"]),
        ("attrs.colour:red", &["ad-1"]),
        ("attrs.made.in:pt", &["ad-1"]),
        ("a.b:2", &["ad-2"]),
        ("my\\ field:5", &["ad-1"]),
        ("_partition:\"2026-01-01T00:00:00Z\"", &["ad-1"]),
        ("code:7", &["ad-1"]),
        ("id:ad-1", &["ad-1"]),
        ("id:\"a b+c\"", &["a b+c"]),
        ("id:[ad-1 TO ad-9]", &["ad-1", "ad-2"]),
        ("(title:red OR title:blue) AND flag:false", &["ad-2"]),
        ("!!!", &[]),
    ];
    let mut wrong = Vec::new();
    for (query, wanted) in cases {
        match ids(&searcher, query).await {
            Ok(found) if found == *wanted => {}
            other => wrong.push(format!("{query}: {other:?}, not {wanted:?}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The long campaign and the flag "maybe".
    assert_eq!(sink.unsearchable_values(), 2);
    let (document, _) = searcher.get("a b+c").await.unwrap();
    assert!(document.unwrap().json.len() > 70_000);
}

#[tokio::test]
async fn mistakes_in_queries_are_told() {
    let folder = Folder::new();
    let (_sink, searcher) = filled(&folder).await;
    let mut told = Vec::new();
    for query in [
        "colour:red",
        "note:hidden",
        "bid_micros:many",
        "flag:yes",
        "at:[yesterday TO *]",
        "(red",
        "title.x:red",
        "\"red\"*",
        "colour:*",
        "ctr:a",
        "title:*",
        "title:/.{0,1000}.{0,1000}x/",
    ] {
        match ids(&searcher, query).await {
            Err(SearchError::Query(message)) => told.push(format!("{query}\n    {message}")),
            other => told.push(format!("{query}\n    NOT TOLD: {other:?}")),
        }
    }
    insta::assert_snapshot!(told.join("\n"));
}

/// Any of these would overflow the parser's stack, and with it end the process.
#[tokio::test]
async fn deep_queries_are_refused() {
    let folder = Folder::new();
    let (_sink, searcher) = filled(&folder).await;
    for query in
        ["NOT ".repeat(1_000) + "a", "(".repeat(500) + "a" + &")".repeat(500), "NOT(".repeat(800), "a".repeat(4_097)]
    {
        let told = ids(&searcher, &query).await;
        assert!(matches!(&told, Err(SearchError::Query(message)) if message.contains("at most")), "{told:?}");
    }
    let most = "(".repeat(64) + "red" + &")".repeat(64);
    assert_eq!(ids(&searcher, &most).await.unwrap(), ["ad-1", "ad-2"]);
    let most = "NOT ".repeat(64) + "(".repeat(64).as_str() + "red" + &")".repeat(64);
    ids(&searcher, &most).await.unwrap();
}

#[tokio::test]
async fn pages_and_scores() {
    let folder = Folder::new();
    let (_sink, searcher) = filled(&folder).await;
    let search = async |query: &str, limit, offset| {
        let found = searcher.search(&SearchQuery { query: query.to_owned(), limit, offset }).await.unwrap();
        let ids: Vec<String> = found.hits.iter().map(|hit| hit.document.id.to_string()).collect();
        (ids, found.total, found.hits.first().map(|hit| hit.score))
    };
    let (ids, total, score) = search("red", 10, 0).await;
    assert_eq!((ids.len(), total), (2, 2));
    assert!(score.unwrap() > 0.0);
    let (rest, total, _) = search("red", 10, 1).await;
    assert_eq!((&rest[..], total), (&ids[1..], 2));
    assert_eq!(search("red", usize::MAX, 0).await.0, ids);
    assert_eq!(search("red", 0, 0).await.1, 2);
    assert_eq!(search("red", 5, usize::MAX).await, (vec![], 2, None));
    assert_eq!(search("", 1, 1).await.0, ["ad-1"]);
    assert_eq!(search("*", usize::MAX, usize::MAX).await, (vec![], 3, None));
    assert_eq!(search("*", 0, 0).await, (vec![], 3, None));
}

#[tokio::test]
async fn a_searcher_may_stand_before_the_index() {
    let folder = Folder::new();
    let searcher = TantivySearcher::open(&folder.path());
    assert!(matches!(searcher.get("a").await, Err(SearchError::Empty)));
    let (sink, _) = filled(&folder).await;
    assert_eq!(searcher.as_of().await.unwrap(), Some((as_of(1), 3)));
    drop(sink);
    assert!(searcher.get("ad-1").await.unwrap().0.is_some());
}

#[tokio::test]
async fn an_id_that_is_a_number_is_searched_as_both() {
    let folder = Folder::new();
    let field = |name: &str, kind| Field { name: name.to_owned(), kind, many: false, hint: None };
    let shape = Shape {
        pipeline: "p".to_owned(),
        id: "n".to_owned(),
        fields: vec![field("n", FieldKind::I64), field("t", FieldKind::Text)],
    };
    let mut sink = folder.open(&shape).unwrap();
    let row = |n: i64| Document {
        id: n.to_string().into(),
        json: format!("{{\"n\":{n}}}").into_bytes().into(),
        hash: [0; 16],
    };
    sink.stage(Sequence(1), vec![Change::Upsert(row(7)), Change::Upsert(row(10))], &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    let searcher = TantivySearcher::open(&folder.path());
    assert_eq!(ids(&searcher, "n:7").await.unwrap(), ["7"]);
    assert_eq!(ids(&searcher, "n:[8 TO 20]").await.unwrap(), ["10"]);
    assert_eq!(ids(&searcher, "__id:10").await.unwrap(), ["10"]);
    assert!(searcher.get("7").await.unwrap().0.is_some());
}

/// The batch fails half-way: readers see the old state until the retry's commit, and never a half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a31_half_a_batch_is_never_published() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    let upserts = |version| (0..100).map(move |n| Change::Upsert(contract::document(&format!("{n:03}"), version)));
    let old = |n: usize| Change::Upsert(contract::document(&format!("old {n:02}"), 1));
    sink.stage(Sequence(1), upserts(1).chain((0..20).map(old)).collect(), &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    let policy = merge_policy(&sink);
    let searcher = TantivySearcher::open(&folder.path());
    let seen = async |version: i64, total: usize| {
        let found = searcher.search(&all(1_000)).await.unwrap();
        assert_eq!(found.total as usize, total);
        let documents = found.hits.iter().filter(|hit| !hit.document.id.starts_with("old"));
        assert!(documents.clone().all(|hit| hit.document.hash == contract::document(&hit.document.id, version).hash));
        assert_eq!(documents.count(), 100);
    };
    let deletes = || (0..20).map(|n| Change::Delete(format!("old {n:02}").into()));

    for _ in 0..3 {
        sink.stage(Sequence(2), upserts(2).take(50).chain(deletes().take(10)).collect(), &Unguarded).await.unwrap();
        seen(1, 120).await;
        lock(&sink.writer).lose();
        assert!(sink.stage(Sequence(2), deletes().collect(), &Unguarded).await.is_err());
        assert!(sink.commit(&as_of(2), &Unguarded).await.is_err(), "the half must not be committed");
        seen(1, 120).await;
        sink.abandon().await.unwrap();
        assert_eq!(merge_policy(&sink), policy);
        seen(1, 120).await;
    }
    sink.stage(Sequence(2), upserts(2).chain(deletes()).collect(), &Unguarded).await.unwrap();
    seen(1, 120).await;
    sink.commit(&as_of(2), &Unguarded).await.unwrap();
    seen(2, 100).await;
    sink.commit(&as_of(2), &Unguarded).await.unwrap();
    drop(sink);
    let sink = folder.open(&contract::shape()).unwrap();
    assert_eq!((sink.as_of().await.unwrap(), sink.count().await.unwrap()), (Some(as_of(2)), 100));
    seen(2, 100).await;
}

/// A writer that rolled back would hand out numbers a second time, and a deletion would miss what came before it.
#[tokio::test]
async fn a31_operations_after_an_abandoned_batch_keep_their_order() {
    let folder = Folder::new();
    let mut sink = folder.open(&contract::shape()).unwrap();
    let change = |version| vec![Change::Upsert(contract::document("1", version))];
    sink.stage(Sequence(1), change(1), &Unguarded).await.unwrap();
    sink.commit(&as_of(1), &Unguarded).await.unwrap();
    sink.stage(Sequence(2), change(2), &Unguarded).await.unwrap();
    sink.abandon().await.unwrap();
    for staged in [change(3), vec![Change::Delete("1".into())], change(4)] {
        sink.stage(Sequence(3), staged, &Unguarded).await.unwrap();
    }
    sink.commit(&as_of(3), &Unguarded).await.unwrap();
    drop(sink);
    let sink = folder.open(&contract::shape()).unwrap();
    assert_eq!(sink.count().await.unwrap(), 1);
    let (document, _) = TantivySearcher::open(&folder.path()).get("1").await.unwrap();
    assert_eq!(document.unwrap().hash, contract::document("1", 4).hash);
}

fn merge_policy(sink: &TantivySink) -> String {
    lock(&sink.writer).merge_policy()
}

fn all(limit: usize) -> SearchQuery {
    SearchQuery { query: "*".to_owned(), limit, offset: 0 }
}
