//! A33 to A35 of the gauntlet on a real Solr.

use serde_json::json;

use super::{Collection, LIMIT};
use crate::gauntlet::generations::{Short, is_counted, live_by_the_log, now};
use crate::lake::{ITEMS, Lake, eventually, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

const SWITCH: &str = "action=CREATEALIAS";

/// 80 documents written and 20 taken away, and the connection closed without an answer, twice; then the answer to
/// the stamp is lost as well.
#[test]
fn a33_connection_closed_after_the_documents_went_in_on_solr() {
    let collection = Collection::shared();
    let proxy = Proxy::start(collection.nodes[0].trim_end_matches("/solr"));
    let index = collection.index_through(&[format!("{}/solr", proxy.endpoint())]);
    let lake = Lake::new(&ITEMS.replace("kind = \"tantivy\"\npath = \"./index\"", &index), "SELECT id, v FROM items");
    let numbered = |from: u32, to: u32| (from..to).map(|n| rows(&[(&format!("d{n:03}"), "x")])).collect::<String>();
    lake.land(&now("dt=%Y-%m-%d/hr=%H/min=%M", "leaves"), numbered(0, 20));
    lake.land(&now("dt=%Y-%m-%d/hr=%H/min=%M", "stays"), numbered(20, 21));
    lake.json(&["once", "--json"]);
    let leaves = walk(&lake.path("lake")).into_iter().find(|path| path.ends_with("leaves.ndjson")).unwrap();
    std::fs::remove_file(leaves).unwrap();
    lake.land(&now("dt=%Y-%m-%d/hr=%H/min=%M", "comes"), numbered(100, 180));
    proxy.fault(Kind::Change, "d100", Fault::LostReset, 2);
    proxy.fault(Kind::Change, "_hw_stamp_", Fault::LostReset, 1);
    let batch = lake.json(&["once", "--json"]);
    assert_eq!(proxy.met().len(), 3, "{:?}", proxy.met());
    let figures = (&batch["upserts"], &batch["deletes"], &batch["documents"]);
    assert_eq!(figures, (&80.into(), &20.into(), &81.into()), "each counts once: {batch}");
    let found = collection.get(&format!("/{}/select?q=*:*&rows=0", collection.live()));
    assert_eq!(found["response"]["numFound"], 81, "{found}");
    lake.verify_equal();
}

/// Every file below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// The alias cannot be set, it is set and nobody is told, and it is not set though Solr says so: once, and until the
/// process is killed.
#[test]
fn a34_a_switch_of_the_alias_that_fails_or_whose_reply_is_lost_on_solr() {
    for (fault, is_done) in
        [(Fault::Refused(500, "Internal"), false), (Fault::LostReset, true), (Fault::Pretended, false)]
    {
        let collection = Collection::shared();
        let proxy = Proxy::start(collection.nodes[0].trim_end_matches("/solr"));
        let index = collection.index_through(&[format!("{}/solr", proxy.endpoint())]);
        let lake =
            Lake::new(&ITEMS.replace("kind = \"tantivy\"\npath = \"./index\"", &index), "SELECT id, v FROM items");
        lake.land(&now("dt=%Y-%m-%d/hr=%H/min=%M", "a"), rows(&[("a", "x"), ("b", "x")]));
        lake.json(&["once", "--json"]);
        // What the alias names is that collection and no other.
        let alias = |generation: &str| collection.live() == format!("{}_{generation}", collection.name);

        lake.json(&["rebuild", "--json"]);
        proxy.fault(Kind::Change, SWITCH, fault, 1);
        let report = lake.json(&["promote", "--json"]);
        assert!(report["live"] == "g2" && alias("g2") && proxy.met().len() == 1, "{fault:?}: {report}");

        lake.json(&["rebuild", "--json"]);
        proxy.fault(Kind::Change, SWITCH, fault, u64::MAX);
        let promote = lake.spawn_to("promote.log", &["promote"]);
        eventually("a second try", LIMIT, || (proxy.met().len() >= 3).then_some(()));
        let left = if is_done { "g3" } else { "g2" };
        assert!(promote.is_alive() && alias(left), "{fault:?}: {}", promote.log());
        promote.kill();
        assert_eq!(live_by_the_log(&lake), "g2", "{fault:?}: it is not called done");
        proxy.heal();
        lake.json(&["once", "--json"]);
        assert!(alias("g3") && live_by_the_log(&lake) == "g3", "{fault:?}: {}", collection.live());
        assert_eq!(text(&lake.run(&["log"])).matches("g3 is live").count(), 1);
        lake.verify_equal();
    }
}

#[test]
fn a35_a_candidate_is_counted_as_readers_would_find_it_on_solr() {
    let collection = Collection::shared();
    let count = |generation: &str| {
        let found = collection.get(&format!("/{}_{generation}/select?q=*:*&rows=0", collection.name));
        found["response"]["numFound"].as_u64().unwrap_or_else(|| panic!("{found}"))
    };
    let live = || collection.live().rsplit('_').next().unwrap().to_owned();
    let short = Short {
        sql: "SELECT id, v FROM items",
        fields: "[document.fields]\nv = \"keyword\"\n",
        missing: json!(["d0500"]),
    };
    is_counted(&collection.lake(), &short, &live, &count);
}
