//! A collection that others made and fill, kept fresh in part: only ids that a delta named are touched.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{get, nodes, post, unused_name};
use crate::lake::{Dice, ITEMS, Lake, text};

const STEPS: u64 = 20;
const THEIRS: u64 = 2_000;

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
    fn create() -> Self {
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
        let documents: Vec<Value> = (0..THEIRS)
            .map(|n| json!({"id": format!("t{n:04}"), "price": n * 7, "shelf": format!("shelf <{n}> \"é\"")}))
            .collect();
        let path = format!("/{}/update?commit=true", theirs.name);
        let put = post(&theirs.node, &path, "application/json", Value::from(documents).to_string());
        assert_eq!(put["responseHeader"]["status"], 0, "{put}");
        theirs
    }

    /// Every document as Solr itself shows it, its version with it: one that was written again has another.
    fn shown(&self) -> BTreeMap<String, String> {
        let found = get(&self.node, &format!("/{}/select?q=*:*&fq=-_hw_del_:true&fl=*&rows=10000", self.name));
        let documents = found["response"]["docs"].as_array().unwrap_or_else(|| panic!("{found}"));
        documents.iter().map(|one| (one["id"].as_str().unwrap().to_owned(), one.to_string())).collect()
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
    let theirs = Theirs::create();
    let before = theirs.shown();
    assert_eq!(before.len() as u64, THEIRS);
    let lake = overlay(&theirs);
    let mut dice = Dice(41);
    // What the deltas say, the newest last: `None` is a deleted row.
    let mut named: BTreeMap<String, Option<String>> = BTreeMap::new();
    for step in 0..STEPS {
        let mut lines = String::new();
        for _ in 0..40 {
            let id = match dice.roll(2) {
                0 => format!("t{:04}", dice.roll(THEIRS)),
                _ => format!("n{:03}", dice.roll(300)),
            };
            let v = (dice.roll(4) > 0).then(|| format!("v{step}-{}", dice.roll(1_000)));
            lines += &format!("{}\n", json!({"id": id, "v": v, "gone": v.is_none()}));
            named.insert(id, v);
        }
        lake.land(&format!("dt=2024-05-01/hr=10/min={step:02}/a.ndjson"), lines);
        lake.once(&format!("2024-05-01T10:{step:02}:30Z"));
        let after = theirs.shown();
        for (id, document) in before.iter().filter(|(id, _)| !named.contains_key(*id)) {
            assert_eq!(after.get(id), Some(document), "step {step}: nobody named {id}");
        }
        let documents = lake.documents();
        for (id, v) in &named {
            let wanted = v.as_ref().map(|v| json!({"id": id, "v": v}));
            assert_eq!(documents.get(id), wanted.as_ref(), "step {step}");
        }
        let kept = before.keys().filter(|id| !named.contains_key(*id)).count();
        assert_eq!(documents.len(), kept + named.values().flatten().count());
        assert_eq!(after.keys().collect::<Vec<_>>(), documents.keys().collect::<Vec<_>>());
    }
    let deleted = before.keys().filter(|id| matches!(named.get(*id), Some(None))).count();
    let changed = before.keys().filter(|id| matches!(named.get(*id), Some(Some(_)))).count();
    assert!(deleted > 50 && changed > 150 && named.len() - deleted - changed > 200, "{deleted}, {changed}");
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
