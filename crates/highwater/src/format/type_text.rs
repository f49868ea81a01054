//! Types as text, read back: `decimal(10, 2)`, `list<int64>`, `struct<a: string>`. Knows nothing of files or of Arrow.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::types::ColumnType;

/// A type as written or found: a [`ColumnType`] in which `null` may stand for a type that is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Null,
    Scalar(ColumnType),
    List(Box<Node>),
    Struct(Vec<(String, Node)>),
}

impl Node {
    /// The type itself; where only nulls are known it is a string, as is a struct without fields.
    pub(super) fn settled(self) -> ColumnType {
        match self {
            Self::Null => ColumnType::String,
            Self::Scalar(scalar) => scalar,
            Self::List(item) => ColumnType::List(Box::new(item.settled())),
            Self::Struct(fields) if fields.is_empty() => ColumnType::String,
            Self::Struct(fields) => {
                ColumnType::Struct(fields.into_iter().map(|(name, node)| (name, node.settled())).collect())
            }
        }
    }

    fn is_whole(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Scalar(_) => true,
            Self::List(item) => item.is_whole(),
            Self::Struct(fields) => !fields.is_empty() && fields.iter().all(|(_, node)| node.is_whole()),
        }
    }
}

/// Reads `text` whole.
pub(super) fn parse(text: &str) -> Result<Node, TypeTextError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let node = parser.node()?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.error("nothing more"));
    }
    Ok(node)
}

/// A type that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TypeTextError {
    what: String,
}

impl FromStr for ColumnType {
    type Err = TypeTextError;

    fn from_str(text: &str) -> Result<Self, TypeTextError> {
        let node = parse(text)?;
        if !node.is_whole() {
            return Err(TypeTextError { what: format!("type `{text}` leaves a type open; name it, e.g. `string`") });
        }
        Ok(node.settled())
    }
}

impl Serialize for ColumnType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ColumnType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

const NAMES: &str = "string, bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, \
                     decimal(p, s), date, timestamp, list<T> or struct<name: T, ...>";

const MAX_DEPTH: usize = 64;

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn node(&mut self) -> Result<Node, TypeTextError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TypeTextError { what: format!("type is nested deeper than {MAX_DEPTH} levels") });
        }
        self.blanks();
        let start = self.at;
        let word = self.word();
        let node = match word.to_ascii_lowercase().as_str() {
            "null" => Node::Null,
            "string" => Node::Scalar(ColumnType::String),
            "bool" => Node::Scalar(ColumnType::Bool),
            "int8" => Node::Scalar(ColumnType::Int8),
            "int16" => Node::Scalar(ColumnType::Int16),
            "int32" => Node::Scalar(ColumnType::Int32),
            "int64" => Node::Scalar(ColumnType::Int64),
            "uint8" => Node::Scalar(ColumnType::UInt8),
            "uint16" => Node::Scalar(ColumnType::UInt16),
            "uint32" => Node::Scalar(ColumnType::UInt32),
            "uint64" => Node::Scalar(ColumnType::UInt64),
            "float32" => Node::Scalar(ColumnType::Float32),
            "float64" => Node::Scalar(ColumnType::Float64),
            "date" => Node::Scalar(ColumnType::Date),
            "timestamp" => Node::Scalar(ColumnType::Timestamp),
            "decimal" => self.decimal()?,
            "list" => {
                self.expect('<')?;
                let item = self.node()?;
                self.expect('>')?;
                Node::List(Box::new(item))
            }
            "struct" => self.fields()?,
            _ => {
                self.at = start;
                return Err(self.error(NAMES));
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn decimal(&mut self) -> Result<Node, TypeTextError> {
        self.expect('(')?;
        let precision = self.number()?;
        self.expect(',')?;
        let scale = self.number()?;
        self.expect(')')?;
        if !(1..=76).contains(&precision) || scale > precision {
            let what = format!("decimal({precision}, {scale}): the precision is 1 to 76, the scale 0 to the precision");
            return Err(TypeTextError { what });
        }
        Ok(Node::Scalar(ColumnType::Decimal(precision, i8::try_from(scale).unwrap_or(i8::MAX))))
    }

    fn fields(&mut self) -> Result<Node, TypeTextError> {
        self.expect('<')?;
        let mut fields: Vec<(String, Node)> = Vec::new();
        if self.take('>') {
            return Ok(Node::Struct(fields));
        }
        loop {
            let name = self.name()?;
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(TypeTextError { what: format!("type `{}` names field `{name}` twice", self.text) });
            }
            self.expect(':')?;
            let node = self.node()?;
            fields.push((name, node));
            if !self.take(',') {
                self.expect('>')?;
                return Ok(Node::Struct(fields));
            }
        }
    }

    fn name(&mut self) -> Result<String, TypeTextError> {
        self.blanks();
        if self.text[self.at..].starts_with('"') {
            let mut names = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<String>();
            let Some(Ok(name)) = names.next() else { return Err(self.error("a field name")) };
            self.at += names.byte_offset();
            return Ok(name);
        }
        match self.word() {
            "" => Err(self.error("a field name")),
            word => Ok(word.to_owned()),
        }
    }

    fn number(&mut self) -> Result<u8, TypeTextError> {
        self.blanks();
        let start = self.at;
        let word = self.word();
        word.parse().map_err(|_| {
            self.at = start;
            self.error("a number")
        })
    }

    fn word(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn take(&mut self, wanted: char) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), TypeTextError> {
        if self.take(wanted) { Ok(()) } else { Err(self.error(&format!("`{wanted}`"))) }
    }

    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn error(&self, wanted: &str) -> TypeTextError {
        let rest = &self.text[self.at..];
        let what = match rest.is_empty() {
            true => format!("type `{}` ends where {wanted} was expected", self.text),
            false => format!("type `{}`: `{rest}` stands where {wanted} was expected", self.text),
        };
        TypeTextError { what }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Scalar(scalar) => write!(f, "{scalar}"),
            Self::List(item) => write!(f, "list<{item}>"),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (n, (name, node)) in fields.iter().enumerate() {
                    write!(f, "{}{}: {node}", if n == 0 { "" } else { ", " }, super::types::field_name(name))?;
                }
                f.write_str(">")
            }
        }
    }
}
