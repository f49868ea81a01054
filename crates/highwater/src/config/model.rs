//! The resolved configuration: every value set, every name checked. What the user typed stands in `raw`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use highwater_core::policy::GuardLimit;
use highwater_core::{SourceName, Timestamp};
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::problem::Problem;
use crate::format::{ColumnType, CsvOptions, FileFormat};

/// A pipeline, ready to open.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file that it came from.
    pub file: PathBuf,
    /// `[pipeline]`.
    pub pipeline: PipelineConfig,
    /// `[source.*]`, by name.
    pub sources: BTreeMap<SourceName, SourceConfig>,
    /// `[document]`.
    pub document: DocumentConfig,
    /// `[index]`.
    pub index: IndexConfig,
    /// `[generations]` and `[gates]`.
    pub generations: GenerationsConfig,
    /// `[serve]`, where it stands.
    pub serve: Option<ServeConfig>,
    /// `[store."s3://bucket"]`, by that URL.
    pub stores: BTreeMap<String, StoreConfig>,
    /// What works and may not be meant.
    pub warnings: Vec<Problem>,
    /// Every key that the file holds, as `section.key`; the others have their defaults.
    pub given: BTreeSet<String>,
}

/// `[pipeline]`.
#[derive(Clone, Debug)]
pub struct PipelineConfig {
    /// Its name: a folder below `state`, and a label.
    pub name: String,
    /// Where the log lives.
    pub state: Location,
    /// A partition's length, where a source says nothing else.
    pub step: SignedDuration,
    /// How far behind the watermark a source is looked at, where it says nothing else.
    pub window: SignedDuration,
    /// Pause between ticks.
    pub poll: Duration,
    /// What to do after a lag that the window does not cover.
    pub on_lag: OnLag,
    /// How long a heartbeat holds.
    pub lease: Duration,
    /// The user sees to it that only one process writes: no heartbeat, no probe of the store.
    pub single_writer: bool,
    /// How long `run` goes on before it ends in order.
    pub max_uptime: Option<Duration>,
    /// And what it does then.
    pub on_max_uptime: OnMaxUptime,
    /// Bytes of memory for tables and queries together.
    pub memory_bytes: u64,
}

/// `on_lag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLag {
    /// Jump to the newest state and write the hole down.
    SkipToLatest,
    /// Move the watermark by a bounded amount a batch.
    CatchUp,
    /// Stop with exit code 3.
    Halt,
}

/// `on_max_uptime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMaxUptime {
    /// End with exit code 0: a supervisor starts it again.
    Exit,
    /// Begin anew in the same process, with empty caches.
    Restart,
}

/// Where files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder of this machine, absolute.
    Folder(PathBuf),
    /// A prefix of a bucket, without slashes at its ends (`""`: the whole bucket).
    S3 {
        /// The bucket.
        bucket: String,
        /// Key prefix.
        prefix: String,
    },
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// `[store."s3://bucket"]`: what the AWS environment variables do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreConfig {
    /// Base URL of the service.
    pub endpoint: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Plain HTTP is fine.
    pub allow_http: Option<bool>,
    /// `bucket.host` instead of `host/bucket`.
    pub virtual_hosted_style: Option<bool>,
    /// How long one request may take, body included.
    pub timeout: Option<Duration>,
}

/// `[source.NAME]`.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Its name in the SQL.
    pub name: SourceName,
    /// Where its files are.
    pub location: Location,
    /// The path template below the location, as written; `None` for a reference source.
    pub layout: Option<String>,
    /// How its files are written.
    pub format: FileFormat,
    /// For CSV.
    pub csv: CsvOptions,
    /// What its rows mean.
    pub kind: TableKind,
    /// `columns`, in the order written.
    pub columns: Vec<(String, ColumnType)>,
    /// A partition's length.
    pub step: SignedDuration,
    /// How far behind the watermark it is looked at.
    pub window: SignedDuration,
    /// How long after its end a partition counts as complete.
    pub settle: SignedDuration,
    /// Zone of the times in its paths.
    pub time_zone: TimeZone,
    /// How far the window slides past the newest data; `None`: never held (`hold_after = "never"`).
    pub hold_after: Option<SignedDuration>,
    /// How far in the future a partition may start.
    pub max_skew: SignedDuration,
    /// How many bad rows a file may have before it is quarantined.
    pub max_rejects: MaxRejects,
    /// How many files may vanish at once before their removal is withheld; `None`: any number (`guard = "never"`).
    pub guard: Option<GuardLimit>,
}

/// `kind` and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// All rows of the live files.
    Append,
    /// The newest row of each key.
    Upsert {
        /// Key columns.
        key: Vec<String>,
        /// Version column.
        version: Option<String>,
        /// Column that says that the key is gone.
        deleted: Option<String>,
        /// How long rows stay.
        retain: Retain,
        /// How many bytes of files in holes a batch reads, where rows stay; `None`: none without an order.
        backfill: Option<u64>,
    },
    /// All rows of all files, without time.
    Reference,
}

/// `retain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retain {
    /// Rows leave with their partition.
    Window,
    /// Rows since `start` stay.
    Forever {
        /// The first partition is the one that holds this instant.
        start: Timestamp,
    },
    /// Rows of the newest usable base snapshot, and of the partitions since, stay.
    Based(BaseConfig),
}

/// `[source.*.base]`: full snapshots of the table, a folder a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseConfig {
    /// Where the snapshots are.
    pub location: Location,
    /// The path template that names them by time.
    pub layout: String,
    /// How long after its time a snapshot counts as complete, where no newer one exists.
    pub settle: SignedDuration,
    /// How far before a snapshot's time the partitions begin that are read besides it.
    pub margin: SignedDuration,
}

/// `max_rejects`: a file past both bounds is quarantined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxRejects {
    /// 1 % of a file's rows, and at least 100.
    Default,
    /// So many rows.
    Rows(u64),
}

/// `[document]`.
#[derive(Clone, Debug)]
pub struct DocumentConfig {
    /// Text of the SQL.
    pub sql: String,
    /// The file that holds it.
    pub sql_file: PathBuf,
    /// The column that is the document's key.
    pub id: String,
    /// `[document.fields]`.
    pub fields: BTreeMap<String, FieldHint>,
}

/// How a column is to be searched, where its type alone does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldHint {
    /// Tokenized text, in the default search.
    Text,
    /// One exact term.
    Keyword,
    /// Kept in the document, not searchable.
    Stored,
}

/// `[index]`.
#[derive(Clone, Debug)]
pub struct IndexConfig {
    /// Which sink, and where.
    pub kind: IndexKind,
    /// What happens to ids that the SQL does not yield.
    pub absent: Absent,
}

/// `[index] kind` and what belongs to it.
#[derive(Clone, Debug)]
pub enum IndexKind {
    /// An embedded index in a folder.
    Tantivy {
        /// The folder.
        path: PathBuf,
    },
    /// A collection of a SolrCloud.
    Solr(SolrConfig),
}

/// `[index] kind = "solr"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SolrConfig {
    /// Base URLs of the nodes (`http://host:8983/solr`), without a slash behind; any of them is asked.
    pub urls: Vec<String>,
    /// The collection, or an alias of one.
    pub collection: String,
    /// How many shards it gets where it is created.
    pub shards: u32,
    /// How many replicas each shard gets where it is created.
    pub replicas: u32,
    /// The configset that it is created by; `None`: highwater's own is uploaded.
    pub configset: Option<String>,
    /// Who asks.
    pub auth: Option<SolrAuth>,
}

/// `[index] auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SolrAuth {
    /// HTTP basic authentication.
    Basic {
        /// The user.
        user: String,
        /// Its password.
        password: Secret,
    },
    /// A bearer token.
    Bearer(Secret),
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// `[index] absent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// The index holds exactly the documents of the SQL.
    Delete,
    /// Only owned ids (with a row, live or deleted, in the tables) are touched.
    Keep,
}

/// `[generations]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationsConfig {
    /// How long a generation that was live is kept fresh, for a rollback.
    pub keep_hot: SignedDuration,
    /// How often a rebuild is begun, and promoted if its gates pass.
    pub rebuild_every: Option<SignedDuration>,
    /// A rebuild is begun, and promoted if its gates pass, where the index cannot hold what the configuration asks for.
    pub rebuild_on_change: bool,
    /// `[gates]`.
    pub gates: GatesConfig,
}

/// `[gates]`: what a candidate has to stand before it may be live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatesConfig {
    /// By how much its number of documents may be another than the live one's.
    pub documents_percent: u32,
    /// How many points of a field's values may be lost.
    pub fill_percent: u32,
    /// Queries whose hits are compared.
    pub queries: Vec<String>,
    /// How many hits of each.
    pub queries_at: usize,
    /// How much of the live one's hits have to be found again.
    pub overlap_percent: u8,
}

impl Default for GenerationsConfig {
    fn default() -> Self {
        Self {
            keep_hot: SignedDuration::from_hours(1),
            rebuild_every: None,
            rebuild_on_change: false,
            gates: GatesConfig::default(),
        }
    }
}

impl Default for GatesConfig {
    fn default() -> Self {
        Self { documents_percent: 10, fill_percent: 5, queries: Vec::new(), queries_at: 10, overlap_percent: 60 }
    }
}

/// `[serve]`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where HTTP listens.
    pub listen: SocketAddr,
}
