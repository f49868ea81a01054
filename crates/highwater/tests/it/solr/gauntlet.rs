//! A34 and A35 of the gauntlet on a real Solr.

use serde_json::json;

use super::{Collection, LIMIT};
use crate::gauntlet::generations::{Short, is_counted, live_by_the_log, now};
use crate::lake::{ITEMS, Lake, eventually, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

const SWITCH: &str = "action=CREATEALIAS";

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
