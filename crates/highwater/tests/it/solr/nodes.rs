//! One of two nodes dies, in the middle of a batch and in the middle of a rebuild: its work goes on by the other.

use serde_json::Value;

use super::{Collection, LIMIT, Solr, get};
use crate::lake::{ITEMS, Lake, Running, eventually, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

/// So that a batch takes several requests.
const DOCUMENTS: u64 = 4_000;

fn lines(prefix: &str) -> String {
    (0..DOCUMENTS).map(|n| rows(&[(&format!("{prefix}{n:04}"), "kettle")])).collect()
}

fn land(lake: &Lake, name: &str) {
    let path = jiff::Timestamp::now().strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string();
    lake.land(&path, lines(name));
}

#[test]
fn a_node_of_two_is_lost_in_mid_batch_and_in_mid_rebuild() {
    let (first, second) =
        (Solr { folder: tempfile::tempdir().unwrap() }, Solr { folder: tempfile::tempdir().unwrap() });
    let staying = first.script("start.sh", &[]);
    let dying = second.script("start.sh", &["--beside", first.folder.path().to_str().unwrap()]);
    let collection = Collection::of(&staying);
    // The one that dies is asked first.
    let proxy = Proxy::start(dying.trim_end_matches("/solr"));
    let index = collection.index_through(&[format!("{}/solr", proxy.endpoint()), staying.clone()]) + "\nreplicas = 2";
    let lake = Lake::new(&ITEMS.replace("kind = \"tantivy\"\npath = \"./index\"", &index), "SELECT id, v FROM items");
    land(&lake, "a");
    let run = lake.spawn(&["run", "--json"]);
    shows(&lake, &run, DOCUMENTS);
    eventually("both nodes", LIMIT, || (active(&staying) == 4).then_some(()));

    proxy.stop_after(Kind::Change, "update.chain", 1, Fault::Hang);
    land(&lake, "b");
    dies(&proxy, &second, &run);
    shows(&lake, &run, 2 * DOCUMENTS);
    lake.verify_equal();
    comes_back(&second, &staying, 4);

    // The node that it went over to is the one that dies now: in mid-rebuild, the names being asked in turn.
    run.kill();
    let rebuild = |order: &[&str]| lake.spawn_to("rebuild.log", order);
    proxy.stop_after(Kind::Change, "_g2/update?wt=json&update.chain", 1, Fault::Hang);
    let mut rebuild = rebuild(&["rebuild", "--promote"]);
    dies(&proxy, &second, &rebuild);
    assert!(rebuild.wait(LIMIT).success(), "{}", rebuild.log());
    assert_eq!(collection.live(), format!("{}_g2", collection.name));
    land(&lake, "c");
    lake.json(&["once", "--json"]);
    assert_eq!(lake.documents().len() as u64, 3 * DOCUMENTS);
    lake.verify_equal();
    comes_back(&second, &staying, 8);
    replicas_are_equal(&collection);
    lake.verify_equal();
}

fn dies(proxy: &Proxy, solr: &Solr, run: &Running) {
    let met = proxy.met().len();
    eventually(&format!("the request:\n{}", run.log()), LIMIT, || (proxy.met().len() > met).then_some(()));
    solr.kill();
    proxy.heal();
}

fn shows(lake: &Lake, run: &Running, documents: u64) {
    eventually(&format!("{documents} documents"), LIMIT, || {
        assert!(run.is_alive(), "{}", run.log());
        // A commit in between ends a dump.
        let dump = lake.run(&["dump"]);
        (dump.status.success() && text(&dump).lines().count() as u64 == documents).then_some(())
    });
}

/// The replicas of all collections, by their core and node's address.
fn replicas(node: &str) -> Vec<(String, Value)> {
    let status = get(node, "/admin/collections?action=CLUSTERSTATUS");
    let mut replicas = Vec::new();
    for collection in status["cluster"]["collections"].as_object().into_iter().flat_map(|all| all.values()) {
        for (shard, state) in collection["shards"].as_object().into_iter().flatten() {
            let of = state["replicas"].as_object().into_iter().flat_map(|all| all.values());
            replicas.extend(of.map(|replica| (shard.clone(), replica.clone())));
        }
    }
    replicas
}

fn active(node: &str) -> usize {
    replicas(node).iter().filter(|(_, replica)| replica["state"] == "active").count()
}

fn comes_back(solr: &Solr, staying: &str, replicas: usize) {
    solr.script("start.sh", &["--again"]);
    eventually("all replicas", LIMIT, || (active(staying) == replicas).then_some(()));
}

/// Every replica has the same documents as the other one of its shard.
fn replicas_are_equal(collection: &Collection) {
    let mut shards = std::collections::BTreeMap::<String, Vec<Value>>::new();
    for (shard, replica) in replicas(&collection.nodes[0]) {
        let core = replica["core"].as_str().unwrap();
        if core.starts_with(&format!("{}_g2_", collection.name)) {
            let node = replica["base_url"].as_str().unwrap();
            let query = "q=*:*&rows=100000&sort=id%20asc&fl=id,_source_,_hw_seq_&distrib=false";
            shards.entry(shard).or_default().push(get(node, &format!("/{core}/highwater?{query}"))["response"].clone());
        }
    }
    assert_eq!(shards.len(), 2);
    for (shard, answers) in shards {
        assert_eq!(answers.len(), 2);
        assert!(answers[0]["numFound"].as_u64().unwrap() > DOCUMENTS, "{shard}");
        assert!(answers[0] == answers[1], "the replicas of {shard} differ");
    }
}
