//! As what a Parquet file's columns are read, where the library's own choice would lose values or trust bytes. Knows no
//! rows.

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::basic::{ConvertedType, Type as PhysicalType};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{FileMetaData, ParquetMetaData};
use ::parquet::file::reader::ChunkReader;
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, SchemaDescriptor, Type};
use arrow::array::{Array, ArrayData, AsArray, TimestampMicrosecondArray, make_array};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};
use arrow::error::ArrowError;

/// How a file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadAs {
    /// Text columns are read as bytes, so that a value that is not UTF-8 costs its row and no more. Otherwise only those
    /// are whose bytes the library would not check (JSON, and what only the writer's Arrow schema calls text).
    pub text_as_bytes: bool,
    /// Unit of INT96 times. In nanoseconds, as they are read by default, years outside 1677 to 2262 wrap around.
    pub int96: TimeUnit,
}

/// The footer of a file, and the Arrow types in which its columns are read.
pub(super) fn metadata<R: ChunkReader>(source: &R, read_as: ReadAs) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new();
    let metadata = ArrowReaderMetadata::load(source, options.clone())?;
    let columns = metadata.parquet_schema().columns();
    let mut retyped = Retyped { columns: columns.iter(), read_as, is_bytes: Vec::new(), is_changed: false };
    let schema = metadata.schema();
    let fields: Fields = schema.fields().iter().map(|field| retyped.field(field)).collect();
    let Retyped { is_bytes, is_changed, .. } = retyped;
    if !is_changed {
        return Ok(metadata);
    }
    let options = options.with_schema(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())));
    let parquet = match is_bytes.contains(&true) {
        true => Arc::new(with_bytes(metadata.metadata(), is_bytes)?),
        false => metadata.metadata().clone(),
    };
    ArrowReaderMetadata::try_new(parquet, options)
}

/// Places among the file's top-level columns of those that hold INT96 times.
pub(super) fn int96_roots(schema: &SchemaDescriptor) -> Vec<usize> {
    let is_int96 = |leaf: &usize| schema.column(*leaf).physical_type() == PhysicalType::INT96;
    (0..schema.num_columns()).filter(is_int96).map(|leaf| schema.get_column_root_idx(leaf)).collect()
}

/// Walks the Arrow schema beside the file's leaves.
struct Retyped<'s> {
    columns: std::slice::Iter<'s, ColumnDescPtr>,
    read_as: ReadAs,
    /// Of each leaf met: it is text to be read as bytes.
    is_bytes: Vec<bool>,
    is_changed: bool,
}

impl Retyped<'_> {
    fn field(&mut self, field: &FieldRef) -> FieldRef {
        let kind = match field.data_type() {
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| self.field(field)).collect()),
            DataType::List(item) => DataType::List(self.field(item)),
            DataType::LargeList(item) => DataType::LargeList(self.field(item)),
            DataType::ListView(item) => DataType::ListView(self.field(item)),
            DataType::LargeListView(item) => DataType::LargeListView(self.field(item)),
            DataType::FixedSizeList(item, size) => DataType::FixedSizeList(self.field(item), *size),
            DataType::Map(entries, sorted) => DataType::Map(self.field(entries), *sorted),
            leaf => self.leaf(leaf),
        };
        Arc::new(Field::clone(field).with_data_type(kind))
    }

    fn leaf(&mut self, kind: &DataType) -> DataType {
        let Some(column) = self.columns.next() else { return kind.clone() };
        let is_bytes = is_text(column, kind) && (self.read_as.text_as_bytes || !is_checked(column));
        self.is_bytes.push(is_bytes);
        let kind_then = match kind {
            _ if is_bytes => DataType::Binary,
            DataType::Timestamp(_, zone) if column.physical_type() == PhysicalType::INT96 => {
                DataType::Timestamp(self.read_as.int96, zone.clone())
            }
            _ => return kind.clone(),
        };
        self.is_changed = true;
        kind_then
    }
}

fn is_text(column: &ColumnDescriptor, kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => column.physical_type() == PhysicalType::BYTE_ARRAY,
        DataType::Dictionary(_, value) => is_text(column, value),
        _ => false,
    }
}

/// The library looks whether the column is UTF-8. It trusts the bytes of any other.
fn is_checked(column: &ColumnDescriptor) -> bool {
    column.converted_type() == ConvertedType::UTF8
}

/// The footer with these leaves as plain bytes.
fn with_bytes(metadata: &ParquetMetaData, is_bytes: Vec<bool>) -> Result<ParquetMetaData, ParquetError> {
    let file = metadata.file_metadata();
    let root = as_bytes(file.schema_descr().root_schema(), &mut is_bytes.into_iter())?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(Arc::new(root))),
        None,
    );
    Ok(ParquetMetaData::new(file, metadata.row_groups().to_vec()))
}

fn as_bytes(node: &Type, is_bytes: &mut impl Iterator<Item = bool>) -> Result<Type, ParquetError> {
    let info = node.get_basic_info();
    let id = info.has_id().then(|| info.id());
    match node {
        Type::PrimitiveType { physical_type, .. } => match is_bytes.next() {
            Some(true) => Type::primitive_type_builder(info.name(), *physical_type)
                .with_repetition(info.repetition())
                .with_id(id)
                .build(),
            _ => Ok(node.clone()),
        },
        Type::GroupType { fields, .. } => {
            let mut kept = Vec::with_capacity(fields.len());
            for field in fields {
                kept.push(Arc::new(as_bytes(field, is_bytes)?));
            }
            let mut group = Type::group_type_builder(info.name())
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_fields(kept)
                .with_id(id);
            if info.has_repetition() {
                group = group.with_repetition(info.repetition());
            }
            group.build()
        }
    }
}

/// INT96 times in microseconds, read beside the same ones in milliseconds: of days 300,000 years away only these are
/// right, the others wrap around into any year. Such an instant becomes the greatest one, which is out of every range.
pub(super) fn unwrapped(micros: &ArrayData, millis: &ArrayData) -> Result<ArrayData, ArrowError> {
    if let (DataType::Timestamp(TimeUnit::Microsecond, zone), DataType::Timestamp(TimeUnit::Millisecond, _)) =
        (micros.data_type(), millis.data_type())
    {
        let (fine, coarse) = (make_array(micros.clone()), make_array(millis.clone()));
        let fine = fine.as_primitive::<TimestampMicrosecondType>();
        let coarse = coarse.as_primitive::<TimestampMillisecondType>();
        let pairs = fine.values().iter().zip(coarse.values());
        let values: Vec<i64> =
            pairs.map(|(micros, millis)| if micros.div_euclid(1000) == *millis { *micros } else { i64::MAX }).collect();
        let instants = TimestampMicrosecondArray::new(values.into(), fine.nulls().cloned());
        return Ok(instants.with_timezone_opt(zone.clone()).into());
    }
    if micros.child_data().is_empty() {
        return Ok(micros.clone());
    }
    let mut children = Vec::with_capacity(micros.child_data().len());
    for (fine, coarse) in micros.child_data().iter().zip(millis.child_data()) {
        children.push(unwrapped(fine, coarse)?);
    }
    micros.clone().into_builder().child_data(children).build()
}
