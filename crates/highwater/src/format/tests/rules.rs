//! `docs/data-rules.md` and the tests that it names.

/// Where rules are tested.
const SOURCES: &[&str] = &[
    include_str!("columnar.rs"),
    include_str!("damage.rs"),
    include_str!("fuzz.rs"),
    include_str!("gauntlet.rs"),
    include_str!("schema.rs"),
    include_str!("text.rs"),
    include_str!("values.rs"),
    include_str!("../avro_blocks.rs"),
    include_str!("../csv.rs"),
    include_str!("../number.rs"),
    include_str!("../../transform/tests.rs"),
    include_str!("../../transform/canonical/property.rs"),
    include_str!("../../transform/canonical/tests.rs"),
    include_str!("../../../tests/it/data.rs"),
    include_str!("../../../tests/it/gauntlet_data.rs"),
];

/// The names in the last cell of a row of the page's tables.
fn named(row: &str) -> Vec<&str> {
    let Some(cells) = row.strip_prefix('|').and_then(|row| row.trim_end().strip_suffix('|')) else { return Vec::new() };
    let last = cells.rsplit('|').next().unwrap_or_default();
    last.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_rule_names_tests_that_exist() {
    let page = include_str!("../../../../../docs/data-rules.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|') && !line.starts_with("| ---")).collect();
    let heads = rows.iter().filter(|row| row.ends_with("| test |")).count();
    let mut without = Vec::new();
    let mut unknown = Vec::new();
    for row in rows.iter().filter(|row| !row.ends_with("| test |")) {
        let names = named(row);
        if names.is_empty() {
            without.push(*row);
        }
        let is_test = |name: &&str| SOURCES.iter().any(|source| source.contains(&format!("fn {name}(")));
        unknown.extend(names.into_iter().filter(|name| !is_test(name)));
    }
    assert!(rows.len() > heads + 40, "{} rows", rows.len());
    assert_eq!((without, unknown), (Vec::<&str>::new(), Vec::<&str>::new()));
}
