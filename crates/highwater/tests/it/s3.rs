//! What the store promises, on real S3 servers. `services/s3/start.sh` starts them; HIGHWATER_TEST_S3_MOTO and
//! HIGHWATER_TEST_S3_SEAWEED hold their endpoints, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY the credentials.

#![allow(clippy::unwrap_used, clippy::disallowed_macros)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use highwater::clock::SystemClock;
use highwater::config::{Location, StoreConfig};
use highwater::nonce::nonce;
use highwater::store::{Content, FetchError, Stores, open_state};
use highwater_core::ports::{Fault, Store};
use highwater_core::{FileVersion, SourceName};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

const BUCKET: &str = "hw-test";

#[tokio::test(flavor = "multi_thread")]
async fn moto() {
    let Some(endpoint) = endpoint("HIGHWATER_TEST_S3_MOTO") else { return };
    contract(&endpoint, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs() {
    let Some(endpoint) = endpoint("HIGHWATER_TEST_S3_SEAWEED") else { return };
    // SeaweedFS keeps keys as paths of a file system: `x//y` becomes `x/y`.
    contract(&endpoint, false).await;
}

fn endpoint(variable: &str) -> Option<String> {
    let endpoint = std::env::var(variable).ok().filter(|endpoint| !endpoint.is_empty());
    if endpoint.is_none() {
        crate::lake::left_out(&format!("{variable} names no server"));
    }
    endpoint
}

/// A fresh prefix of one server.
struct World {
    configs: BTreeMap<String, StoreConfig>,
    prefix: String,
    raw: Arc<dyn ObjectStore>,
    stores: Stores,
    source: SourceName,
}

impl World {
    fn open(endpoint: &str) -> Self {
        let config =
            StoreConfig { endpoint: Some(endpoint.to_owned()), allow_http: Some(true), ..StoreConfig::default() };
        let configs =
            BTreeMap::from([(format!("s3://{BUCKET}"), config.clone()), ("s3://no-such-bucket".into(), config)]);
        let prefix = format!("t-{}", nonce());
        let place = Location::S3 { bucket: BUCKET.into(), prefix: prefix.clone() };
        let source = SourceName::new("s");
        let stores = Stores::new([(source.clone(), place.clone())], &configs, Arc::new(SystemClock)).unwrap();
        let (raw, _) = open_state(&place, &configs).unwrap();
        Self { configs, prefix, raw, stores, source }
    }

    fn path(&self, key: &str) -> Path {
        Path::parse(format!("{}/{key}", self.prefix)).unwrap()
    }

    async fn put(&self, key: &str, body: impl Into<Vec<u8>>) {
        self.raw.put(&self.path(key), body.into().into()).await.unwrap();
    }

    async fn list(&self, prefix: &str) -> Vec<FileVersion> {
        let mut found: Vec<_> =
            self.stores.files(&self.source, prefix).await.unwrap().into_iter().map(|f| f.version).collect();
        found.sort();
        found
    }

    async fn one(&self, path: &str) -> FileVersion {
        self.list("").await.into_iter().find(|version| &*version.path == path).unwrap()
    }

    async fn fetch(&self, version: &FileVersion) -> Result<Vec<u8>, FetchError> {
        Ok(match self.stores.fetch(&self.source, version).await? {
            Content::Bytes(bytes) => bytes.to_vec(),
            Content::Spooled { mut file, .. } => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).unwrap();
                bytes
            }
        })
    }
}

async fn contract(endpoint: &str, keeps_empty_names: bool) {
    for (_, _, answer) in World::open(endpoint).stores.reach().await {
        answer.unwrap();
    }
    lists_below_the_location(endpoint).await;
    lists_more_than_a_page(endpoint).await;
    fetches_exact_keys(endpoint).await;
    fetches_only_the_listed_version(endpoint).await;
    fetches_large_objects(endpoint).await;
    if keeps_empty_names {
        names_keys_it_cannot_fetch(endpoint).await;
    }
    says_what_is_missing(endpoint).await;
    creates_only_if_absent(endpoint).await;
}

async fn lists_below_the_location(endpoint: &str) {
    let w = World::open(endpoint);
    assert_eq!(w.list("").await, []);
    for key in ["dt=1/hr=1/a", "dt=1/hr=2/b", "dt=10/c", "v.1/d", "_tmp/e", "dt=1/.f"] {
        w.put(key, "abc").await;
    }
    w.put("empty", "").await;
    // A neighbour whose name begins alike.
    w.raw.put(&Path::parse(format!("{}2/x", w.prefix)).unwrap(), "x".into()).await.unwrap();
    let paths =
        |versions: Vec<FileVersion>| versions.into_iter().map(|v| (v.path.to_string(), v.size)).collect::<Vec<_>>();
    let all = [("dt=1/hr=1/a", 3), ("dt=1/hr=2/b", 3), ("dt=10/c", 3), ("empty", 0), ("v.1/d", 3)];
    assert_eq!(paths(w.list("").await), all.map(|(path, size)| (path.to_owned(), size)));
    assert_eq!(paths(w.list("dt=1/").await).len(), 2);
    assert_eq!(paths(w.list("dt=1/hr=2/").await).len(), 1);
    assert_eq!(w.list("dt=2/").await, []);
    assert_eq!(w.stores.folders(&w.source, "").await.unwrap(), ["dt=1", "dt=10", "v.1"]);
    assert_eq!(w.stores.folders(&w.source, "dt=1/").await.unwrap(), ["hr=1", "hr=2"]);
    assert_eq!(w.stores.requests().list, 7, "one page each");
    assert_eq!(w.stores.requests().get, 0);
}

async fn lists_more_than_a_page(endpoint: &str) {
    let w = World::open(endpoint);
    // Siblings of folders, so that a server that lists folders first has to page through both.
    let names: BTreeSet<String> =
        (0..2_501).map(|n| if n % 5 == 0 { format!("p/{n:04}/x") } else { format!("p/{n:04}") }).collect();
    let all: Vec<&String> = names.iter().collect();
    for some in all.chunks(100) {
        futures::future::join_all(some.iter().map(|name| w.put(name, "1"))).await;
    }
    let found = w.list("p/").await;
    let paths: BTreeSet<String> = found.iter().map(|version| version.path.to_string()).collect();
    assert_eq!(found.len(), 2_501);
    assert_eq!(paths, names);
    assert_eq!(w.stores.requests().list, 3);
}

async fn fetches_exact_keys(endpoint: &str) {
    let w = World::open(endpoint);
    let names =
        ["a b", "a+b", "a%20b", "100%", "x,y", "\u{e9}", "e\u{301}", "v.1/f", "a&b=c?d#e", "q'\"<>", "ts=10%3A00/f"];
    for name in names {
        w.put(name, name).await;
    }
    let found = w.list("").await;
    assert_eq!(found.iter().map(|v| &*v.path).collect::<BTreeSet<_>>(), names.into_iter().collect());
    for version in found {
        assert_eq!(w.fetch(&version).await.unwrap(), version.path.as_bytes());
    }
    assert_eq!(w.stores.requests().get, names.len() as u64);
}

async fn fetches_only_the_listed_version(endpoint: &str) {
    let w = World::open(endpoint);
    w.put("k", "one").await;
    let first = w.one("k").await;
    assert_eq!(w.one("k").await, first, "nothing changed");
    w.put("k", "two").await;
    assert!(matches!(w.fetch(&first).await, Err(FetchError::Moved(_))));
    let second = w.one("k").await;
    assert_ne!(first, second);
    assert_eq!(w.fetch(&second).await.unwrap(), b"two");
    w.raw.delete(&w.path("k")).await.unwrap();
    assert!(matches!(w.fetch(&second).await, Err(FetchError::Moved(_))));
    assert_eq!(w.list("").await, []);
}

async fn fetches_large_objects(endpoint: &str) {
    let w = World::open(endpoint);
    let body: Vec<u8> = (0..9_000_001u32).map(|n| (n % 251) as u8).collect();
    w.put("large", body.clone()).await;
    let version = w.one("large").await;
    assert!(w.fetch(&version).await.unwrap() == body);
    assert_eq!(w.stores.requests().get, 2, "in ranges");
    w.put("large", &body[1..]).await;
    assert!(matches!(w.fetch(&version).await, Err(FetchError::Moved(_))));
}

/// The client cannot write such keys either, so this asks for one that another program may have written.
async fn names_keys_it_cannot_fetch(endpoint: &str) {
    let w = World::open(endpoint);
    let version = FileVersion { path: "x//y".into(), size: 1, etag: "e".into() };
    assert!(matches!(w.fetch(&version).await, Err(FetchError::Unreadable(why)) if why.contains("x//y")));
}

async fn says_what_is_missing(endpoint: &str) {
    let w = World::open(endpoint);
    let place = Location::S3 { bucket: "no-such-bucket".into(), prefix: String::new() };
    let stores = Stores::new([(w.source.clone(), place)], &w.configs, Arc::new(SystemClock)).unwrap();
    let fault = stores.files(&w.source, "").await.unwrap_err();
    assert!(
        matches!(&fault, Fault::Unavailable(why) if why.contains("bucket `no-such-bucket` does not exist")),
        "{fault}"
    );
    assert!(stores.reach().await.iter().all(|(_, _, answer)| answer.is_err()));
}

async fn creates_only_if_absent(endpoint: &str) {
    let w = World::open(endpoint);
    let create = || PutOptions::from(PutMode::Create);
    w.raw.put_opts(&w.path("log/1"), "a".into(), create()).await.unwrap();
    let second = w.raw.put_opts(&w.path("log/1"), "b".into(), create()).await;
    assert!(matches!(second, Err(object_store::Error::AlreadyExists { .. })), "{second:?}");
    assert_eq!(w.fetch(&w.one("log/1").await).await.unwrap(), b"a");
    assert_eq!(w.stores.requests().put, 0, "the log's requests are not the sources'");
}
