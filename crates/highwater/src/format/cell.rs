//! One value on its way from a file to a column, and what it is exactly in another type. The one place that decides
//! which values fit; knows no readers.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, StructArray};
use arrow::datatypes::i256;
use serde_json::value::RawValue;

use super::array::array_cell;
use super::number;
use super::time;

/// A value as its file gives it.
pub(super) enum Cell<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Single(f32),
    /// A number as text, in JSON's grammar.
    Number(Cow<'a, str>),
    /// A JSON string, a CSV field.
    Text(Cow<'a, str>),
    /// Days from 1970-01-01.
    Date(i64),
    /// Microseconds from 1970, UTC.
    Instant(i64),
    /// A JSON list or object, as written.
    Json(&'a str),
    /// A list of a columnar file.
    Items(ArrayRef),
    /// A struct of a columnar file, and its row.
    Fields(&'a StructArray, usize),
    /// A value that could not be read; the reason.
    Unreadable(String),
}

impl<'a> Cell<'a> {
    /// The value that stands in a JSON line, as written there.
    pub fn json(raw: &'a str) -> Self {
        match raw.as_bytes().first() {
            Some(b'"') if !raw.contains('\\') => Self::Text(Cow::Borrowed(&raw[1..raw.len() - 1])),
            Some(b'"') => match serde_json::from_str::<String>(raw) {
                Ok(text) => Self::Text(Cow::Owned(text)),
                Err(error) => Self::Unreadable(format!("{} is no text: {}", short(raw), json_error(&error))),
            },
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') => Self::Null,
            Some(b'[' | b'{') => Self::Json(raw),
            _ => Self::Number(Cow::Borrowed(raw)),
        }
    }

    /// A CSV field whose column holds lists or structs: read as JSON, if it is JSON.
    pub fn nested_text(text: &'a str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        matches!(raw.get().as_bytes().first(), Some(b'[' | b'{')).then(|| Self::Json(raw.get()))
    }

    /// As text: numbers as written, instants as RFC 3339, lists and structs as JSON.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Text(text) | Self::Number(text) => Cow::Borrowed(text),
            Self::Json(raw) => Cow::Borrowed(raw),
            Self::Bool(flag) => Cow::Borrowed(if *flag { "true" } else { "false" }),
            Self::Integer(integer) => Cow::Owned(integer.to_string()),
            Self::Float(number) if !number.is_finite() => Cow::Owned(number.to_string()),
            Self::Single(number) if !number.is_finite() => Cow::Owned(number.to_string()),
            Self::Float(number) => Cow::Owned(serde_json::to_string(number).ok()?),
            Self::Single(number) => Cow::Owned(serde_json::to_string(number).ok()?),
            Self::Date(day) => Cow::Owned(time::date_text(time::day_in_range(*day)?)),
            Self::Instant(micros) if time::micros_in_range(*micros) => Cow::Owned(time::instant_text(*micros)),
            Self::Items(_) | Self::Fields(..) => {
                let mut json = String::new();
                self.write_json(&mut json)?;
                Cow::Owned(json)
            }
            Self::Instant(_) | Self::Null | Self::Unreadable(_) => return None,
        })
    }

    fn write_json(&self, out: &mut String) -> Option<()> {
        match self {
            Self::Null => out.push_str("null"),
            Self::Items(items) => {
                out.push('[');
                for row in 0..items.len() {
                    if row > 0 {
                        out.push(',');
                    }
                    array_cell(items, row).write_json(out)?;
                }
                out.push(']');
            }
            Self::Fields(fields, row) => {
                out.push('{');
                for (n, (name, column)) in fields.column_names().iter().zip(fields.columns()).enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    out.push_str(&serde_json::to_string(name).ok()?);
                    out.push(':');
                    array_cell(column, *row).write_json(out)?;
                }
                out.push('}');
            }
            Self::Bool(_) | Self::Integer(_) | Self::Number(_) => out.push_str(&self.text()?),
            Self::Float(number) if number.is_finite() => out.push_str(&self.text()?),
            Self::Single(number) if number.is_finite() => out.push_str(&self.text()?),
            _ => out.push_str(&serde_json::to_string(&self.text()?).ok()?),
        }
        Some(())
    }

    /// `true` or `false`; as text in any case. Numbers are not flags.
    pub fn flag(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            Self::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Self::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }

    pub fn integer(&self) -> Option<i128> {
        match self {
            Self::Integer(integer) => Some(*integer),
            Self::Float(number) => number::exact_integer(*number),
            Self::Single(number) => number::exact_integer((*number).into()),
            _ => number::parse_integer(self.number()?),
        }
    }

    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(*number),
            Self::Single(number) => Some((*number).into()),
            Self::Integer(integer) => number::exact_f64(*integer),
            _ => number::parse_f64(self.number()?),
        }
    }

    pub fn single(&self) -> Option<f32> {
        let (exact, narrow) = match self {
            Self::Single(number) => return Some(*number),
            Self::Float(number) => (*number, *number as f32),
            Self::Integer(integer) => (number::exact_f64(*integer)?, *integer as f32),
            _ => return number::parse_f32(self.number()?),
        };
        (f64::from(narrow) == exact || exact.is_nan()).then_some(narrow)
    }

    /// Times ten to the scale. A float counts as the shortest text that names it.
    pub fn unscaled(&self, precision: u8, scale: i8) -> Option<i256> {
        match self {
            Self::Integer(_) | Self::Float(_) | Self::Single(_) => {
                let text = self.text()?;
                if number::is_number(&text) { number::unscaled(&text, precision, scale) } else { None }
            }
            _ => number::unscaled(self.number()?, precision, scale),
        }
    }

    pub fn day(&self) -> Option<i32> {
        match self {
            Self::Date(day) => time::day_in_range(*day),
            Self::Instant(micros) => time::exact_day(*micros),
            Self::Text(text) => time::parse_date(text).or_else(|| time::exact_day(time::parse_instant(text)?.micros)),
            _ => None,
        }
    }

    pub fn micros(&self) -> Option<i64> {
        match self {
            Self::Instant(micros) => time::micros_in_range(*micros).then_some(*micros),
            Self::Date(day) => time::day_in_range(*day).map(time::midnight),
            Self::Text(text) => match time::parse_instant(text) {
                Some(instant) => Some(instant.micros),
                None => time::parse_date(text).map(time::midnight),
            },
            _ => None,
        }
    }

    fn number(&self) -> Option<&str> {
        match self {
            Self::Number(text) => Some(text),
            Self::Text(text) if number::is_number(text) => Some(text),
            _ => None,
        }
    }

    /// The value for a person to recognise, shortened.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => format!("\"{}\"", short(text)),
            Self::Instant(micros) if !time::micros_in_range(*micros) => format!("the instant {micros} us from 1970"),
            Self::Date(day) if time::day_in_range(*day).is_none() => format!("the day {day} days from 1970"),
            _ => short(&self.text().unwrap_or(Cow::Borrowed("null"))),
        }
    }
}

/// The first characters of a long text.
pub(super) fn short(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A JSON error of one line: its own line number would only mislead.
pub(super) fn json_error(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}
