//! What formats and columns there are, as the configuration names them.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How files are written. Compression of the text formats is told by the extension (`.gz .zst .bz2 .xz`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// One JSON object a line.
    Ndjson,
    /// Delimited text with a header.
    Csv,
    /// Avro object container files.
    Avro,
}

/// CSV dialect. Blank lines are skipped, and a quoted empty field counts as null like an unquoted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// The first record names the columns. Without a header `columns` names them, by position.
    pub header: bool,
    /// Between fields.
    pub delimiter: u8,
    /// Around fields.
    pub quote: u8,
    /// Before a quote within quotes; `None`: a doubled quote.
    pub escape: Option<u8>,
    /// The text that means null; an empty field is always null.
    pub null: Option<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { header: true, delimiter: b',', quote: b'"', escape: None, null: None }
    }
}

/// A column's type, as `columns` writes it and a learnt schema keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ColumnType {
    String,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Decimal(u8, i8),
    Date,
    /// An instant in microseconds, UTC; a time without zone counts as UTC.
    Timestamp,
    List(Box<ColumnType>),
    Struct(Vec<(String, ColumnType)>),
}

/// How a file is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// How it is written.
    pub format: FileFormat,
    /// For CSV.
    pub csv: CsvOptions,
}

/// A struct's field name as type text writes it: quoted as in JSON unless it is a plain word.
pub(super) fn field_name(name: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(plain) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(serde_json::Value::from(name).to_string())
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::String => "string",
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Decimal(precision, scale) => return write!(f, "decimal({precision}, {scale})"),
            Self::List(item) => return write!(f, "list<{item}>"),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (n, (name, kind)) in fields.iter().enumerate() {
                    write!(f, "{}{}: {kind}", if n == 0 { "" } else { ", " }, field_name(name))?;
                }
                return f.write_str(">");
            }
        };
        f.write_str(name)
    }
}
