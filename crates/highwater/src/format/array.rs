//! Values of Arrow arrays, one by one: the way of those columns whose type is not the table's. Knows no targets.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, RunArray};
use arrow::datatypes::*;
use arrow::util::display::array_value_to_string;

use super::cell::Cell;
use super::number;

/// The value at `row`, of any type that a file may hold.
pub(super) fn array_cell(array: &dyn Array, row: usize) -> Cell<'_> {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Null => Cell::Null,
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Int8 => integer::<Int8Type>(array, row),
        DataType::Int16 => integer::<Int16Type>(array, row),
        DataType::Int32 => integer::<Int32Type>(array, row),
        DataType::Int64 => integer::<Int64Type>(array, row),
        DataType::UInt8 => integer::<UInt8Type>(array, row),
        DataType::UInt16 => integer::<UInt16Type>(array, row),
        DataType::UInt32 => integer::<UInt32Type>(array, row),
        DataType::UInt64 => integer::<UInt64Type>(array, row),
        DataType::Float16 => Cell::Single(array.as_primitive::<Float16Type>().value(row).to_f32()),
        DataType::Float32 => Cell::Single(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal32(_, scale) => decimal::<Decimal32Type>(array, row, *scale),
        DataType::Decimal64(_, scale) => decimal::<Decimal64Type>(array, row, *scale),
        DataType::Decimal128(_, scale) => decimal::<Decimal128Type>(array, row, *scale),
        DataType::Decimal256(_, scale) => decimal::<Decimal256Type>(array, row, *scale),
        DataType::Date32 => Cell::Date(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Date64 => date_of_millis(array.as_primitive::<Date64Type>().value(row)),
        DataType::Timestamp(unit, _) => instant(array, row, *unit),
        DataType::Utf8 => Cell::Text(Cow::Borrowed(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => Cell::Text(Cow::Borrowed(array.as_string::<i64>().value(row))),
        DataType::Utf8View => Cell::Text(Cow::Borrowed(array.as_string_view().value(row))),
        DataType::Binary => binary(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => binary(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => binary(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(16) => uuid(array.as_fixed_size_binary().value(row)),
        DataType::FixedSizeBinary(_) => binary(array.as_fixed_size_binary().value(row)),
        DataType::List(_) => Cell::Items(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Cell::Items(array.as_list::<i64>().value(row)),
        DataType::ListView(_) => Cell::Items(array.as_list_view::<i32>().value(row)),
        DataType::LargeListView(_) => Cell::Items(array.as_list_view::<i64>().value(row)),
        DataType::FixedSizeList(..) => Cell::Items(array.as_fixed_size_list().value(row)),
        DataType::Map(..) => Cell::Items(Arc::new(array.as_map().value(row)) as ArrayRef),
        DataType::Struct(_) => Cell::Fields(array.as_struct(), row),
        DataType::Union(..) => {
            let union = array.as_union();
            array_cell(union.child(union.type_id(row)), union.value_offset(row))
        }
        DataType::Dictionary(..) => dictionary(array, row),
        DataType::RunEndEncoded(ends, _) => run(array, row, ends.data_type()),
        _ => match array_value_to_string(array, row) {
            Ok(text) => Cell::Text(text.into()),
            Err(error) => Cell::Unreadable(error.to_string()),
        },
    }
}

fn integer<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &dyn Array, row: usize) -> Cell<'_> {
    Cell::Integer(array.as_primitive::<T>().value(row).into())
}

/// All its digits: the array's own text of a value with more than the type has leaves out the last ones.
fn decimal<T: ArrowPrimitiveType<Native: Display>>(array: &dyn Array, row: usize, scale: i8) -> Cell<'_> {
    Cell::Number(number::scaled_text(&array.as_primitive::<T>().value(row).to_string(), scale).into())
}

fn date_of_millis<'a>(millis: i64) -> Cell<'a> {
    const DAY: i64 = 86_400_000;
    match (millis.rem_euclid(DAY), millis.checked_mul(1000)) {
        (0, _) => Cell::Date(millis.div_euclid(DAY)),
        (_, Some(micros)) => Cell::Instant(micros),
        (_, None) => Cell::Unreadable("a date is out of range".to_owned()),
    }
}

/// Digits finer than microseconds are dropped, towards the past.
fn instant(array: &dyn Array, row: usize, unit: TimeUnit) -> Cell<'_> {
    let micros = match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row).checked_mul(1_000_000),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1000),
        TimeUnit::Microsecond => Some(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        TimeUnit::Nanosecond => Some(array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1000)),
    };
    match micros {
        Some(micros) => Cell::Instant(micros),
        None => Cell::Unreadable("a timestamp is out of range".to_owned()),
    }
}

fn binary(bytes: &[u8]) -> Cell<'_> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cell::Text(Cow::Borrowed(text)),
        Err(_) => Cell::Unreadable(format!("{} bytes are not UTF-8", bytes.len())),
    }
}

fn uuid(bytes: &[u8]) -> Cell<'_> {
    match uuid::Uuid::from_slice(bytes) {
        Ok(id) => Cell::Text(id.hyphenated().to_string().into()),
        Err(error) => Cell::Unreadable(error.to_string()),
    }
}

fn dictionary(array: &dyn Array, row: usize) -> Cell<'_> {
    let dictionary = array.as_any_dictionary();
    match array_cell(dictionary.keys(), row) {
        Cell::Integer(key) => match usize::try_from(key) {
            Ok(key) if key < dictionary.values().len() => array_cell(dictionary.values(), key),
            _ => Cell::Unreadable("a dictionary key is out of range".to_owned()),
        },
        _ => Cell::Null,
    }
}

fn run<'a>(array: &'a dyn Array, row: usize, ends: &DataType) -> Cell<'a> {
    match ends {
        DataType::Int16 => run_of::<Int16Type>(array, row),
        DataType::Int32 => run_of::<Int32Type>(array, row),
        _ => run_of::<Int64Type>(array, row),
    }
}

fn run_of<T: RunEndIndexType>(array: &dyn Array, row: usize) -> Cell<'_> {
    match array.as_any().downcast_ref::<RunArray<T>>() {
        Some(runs) => array_cell(runs.values(), runs.get_physical_index(row)),
        None => Cell::Unreadable("a run-end encoded column is malformed".to_owned()),
    }
}
