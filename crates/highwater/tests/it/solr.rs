//! Pipelines whose index is a collection of a real SolrCloud: HIGHWATER_TEST_SOLR names one that runs already, and a test
//! that kills Solr starts its own.

mod flights;
mod gauntlet;
mod kills;
mod nodes;
mod overlay;
mod restarts;
mod switch;
mod writers;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::lake::{Background, Dice, ITEMS, Lake, batches, eventually, rows, text};

const LIMIT: Duration = Duration::from_secs(240);

/// A collection that no other test has; it goes with the test.
struct Collection {
    nodes: Vec<String>,
    name: String,
}

impl Collection {
    fn shared() -> Self {
        Self { nodes: nodes(), name: unused_name() }
    }

    fn of(nodes: &str) -> Self {
        Self { nodes: nodes.split(',').map(str::to_owned).collect(), name: unused_name() }
    }

    /// What stands below `[index]`.
    fn index(&self) -> String {
        self.index_through(&self.nodes)
    }

    /// The same, asked by other addresses.
    fn index_through(&self, nodes: &[String]) -> String {
        format!("kind = \"solr\"\nurl = {nodes:?}\ncollection = \"{}\"\nshards = 2", self.name)
    }

    fn lake(&self) -> Lake {
        Lake::new(&ITEMS.replace("kind = \"tantivy\"\npath = \"./index\"", &self.index()), "SELECT id, v FROM items")
    }

    fn get(&self, path: &str) -> Value {
        get(&self.nodes[0], path)
    }
}

/// The nodes that all tests share.
fn nodes() -> Vec<String> {
    let nodes = std::env::var("HIGHWATER_TEST_SOLR");
    let nodes =
        nodes.expect("HIGHWATER_TEST_SOLR is not set: run ./test, or services/solr/start.sh and export its answer");
    nodes.split(',').map(str::to_owned).collect()
}

fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("it{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What a node answers; nothing, where it does not.
fn get(node: &str, path: &str) -> Value {
    answer(HTTP.1.get(format!("{node}{path}")))
}

fn post(node: &str, path: &str, kind: &str, body: String) -> Value {
    answer(HTTP.1.post(format!("{node}{path}")).header("Content-Type", kind).body(body))
}

/// A connection a question, for a node may have died since the last one.
static HTTP: LazyLock<(Runtime, reqwest::Client)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    (runtime, reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap())
});

fn answer(request: reqwest::RequestBuilder) -> Value {
    let body = HTTP.0.block_on(async { request.send().await?.text().await });
    serde_json::from_str(&body.unwrap_or_default()).unwrap_or_default()
}

impl Collection {
    /// The collections behind the name, in no order.
    fn generations(&self) -> Vec<String> {
        let list = self.get("/admin/collections?action=LIST");
        let names = list["collections"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| name.starts_with(&format!("{}_g", self.name))).map(str::to_owned).collect()
    }

    /// What the alias names.
    fn live(&self) -> String {
        let aliases = self.get("/admin/collections?action=LISTALIASES");
        aliases["aliases"][&self.name].as_str().unwrap_or_default().to_owned()
    }

    /// Takes the alias and every collection behind it away.
    fn delete(&self) {
        self.get(&format!("/admin/collections?action=DELETEALIAS&name={}", self.name));
        for name in self.generations() {
            let gone = self.get(&format!("/admin/collections?action=DELETE&name={name}"));
            assert_eq!(gone["responseHeader"]["status"], 0, "{gone}");
            self.get(&format!("/admin/configs?action=DELETE&name=highwater.{name}"));
        }
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.delete();
        }
    }
}

#[test]
fn batches_changes_deletes_and_answers() {
    let collection = Collection::shared();
    let lake = collection.lake();
    lake.land(
        "dt=2024-05-01/hr=10/min=00/a.ndjson",
        rows(&[("a", "copper kettle"), ("b", "kettle"), ("ü!/🦀", "odd")]),
    );
    let first = lake.once("2024-05-01T10:02:00Z");
    assert_eq!((&first["upserts"], &first["documents"]), (&3.into(), &3.into()), "{first}");
    lake.verify_equal();

    lake.land("dt=2024-05-01/hr=10/min=00/a.ndjson", rows(&[("a", "copper wire"), ("ü!/🦀", "odd")]));
    lake.land("dt=2024-05-01/hr=10/min=01/b.ndjson", rows(&[("c", "tin kettle")]));
    let second = lake.once("2024-05-01T10:03:00Z");
    let counts = ["upserts", "deletes", "unchanged", "documents"].map(|key| second[key].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 1, 3], "{second}");
    lake.verify_equal();
    assert_eq!(lake.ids(), "a c ü!/🦀");

    let found = lake.json(&["search", "kettle", "--json"]);
    assert_eq!((&found["total"], &found["hits"][0]["id"]), (&1.into(), &"c".into()), "{found}");
    assert_eq!(found["as_of"]["seq"], second["seq"]);
    let got = lake.json(&["get", "ü!/🦀", "--json"]);
    assert_eq!(got["document"]["v"], "odd", "{got}");
    assert!(!lake.run(&["get", "b"]).status.success());
    let status = lake.json(&["status", "--json"]);
    assert_eq!(status["documents"], 3, "{status}");

    // Nothing changed, so that nothing is written.
    assert_eq!(lake.once("2024-05-01T10:03:30Z")["upserts"], 0);
    let direct = collection.get(&format!("/{}/select?q=*:*&rows=0", collection.name));
    assert_eq!(direct["response"]["numFound"], 3, "{direct}");
}

/// Rebuilt, switched and switched back while a client asks Solr itself by the alias, all the time.
#[test]
fn a_rebuild_is_promoted_and_rolled_back_under_readers() {
    let collection = Collection::shared();
    let toml_of = |lake: &Lake| std::fs::read_to_string(lake.path("highwater.toml")).unwrap();
    let lake = collection.lake();
    std::fs::write(
        lake.path("highwater.toml"),
        toml_of(&lake).replace("[index]", "[generations]\nkeep_hot = \"1h\"\n\n[index]"),
    )
    .unwrap();
    let path =
        |name: &str| jiff::Timestamp::now().strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string();
    let lines: String = (0..500).map(|n| rows(&[(&format!("d{n:03}"), "kettle")])).collect();
    lake.land(&path("first"), lines);
    assert_eq!(lake.json(&["once", "--json"])["documents"], 500);
    let (nodes, name, answers) = (collection.nodes.clone(), collection.name.clone(), Arc::new(AtomicU64::new(0)));
    let asked = answers.clone();
    let mut reader = Background::start(move || {
        let found = get(&nodes[0], &format!("/{name}/select?q=*:*&rows=0"));
        let total = found["response"]["numFound"].as_u64();
        assert!(total.is_some_and(|total| total >= 500), "a part of the documents only: {found}");
        asked.fetch_add(1, Ordering::Relaxed);
    });
    let report = lake.json(&["rebuild", "--promote", "--json"]);
    assert_eq!((report["live"].as_str(), collection.live()), (Some("g2"), format!("{}_g2", collection.name)));
    lake.verify_equal();
    lake.land(&path("second"), rows(&[("new", "socks")]));
    assert_eq!(lake.json(&["once", "--json"])["documents"], 501);
    let report = lake.json(&["rollback", "--json"]);
    assert_eq!((report["live"].as_str(), collection.live()), (Some("g1"), format!("{}_g1", collection.name)));
    assert_eq!(lake.documents().len(), 501, "what it went back to has what came since");
    lake.verify_equal();
    reader.halt();
    assert!(answers.load(Ordering::Relaxed) > 10);
}

#[test]
fn a_collection_that_lost_its_documents_is_filled_anew() {
    let collection = Collection::shared();
    let lake = collection.lake();
    lake.land("dt=2024-05-01/hr=10/min=00/a.ndjson", rows(&[("a", "1"), ("b", "2")]));
    lake.once("2024-05-01T10:02:00Z");
    collection.delete();
    assert!(collection.generations().is_empty());
    lake.once("2024-05-01T10:02:30Z");
    assert_eq!(lake.ids(), "a b");
    lake.verify_equal();
}

/// Killed once Solr has the first of a batch's documents, and not yet its commit.
#[test]
fn a_writer_killed_in_mid_batch_converges() {
    let collection = Collection::shared();
    let (lake, reference) = (collection.lake(), Lake::items());
    let mut dice = Dice(23);
    let mut in_mid_batch = 0;
    for minute in 0..6 {
        let file = format!("dt=2024-05-01/hr=10/min={minute:02}/a.ndjson");
        let former = format!("dt=2024-05-01/hr=10/min={:02}/a.ndjson", minute / 2);
        let content: String =
            (0..12_000).map(|n| rows(&[(&format!("{minute}-{n}"), &format!("v{}", dice.roll(9)))])).collect();
        for lake in [&lake, &reference] {
            lake.land(&file, &content);
            if former != file {
                // Changes and deletions of what stands there.
                let some: Vec<&str> = content.lines().step_by(3).collect();
                lake.land(&former, some.join("\n").replace(&format!("{minute}-"), &format!("{}-", minute / 2)));
            }
        }
        let now = format!("2024-05-01T10:{:02}:30Z", minute + 1);
        let mut run = lake.spawn(&["once", "--now", &now]);
        let first = format!("/{}/get?id={minute}-0&fl=_hw_seq_", collection.name);
        let seq = eventually("a document of the batch", LIMIT, || collection.get(&first)["doc"]["_hw_seq_"].as_u64());
        run.signal("KILL");
        run.wait(LIMIT);
        let stamp = collection.get(&format!("/{}/highwater?q=id:_hw_stamp_&fl=_hw_seq_", collection.name));
        in_mid_batch += u32::from(stamp["response"]["docs"][0]["_hw_seq_"].as_u64() < Some(seq));
        lake.once(&now);
        reference.once(&now);
        assert_eq!(lake.dump(), reference.dump(), "after {now}");
        lake.verify_equal();
    }
    assert!(in_mid_batch > 3, "{in_mid_batch} of 6 kills came before the commit");
}

/// A SolrCloud of this test's own.
struct Solr {
    folder: TempDir,
}

impl Solr {
    fn script(&self, name: &str, more: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/solr").join(name);
        let output = Command::new(script).arg(self.folder.path()).args(more).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn kill(&self) {
        let pid = std::fs::read_to_string(self.folder.path().join("pid")).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
        eventually("Solr to be gone", LIMIT, || (!Path::new(&format!("/proc/{}", pid.trim())).exists()).then_some(()));
    }
}

impl Drop for Solr {
    fn drop(&mut self) {
        self.script("stop.sh", &[]);
    }
}

#[test]
fn a_run_outlives_solr() {
    let solr = Solr { folder: tempfile::tempdir().unwrap() };
    let collection = Collection::of(&solr.script("start.sh", &[]));
    let lake = collection.lake();
    let land = |id: &str| {
        let now = jiff::Timestamp::now().strftime("dt=%Y-%m-%d/hr=%H/min=%M").to_string();
        lake.land(&format!("{now}/{id}.ndjson"), rows(&[(id, "x")]));
    };
    land("a");
    let run = lake.spawn(&["run", "--json"]);
    eventually("the first batch", LIMIT, || (batches(&run.log()) > 0).then_some(()));
    solr.kill();
    land("b");
    eventually("the loss to be told", LIMIT, || run.log().contains(&collection.nodes[0]).then_some(()));
    let once = lake.run(&["search", "x"]);
    assert_eq!(once.status.code(), Some(5), "{}", text(&once));
    assert!(text(&once).contains(&collection.nodes[0]), "{}", text(&once));
    assert!(run.is_alive(), "{}", run.log());
    solr.script("start.sh", &["--again"]);
    land("c");
    eventually("all documents", LIMIT, || {
        let dump = lake.run(&["dump"]);
        (dump.status.success() && text(&dump).lines().count() == 3).then_some(())
    });
    // What readers see may not be in the log yet: `verify` waits for it, and a kill would not.
    lake.verify_equal();
    run.kill();
}
