//! Columns of columnar files in the table's types: whole arrays where nothing can be lost, else value by value. Knows no
//! rows but their index.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Decimal256Type, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;

use super::array::array_cell;
use super::arrow_types::UTC;
use super::column::{Column, Misfit};
use super::time;
use super::types::ColumnType;

/// The column as `target`, the Arrow type of `kind`. Values that do not fit are null there, and told.
pub(super) fn cast(
    array: &ArrayRef,
    kind: &ColumnType,
    target: &DataType,
    mut misfits: impl FnMut(usize, Misfit),
) -> Result<ArrayRef, ArrowError> {
    if let Some(whole) = cast_whole(array, target)? {
        return Ok(whole);
    }
    let mut column = Column::new(kind);
    for row in 0..array.len() {
        if let Err(misfit) = column.append(&array_cell(array, row)) {
            misfits(row, misfit);
        }
    }
    column.finish()
}

fn cast_whole(array: &ArrayRef, target: &DataType) -> Result<Option<ArrayRef>, ArrowError> {
    let whole = match (array.data_type(), target) {
        (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            let instants = array.as_primitive::<TimestampMicrosecondType>();
            // A time without zone counts as UTC, and an instant is the same in every zone: only the label changes.
            let relabelled = || Arc::new(instants.clone().with_timezone(UTC)) as ArrayRef;
            instants.iter().flatten().all(time::micros_in_range).then(relabelled)
        }
        (DataType::Date32, DataType::Date32) => {
            let days = array.as_primitive::<Date32Type>();
            days.iter().flatten().all(|day| time::day_in_range(day.into()).is_some()).then(|| array.clone())
        }
        (DataType::Decimal128(p, _), to) if array.data_type() == to => {
            array.as_primitive::<Decimal128Type>().validate_decimal_precision(*p).is_ok().then(|| array.clone())
        }
        (DataType::Decimal256(p, _), to) if array.data_type() == to => {
            array.as_primitive::<Decimal256Type>().validate_decimal_precision(*p).is_ok().then(|| array.clone())
        }
        (from, to) if from == to && !has_range(from) => Some(array.clone()),
        (from, to) if is_lossless(from, to) => Some(arrow::compute::cast(array, to)?),
        _ => None,
    };
    Ok(whole)
}

/// Files may hold values of the type that the type's own text could not name.
fn has_range(kind: &DataType) -> bool {
    match kind {
        DataType::Date32 | DataType::Timestamp(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => true,
        DataType::List(item) => has_range(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_range(field.data_type())),
        _ => false,
    }
}

fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match from {
        Dictionary(_, value) => *to == Utf8 && matches!(**value, Utf8 | LargeUtf8 | Utf8View),
        LargeUtf8 | Utf8View => *to == Utf8,
        Int8 => matches!(to, Int16 | Int32 | Int64 | Float64),
        Int16 => matches!(to, Int32 | Int64 | Float64),
        Int32 => matches!(to, Int64 | Float64),
        UInt8 => matches!(to, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64 | Float64),
        UInt16 => matches!(to, UInt32 | UInt64 | Int32 | Int64 | Float64),
        UInt32 => matches!(to, UInt64 | Int64 | Float64),
        Float32 => *to == Float64,
        _ => false,
    }
}
