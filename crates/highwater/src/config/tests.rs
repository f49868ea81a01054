use std::fmt::Write as _;
use std::path::PathBuf;

use highwater_core::policy::GuardLimit;

use super::*;

/// A configuration that uses every section; each case of [`every_mistake_is_named`] spoils one line of it.
/// The index of [`GOOD`].
const TANTIVY: &str = "kind = \"tantivy\"\npath = \"./index\"";

const GOOD: &str = r#"[pipeline]
name = "ads"
state = "./state"
step = "5m"
window = "5h"

[source.ads]
location = "s3://lake/ads"
layout = "region={region}/dt=%Y-%m-%d/hr=%H/mi=%M"
format = "parquet"
kind = "upsert"
key = "ad_id"
retain = "window"
columns = { ad_id = "string" }

[source.clicks]
location = "./clicks"
layout = "%Y/%m/%d/%H"
format = "csv"
kind = "append"
step = "1h"

[source.clicks.csv]
delimiter = ";"

[source.shops]
location = "./shops"
format = "json"
kind = "reference"

[document]
sql = "document.sql"
id = "id"
[document.fields]
title = "text"

[index]
kind = "tantivy"
path = "./index"

[serve]
listen = "127.0.0.1:8642"

[store."s3://lake"]
endpoint = "https://s3.example.com"
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("document.sql", "select ad_id as id from ads");
        folder.write("empty.sql", " \n");
        folder
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn load(&self, toml: &str) -> Result<Config, ConfigReport> {
        load(&self.write("highwater.toml", toml), &env, &layout)
    }

    /// The plain report (warnings too, where nothing is wrong), without this test's folder.
    fn report(&self, toml: &str) -> String {
        let text = match self.load(toml) {
            Ok(config) => plain(&config.file, &config.warnings, "warning: "),
            Err(report) => report.to_string(),
        };
        text.trim_end().replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn env(name: &str) -> Option<String> {
    (name == "BUCKET").then(|| "lake".to_owned())
}

/// Stands in for the layout's own parser.
fn layout(text: &str, _step: jiff::SignedDuration) -> Result<Vec<String>, String> {
    if text.contains("%Q") {
        return Err("layout has \"%Q\", which is not supported; supported are %Y and others".into());
    }
    let names = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    Ok(names.map(|(name, _)| name.to_owned()).collect())
}

/// (what the good file says, what the case says instead)
const MISTAKES: &[(&str, &str)] = &[
    // Shape of the file.
    ("[pipeline]\nname", "[pipelin]\nname"),
    ("[index]\nkind = \"tantivy\"\npath = \"./index\"\n", ""),
    ("[document]\nsql = \"document.sql\"\nid = \"id\"\n[document.fields]\ntitle = \"text\"\n", ""),
    ("name = \"ads\"", "name = ads"),
    ("name = \"ads\"", "name = \"ads\"\nname = \"ads\""),
    ("window = \"5h\"", "widnow = \"5h\""),
    ("window = \"5h\"", "window = \"5h\"\nparallelism = 4"),
    ("delimiter = \";\"", "delimiter = \";\"\nseparator = \";\""),
    ("step = \"1h\"", "step = \"1h\"\ndelimiter = \";\""),
    ("[serve]", "[server]"),
    ("[serve]", "[serve]\npoll = \"1s\""),
    ("[source.shops]", "[source]\nshop = 1\n[source.shops]"),
    // Types.
    ("window = \"5h\"", "window = 5"),
    ("key = \"ad_id\"", "key = { a = 1 }"),
    ("key = \"ad_id\"", "key = [\"ad_id\", 2]"),
    ("columns = { ad_id = \"string\" }", "columns = { ad_id = 1 }"),
    ("columns = { ad_id = \"string\" }", "columns = \"ad_id\""),
    ("delimiter = \";\"", "header = \"yes\""),
    // Environment.
    ("\"s3://lake/ads\"", "\"s3://${LAKE}/ads\""),
    ("\"s3://lake/ads\"", "\"s3://${LAKE/ads\""),
    // Pipeline.
    ("name = \"ads\"", "name = \"ads/eu\""),
    ("name = \"ads\"", ""),
    ("state = \"./state\"", "state = \"gs://b/state\""),
    ("step = \"5m\"", "step = \"7m\""),
    ("step = \"5m\"", "step = \"0s\""),
    ("step = \"5m\"", "step = \"300ms\""),
    ("step = \"5m\"", "step = \"5min\""),
    ("step = \"5m\"", "step = \"5\""),
    ("window = \"5h\"", "window = \"303m\""),
    ("window = \"5h\"", "window = \"0s\""),
    ("window = \"5h\"", "window = \"5h\"\npoll = \"0s\""),
    ("window = \"5h\"", "window = \"5h\"\nlease = \"250ms\""),
    ("window = \"5h\"", "window = \"5h\"\nmax_uptime = \"0s\""),
    ("window = \"5h\"", "window = \"5h\"\non_max_uptime = \"reboot\""),
    ("window = \"5h\"", "window = \"5h\"\nsingle_writer = \"yes\""),
    ("window = \"5h\"", "window = \"5h\"\nsettle = \"-1m\""),
    ("window = \"5h\"", "window = \"5h\"\nhold_after = \"always\""),
    ("window = \"5h\"", "window = \"5h\"\non_lag = \"catchup\""),
    ("window = \"5h\"", "window = \"5h\"\non_lag = \"panic\""),
    ("window = \"5h\"", "window = \"5h\"\ntime_zone = \"Europe/Berlim\""),
    ("window = \"5h\"", "window = \"5h\"\ntime_zone = \"Berlin\""),
    ("window = \"5h\"", "window = \"5h\"\ntime_zone = \"+02:00\""),
    ("window = \"5h\"", "window = \"5h\"\nmemory = \"2gigs\""),
    ("window = \"5h\"", "window = \"5h\"\nmemory = 1000"),
    ("window = \"5h\"", "window = \"5h\"\nmemory = -1"),
    ("window = \"5h\"", "window = \"5h\"\nmax_rejects = \"1%\""),
    ("window = \"5h\"", "window = \"5h\"\nmax_rejects = -1"),
    ("window = \"5h\"", "window = \"5h\"\nguard = \"always\""),
    ("window = \"5h\"", "window = \"5h\"\nguard = 10"),
    ("window = \"5h\"", "window = \"5h\"\nguard = { files = -1, percent = 101, bytes = 1 }"),
    // Sources.
    ("[source.shops]", "[source.\"Shops EU\"]"),
    ("[source.shops]", "[source.1st]"),
    ("location = \"./clicks\"", "location = \"\""),
    ("location = \"./clicks\"", ""),
    ("location = \"./clicks\"", "location = \"s3a://lake/clicks\""),
    ("location = \"./clicks\"", "location = \"~/clicks\""),
    ("location = \"./clicks\"", "location = \"./index/clicks\""),
    ("location = \"./shops\"", "location = \".\""),
    ("layout = \"%Y/%m/%d/%H\"", ""),
    ("layout = \"%Y/%m/%d/%H\"", "layout = \"%Y/%Q\""),
    ("layout = \"%Y/%m/%d/%H\"", "layout = \"{_file}/%Y/%m/%d/%H\""),
    ("kind = \"reference\"", "kind = \"reference\"\nlayout = \"%Y/%m/%d\""),
    ("columns = { ad_id = \"string\" }", "columns = { region = \"string\" }"),
    ("columns = { ad_id = \"string\" }", "columns = { _file = \"string\" }"),
    ("columns = { ad_id = \"string\" }", "columns = { ad_id = \"strnig\", price = \"decimal(3)\" }"),
    ("format = \"parquet\"", "format = \"parket\""),
    ("format = \"parquet\"", "format = \"orc\""),
    ("kind = \"append\"", "kind = \"apend\""),
    ("kind = \"append\"", "kind = \"append\"\nkey = \"a\"\nversion = \"v\"\ndeleted = \"d\"\nretain = \"window\""),
    ("key = \"ad_id\"", ""),
    ("key = \"ad_id\"", "key = []"),
    ("key = \"ad_id\"", "key = [\"ad_id\", \"\", \"ad_id\"]"),
    ("key = \"ad_id\"", "key = \"ad_id\"\nversion = \"\""),
    ("retain = \"window\"", ""),
    ("retain = \"window\"", "retain = \"for ever\""),
    ("retain = \"window\"", "retain = \"forever\""),
    ("retain = \"window\"", "retain = \"forever\"\nstart = \"2026-05-01\""),
    ("retain = \"window\"", "retain = \"window\"\nstart = 2026-05-01T00:00:00Z"),
    ("retain = \"window\"", "retain = \"window\"\nbackfill = \"1MiB\"\nbase = { location = \"./b\", layout = \"%Y\" }"),
    ("retain = \"window\"", "retain = \"forever\"\nbackfill = \"much\"\nbase = { layout = \"nowhere\" }"),
    (
        "retain = \"window\"",
        "retain = \"forever\"\nstart = 2026-05-01T00:00:00Z\nbase = { location = \"s3://lake/ads/b\", layout = \"{region}/%Y-%m-%d\" }",
    ),
    (
        "retain = \"window\"",
        "retain = \"forever\"\nbase = { location = \"./b\", layout = \"%Y-%m-%d\", settel = \"1h\" }",
    ),
    ("step = \"1h\"", "step = \"2h\""),
    ("step = \"1h\"", "step = \"1h\"\nwindow = \"90m\""),
    ("delimiter = \";\"", "delimiter = \"||\""),
    ("delimiter = \";\"", "delimiter = '\"'"),
    ("delimiter = \";\"", "header = false"),
    ("format = \"csv\"", "format = \"avro\""),
    // Document, index, serve, store.
    ("sql = \"document.sql\"", "sql = \"documents.sql\""),
    ("sql = \"document.sql\"", "sql = \"empty.sql\""),
    ("id = \"id\"", "id = \"\""),
    ("title = \"text\"", "title = \"txt\""),
    ("kind = \"tantivy\"", "kind = \"opensearch\""),
    ("kind = \"tantivy\"", "kind = \"solr\""),
    ("path = \"./index\"", "path = \"./index\"\nurl = \"http://127.0.0.1:8983/solr\"\nshards = 2"),
    (TANTIVY, "kind = \"solr\"\nurl = []\ncollection = \"a b\"\nshards = 0\nreplicas = \"two\""),
    (
        TANTIVY,
        "kind = \"solr\"\nurl = [\"127.0.0.1:8983\", \"http://me:secret@solr/solr\", \"http://solr?x\"]\ncollection = \"c\"",
    ),
    (TANTIVY, "kind = \"solr\"\nurl = \"http://solr/solr\"\ncollection = \"c\"\nauth = { user = \"me\" }"),
    (TANTIVY, "kind = \"solr\"\nurl = \"http://solr/solr\"\ncollection = \"c\"\nauth = { bearer = \"${NO_TOKEN}\" }"),
    (
        TANTIVY,
        "kind = \"solr\"\nurl = \"http://solr/solr\"\ncollection = \"c\"\nauth = { user = \"me\", password = \"x\", bearer = \"y\" }",
    ),
    (
        TANTIVY,
        "kind = \"solr\"\nurl = \"http://solr/solr\"\ncollection = \"c\"\nauth = { bearer = \"two words\", token = \"x\" }",
    ),
    ("kind = \"tantivy\"", "kind = \"lucene\""),
    ("path = \"./index\"", ""),
    ("path = \"./index\"", "path = \"s3://lake/index\""),
    ("path = \"./index\"", "path = \"./index\"\nabsent = \"leave\""),
    ("listen = \"127.0.0.1:8642\"", "listen = \"localhost\""),
    ("listen = \"127.0.0.1:8642\"", ""),
    ("\"https://s3.example.com\"", "\"s3.example.com\""),
    ("\"https://s3.example.com\"", "\"http://s3.example.com\""),
    ("[store.\"s3://lake\"]", "[store.\"s3://lake/ads\"]"),
    ("[store.\"s3://lake\"]", "[store.lake]"),
    ("[store.\"s3://lake\"]", "[store.\"s3://lake\"]\nallow_htpp = true"),
    ("window = \"5h\"", "window = \"5m\""),
    // Warnings.
    ("[store.\"s3://lake\"]", "[store.\"s3://pond\"]"),
    ("listen = \"127.0.0.1:8642\"", "listen = \"0.0.0.0:8642\""),
    ("kind = \"reference\"", "kind = \"reference\"\nwindow = \"5h\""),
    ("window = \"5h\"", "window = \"5h\"\nmemory = \"100TiB\""),
    ("location = \"./clicks\"", "location = \".\""),
    (
        "location = \"./clicks\"\nlayout = \"%Y/%m/%d/%H\"",
        "location = \"s3://lake/ads/\"\nlayout = \"region={region}/dt=%Y-%m-%d/hr=%H/mi=%M\"",
    ),
    (
        "step = \"5m\"\nwindow = \"5h\"\n\n[source.ads]\nlocation = \"s3://lake/ads\"",
        "step = \"7m\"\nwindow = \"5h\"\n\n[source.ads]\nlocation = \"./index\"",
    ),
];

#[test]
fn every_mistake_is_named() {
    let folder = Folder::new();
    let mut all = String::new();
    for (good, bad) in MISTAKES {
        assert!(GOOD.contains(good), "{good} is not in the good file");
        let report = folder.report(&GOOD.replacen(good, bad, 1));
        _ = writeln!(all, "{}\n{}\n", format!("- {good}\n+ {bad}").replace("\n\n", "\n"), report);
    }
    // What the machine gives is not the test's to know.
    let machine = format!("the {} that", format_size(machine::memory_bytes()));
    insta::assert_snapshot!(all.replace(&machine, "the … that"));
}

#[test]
fn all_problems_come_at_once() {
    let folder = Folder::new();
    let mut bad = GOOD.to_owned();
    for (from, to) in [
        ("state = \"./state\"", "stat = \"./state\""),
        ("step = \"5m\"", "step = \"7m\""),
        ("key = \"ad_id\"\n", ""),
        ("\"s3://lake/ads\"", "\"s3://${LAKE}/ads\""),
        ("format = \"csv\"", "format = \"cvs\""),
        ("title = \"text\"", "title = 3"),
        ("document.sql", "missing.sql"),
        ("tantivy", "opensearch"),
        ("127.0.0.1:8642", "0.0.0.0:8642"),
    ] {
        bad = bad.replacen(from, to, 1);
    }
    insta::assert_snapshot!(folder.report(&bad));
}

#[test]
fn a_terminal_sees_the_lines() {
    let folder = Folder::new();
    let report = folder.load(&GOOD.replacen("window = \"5h\"", "window = \"303m\"", 1)).unwrap_err();
    let drawn = report.fancy(false).replace(&format!("{}/", folder.0.path().display()), "");
    insta::assert_snapshot!(drawn);
}

#[test]
fn a_file_that_cannot_be_read_is_a_report() {
    let folder = Folder::new();
    let absent = load(&folder.0.path().join("none.toml"), &env, &layout).unwrap_err().to_string();
    assert!(absent.ends_with(
        "none.toml: there is no such file; fix: write one with `highwater init`, or name yours with -c FILE"
    ));
    let path = folder.0.path().join("latin.toml");
    std::fs::write(&path, b"[pipeline]\nname = \"\xe9\"\n").unwrap();
    assert!(load(&path, &env, &layout).unwrap_err().to_string().contains("line 2 is not UTF-8"));
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let folder = Folder::new();
    let config = folder.load(GOOD).unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.pipeline.poll.as_secs(), 1);
    assert_eq!(config.pipeline.lease.as_secs(), 10);
    assert_eq!(config.pipeline.on_lag, OnLag::SkipToLatest);
    assert_eq!(config.pipeline.memory_bytes, machine::memory_bytes() / 2);
    assert_eq!(config.index.absent, Absent::Delete);
    let [ads, clicks, shops] =
        ["ads", "clicks", "shops"].map(|name| &config.sources[&highwater_core::SourceName::new(name)]);
    assert_eq!(ads.settle.as_secs(), 60);
    assert_eq!(ads.hold_after.unwrap().as_mins(), 150);
    assert_eq!(ads.time_zone.iana_name(), Some("UTC"));
    assert_eq!((ads.max_skew.as_mins(), clicks.max_skew.as_mins()), (5, 60), "one step of the source");
    assert_eq!(ads.max_rejects, MaxRejects::Default);
    assert_eq!((clicks.step.as_hours(), clicks.window.as_hours()), (1, 5));
    assert_eq!((clicks.csv.delimiter, clicks.csv.quote, clicks.csv.header), (b';', b'"', true));
    assert_eq!(shops.format, crate::format::FileFormat::Ndjson);
    assert_eq!((&shops.layout, &shops.kind), (&None, &TableKind::Reference));
    assert_eq!(clicks.location, Location::Folder(folder.0.path().join("clicks")));
}

#[test]
fn a_source_has_its_own_times() {
    let folder = Folder::new();
    let own = "step = \"1h\"\nwindow = \"6h\"\nsettle = \"0s\"\ntime_zone = \"Asia/Seoul\"\nhold_after = \"never\"\nmax_rejects = 0\nguard = \"never\"";
    let all = "window = \"5h\"\nsettle = \"2m\"\nhold_after = \"1h\"\nmax_rejects = 7\nmax_skew = \"9m\"\nguard = { files = 3 }";
    let config = folder.load(&GOOD.replacen("step = \"1h\"", own, 1).replacen("window = \"5h\"", all, 1)).unwrap();
    let [ads, clicks] = ["ads", "clicks"].map(|name| &config.sources[&highwater_core::SourceName::new(name)]);
    assert_eq!((ads.settle.as_mins(), ads.hold_after.map(|d| d.as_mins())), (2, Some(60)));
    assert_eq!((ads.max_rejects, ads.max_skew.as_mins()), (MaxRejects::Rows(7), 9));
    assert_eq!((clicks.settle.as_mins(), clicks.hold_after, clicks.window.as_hours()), (0, None, 6));
    assert_eq!((ads.guard, clicks.guard), (Some(GuardLimit { files: 3, percent: 10 }), None));
    assert_eq!((clicks.max_rejects, clicks.time_zone.iana_name()), (MaxRejects::Rows(0), Some("Asia/Seoul")));
}

#[test]
fn variables_reach_values_and_stores() {
    let folder = Folder::new();
    let text = GOOD.replace("s3://lake", "s3://${BUCKET}").replace("./index", "./$${index");
    let config = folder.load(&text).unwrap();
    assert_eq!(config.sources.values().next().unwrap().location.to_string(), "s3://lake/ads");
    assert_eq!(config.stores.keys().collect::<Vec<_>>(), ["s3://lake"]);
    let IndexKind::Tantivy { path } = &config.index.kind else { panic!("no tantivy") };
    assert!(path.ends_with("${index"));
}

#[test]
fn solr_is_resolved_and_its_secrets_are_masked() {
    let folder = Folder::new();
    let solr =
        "kind = \"solr\"\nurl = [\"http://one:8983/solr/\", \"https://two/solr\"]\ncollection = \"shop\"\nshards = 2";
    let auth = "auth = { user = \"me\", password = \"x${BUCKET}x\" }";
    let config = folder.load(&GOOD.replace(TANTIVY, &format!("{solr}\n{auth}"))).unwrap();
    let IndexKind::Solr(solr) = &config.index.kind else { panic!("no solr") };
    assert_eq!(solr.urls, ["http://one:8983/solr", "https://two/solr"]);
    assert_eq!((solr.shards, solr.replicas, solr.configset.as_deref()), (2, 1, None));
    assert_eq!(solr.auth, Some(SolrAuth::Basic { user: "me".into(), password: Secret::new("xlakex") }));
    let shown = config.resolved_toml();
    let index = shown.split("[index]").nth(1).unwrap().split("[generations]").next().unwrap();
    let lines: Vec<&str> = index.lines().map(|line| line.split(" #").next().unwrap().trim()).collect();
    let wanted = [
        "",
        "kind = \"solr\"",
        "url = [\"http://one:8983/solr\", \"https://two/solr\"]",
        "collection = \"shop\"",
        "shards = 2",
        "replicas = 1",
        "absent = \"delete\"",
        "",
        "[index.auth]",
        "user = \"me\"",
        "password = \"***\"",
        "",
    ];
    assert_eq!(lines, wanted);
    assert!(!shown.contains("xlakex") && !format!("{config:?}").contains("xlakex"));
    let described = serde_json::to_string(&config.describe()).unwrap();
    assert!(!described.contains("xlakex") && described.contains("***"));
}

#[test]
fn a_time_may_stand_without_quotes() {
    let folder = Folder::new();
    let forever = GOOD.replace("retain = \"window\"", "retain = \"forever\"\nstart = 2026-05-01T02:00:00+02:00");
    let config = folder.load(&forever).unwrap();
    let TableKind::Upsert { retain, .. } = &config.sources.values().next().unwrap().kind else { panic!("no upsert") };
    assert_eq!(*retain, Retain::Forever { start: "2026-05-01T00:00:00Z".parse().unwrap() });
}

#[test]
fn what_check_prints_loads_to_the_same() {
    let folder = Folder::new();
    let text = GOOD
        .replace("retain = \"window\"", "retain = \"forever\"\nstart = 2026-05-01T00:00:00Z\nversion = \"v${BUCKET}\"\nguard = { files = 2, percent = 50 }");
    let based = "retain = \"forever\"\nbackfill = \"never\"\n\
                 base = { location = \"s3://lake/full\", layout = \"%Y-%m-%d/{region}\", settle = \"2h\" }";
    let based = GOOD.replace("retain = \"window\"", based);
    let told = folder.load(&based).unwrap().resolved_toml();
    assert!(told.contains("margin = \"5h\""), "{told}");
    let same = folder.load(&told).unwrap();
    let first = folder.load(&text.replace("\"./shops\"", "\"./sh'o\\\"ps $${x}\"")).unwrap();
    let again = folder.load(&first.resolved_toml()).unwrap();
    let values =
        |config: &Config| config.settings().into_iter().map(|s| (s.section, s.key, s.value)).collect::<Vec<_>>();
    assert_eq!(values(&first), values(&again));
    assert_eq!(values(&folder.load(&based).unwrap()), values(&same));
}

#[test]
fn check_prints_every_value() {
    let folder = Folder::new();
    let config =
        folder.load(&GOOD.replace("window = \"5h\"", "window = \"5h\"\nmemory = \"64MiB\"\nsettle = \"2m\"")).unwrap();
    let clean = |text: String| text.replace(&folder.0.path().display().to_string(), "/conf");
    insta::assert_snapshot!("resolved", clean(config.resolved_toml()));
    let described = config.describe();
    assert_eq!(described.config["source"]["ads"]["window"], "5h");
    assert_eq!(described.config["source"]["ads"]["max_rejects"], serde_json::Value::Null);
    assert_eq!(described.config["store"]["s3://lake"]["endpoint"], "https://s3.example.com");
    assert!(described.defaults.contains(&"source.ads.hold_after".to_owned()));
    assert!(!described.defaults.contains(&"source.ads.settle".to_owned()));
}

#[test]
fn the_template_is_a_configuration() {
    let folder = Folder::new();
    let Template { toml, sql } = template("shop-1");
    folder.write("document.sql", &sql);
    let config = folder.load(&toml).unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.pipeline.name, "shop-1");
    assert!(config.sources.contains_key(&highwater_core::SourceName::new(EXAMPLE_SOURCE)));
    assert!(toml.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn the_template_tells_the_true_defaults() {
    let folder = Folder::new();
    let Template { toml, sql } = template("shop");
    folder.write("document.sql", &sql);
    let quiet = folder.load(&toml).unwrap();
    let mut loud = String::new();
    for line in toml.lines() {
        let told = [
            "settle",
            "poll",
            "time_zone",
            "hold_after",
            "max_skew",
            "on_lag",
            "guard",
            "lease",
            "single_writer",
            "on_max_uptime",
            "absent",
        ];
        let is_default = told.iter().any(|key| line.starts_with(&format!("# {key} = ")));
        loud += if is_default { &line[2..] } else { line };
        loud.push('\n');
    }
    let loud = folder.load(&loud).unwrap();
    assert!(loud.given.contains("pipeline.on_lag") && loud.given.contains("index.absent"));
    let values = |config: &Config| config.settings().into_iter().map(|s| (s.key, s.value)).collect::<Vec<_>>();
    assert_eq!(values(&quiet), values(&loud));
}

#[test]
fn the_example_lake_fits_the_template() {
    let files = example_lake("2026-05-01T00:07:31Z".parse().unwrap());
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "lake/products/dt=2026-04-30/hr=23/mi=50/part-0.ndjson",
            "lake/products/dt=2026-04-30/hr=23/mi=55/part-0.ndjson",
            "lake/products/dt=2026-05-01/hr=00/mi=00/part-0.ndjson",
        ]
    );
    for (path, text) in files {
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(row["id"].is_string() && row["updated_at"].is_string(), "{path}");
        }
    }
}

proptest::proptest! {
    /// No text makes loading panic, and every problem has its place in the text.
    #[test]
    fn any_text_is_a_configuration_or_a_report(lines in proptest::collection::vec(0usize..60, 0..60), junk in ".{0,12}") {
        let folder = Folder::new();
        let good: Vec<&str> = GOOD.lines().collect();
        let mut text = String::new();
        for at in lines {
            text.push_str(good.get(at).copied().unwrap_or(&junk));
            text.push('\n');
        }
        if let Err(report) = folder.load(&text) {
            for problem in report.problems {
                proptest::prop_assert!(problem.line <= text.lines().count() + 1 && problem.span.start <= text.len());
            }
        }
    }
}
