//! Rebuilds that other pipelines called done before they were: A34 and A35. Those on Solr stand in `solr/gauntlet.rs`.

use std::fs;
use std::sync::LazyLock;

use highwater::index::Home as _;
use highwater::index::tantivy::TantivyHome;
use highwater_core::generation::GenerationName;
use serde_json::{Value, json};

use super::LIMIT;
use crate::bucket::Bucket;
use crate::lake::{ITEMS, Lake, eventually, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

const DOCUMENTS: u64 = 1_000;
/// A text, and no exact term for Solr.
static LONG: LazyLock<String> = LazyLock::new(|| "x".repeat(40_000));

/// With a folder of now, in a layout.
pub fn now(layout: &str, name: &str) -> String {
    jiff::Timestamp::now().strftime(&format!("{layout}/{name}.ndjson")).to_string()
}

/// What readers are pointed at.
fn current(lake: &Lake) -> String {
    fs::read_to_string(lake.path("index/current")).unwrap_or_default().trim().to_owned()
}

pub fn live_by_the_log(lake: &Lake) -> String {
    lake.json(&["generations", "--json"])["live"].as_str().unwrap().to_owned()
}

/// Killed with the switch written down and not done, and with the switch done and nobody told.
#[test]
fn a34_a_switch_cut_off_before_and_after_it_is_done() {
    for (record, fault, left) in [("switching", Fault::LostHang, "g1"), ("switched", Fault::Hang, "g2")] {
        let Some((_bucket, proxy, lake)) = with_candidate() else { return };
        proxy.stop_after(Kind::Create, &format!("\"{record}\""), 0, fault);
        let promote = lake.spawn_to("promote.log", &["promote"]);
        eventually("the record", LIMIT, || (!proxy.met().is_empty()).then_some(()));
        eventually("what is left", LIMIT, || (current(&lake) == left).then_some(()));
        promote.kill();
        proxy.heal();
        assert_eq!((live_by_the_log(&lake), current(&lake)), ("g1".into(), left.into()), "nothing is called done");
        lake.json(&["once", "--json"]);
        assert_eq!((live_by_the_log(&lake), current(&lake)), ("g2".into(), "g2".into()), "{record}");
        lake.verify_equal();
    }
}

/// The pointer can be neither written nor read for a while.
#[test]
fn a34_a_switch_that_fails_is_tried_again_and_told_when_it_is_done() {
    let Some((_bucket, proxy, lake)) = with_candidate() else { return };
    proxy.stop_after(Kind::Create, "\"switching\"", 0, Fault::LostHang);
    let mut promote = lake.spawn_to("promote.log", &["promote"]);
    eventually("the intent", LIMIT, || (!proxy.met().is_empty()).then_some(()));
    let pointer = lake.path("index/current");
    fs::remove_file(&pointer).unwrap();
    fs::create_dir_all(pointer.join("in the way")).unwrap();
    proxy.heal();
    eventually("the failure to be told", LIMIT, || promote.log().contains("trying again").then_some(()));
    assert!(promote.is_alive(), "{}", promote.log());
    assert!(!text(&lake.run(&["log"])).contains("g2 is live"));
    fs::remove_dir_all(&pointer).unwrap();
    fs::write(&pointer, "g1\n").unwrap();
    assert!(promote.wait(LIMIT).success(), "{}", promote.log());
    assert_eq!((live_by_the_log(&lake), current(&lake)), ("g2".into(), "g2".into()));
    lake.verify_equal();
}

/// A pipeline whose log can be held up, with a candidate that passed its gates.
fn with_candidate() -> Option<(Bucket, Proxy, Lake)> {
    let bucket = Bucket::of("HIGHWATER_TEST_S3_MOTO")?;
    let proxy = Proxy::start(&bucket.endpoint);
    let lake = bucket.lake_through(&proxy.endpoint(), "timeout = \"5s\"");
    let file = lake.path("highwater.toml");
    let toml = fs::read_to_string(&file).unwrap().replace("poll = \"100ms\"", "poll = \"50ms\"\nlease = \"1s\"");
    fs::write(&file, toml).unwrap();
    bucket.put(&now("lake/region=eu/dt=%Y-%m-%d/hr=%H/min=%M", "a"), rows(&[("a", "x"), ("b", "x")]));
    lake.json(&["once", "--json"]);
    lake.json(&["rebuild", "--json"]);
    Some((bucket, proxy, lake))
}

#[test]
fn a35_a_candidate_is_counted_as_readers_would_find_it() {
    let lake = Lake::new(ITEMS, "SELECT id, v FROM items");
    let home = TantivyHome::new(&lake.path("index"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let count = |generation: &str| {
        let name = GenerationName::parse(generation).unwrap();
        runtime.block_on(async { home.searcher(&name).await.unwrap().as_of().await.unwrap().unwrap().1 })
    };
    let short = Short {
        sql: "SELECT CASE WHEN id = 'd0500' THEN NULL ELSE id END AS id, v, 'x' AS w FROM items",
        fields: "",
        missing: json!([]),
    };
    is_counted(&lake, &short, &|| current(&lake), &count);
}

/// What has a candidate of one document less than the live index.
pub struct Short {
    pub sql: &'static str,
    pub fields: &'static str,
    /// What `verify` misses then: documents that the SQL yields and the index does not take.
    pub missing: Value,
}

/// The case on any sink: what readers see, and how many documents a generation has.
pub fn is_counted(lake: &Lake, short: &Short, live: &dyn Fn() -> String, count: &dyn Fn(&str) -> u64) {
    let toml = fs::read_to_string(lake.path("highwater.toml")).unwrap();
    let configure = |tolerance: &str, fields: &str, sql: &str| {
        let sections = format!("[gates]\ndocuments = \"{tolerance}\"\n\n{fields}\n[index]");
        fs::write(lake.path("highwater.toml"), toml.replace("[index]", &sections)).unwrap();
        fs::write(lake.path("document.sql"), sql).unwrap();
    };
    let of = |n: u64| rows(&[(&format!("d{n:04}"), if n == 500 { LONG.as_str() } else { "red shoes" })]);
    lake.land(&now("dt=%Y-%m-%d/hr=%H/min=%M", "all"), (0..DOCUMENTS).map(of).collect::<String>());
    assert_eq!(lake.json(&["once", "--json"])["documents"], DOCUMENTS);

    let stays = |told: &str, candidate: &str, documents: u64| {
        let output = lake.run(&["rebuild", "--promote"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(told), "{}", text(&output));
        let report = lake.json(&["generations", "--json"]);
        assert_eq!((live(), &report["live"]), ("g1".into(), &"g1".into()));
        assert_eq!(report["generations"][1]["name"], candidate, "{report}");
        assert_eq!((count("g1"), count(candidate)), (DOCUMENTS, documents), "it is kept, to be looked at");
    };
    configure("0%", short.fields, short.sql);
    stays("999 documents, 1000 in the live one; up to 0 % apart", "g2", DOCUMENTS - 1);
    // Whatever is let through, an empty one is not.
    configure("100%", "", "SELECT id, v, 'x' AS w FROM items WHERE v = 'none'");
    stays("0 documents, 1000 in the live one", "g3", 0);

    configure("1%", short.fields, short.sql);
    let report = lake.json(&["rebuild", "--promote", "--json"]);
    assert_eq!((report["live"].as_str(), live()), (Some("g4"), "g4".into()), "{report}");
    assert_eq!((count("g4"), &report["documents"]), (DOCUMENTS - 1, &(DOCUMENTS - 1).into()));
    let proof: Value = serde_json::from_slice(&lake.run(&["verify", "--json"]).stdout).unwrap();
    assert_eq!(["missing", "extra", "different"].map(|of| &proof[of]), [&short.missing, &json!([]), &json!([])]);
}
