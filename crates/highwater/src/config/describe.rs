//! The resolved configuration, told: every value with where it came from, as TOML that loads to the same and as JSON.

use std::fmt;
use std::fmt::Write as _;

use highwater_core::policy::GuardLimit;
use schemars::JsonSchema;
use serde::Serialize;
use toml::Value;

use super::duration::format_duration;
use super::model::{
    Absent, Config, FieldHint, IndexKind, MaxRejects, OnLag, OnMaxUptime, Retain, SolrAuth, SolrConfig, SourceConfig,
    TableKind,
};
use super::size::format_size;
use super::substitute::escape;
use crate::format::FileFormat;

/// Stands where a secret would.
const MASK: &str = "***";

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It stands in the file.
    File,
    /// It stands in `[pipeline]`, or follows from what stands there.
    Pipeline,
    /// Nothing in the file sets it.
    Default,
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The sections around it, outermost first.
    pub section: Vec<String>,
    /// Its name.
    pub key: String,
    /// Its value as the file would write it; `None` where only leaving it out says it.
    pub value: Option<Value>,
    /// Where it came from.
    pub origin: Origin,
}

/// `check --json`: every resolved value, in the notation of `highwater.toml`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Description {
    /// Values by section and key.
    pub config: serde_json::Value,
    /// The keys that the file leaves to their defaults, as `section.key`.
    pub defaults: Vec<String>,
}

impl Config {
    /// Every setting, in the order of the documentation.
    pub fn settings(&self) -> Vec<Setting> {
        let mut list = List { config: self, settings: Vec::new(), section: vec!["pipeline".into()] };
        list.pipeline();
        for source in self.sources.values() {
            list.source(source);
        }
        list.document();
        list.index();
        list.generations();
        if let Some(serve) = &self.serve {
            list.section = vec!["serve".into()];
            list.text("listen", &serve.listen.to_string());
        }
        for (url, store) in &self.stores {
            list.section = vec!["store".into(), url.clone()];
            list.texts([("endpoint", store.endpoint.as_deref()), ("region", store.region.as_deref())]);
            for (key, flag) in [("allow_http", store.allow_http), ("virtual_hosted_style", store.virtual_hosted_style)]
            {
                if let Some(flag) = flag {
                    list.put(key, Value::Boolean(flag));
                }
            }
            if let Some(timeout) = store.timeout {
                list.text("timeout", &pause(timeout));
            }
        }
        list.settings
    }

    /// Every setting as a configuration file that loads to the same values, defaults marked.
    pub fn resolved_toml(&self) -> String {
        let mut text = String::new();
        let mut section = Vec::new();
        for setting in self.settings() {
            if setting.section != section {
                let header: Vec<String> = setting.section.iter().map(|name| bare_or_quoted(name)).collect();
                _ = writeln!(text, "{}[{}]", if text.is_empty() { "" } else { "\n" }, header.join("."));
                section.clone_from(&setting.section);
            }
            _ = writeln!(text, "{setting}");
        }
        text
    }

    /// Every setting for programs.
    pub fn describe(&self) -> Description {
        let mut config = serde_json::Value::Null;
        let mut defaults = Vec::new();
        for setting in self.settings() {
            if setting.origin == Origin::Default {
                defaults.push(format!("{}.{}", setting.section.join("."), setting.key));
            }
            let mut at = &mut config;
            for name in &setting.section {
                at = &mut at[name.as_str()];
            }
            at[setting.key.as_str()] = serde_json::to_value(setting.value).unwrap_or_default();
        }
        Description { config, defaults }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = bare_or_quoted(&self.key);
        let Some(value) = &self.value else {
            return write!(f, "# {key} is left out: 1 % of a file's rows and at least 100  # default");
        };
        let line = format!("{key} = {value}");
        match self.origin {
            Origin::File => f.write_str(&line),
            Origin::Pipeline => write!(f, "{line:<40}  # from [pipeline]"),
            Origin::Default => write!(f, "{line:<40}  # default"),
        }
    }
}

struct List<'a> {
    config: &'a Config,
    settings: Vec<Setting>,
    section: Vec<String>,
}

impl List<'_> {
    fn pipeline(&mut self) {
        let pipeline = &self.config.pipeline;
        self.text("name", &pipeline.name);
        self.text("state", pipeline.state.to_string().trim_end_matches('/'));
        self.text("step", &format_duration(pipeline.step));
        self.text("window", &format_duration(pipeline.window));
        self.text("poll", &pause(pipeline.poll));
        self.text(
            "on_lag",
            match pipeline.on_lag {
                OnLag::SkipToLatest => "skip_to_latest",
                OnLag::CatchUp => "catch_up",
                OnLag::Halt => "halt",
            },
        );
        self.text("lease", &pause(pipeline.lease));
        self.put("single_writer", Value::Boolean(pipeline.single_writer));
        if let Some(max_uptime) = pipeline.max_uptime {
            self.text("max_uptime", &pause(max_uptime));
        }
        self.text(
            "on_max_uptime",
            match pipeline.on_max_uptime {
                OnMaxUptime::Exit => "exit",
                OnMaxUptime::Restart => "restart",
            },
        );
        self.text("memory", &format_size(pipeline.memory_bytes));
    }

    fn source(&mut self, source: &SourceConfig) {
        self.section = vec!["source".into(), source.name.to_string()];
        self.text("location", source.location.to_string().trim_end_matches('/'));
        self.texts([("layout", source.layout.as_deref())]);
        self.text(
            "format",
            match source.format {
                FileFormat::Parquet => "parquet",
                FileFormat::Ndjson => "ndjson",
                FileFormat::Csv => "csv",
                FileFormat::Avro => "avro",
            },
        );
        self.kind(&source.kind);
        if source.kind == TableKind::Reference {
            self.text("settle", &format_duration(source.settle));
        } else {
            self.text("step", &format_duration(source.step));
            self.text("window", &format_duration(source.window));
            self.text("settle", &format_duration(source.settle));
            self.text("time_zone", source.time_zone.iana_name().unwrap_or("UTC"));
            self.text("hold_after", &source.hold_after.map_or("never".into(), format_duration));
            self.text("max_skew", &format_duration(source.max_skew));
        }
        let rejects = match source.max_rejects {
            MaxRejects::Rows(rows) => Some(Value::Integer(i64::try_from(rows).unwrap_or(i64::MAX))),
            MaxRejects::Default => None,
        };
        self.set("max_rejects", rejects);
        self.put("guard", guard(source.guard));
        self.dialect(source);
        self.base(source);
        if !source.columns.is_empty() {
            self.section = vec!["source".into(), source.name.to_string(), "columns".into()];
            for (name, kind) in &source.columns {
                self.text(name, &kind.to_string());
            }
        }
    }

    fn kind(&mut self, kind: &TableKind) {
        let TableKind::Upsert { key, version, deleted, retain, backfill } = kind else {
            return self.text("kind", if *kind == TableKind::Append { "append" } else { "reference" });
        };
        self.text("kind", "upsert");
        self.put("key", Value::Array(key.iter().map(|column| Value::String(escape(column))).collect()));
        self.texts([("version", version.as_deref()), ("deleted", deleted.as_deref())]);
        match retain {
            Retain::Window => self.text("retain", "window"),
            Retain::Forever { start } => {
                self.text("retain", "forever");
                self.text("start", &start.to_string());
            }
            Retain::Based(_) => self.text("retain", "forever"),
        }
        if *retain != Retain::Window {
            self.text("backfill", &backfill.map_or_else(|| "never".into(), format_size));
        }
    }

    fn base(&mut self, source: &SourceConfig) {
        let Some(base) = source.base() else { return };
        self.section = vec!["source".into(), source.name.to_string(), "base".into()];
        self.text("location", &base.location.to_string());
        self.text("layout", &base.layout);
        self.text("settle", &format_duration(base.settle));
        self.text("margin", &format_duration(base.margin));
    }

    fn dialect(&mut self, source: &SourceConfig) {
        if source.format != FileFormat::Csv {
            return;
        }
        self.section = vec!["source".into(), source.name.to_string(), "csv".into()];
        self.put("header", Value::Boolean(source.csv.header));
        self.text("delimiter", &char::from(source.csv.delimiter).to_string());
        self.text("quote", &char::from(source.csv.quote).to_string());
        let escape = source.csv.escape.map(|byte| char::from(byte).to_string());
        self.texts([("escape", escape.as_deref()), ("null", source.csv.null.as_deref())]);
    }

    fn document(&mut self) {
        let document = &self.config.document;
        self.section = vec!["document".into()];
        self.text("sql", &document.sql_file.display().to_string());
        self.text("id", &document.id);
        self.section = vec!["document".into(), "fields".into()];
        for (name, hint) in &document.fields {
            self.text(
                name,
                match hint {
                    FieldHint::Text => "text",
                    FieldHint::Keyword => "keyword",
                    FieldHint::Stored => "stored",
                },
            );
        }
    }

    fn index(&mut self) {
        self.section = vec!["index".into()];
        match &self.config.index.kind {
            IndexKind::Tantivy { path } => {
                self.text("kind", "tantivy");
                self.text("path", &path.display().to_string());
            }
            IndexKind::Solr(solr) => {
                self.text("kind", "solr");
                self.put("url", Value::Array(solr.urls.iter().map(|url| Value::String(escape(url))).collect()));
                self.text("collection", &solr.collection);
                self.put("shards", Value::Integer(solr.shards.into()));
                self.put("replicas", Value::Integer(solr.replicas.into()));
                self.texts([("configset", solr.configset.as_deref())]);
            }
        }
        self.text(
            "absent",
            match self.config.index.absent {
                Absent::Delete => "delete",
                Absent::Keep => "keep",
            },
        );
        let IndexKind::Solr(SolrConfig { auth: Some(auth), .. }) = &self.config.index.kind else { return };
        self.section.push("auth".into());
        match auth {
            SolrAuth::Basic { user, .. } => self.texts([("user", Some(user)), ("password", Some(MASK))]),
            SolrAuth::Bearer(_) => self.text("bearer", MASK),
        }
    }

    fn generations(&mut self) {
        let generations = &self.config.generations;
        self.section = vec!["generations".into()];
        self.text("keep_hot", &format_duration(generations.keep_hot));
        if let Some(every) = generations.rebuild_every {
            self.text("rebuild_every", &format_duration(every));
        }
        self.put("rebuild_on_change", Value::Boolean(generations.rebuild_on_change));
        let gates = &generations.gates;
        self.section = vec!["gates".into()];
        self.text("documents", &format!("{}%", gates.documents_percent));
        self.text("fill", &format!("{}%", gates.fill_percent));
        self.put("queries", Value::Array(gates.queries.iter().map(|query| Value::String(escape(query))).collect()));
        self.put("at", Value::Integer(i64::try_from(gates.queries_at).unwrap_or(i64::MAX)));
        self.text("overlap", &format!("{}%", gates.overlap_percent));
    }

    fn texts<const N: usize>(&mut self, pairs: [(&str, Option<&str>); N]) {
        for (key, value) in pairs {
            if let Some(value) = value {
                self.text(key, value);
            }
        }
    }

    fn text(&mut self, key: &str, value: &str) {
        self.put(key, Value::String(escape(value)));
    }

    fn put(&mut self, key: &str, value: Value) {
        self.set(key, Some(value));
    }

    fn set(&mut self, key: &str, value: Option<Value>) {
        let given = &self.config.given;
        let path = format!("{}.{key}", self.section.join("."));
        // Half the window and one step follow from what is given, yet nobody gave them.
        let origin = match () {
            () if given.contains(&path) => Origin::File,
            () if self.section[0] == "source" && given.contains(&format!("pipeline.{key}")) => Origin::Pipeline,
            () => Origin::Default,
        };
        self.settings.push(Setting { section: self.section.clone(), key: key.into(), value, origin });
    }
}

fn guard(limit: Option<GuardLimit>) -> Value {
    let Some(GuardLimit { files, percent }) = limit else { return Value::String("never".into()) };
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    Value::Table([("files".into(), number(files)), ("percent".into(), number(percent))].into_iter().collect())
}

fn pause(length: std::time::Duration) -> String {
    format_duration(jiff::SignedDuration::try_from(length).unwrap_or(jiff::SignedDuration::MAX))
}

fn bare_or_quoted(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.into() } else { Value::String(key.into()).to_string() }
}
