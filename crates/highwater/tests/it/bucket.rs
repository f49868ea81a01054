//! The whole pipeline over real S3 servers: lake and state in a bucket, the index on disk.

use std::sync::Arc;
use std::time::Duration;

use highwater::config::{Location, StoreConfig};
use highwater::nonce::nonce;
use highwater::store::open_state;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::Value;

use crate::lake::{Lake, Running, eventually, rows};

const LIMIT: Duration = Duration::from_secs(60);

/// A fresh prefix of one server, and a runtime to fill it.
pub struct Bucket {
    pub endpoint: String,
    pub prefix: String,
    pub store: Arc<dyn ObjectStore>,
    root: Path,
    pub runtime: tokio::runtime::Runtime,
}

impl Bucket {
    pub fn of(variable: &str) -> Option<Self> {
        let Some(endpoint) = std::env::var(variable).ok().filter(|endpoint| !endpoint.is_empty()) else {
            crate::lake::left_out(&format!("{variable} names no server"));
            return None;
        };
        Some(Self::at(&endpoint))
    }

    /// Of the server at this address.
    pub fn at(endpoint: &str) -> Self {
        let endpoint = endpoint.to_owned();
        let prefix = format!("p-{}", nonce());
        let place = Location::S3 { bucket: "hw-test".into(), prefix: prefix.clone() };
        let config = StoreConfig { endpoint: Some(endpoint.clone()), allow_http: Some(true), ..StoreConfig::default() };
        let (store, root) = open_state(&place, &[("s3://hw-test".to_owned(), config)].into()).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        Self { endpoint, prefix, store, root, runtime }
    }

    /// A key below the prefix, with exactly these bytes.
    pub fn key(&self, name: &str) -> Path {
        Path::parse(format!("{}/{name}", self.root)).unwrap()
    }

    pub fn put(&self, name: &str, content: String) {
        self.runtime.block_on(self.store.put(&self.key(name), content.into())).unwrap();
    }

    /// The names of objects and folders directly below a folder, in order.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let folder = self.key(folder);
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&folder))).unwrap();
        let objects = listed.objects.into_iter().map(|object| object.location);
        let names = objects.chain(listed.common_prefixes).filter_map(|path| Some(path.filename()?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub fn delete(&self, name: &str) {
        self.runtime.block_on(self.store.delete(&self.key(name))).unwrap();
    }

    pub fn lake(&self) -> Lake {
        self.lake_through(&self.endpoint, "")
    }

    /// A pipeline over it by another address, with more settings of the store.
    pub fn lake_through(&self, endpoint: &str, settings: &str) -> Lake {
        let toml = format!(
            r#"
[pipeline]
name = "items"
state = "s3://hw-test/{prefix}/state"
step = "1m"
window = "1h"
settle = "10s"
poll = "100ms"

[source.items]
location = "s3://hw-test/{prefix}/lake"
layout = "region={{region}}/dt=%Y-%m-%d/hr=%H/min=%M"
format = "ndjson"
kind = "append"
columns = {{ id = "string", v = "string" }}

[document]
sql = "document.sql"
id = "id"

[index]
kind = "tantivy"
path = "./index"

[store."s3://hw-test"]
endpoint = "{endpoint}"
allow_http = true
{settings}
"#,
            prefix = self.prefix,
        );
        Lake::new(&toml, "SELECT id, v, region FROM items")
    }
}

pub fn both(case: fn(Bucket)) {
    for server in ["HIGHWATER_TEST_S3_MOTO", "HIGHWATER_TEST_S3_SEAWEED"] {
        if let Some(bucket) = Bucket::of(server) {
            case(bucket);
        }
    }
}

#[test]
fn files_come_change_and_go() {
    both(|bucket| {
        let lake = bucket.lake();
        bucket.put("lake/region=eu/dt=2024-05-01/hr=10/min=02/a b+c%20,é.ndjson", rows(&[("1", "a"), ("2", "a")]));
        let first = lake.once("2024-05-01T10:03:30Z");
        assert_eq!(first["upserts"], 2, "{first}");
        bucket.put("lake/region=us/dt=2024-05-01/hr=09/min=10/late.ndjson", rows(&[("3", "late")]));
        bucket.put("lake/region=eu/dt=2024-05-01/hr=10/min=02/b.ndjson", rows(&[("4", "b")]));
        let second = lake.once("2024-05-01T10:04:30Z");
        assert_eq!((&second["upserts"], &second["files_read"]), (&2.into(), &3.into()), "a new process: {second}");
        assert_eq!(lake.ids(), "1 2 3 4");
        assert_eq!(lake.documents()["3"]["region"], "us");
        bucket.put("lake/region=eu/dt=2024-05-01/hr=10/min=02/a b+c%20,é.ndjson", rows(&[("1", "b"), ("5", "a")]));
        bucket.delete("lake/region=eu/dt=2024-05-01/hr=10/min=02/b.ndjson");
        lake.once("2024-05-01T10:05:30Z");
        assert_eq!(lake.ids(), "1 3 5");
        assert_eq!(lake.documents()["1"]["v"], "b");
        lake.verify_equal();
        let quiet = lake.once("2024-05-01T10:05:40Z");
        assert_eq!((&quiet["mode"], &quiet["requests"]["get"]), (&"none".into(), &0.into()), "{quiet}");
    });
}

fn lines(run: &Running) -> Vec<Value> {
    run.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn steady_state_lists_two_prefixes_at_most() {
    both(|bucket| {
        let lake = bucket.lake();
        let path = |minutes: i64, name: &str| {
            let at = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
            at.strftime(&format!("lake/region=eu/dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string()
        };
        bucket.put(&path(30, "old"), rows(&[("0", "old")]));
        let run = lake.spawn(&["run", "--json"]);
        eventually("the first batch", LIMIT, || (!lines(&run).is_empty()).then_some(()));
        for n in 1..6 {
            bucket.put(&path(0, &format!("f{n}")), rows(&[(&n.to_string(), "new")]));
            eventually(&format!("file {n}\n{}", run.log()), LIMIT, || {
                lines(&run).iter().any(|line| line["documents"] == n + 1).then_some(())
            });
        }
        let batches: Vec<Value> = lines(&run).into_iter().filter(|line| line["mode"] == "full").collect();
        assert!(batches.len() >= 6, "{}", run.log());
        for batch in &batches[1..] {
            assert!(batch["requests"]["list"].as_u64() <= Some(2), "{batch}");
            assert_eq!(batch["requests"]["get"], batch["files_read"], "{batch}");
            assert_eq!((&batch["requests"]["put"], &batch["requests"]["head"]), (&0.into(), &0.into()), "{batch}");
        }
        run.kill();
        lake.verify_equal();
    });
}

#[test]
fn the_log_keeps_its_contract() {
    both(|bucket| {
        let root = bucket.key("contract");
        let findings = bucket.runtime.block_on(highwater_core::log::contract::check(bucket.store.clone(), &root));
        assert!(findings.len() > 20);
        for finding in findings {
            assert!(finding.outcome.is_ok(), "{}: {:?}", finding.case, finding.outcome);
        }
    });
}

#[test]
fn unreachable_and_wrong_stores_are_told() {
    let Some(bucket) = Bucket::of("HIGHWATER_TEST_S3_MOTO") else { return };
    let lake = bucket.lake();
    let toml = std::fs::read_to_string(lake.path("highwater.toml")).unwrap();
    std::fs::write(lake.path("highwater.toml"), toml.replace("s3://hw-test", "s3://no-such-bucket")).unwrap();
    let output = lake.run(&["check"]);
    assert_eq!(output.status.code(), Some(2), "{}", crate::lake::text(&output));
    assert!(crate::lake::text(&output).contains("no-such-bucket"), "{}", crate::lake::text(&output));
    let output = lake.run(&["once"]);
    assert_eq!(output.status.code(), Some(5), "{}", crate::lake::text(&output));
}
