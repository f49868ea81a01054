//! What a generation is built by: frozen table schemas, SQL and the documents' shape. Kept in the log, opaque to the core.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use highwater_core::SourceName;
use highwater_core::ports::Fault;
use serde::{Deserialize, Serialize};

use crate::config::{Absent, Config, FieldHint, SourceConfig, TableKind};
use crate::format::{self, ColumnType, FileSchema};
use crate::index::Shape;
use crate::transform::{Compiled, SqlProblem, SqlSpec, compile};

/// The rules by which a row becomes a document and its hash; a change of them rewrites every document.
pub const SPEC_VERSION: u32 = 1;

/// A generation's spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// See [`SPEC_VERSION`].
    pub version: u32,
    /// The document SQL.
    pub sql: String,
    /// Whether the SQL uses `$watermark`.
    #[serde(default)]
    pub reads_watermark: bool,
    /// All that the configuration says of how documents are computed, as one text: another one means that every document
    /// has to be compared.
    pub definition: String,
    /// Columns of the files of each source, in order. Captured columns are not among them.
    pub sources: BTreeMap<SourceName, Vec<(String, ColumnType)>>,
    /// What the index holds.
    pub shape: Shape,
    /// What the configuration said of its fields; `None` in specs of old, which cannot outlive a change of shape.
    #[serde(default)]
    pub hints: Option<BTreeMap<String, FieldHint>>,
}

/// A spec that is ready to compute documents.
#[derive(Debug)]
pub struct Ready {
    /// What is written down.
    pub spec: Spec,
    /// Schemas of the files, by source.
    pub file_schemas: BTreeMap<SourceName, SchemaRef>,
    /// Schemas of the tables: the files' and the captured columns.
    pub table_schemas: BTreeMap<SourceName, SchemaRef>,
    /// The checked SQL.
    pub compiled: Compiled,
}

/// Why a spec cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A source with nothing to learn its columns from: there is no file, or none that can be read.
    #[error(
        "source {name} has no file to learn its columns from{unreadable}: state them in [source.{name}] as \
         columns = {{ … }}, or add a file"
    )]
    NoColumns {
        /// The source.
        name: SourceName,
        /// The files that there are and why they cannot be read; empty if there is none.
        unreadable: String,
    },
    /// A key, version or deleted column that the files do not have.
    #[error("source {name}: its {role} column {column:?} is not among the columns of its files ({known})")]
    MissingColumn {
        /// The source.
        name: SourceName,
        /// `key`, `version` or `deleted`.
        role: &'static str,
        /// What the configuration names.
        column: String,
        /// What there is.
        known: String,
    },
    /// The SQL does not fit the tables.
    #[error("{}", problems(.0))]
    Sql(Vec<SqlProblem>),
}

fn problems(problems: &[SqlProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<SpecError> for Fault {
    fn from(error: SpecError) -> Self {
        let message = error.to_string();
        match error {
            // Files may come, or be mended, while a pipeline runs.
            SpecError::NoColumns { .. } => Fault::Data(message),
            SpecError::MissingColumn { .. } | SpecError::Sql(_) => Fault::Invalid(message),
        }
    }
}

/// What files taught of their columns.
#[derive(Debug, Default)]
pub struct Learnt {
    /// By source, of all its files that could be read.
    pub schemas: BTreeMap<SourceName, FileSchema>,
    /// Files that could not be read, as `path: reason`, by source.
    pub unreadable: BTreeMap<SourceName, Vec<String>>,
}

impl Learnt {
    fn nothing_of(&self, name: &SourceName) -> SpecError {
        let unreadable = self.unreadable.get(name).map(|files| format!(" ({})", files.join("; ")));
        SpecError::NoColumns { name: name.clone(), unreadable: unreadable.unwrap_or_default() }
    }
}

/// Freezes the schemas of a first batch: what the configuration declares, and what was learnt of the files.
pub fn make(config: &Config, learnt: &Learnt) -> Result<Ready, SpecError> {
    let mut columns = BTreeMap::new();
    for (name, source) in &config.sources {
        let schema = learnt.schemas.get(name);
        if schema.is_none() && source.columns.is_empty() {
            return Err(learnt.nothing_of(name));
        }
        let schema = format::freeze(&source.columns, schema);
        columns.insert(name.clone(), format::schema_types(&schema));
    }
    ready(config, columns)
}

/// Takes up the frozen schemas of an existing generation. Columns that the configuration declares otherwise now win.
pub fn resume(config: &Config, spec: &Spec, learnt: &Learnt) -> Result<Ready, SpecError> {
    let mut columns = BTreeMap::new();
    for (name, source) in &config.sources {
        let mut frozen = match (spec.sources.get(name), learnt.schemas.get(name)) {
            (Some(frozen), _) => frozen.clone(),
            (None, None) if source.columns.is_empty() => return Err(learnt.nothing_of(name)),
            (None, schema) => format::schema_types(&format::freeze(&source.columns, schema)),
        };
        for (column, kind) in &source.columns {
            match frozen.iter_mut().find(|(name, _)| name == column) {
                Some((_, known)) => known.clone_from(kind),
                None => frozen.push((column.clone(), kind.clone())),
            }
        }
        columns.insert(name.clone(), frozen);
    }
    ready(config, columns)
}

/// The way out of [`Spec::refusal`].
pub const OTHER_SHAPE: &str = "`run` and `once` go on with the old shape: `highwater rebuild --promote` builds an index of \
                               the new one beside it; or go back to the former SQL and hints";

fn ready(config: &Config, columns: BTreeMap<SourceName, Vec<(String, ColumnType)>>) -> Result<Ready, SpecError> {
    let mut file_schemas = BTreeMap::new();
    let mut table_schemas = BTreeMap::new();
    let mut tables = Vec::new();
    for (name, source) in &config.sources {
        let files = format::freeze(&columns[name], None);
        let table = with_captures(&files, source);
        require_columns(name, &source.kind, &table)?;
        tables.push((name.clone(), table.clone(), source.kind.clone()));
        file_schemas.insert(name.clone(), files);
        table_schemas.insert(name.clone(), table);
    }
    let sql = SqlSpec {
        sql: config.document.sql.clone(),
        id: config.document.id.clone(),
        version: SPEC_VERSION,
        tables,
        hints: config.document.fields.clone(),
    };
    let compiled = compile(&sql).map_err(SpecError::Sql)?;
    if config.index.absent == Absent::Keep && compiled.id_origin.is_none() {
        let problem = SqlProblem::new(
            "with absent = \"keep\" the id must be a source's column, unchanged: a computed id cannot tell which documents \
             are owned",
        );
        return Err(SpecError::Sql(vec![problem]));
    }
    let shape = Shape {
        pipeline: config.pipeline.name.clone(),
        id: config.document.id.clone(),
        fields: compiled.fields.clone(),
    };
    let (sql, definition) = (config.document.sql.clone(), definition(config));
    let reads_watermark = compiled.reads_watermark;
    let hints = Some(config.document.fields.clone());
    let spec = Spec { version: SPEC_VERSION, sql, reads_watermark, definition, sources: columns, shape, hints };
    Ok(Ready { spec, file_schemas, table_schemas, compiled })
}

/// What decides the documents, besides the files.
pub fn definition(config: &Config) -> String {
    let absent = config.index.absent;
    let mut text =
        format!("{:?} {:?} {:?} {absent:?}", config.document.sql, config.document.id, config.document.fields);
    for (name, source) in &config.sources {
        let SourceConfig { kind, format, csv, columns, layout, max_rejects, step, .. } = source;
        let zone = source.time_zone.iana_name();
        let _ = write!(
            text,
            "\n{name} {kind:?} {format:?} {csv:?} {columns:?} {layout:?} {max_rejects:?} {step:?} {zone:?}"
        );
    }
    text
}

fn require_columns(source: &SourceName, kind: &TableKind, table: &SchemaRef) -> Result<(), SpecError> {
    let TableKind::Upsert { key, version, deleted, .. } = kind else { return Ok(()) };
    let mut named: Vec<(&'static str, &String)> = key.iter().map(|column| ("key", column)).collect();
    named.extend(version.iter().map(|column| ("version", column)));
    named.extend(deleted.iter().map(|column| ("deleted", column)));
    for (role, column) in named {
        if table.field_with_name(column).is_err() {
            let known: Vec<&str> = table.fields().iter().map(|field| field.name().as_str()).collect();
            let (name, column, known) = (source.clone(), column.clone(), known.join(", "));
            return Err(SpecError::MissingColumn { name, role, column, known });
        }
    }
    Ok(())
}

/// Captured columns stand behind those of the files, as text.
fn with_captures(files: &SchemaRef, source: &SourceConfig) -> SchemaRef {
    let mut fields: Vec<Arc<Field>> = files.fields().iter().cloned().collect();
    for capture in source.captures() {
        fields.push(Arc::new(Field::new(capture, DataType::Utf8, true)));
    }
    Arc::new(Schema::new(fields))
}

impl Spec {
    /// Reads what the log keeps.
    pub fn from_log(value: &serde_json::Value) -> Result<Self, Fault> {
        serde_json::from_value(value.clone())
            .map_err(|error| Fault::Internal(format!("the log's spec of the generation cannot be read: {error}")))
    }

    /// What the log is to keep.
    pub fn to_log(&self) -> Result<serde_json::Value, Fault> {
        serde_json::to_value(self).map_err(|error| Fault::Internal(format!("the spec cannot be written: {error}")))
    }

    /// The configuration, with the documents of this spec in place of its own. `None` where the spec does not tell.
    pub fn document_of(&self, config: &Config) -> Option<Config> {
        let mut former = config.clone();
        former.document.fields = self.hints.clone()?;
        former.document.sql.clone_from(&self.sql);
        former.document.id.clone_from(&self.shape.id);
        Some(former)
    }

    /// Why an index of this spec cannot take documents of another shape, in words; `None` if it can.
    pub fn refusal(&self, now: &Shape) -> Option<String> {
        let change = self.shape_change(now)?;
        Some(format!("the documents' shape changed under an existing index: {change}"))
    }

    /// What `now` changes of the documents' shape, in words; `None` if nothing.
    fn shape_change(&self, now: &Shape) -> Option<String> {
        let mut changes = Vec::new();
        if self.shape.id != now.id {
            changes.push(format!("the id was {:?} and is {:?}", self.shape.id, now.id));
        }
        for field in &now.fields {
            match self.shape.fields.iter().find(|before| before.name == field.name) {
                None => changes.push(format!("field {:?} is new", field.name)),
                Some(before) if before != field => changes.push(format!("field {:?} has another type", field.name)),
                Some(_) => {}
            }
        }
        for before in &self.shape.fields {
            if !now.fields.iter().any(|field| field.name == before.name) {
                changes.push(format!("field {:?} is gone", before.name));
            }
        }
        (!changes.is_empty()).then(|| changes.join(", "))
    }
}
