//! A collection that others made and fill, kept fresh in part: only ids that a delta named are touched.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{get, nodes, post, unused_name};
use crate::lake::{Dice, ITEMS, Lake, text};

/// How much of it.
struct Size {
    /// Documents of theirs.
    theirs: u64,
    /// Steps of deltas, and rows in each.
    steps: u64,
    rows: u64,
    /// Everything is compared every so many steps, and at the end.
    compared_every: u64,
}

/// Documents in a request of theirs.
const SOME: u64 = 10_000;

/// Their fields, before those that docs/solr.md asks for.
const SCHEMA: &str = r#"<schema name="theirs" version="1.6"><uniqueKey>id</uniqueKey>
    <field name="id" type="string" indexed="true" stored="true" docValues="true" required="true"/>
    <field name="_version_" type="plong" docValues="true"/>
    <field name="shelf" type="string" indexed="true" stored="true"/>
    <field name="price" type="pint" indexed="true" stored="true"/>
    <fieldType name="string" class="solr.StrField"/><fieldType name="plong" class="solr.LongPointField"/>
    <fieldType name="pint" class="solr.IntPointField"/><fieldType name="boolean" class="solr.BoolField"/>"#;

const CONFIG: &str = r#"<config><luceneMatchVersion>9.12</luceneMatchVersion>
    <updateHandler class="solr.DirectUpdateHandler2"><updateLog/></updateHandler>
    <schemaFactory class="ManagedIndexSchemaFactory"><bool name="mutable">true</bool>
    <str name="managedSchemaResourceName">managed-schema.xml</str></schemaFactory>
    <requestHandler name="/select" class="solr.SearchHandler"/>"#;

/// Their collection; it goes with the test.
struct Theirs {
    node: String,
    name: String,
}

impl Theirs {
    /// As docs/solr.md says: its fields in their schema, its chain in their configuration.
    fn create(documents: u64) -> Self {
        let theirs = Self { node: nodes().remove(0), name: unused_name() };
        let page = include_str!("../../../../../docs/solr.md");
        let of_page = |from: &str, to: &str| {
            let start = page.find(from).unwrap();
            &page[start..start + page[start..].find(to).unwrap() + to.len()]
        };
        let fields = of_page(
            "<field name=\"_hw_seq_\"",
            "<field name=\"_source_\" type=\"string\" indexed=\"false\" stored=\"true\" docValues=\"false\"/>",
        );
        let chain = of_page("<updateRequestProcessorChain", "</updateRequestProcessorChain>");
        for (file, content) in [
            ("managed-schema.xml", format!("{SCHEMA}{fields}</schema>")),
            ("solrconfig.xml", format!("{CONFIG}{chain}</config>")),
        ] {
            let path = format!("/admin/configs?action=UPLOAD&name={}&filePath={file}&overwrite=true", theirs.name);
            let put = post(&theirs.node, &path, "application/octet-stream", content);
            assert_eq!(put["responseHeader"]["status"], 0, "{put}");
        }
        let path = format!(
            "/admin/collections?action=CREATE&name={0}&numShards=2&replicationFactor=1&collection.configName={0}",
            theirs.name
        );
        let created = get(&theirs.node, &path);
        assert_eq!(created["responseHeader"]["status"], 0, "{created}");
        for first in (0..documents).step_by(SOME as usize) {
            let some = first..documents.min(first + SOME);
            let some = some.map(|n| json!({"id": id_of(n), "price": n * 7, "shelf": format!("shelf <{n}> \"é\"")}));
            let path = format!("/{}/update?commit=true", theirs.name);
            let put = post(&theirs.node, &path, "application/json", some.collect::<Value>().to_string());
            assert_eq!(put["responseHeader"]["status"], 0, "{put}");
        }
        theirs
    }

    /// Every document as Solr itself shows it, its version with it: one that was written again has another.
    fn shown(&self) -> BTreeMap<String, String> {
        let (mut shown, mut cursor) = (BTreeMap::new(), "*".to_owned());
        loop {
            let query = format!("q=*:*&fq=-_hw_del_:true&fl=*&rows={SOME}&sort=id%20asc&cursorMark={cursor}");
            let found = get(&self.node, &format!("/{}/select?{query}", self.name));
            let documents = found["response"]["docs"].as_array().unwrap_or_else(|| panic!("{found}"));
            shown.extend(documents.iter().map(|one| (one["id"].as_str().unwrap().to_owned(), one.to_string())));
            let next = found["nextCursorMark"].as_str().unwrap();
            let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
            if next == cursor {
                return shown;
            }
            cursor = next;
        }
    }

    fn collections(&self) -> Vec<String> {
        let list = get(&self.node, "/admin/collections?action=LIST");
        let names = list["collections"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| name.starts_with(&self.name)).map(str::to_owned).collect()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            get(&self.node, &format!("/admin/collections?action=DELETE&name={}", self.name));
            get(&self.node, &format!("/admin/configs?action=DELETE&name={}", self.name));
        }
    }
}

fn overlay(theirs: &Theirs) -> Lake {
    let index =
        format!("kind = \"solr\"\nurl = {:?}\ncollection = \"{}\"\nabsent = \"keep\"", theirs.node, theirs.name);
    let toml = ITEMS.replace("kind = \"tantivy\"\npath = \"./index\"", &index).replace(
        "kind = \"append\"\ncolumns = { id = \"string\", v = \"string\" }",
        "kind = \"upsert\"\nkey = \"id\"\ndeleted = \"gone\"\nretain = \"window\"\n\
         columns = { id = \"string\", v = \"string\", gone = \"bool\" }",
    );
    Lake::new(&toml, "SELECT id, v FROM items")
}

#[test]
fn an_overlay_touches_named_ids_only_and_is_not_rebuilt() {
    overlaid(&Size { theirs: 2_000, steps: 20, rows: 40, compared_every: 1 });
}

/// `cargo test --test it a_large_overlay -- --ignored --nocapture`
#[test]
#[ignore = "takes many minutes; bench/README.md names it"]
fn a_large_overlay_touches_named_ids_only() {
    overlaid(&Size { theirs: 100_000, steps: 60, rows: 1_000, compared_every: 6 });
}

fn id_of(n: u64) -> String {
    format!("t{n:06}")
}

fn overlaid(size: &Size) {
    let theirs = Theirs::create(size.theirs);
    let before = theirs.shown();
    assert_eq!(before.len() as u64, size.theirs);
    let lake = overlay(&theirs);
    let mut dice = Dice(41);
    // What the deltas say, the newest last: `None` is a deleted row.
    let mut named: BTreeMap<String, Option<String>> = BTreeMap::new();
    for step in 0..size.steps {
        let mut lines = String::new();
        for _ in 0..size.rows {
            let id = match dice.roll(2) {
                0 => id_of(dice.roll(size.theirs)),
                _ => format!("n{:05}", dice.roll(size.theirs / 7)),
            };
            let v = (dice.roll(4) > 0).then(|| format!("v{step}-{}", dice.roll(1_000)));
            lines += &format!("{}\n", json!({"id": id, "v": v, "gone": v.is_none()}));
            named.insert(id, v);
        }
        lake.land(&format!("dt=2024-05-01/hr=10/min={step:02}/a.ndjson"), lines);
        let report = lake.once(&format!("2024-05-01T10:{step:02}:30Z"));
        if step % size.compared_every == size.compared_every - 1 || step + 1 == size.steps {
            let kept = are_equal(&before, &named, &theirs, &lake);
            println!(
                "step {step}: {} ids named, {kept} of {} untouched, {}",
                named.len(),
                before.len(),
                report["documents"]
            );
        }
    }
    let deleted = before.keys().filter(|id| matches!(named.get(*id), Some(None))).count() as u64;
    let changed = before.keys().filter(|id| matches!(named.get(*id), Some(Some(_)))).count() as u64;
    let new = named.len() as u64 - deleted - changed;
    assert!(
        deleted > size.theirs / 40 && changed > size.theirs / 14 && new > size.theirs / 20,
        "{deleted}, {changed}, {new}"
    );
    lake.verify_equal();

    let told = [lake.run(&["log", "--json"]), lake.run(&["generations", "--json"])].map(|told| text(&told));
    let (shown, collections) = (theirs.shown(), theirs.collections());
    let output = lake.run(&["rebuild", "--promote"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let why = format!("`{}` is a collection, or an alias of one, that highwater did not make", theirs.name);
    assert!(text(&output).contains(&why), "{}", text(&output));
    let again = [lake.run(&["log", "--json"]), lake.run(&["generations", "--json"])].map(|told| text(&told));
    assert_eq!((again, theirs.shown(), theirs.collections()), (told, shown, collections));
    lake.verify_equal();
}

/// Ids that nobody named are as they were, to the byte; all others are what the rows say. How many are as they were.
fn are_equal(
    before: &BTreeMap<String, String>,
    named: &BTreeMap<String, Option<String>>,
    theirs: &Theirs,
    lake: &Lake,
) -> usize {
    let (after, documents) = (theirs.shown(), lake.documents());
    let kept: Vec<&String> = before.keys().filter(|id| !named.contains_key(*id)).collect();
    for id in &kept {
        assert_eq!(after.get(*id), before.get(*id), "nobody named {id}");
    }
    for (id, v) in named {
        let wanted = v.as_ref().map(|v| json!({"id": id, "v": v}));
        assert_eq!(documents.get(id), wanted.as_ref());
    }
    assert_eq!(documents.len(), kept.len() + named.values().flatten().count());
    assert!(after.keys().eq(documents.keys()), "what Solr shows is not what highwater shows");
    kept.len()
}
