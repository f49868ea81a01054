//! Parquet: the footer for types, then the wanted columns, row group by row group. Knows nothing of rejection.

use std::fs::File;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::reader::ChunkReader;
use arrow::array::{Array, RecordBatch, make_array};
use arrow::datatypes::{Schema, TimeUnit};
use arrow::error::ArrowError;
use bytes::Bytes;

use super::arrow_types::node;
use super::parquet_schema::{ReadAs, int96_roots, metadata, unwrapped};
use super::rows::{BATCH_BYTES, BATCH_ROWS, Rows};
use super::seen::FileSchema;
use super::{DecodeRequest, Decoded, FileError};
use crate::store::Content;

const USUAL: ReadAs = ReadAs { text_as_bytes: false, int96: TimeUnit::Microsecond };

pub(super) fn learn(content: &Content) -> Result<FileSchema, FileError> {
    let metadata = match content {
        Content::Bytes(bytes) => footer(bytes, USUAL)?,
        Content::Spooled { file, .. } => footer(file, USUAL)?,
    };
    let fields = metadata.schema().fields();
    Ok(FileSchema {
        columns: fields.iter().map(|field| (field.name().clone(), node(field.data_type()).into())).collect(),
    })
}

pub(super) fn decode(request: &DecodeRequest, content: &Content) -> Result<Decoded, FileError> {
    match content {
        Content::Bytes(bytes) => decode_from(request, || Ok::<Bytes, FileError>(bytes.clone())),
        Content::Spooled { file, .. } => decode_from(request, || reopened(file)),
    }
}

fn reopened(file: &File) -> Result<File, FileError> {
    file.try_clone().map_err(|error| FileError::Damaged(format!("its bytes cannot be read: {error}")))
}

/// The library gives up a whole file for one value that is not UTF-8: such a file is read once more, as bytes.
fn decode_from<R: ChunkReader + 'static>(
    request: &DecodeRequest,
    open: impl Fn() -> Result<R, FileError>,
) -> Result<Decoded, FileError> {
    let mut rows = Rows::new(request);
    match read(&open, &mut rows, USUAL) {
        Err(FileError::Damaged(reason)) if reason.to_ascii_lowercase().contains("utf") => {
            rows = Rows::new(request);
            read(&open, &mut rows, ReadAs { text_as_bytes: true, ..USUAL })?;
        }
        outcome => outcome?,
    }
    rows.finish()
}

fn footer<R: ChunkReader>(source: &R, read_as: ReadAs) -> Result<ArrowReaderMetadata, FileError> {
    metadata(source, read_as).map_err(|error: ParquetError| {
        FileError::Damaged(format!("its Parquet footer cannot be read (cut, or not Parquet): {error}"))
    })
}

fn read<R: ChunkReader + 'static>(
    open: &impl Fn() -> Result<R, FileError>,
    rows: &mut Rows<'_>,
    read_as: ReadAs,
) -> Result<(), FileError> {
    let metadata = footer(&open()?, read_as)?;
    let roots = wanted(metadata.schema(), rows)?;
    let int96: Vec<usize> =
        int96_roots(metadata.parquet_schema()).into_iter().filter(|root| roots.contains(root)).collect();
    let parquet = metadata.metadata().clone();
    let step = batch_rows(&parquet) as u64;
    let damaged = |at: u64, error: String| {
        FileError::Damaged(format!("{} cannot be read: {error}", row_groups(&parquet, at, at.saturating_add(step))))
    };
    let reader = batches(open()?, metadata, roots).map_err(|error| damaged(0, error.to_string()))?;
    let mut beside = match int96.is_empty() {
        true => None,
        false => {
            let read_as = ReadAs { int96: TimeUnit::Millisecond, ..read_as };
            let source = open()?;
            let metadata = footer(&source, read_as)?;
            Some(batches(source, metadata, int96).map_err(|error| damaged(0, error.to_string()))?)
        }
    };
    for batch in reader {
        let beside = beside.as_mut().and_then(Iterator::next).transpose();
        let batch = batch.and_then(|batch| match beside? {
            Some(millis) => with_unwrapped(&batch, &millis),
            None => Ok(batch),
        });
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

/// Places of the wanted columns in the file.
fn wanted(schema: &Schema, rows: &Rows<'_>) -> Result<Vec<usize>, FileError> {
    let fields = schema.fields();
    let mut roots = Vec::new();
    for (wanted, _) in rows.types() {
        let found: Vec<usize> = (0..fields.len()).filter(|n| fields[*n].name() == wanted).collect();
        if found.len() > 1 {
            return Err(FileError::Damaged(format!("it has {} columns of the name {wanted}", found.len())));
        }
        roots.extend(found);
    }
    Ok(roots)
}

fn batches<R: ChunkReader + 'static>(
    source: R,
    metadata: ArrowReaderMetadata,
    roots: Vec<usize>,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let projection = ProjectionMask::roots(metadata.parquet_schema(), roots);
    let rows = batch_rows(metadata.metadata());
    ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata)
        .with_projection(projection)
        .with_batch_size(rows)
        .build()
}

/// Rows a batch, so that long rows make no batch of gigabytes.
fn batch_rows(parquet: &ParquetMetaData) -> usize {
    let row_bytes =
        |bytes: i64, rows: i64| usize::try_from(bytes).unwrap_or(0) / usize::try_from(rows).unwrap_or(0).max(1);
    let longest = parquet.row_groups().iter().map(|group| row_bytes(group.total_byte_size(), group.num_rows())).max();
    (BATCH_BYTES / longest.unwrap_or(0).max(1)).clamp(1, BATCH_ROWS)
}

fn with_unwrapped(batch: &RecordBatch, millis: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut columns = batch.columns().to_vec();
    for (column, field) in columns.iter_mut().zip(batch.schema_ref().fields()) {
        if let Some(millis) = millis.column_by_name(field.name()) {
            *column = make_array(unwrapped(&column.to_data(), &millis.to_data())?);
        }
    }
    RecordBatch::try_new(batch.schema(), columns)
}

/// The row groups, from 1, that hold rows of the range: a batch may reach over several.
fn row_groups(parquet: &ParquetMetaData, from: u64, to: u64) -> String {
    let (mut first, mut last, mut start) = (None, 1, 0);
    for (n, group) in parquet.row_groups().iter().enumerate() {
        let end = start + u64::try_from(group.num_rows()).unwrap_or(0);
        if start < to && end > from {
            first.get_or_insert(n + 1);
            last = n + 1;
        }
        start = end;
    }
    let (first, all) = (first.unwrap_or(1), parquet.num_row_groups());
    if first == last { format!("row group {first} of {all}") } else { format!("row groups {first} to {last} of {all}") }
}
