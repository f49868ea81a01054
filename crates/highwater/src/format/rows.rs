//! The rows of one file while they are decoded: kept or rejected, counted, cut into batches. Knows no format.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;

use super::arrow_types::schema_types;
use super::cast::cast;
use super::cell::Cell;
use super::column::Column;
use super::types::ColumnType;
use super::{DecodeRequest, Decoded, FileError, MAX_NAMED, Rejected};
use crate::config::MaxRejects;

/// Rows a batch.
pub(super) const BATCH_ROWS: usize = 8192;

/// Bytes of text after which a batch ends early: the offsets of a string column end at 2 GiB.
pub(super) const BATCH_BYTES: usize = 32 << 20;

/// The longest line or record that is read.
pub(super) const MAX_ROW_BYTES: usize = 64 << 20;

/// Rows a file may have. Rows without a byte cost a file nothing, so that its size bounds neither memory nor time.
pub(super) const MAX_ROWS: u64 = 1 << 30;

/// Collects what becomes of each row.
pub(super) struct Rows<'r> {
    request: &'r DecodeRequest,
    types: Vec<(String, ColumnType)>,
    required: Vec<bool>,
    pending: Pending,
    decoded: Decoded,
    memory_bytes: u64,
}

/// The batch that is being filled, row by row.
struct Pending {
    columns: Vec<Column>,
    keep: Vec<bool>,
    bytes: usize,
}

impl<'r> Rows<'r> {
    pub fn new(request: &'r DecodeRequest) -> Self {
        let types = schema_types(&request.schema);
        let required = types.iter().map(|(name, _)| request.required.contains(name)).collect();
        let columns = types.iter().map(|(_, kind)| Column::new(kind)).collect();
        let decoded =
            Decoded { batches: Vec::new(), row_numbers: None, rows: 0, rejected_count: 0, rejected: Vec::new() };
        let pending = Pending { columns, keep: Vec::new(), bytes: 0 };
        Self { request, types, required, pending, decoded, memory_bytes: 0 }
    }

    /// The columns wanted.
    pub fn types(&self) -> &[(String, ColumnType)] {
        &self.types
    }

    /// Rows met so far.
    pub fn met(&self) -> u64 {
        self.decoded.rows
    }

    /// One row of a text format, on this line: a cell for each wanted column.
    pub fn append<'c>(
        &mut self,
        line: u64,
        bytes: usize,
        cells: impl Iterator<Item = Cell<'c>>,
    ) -> Result<(), FileError> {
        let mut reason = None;
        for (n, cell) in cells.enumerate() {
            let appended = self.pending.columns[n].append(&cell);
            if reason.is_some() {
                continue;
            }
            let name = &self.types[n].0;
            reason = match appended {
                Err(misfit) => Some(misfit.of_column(name)),
                Ok(()) if self.required[n] && matches!(cell, Cell::Null) => Some(null_key(name)),
                Ok(()) => None,
            };
        }
        self.pending.keep.push(reason.is_none());
        self.pending.bytes += bytes;
        match reason {
            Some(reason) => self.refuse(line, reason),
            None => self.keep(),
        }
        if self.pending.keep.len() >= BATCH_ROWS || self.pending.bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// One row that cannot be read at all.
    pub fn refuse(&mut self, place: u64, reason: String) {
        let before = self.decoded.rows;
        self.decoded.row_numbers.get_or_insert_with(|| (0..before).collect());
        self.decoded.rows += 1;
        self.decoded.rejected_count += 1;
        if self.decoded.rejected.len() < MAX_NAMED {
            self.decoded.rejected.push(Rejected { row: place, reason });
        }
    }

    fn keep(&mut self) {
        if let Some(numbers) = &mut self.decoded.row_numbers {
            numbers.push(self.decoded.rows);
        }
        self.decoded.rows += 1;
    }

    /// Rows of a columnar format, of whatever types the file has.
    pub fn append_batch(&mut self, batch: &RecordBatch) -> Result<(), FileError> {
        let mut reasons: BTreeMap<usize, String> = BTreeMap::new();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.types.len());
        for (n, (name, kind)) in self.types.iter().enumerate() {
            let target = self.request.schema.field(n).data_type();
            let array = match batch.column_by_name(name) {
                Some(array) => cast(array, kind, target, |row, misfit| {
                    reasons.entry(row).or_insert_with(|| misfit.of_column(name));
                })
                .map_err(|error| FileError::Damaged(format!("column {name} cannot be read: {error}")))?,
                None => new_null_array(target, batch.num_rows()),
            };
            if self.required[n] {
                for row in (0..array.len()).filter(|row| array.is_null(*row)) {
                    reasons.entry(row).or_insert_with(|| null_key(name));
                }
            }
            arrays.push(array);
        }
        let keep: Vec<bool> = (0..batch.num_rows()).map(|row| !reasons.contains_key(&row)).collect();
        for kept in &keep {
            let place = self.decoded.rows + 1;
            match if *kept { None } else { reasons.pop_first() } {
                Some((_, reason)) => self.refuse(place, reason),
                None => self.keep(),
            }
        }
        self.push(arrays, keep)
    }

    fn flush(&mut self) -> Result<(), FileError> {
        let arrays = self.pending.columns.iter_mut().map(Column::finish).collect::<Result<_, _>>().map_err(internal)?;
        let keep = std::mem::take(&mut self.pending.keep);
        self.pending.bytes = 0;
        self.push(arrays, keep)
    }

    fn push(&mut self, arrays: Vec<ArrayRef>, keep: Vec<bool>) -> Result<(), FileError> {
        if self.decoded.rows > MAX_ROWS {
            return Err(FileError::Damaged(format!("it has more than {MAX_ROWS} rows; write it as several files")));
        }
        let kept = keep.iter().filter(|keep| **keep).count();
        if kept == 0 {
            return Ok(());
        }
        let schema = self.request.schema.clone();
        let count = if arrays.is_empty() { kept } else { keep.len() };
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let mut batch = RecordBatch::try_new_with_options(schema, arrays, &options).map_err(internal)?;
        if kept < keep.len() && batch.num_columns() > 0 {
            batch = filter_record_batch(&batch, &BooleanArray::from(keep)).map_err(internal)?;
        }
        self.memory_bytes += batch.get_array_memory_size() as u64;
        let allowed = self.request.max_memory_bytes;
        if self.memory_bytes > allowed {
            let what = format!(
                "its rows take more than {allowed} bytes of memory; write it as several files, or raise `memory`"
            );
            return Err(FileError::Damaged(what));
        }
        self.decoded.batches.push(batch);
        Ok(())
    }

    /// The file, unless too much of it was rejected.
    pub fn finish(mut self) -> Result<Decoded, FileError> {
        self.flush()?;
        let decoded = self.decoded;
        let (rows, rejected) = (decoded.rows, decoded.rejected_count);
        let allowed = match self.request.max_rejects {
            MaxRejects::Default => (rows / 100).max(100),
            MaxRejects::Rows(rows) => rows,
        };
        if rows > 0 && rejected == rows {
            return Err(FileError::NoneReadable { rows, first: first_reasons(&decoded.rejected) });
        }
        if rejected > allowed {
            let first = first_reasons(&decoded.rejected);
            return Err(FileError::TooManyRejects { rows, rejected, allowed, first });
        }
        Ok(decoded)
    }
}

fn null_key(column: &str) -> String {
    format!("column {column}: null, and it is part of the key")
}

fn first_reasons(rejected: &[Rejected]) -> String {
    let reasons: Vec<String> = rejected.iter().take(3).map(|one| format!("row {}: {}", one.row, one.reason)).collect();
    reasons.join("; ")
}

/// Arrays that do not make a batch: the request's schema is not one that `freeze` makes.
fn internal(error: ArrowError) -> FileError {
    FileError::Damaged(format!("its rows do not make a batch of the table's schema: {error}"))
}
