//! Avro object container files: the header for types, then block by block. Knows nothing of rejection.

use std::io::BufRead;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow_avro::reader::{Reader, ReaderBuilder};

use super::arrow_types::node;
use super::avro_blocks::{Block, Blocks};
use super::input::open_stored;
use super::rows::{BATCH_ROWS, MAX_ROWS, Rows};
use super::seen::FileSchema;
use super::{DecodeRequest, Decoded, FileError};
use crate::store::Content;

pub(super) fn learn(content: &Content) -> Result<FileSchema, FileError> {
    let blocks = Blocks::open(stored(content)?)?;
    let schema = open(blocks.header(), None, 1)?.schema();
    let columns = schema.fields().iter().map(|field| (field.name().clone(), node(field.data_type()).into()));
    Ok(FileSchema { columns: columns.collect() })
}

pub(super) fn decode(request: &DecodeRequest, content: &Content) -> Result<Decoded, FileError> {
    let mut rows = Rows::new(request);
    let mut blocks = Blocks::open(stored(content)?)?;
    let schema = open(blocks.header(), None, 1)?.schema();
    let wanted = |n: &usize| rows.types().iter().any(|(name, _)| name == schema.field(*n).name());
    let projection: Vec<usize> = (0..schema.fields().len()).filter(wanted).collect();
    // A batch without columns has no length: without a column in common, the whole record is decoded to be counted.
    let projection = if projection.is_empty() { None } else { Some(projection) };
    let (mut pending, mut pending_rows) = (Vec::new(), 0);
    while let Some(block) = blocks.next()? {
        let Some(batch) = read_block(&blocks, &block, projection.as_ref())? else { continue };
        pending_rows += batch.num_rows();
        pending.push(batch);
        if pending_rows >= BATCH_ROWS {
            append(&mut rows, &mut pending)?;
            pending_rows = 0;
        }
    }
    append(&mut rows, &mut pending)?;
    rows.finish()
}

/// All rows of one block. The library is asked for as many as the block promises, and then whether there is more.
fn read_block<R: BufRead>(
    blocks: &Blocks<R>,
    block: &Block,
    projection: Option<&Vec<usize>>,
) -> Result<Option<RecordBatch>, FileError> {
    let place = &block.place;
    if block.rows > MAX_ROWS {
        return Err(FileError::Damaged(format!("{place} promises more than {MAX_ROWS} rows")));
    }
    let most = usize::try_from(block.rows).unwrap_or(usize::MAX).max(1);
    let mut reader = open(blocks.alone(block), projection.cloned(), most)?;
    let batch = reader.next().transpose();
    let batch = batch.map_err(|error| FileError::Damaged(format!("{place} cannot be read: {error}")))?;
    let met = batch.as_ref().map_or(0, RecordBatch::num_rows) as u64;
    if met != block.rows || batch.is_some() && reader.next().is_some() {
        return Err(FileError::Damaged(format!("{place} promises {} rows and does not hold just these", block.rows)));
    }
    Ok(batch)
}

/// Blocks are small: a few together make a batch.
fn append(rows: &mut Rows<'_>, pending: &mut Vec<RecordBatch>) -> Result<(), FileError> {
    let Some(first) = pending.first() else { return Ok(()) };
    let batch = concat_batches(&first.schema(), pending.iter())
        .map_err(|error| FileError::Damaged(format!("its Avro blocks make no batch: {error}")))?;
    pending.clear();
    rows.append_batch(&batch)
}

fn open<R: BufRead>(file: R, projection: Option<Vec<usize>>, rows: usize) -> Result<Reader<R>, FileError> {
    let mut builder = ReaderBuilder::new().with_batch_size(rows);
    if let Some(projection) = projection {
        builder = builder.with_projection(projection);
    }
    (builder.build(file))
        .map_err(|error| FileError::Damaged(format!("its Avro header cannot be read (cut, or not Avro): {error}")))
}

fn stored(content: &Content) -> Result<Box<dyn BufRead + '_>, FileError> {
    open_stored(content).map_err(|error| FileError::Damaged(format!("its bytes cannot be read: {error}")))
}
