//! Avro object container files: the header for types, then the blocks. Knows nothing of rejection.

use std::io::BufRead;

use arrow_avro::reader::{Reader, ReaderBuilder};

use super::arrow_types::node;
use super::avro_blocks::count_rows;
use super::input::open_stored;
use super::rows::{BATCH_ROWS, Rows};
use super::seen::FileSchema;
use super::{DecodeRequest, Decoded, FileError};
use crate::store::Content;

pub(super) fn learn(content: &Content) -> Result<FileSchema, FileError> {
    let reader = open(content, None)?;
    let schema = reader.schema();
    let columns = schema.fields().iter().map(|field| (field.name().clone(), node(field.data_type()).into()));
    Ok(FileSchema { columns: columns.collect() })
}

pub(super) fn decode(request: &DecodeRequest, content: &Content) -> Result<Decoded, FileError> {
    let mut rows = Rows::new(request);
    let promised = count_rows(stored(content)?)?;
    let schema = open(content, None)?.schema();
    let wanted = |n: &usize| rows.types().iter().any(|(name, _)| name == schema.field(*n).name());
    let projection: Vec<usize> = (0..schema.fields().len()).filter(wanted).collect();
    // A batch without columns has no length: without a column in common, the whole record is decoded to be counted.
    let projection = if projection.is_empty() { None } else { Some(projection) };
    for batch in open(content, projection)? {
        let batch = batch.map_err(|error| {
            FileError::Damaged(format!(
                "the Avro block that holds row {} cannot be read, or one soon after it: {error}",
                rows.met() + 1
            ))
        })?;
        rows.append_batch(&batch)?;
    }
    if rows.met() != promised {
        let what = format!("its blocks promise {promised} rows and hold {}", rows.met());
        return Err(FileError::Damaged(what));
    }
    rows.finish()
}

fn open(content: &Content, projection: Option<Vec<usize>>) -> Result<Reader<Box<dyn BufRead + '_>>, FileError> {
    let mut builder = ReaderBuilder::new().with_batch_size(BATCH_ROWS);
    if let Some(projection) = projection {
        builder = builder.with_projection(projection);
    }
    (builder.build(stored(content)?))
        .map_err(|error| FileError::Damaged(format!("its Avro header cannot be read (cut, or not Avro): {error}")))
}

fn stored(content: &Content) -> Result<Box<dyn BufRead + '_>, FileError> {
    open_stored(content).map_err(|error| FileError::Damaged(format!("its bytes cannot be read: {error}")))
}
