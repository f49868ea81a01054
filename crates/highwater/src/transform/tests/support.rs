//! Small tables, and runs of the SQL over them.

pub use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use highwater_core::{FileVersion, SourceName, Timestamp};

use crate::config::{Retain, TableKind};
pub use crate::table::{Part, Table};
pub use crate::transform::{Compiled, Document, DocumentBlock, Resources, SqlSpec, TransformError};

/// Memory in plenty.
pub const BIG: u64 = 1 << 30;

pub fn resources(target_partitions: usize, memory_bytes: u64) -> Resources {
    Resources { memory_bytes, target_partitions, temp_folder: std::env::temp_dir(), frugal: false }
}

pub fn table_part(path: &str, start: i64, columns: Vec<(&str, ArrayRef)>) -> Part {
    let fields: Vec<Field> =
        columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect();
    let values = columns.into_iter().map(|(_, values)| values).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), values).unwrap();
    let version = FileVersion { path: path.into(), size: 1, etag: "e".into() };
    Part::new(version, Some(Timestamp::from_second(start).unwrap()), vec![batch], None)
}

pub fn owned_part(path: &str, start: i64, rows: &[(&str, i64)]) -> Part {
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    table_part(path, start, vec![("k", keys), ("v", values)])
}

/// Columns k and v.
pub fn part(path: &str, start: i64, rows: &[(&str, i64)]) -> Arc<Part> {
    Arc::new(owned_part(path, start, rows))
}

/// Column f.
pub fn float_part(path: &str, values: &[f64]) -> Arc<Part> {
    let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    Arc::new(table_part(path, 0, vec![("f", values)]))
}

/// Columns k, version, deleted and n.
pub fn versioned_part(path: &str, start: i64, rows: &[(&str, Option<i64>, bool, i64)]) -> Arc<Part> {
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0)));
    let versions: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
    let deleted: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.2)).collect::<BooleanArray>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.3)));
    let columns = vec![("k", keys), ("version", versions), ("deleted", deleted), ("n", numbers)];
    Arc::new(table_part(path, start, columns))
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect::<Vec<_>>()))
}

/// A table of parts made by [`part`].
pub fn append(name: &str, parts: Vec<Arc<Part>>) -> Table {
    let schema = schema(&[("k", DataType::Utf8), ("v", DataType::Int64)]);
    Table { source: SourceName::new(name), schema, kind: TableKind::Append, parts }
}

/// A table of parts made by [`float_part`].
pub fn append_of(name: &str, parts: Vec<Arc<Part>>) -> Table {
    let schema = schema(&[("f", DataType::Float64)]);
    Table { source: SourceName::new(name), schema, kind: TableKind::Append, parts }
}

/// A table of parts made by [`versioned_part`].
pub fn upsert(name: &str, parts: Vec<Arc<Part>>) -> Table {
    let schema = schema(&[
        ("k", DataType::Utf8),
        ("version", DataType::Int64),
        ("deleted", DataType::Boolean),
        ("n", DataType::Int64),
    ]);
    let kind = TableKind::Upsert {
        key: vec!["k".to_owned()],
        version: Some("version".to_owned()),
        deleted: Some("deleted".to_owned()),
        retain: Retain::Window,
        backfill: None,
    };
    Table { source: SourceName::new(name), schema, kind, parts }
}

pub fn spec(sql: &str, tables: &[Table]) -> SqlSpec {
    let tables = tables.iter().map(|t| (t.source.clone(), Arc::clone(&t.schema), t.kind.clone())).collect();
    SqlSpec { sql: sql.to_owned(), id: "id".to_owned(), version: 1, tables, hints: Default::default() }
}

pub fn compiled(sql: &str, tables: &[Table]) -> Compiled {
    crate::transform::compile(&spec(sql, tables)).unwrap_or_else(|problems| panic!("{sql}: {problems:?}"))
}

pub async fn blocks(
    compiled: &Compiled,
    tables: Vec<Table>,
    partitions: usize,
    memory: u64,
) -> Result<Vec<DocumentBlock>, TransformError> {
    let at = Timestamp::from_second(0).unwrap();
    compiled.documents(tables, at, &resources(partitions, memory)).try_collect().await
}

pub async fn collect(
    stream: BoxStream<'static, Result<DocumentBlock, TransformError>>,
) -> Result<Vec<Document>, TransformError> {
    let blocks: Vec<DocumentBlock> = stream.try_collect().await?;
    let documents: Vec<Document> = blocks.into_iter().flat_map(|block| block.documents).collect();
    assert!(documents.windows(2).all(|pair| pair[0].id.as_bytes() < pair[1].id.as_bytes()));
    Ok(documents)
}

pub async fn run_with(
    sql: &str,
    tables: Vec<Table>,
    partitions: usize,
    memory: u64,
) -> Result<Vec<Document>, TransformError> {
    let compiled = compiled(sql, &tables);
    let at = Timestamp::from_second(0).unwrap();
    collect(compiled.documents(tables, at, &resources(partitions, memory))).await
}

pub async fn run(sql: &str, tables: Vec<Table>) -> Vec<Document> {
    run_with(sql, tables, 2, BIG).await.unwrap()
}

pub fn json(documents: &[Document]) -> Vec<String> {
    documents.iter().map(|document| String::from_utf8(document.json.to_vec()).unwrap()).collect()
}

/// Another order, told by `seed`.
pub fn shuffle<T>(values: &mut [T], mut seed: u64) {
    for at in (1..values.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values.swap(at, (seed >> 33) as usize % (at + 1));
    }
}
