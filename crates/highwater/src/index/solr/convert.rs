//! One change as a document of Solr, or why the index cannot take it. Knows nothing of requests.

use std::collections::BTreeMap;

use highwater_core::{Sequence, Timestamp};
use serde_json::{Map, Value, json};

use super::fields::{Column, DELETED, Fill, HASH, ID, SEQUENCE, SOURCE, STAMP, VERSION};
use crate::index::{Change, MAX_ID_BYTES};
use crate::transform::{Document, DocumentHash};

/// The longest exact term, in bytes.
const LONGEST_TERM: usize = 32_766;

/// What a change writes: the document, or a tombstone in its place.
pub(super) fn entry(
    columns: &BTreeMap<String, Column>,
    sequence: Sequence,
    version: i64,
    change: &Change,
) -> Result<Value, String> {
    check_id(change.id())?;
    let mut entry = Map::new();
    entry.insert(ID.into(), change.id().into());
    entry.insert(SEQUENCE.into(), sequence.0.into());
    entry.insert(VERSION.into(), version.into());
    match change {
        Change::Delete(_) => {
            entry.insert(DELETED.into(), true.into());
        }
        Change::Upsert(document) => fill(&mut entry, columns, document)?,
    }
    Ok(Value::Object(entry))
}

/// The stamp: a document that no search for live ones finds.
pub(super) fn stamp(sequence: Sequence, version: i64, text: &str) -> Value {
    json!({ID: STAMP, SEQUENCE: sequence.0, VERSION: version, DELETED: true, SOURCE: text})
}

fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() {
        return Err("the id is empty".to_owned());
    }
    if id.len() > MAX_ID_BYTES {
        return Err(format!("the id has {} bytes, more than {MAX_ID_BYTES}", id.len()));
    }
    if id == STAMP {
        return Err(format!("the id `{STAMP}` is reserved for the index's stamp"));
    }
    Ok(())
}

fn fill(entry: &mut Map<String, Value>, columns: &BTreeMap<String, Column>, document: &Document) -> Result<(), String> {
    let source = std::str::from_utf8(&document.json).map_err(|error| format!("the document is no UTF-8: {error}"))?;
    let row: Map<String, Value> =
        serde_json::from_str(source).map_err(|error| format!("the document is no JSON object: {error}"))?;
    for (name, value) in row {
        let Some(column) = columns.get(&name) else { continue };
        let value = match value {
            Value::Array(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in &items {
                    values.extend(converted(column.fill, item).map_err(|why| format!("field `{name}`: {why}"))?);
                }
                if values.is_empty() { None } else { Some(Value::Array(values)) }
            }
            value => converted(column.fill, &value).map_err(|why| format!("field `{name}`: {why}"))?,
        };
        if let Some(value) = value {
            entry.insert(name, value);
        }
    }
    entry.insert(HASH.into(), hex(&document.hash).into());
    entry.insert(SOURCE.into(), source.into());
    Ok(())
}

/// A value as its field takes it; `None` for null.
fn converted(fill: Fill, value: &Value) -> Result<Option<Value>, String> {
    let converted = match (fill, value) {
        (_, Value::Null) => return Ok(None),
        (Fill::Text, value) => text(value).map(Value::String),
        (Fill::Keyword, value) => match text(value) {
            Some(term) if term.len() > LONGEST_TERM => {
                return Err(format!("an exact term of {} bytes, more than {LONGEST_TERM}", term.len()));
            }
            term => term.map(Value::String),
        },
        // Canonical JSON writes as text what a reader's JSON number cannot carry.
        (Fill::Long, Value::String(text)) => text.parse::<i64>().ok().map(Value::from),
        (Fill::Long, value) => value.as_i64().map(Value::from),
        (Fill::Double, Value::String(text)) => {
            text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::from)
        }
        (Fill::Double, value) => value.as_f64().map(Value::from),
        (Fill::Bool, value) => value.as_bool().map(Value::from),
        (Fill::Time, Value::String(text)) => text.parse::<Timestamp>().ok().map(|time| Value::String(time.to_string())),
        (Fill::Date, Value::String(text)) => {
            let day = text.parse::<jiff::civil::Date>().ok();
            day.filter(|day| day.year() >= 0).map(|day| Value::String(format!("{day}T00:00:00Z")))
        }
        (Fill::Time | Fill::Date, _) => None,
    };
    converted.map(Some).ok_or_else(|| format!("{} is none of the {} that Solr can hold", shown(value), fill.values()))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}

/// A hash as text.
pub(super) fn hex(hash: &DocumentHash) -> String {
    format!("{:032x}", u128::from_be_bytes(*hash))
}

/// The hash again; zeros for what no document of this program has.
pub(super) fn unhex(text: Option<&str>) -> DocumentHash {
    text.and_then(|text| u128::from_str_radix(text, 16).ok()).unwrap_or_default().to_be_bytes()
}
