//! A rebuild killed before and after each request by which it changes something in Solr.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::{Collection, LIMIT, get};
use crate::lake::{Background, ITEMS, Lake, eventually, rows};
use crate::proxy::{Fault, Kind, Proxy};

const DOCUMENTS: u64 = 20;
/// Files that land while a rebuild goes on, so that it has something to catch up with.
const DELTAS: u64 = 3;
/// More than one rebuild can send.
const MOST: u64 = 80;
/// What a rebuild changes in Solr, and what the target of such a request holds.
const KINDS: [(&str, &str); 6] = [
    ("configset", "action=UPLOAD"),
    ("collection", "action=CREATE&"),
    ("schema", "NEXT/schema"),
    ("documents", "NEXT/update?wt=json&update.chain"),
    ("commit", "NEXT/update?wt=json&commit"),
    ("switch", "action=CREATEALIAS"),
];

fn now_path(name: &str) -> String {
    jiff::Timestamp::now().strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string()
}

/// `rebuild --promote` dies before its n-th changing request reaches Solr, and after it was carried out and before the answer
/// came, for each n, deltas coming in; whoever comes next promotes what was begun. The alias answers with all that it
/// ever answered with, all the time. Requests that only read are not counted: nothing becomes of them.
#[test]
fn killed_before_and_after_every_request_of_a_rebuild_it_ends_alike() {
    let sides =
        [Fault::Hang, Fault::LostHang].map(|fault| std::thread::spawn(move || Pipeline::new().killed_at_each(fault)));
    for side in sides {
        side.join().unwrap();
    }
}

/// One pipeline, rebuilt again and again.
struct Pipeline {
    proxy: Proxy,
    collection: Collection,
    lake: Lake,
    landed: u64,
    /// The number of the one that is live.
    generation: u64,
}

impl Pipeline {
    fn new() -> Self {
        let collection = Collection::shared();
        let proxy = Proxy::start(collection.nodes[0].trim_end_matches("/solr"));
        let index = collection.index_through(&[format!("{}/solr", proxy.endpoint())]);
        let sections = format!("[generations]\nkeep_hot = \"1s\"\n\n[index]\n{index}");
        let toml = ITEMS.replace("[index]\nkind = \"tantivy\"\npath = \"./index\"", &sections);
        let lake = Lake::new(&toml.replace("window = \"1h\"", "window = \"24h\""), "SELECT id, v FROM items");
        let first = (0..DOCUMENTS).map(|n| rows(&[(&format!("d{n:02}"), "kettle")])).collect::<String>();
        lake.land(&now_path("first"), first);
        assert_eq!(lake.json(&["once", "--json"])["documents"], DOCUMENTS);
        Self { proxy, collection, lake, landed: 0, generation: 1 }
    }

    fn killed_at_each(mut self, fault: Fault) {
        let (asked, mut reader) = self.reader();
        let mut met = BTreeSet::new();
        for nth in 0..=MOST {
            assert!(nth < MOST, "{fault:?}: it never came through");
            let Some(kind) = self.dies_and_ends_alike(fault, "", nth, &asked) else { break };
            met.insert(kind);
        }
        // Batches of the live index come in between: a request may have been another's number each time.
        for (kind, text) in KINDS {
            if !met.contains(kind) {
                assert_eq!(self.dies_and_ends_alike(fault, text, 0, &asked), Some(kind), "{fault:?}");
            }
        }
        reader.halt();
    }

    /// What it died at; `None` if it ended before.
    fn dies_and_ends_alike(&mut self, fault: Fault, text: &str, nth: u64, asked: &AtomicU64) -> Option<&'static str> {
        let (before, next) = (asked.load(Ordering::Relaxed), format!("g{}", self.generation + 1));
        let text = text.replace("NEXT", &format!("{}_{next}", self.collection.name));
        let met = self.dies_at(&text, nth, fault);
        self.ends_alike(&next);
        self.generation += 1;
        assert!(asked.load(Ordering::Relaxed) > before, "nobody asked");
        let kind_of = |request: String| {
            let is_of =
                |text: &str| request.contains(&text.replace("NEXT", &format!("{}_{next}", self.collection.name)));
            KINDS.iter().find(|(_, text)| is_of(text)).map_or("live", |(kind, _)| kind)
        };
        met.map(kind_of)
    }

    /// Somebody who asks by the alias, all the time. An answer that fails is asked for once more.
    fn reader(&self) -> (Arc<AtomicU64>, Background) {
        let (node, name) = (self.collection.nodes[0].clone(), self.collection.name.clone());
        let (asked, mut least) = (Arc::new(AtomicU64::new(0)), DOCUMENTS);
        let counted = asked.clone();
        let reader = Background::start(move || {
            let path = format!("/{name}/select?q=*:*&rows=0");
            let mut found = get(&node, &path);
            if found["response"]["numFound"].is_null() {
                std::thread::sleep(Duration::from_millis(300));
                found = get(&node, &path);
            }
            let total = found["response"]["numFound"].as_u64().unwrap_or_else(|| panic!("twice no answer: {found}"));
            assert!(total >= least, "{total} documents after {least}");
            least = total;
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(30));
        });
        (asked, reader)
    }

    fn land(&mut self) {
        self.lake.land(&now_path(&format!("n{}", self.landed)), rows(&[(&format!("n{:04}", self.landed), "x")]));
        self.landed += 1;
    }

    /// The request that it died at; `None` if it ended before.
    fn dies_at(&mut self, text: &str, nth: u64, fault: Fault) -> Option<String> {
        let met = self.proxy.met().len();
        self.proxy.stop_after(Kind::Change, text, nth, fault);
        let mut rebuild = self.lake.spawn(&["rebuild", "--promote"]);
        let until = self.landed + DELTAS;
        let came = eventually("the request, or the end", LIMIT, || {
            if self.proxy.met().len() > met {
                return Some(true);
            }
            if self.landed < until {
                self.land();
            }
            (!rebuild.is_alive()).then_some(false)
        });
        if came {
            // The fault is counted as the request comes in; a request that was carried out has been answered by Solr
            // before the proxy holds the answer back.
            if fault == Fault::LostHang {
                self.proxy.holds_an_answer(LIMIT);
            }
            rebuild.kill();
        } else {
            assert!(rebuild.wait(LIMIT).success(), "{}", rebuild.log());
        }
        self.proxy.heal();
        self.proxy.met().get(met).cloned()
    }

    /// Whoever comes next ends what was begun.
    fn ends_alike(&mut self, generation: &str) {
        let run = self.lake.spawn(&["run", "--json"]);
        let target = format!("{}_{generation}", self.collection.name);
        eventually(&format!("{generation} to be live:\n{}", run.log()), LIMIT, || {
            assert!(run.is_alive(), "{}", run.log());
            (self.collection.live() == target).then_some(())
        });
        self.land();
        let wanted = DOCUMENTS + self.landed;
        eventually("the last file", LIMIT, || {
            let log = run.log();
            let mut reports = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            reports.any(|report| report["documents"] == wanted).then_some(())
        });
        assert_eq!(self.lake.json(&["generations", "--json"])["live"], generation);
        assert_eq!(self.collection.live(), target);
        self.lake.verify_equal();
        let shown = get(&self.collection.nodes[0], &format!("/{}/select?q=*:*&rows=0", self.collection.name));
        assert_eq!(shown["response"]["numFound"], wanted, "{shown}");
        run.kill();
    }
}
