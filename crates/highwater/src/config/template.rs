//! The configuration that `init` writes: it works as it stands, and explains each key. Writes no file itself.

use std::fmt::Write as _;

use highwater_core::Timestamp;
use jiff::ToSpan;
use jiff::tz::TimeZone;

/// The source of the template.
pub const EXAMPLE_SOURCE: &str = "products";

/// The texts of a new pipeline's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// `highwater.toml`.
    pub toml: String,
    /// `document.sql`.
    pub sql: String,
}

/// A pipeline of that name over `./lake`.
pub fn template(name: &str) -> Template {
    let name = toml::Value::String(name.into()).to_string();
    Template { toml: TOML.replacen("\"NAME\"", &name, 1), sql: SQL.into() }
}

/// Files for `./lake`, as (path, content): one in each of the three partitions before `now`.
pub fn example_lake(now: Timestamp) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (back, rows) in [(15, &ROWS[..3]), (10, &ROWS[3..5]), (5, &ROWS[5..])] {
        let at = now.to_zoned(TimeZone::UTC).saturating_sub(back.minutes());
        let mut text = String::new();
        for row in rows {
            let time = at.strftime("%Y-%m-%dT%H:%M:%SZ");
            _ = writeln!(text, "{{{row}, \"updated_at\": \"{time}\"}}");
        }
        let minute = at.minute() / 5 * 5;
        files.push((format!("lake/products/{}/mi={minute:02}/part-0.ndjson", at.strftime("dt=%Y-%m-%d/hr=%H")), text));
    }
    files
}

const ROWS: [&str; 7] = [
    r#""id": "p1", "title": "Enamel coffee mug", "price": 12.5, "deleted": false"#,
    r#""id": "p2", "title": "Steel tea kettle", "price": 39.0, "deleted": false"#,
    r#""id": "p3", "title": "Bread knife", "price": 24.9, "deleted": false"#,
    r#""id": "p4", "title": "Cast iron pan", "price": 54.0, "deleted": false"#,
    r#""id": "p2", "title": "Steel tea kettle", "price": 35.0, "deleted": false"#,
    r#""id": "p3", "title": "Bread knife", "price": 24.9, "deleted": true"#,
    r#""id": "p5", "title": "Linen tea towel", "price": 9.9, "deleted": false"#,
];

const SQL: &str = "\
-- One row is one document; the column `id` is its key. Tables are the sources of highwater.toml.
-- Every table also has _partition (start of the file's partition) and _file (its path).
SELECT
    id,
    title,
    price,
    updated_at
FROM products
";

const TOML: &str = r#"# A highwater pipeline. `highwater check` tests this file and prints every value, defaults included.
# Lengths of time: 250ms, 90s, 5m, 1h30m, 2d. ${NAME} in a string takes an environment variable.
# Relative paths are relative to this file. A commented line shows a default.

[pipeline]
name = "NAME"                # a folder below `state`, and the label of its metrics
state = "./state"            # the batch log: a folder, or s3://bucket/prefix
step = "5m"                  # a partition's length; divides a day
window = "5h"                # how far back late and changed files are looked for; a multiple of step
# settle = "1m"              # how long after its end a partition counts as complete
# poll = "1s"                # pause between looks at the store
# time_zone = "UTC"          # of the times in paths
# hold_after = "2h30m"       # how far the window slides past the newest data; "never": by the clock alone
# max_skew = "5m"            # how far in the future a partition may start (default: one step)
# on_lag = "skip_to_latest"  # after a lag longer than the window: skip_to_latest, catch_up or halt
# max_rejects = 100          # bad rows a file may have (default: 1 % of its rows and at least 100); 0: none
# guard = { files = 10, percent = 10 }  # removals of more at once are withheld until confirmed; or "never"
# lease = "10s"              # state on S3: how long a writer's heartbeat holds, and a standby waits
# single_writer = false      # state on S3: true: you see to it that only one process writes
# max_uptime = "1d"          # `run` ends in order after so long (default: never)
# on_max_uptime = "exit"     # and then: exit, or restart in place
# memory = "2GiB"            # for tables and queries together (default: half of the machine's)

[source.products]            # the SQL's table `products`; step, window, settle, … may stand here too
location = "./lake/products" # a folder, or s3://bucket/prefix
layout = "dt=%Y-%m-%d/hr=%H/mi=%M"  # the path that names partitions; {region} would capture a column
format = "ndjson"            # parquet, ndjson, csv or avro; .gz .zst .bz2 .xz by extension
kind = "upsert"              # append: all rows; upsert: the newest row of each key; reference: no layout
key = "id"                   # upsert: a column, or a list of them
version = "updated_at"       # upsert: the greatest wins; without it the later file does
deleted = "deleted"          # upsert: a column that takes the key away when true
retain = "window"            # upsert: window (rows leave with their partition), or forever with a `start`

[source.products.columns]    # optional where there are files to learn from
id = "string"
title = "string"
price = "float64"
deleted = "bool"
updated_at = "timestamp"

# [source.products.csv]      # for format = "csv"
# header = true
# delimiter = ","
# quote = '"'
# escape = '\'               # default: a doubled quote
# null = "NULL"              # default: an empty unquoted field alone

[document]
sql = "document.sql"         # one row is one document
id = "id"                    # the column that is its key
[document.fields]            # how columns are searched, where their type does not say: text, keyword, stored
title = "text"

[index]
kind = "tantivy"
path = "./index"
# kind = "solr"              # or a collection of a SolrCloud: docs/solr.md
# url = "http://127.0.0.1:8983/solr"
# collection = "products"
# absent = "delete"          # ids that the SQL does not yield: delete, or keep (touch owned ids only)

[serve]                      # `run` answers HTTP here too
listen = "127.0.0.1:8642"

# [store."s3://bucket"]      # what the AWS environment variables do not say
# endpoint = "https://s3.example.com"
# region = "eu-central-1"
# allow_http = false
# virtual_hosted_style = false
# timeout = "30s"            # of one request, body included
"#;
