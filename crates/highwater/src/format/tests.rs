//! Files made in code, decoded, and shown as text.

mod columnar;
mod damage;
mod fuzz;
mod gauntlet;
mod rules;
mod schema;
mod text;
mod values;

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::util::display::array_value_to_string;
use bytes::Bytes;

use super::*;

const JSON: FileFormat = FileFormat::Ndjson;
const CSV: FileFormat = FileFormat::Csv;
const PARQUET: FileFormat = FileFormat::Parquet;
const AVRO: FileFormat = FileFormat::Avro;

fn content(bytes: impl AsRef<[u8]>) -> Content {
    Content::Bytes(Bytes::copy_from_slice(bytes.as_ref()))
}

fn spooled(bytes: &[u8]) -> Content {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Content::Spooled { file, len: bytes.len() as u64 }
}

fn spec(format: FileFormat) -> Spec {
    Spec { format, csv: CsvOptions::default() }
}

fn columns(columns: &[(&str, &str)]) -> Vec<(String, ColumnType)> {
    columns.iter().map(|(name, kind)| (name.to_string(), kind.parse().unwrap())).collect()
}

fn request(path: &str, format: FileFormat, wanted: &[(&str, &str)]) -> DecodeRequest {
    DecodeRequest {
        path: path.to_owned(),
        spec: spec(format),
        schema: freeze(&columns(wanted), None),
        required: Vec::new(),
        max_rejects: MaxRejects::Default,
        max_memory_bytes: 1 << 30,
    }
}

fn read(format: FileFormat, bytes: impl AsRef<[u8]>, wanted: &[(&str, &str)]) -> Result<Decoded, FileError> {
    decode(&request("file", format, wanted), &content(bytes))
}

/// Rows as text, nulls as `-`.
fn shown(decoded: &Decoded) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in &decoded.batches {
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| match column.is_null(row) {
                true => "-".to_owned(),
                false => array_value_to_string(column, row).unwrap(),
            };
            rows.push(batch.columns().iter().map(value).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

fn reasons(decoded: &Decoded) -> Vec<String> {
    decoded.rejected.iter().map(|one| format!("{}: {}", one.row, one.reason)).collect()
}

fn learnt(format: FileFormat, bytes: impl AsRef<[u8]>) -> String {
    let schema = learn("file", &content(bytes), &spec(format)).unwrap();
    schema.columns.iter().map(|(name, seen)| format!("{name} {seen}")).collect::<Vec<_>>().join("; ")
}

fn parquet_file(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let mut file = Vec::new();
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn array<A: Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}
