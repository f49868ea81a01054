//! One JSON object a line, each line by itself: a bad one costs itself alone. Knows nothing of columns but their names.

use super::cell::json_error;
use super::column::json_cell;
use super::input::{Line, Lines, open_text};
use super::json::{Names, is_json, read_fields, read_items, read_object};
use super::number::number_type;
use super::rows::{MAX_ROW_BYTES, Rows};
use super::seen::{FileSchema, Seen};
use super::types::ColumnType;
use super::{DecodeRequest, Decoded, FileError};
use crate::store::Content;

pub(super) fn learn(path: &str, content: &Content) -> Result<FileSchema, FileError> {
    let mut lines = Lines::new(open_text(path, content)?, MAX_ROW_BYTES);
    let mut schema = FileSchema::default();
    let mut is_first = true;
    while let Some(line) = lines.next()? {
        let Line::Whole(line) = line else { continue };
        let Ok(text) = std::str::from_utf8(line) else { continue };
        if is_blank(line) {
            continue;
        }
        if std::mem::take(&mut is_first) {
            refuse_array(text)?;
        }
        let Ok(fields) = read_fields(text) else { continue };
        for (name, value) in fields {
            match schema.columns.get_mut(&*name) {
                Some(seen) => observe(seen, value.get(), 0),
                None => observe(schema.columns.entry(name.into_owned()).or_default(), value.get(), 0),
            }
        }
    }
    Ok(schema)
}

/// Objects and lists deeper than this are kept as text.
const MAX_DEPTH: usize = 32;

/// Widens `seen` until it holds the value too.
fn observe(seen: &mut Seen, value: &str, depth: usize) {
    if seen.is_widest() {
        return;
    }
    let scalar = match value.as_bytes().first() {
        Some(b'n') => return,
        Some(b'[' | b'{') if depth == MAX_DEPTH => ColumnType::String,
        Some(b'[') => return observe_list(seen, value, depth),
        Some(b'{') => return observe_object(seen, value, depth),
        Some(b'"') => ColumnType::String,
        Some(b't' | b'f') => ColumnType::Bool,
        _ => number_type(value),
    };
    if !matches!(seen, Seen::Scalar(known) if *known == scalar) {
        seen.join(Seen::Scalar(scalar));
    }
}

fn observe_list(seen: &mut Seen, value: &str, depth: usize) {
    seen.join(Seen::List(Box::default()));
    let Seen::List(item) = seen else { return };
    for value in read_items(value).unwrap_or_default() {
        observe(item, value.get(), depth + 1);
    }
}

fn observe_object(seen: &mut Seen, value: &str, depth: usize) {
    seen.join(Seen::Struct(Default::default()));
    let Seen::Struct(known) = seen else { return };
    for (name, value) in read_fields(value).unwrap_or_default() {
        observe(known.entry(name.into_owned()).or_default(), value.get(), depth + 1);
    }
}

pub(super) fn decode(request: &DecodeRequest, content: &Content) -> Result<Decoded, FileError> {
    let mut lines = Lines::new(open_text(&request.path, content)?, MAX_ROW_BYTES);
    let mut rows = Rows::new(request);
    let names = Names::new(rows.types().iter().map(|(name, _)| name.clone()).collect());
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        let Line::Whole(line) = line else {
            rows.refuse(number, format!("the line is longer than {MAX_ROW_BYTES} bytes"));
            continue;
        };
        if is_blank(line) {
            continue;
        }
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                rows.refuse(number, format!("the line is not UTF-8 at byte {}", error.valid_up_to() + 1));
                continue;
            }
        };
        if rows.met() == 0 {
            refuse_array(text)?;
        }
        match read_object(text, &names) {
            Ok(slots) => rows.append(number, text.len(), slots.into_iter().map(json_cell))?,
            Err(error) => rows.refuse(number, format!("the line is not a JSON object: {}", json_error(&error))),
        }
    }
    rows.finish()
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// A whole file that is one array starts with a line that opens it.
fn refuse_array(first: &str) -> Result<(), FileError> {
    if first.trim_start().starts_with('[') && !is_json(first) {
        let what = "the file is one JSON array; write one object a line instead (`jq -c '.[]'` does)";
        return Err(FileError::Damaged(what.to_owned()));
    }
    Ok(())
}
