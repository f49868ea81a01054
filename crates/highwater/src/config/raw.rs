//! What the user typed: every key of the file with its place, of the right type, and nothing more. Knows nothing of
//! defaults or of rules between keys.

use std::ops::Range;

use serde_spanned::Spanned;

use super::section::{Reader, Scalar, Section, Text};

pub struct Raw {
    pub pipeline: RawPipeline,
    pub sources: Vec<RawSource>,
    pub document: RawDocument,
    pub index: RawIndex,
    pub generations: RawGenerations,
    pub gates: RawGates,
    pub serve: Option<Text>,
    pub stores: Vec<RawStore>,
}

/// Keys that stand in `[pipeline]`, and in a source for itself.
#[derive(Default)]
pub struct RawTimes {
    pub step: Option<Text>,
    pub window: Option<Text>,
    pub settle: Option<Text>,
    pub time_zone: Option<Text>,
    pub hold_after: Option<Text>,
    pub max_skew: Option<Text>,
    pub max_rejects: Option<Spanned<Scalar>>,
    pub guard: Option<RawGuard>,
}

/// `guard`: a word, or limits.
pub enum RawGuard {
    Word(Text),
    Limits { files: Option<Spanned<Scalar>>, percent: Option<Spanned<Scalar>> },
}

#[derive(Default)]
pub struct RawPipeline {
    pub name: Option<Text>,
    pub state: Option<Text>,
    pub poll: Option<Text>,
    pub on_lag: Option<Text>,
    pub lease: Option<Text>,
    pub single_writer: Option<Spanned<bool>>,
    pub max_uptime: Option<Text>,
    pub on_max_uptime: Option<Text>,
    pub memory: Option<Spanned<Scalar>>,
    pub times: RawTimes,
}

pub struct RawSource {
    pub name: Text,
    pub span: Range<usize>,
    pub location: Option<Text>,
    pub layout: Option<Text>,
    pub format: Option<Text>,
    pub kind: Option<Text>,
    pub key: Option<Spanned<Vec<Text>>>,
    pub version: Option<Text>,
    pub deleted: Option<Text>,
    pub retain: Option<Text>,
    pub start: Option<Text>,
    pub base: Option<RawBase>,
    pub backfill: Option<Spanned<Scalar>>,
    pub columns: Vec<(Text, Text)>,
    pub csv: Option<RawCsv>,
    pub times: RawTimes,
}

pub struct RawBase {
    pub span: Range<usize>,
    pub location: Option<Text>,
    pub layout: Option<Text>,
    pub settle: Option<Text>,
    pub margin: Option<Text>,
}

pub struct RawCsv {
    pub span: Range<usize>,
    pub header: Option<bool>,
    pub delimiter: Option<Text>,
    pub quote: Option<Text>,
    pub escape: Option<Text>,
    pub null: Option<Text>,
}

#[derive(Default)]
pub struct RawDocument {
    pub sql: Option<Text>,
    pub id: Option<Text>,
    pub fields: Vec<(Text, Text)>,
}

#[derive(Default)]
pub struct RawIndex {
    pub span: Range<usize>,
    pub kind: Option<Text>,
    pub path: Option<Text>,
    pub url: Option<Spanned<Vec<Text>>>,
    pub collection: Option<Text>,
    pub shards: Option<Spanned<Scalar>>,
    pub replicas: Option<Spanned<Scalar>>,
    pub configset: Option<Text>,
    pub auth: Option<RawAuth>,
    pub absent: Option<Text>,
}

#[derive(Default)]
pub struct RawGenerations {
    pub keep_hot: Option<Text>,
    pub rebuild_every: Option<Text>,
    pub rebuild_on_change: Option<bool>,
}

#[derive(Default)]
pub struct RawGates {
    pub documents: Option<Spanned<Scalar>>,
    pub fill: Option<Spanned<Scalar>>,
    pub queries: Option<Spanned<Vec<Text>>>,
    pub at: Option<Spanned<Scalar>>,
    pub overlap: Option<Spanned<Scalar>>,
}

pub struct RawAuth {
    pub span: Range<usize>,
    pub user: Option<Text>,
    pub password: Option<Text>,
    pub bearer: Option<Text>,
    /// A value stands there and could not be read, which was told.
    pub is_broken: bool,
}

pub struct RawStore {
    pub url: Text,
    pub endpoint: Option<Text>,
    pub region: Option<Text>,
    pub allow_http: Option<bool>,
    pub virtual_hosted_style: Option<bool>,
    pub timeout: Option<Text>,
}

impl Raw {
    /// Reads the whole file; what it cannot use stands in the reader's findings.
    pub fn read(reader: &mut Reader<'_>, mut file: Section<'_>) -> Self {
        let pipeline = needed(reader, &mut file, "pipeline").map(|section| read_pipeline(reader, section));
        let sources = read_sources(reader, &mut file);
        let document = needed(reader, &mut file, "document").map(|section| read_document(reader, section));
        let index = needed(reader, &mut file, "index").map(|section| read_index(reader, section));
        let generations = file.section(reader, "generations").map(|section| read_generations(reader, section));
        let gates = file.section(reader, "gates").map(|section| read_gates(reader, section));
        let serve = file.section(reader, "serve").and_then(|mut section| {
            let listen = section.need(reader, "listen", "listen = \"127.0.0.1:8642\"");
            section.finish(reader);
            listen
        });
        let stores = read_stores(reader, &mut file);
        file.finish(reader);
        Self {
            pipeline: pipeline.unwrap_or_default(),
            sources,
            document: document.unwrap_or_default(),
            index: index.unwrap_or_default(),
            generations: generations.unwrap_or_default(),
            gates: gates.unwrap_or_default(),
            serve,
            stores,
        }
    }
}

fn needed<'t>(reader: &mut Reader<'_>, file: &mut Section<'t>, key: &'static str) -> Option<Section<'t>> {
    if !file.has(key) {
        let fix = match key {
            "pipeline" => "add it, with name, state, step and window",
            "document" => "add it, with sql and id",
            _ => "add it, with kind = \"tantivy\" and path",
        };
        reader.found.problem(0..0, format!("[{key}] is missing"), fix);
    }
    file.section(reader, key)
}

fn read_pipeline(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawPipeline {
    let raw = RawPipeline {
        name: section.need(reader, "name", "name = \"ads\""),
        state: section.need(reader, "state", "state = \"./state\""),
        times: RawTimes {
            step: section.need(reader, "step", "step = \"5m\""),
            window: section.need(reader, "window", "window = \"5h\""),
            ..read_times(reader, &mut section)
        },
        poll: section.text(reader, "poll", "poll = \"1s\""),
        on_lag: section.text(reader, "on_lag", "on_lag = \"skip_to_latest\""),
        lease: section.text(reader, "lease", "lease = \"10s\""),
        single_writer: section.spanned_flag(reader, "single_writer"),
        max_uptime: section.text(reader, "max_uptime", "max_uptime = \"1d\""),
        on_max_uptime: section.text(reader, "on_max_uptime", "on_max_uptime = \"exit\""),
        memory: section.scalar(reader, "memory", "memory = \"2GiB\""),
    };
    section.finish(reader);
    raw
}

fn read_times(reader: &mut Reader<'_>, section: &mut Section<'_>) -> RawTimes {
    RawTimes {
        step: None,
        window: None,
        settle: section.text(reader, "settle", "settle = \"1m\""),
        time_zone: section.text(reader, "time_zone", "time_zone = \"UTC\""),
        hold_after: section.text(reader, "hold_after", "hold_after = \"2h\", or \"never\""),
        max_skew: section.text(reader, "max_skew", "max_skew = \"5m\""),
        max_rejects: section.scalar(reader, "max_rejects", "max_rejects = 100"),
        guard: read_guard(reader, section),
    }
}

fn read_guard(reader: &mut Reader<'_>, section: &mut Section<'_>) -> Option<RawGuard> {
    if !section.has_table("guard") {
        let example = "guard = { files = 10, percent = 10 }, or \"never\"";
        return section.text(reader, "guard", example).map(RawGuard::Word);
    }
    let mut limits = section.section(reader, "guard")?;
    let files = limits.scalar(reader, "files", "files = 10");
    let percent = limits.scalar(reader, "percent", "percent = 10");
    limits.finish(reader);
    Some(RawGuard::Limits { files, percent })
}

fn read_sources(reader: &mut Reader<'_>, file: &mut Section<'_>) -> Vec<RawSource> {
    let mut sources = Vec::new();
    let section = file.section(reader, "source");
    let found_none = !file.has("source");
    if let Some(mut section) = section {
        for (name, source) in section.sections(reader) {
            sources.push(read_source(reader, name, source));
        }
        if sources.is_empty() {
            reader.found.problem(section.span.clone(), "no source is given", "add a [source.NAME]");
        }
    } else if found_none {
        reader.found.problem(0..0, "no source is given", "add a [source.NAME]");
    }
    sources
}

fn read_source(reader: &mut Reader<'_>, name: Text, mut section: Section<'_>) -> RawSource {
    let raw = RawSource {
        name,
        span: section.span.clone(),
        location: section.need(reader, "location", "location = \"s3://bucket/prefix\", or a folder"),
        layout: section.text(reader, "layout", "layout = \"dt=%Y-%m-%d/hr=%H/mi=%M\""),
        format: section.need(reader, "format", "format = \"parquet\" (parquet, ndjson, csv or avro)"),
        kind: section.need(reader, "kind", "kind = \"append\" (append, upsert or reference)"),
        key: section.texts(reader, "key", "key = \"id\", or a list of columns"),
        version: section.text(reader, "version", "version = \"updated_at\""),
        deleted: section.text(reader, "deleted", "deleted = \"deleted\""),
        retain: section.text(reader, "retain", "retain = \"window\""),
        start: section.time(reader, "start", "start = \"2026-05-01T00:00:00Z\""),
        backfill: section.scalar(reader, "backfill", "backfill = \"64MiB\", or \"never\""),
        base: section.section(reader, "base").map(|base| read_base(reader, base)),
        columns: match section.section(reader, "columns") {
            Some(mut columns) => columns.entries(reader, "a type, as in \"string\" or \"list<int64>\""),
            None => Vec::new(),
        },
        csv: section.section(reader, "csv").map(|csv| read_csv(reader, csv)),
        times: RawTimes {
            step: section.text(reader, "step", "step = \"5m\""),
            window: section.text(reader, "window", "window = \"5h\""),
            ..read_times(reader, &mut section)
        },
    };
    section.finish(reader);
    raw
}

fn read_base(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawBase {
    let raw = RawBase {
        span: section.span.clone(),
        location: section.need(reader, "location", "location = \"s3://bucket/prefix\", or a folder"),
        layout: section.need(reader, "layout", "layout = \"dt=%Y-%m-%d\", the folder that names a snapshot"),
        settle: section.text(reader, "settle", "settle = \"6h\""),
        margin: section.text(reader, "margin", "margin = \"1h\""),
    };
    section.finish(reader);
    raw
}

fn read_csv(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawCsv {
    let raw = RawCsv {
        span: section.span.clone(),
        header: section.flag(reader, "header"),
        delimiter: section.text(reader, "delimiter", "delimiter = \",\""),
        quote: section.text(reader, "quote", "quote = '\"'"),
        escape: section.text(reader, "escape", "escape = '\\'"),
        null: section.text(reader, "null", "null = \"NULL\""),
    };
    section.finish(reader);
    raw
}

fn read_document(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawDocument {
    let raw = RawDocument {
        sql: section.need(reader, "sql", "sql = \"document.sql\""),
        id: section.need(reader, "id", "id = \"id\""),
        fields: match section.section(reader, "fields") {
            Some(mut fields) => fields.entries(reader, "\"text\", \"keyword\" or \"stored\""),
            None => Vec::new(),
        },
    };
    section.finish(reader);
    raw
}

fn read_index(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawIndex {
    let raw = RawIndex {
        span: section.span.clone(),
        kind: section.need(reader, "kind", "kind = \"tantivy\" (tantivy or solr)"),
        path: section.text(reader, "path", "path = \"./index\""),
        url: section.texts(reader, "url", "url = \"http://127.0.0.1:8983/solr\", or a list of nodes"),
        collection: section.text(reader, "collection", "collection = \"products\""),
        shards: section.scalar(reader, "shards", "shards = 2"),
        replicas: section.scalar(reader, "replicas", "replicas = 2"),
        configset: section.text(reader, "configset", "configset = \"products\""),
        auth: section.section(reader, "auth").map(|auth| read_auth(reader, auth)),
        absent: section.text(reader, "absent", "absent = \"delete\""),
    };
    section.finish(reader);
    raw
}

fn read_generations(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawGenerations {
    let raw = RawGenerations {
        keep_hot: section.text(reader, "keep_hot", "keep_hot = \"1h\""),
        rebuild_every: section.text(reader, "rebuild_every", "rebuild_every = \"24h\""),
        rebuild_on_change: section.flag(reader, "rebuild_on_change"),
    };
    section.finish(reader);
    raw
}

fn read_gates(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawGates {
    let raw = RawGates {
        documents: section.scalar(reader, "documents", "documents = \"10%\""),
        fill: section.scalar(reader, "fill", "fill = \"5%\""),
        queries: section.texts(reader, "queries", "queries = [\"red shoes\"]"),
        at: section.scalar(reader, "at", "at = 10"),
        overlap: section.scalar(reader, "overlap", "overlap = \"60%\""),
    };
    section.finish(reader);
    raw
}

fn read_auth(reader: &mut Reader<'_>, mut section: Section<'_>) -> RawAuth {
    let mut raw = RawAuth {
        is_broken: false,
        span: section.span.clone(),
        user: section.text(reader, "user", "user = \"highwater\""),
        password: section.text(reader, "password", "password = \"${SOLR_PASSWORD}\""),
        bearer: section.text(reader, "bearer", "bearer = \"${SOLR_TOKEN}\""),
    };
    raw.is_broken = [("user", &raw.user), ("password", &raw.password), ("bearer", &raw.bearer)]
        .iter()
        .any(|(key, value)| section.has(key) && value.is_none());
    section.finish(reader);
    raw
}

fn read_stores(reader: &mut Reader<'_>, file: &mut Section<'_>) -> Vec<RawStore> {
    let mut stores = Vec::new();
    let Some(mut section) = file.section(reader, "store") else { return stores };
    for (url, mut store) in section.sections(reader) {
        stores.push(RawStore {
            url,
            endpoint: store.text(reader, "endpoint", "endpoint = \"https://s3.example.com\""),
            region: store.text(reader, "region", "region = \"eu-central-1\""),
            allow_http: store.flag(reader, "allow_http"),
            virtual_hosted_style: store.flag(reader, "virtual_hosted_style"),
            timeout: store.text(reader, "timeout", "timeout = \"30s\""),
        });
        store.finish(reader);
    }
    stores
}
