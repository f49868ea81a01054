use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, future};
use jiff::Timestamp;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use proptest::prelude::*;

use super::contract::{Finding, check};
use super::*;
use crate::file::{FileVersion, SourceName};
use crate::generation::{GenerationChange, GenerationName, Judgement, Switch};
use crate::holes::{Hole, HoleCause};
use crate::lease::Lease;
use crate::ports::Clock;
use crate::receipt::{Alarm, Quarantined, Receipt};
use crate::withheld::{Standing, Vanished, WithheldChange};

struct Hasty;

#[async_trait]
impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    async fn sleep(&self, _length: std::time::Duration) {}
}

fn log_in(store: Arc<dyn ObjectStore>) -> ObjectLog {
    ObjectLog::new(store, Path::from("state/ads"), Arc::new(Hasty))
}

fn claim_record(seq: u64) -> Record {
    let body = Body::Claim { holder: "host".into(), version: "0".into() };
    record(seq, seq, body)
}

fn record(seq: u64, epoch: u64, body: Body) -> Record {
    let clock = Timestamp::from_second(seq as i64).unwrap();
    Record { format: FORMAT, seq: Sequence(seq), writer: WriterId("w".into()), epoch: Sequence(epoch), clock, body }
}

fn batch_of(watermark: i64, sources: BTreeMap<SourceName, Cursor>) -> Body {
    Body::Batch(Box::new(BatchRecord {
        requests: Default::default(),
        watermark: Timestamp::from_second(watermark).unwrap(),
        sources,
        receipt: Receipt::default(),
        holes: Vec::new(),
        closed: Vec::new(),
        alarms: Vec::new(),
        spec: None,
        freshness_ms: Vec::new(),
    }))
}

fn failures(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .filter_map(|finding| finding.outcome.as_ref().err().map(|reason| format!("{}: {reason}", finding.case)))
        .collect()
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    let findings = check(Arc::new(InMemory::new()), &Path::from("state/ads")).await;
    assert_eq!(failures(&findings), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let findings = check(Arc::new(store), &Path::from("state/ads")).await;
    assert_eq!(failures(&findings), Vec::<String>::new());
}

#[tokio::test]
async fn a_store_without_create_if_absent_is_found_out() {
    let findings = check(Arc::new(Careless(InMemory::new())), &Path::from("state/ads")).await;
    let failed = failures(&findings);
    assert!(failed.iter().any(|line| line.starts_with("of sixteen that create one number one wins: winners: 16")));
}

#[tokio::test]
async fn under_a_lease_no_listing_follows_a_create() {
    #[derive(Debug)]
    struct Held(bool);
    impl Lease for Held {
        fn holds(&self) -> bool {
            self.0
        }
    }
    let store = Arc::new(InMemory::new());
    let bare = log_in(store.clone());
    assert_eq!(bare.append(&claim_record(9)).await.unwrap(), Appended::Written);
    for (held, seq, expected) in [(true, 5, Appended::Written), (false, 6, Appended::Conflict)] {
        let leased = log_in(store.clone()).leased(Arc::new(Held(held)));
        assert_eq!(leased.append(&claim_record(seq)).await.unwrap(), expected, "lease held: {held}");
    }
}

#[tokio::test]
async fn what_a_listing_missed_is_read_and_what_it_made_up_is_damage() {
    let [ghost, hidden] = [2, 4].map(|seq| Path::from("state/ads/log").join(Sequence(seq).object_name()));
    let log = log_in(Arc::new(Ghostly { inner: InMemory::new(), ghost, hidden }));
    for seq in [1, 2, 3, 4, 5] {
        assert_eq!(log.append(&claim_record(seq)).await.unwrap(), Appended::Written);
    }
    let loaded = log.load().await.unwrap();
    assert_eq!(loaded.recent.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 3, 4, 5]);
    assert_eq!(loaded.damaged.len(), 1);
    assert_eq!(loaded.damaged[0].sequence, Sequence(2));
    assert_eq!(loaded.damaged[0].reason, "it is listed but cannot be read");
    assert_eq!(loaded.state.gap, Some(Sequence(2)));
}

#[tokio::test]
async fn a_record_reads_as_json_for_people() {
    let store = Arc::new(InMemory::new());
    let log = log_in(store.clone());
    let cursor = Cursor { kind: "files".into(), added: vec![file("dt=1/a b.json")], ..Cursor::default() };
    let body = batch_of(60, [(SourceName::new("ads"), cursor)].into());
    assert_eq!(log.append(&record(1, 1, body)).await.unwrap(), Appended::Written);
    let path = Path::from("state/ads/log/00000000000000000001.json");
    let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
    insta::assert_snapshot!(String::from_utf8_lossy(&bytes), @r#"
    {
      "format": 4,
      "seq": 1,
      "writer": "w",
      "epoch": 1,
      "clock": "1970-01-01T00:00:01Z",
      "kind": "batch",
      "watermark": "1970-01-01T00:01:00Z",
      "sources": {
        "ads": {
          "kind": "files",
          "added": [
            {
              "path": "dt=1/a b.json",
              "size": 7,
              "etag": "\"e\""
            }
          ]
        }
      },
      "receipt": {
        "mode": "none",
        "files_read": 0,
        "files_dropped": 0,
        "upserts": 0,
        "deletes": 0,
        "unchanged": 0,
        "documents": 0,
        "rejected_rows": 0,
        "duplicate_ids": 0,
        "quarantined": [],
        "add_only": false,
        "ms": {}
      },
      "requests": {
        "list": 0,
        "get": 0,
        "head": 0,
        "put": 0
      }
    }
    "#);
}

#[test]
fn every_change_of_generations_is_read_back_as_it_was_written() {
    let name = GenerationName::numbered(2);
    let switch = Switch {
        from: GenerationName::numbered(1),
        to: name.clone(),
        rollback: false,
        forced: Some("because".into()),
        documents: 7,
        order: Some("o1".into()),
    };
    let report = serde_json::json!([{"gate": "documents"}]);
    let judgement = Judgement { name: name.clone(), clock: Timestamp::UNIX_EPOCH, passed: true, report };
    let (spec, reason) = (serde_json::json!({"sql": "SELECT"}), "asked for".to_owned());
    for change in [
        GenerationChange::Begun { name: name.clone(), spec, reason: reason.clone(), promote: true, order: None },
        GenerationChange::Judged { judgement },
        GenerationChange::Switching { switch },
        GenerationChange::Switched { to: name.clone() },
        GenerationChange::Dropped { name, reason, order: None },
    ] {
        let record = record(3, 1, Body::Generation { change });
        let json = serde_json::to_string_pretty(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record, "{json}");
    }
}

#[test]
fn a_starved_starter_gives_way() {
    let error = LogError::Contended { tries: 8 };
    assert!(matches!(Fault::from(error), Fault::Fenced(_)));
    let error = LogError::NewerFormat { object: "log/00000000000000000007.json".into(), found: 9, known: FORMAT };
    let Fault::Invalid(text) = Fault::from(error) else { panic!("not invalid") };
    assert_eq!(text, "log/00000000000000000007.json has format 9, this highwater reads up to 4; upgrade highwater");
}

#[test]
fn names_of_objects_come_back() {
    for number in [1, 9, 10, u64::from(u32::MAX), i64::MAX as u64] {
        assert_eq!(Sequence::from_object_name(&Sequence(number).object_name()), Some(Sequence(number)));
    }
    for name in ["", "1.json", "00000000000000000000.json", "00000000000000000001", "00000000000000000001.json "] {
        assert_eq!(Sequence::from_object_name(name), None, "{name:?}");
    }
}

#[test]
fn time_never_goes_back_behind_the_log() {
    let mut state = PipelineState::default();
    let early = Timestamp::from_second(1).unwrap();
    assert_eq!(state.clock_at(early), early);
    state.apply(&claim_record(5));
    assert_eq!(state.clock_at(early), Timestamp::from_second(5).unwrap());
    assert_eq!(state.clock_at(Timestamp::from_second(6).unwrap()), Timestamp::from_second(6).unwrap());
}

#[test]
fn void_numbers_are_bounded_and_none_is_forgotten_unseen() {
    let mut state = PipelineState::default();
    state.apply(&claim_record(1));
    state.apply(&record(2, 1, batch_of(1, BTreeMap::new())));
    let kept = VOID_KEPT as u64;
    for seq in 3..3 + kept {
        state.apply(&claim_record(seq));
    }
    assert_eq!(state.void.len(), VOID_KEPT);
    assert_eq!(state.gap, None, "the claim at 1 was forgotten, but a batch came after it");
    state.apply(&claim_record(3 + kept));
    assert_eq!(state.void.first(), Some(&Sequence(4)));
    assert_eq!(state.gap, Some(Sequence(3)), "no batch came after the claim at 3");
    state.apply(&record(4 + kept, 3 + kept, batch_of(1, BTreeMap::new())));
    assert_eq!(state.gap, None);
}

#[test]
fn snapshots_cost_no_more_than_the_change() {
    assert!(!snapshot_due(0, 0, 0));
    assert!(!snapshot_due(63, 1_000_000, 10), "a few records are read faster than a snapshot is written");
    assert!(snapshot_due(64, 0, 3_200));
    assert!(!snapshot_due(64, 0, 3_201));
    assert!(snapshot_due(64, 1, 3_201));
    assert!(!snapshot_due(999, 0, 10_000_000));
    assert!(snapshot_due(1_000, 0, 10_000_000), "a start reads a bounded number of records");
}

fn file(path: &str) -> FileVersion {
    FileVersion { path: path.into(), size: 7, etag: "\"e\"".into() }
}

fn any_path() -> impl Strategy<Value = Arc<str>> {
    let awkward = prop::sample::select(vec![
        "a b",
        "a+b",
        "a%20b",
        "100%",
        "x,y",
        "\u{e9}",
        "e\u{301}",
        "\"q\"",
        "back\\slash",
        "v.1/",
        "\u{1f600}",
        "\n",
    ]);
    prop_oneof![
        4 => (0_u8..12).prop_map(|n| Arc::from(format!("f{n}"))),
        1 => awkward.prop_map(Arc::from),
        1 => any::<String>().prop_map(Arc::from),
    ]
}

fn any_quarantined() -> impl Strategy<Value = Quarantined> {
    (any_path(), any::<String>(), 0..5_u32).prop_map(|(path, reason, attempts)| Quarantined {
        source: SourceName::new("ads"),
        version: file(&path),
        reason,
        since: Timestamp::from_second(7).unwrap(),
        attempts,
    })
}

fn any_cursor() -> impl Strategy<Value = Cursor> {
    let paths = || prop::collection::vec(any_path(), 0..4);
    let change = (paths(), paths(), any::<Option<u16>>());
    (paths(), paths(), prop::collection::vec(any_quarantined(), 0..2), paths(), any::<Option<u16>>(), change).prop_map(
        |(added, removed, quarantined, released, bound, change)| Cursor {
            kind: "files".into(),
            evict_before: bound.map(|second| Timestamp::from_second(second.into()).unwrap()),
            newest_end: bound.map(|second| Timestamp::from_second(i64::from(second) + 60).unwrap()),
            added: added.iter().map(|path| file(path)).collect(),
            removed,
            quarantined,
            released,
            withheld: any_change(change),
        },
    )
}

fn any_change((withheld, returned, second): (Vec<Arc<str>>, Vec<Arc<str>>, Option<u16>)) -> WithheldChange {
    let at = second.map(|second| Timestamp::from_second(second.into()).unwrap());
    WithheldChange {
        withheld,
        returned,
        standing: at.iter().map(|since| Standing { partition: at, listing: "f00".into(), since: *since }).collect(),
        resolved: vec![None, at],
        vanished: at.map(|at| Vanished { since: Some(at), now: 3, before: 2 }),
    }
}

fn any_body() -> impl Strategy<Value = Body> {
    let sources =
        prop::collection::btree_map("[a-z ,]{1,3}".prop_map(|name: String| SourceName::new(name)), any_cursor(), 0..3);
    let batch = (sources, any::<u16>(), any::<Option<String>>(), any::<String>()).prop_map(
        |(sources, second, spec, detail)| {
            let at = Timestamp::from_second(second.into()).unwrap();
            let Body::Batch(mut batch) = batch_of(second.into(), sources) else { unreachable!() };
            batch.spec = spec.map(|sql| serde_json::json!({ "sql": sql, "numbers": [u64::MAX, -1, null] }));
            batch.receipt.documents = second.into();
            batch.alarms =
                vec![Alarm { kind: "source_silent".into(), source: None, since: at, detail: detail.clone() }];
            let ads = SourceName::new("ads");
            batch.holes = vec![Hole {
                source: ads,
                cause: HoleCause::LateFile,
                from: at,
                to: at,
                path: Some(detail),
                since: at,
                detail: None,
                count: None,
            }];
            Body::Batch(batch)
        },
    );
    prop_oneof![
        1 => Just(Body::Claim { holder: "host, process 1".into(), version: "0.1.0".into() }),
        1 => any::<u16>().prop_map(|second| Body::Advance {
            watermark: Timestamp::from_second(second.into()).unwrap(),
            holes: Vec::new(), closed: Vec::new(), sources: BTreeMap::new(), alarms: Vec::new()
        }),
        4 => batch,
    ]
}

/// Records with ascending numbers, now and then one missing; epochs are those of the claims.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec((any_body(), prop::bool::weighted(0.1)), 1..20).prop_map(|bodies| {
        let (mut seq, mut epoch) = (0, 1);
        let mut records = Vec::new();
        for (body, gap) in bodies {
            seq += if gap { 3 } else { 1 };
            if matches!(body, Body::Claim { .. }) {
                epoch = seq;
            }
            records.push(record(seq, epoch, body));
        }
        records
    })
}

fn fold(mut state: PipelineState, records: &[Record]) -> PipelineState {
    for record in records {
        state.apply(record);
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_record_comes_back_as_it_was(records in any_records()) {
        for record in &records {
            let bytes = codec::write_record(record).unwrap();
            prop_assert_eq!(&codec::read_record(record.seq, &bytes).unwrap(), record);
        }
    }

    #[test]
    fn half_a_record_is_never_a_record(records in any_records(), at in any::<prop::sample::Index>()) {
        let bytes = codec::write_record(&records[0]).unwrap();
        // The last byte is the newline after the object.
        let half = &bytes[..at.index(bytes.len() - 1)];
        prop_assert!(codec::read_record(records[0].seq, half).is_err());
    }

    #[test]
    fn a_snapshot_and_the_rest_is_the_whole(records in any_records()) {
        let whole = fold(PipelineState::default(), &records);
        for split in 1..=records.len() {
            let state = fold(PipelineState::default(), &records[..split]);
            let bytes = codec::write_snapshot(&state).unwrap();
            let read = codec::read_snapshot(state.last, &bytes).unwrap();
            prop_assert_eq!(&read, &state);
            prop_assert_eq!(&fold(read, &records[split..]), &whole, "split at {}", split);
        }
    }

    #[test]
    fn the_log_gives_the_fold_at_every_snapshot(records in any_records(), at in any::<prop::sample::Index>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let log = log_in(Arc::new(InMemory::new()));
        let whole = fold(PipelineState::default(), &records);
        let split = at.index(records.len());
        let loaded = runtime.block_on(async {
            for record in &records {
                assert_eq!(log.append(record).await.unwrap(), Appended::Written);
            }
            log.snapshot(&fold(PipelineState::default(), &records[..split])).await.unwrap();
            log.load().await.unwrap()
        });
        prop_assert_eq!(&loaded.state, &whole);
        prop_assert_eq!(&loaded.recent, &records);
        prop_assert_eq!(loaded.highest, whole.last);
    }
}

/// Overwrites whatever it is asked to create.
#[derive(Debug)]
struct Careless(InMemory);

/// Lists an object that it does not give, and gives one that it does not list.
#[derive(Debug)]
struct Ghostly {
    inner: InMemory,
    ghost: Path,
    hidden: Path,
}

mod stores {
    use std::fmt;

    use futures::stream::BoxStream;
    use object_store::{
        CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMode,
        PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    };

    use super::*;

    impl fmt::Display for Careless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Careless")
        }
    }

    impl fmt::Display for Ghostly {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Ghostly")
        }
    }

    #[async_trait]
    impl ObjectStore for Careless {
        async fn put_opts(&self, at: &Path, payload: PutPayload, _: PutOptions) -> Result<PutResult> {
            self.0.put_opts(at, payload, PutMode::Overwrite.into()).await
        }

        async fn put_multipart_opts(&self, at: &Path, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
            self.0.put_multipart_opts(at, o).await
        }

        async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
            self.0.get_opts(at, options).await
        }

        fn delete_stream(&self, places: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
            self.0.delete_stream(places)
        }

        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
            self.0.list(prefix)
        }

        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
            self.0.list_with_delimiter(prefix).await
        }

        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }

    #[async_trait]
    impl ObjectStore for Ghostly {
        async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
            self.inner.put_opts(at, payload, options).await
        }

        async fn put_multipart_opts(&self, at: &Path, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
            self.inner.put_multipart_opts(at, o).await
        }

        async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
            if *at == self.ghost {
                return Err(Error::NotFound { path: at.to_string(), source: "ghost".into() });
            }
            self.inner.get_opts(at, options).await
        }

        fn delete_stream(&self, places: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
            self.inner.delete_stream(places)
        }

        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
            let hidden = self.hidden.clone();
            self.inner.list(prefix).try_filter(move |object| future::ready(object.location != hidden)).boxed()
        }

        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
            self.inner.list_with_delimiter(prefix).await
        }

        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
            self.inner.copy_opts(from, to, options).await
        }
    }
}
