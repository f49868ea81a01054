//! Parquet: the footer for types, then the wanted columns, row group by row group. Knows nothing of rejection.

use std::fs::File;
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::basic::Type as PhysicalType;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::reader::ChunkReader;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};

use super::arrow_types::node;
use super::rows::{BATCH_ROWS, Rows};
use super::seen::FileSchema;
use super::{DecodeRequest, Decoded, FileError};
use crate::store::Content;

pub(super) fn learn(content: &Content) -> Result<FileSchema, FileError> {
    let metadata = match content {
        Content::Bytes(bytes) => footer(bytes)?,
        Content::Spooled { file, .. } => footer(file)?,
    };
    let fields = metadata.schema().fields();
    Ok(FileSchema {
        columns: fields.iter().map(|field| (field.name().clone(), node(field.data_type()).into())).collect(),
    })
}

pub(super) fn decode(request: &DecodeRequest, content: &Content) -> Result<Decoded, FileError> {
    let mut rows = Rows::new(request);
    match content {
        Content::Bytes(bytes) => read(bytes.clone(), &mut rows)?,
        Content::Spooled { file, .. } => read(reopened(file)?, &mut rows)?,
    }
    rows.finish()
}

fn reopened(file: &File) -> Result<File, FileError> {
    file.try_clone().map_err(|error| FileError::Damaged(format!("its bytes cannot be read: {error}")))
}

fn footer<R: ChunkReader>(source: &R) -> Result<ArrowReaderMetadata, FileError> {
    let unreadable = |error: ParquetError| {
        FileError::Damaged(format!("its Parquet footer cannot be read (cut, or not Parquet): {error}"))
    };
    let options = ArrowReaderOptions::new();
    let metadata = ArrowReaderMetadata::load(source, options.clone()).map_err(unreadable)?;
    let Some(schema) = without_int96_nanos(&metadata) else { return Ok(metadata) };
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), options.with_schema(Arc::new(schema))).map_err(unreadable)
}

fn read<R: ChunkReader + 'static>(source: R, rows: &mut Rows<'_>) -> Result<(), FileError> {
    let metadata = footer(&source)?;
    let fields = metadata.schema().fields();
    let mut roots = Vec::new();
    for (wanted, _) in rows.types() {
        let found: Vec<usize> = (0..fields.len()).filter(|n| fields[*n].name() == wanted).collect();
        if found.len() > 1 {
            return Err(FileError::Damaged(format!("it has {} columns of the name {wanted}", found.len())));
        }
        roots.extend(found);
    }
    let parquet = metadata.metadata().clone();
    let damaged = |at: u64, error: String| {
        FileError::Damaged(format!(
            "row group {} of {} cannot be read: {error}",
            row_group(&parquet, at),
            parquet.num_row_groups()
        ))
    };
    let projection = ProjectionMask::roots(metadata.parquet_schema(), roots);
    let reader: ParquetRecordBatchReader = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata.clone())
        .with_projection(projection)
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| damaged(0, error.to_string()))?;
    for batch in reader {
        let batch = batch.map_err(|error| damaged(rows.met(), error.to_string()))?;
        rows.append_batch(&batch)?;
    }
    let promised = u64::try_from(parquet.file_metadata().num_rows()).unwrap_or(0);
    if rows.met() != promised {
        let what = format!("its footer promises {promised} rows, its pages hold {}", rows.met());
        return Err(FileError::Damaged(what));
    }
    Ok(())
}

/// The number, from 1, of the row group that holds the row.
fn row_group(parquet: &ParquetMetaData, row: u64) -> usize {
    let mut end = 0;
    for (n, group) in parquet.row_groups().iter().enumerate() {
        end += u64::try_from(group.num_rows()).unwrap_or(0);
        if row < end {
            return n + 1;
        }
    }
    parquet.num_row_groups()
}

/// The file's Arrow schema with its INT96 columns in microseconds: in nanoseconds, as they are read by default, years
/// outside 1677 to 2262 wrap around. `None`: it has no such columns.
fn without_int96_nanos(metadata: &ArrowReaderMetadata) -> Option<Schema> {
    let columns = metadata.parquet_schema().columns();
    let is_int96: Vec<bool> = columns.iter().map(|column| column.physical_type() == PhysicalType::INT96).collect();
    if !is_int96.contains(&true) {
        return None;
    }
    let mut leaves = is_int96.into_iter();
    let schema = metadata.schema();
    let fields: Fields = schema.fields().iter().map(|field| in_micros(field, &mut leaves)).collect();
    Some(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The field, its leaves taken in the order of the file's columns.
fn in_micros(field: &FieldRef, leaves: &mut impl Iterator<Item = bool>) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| in_micros(field, leaves)).collect()),
        DataType::List(item) => DataType::List(in_micros(item, leaves)),
        DataType::LargeList(item) => DataType::LargeList(in_micros(item, leaves)),
        DataType::ListView(item) => DataType::ListView(in_micros(item, leaves)),
        DataType::LargeListView(item) => DataType::LargeListView(in_micros(item, leaves)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(in_micros(item, leaves), *size),
        DataType::Map(entries, sorted) => DataType::Map(in_micros(entries, leaves), *sorted),
        leaf => match (leaves.next(), leaf) {
            (Some(true), DataType::Timestamp(_, zone)) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            _ => leaf.clone(),
        },
    };
    Arc::new(Field::clone(field).with_data_type(kind))
}
