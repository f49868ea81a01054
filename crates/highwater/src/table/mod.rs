//! Tables: decoded files as immutable parts, in memory up to a limit and on the local disk past it, and the plain values
//! that say what a table is made of. Knows nothing of SQL.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use highwater_core::{FileVersion, SourceName, Timestamp};

use crate::config::TableKind;

/// One file version, decoded: rows in file order, columns of the table's frozen schema (captured columns included).
#[derive(Debug)]
pub struct Part {
    /// What was read.
    pub version: FileVersion,
    /// Start of its partition; `None` in a reference source.
    pub partition: Option<Timestamp>,
    /// Its rows.
    pub rows: PartRows,
    /// How many rows.
    pub row_count: u64,
    /// Bytes in memory when loaded.
    pub memory_bytes: u64,
}

/// Where a part's rows are.
#[derive(Debug)]
pub enum PartRows {
    /// In memory.
    Memory(Vec<RecordBatch>),
    /// In an Arrow IPC file of the local cache folder, deleted with the part.
    Disk(Arc<tempfile::TempPath>),
}

/// One table of the document SQL, as a batch sees it.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name in the SQL.
    pub source: SourceName,
    /// Columns of its parts.
    pub schema: SchemaRef,
    /// What its rows mean.
    pub kind: TableKind,
    /// Parts in ascending (partition, path) order: a row's place is (index of its part, row number).
    pub parts: Vec<Arc<Part>>,
}
