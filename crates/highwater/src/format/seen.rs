//! What one file's values look like, and the least common type over many files. Pure: knows nothing of bytes or readers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::arrow_types::data_type;
use super::type_text::{self, Node};
use super::types::ColumnType;

/// The columns of one file, or of several merged, in the order of their names: files may write them in any order.
/// Serialised as a map from name to type text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileSchema {
    /// Types by column name.
    pub columns: BTreeMap<String, Seen>,
}

/// The least type that holds all values seen. Serialised as type text, where `null` is a type of which only nulls
/// were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nothing but nulls.
    #[default]
    Nulls,
    /// Values that are neither lists nor structs.
    Scalar(ColumnType),
    /// Lists of it.
    List(Box<Seen>),
    /// Structs, fields in the order of their names.
    Struct(BTreeMap<String, Seen>),
}

/// The columns of both files, each of the least type that holds the values of both. Commutative and associative, so that
/// the order of files never matters:
/// - integers widen within their sign; signed beside unsigned is `int64`, and beside `uint64` it is `decimal(20, 0)`,
///   since a float would lose digits;
/// - an integer beside a decimal is a decimal with at least 20 digits before the point; decimals that together need
///   more than 76 digits are `float64`;
/// - any other number beside a float is `float64` (integers that it cannot hold are rejected when they are read);
/// - a date beside a timestamp is a timestamp; lists and structs merge recursively; nulls fit anything;
/// - everything else side by side is a string.
pub fn merge(a: &FileSchema, b: &FileSchema) -> FileSchema {
    let mut columns = a.columns.clone();
    join_fields(&mut columns, b.columns.clone());
    FileSchema { columns }
}

/// The schema of a table: `declared` columns first, in their order, then what else was learnt, by name; declared types
/// win, and columns of which only nulls were seen are strings. All columns are nullable.
pub fn freeze(declared: &[(String, ColumnType)], learnt: Option<&FileSchema>) -> SchemaRef {
    let mut fields: Vec<Field> = declared.iter().map(|(name, kind)| Field::new(name, data_type(kind), true)).collect();
    for (name, seen) in learnt.into_iter().flat_map(|schema| &schema.columns) {
        if declared.iter().all(|(known, _)| known != name) {
            fields.push(Field::new(name, data_type(&seen.clone().settled()), true));
        }
    }
    Arc::new(Schema::new(fields))
}

impl Seen {
    /// Widens `self` until it holds `other` too.
    pub(super) fn join(&mut self, other: Self) {
        *self = match (std::mem::take(self), other) {
            (Self::Nulls, one) | (one, Self::Nulls) => one,
            (Self::Scalar(a), Self::Scalar(b)) => Self::Scalar(join_scalars(a, b)),
            (Self::List(mut a), Self::List(b)) => {
                a.join(*b);
                Self::List(a)
            }
            (Self::Struct(mut a), Self::Struct(b)) => {
                join_fields(&mut a, b);
                Self::Struct(a)
            }
            _ => Self::Scalar(ColumnType::String),
        };
    }

    /// Nothing can widen it.
    pub(super) fn is_widest(&self) -> bool {
        matches!(self, Self::Scalar(ColumnType::String))
    }

    /// The type that a table's column gets.
    pub fn settled(self) -> ColumnType {
        Node::from(self).settled()
    }
}

fn join_fields(into: &mut BTreeMap<String, Seen>, other: BTreeMap<String, Seen>) {
    for (name, seen) in other {
        match into.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(seen);
            }
            Entry::Occupied(mut entry) => entry.get_mut().join(seen),
        }
    }
}

fn join_scalars(a: ColumnType, b: ColumnType) -> ColumnType {
    if a == b {
        return a;
    }
    match (kind(&a), kind(&b)) {
        (Kind::Number(a), Kind::Number(b)) => join_numbers(a, b).column_type(),
        (Kind::Time, Kind::Time) => ColumnType::Timestamp,
        _ => ColumnType::String,
    }
}

enum Kind {
    Number(Number),
    Time,
    Other,
}

/// Numbers as the lattice sees them.
#[derive(Clone, Copy)]
enum Number {
    Signed(u8),
    Unsigned(u8),
    /// Digits before and after the point.
    Decimal(i16, i16),
    Float(u8),
}

fn kind(column: &ColumnType) -> Kind {
    Kind::Number(match *column {
        ColumnType::Int8 => Number::Signed(8),
        ColumnType::Int16 => Number::Signed(16),
        ColumnType::Int32 => Number::Signed(32),
        ColumnType::Int64 => Number::Signed(64),
        ColumnType::UInt8 => Number::Unsigned(8),
        ColumnType::UInt16 => Number::Unsigned(16),
        ColumnType::UInt32 => Number::Unsigned(32),
        ColumnType::UInt64 => Number::Unsigned(64),
        ColumnType::Decimal(precision, scale) => {
            Number::Decimal(i16::from(precision) - i16::from(scale), i16::from(scale))
        }
        ColumnType::Float32 => Number::Float(32),
        ColumnType::Float64 => Number::Float(64),
        ColumnType::Date | ColumnType::Timestamp => return Kind::Time,
        _ => return Kind::Other,
    })
}

/// Digits of the longest 64-bit integer. Every integer beside a decimal counts as so long, whatever its width: else the
/// result would depend on the order in which types are merged.
const INTEGER_DIGITS: i16 = 20;

fn join_numbers(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => Number::Float(a.max(b)),
        (Number::Float(_), _) | (_, Number::Float(_)) => Number::Float(64),
        (Number::Signed(a), Number::Signed(b)) => Number::Signed(a.max(b)),
        (Number::Unsigned(a), Number::Unsigned(b)) => Number::Unsigned(a.max(b)),
        (Number::Signed(_), Number::Unsigned(64)) | (Number::Unsigned(64), Number::Signed(_)) => {
            Number::Decimal(INTEGER_DIGITS, 0)
        }
        (Number::Signed(_), Number::Unsigned(_)) | (Number::Unsigned(_), Number::Signed(_)) => Number::Signed(64),
        (Number::Decimal(a, scale_a), Number::Decimal(b, scale_b)) => {
            let (whole, scale) = (a.max(b), scale_a.max(scale_b));
            if whole + scale > 76 { Number::Float(64) } else { Number::Decimal(whole, scale) }
        }
        (decimal @ Number::Decimal(..), _) | (_, decimal @ Number::Decimal(..)) => {
            join_numbers(decimal, Number::Decimal(INTEGER_DIGITS, 0))
        }
    }
}

impl Number {
    fn column_type(self) -> ColumnType {
        match self {
            Self::Signed(8) => ColumnType::Int8,
            Self::Signed(16) => ColumnType::Int16,
            Self::Signed(32) => ColumnType::Int32,
            Self::Signed(_) => ColumnType::Int64,
            Self::Unsigned(8) => ColumnType::UInt8,
            Self::Unsigned(16) => ColumnType::UInt16,
            Self::Unsigned(32) => ColumnType::UInt32,
            Self::Unsigned(_) => ColumnType::UInt64,
            Self::Float(32) => ColumnType::Float32,
            Self::Float(_) => ColumnType::Float64,
            Self::Decimal(whole, scale) => {
                let precision = u8::try_from(whole + scale).unwrap_or(76);
                ColumnType::Decimal(precision, i8::try_from(scale).unwrap_or(76))
            }
        }
    }
}

impl From<Node> for Seen {
    fn from(node: Node) -> Self {
        match node {
            Node::Null => Self::Nulls,
            Node::Scalar(scalar) => Self::Scalar(scalar),
            Node::List(item) => Self::List(Box::new(Self::from(*item))),
            Node::Struct(fields) => {
                Self::Struct(fields.into_iter().map(|(name, node)| (name, Self::from(node))).collect())
            }
        }
    }
}

impl From<Seen> for Node {
    fn from(seen: Seen) -> Self {
        match seen {
            Seen::Nulls => Self::Null,
            Seen::Scalar(scalar) => Self::Scalar(scalar),
            Seen::List(item) => Self::List(Box::new(Self::from(*item))),
            Seen::Struct(fields) => {
                Self::Struct(fields.into_iter().map(|(name, seen)| (name, Self::from(seen))).collect())
            }
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Node::from(self.clone()).fmt(f)
    }
}

impl Serialize for Seen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        type_text::parse(&text).map(Self::from).map_err(serde::de::Error::custom)
    }
}
