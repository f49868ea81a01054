//! Solr itself is killed in the middle of a rebuild and started again with its data; highwater goes on all the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::{Collection, LIMIT, Solr};
use crate::lake::{Background, ITEMS, Lake, Running, eventually, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

/// So that a fill takes several requests.
const DOCUMENTS: u64 = 3_000;

fn now_path(name: &str) -> String {
    jiff::Timestamp::now().strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string()
}

#[test]
fn solr_killed_in_a_rebuild_starts_again_and_it_ends_alike() {
    let solr = Solr { folder: tempfile::tempdir().unwrap() };
    let mut world = World::start(&solr);
    let name = world.collection.name.clone();
    let update = |generation: &str| format!("/solr/{name}_{generation}/update?wt=json&update.chain");

    // A batch of the live index, stamp and all, is there but for its commit: replaying its log may show it shard by shard.
    world.proxy.stop_after(Kind::Change, &format!("/solr/{name}_g1/update?wt=json&commit"), 0, Fault::Hang);
    world.land_many();
    world.dies_when_met(&solr, Fault::Hang);
    world.shows(world.documents);
    world.lake.verify_equal();

    // In mid-fill: some of its documents have arrived, and no commit.
    world.proxy.stop_after(Kind::Change, &update("g2"), 1, Fault::Hang);
    let rebuild = world.order(&["rebuild", "--promote"]);
    world.dies_when_met(&solr, Fault::Hang);
    world.ends_alike(rebuild, "g2");

    // In mid-catch-up.
    let mut rebuild = world.order(&["rebuild"]);
    assert!(rebuild.wait(LIMIT).success(), "{}", rebuild.log());
    world.proxy.stop_after(Kind::Change, &update("g3"), 0, Fault::Hang);
    world.land();
    world.dies_when_met(&solr, Fault::Hang);
    let promote = world.order(&["promote"]);
    world.ends_alike(promote, "g3");

    // Between the intent and the switch, and after the switch, of which nobody heard.
    for (fault, generation) in [(Fault::Hang, "g4"), (Fault::LostHang, "g5")] {
        world.proxy.stop_after(Kind::Change, "action=CREATEALIAS", 0, fault);
        let rebuild = world.order(&["rebuild", "--promote"]);
        world.dies_when_met(&solr, fault);
        world.ends_alike(rebuild, generation);
    }
    world.run.kill();
}

struct World {
    proxy: Proxy,
    collection: Collection,
    lake: Arc<Lake>,
    run: Running,
    /// All that landed, and how many files.
    documents: u64,
    files: u64,
    met: usize,
}

impl World {
    fn start(solr: &Solr) -> Self {
        let collection = Collection::of(&solr.script("start.sh", &[]));
        let proxy = Proxy::start(collection.nodes[0].trim_end_matches("/solr"));
        let index = collection.index_through(&[format!("{}/solr", proxy.endpoint())]);
        let sections = format!("[generations]\nkeep_hot = \"1h\"\n\n[index]\n{index}");
        let toml = ITEMS.replace("[index]\nkind = \"tantivy\"\npath = \"./index\"", &sections);
        let lake = Arc::new(Lake::new(&toml, "SELECT id, v FROM items"));
        let run = lake.spawn(&["run", "--json"]);
        let mut world = Self { proxy, collection, lake, run, documents: 0, files: 0, met: 0 };
        world.land_many();
        world.shows(world.documents);
        world
    }

    fn order(&self, args: &[&str]) -> Running {
        self.lake.spawn_to(&format!("{}.log", args[0]), args)
    }

    fn land(&mut self) {
        self.land_documents(1);
    }

    fn land_many(&mut self) {
        self.land_documents(DOCUMENTS);
    }

    fn land_documents(&mut self, documents: u64) {
        let lines = (0..documents).map(|n| rows(&[(&format!("{}-{n:04}", self.files), "kettle")]));
        self.lake.land(&now_path(&format!("f{}", self.files)), lines.collect::<String>());
        self.files += 1;
        self.documents += documents;
    }

    fn shows(&self, documents: u64) {
        eventually(&format!("{documents} documents"), LIMIT, || {
            assert!(self.run.is_alive(), "{}", self.run.log());
            // A commit in between ends a dump.
            let dump = self.lake.run(&["dump"]);
            (dump.status.success() && text(&dump).lines().count() as u64 == documents).then_some(())
        });
    }

    /// Solr dies at a request, and starts again while somebody asks what the index holds.
    fn dies_when_met(&mut self, solr: &Solr, fault: Fault) {
        eventually(&format!("the request:\n{}", self.run.log()), LIMIT, || {
            (self.proxy.met().len() > self.met).then_some(())
        });
        if fault == Fault::LostHang {
            self.proxy.holds_an_answer(LIMIT);
        }
        solr.kill();
        self.proxy.heal();
        self.met = self.proxy.met().len();
        let (answers, mut witness) = self.witness();
        self.land();
        solr.script("start.sh", &["--again"]);
        let before = answers.load(Ordering::Relaxed);
        eventually("answers after the start", LIMIT, || (answers.load(Ordering::Relaxed) > before + 2).then_some(()));
        witness.halt();
    }

    /// Asks all the time: an answer names a batch and has all of that batch's documents, or there is none.
    fn witness(&self) -> (Arc<AtomicU64>, Background) {
        let (lake, log, landed) = (self.lake.clone(), self.lake.path("run.log"), self.documents);
        let answers = Arc::new(AtomicU64::new(0));
        let counted = answers.clone();
        let witness = Background::start(move || {
            let output = lake.run(&["search", "*", "--json", "--limit", "0"]);
            if !output.status.success() {
                assert_eq!(output.status.code(), Some(5), "{}", text(&output));
                return std::thread::sleep(Duration::from_millis(20));
            }
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            let (seq, total) = (found["as_of"]["seq"].as_u64().unwrap(), found["total"].as_u64().unwrap());
            let batches = documents_of(&std::fs::read_to_string(&log).unwrap());
            // One that was not told of is of all that had landed.
            let is_told = batches.last_key_value().is_some_and(|(last, _)| seq <= *last);
            let told = batches.range(..=seq).next_back().map_or(0, |(_, documents)| *documents);
            let held = if is_told { told } else { landed };
            assert!(total >= held, "as of batch {seq}, and {total} of its {held} documents");
            counted.fetch_add(1, Ordering::Relaxed);
        });
        (answers, witness)
    }

    fn ends_alike(&mut self, mut order: Running, generation: &str) {
        assert!(order.wait(LIMIT).success(), "{generation}: {}", order.log());
        assert_eq!(self.lake.json(&["generations", "--json"])["live"], generation);
        assert_eq!(self.collection.live(), format!("{}_{generation}", self.collection.name));
        self.land();
        self.shows(self.documents);
        self.lake.verify_equal();
    }
}

/// How many documents each batch left, by its number.
fn documents_of(log: &str) -> BTreeMap<u64, u64> {
    let reports = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let batches = reports.filter(|report| report["mode"] == "full");
    batches.filter_map(|report| Some((report["seq"].as_u64()?, report["documents"].as_u64()?))).collect()
}
