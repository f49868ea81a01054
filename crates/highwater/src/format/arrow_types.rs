//! Column types as Arrow types and back. The only place that decides how a column lies in memory; knows no values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::type_text::Node;
use super::types::ColumnType;

/// Zone of every timestamp column.
pub(super) const UTC: &str = "UTC";

/// How a column of this type lies in memory. Strings are plain `Utf8`: views would keep a whole part's buffers alive for
/// a few joined rows.
pub(super) fn data_type(column: &ColumnType) -> DataType {
    match column {
        ColumnType::String => DataType::Utf8,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int8 => DataType::Int8,
        ColumnType::Int16 => DataType::Int16,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::UInt8 => DataType::UInt8,
        ColumnType::UInt16 => DataType::UInt16,
        ColumnType::UInt32 => DataType::UInt32,
        ColumnType::UInt64 => DataType::UInt64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::Decimal(precision, scale) if *precision <= 38 => DataType::Decimal128(*precision, *scale),
        ColumnType::Decimal(precision, scale) => DataType::Decimal256(*precision, *scale),
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        ColumnType::List(item) => DataType::List(item_field(item)),
        ColumnType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|(name, kind)| Field::new(name, data_type(kind), true)).collect())
        }
    }
}

/// The field of a list's items.
pub(super) fn item_field(item: &ColumnType) -> Arc<Field> {
    Arc::new(Field::new_list_field(data_type(item), true))
}

/// The column types of a frozen schema.
pub fn schema_types(schema: &Schema) -> Vec<(String, ColumnType)> {
    schema.fields().iter().map(|field| (field.name().clone(), column_type(field.data_type()))).collect()
}

/// The column type that an Arrow type becomes.
pub(super) fn column_type(arrow: &DataType) -> ColumnType {
    node(arrow).settled()
}

/// What is known of a column of this Arrow type. Types without a column type of their own (binary, times of day,
/// durations) are strings: binary as the UTF-8 that it holds, 16 fixed bytes as a UUID, others as Arrow prints them.
pub(super) fn node(arrow: &DataType) -> Node {
    Node::Scalar(match arrow {
        DataType::Null => return Node::Null,
        DataType::Boolean => ColumnType::Bool,
        DataType::Int8 => ColumnType::Int8,
        DataType::Int16 => ColumnType::Int16,
        DataType::Int32 => ColumnType::Int32,
        DataType::Int64 => ColumnType::Int64,
        DataType::UInt8 => ColumnType::UInt8,
        DataType::UInt16 => ColumnType::UInt16,
        DataType::UInt32 => ColumnType::UInt32,
        DataType::UInt64 => ColumnType::UInt64,
        DataType::Float16 | DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => decimal(*p, *s),
        DataType::Date32 | DataType::Date64 => ColumnType::Date,
        DataType::Timestamp(_, _) => ColumnType::Timestamp,
        DataType::Dictionary(_, value) => return node(value),
        DataType::RunEndEncoded(_, value) => return node(value.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => return Node::List(Box::new(node(item.data_type()))),
        DataType::Struct(fields) => {
            return Node::Struct(fields.iter().map(|f| (f.name().clone(), node(f.data_type()))).collect());
        }
        DataType::Union(fields, _) => {
            let mut seen = super::seen::Seen::Nulls;
            for (_, field) in fields.iter() {
                seen.join(node(field.data_type()).into());
            }
            return seen.into();
        }
        _ => ColumnType::String,
    })
}

/// A scale outside 0 to the precision is written out in digits instead.
fn decimal(precision: u8, scale: i8) -> ColumnType {
    let (precision, scale) = (i16::from(precision), i16::from(scale));
    let digits = (precision - scale.min(0)).max(scale).clamp(1, 76);
    let scale = scale.clamp(0, digits);
    ColumnType::Decimal(u8::try_from(digits).unwrap_or(76), i8::try_from(scale).unwrap_or(76))
}
