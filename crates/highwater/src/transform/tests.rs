//! Tables in, documents out.

mod bench;
mod support;

use futures::StreamExt;
use proptest::prelude::*;
use support::*;

use crate::table::{PartCache, PartRows};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_become_documents_in_the_order_of_their_ids() {
    let table = append("t", vec![part("a", 0, &[("b", 2), ("a", 1)]), part("b", 0, &[("B", 3)])]);
    let got = run("SELECT k AS id, v FROM t", vec![table]).await;
    assert_eq!(json(&got), [r#"{"id":"B","v":3}"#, r#"{"id":"a","v":1}"#, r#"{"id":"b","v":2}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_covers_the_specs_version() {
    let table = || vec![append("t", vec![part("a", 0, &[("a", 1)])])];
    let one = run("SELECT k AS id, v FROM t", table()).await;
    assert_eq!(one[0].hash, super::hash_document(1, br#"{"id":"a","v":1}"#));
    assert_ne!(one[0].hash, super::hash_document(2, br#"{"id":"a","v":1}"#));
    let hex: String = one[0].hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "3ce1e4d66953e4f96edd0694aade4e19");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_utc() {
    let sql =
        "SELECT k AS id, cast('2024-05-01 10:00:00' AS timestamp) AS a, date_trunc('day', to_timestamp_micros(v)) AS b,
               to_timestamp('2024-05-01T10:00:00') AS c, cast(to_timestamp_micros(v) AS date) AS d,
               date_part('hour', to_timestamp_micros(v)) AS e, to_char(to_timestamp_micros(v), '%H:%M') AS f FROM t";
    let got = run(sql, vec![append("t", vec![part("a", 0, &[("x", 1_714_557_600_000_000)])])]).await;
    let expected = concat!(
        r#"{"a":"2024-05-01T10:00:00Z","b":"2024-05-01T00:00:00Z","c":"2024-05-01T10:00:00Z","#,
        r#""d":"2024-05-01","e":10,"f":"10:00","id":"x"}"#
    );
    assert_eq!(json(&got), [expected]);
}

#[test]
fn the_machines_zone_changes_nothing() {
    for zone in ["Asia/Seoul", "America/St_Johns"] {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let told = again.args(["--exact", "transform::tests::times_are_utc"]).env("TZ", zone).output().unwrap();
        let text = String::from_utf8_lossy(&told.stdout);
        assert!(told.status.success() && text.contains("1 passed"), "{zone}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_equal_ids_the_greatest_bytes_win_and_bad_ids_are_named() {
    let rows = [("a", 1), ("a", 3), ("a", 2), ("", 1), ("b", 9)];
    let table = append("t", vec![part("a", 0, &rows)]);
    let compiled = compiled("SELECT nullif(k, 'b') AS id, v FROM t", std::slice::from_ref(&table));
    let blocks = blocks(&compiled, vec![table], 2, BIG).await.unwrap();
    let documents: Vec<_> = blocks.iter().flat_map(|block| block.documents.clone()).collect();
    assert_eq!(json(&documents), [r#"{"id":"a","v":3}"#]);
    assert_eq!(blocks.iter().map(|block| block.duplicate_ids).sum::<u64>(), 2);
    let reasons: Vec<_> = blocks.iter().flat_map(|block| &block.rejected).map(|row| row.reason.as_str()).collect();
    assert_eq!(reasons, [r#"the id is null in {"id":null,"v":9}"#, r#"the id is empty in {"id":"","v":1}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_may_have_32766_bytes_and_no_more() {
    let table = append("t", vec![part("a", 0, &[("x", 32_766), ("y", 32_767)])]);
    let compiled = compiled("SELECT repeat(k, v) AS id FROM t", std::slice::from_ref(&table));
    let blocks = blocks(&compiled, vec![table], 1, BIG).await.unwrap();
    assert_eq!(blocks.iter().map(|block| block.documents.len()).sum::<usize>(), 1);
    let rejected: Vec<_> = blocks.iter().flat_map(|block| &block.rejected).collect();
    assert!(rejected[0].reason.starts_with("the id yyyy") && rejected[0].reason.contains("has 32767 bytes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_other_types_are_their_json_without_quotes_in_the_order_of_text() {
    let table = || vec![append("t", vec![part("a", 0, &[("x", 9), ("y", 10)])])];
    let ids = |documents: Vec<Document>| documents.into_iter().map(|d| d.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(run("SELECT v AS id FROM t", table()).await), ["10", "9"]);
    assert_eq!(ids(run("SELECT v > 9 AS id FROM t", table()).await), ["false", "true"]);
    assert_eq!(ids(run("SELECT v / 2.0 AS id FROM t", table()).await), ["4.5", "5.0"]);
    let times = run("SELECT to_timestamp_micros(v) AS id FROM t", table()).await;
    assert_eq!(ids(times), ["1970-01-01T00:00:00.000009Z", "1970-01-01T00:00:00.00001Z"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_and_file_are_there_when_named_and_never_in_a_star() {
    let table = || vec![append("t", vec![part("x/a", 60, &[("a", 1)])])];
    let got = run("SELECT *, k AS id FROM t WHERE _partition IS NOT NULL AND _file <> ''", table()).await;
    assert_eq!(json(&got), [r#"{"id":"a","k":"a","v":1}"#]);
    let got = run("SELECT k AS id, _partition AS p, _file AS f FROM t", table()).await;
    assert_eq!(json(&got), [r#"{"f":"x/a","id":"a","p":"1970-01-01T00:01:00Z"}"#]);
    let got = run("SELECT *, _file, k AS id FROM t", table()).await;
    assert_eq!(json(&got), [r#"{"_file":"x/a","id":"a","k":"a","v":1}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watermark_is_the_batchs_own() {
    let table = append("t", vec![part("a", 0, &[("a", 1)])]);
    let sql =
        "SELECT k AS id, $watermark AS w, $watermark - interval '1 hour' AS h FROM t WHERE $watermark > _partition";
    let compiled = compiled(sql, std::slice::from_ref(&table));
    assert!(compiled.reads_watermark);
    for (second, hour) in [(7200, "01:00:00"), (10_800, "02:00:00")] {
        let at = highwater_core::Timestamp::from_second(second).unwrap();
        let stream = compiled.documents(vec![table.clone()], at, &resources(1, BIG));
        let got = collect(stream).await.unwrap();
        assert!(json(&got)[0].contains(&format!("\"h\":\"1970-01-01T{hour}Z\"")), "{:?}", json(&got));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upsert_table_shows_the_newest_row_of_each_key() {
    let rows = |path, start, rows: &[(&str, Option<i64>, bool, i64)]| versioned_part(path, start, rows);
    let parts = vec![
        rows(
            "p0/a",
            0,
            &[("null-least", None, false, 1), ("by-version", Some(5), false, 2), ("gone", Some(1), false, 3)],
        ),
        rows("p0/b", 0, &[("by-path", Some(1), false, 5), ("null-least", Some(-9), false, 4)]),
        rows(
            "p0/c",
            0,
            &[("by-path", Some(1), false, 6), ("by-row", Some(1), false, 7), ("by-row", Some(1), false, 8)],
        ),
        rows(
            "p1/a",
            60,
            &[("by-version", Some(4), false, 9), ("null-least", None, false, 10), ("gone", Some(2), true, 11)],
        ),
        rows(
            "p2/a",
            120,
            &[("by-path", Some(1), false, 12), ("back", Some(2), false, 13), ("back", Some(1), true, 14)],
        ),
    ];
    let expected = [
        r#"{"id":"back","n":13}"#,
        r#"{"id":"by-path","n":12}"#,
        r#"{"id":"by-row","n":8}"#,
        r#"{"id":"by-version","n":2}"#,
        r#"{"id":"null-least","n":4}"#,
    ];
    for partitions in [1, 2, 8] {
        for parts in [parts.clone(), parts.iter().rev().cloned().collect()] {
            let table = upsert("u", parts);
            let got = run_with("SELECT k AS id, n FROM u", vec![table], partitions, BIG).await.unwrap();
            assert_eq!(json(&got), expected);
        }
    }
}

#[test]
fn owned_ids_are_those_of_all_rows_live_or_deleted() {
    let parts = vec![versioned_part("a", 0, &[("x", None, false, 1), ("y", Some(1), true, 1)])];
    let table = upsert("u", parts);
    let sql = "WITH best AS (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY n) AS rn FROM u) t WHERE rn = 1)
               SELECT b.k AS id, c.n FROM best b LEFT JOIN (SELECT k, count(*) AS n FROM u GROUP BY k) c ON b.k = c.k";
    let compiled = compiled(sql, std::slice::from_ref(&table));
    assert_eq!(compiled.id_origin, Some((highwater_core::SourceName::new("u"), "k".to_owned())));
    let owned = compiled.owned_ids(std::slice::from_ref(&table)).unwrap().unwrap();
    assert_eq!(owned.iter().map(|id| &**id).collect::<Vec<_>>(), ["x", "y"]);
    let origin = |sql: &str| support::compiled(sql, std::slice::from_ref(&table)).id_origin.map(|o| o.1);
    assert_eq!(origin("SELECT k AS id, sum(n) AS n FROM u GROUP BY k"), Some("k".to_owned()));
    assert_eq!(origin("SELECT k AS id FROM u UNION ALL SELECT k FROM u"), Some("k".to_owned()));
    assert_eq!(origin("SELECT upper(k) AS id FROM u"), None);
    assert_eq!(origin("SELECT max(k) AS id FROM u"), None);
    assert_eq!(origin("SELECT k AS id FROM u UNION ALL SELECT cast(n AS varchar) FROM u"), None);
    assert_eq!(origin("SELECT _file AS id FROM u"), None);
}

/// The same rows, in parts of another order and scanned by another number of threads, must give the same documents.
async fn steady(sql: &str, parts: &[Arc<Part>]) -> Vec<String> {
    let compiled = compiled(sql, &[append("t", Vec::new())]);
    let at = highwater_core::Timestamp::UNIX_EPOCH;
    let mut expected = None;
    for partitions in [1, 2, 8] {
        for parts in [parts.to_vec(), parts.iter().rev().cloned().collect()] {
            let stream = compiled.documents(vec![append("t", parts)], at, &resources(partitions, BIG));
            let got = json(&collect(stream).await.unwrap_or_else(|error| panic!("{sql}: {error}")));
            assert_eq!(expected.get_or_insert_with(|| got.clone()), &got, "{sql} with {partitions} partitions");
        }
    }
    expected.unwrap_or_default()
}

fn ties() -> Vec<Arc<Part>> {
    vec![
        part("a", 0, &[("k", 1), ("k", 2), ("l", 9)]),
        part("b", 0, &[("k", 3), ("k", 3), ("l", 8)]),
        part("c", 60, &[("k", 0), ("l", 7)]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ties_end_in_partition_path_and_row_in_the_direction_of_the_last_key() {
    let first = |order: &str| {
        format!(
            "SELECT k AS id, v FROM (SELECT *, row_number() OVER (PARTITION BY k {order}) AS rn FROM t) x WHERE rn = 1"
        )
    };
    let expect = |k: i64, l: i64| [format!(r#"{{"id":"k","v":{k}}}"#), format!(r#"{{"id":"l","v":{l}}}"#)];
    assert_eq!(steady(&first(""), &ties()).await, expect(1, 9));
    assert_eq!(steady(&first("ORDER BY length(k)"), &ties()).await, expect(1, 9));
    assert_eq!(steady(&first("ORDER BY length(k) DESC"), &ties()).await, expect(0, 7));
    let of_two = first("ORDER BY length(k) DESC, substr(k, 2)");
    assert_eq!(steady(&of_two, &ties()).await, expect(1, 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ties_over_a_join_end_in_the_canonical_bytes() {
    let sql = "SELECT id, v FROM (SELECT a.k AS id, a.v, row_number() OVER (PARTITION BY a.k ORDER BY a.k DESC) AS rn
               FROM t a JOIN (SELECT DISTINCT k FROM t) b ON a.k = b.k) x WHERE rn = 1";
    assert_eq!(steady(sql, &ties()).await, [r#"{"id":"k","v":3}"#, r#"{"id":"l","v":9}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_function_that_tells_rows_apart_is_steady() {
    let windows = [
        "lag(v) OVER (PARTITION BY k ORDER BY length(k))",
        "lead(v) OVER (PARTITION BY k ORDER BY length(k) DESC)",
        "ntile(2) OVER (ORDER BY length(k))",
        "first_value(v) OVER (PARTITION BY k ORDER BY length(k))",
        "last_value(v) OVER (PARTITION BY k)",
        "nth_value(v, 2) OVER (PARTITION BY k ORDER BY length(k) ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "sum(v) OVER (PARTITION BY k ORDER BY length(k) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "sum(v * 0.1) OVER (PARTITION BY k ORDER BY length(k) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "sum(v * 0.1) OVER (PARTITION BY k ORDER BY length(k))",
        "avg(v) OVER (PARTITION BY k)",
        "rank() OVER (PARTITION BY k ORDER BY length(k))",
    ];
    for window in windows {
        let sql = format!(
            "SELECT _file || cast(v AS varchar) AS id, array_agg(w) AS w FROM (SELECT *, _file, {window} AS w FROM t) x GROUP BY 1"
        );
        steady(&sql, &ties()).await;
    }
    let aggregates = [
        ("array_agg(v)", "[1,2,3,3,0]"),
        ("array_agg(v ORDER BY length(k) DESC)", "[0,3,3,2,1]"),
        ("array_agg(DISTINCT v)", "[0,1,2,3]"),
        ("string_agg(cast(v AS varchar), '-')", "\"1-2-3-3-0\""),
        ("first_value(v)", "1"),
        ("last_value(v ORDER BY length(k))", "0"),
        ("nth_value(v, 2)", "2"),
        ("sum(v * 0.1)", "0.9000000000000001"),
        ("sum(DISTINCT v * 0.1)", "0.6000000000000001"),
        ("avg(DISTINCT v)", "1.5"),
        ("avg(v)", "1.8"),
        ("max(v)", "3"),
    ];
    for (call, expected) in aggregates {
        let got = steady(&format!("SELECT k AS id, {call} AS x FROM t GROUP BY k"), &ties()).await;
        assert_eq!(got[0], format!(r#"{{"id":"k","x":{expected}}}"#), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_and_distinct_on_take_steady_rows() {
    let got = steady("SELECT k AS id, v FROM t ORDER BY length(k) DESC LIMIT 1", &ties()).await;
    assert_eq!(got, [r#"{"id":"l","v":7}"#]);
    let got = steady("SELECT k AS id, v FROM (SELECT * FROM t ORDER BY length(k) LIMIT 2 OFFSET 1) x", &ties()).await;
    assert_eq!(got, [r#"{"id":"k","v":2}"#, r#"{"id":"l","v":9}"#]);
    let got = steady("SELECT DISTINCT ON (k) k AS id, v FROM t", &ties()).await;
    assert_eq!(got, [r#"{"id":"k","v":1}"#, r#"{"id":"l","v":9}"#]);
    let got = steady("SELECT DISTINCT ON (k) k AS id, v FROM t ORDER BY k DESC", &ties()).await;
    assert_eq!(got, [r#"{"id":"k","v":0}"#, r#"{"id":"l","v":7}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_beside_distinct_counts_stay_counts() {
    let sql =
        "SELECT k AS id, count(*) AS n, count(1) AS o, count(nullif(v, 3)) AS p, count(*) FILTER (WHERE v > 1) AS f,
               count(DISTINCT v) AS d, sum(v) AS s FROM t GROUP BY k";
    let got = steady(sql, &ties()).await;
    assert_eq!(got[0], r#"{"d":4,"f":3,"id":"k","n":5,"o":5,"p":3,"s":9}"#);
    let none = "SELECT 'x' AS id, count(*) AS n, count(DISTINCT v) AS d FROM t WHERE v > 100";
    assert_eq!(steady(none, &ties()).await, [r#"{"d":0,"id":"x","n":0}"#]);
    let grouped = "SELECT concat(k, '|', cast(grouping(k) AS varchar)) AS id, count(*) AS n, count(DISTINCT v) AS d FROM t GROUP BY ROLLUP (k)";
    assert_eq!(steady(grouped, &ties()).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries_are_made_steady_too() {
    let sql = "SELECT k AS id, (SELECT max(v) FROM t) AS m, (SELECT sum(v * 0.1) FROM t b WHERE b.k = a.k) AS s
               FROM (SELECT DISTINCT k FROM t) a WHERE k IN (SELECT k FROM t ORDER BY v LIMIT 3) AND EXISTS (SELECT 1 FROM t c WHERE c.k = a.k)";
    assert_eq!(steady(sql, &ties()).await, [r#"{"id":"k","m":9,"s":0.9000000000000001}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shape_of_a_query_runs() {
    let shapes = [
        ("SELECT concat(k, cast(x AS varchar)) AS id FROM (SELECT k, unnest(make_array(v, v + 10)) AS x FROM t) u", 14),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n AS id FROM r", 3),
        ("SELECT k AS id FROM t INTERSECT SELECT k FROM t WHERE v = 9", 1),
        ("SELECT k AS id FROM t EXCEPT SELECT k FROM t WHERE v = 9", 1),
        ("SELECT column1 AS id FROM (VALUES ('a'), ('b')) v", 2),
        ("SELECT cast(value AS varchar) AS id FROM generate_series(1, 4)", 4),
        ("SELECT coalesce(a.k, b.k) AS id, sum(a.v * 0.5) AS s FROM t a FULL JOIN t b ON a.v = b.v + 1 GROUP BY 1", 2),
        ("SELECT concat(k, v) AS id, sum(v) AS s FROM t GROUP BY GROUPING SETS ((k), (v), ())", 9),
        ("SELECT a.k AS id, array_agg(b.v) AS vs FROM t a CROSS JOIN t b GROUP BY a.k", 2),
        ("SELECT k AS id, sum(v) AS s FROM t GROUP BY k HAVING count(DISTINCT v) > 3 AND count(*) > 3", 1),
        ("SELECT k AS id, v FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY length(k)) = 1", 2),
        (
            "SELECT k AS id, sum(n) AS n FROM (SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM t) u GROUP BY k",
            2,
        ),
        ("SELECT a.k AS id, b.v FROM t a JOIN t b USING (k) WHERE a.v = 9 OR a.v = 0", 2),
        (
            "SELECT t.k AS id, x.top FROM t LEFT JOIN LATERAL (SELECT max(v) AS top FROM t b WHERE b.k = t.k) x ON true",
            2,
        ),
        ("SELECT named_struct('a', k, 'b', v)['a'] AS id, CASE WHEN v > 1 THEN 0.5 ELSE 0 END AS c FROM t", 2),
    ];
    for (sql, documents) in shapes {
        assert_eq!(steady(sql, &ties()).await.len(), documents, "{sql}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn float_sums_do_not_depend_on_order_or_split(values in proptest::collection::vec(-1e15..1e15_f64, 1..200), seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let sql = "SELECT 'x' AS id, sum(f) AS s, avg(f) AS a FROM t";
        let mut expected = None;
        let mut values = values;
        for partitions in [1, 2, 8] {
            let parts = values.chunks(37).enumerate().map(|(n, chunk)| float_part(&format!("{n}"), chunk)).collect();
            let got = runtime.block_on(run_with(sql, vec![append_of("t", parts)], partitions, BIG)).unwrap();
            let got = json(&got);
            prop_assert_eq!(expected.get_or_insert_with(|| got.clone()), &got);
            shuffle(&mut values, seed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory_and_parts_on_disk_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<(String, i64)> = (0..30_000).map(|n| (format!("key-{:05}", n * 7919 % 20_011), n)).collect();
    let borrowed: Vec<(&str, i64)> = rows.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    let parts: Vec<_> = borrowed.chunks(3_000).enumerate().map(|(n, rows)| part(&format!("{n}"), 0, rows)).collect();
    let mut cache = PartCache::new(folder.path().into(), 0);
    let mut on_disk = Vec::new();
    for (n, rows) in borrowed.chunks(3_000).enumerate() {
        let spilled =
            cache.insert(&highwater_core::SourceName::new("t"), owned_part(&format!("{n}"), 0, rows)).unwrap();
        assert!(matches!(spilled.rows, PartRows::Disk(_)));
        on_disk.push(spilled);
    }
    let sql = "SELECT a.k AS id, a.v, repeat(b.k, 20) AS r FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY length(k)) AS rn FROM t) a
               JOIN (SELECT k, max(v) AS v FROM t GROUP BY k) b ON a.k = b.k WHERE rn = 1";
    let expected = run_with(sql, vec![append("t", parts.clone())], 2, BIG).await.unwrap();
    assert_eq!(expected.len(), 20_011);
    assert_eq!(run_with(sql, vec![append("t", on_disk)], 2, BIG).await.unwrap(), expected);
    assert_eq!(run_with(sql, vec![append("t", parts.clone())], 2, 8 << 20).await.unwrap(), expected);
    let compiled = compiled(sql, &[append("t", parts.clone())]);
    let frugal = Resources { frugal: true, ..resources(2, 4 << 20) };
    let watermark = highwater_core::Timestamp::UNIX_EPOCH;
    let blocks: Vec<_> = compiled.documents(vec![append("t", parts.clone())], watermark, &frugal).collect().await;
    let documents: Vec<_> = blocks.into_iter().flat_map(|block| block.unwrap().documents).collect();
    assert_eq!(documents, expected);
    let nothing = resources(2, 64 << 10);
    let refused =
        compiled.documents(vec![append("t", parts)], watermark, &nothing).any(async |block| block.is_err()).await;
    assert!(refused, "the memory is a bound: what cannot be done within it is told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upsert_keys_that_do_not_fit_at_once_are_worked_off_in_passes() {
    let rows: Vec<(String, Option<i64>, bool, i64)> =
        (0..20_000).map(|n| (format!("key-{:05}", n % 10_000), Some(n), n % 7 == 0, n)).collect();
    let borrowed: Vec<_> = rows.iter().map(|(k, v, d, n)| (k.as_str(), *v, *d, *n)).collect();
    let parts: Vec<_> =
        borrowed.chunks(1_000).enumerate().map(|(n, rows)| versioned_part(&format!("{n:03}"), 0, rows)).collect();
    let table = upsert("u", parts);
    let all = super::upsert::standing(&table, &table.parts, &super::session::memory(&resources(1, BIG))).unwrap();
    let few = super::upsert::standing(&table, &table.parts, &super::session::memory(&resources(1, 400_000))).unwrap();
    assert_eq!(all, few);
    assert!(super::upsert::standing(&table, &table.parts, &super::session::memory(&resources(1, 1_000))).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_the_sql_cannot_take_are_an_error_of_the_sql() {
    let table = append("t", vec![part("a", 0, &[("a", 0)])]);
    let error = run_with("SELECT k AS id, 1 / v AS x FROM t", vec![table], 1, BIG).await.unwrap_err();
    assert!(matches!(error, TransformError::Sql(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_source_but_those_read_is_needed_and_no_rows_give_no_documents() {
    let table = append("t", vec![]);
    assert_eq!(run("SELECT k AS id FROM t", vec![table]).await, []);
}

/// A task of the runtime may have used up its budget before it compiles; the planner must end all the same.
#[test]
#[allow(clippy::disallowed_methods)]
fn compiling_ends_in_a_task_without_budget() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        for left in 0..128 {
            runtime.block_on(async {
                for _ in left..128 {
                    // Never yields here: it only counts down what a task may do before it has to.
                    tokio::task::consume_budget().await;
                }
                let tables = [append("ads", vec![part("a", 0, &[("1", 1)])])];
                compiled("SELECT a.k AS id FROM ads a JOIN ads b ON a.k = b.k LEFT JOIN ads c ON c.k = b.k", &tables);
            });
        }
        done.send(()).unwrap();
    });
    ended.recv_timeout(std::time::Duration::from_secs(120)).expect("compile never ended");
}
