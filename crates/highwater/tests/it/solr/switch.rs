//! A promotion whose process dies on either side of the alias' switch: whoever comes next ends it, and readers see whole
//! answers all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Collection, LIMIT, get};
use crate::lake::{Background, ITEMS, Lake, eventually, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

const DOCUMENTS: u64 = 500;

fn now_path(name: &str) -> String {
    jiff::Timestamp::now().strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string()
}

#[test]
fn killed_on_either_side_of_the_switch_the_next_run_ends_it() {
    // The request never reaches Solr; it was carried out, and nobody heard of it.
    for (fault, left) in [(Fault::Hang, "g1"), (Fault::LostHang, "g2")] {
        dies_at(fault, left);
    }
}

fn dies_at(fault: Fault, left: &str) {
    let collection = Collection::shared();
    let proxy = Proxy::start(collection.nodes[0].trim_end_matches("/solr"));
    let index = collection.index_through(&[format!("{}/solr", proxy.endpoint())]);
    let toml = ITEMS.replace(
        "[index]\nkind = \"tantivy\"\npath = \"./index\"",
        &format!("[generations]\nkeep_hot = \"1h\"\n\n[index]\n{index}"),
    );
    let lake = Lake::new(&toml, "SELECT id, v FROM items");
    lake.land(&now_path("first"), (0..DOCUMENTS).map(|n| rows(&[(&format!("d{n:03}"), "kettle")])).collect::<String>());
    assert_eq!(lake.json(&["once", "--json"])["documents"], DOCUMENTS);

    let (node, name, answers) = (collection.nodes[0].clone(), collection.name.clone(), Arc::new(AtomicU64::new(0)));
    let asked = answers.clone();
    let mut least = DOCUMENTS;
    let mut reader = Background::start(move || {
        let found = get(&node, &format!("/{name}/select?q=*:*&rows=0"));
        let total = found["response"]["numFound"].as_u64();
        assert!(total.is_some_and(|total| total >= least), "after {least} documents: {found}");
        least = total.unwrap();
        asked.fetch_add(1, Ordering::Relaxed);
    });
    proxy.stop_after(Kind::Change, "action=CREATEALIAS", 0, fault);
    let mut rebuild = lake.spawn(&["rebuild", "--promote"]);
    eventually("the switch", LIMIT, || {
        assert!(rebuild.is_alive(), "{}", rebuild.log());
        proxy.faults().contains_key(&fault.name()).then_some(())
    });
    // The fault is counted when the request came in; it is carried out a moment later.
    eventually("what is left", LIMIT, || (collection.live() == format!("{}_{left}", collection.name)).then_some(()));
    rebuild.signal("KILL");
    rebuild.wait(LIMIT);
    assert_eq!(collection.live(), format!("{}_{left}", collection.name));
    proxy.heal();
    assert_eq!(lake.json(&["generations", "--json"])["live"], "g1", "no record says otherwise yet");
    lake.land(&now_path("second"), rows(&[("new", "socks")]));
    let run = lake.spawn(&["run", "--json"]);
    eventually("the switch to be ended", LIMIT, || {
        let live = &lake.json(&["generations", "--json"])["live"];
        (live == "g2" && collection.live() == format!("{}_g2", collection.name)).then_some(())
    });
    eventually("the new document", LIMIT, || {
        // A commit in between ends a dump.
        let dump = lake.run(&["dump"]);
        (dump.status.success() && text(&dump).lines().count() as u64 == DOCUMENTS + 1).then_some(())
    });
    // What readers see may not be in the log yet: `verify` waits for it, and a kill would not.
    lake.verify_equal();
    run.kill();
    let before = answers.load(Ordering::Relaxed);
    eventually("an answer at the end", LIMIT, || (answers.load(Ordering::Relaxed) > before).then_some(()));
    reader.halt();
    assert!(before > 10, "{before} answers");
}
