//! Which fields of a collection a shape becomes, and which are the sink's own. Knows nothing of values or HTTP.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::config::FieldHint;
use crate::index::{FieldKind, IndexError, Shape};

/// The unique key.
pub(super) const ID: &str = "id";
/// The batch that wrote the document.
pub(super) const SEQUENCE: &str = "_hw_seq_";
/// What decides between two writes: the batch's number, then the order within it.
pub(super) const VERSION: &str = "_hw_version_";
/// The document's hash, in hexadecimal digits.
pub(super) const HASH: &str = "_hw_hash_";
/// True in tombstones and in the stamp.
pub(super) const DELETED: &str = "_hw_del_";
/// The canonical JSON.
pub(super) const SOURCE: &str = "_source_";
/// The id of the document that is the stamp.
pub(super) const STAMP: &str = "_hw_stamp_";
/// The update chain by which older versions lose.
pub(super) const CHAIN: &str = "highwater";
/// All that is no tombstone and no stamp.
pub(super) const LIVE: &str = "-_hw_del_:true";

/// How a field's values are put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Text,
    Keyword,
    Long,
    Double,
    Bool,
    Time,
    Date,
}

impl Fill {
    /// The field type that this program brings.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Text => "hw_text",
            Self::Keyword => "hw_string",
            Self::Long => "hw_long",
            Self::Double => "hw_double",
            Self::Bool => "hw_boolean",
            Self::Time | Self::Date => "hw_date",
        }
    }

    /// The classes of field types that serve; the first is what this program brings.
    pub(super) fn classes(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["TextField", "SortableTextField"],
            Self::Keyword => &["StrField"],
            Self::Long => &["LongPointField", "TrieLongField"],
            Self::Double => &["DoublePointField", "TrieDoubleField"],
            Self::Bool => &["BoolField"],
            Self::Time | Self::Date => &["DatePointField", "TrieDateField"],
        }
    }

    /// The values, for messages.
    pub(super) fn values(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Keyword => "exact terms",
            Self::Long => "whole numbers",
            Self::Double => "numbers with a fraction",
            Self::Bool => "true or false",
            Self::Time => "times",
            Self::Date => "days",
        }
    }

    /// The type as the Schema API takes it, where the collection has none of its name.
    pub(super) fn type_definition(self) -> Value {
        let mut definition = json!({"name": self.type_name(), "class": format!("solr.{}", self.classes()[0])});
        match self {
            Self::Text => {
                definition["positionIncrementGap"] = json!("100");
                definition["analyzer"] = json!({"tokenizer": {"name": "standard"}, "filters": [{"name": "lowercase"}]});
            }
            Self::Keyword | Self::Bool => definition["sortMissingLast"] = json!(true),
            _ => {}
        }
        definition
    }
}

/// One searchable column of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) fill: Fill,
    pub(super) many: bool,
}

impl Column {
    /// The field as the Schema API takes it.
    pub(super) fn definition(self, name: &str) -> Value {
        let is_text = self.fill == Fill::Text;
        json!({
            "name": name, "type": self.fill.type_name(), "multiValued": self.many, "indexed": true, "stored": is_text,
            "docValues": !is_text,
        })
    }
}

/// The fields by name; what is not among them is kept in the document alone.
pub(super) fn columns(shape: &Shape) -> Result<BTreeMap<String, Column>, IndexError> {
    let mut columns = BTreeMap::new();
    for field in &shape.fields {
        let fill = match (field.kind, field.hint) {
            (_, Some(FieldHint::Stored)) | (FieldKind::Object, _) => continue,
            // The unique key is the id's own field.
            _ if field.name == shape.id && field.name == ID => continue,
            (_, Some(FieldHint::Text)) => Fill::Text,
            (_, Some(FieldHint::Keyword)) => Fill::Keyword,
            // The id is looked up whole.
            (FieldKind::Text, None) if field.name == shape.id => Fill::Keyword,
            (FieldKind::Text, None) => Fill::Text,
            (FieldKind::I64 | FieldKind::U64, None) => Fill::Long,
            (FieldKind::F64, None) => Fill::Double,
            (FieldKind::Bool, None) => Fill::Bool,
            (FieldKind::Time, None) => Fill::Time,
            (FieldKind::Date, None) => Fill::Date,
        };
        if let Some(wrong) = wrong_name(&field.name) {
            return Err(IndexError::Shape(format!(
                "field `{}` cannot be a field of Solr: {wrong}; rename it in the SQL (`AS ...`), or hint it as \"stored\"",
                field.name.escape_debug()
            )));
        }
        if columns.insert(field.name.clone(), Column { fill, many: field.many }).is_some() {
            return Err(IndexError::Shape(format!("field `{}` stands twice; rename one in the SQL", field.name)));
        }
    }
    Ok(columns)
}

fn wrong_name(name: &str) -> Option<&'static str> {
    if name == ID {
        return Some("`id` is the unique key, and the SQL's id is another column");
    }
    if name == "score" {
        return Some("`score` is how well a document matches");
    }
    if name.starts_with('_') && name.ends_with('_') {
        return Some("names between underscores are reserved");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (!starts || !name.chars().all(plain))
        .then_some("such names are letters, digits, `_`, `.` and `-`, and begin with a letter or `_`")
}
