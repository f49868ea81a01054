//! Files to rows: Parquet, NDJSON, CSV and Avro become Arrow batches of a frozen schema, bad rows by name. Knows nothing
//! of where bytes come from, nor of SQL.

mod array;
mod arrow_types;
mod avro;
mod avro_blocks;
mod cast;
mod cell;
mod column;
mod csv;
mod input;
mod json;
mod ndjson;
mod number;
mod parquet;
mod parquet_schema;
mod rows;
mod seen;
#[cfg(test)]
mod tests;
mod time;
mod type_text;
mod types;

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use thiserror::Error;

use crate::config::MaxRejects;
use crate::store::Content;

pub use arrow_types::schema_types;
pub use seen::{FileSchema, Seen, freeze, merge};
pub use type_text::TypeTextError;
pub use types::*;

/// What to read of one file.
#[derive(Clone, Debug)]
pub struct DecodeRequest {
    /// The file's path: its extension tells the compression of text formats.
    pub path: String,
    /// How it is written.
    pub spec: Spec,
    /// The columns wanted, as [`freeze`] makes them (those captured from the path are not among them).
    pub schema: SchemaRef,
    /// Columns in which a null rejects the row. Names that the schema lacks are not looked at.
    pub required: Vec<String>,
    /// How many rows may be rejected before the whole file is refused.
    pub max_rejects: MaxRejects,
    /// How much memory its rows may take before the whole file is refused: a small file may hold very much.
    pub max_memory_bytes: u64,
}

/// One file, decoded.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The rows that were kept, in file order, a bounded number a batch.
    pub batches: Vec<RecordBatch>,
    /// Of each kept row its place among the file's rows, from 0. `None`: no row was rejected, places count up.
    pub row_numbers: Option<Vec<u64>>,
    /// Rows that the file has: kept and rejected.
    pub rows: u64,
    /// Rows that were rejected.
    pub rejected_count: u64,
    /// The first of them, at most [`MAX_NAMED`].
    pub rejected: Vec<Rejected>,
}

/// How many rejected rows are named.
pub const MAX_NAMED: usize = 100;

/// One row that was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The line on which it starts in text formats, else its row number; from 1.
    pub row: u64,
    /// Why, naming the column and the value.
    pub reason: String,
}

/// Why a whole file cannot be used. The messages do not name the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    /// Its bytes are not (all) what its format and name promise.
    #[error("{0}")]
    Damaged(String),
    /// More rows were rejected than `max_rejects` allows.
    #[error("{rejected} of {rows} rows rejected, more than the {allowed} allowed: {first}")]
    TooManyRejects {
        /// Rows that the file has.
        rows: u64,
        /// Rows rejected.
        rejected: u64,
        /// Rows that might have been.
        allowed: u64,
        /// The first reasons.
        first: String,
    },
    /// It has rows, and none could be read.
    #[error("none of its {rows} rows can be read: {first}")]
    NoneReadable {
        /// Rows that the file has.
        rows: u64,
        /// The first reasons.
        first: String,
    },
}

/// The columns of one file. Text formats are read whole, lines that can't be read passed over; of Parquet and Avro only
/// footer or header. CSV without a header has no names to learn: the answer is empty.
pub fn learn(path: &str, content: &Content, spec: &Spec) -> Result<FileSchema, FileError> {
    match spec.format {
        FileFormat::Ndjson => ndjson::learn(path, content),
        FileFormat::Csv => csv::learn(path, content, &spec.csv),
        FileFormat::Parquet => guarded(|| parquet::learn(content)),
        FileFormat::Avro => guarded(|| avro::learn(content)),
    }
}

/// The rows of one file, in the schema asked for. Columns are found by name: those that the file lacks are null, others
/// than asked for are ignored. A value is cast where that is exact, else its row is rejected:
/// - numbers keep their value (a fraction or exponent is read to the nearest float; an integer only as itself);
/// - text becomes a number only in JSON's spelling: `007` is rejected;
/// - flags are `true` and `false`, in text of any case;
/// - times are RFC 3339; without an offset they count as UTC, digits finer than microseconds are dropped; years are 0
///   to 9999;
/// - everything can become a string: numbers as written, instants as RFC 3339, lists and structs as JSON.
pub fn decode(request: &DecodeRequest, content: &Content) -> Result<Decoded, FileError> {
    match request.spec.format {
        FileFormat::Ndjson => ndjson::decode(request, content),
        FileFormat::Csv => csv::decode(request, content),
        FileFormat::Parquet => guarded(|| parquet::decode(request, content)),
        FileFormat::Avro => guarded(|| avro::decode(request, content)),
    }
}

/// The libraries for binary formats may panic on a damaged file. That must cost this file, not the process.
fn guarded<T>(read: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let message = (panic.downcast_ref::<String>().map(String::as_str))
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(FileError::Damaged(format!("its decoder gave up: {message}")))
    })
}
