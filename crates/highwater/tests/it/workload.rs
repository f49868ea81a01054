//! Documents against a peer: DuckDB runs the same SQL over the same Parquet files, and every value must be equal.

use std::process::Command;

use serde_json::Value;

use crate::lake::Lake;

const PIPELINE: &str = r#"
[pipeline]
name = "ads"
state = "./state"
step = "5m"
window = "1h"
settle = "0s"

[document]
sql = "document.sql"
id = "id"

[document.fields]
title = "text"
body = "text"

[index]
kind = "tantivy"
path = "./index"
"#;

const APPEND: [(&str, &str); 3] =
    [("ads", "kind = \"append\""), ("campaigns", "kind = \"append\""), ("copurchase", "kind = \"append\"")];

const UPSERT: [(&str, &str); 3] = [
    ("ads", "kind = \"upsert\"\nkey = \"ad_id\"\nversion = \"updated_at\"\ndeleted = \"deleted\"\nretain = \"window\""),
    ("campaigns", "kind = \"upsert\"\nkey = \"campaign_id\"\nversion = \"updated_at\"\nretain = \"window\""),
    ("copurchase", "kind = \"append\""),
];

fn bench(name: &str) -> String {
    format!("{}/../../bench/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn lake(kinds: &[(&str, &str)], sql: &str, python: &str) -> Lake {
    let mut toml = PIPELINE.to_owned();
    for (table, kind) in kinds {
        toml += &format!(
            "\n[source.{table}]\nlocation = \"./lake/{table}\"\nlayout = \"dt=%Y-%m-%d/hr=%H/mi=%M\"\nformat = \"parquet\"\n{kind}\n"
        );
    }
    let lake = Lake::new(&toml, &std::fs::read_to_string(bench(sql)).unwrap());
    let made = Command::new(python)
        .args([&bench("gen.py"), lake.path("lake").to_str().unwrap(), "--partitions", "12", "--ads", "300"])
        .args(["--events", "1500", "--campaigns", "40", "--universe", "4000", "--ncampaigns", "200"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", crate::lake::text(&made));
    lake
}

/// DuckDB's documents, ascending by id, as JSON.
fn duckdb(python: &str, lake: &Lake) -> Vec<Value> {
    let out = lake.path("duckdb.ndjson");
    let run = Command::new(python)
        .args([&bench("cold.py"), "--duckdb"])
        .args([lake.path("lake"), bench("doc.sql").into(), out.clone()])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", crate::lake::text(&run));
    std::fs::read_to_string(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check(kinds: &[(&str, &str)], sql: &str) {
    let Ok(python) = std::env::var("HIGHWATER_TEST_DUCKDB") else {
        crate::lake::left_out("the comparison with DuckDB, which ./test installs");
        return;
    };
    let lake = lake(kinds, sql, &python);
    let batch = lake.once("2026-05-04T12:00:00Z");
    let theirs = duckdb(&python, &lake);
    assert!(theirs.len() > 2000, "{}", theirs.len());
    assert_eq!(batch["documents"], theirs.len());
    for (ours, theirs) in lake.documents().into_values().zip(theirs) {
        assert_eq!(ours, theirs);
    }
    lake.verify_equal();
}

#[test]
fn plain_sql_over_append_sources_equals_duckdb() {
    check(&APPEND, "doc.sql");
}

#[test]
fn upsert_sources_equal_duckdb_over_the_plain_sql() {
    check(&UPSERT, "doc_upsert.sql");
}
