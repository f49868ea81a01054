use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::*;

fn spec(sql: &str) -> SqlSpec {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let ads = Schema::new(vec![
        Field::new("ad_id", DataType::Utf8, true),
        Field::new("bid", DataType::Float64, true),
        Field::new("updated_at", time, true),
        Field::new("tags", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))), true),
    ]);
    let campaigns = Schema::new(vec![Field::new("campaign_id", DataType::Int64, true)]);
    SqlSpec {
        sql: sql.to_owned(),
        id: "id".to_owned(),
        version: 1,
        tables: vec![
            (SourceName::new("ads"), Arc::new(ads), TableKind::Append),
            (SourceName::new("campaigns"), Arc::new(campaigns), TableKind::Append),
        ],
        hints: BTreeMap::new(),
    }
}

fn problems(sql: &str) -> String {
    let problems = compile(&spec(sql)).map(|_| "fine").unwrap_err();
    let lines = problems.into_iter().map(|p| {
        let place = p.line.zip(p.column).map(|(line, column)| format!("{line}:{column}: ")).unwrap_or_default();
        let hint = p.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{place}{}{hint}", p.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_refused_is_told_by_name_and_place() {
    let refused = [
        "",
        "SELEC 1",
        "SELECT ad_id AS id\nFROM ads WHERE",
        "SELECT 1 AS id; SELECT 2 AS id",
        "CREATE TABLE x (a INT)",
        "INSERT INTO ads SELECT * FROM ads",
        "SET x = 1",
        "COPY ads TO 'x'",
        "EXPLAIN SELECT 1",
        "SELECT ad_id AS id FROM adz",
        "SELECT ad_id AS id FROM other.ads",
        "SELECT adid AS id FROM ads",
        "SELECT ad_id AS id,\n  nosuch(bid) FROM ads",
        "SELECT ad_id AS ids FROM ads",
        "SELECT ad_id AS id, bid, bid * 2 AS bid FROM ads",
        "SELECT a.ad_id AS id, a.bid, b.bid FROM ads a JOIN ads b ON a.ad_id = b.ad_id",
        "SELECT ad_id AS id, random() AS r, now() AS n FROM ads",
        "SELECT ad_id AS id, uuid() AS u, current_date AS d, current_timestamp AS t FROM ads",
        "SELECT ad_id AS id FROM ads LIMIT 3",
        "SELECT ad_id AS id FROM ads ORDER BY bid LIMIT 3",
        "SELECT ad_id AS id FROM (SELECT * FROM ads OFFSET 2) x",
        "SELECT ad_id AS id, stddev(bid) AS s FROM ads GROUP BY ad_id",
        "SELECT ad_id AS id, var_pop(bid) AS s, corr(bid, bid) AS c FROM ads GROUP BY ad_id",
        "SELECT ad_id AS id, approx_median(bid) AS s, approx_percentile_cont(bid, 0.5) AS p FROM ads GROUP BY ad_id",
        "SELECT ad_id AS id, regr_slope(bid, bid) AS s, covar_pop(bid, bid) AS c FROM ads GROUP BY ad_id",
        "SELECT ad_id AS id, (SELECT b.bid FROM ads b WHERE b.ad_id < a.ad_id ORDER BY b.bid LIMIT 1) AS b FROM ads a",
        "SELECT ad_id AS id, last_value(bid) OVER (ORDER BY updated_at) AS s FROM ads",
        "SELECT ad_id AS id, updated_at - updated_at AS d, interval '1 day' AS i FROM ads",
        "SELECT tags AS id FROM ads",
        "SELECT ad_id AS id FROM ads WHERE bid > $limit",
        "SELECT ad_id AS id FROM ads WHERE bid > 'x' AND updated_at > true",
    ];
    let told: Vec<String> = refused
        .iter()
        .map(|sql| {
            if compile(&spec(sql)).is_ok() {
                format!("{sql}\n    allowed")
            } else {
                format!("{sql}\n    {}", problems(sql).replace('\n', "\n    "))
            }
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn hints_for_columns_that_are_not_there_are_refused() {
    let mut spec = spec("SELECT ad_id AS id FROM ads");
    spec.hints.insert("titel".to_owned(), FieldHint::Text);
    let problems = compile(&spec).map(|_| ()).unwrap_err();
    assert_eq!(problems[0].message, "document.fields names titel, which the SQL does not yield");
}

#[test]
fn an_upsert_table_needs_the_columns_that_decide() {
    let mut spec = spec("SELECT ad_id AS id FROM ads");
    spec.tables[0].2 = TableKind::Upsert {
        key: vec!["ad_id".to_owned(), "region".to_owned()],
        version: Some("at".to_owned()),
        deleted: Some("bid".to_owned()),
        retain: crate::config::Retain::Window,
        backfill: None,
    };
    let problems = compile(&spec).map(|_| ()).unwrap_err();
    let told: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    let expected = [
        "ads has no column region, which is its key",
        "ads has no column at, which is its version",
        "ads.bid says which rows are deleted, and is not of type bool",
    ];
    assert_eq!(told, expected);
}

#[test]
fn fields_follow_the_types_of_the_sql() {
    let mut spec = spec(
        "SELECT ad_id AS id, bid, updated_at, tags, 1 AS one, cast(1.5 AS decimal(5, 2)) AS d, true AS b,
        cast('2024-01-01' AS date) AS day, struct(1, 2) AS s FROM ads",
    );
    spec.hints.insert("id".to_owned(), FieldHint::Keyword);
    let fields = compile(&spec).unwrap().fields;
    let told: Vec<_> = fields.iter().map(|f| format!("{} {:?} {} {:?}", f.name, f.kind, f.many, f.hint)).collect();
    insta::assert_snapshot!(told.join("\n"));
}
