//! Canonical bytes: one row as one JSON object, the same bytes wherever and however it was computed. The rules stand in
//! `docs/documents.md`. Knows nothing of queries.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, Float32Array,
    Float64Array, Int64Array, LargeListArray, MapArray, StringViewArray, StructArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type, TimeUnit, UInt64Type};
use arrow::error::ArrowError;

use super::civil::{write_date, write_instant, write_time};

/// Writes rows of some columns as JSON objects.
pub struct RowEncoder {
    /// Sorted by the bytes of the key.
    members: Vec<(Vec<u8>, Column)>,
}

impl RowEncoder {
    /// Takes columns by name. Names must differ.
    pub fn new<'a>(columns: impl Iterator<Item = (&'a str, &'a ArrayRef)>) -> Result<Self, ArrowError> {
        let mut named: Vec<(&str, &ArrayRef)> = columns.collect();
        named.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        let mut members = Vec::with_capacity(named.len());
        for (n, (name, values)) in named.into_iter().enumerate() {
            let mut key = vec![if n == 0 { b'{' } else { b',' }];
            write_text(&mut key, name);
            key.push(b':');
            members.push((key, Column::new(values)?));
        }
        Ok(Self { members })
    }

    /// Appends the object of one row.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.members.is_empty() {
            out.push(b'{');
        }
        for (key, values) in &self.members {
            out.extend_from_slice(key);
            values.write(row, out);
        }
        out.push(b'}');
    }
}

/// Writes the values of one column as JSON, or as plain text.
pub struct Column {
    nulls: Option<arrow::buffer::NullBuffer>,
    values: Values,
}

enum Values {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float32(Float32Array),
    Float64(Float64Array),
    Decimal128(Decimal128Array, i8),
    Decimal256(Decimal256Array, i8),
    Text(StringViewArray),
    Binary(BinaryViewArray),
    /// Days since 1970-01-01.
    Date(Int64Array),
    Instant(Int64Array, TimeUnit),
    Time(Int64Array, TimeUnit),
    List(LargeListArray, Box<Column>),
    Struct(RowEncoder),
    Map(MapArray, Box<Column>, Box<Column>),
}

impl Column {
    /// Prepares a column; an error if JSON cannot hold its type.
    pub fn new(values: &ArrayRef) -> Result<Self, ArrowError> {
        if values.data_type() == &DataType::Null {
            return Ok(Self { nulls: None, values: Values::Null });
        }
        if let DataType::Dictionary(_, plain) = values.data_type() {
            return Self::new(&cast(values, plain)?);
        }
        Ok(Self { nulls: values.logical_nulls(), values: Values::new(values)? })
    }

    /// True if the row has no value, or one that JSON writes as `null` (NaN and infinities).
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
            || match &self.values {
                Values::Null => true,
                Values::Float32(values) => !values.value(row).is_finite(),
                Values::Float64(values) => !values.value(row).is_finite(),
                _ => false,
            }
    }

    /// Appends the JSON of one row's value.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match &self.values {
            Values::Text(values) => write_text(out, values.value(row)),
            Values::Binary(_) | Values::Date(_) | Values::Instant(..) | Values::Time(..) => {
                out.push(b'"');
                self.write_plain(row, out);
                out.push(b'"');
            }
            _ => self.write_plain(row, out),
        }
    }

    /// Appends the value's text: its JSON, without the quotes and escapes of a string. The row must not be null.
    pub fn write_plain(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Null => {}
            Values::Bool(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            Values::Int(values) => write_number(out, &values.value(row)),
            Values::UInt(values) => write_number(out, &values.value(row)),
            Values::Float32(values) => write_float(out, &positive_zero(values.value(row), 0.0)),
            Values::Float64(values) => write_float(out, &positive_zero(values.value(row), 0.0)),
            Values::Decimal128(values, scale) => write_decimal(out, &values.value(row).to_string(), *scale),
            Values::Decimal256(values, scale) => write_decimal(out, &values.value(row).to_string(), *scale),
            Values::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::Binary(values) => write_base64(out, values.value(row)),
            Values::Date(days) => write_date(out, days.value(row)),
            Values::Instant(values, unit) => write_instant(out, values.value(row), *unit),
            Values::Time(values, unit) => write_time(out, values.value(row), *unit),
            Values::List(lists, items) => write_list(out, lists, items, row),
            Values::Struct(members) => members.write(row, out),
            Values::Map(maps, keys, values) => write_map(out, maps, keys, values, row),
        }
    }
}

impl Values {
    fn new(values: &ArrayRef) -> Result<Self, ArrowError> {
        use DataType as T;
        let to = |kind: &DataType| cast(values, kind);
        Ok(match values.data_type() {
            T::Boolean => Self::Bool(values.as_boolean().clone()),
            T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 => {
                Self::Int(to(&T::Int64)?.as_primitive::<Int64Type>().clone())
            }
            T::UInt64 => Self::UInt(values.as_primitive::<UInt64Type>().clone()),
            T::Float16 | T::Float32 => Self::Float32(to(&T::Float32)?.as_primitive::<Float32Type>().clone()),
            T::Float64 => Self::Float64(values.as_primitive::<Float64Type>().clone()),
            T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) => {
                Self::Decimal128(to(&T::Decimal128(*p, *s))?.as_primitive().clone(), *s)
            }
            T::Decimal256(_, s) => Self::Decimal256(values.as_primitive().clone(), *s),
            T::Utf8 | T::LargeUtf8 | T::Utf8View => Self::Text(to(&T::Utf8View)?.as_string_view().clone()),
            T::FixedSizeBinary(_) => {
                let plain = to(&T::Binary)?;
                Self::Binary(cast(&plain, &T::BinaryView)?.as_binary_view().clone())
            }
            T::Binary | T::LargeBinary | T::BinaryView => Self::Binary(to(&T::BinaryView)?.as_binary_view().clone()),
            T::Date32 => {
                let days = to(&T::Int32)?;
                Self::Date(cast(&days, &T::Int64)?.as_primitive::<Int64Type>().clone())
            }
            T::Date64 => {
                let millis = to(&T::Int64)?;
                Self::Date(millis.as_primitive::<Int64Type>().unary(|millis| millis.div_euclid(86_400_000)))
            }
            T::Timestamp(unit, _) => Self::Instant(to(&T::Int64)?.as_primitive::<Int64Type>().clone(), *unit),
            T::Time32(unit) => {
                let plain = to(&T::Int32)?;
                Self::Time(cast(&plain, &T::Int64)?.as_primitive::<Int64Type>().clone(), *unit)
            }
            T::Time64(unit) => Self::Time(to(&T::Int64)?.as_primitive::<Int64Type>().clone(), *unit),
            T::List(item)
            | T::LargeList(item)
            | T::FixedSizeList(item, _)
            | T::ListView(item)
            | T::LargeListView(item) => Self::list(&to(&T::LargeList(Arc::clone(item)))?)?,
            T::Struct(fields) => Self::structure(values.as_struct(), fields)?,
            T::Map(..) => Self::map(values.as_map())?,
            other => return Err(ArrowError::NotYetImplemented(format!("JSON has no form for {other}"))),
        })
    }

    fn list(values: &ArrayRef) -> Result<Self, ArrowError> {
        let lists = values.as_list::<i64>().clone();
        let items = Column::new(lists.values())?;
        Ok(Self::List(lists, Box::new(items)))
    }

    fn structure(values: &StructArray, fields: &arrow::datatypes::Fields) -> Result<Self, ArrowError> {
        let members = fields.iter().map(|field| field.name().as_str()).zip(values.columns());
        Ok(Self::Struct(RowEncoder::new(members)?))
    }

    fn map(values: &MapArray) -> Result<Self, ArrowError> {
        let keys = Column::new(values.keys())?;
        let items = Column::new(values.values())?;
        Ok(Self::Map(values.clone(), Box::new(keys), Box::new(items)))
    }
}

/// Says whether JSON can hold a type, naming the part that it cannot hold.
pub fn check_type(kind: &DataType) -> Result<(), DataType> {
    use DataType as T;
    let inner = |field: &Arc<Field>| check_type(field.data_type());
    match kind {
        T::Interval(_) | T::Duration(_) | T::Union(..) | T::RunEndEncoded(..) => Err(kind.clone()),
        T::Dictionary(_, plain) => check_type(plain),
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) | T::ListView(item) | T::LargeListView(item) => {
            inner(item)
        }
        T::Struct(fields) => fields.iter().try_for_each(inner),
        T::Map(entries, _) => inner(entries),
        _ => Ok(()),
    }
}

fn positive_zero<T: PartialEq>(value: T, zero: T) -> T {
    if value == zero { zero } else { value }
}

/// A vector takes every byte, so these cannot fail.
fn write_number(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    let written = serde_json::to_writer(&mut *out, value);
    assert!(written.is_ok(), "numbers are always written");
}

/// Exponents have no plus sign.
fn write_float(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    let from = out.len();
    write_number(out, value);
    if let Some(plus) = out[from..].iter().position(|byte| *byte == b'+') {
        out.remove(from + plus);
    }
}

fn write_text(out: &mut Vec<u8>, value: &str) {
    let written = serde_json::to_writer(&mut *out, value);
    assert!(written.is_ok(), "text is always written");
}

/// `digits` with `scale` of them behind the point; a negative scale appends zeros.
fn write_decimal(out: &mut Vec<u8>, digits: &str, scale: i8) {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    out.extend_from_slice(sign.as_bytes());
    if scale <= 0 {
        out.extend_from_slice(digits.as_bytes());
        if digits != "0" {
            out.extend(std::iter::repeat_n(b'0', usize::from(scale.unsigned_abs())));
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    if digits.len() <= scale {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
        out.extend_from_slice(digits.as_bytes());
    } else {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(whole.as_bytes());
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| (group << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let letter = LETTERS[((group >> (18 - 6 * n)) & 63) as usize];
            out.push(if n <= chunk.len() { letter } else { b'=' });
        }
    }
}

fn write_list(out: &mut Vec<u8>, lists: &LargeListArray, items: &Column, row: usize) {
    out.push(b'[');
    let (from, to) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
    for n in from..to {
        if n > from {
            out.push(b',');
        }
        items.write(n, out);
    }
    out.push(b']');
}

/// Of a key that stands twice the last one counts.
fn write_map(out: &mut Vec<u8>, maps: &MapArray, keys: &Column, values: &Column, row: usize) {
    let (from, to) = (maps.value_offsets()[row] as usize, maps.value_offsets()[row + 1] as usize);
    let mut members = std::collections::BTreeMap::new();
    for n in from..to {
        let mut key = Vec::new();
        keys.write_plain(n, &mut key);
        members.insert(key, n);
    }
    out.push(b'{');
    for (n, (key, at)) in members.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write_text(out, &String::from_utf8_lossy(&key));
        out.push(b':');
        values.write(at, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;
