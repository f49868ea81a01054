//! Column types as `columns` writes them. Knows nothing of how values are decoded.

use super::problem::Complaint;
use super::suggest::nearest;
use crate::format::ColumnType;

const PLAIN: [(&str, ColumnType); 14] = [
    ("string", ColumnType::String),
    ("bool", ColumnType::Bool),
    ("int8", ColumnType::Int8),
    ("int16", ColumnType::Int16),
    ("int32", ColumnType::Int32),
    ("int64", ColumnType::Int64),
    ("uint8", ColumnType::UInt8),
    ("uint16", ColumnType::UInt16),
    ("uint32", ColumnType::UInt32),
    ("uint64", ColumnType::UInt64),
    ("float32", ColumnType::Float32),
    ("float64", ColumnType::Float64),
    ("date", ColumnType::Date),
    ("timestamp", ColumnType::Timestamp),
];
const FIX: &str = "write one of string, bool, int8 to int64, uint8 to uint64, float32, float64, decimal(p, s), date, \
                   timestamp, list<T>, struct<name: T, …>";

/// Parses a type, nested ones included.
pub fn parse_column_type(text: &str) -> Result<ColumnType, Complaint> {
    let text = text.trim();
    if let Some((_, plain)) = PLAIN.iter().find(|(name, _)| *name == text) {
        return Ok(plain.clone());
    }
    if let Some(inner) = between(text, "list<", '>') {
        return Ok(ColumnType::List(Box::new(parse_column_type(inner)?)));
    }
    if let Some(inner) = between(text, "struct<", '>') {
        return parse_struct(text, inner);
    }
    if let Some(inner) = between(text, "decimal(", ')') {
        return parse_decimal(text, inner);
    }
    let fix = match nearest(text, PLAIN.iter().map(|(name, _)| *name)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => FIX.into(),
    };
    Err(Complaint::new(format!("\"{text}\" is not a column type"), fix))
}

fn parse_decimal(text: &str, inner: &str) -> Result<ColumnType, Complaint> {
    let parsed = inner
        .split_once(',')
        .and_then(|(precision, scale)| Some((precision.trim().parse::<u8>().ok()?, scale.trim().parse::<i8>().ok()?)));
    match parsed {
        Some((precision @ 1..=38, scale)) if scale >= 0 && scale.unsigned_abs() <= precision => {
            Ok(ColumnType::Decimal(precision, scale))
        }
        _ => Err(Complaint::new(
            format!("\"{text}\" is not a decimal type"),
            "write decimal(precision, scale) with 1 to 38 digits, of which scale stand after the point",
        )),
    }
}

fn parse_struct(text: &str, inner: &str) -> Result<ColumnType, Complaint> {
    let mut fields: Vec<(String, ColumnType)> = Vec::new();
    for field in split_outside(inner) {
        let Some((name, kind)) = field.split_once(':').filter(|(name, _)| !name.trim().is_empty()) else {
            let fix = "write struct<name: T, …>";
            return Err(Complaint::new(format!("\"{}\" in \"{text}\" is not a field", field.trim()), fix));
        };
        let name = name.trim().to_owned();
        if fields.iter().any(|(other, _)| *other == name) {
            return Err(Complaint::new(format!("\"{text}\" names `{name}` twice"), "name each field once"));
        }
        fields.push((name, parse_column_type(kind)?));
    }
    Ok(ColumnType::Struct(fields))
}

/// Splits at commas that stand in no brackets.
fn split_outside(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn between<'a>(text: &'a str, open: &str, close: char) -> Option<&'a str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_back_as_they_are_written() {
        for text in [
            "string",
            "uint16",
            "decimal(10, 2)",
            "list<timestamp>",
            "struct<a: list<int64>, b: struct<c: decimal(5, 0)>>",
        ] {
            assert_eq!(parse_column_type(text).unwrap().to_string(), text);
        }
        for (text, fix) in [
            ("strin", "did you mean `string`?"),
            ("varchar", FIX),
            ("list<>", FIX),
            ("struct<a>", "write struct<name: T, …>"),
            ("struct<a: int64, a: int64>", "name each field once"),
        ] {
            assert_eq!(parse_column_type(text).unwrap_err().fix, fix, "{text}");
        }
        for text in ["decimal(39, 0)", "decimal(3, 4)", "decimal(3)", "decimal(0, 0)", "decimal(x, 1)"] {
            assert_eq!(parse_column_type(text).unwrap_err().message, format!("\"{text}\" is not a decimal type"));
        }
    }
}
