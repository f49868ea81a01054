//! A column of the table while rows are appended to it: each cell is cast exactly or refused by name. Knows nothing of
//! files, nor which rows are kept.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanBuilder, Date32Builder, Decimal128Builder, Decimal256Builder,
    Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, ListArray, PrimitiveBuilder,
    StringBuilder, StructArray, TimestampMicrosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::error::ArrowError;
use serde_json::value::RawValue;

use super::array::array_cell;
use super::arrow_types::{UTC, data_type, item_field};
use super::cell::{Cell, json_error, short};
use super::json::{Names, read_items, read_object};
use super::types::ColumnType;

/// A value that its column can't hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// Where inside a nested value, e.g. `.size[3]`.
    place: String,
    what: String,
}

impl Misfit {
    fn new(what: String) -> Self {
        Self { place: String::new(), what }
    }

    /// The reason in words, naming the column.
    pub fn of_column(&self, column: &str) -> String {
        format!("column {column}{}: {}", self.place, self.what)
    }
}

/// A growing column. After each append it has one value more, whether the cell fitted or not.
pub(super) struct Column {
    kind: ColumnType,
    values: Values,
    len: usize,
}

enum Values {
    Text(StringBuilder),
    Bool(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal128(Decimal128Builder, u8, i8),
    Decimal256(Decimal256Builder, u8, i8),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    List(Lists),
    Struct(Structs),
}

struct Lists {
    field: Arc<Field>,
    offsets: Vec<i32>,
    present: Vec<bool>,
    items: Box<Column>,
}

struct Structs {
    fields: Fields,
    names: Names,
    present: Vec<bool>,
    columns: Vec<Column>,
}

impl Column {
    /// An empty column.
    pub fn new(kind: &ColumnType) -> Self {
        let values = match kind {
            ColumnType::String => Values::Text(StringBuilder::new()),
            ColumnType::Bool => Values::Bool(BooleanBuilder::new()),
            ColumnType::Int8 => Values::Int8(Int8Builder::new()),
            ColumnType::Int16 => Values::Int16(Int16Builder::new()),
            ColumnType::Int32 => Values::Int32(Int32Builder::new()),
            ColumnType::Int64 => Values::Int64(Int64Builder::new()),
            ColumnType::UInt8 => Values::UInt8(UInt8Builder::new()),
            ColumnType::UInt16 => Values::UInt16(UInt16Builder::new()),
            ColumnType::UInt32 => Values::UInt32(UInt32Builder::new()),
            ColumnType::UInt64 => Values::UInt64(UInt64Builder::new()),
            ColumnType::Float32 => Values::Float32(Float32Builder::new()),
            ColumnType::Float64 => Values::Float64(Float64Builder::new()),
            ColumnType::Decimal(p, s) if *p <= 38 => {
                Values::Decimal128(Decimal128Builder::new().with_data_type(data_type(kind)), *p, *s)
            }
            ColumnType::Decimal(p, s) => {
                Values::Decimal256(Decimal256Builder::new().with_data_type(data_type(kind)), *p, *s)
            }
            ColumnType::Date => Values::Date(Date32Builder::new()),
            ColumnType::Timestamp => Values::Timestamp(TimestampMicrosecondBuilder::new().with_timezone(UTC)),
            ColumnType::List(item) => Values::List(Lists {
                field: item_field(item),
                offsets: vec![0],
                present: Vec::new(),
                items: Box::new(Self::new(item)),
            }),
            ColumnType::Struct(fields) => Values::Struct(Structs {
                fields: match data_type(kind) {
                    DataType::Struct(fields) => fields,
                    _ => Fields::empty(),
                },
                names: Names::new(fields.iter().map(|(name, _)| name.clone()).collect()),
                present: Vec::new(),
                columns: fields.iter().map(|(_, kind)| Self::new(kind)).collect(),
            }),
        };
        Self { kind: kind.clone(), values, len: 0 }
    }

    /// Appends the cell; where it does not fit, a null instead.
    pub fn append(&mut self, cell: &Cell<'_>) -> Result<(), Misfit> {
        self.len += 1;
        if let Cell::Unreadable(reason) = cell {
            self.push_null();
            return Err(Misfit::new(reason.clone()));
        }
        if matches!(cell, Cell::Null) {
            self.push_null();
            return Ok(());
        }
        let fits = match &mut self.values {
            Values::Text(builder) => {
                let text = cell.text();
                builder.append_option(text.as_deref());
                text.is_some()
            }
            Values::Bool(builder) => {
                let flag = cell.flag();
                builder.append_option(flag);
                flag.is_some()
            }
            Values::Int8(builder) => append_integer(builder, cell),
            Values::Int16(builder) => append_integer(builder, cell),
            Values::Int32(builder) => append_integer(builder, cell),
            Values::Int64(builder) => append_integer(builder, cell),
            Values::UInt8(builder) => append_integer(builder, cell),
            Values::UInt16(builder) => append_integer(builder, cell),
            Values::UInt32(builder) => append_integer(builder, cell),
            Values::UInt64(builder) => append_integer(builder, cell),
            Values::Float32(builder) => append(builder, cell.single()),
            Values::Float64(builder) => append(builder, cell.float()),
            Values::Decimal128(builder, p, s) => {
                append(builder, cell.unscaled(*p, *s).and_then(|unscaled| unscaled.to_i128()))
            }
            Values::Decimal256(builder, p, s) => append(builder, cell.unscaled(*p, *s)),
            Values::Date(builder) => append(builder, cell.day()),
            Values::Timestamp(builder) => append(builder, cell.micros()),
            Values::List(lists) => match lists.append(cell) {
                Some(appended) => return appended,
                None => false,
            },
            Values::Struct(structs) => match structs.append(cell) {
                Some(appended) => return appended,
                None => false,
            },
        };
        if fits { Ok(()) } else { Err(self.misfit(cell)) }
    }

    fn misfit(&self, cell: &Cell<'_>) -> Misfit {
        Misfit::new(format!("{} is not exactly of type {}", cell.shown(), short(&self.kind.to_string())))
    }

    /// Appends a null.
    pub fn append_null(&mut self) {
        self.len += 1;
        self.push_null();
    }

    fn push_null(&mut self) {
        match &mut self.values {
            Values::Text(builder) => builder.append_null(),
            Values::Bool(builder) => builder.append_null(),
            Values::Int8(builder) => builder.append_null(),
            Values::Int16(builder) => builder.append_null(),
            Values::Int32(builder) => builder.append_null(),
            Values::Int64(builder) => builder.append_null(),
            Values::UInt8(builder) => builder.append_null(),
            Values::UInt16(builder) => builder.append_null(),
            Values::UInt32(builder) => builder.append_null(),
            Values::UInt64(builder) => builder.append_null(),
            Values::Float32(builder) => builder.append_null(),
            Values::Float64(builder) => builder.append_null(),
            Values::Decimal128(builder, ..) => builder.append_null(),
            Values::Decimal256(builder, ..) => builder.append_null(),
            Values::Date(builder) => builder.append_null(),
            Values::Timestamp(builder) => builder.append_null(),
            Values::List(lists) => lists.close(false),
            Values::Struct(structs) => structs.append_null(),
        }
    }

    /// Takes what was appended, leaving the column empty.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.len = 0;
        Ok(match &mut self.values {
            Values::Text(builder) => Arc::new(builder.finish()),
            Values::Bool(builder) => Arc::new(builder.finish()),
            Values::Int8(builder) => Arc::new(builder.finish()),
            Values::Int16(builder) => Arc::new(builder.finish()),
            Values::Int32(builder) => Arc::new(builder.finish()),
            Values::Int64(builder) => Arc::new(builder.finish()),
            Values::UInt8(builder) => Arc::new(builder.finish()),
            Values::UInt16(builder) => Arc::new(builder.finish()),
            Values::UInt32(builder) => Arc::new(builder.finish()),
            Values::UInt64(builder) => Arc::new(builder.finish()),
            Values::Float32(builder) => Arc::new(builder.finish()),
            Values::Float64(builder) => Arc::new(builder.finish()),
            Values::Decimal128(builder, ..) => Arc::new(builder.finish()),
            Values::Decimal256(builder, ..) => Arc::new(builder.finish()),
            Values::Date(builder) => Arc::new(builder.finish()),
            Values::Timestamp(builder) => Arc::new(builder.finish()),
            Values::List(lists) => Arc::new(lists.finish()?),
            Values::Struct(structs) => Arc::new(structs.finish()?),
        })
    }
}

fn append<T: ArrowPrimitiveType>(builder: &mut PrimitiveBuilder<T>, value: Option<T::Native>) -> bool {
    builder.append_option(value);
    value.is_some()
}

fn append_integer<T: ArrowPrimitiveType>(builder: &mut PrimitiveBuilder<T>, cell: &Cell<'_>) -> bool
where
    T::Native: TryFrom<i128>,
{
    append(builder, cell.integer().and_then(|integer| integer.try_into().ok()))
}

impl Lists {
    /// `None`: the cell is no list (a null stands in its place).
    fn append(&mut self, cell: &Cell<'_>) -> Option<Result<(), Misfit>> {
        let appended = match cell {
            Cell::Items(items) => self.append_cells((0..items.len()).map(|row| array_cell(items, row))),
            Cell::Json(raw) if raw.starts_with('[') => match read_items(raw) {
                Ok(items) => self.append_cells(items.iter().map(|item| Cell::json(item.get()))),
                Err(error) => Err(Misfit::new(json_error(&error))),
            },
            Cell::Text(text) => match Cell::nested_text(text) {
                Some(nested) => return self.append(&nested),
                None => {
                    self.close(false);
                    return None;
                }
            },
            _ => {
                self.close(false);
                return None;
            }
        };
        self.close(appended.is_ok());
        Some(appended)
    }

    fn append_cells<'c>(&mut self, cells: impl Iterator<Item = Cell<'c>>) -> Result<(), Misfit> {
        for (n, cell) in cells.enumerate() {
            self.items.append(&cell).map_err(|mut misfit| {
                misfit.place.insert_str(0, &format!("[{n}]"));
                misfit
            })?;
        }
        Ok(())
    }

    /// Ends the list that was being appended.
    fn close(&mut self, present: bool) {
        self.present.push(present);
        self.offsets.push(i32::try_from(self.items.len).unwrap_or(i32::MAX));
    }

    fn finish(&mut self) -> Result<ListArray, ArrowError> {
        let offsets = OffsetBuffer::new(std::mem::replace(&mut self.offsets, vec![0]).into());
        let items = self.items.finish()?;
        let nulls = NullBuffer::from(std::mem::take(&mut self.present));
        ListArray::try_new(self.field.clone(), offsets, items, Some(nulls))
    }
}

impl Structs {
    /// `None`: the cell is no struct (a null stands in its place).
    fn append(&mut self, cell: &Cell<'_>) -> Option<Result<(), Misfit>> {
        let appended = match cell {
            Cell::Fields(array, row) => {
                let cells: Vec<Cell<'_>> = (self.fields.iter())
                    .map(|field| array.column_by_name(field.name()).map_or(Cell::Null, |one| array_cell(one, *row)))
                    .collect();
                self.append_cells(cells.into_iter())
            }
            Cell::Json(raw) if raw.starts_with('{') => match read_object(raw, &self.names) {
                Ok(slots) => self.append_cells(slots.into_iter().map(json_cell)),
                Err(error) => {
                    self.append_null();
                    return Some(Err(Misfit::new(json_error(&error))));
                }
            },
            Cell::Text(text) => match Cell::nested_text(text) {
                Some(nested) => return self.append(&nested),
                None => {
                    self.append_null();
                    return None;
                }
            },
            _ => {
                self.append_null();
                return None;
            }
        };
        self.present.push(true);
        Some(appended)
    }

    /// One cell a field; all are appended, so that the fields stay equally long.
    fn append_cells<'c>(&mut self, cells: impl Iterator<Item = Cell<'c>>) -> Result<(), Misfit> {
        let mut first = Ok(());
        for ((column, field), cell) in self.columns.iter_mut().zip(&self.fields).zip(cells) {
            if let Err(mut misfit) = column.append(&cell)
                && first.is_ok()
            {
                misfit.place.insert_str(0, &format!(".{}", field.name()));
                first = Err(misfit);
            }
        }
        first
    }

    fn append_null(&mut self) {
        self.present.push(false);
        for column in &mut self.columns {
            column.append_null();
        }
    }

    fn finish(&mut self) -> Result<StructArray, ArrowError> {
        let columns = self.columns.iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
        let nulls = NullBuffer::from(std::mem::take(&mut self.present));
        StructArray::try_new(self.fields.clone(), columns, Some(nulls))
    }
}

/// The cell of a field that the object may lack.
pub(super) fn json_cell(slot: Option<&RawValue>) -> Cell<'_> {
    slot.map_or(Cell::Null, |raw| Cell::json(raw.get()))
}
