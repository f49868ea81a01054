//! One document's canonical JSON as an index entry. Knows nothing of batches.

use std::fmt;

use ::tantivy::schema::OwnedValue;
use ::tantivy::time::OffsetDateTime;
use ::tantivy::time::format_description::well_known::Rfc3339;
use ::tantivy::tokenizer::MAX_TOKEN_LEN;
use ::tantivy::{DateTime, TantivyDocument};
use highwater_core::Sequence;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::schema::{Column, Fill, Physical};
use crate::index::MAX_ID_BYTES;
use crate::transform::{Document, DocumentHash};

/// A document, ready to be added.
pub(super) struct Entry {
    pub(super) document: TantivyDocument,
    /// The fields with a value that is kept in the document and cannot be searched: it does not fit the field's type, or
    /// is an exact term of more than 65,530 bytes.
    pub(super) unsearchable: Vec<String>,
}

/// Fills an entry, or says why the document cannot be taken.
pub(super) fn entry(physical: &Physical, sequence: Sequence, document: &Document) -> Result<Entry, String> {
    if document.id.is_empty() {
        return Err("the id is empty".to_owned());
    }
    if document.id.len() > MAX_ID_BYTES {
        return Err(format!("the id has {} bytes, more than {MAX_ID_BYTES}", document.id.len()));
    }
    let (high, low) = halves(&document.hash);
    let mut entry =
        Entry { document: TantivyDocument::with_capacity(document.json.len() * 2), unsearchable: Vec::new() };
    entry.document.add_text(physical.key, &document.id);
    entry.document.add_u64(physical.hash_high, high);
    entry.document.add_u64(physical.hash_low, low);
    entry.document.add_u64(physical.sequence, sequence.0);
    entry.document.add_bytes(physical.source, &document.json);
    let mut json = serde_json::Deserializer::from_slice(&document.json);
    let row = Row { physical, entry: &mut entry };
    row.deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| format!("the document is no JSON object: {error}"))?;
    Ok(entry)
}

/// A hash as two numbers, so that it lies in columns without a dictionary.
pub(super) fn halves(hash: &DocumentHash) -> (u64, u64) {
    let number = u128::from_be_bytes(*hash);
    ((number >> 64) as u64, number as u64)
}

/// The hash again.
pub(super) fn join(high: u64, low: u64) -> DocumentHash {
    ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
}

struct Row<'a> {
    physical: &'a Physical,
    entry: &'a mut Entry,
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let Some(column) = self.physical.columns.get(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if !put(&mut self.entry.document, *column, map.next_value()?) {
                self.entry.unsearchable.push(name);
            }
        }
        Ok(())
    }
}

/// Adds a value, of a list each one; false if any of them cannot be searched.
fn put(document: &mut TantivyDocument, column: Column, value: Value) -> bool {
    let slot = column.slot;
    match (column.fill, value) {
        (_, Value::Null) => true,
        (_, Value::Array(values)) => {
            let mut all = true;
            for value in values {
                all &= put(document, column, value);
            }
            all
        }
        (Fill::Object, Value::Object(object)) => {
            document.add_object(slot, object.into_iter().map(|(name, value)| (name, owned(value))).collect());
            true
        }
        (Fill::Text, value) => scalar_text(value).map(|text| document.add_text(slot, text)).is_some(),
        (Fill::Keyword, value) => scalar_text(value)
            .filter(|text| text.len() <= MAX_TOKEN_LEN)
            .map(|text| document.add_text(slot, text))
            .is_some(),
        (Fill::I64, value) => number(&value, Value::as_i64).map(|number| document.add_i64(slot, number)).is_some(),
        (Fill::U64, value) => number(&value, Value::as_u64).map(|number| document.add_u64(slot, number)).is_some(),
        (Fill::F64, value) => number(&value, Value::as_f64)
            .filter(|number| number.is_finite())
            .map(|number| document.add_f64(slot, number))
            .is_some(),
        (Fill::Bool, Value::Bool(value)) => {
            document.add_bool(slot, value);
            true
        }
        (Fill::Time, Value::String(text)) => time(&text).map(|time| document.add_date(slot, time)).is_some(),
        (Fill::Bool | Fill::Time | Fill::Object, _) => false,
    }
}

/// A value within an object; text that reads as an instant is one.
fn owned(value: Value) -> OwnedValue {
    match value {
        Value::Null => OwnedValue::Null,
        Value::Bool(value) => OwnedValue::Bool(value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => OwnedValue::I64(number),
            (_, Some(number), _) => OwnedValue::U64(number),
            (.., Some(number)) => OwnedValue::F64(number),
            (None, None, None) => OwnedValue::Str(number.to_string()),
        },
        Value::String(text) => match text.as_bytes() {
            [_, _, _, _, b'-', _, _, b'-', _, _, b'T', ..] => {
                time(&text).map_or(OwnedValue::Str(text), OwnedValue::Date)
            }
            _ => OwnedValue::Str(text),
        },
        Value::Array(values) => OwnedValue::Array(values.into_iter().map(owned).collect()),
        Value::Object(object) => {
            OwnedValue::Object(object.into_iter().map(|(name, value)| (name, owned(value))).collect())
        }
    }
}

fn scalar_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A number, or its text: canonical JSON writes as text what a reader's JSON number cannot carry.
fn number<T: std::str::FromStr>(value: &Value, read: fn(&Value) -> Option<T>) -> Option<T> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => read(other),
    }
}

/// Times beyond the index's range (1677 to 2262) count as its ends, as they do in queries.
fn time(text: &str) -> Option<DateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(DateTime::from_utc)
}
