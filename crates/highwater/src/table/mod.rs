//! Tables: decoded files as immutable parts, in memory up to a limit and on the local disk past it, and the plain values
//! that say what a table is made of. Knows nothing of SQL.

mod cache;
mod disk;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use highwater_core::{FileVersion, SourceName, Timestamp};

use crate::config::TableKind;

pub use cache::PartCache;
pub use disk::DiskRows;

/// Why rows cannot be kept or had back.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The local cache folder refused; free space there, or name another one.
    #[error("cannot keep rows of {path} on the local disk: {reason}")]
    Disk {
        /// The file whose rows they are.
        path: Arc<str>,
        /// What the system or the Arrow reader said.
        reason: String,
    },
}

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
    /// The number (from 1) in the file of each row; `None` where no row was rejected, and row n simply is the nth.
    pub row_numbers: Option<UInt64Array>,
}

/// Where a part's rows are.
#[derive(Debug)]
pub enum PartRows {
    /// In memory.
    Memory(Vec<RecordBatch>),
    /// In a file of the local cache folder, deleted with the part.
    Disk(DiskRows),
}

impl Part {
    /// A part in memory; large batches are cut, and none keeps hold of rows of others. `row_numbers` holds one number for each row of `batches` together, or is absent.
    pub fn new(
        version: FileVersion,
        partition: Option<Timestamp>,
        batches: Vec<RecordBatch>,
        row_numbers: Option<UInt64Array>,
    ) -> Self {
        let batches: Vec<RecordBatch> = batches.iter().flat_map(pieces).collect();
        let row_count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        assert!(row_numbers.as_ref().is_none_or(|numbers| numbers.len() as u64 == row_count));
        let memory_bytes = batches.iter().map(|batch| batch.get_array_memory_size() as u64).sum();
        Self { version, partition, rows: PartRows::Memory(batches), row_count, memory_bytes, row_numbers }
    }

    /// The rows, batch by batch, of the columns at `columns` (in that order). Batches on disk are read as they are asked
    /// for, and other columns are not read at all; so this blocks.
    pub fn batches(
        &self,
        schema: &SchemaRef,
        columns: &[usize],
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch, TableError>> + Send + '_>, TableError> {
        match &self.rows {
            PartRows::Memory(batches) => {
                let columns = columns.to_vec();
                Ok(Box::new(batches.iter().map(move |batch| batch.project(&columns).map_err(|e| self.error(&e)))))
            }
            PartRows::Disk(rows) => {
                let reader = rows.read(schema, columns).map_err(|e| self.error(&e))?;
                Ok(Box::new(reader.map(move |batch| batch.map_err(|e| self.error(&e)))))
            }
        }
    }

    fn error(&self, error: &dyn std::error::Error) -> TableError {
        self.disk_error(&error.to_string())
    }

    fn disk_error(&self, reason: &str) -> TableError {
        TableError::Disk { path: Arc::clone(&self.version.path), reason: reason.to_owned() }
    }
}

/// The most rows of a batch: what the query engine works on at a time.
const MOST_ROWS: usize = 8_192;

/// A batch as pieces that own their rows. A mere slice would count, and pin, the memory of the whole.
fn pieces(batch: &RecordBatch) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    let cut = |from: usize| {
        let to = rows.min(from + MOST_ROWS);
        let places = UInt64Array::from_iter_values(from as u64..to as u64);
        take_record_batch(batch, &places).unwrap_or_else(|_| batch.slice(from, to - from))
    };
    let cut = if rows > MOST_ROWS { (0..rows).step_by(MOST_ROWS).map(cut).collect() } else { vec![batch.clone()] };
    cut.into_iter().map(|piece| without_strange_buffers(&piece)).collect()
}

/// Views may drag along whole buffers of other rows.
fn without_strange_buffers(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|values| match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => Arc::clone(values),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options).unwrap_or_else(|_| batch.clone())
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
    /// Parts in ascending (partition, path) order: a row's place is (index of its part, row number). Consumers that
    /// depend on that order sort by themselves.
    pub parts: Vec<Arc<Part>>,
}
