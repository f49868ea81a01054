//! Names of keys and values in them: A19, A22.

use std::collections::BTreeSet;

use super::server::S3;
use super::{ALL, Case, Checks, TOML, at, changes};
use crate::lake::rows;

const ODD: [&str; 8] = ["a b", "a+b", "a%20b", "100%", "x,y", "\u{e9}", "e\u{301}", "v.1/deep"];

#[test]
fn a19_keys_of_any_bytes() {
    let s3 = S3::start();
    for case in [Case::bucket(&TOML, &s3), Case::items()] {
        for (n, name) in ODD.iter().enumerate() {
            case.land(0, &format!("{name}.ndjson"), rows(&[(&n.to_string(), name)]));
        }
        assert_eq!(changes(&case.tick("10:03")), (8, 0));
        for (n, name) in ODD.iter().enumerate() {
            assert_eq!(case.values()[&n.to_string()], *name);
        }
        assert_eq!(case.pinned(), ODD.iter().map(|name| at(0, &format!("{name}.ndjson"))).collect::<BTreeSet<_>>());
        let quiet = case.tick("10:03");
        assert_eq!(
            (changes(&quiet), &quiet["files_read"]),
            ((0, 0), &0.into()),
            "the log gives every key back: {quiet}"
        );
        case.check("10:03", Checks { rows: Some(8), ..ALL });
    }
    let keys: BTreeSet<String> = s3.keys("in/").into_iter().collect();
    let asked = s3.asked().into_iter().filter(|asked| !asked.is_list()).map(|asked| asked.key).collect();
    assert_eq!(keys, asked, "exactly the bytes of the listing");
}

#[test]
fn a22_percent_encoded_values() {
    let toml = TOML.replace("layout = \"dt", "layout = \"city={city}/ts={ts}/dt");
    let s3 = S3::start();
    let case = Case::bucket(&toml, &s3);
    std::fs::write(
        case.lake.path("document.sql"),
        "SELECT id, city AS v, CAST(CAST(ts AS TIMESTAMP) AS TEXT) AS ts FROM items",
    )
    .unwrap();
    let key = format!("city=San%20Francisco/ts=2024-05-01 10%3A00%3A00/{}", at(0, "f.ndjson"));
    case.land_at(&key, rows(&[("1", "a")]));
    assert_eq!(changes(&case.tick("10:03")), (1, 0));
    let documents = case.lake.documents();
    assert_eq!(documents["1"]["v"], "San Francisco");
    assert_eq!(documents["1"]["ts"], "2024-05-01T10:00:00");
    for asked in s3.asked() {
        assert!(!asked.key.contains("%25") && !asked.query("prefix").contains("%25"), "encoded twice: {asked:?}");
        assert!(asked.is_list() || asked.key == format!("in/{key}"), "{asked:?}");
    }
    case.check("10:03", Checks { rows: Some(1), ..ALL });
}
