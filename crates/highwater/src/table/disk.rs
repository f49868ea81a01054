//! Rows of one part in a local file: each column is an Arrow IPC stream of its own, so that a scan reads no other.
//! Knows nothing of which parts are kept, or why.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use tempfile::TempPath;

/// A file of rows, deleted when this is dropped.
#[derive(Debug)]
pub struct DiskRows {
    path: TempPath,
    /// Where each column's stream starts.
    offsets: Vec<u64>,
    /// Rows of each batch: a scan of no column still counts.
    lengths: Vec<usize>,
}

impl DiskRows {
    /// Writes `batches` to a new file in `folder`.
    pub fn write(folder: &Path, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let file = tempfile::Builder::new().prefix("part-").suffix(".arrows").tempfile_in(folder)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let mut offsets = Vec::with_capacity(schema.fields().len());
        for index in 0..schema.fields().len() {
            offsets.push(out.stream_position()?);
            write_column(&mut out, schema, batches, index)?;
        }
        out.flush()?;
        let file = out.into_inner().map_err(|error| error.into_error())?;
        let lengths = batches.iter().map(RecordBatch::num_rows).collect();
        Ok(Self { path: file.into_temp_path(), offsets, lengths })
    }

    /// Reads the columns at `columns`, batch by batch.
    pub fn read(
        &self,
        schema: &SchemaRef,
        columns: &[usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + use<>, ArrowError> {
        let schema = Arc::new(schema.project(columns)?);
        let mut readers = Vec::with_capacity(columns.len());
        for &column in columns {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.offsets[column]))?;
            readers.push(StreamReader::try_new(BufReader::with_capacity(1 << 16, file), None)?);
        }
        let lengths = self.lengths.clone();
        Ok(lengths.into_iter().map(move |rows| next_batch(&schema, &mut readers, rows)))
    }
}

fn write_column(
    out: &mut impl Write,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    index: usize,
) -> Result<(), ArrowError> {
    let column = Schema::new(vec![Arc::clone(&schema.fields()[index])]);
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    let mut writer = StreamWriter::try_new_with_options(&mut *out, &column, options)?;
    for batch in batches {
        writer.write(&batch.project(&[index])?)?;
    }
    writer.finish()
}

fn next_batch(
    schema: &SchemaRef,
    readers: &mut [StreamReader<BufReader<File>>],
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    let mut values = Vec::with_capacity(readers.len());
    for reader in readers {
        let Some(batch) = reader.next() else {
            return Err(ArrowError::IpcError("the cache file ends early".to_owned()));
        };
        values.push(Arc::clone(batch?.column(0)));
    }
    RecordBatch::try_new_with_options(Arc::clone(schema), values, &RecordBatchOptions::new().with_row_count(Some(rows)))
}
