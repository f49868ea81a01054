//! The fields of the documents, told by the types of the SQL's columns.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Schema};

use crate::config::FieldHint;
use crate::index::{Field, FieldKind};

/// One field for each column, in the SQL's order.
pub fn fields(schema: &Schema, hints: &BTreeMap<String, FieldHint>) -> Vec<Field> {
    let field = |column: &arrow::datatypes::FieldRef| {
        let (kind, many) = kind(column.data_type());
        Field { name: column.name().clone(), kind, many, hint: hints.get(column.name()).copied() }
    };
    schema.fields().iter().map(field).collect()
}

/// What canonical JSON makes of a type, and whether it is a list. A list of lists is kept whole, as an object is.
fn kind(column: &DataType) -> (FieldKind, bool) {
    use DataType as T;
    match column {
        T::Boolean => (FieldKind::Bool, false),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 => (FieldKind::I64, false),
        T::UInt64 => (FieldKind::U64, false),
        T::Float16 | T::Float32 | T::Float64 => (FieldKind::F64, false),
        T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => (FieldKind::F64, false),
        T::Timestamp(..) => (FieldKind::Time, false),
        T::Date32 | T::Date64 => (FieldKind::Date, false),
        T::Struct(_) | T::Map(..) => (FieldKind::Object, false),
        T::Dictionary(_, plain) => kind(plain),
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) | T::ListView(item) | T::LargeListView(item) => {
            match kind(item.data_type()) {
                (_, true) => (FieldKind::Object, true),
                (kind, false) => (kind, true),
            }
        }
        _ => (FieldKind::Text, false),
    }
}
