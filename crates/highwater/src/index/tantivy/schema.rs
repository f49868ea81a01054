//! The physical schema: which index fields a shape becomes. Knows nothing of values.
//!
//! Five fields are the index's own: the exact id (under the id column's own name where that column is text, else `__id`),
//! the hash in two halves, the batch's number and the whole document. Names that begin with two underscores are therefore
//! refused in documents.

use std::collections::HashMap;

use ::tantivy::Index;
use ::tantivy::schema::{
    DateOptions, DateTimePrecision, FAST, Field as Slot, INDEXED, IndexRecordOption, JsonObjectOptions, STORED, Schema,
    SchemaBuilder, TextFieldIndexing, TextOptions,
};
use ::tantivy::tokenizer::{LowerCaser, RemoveLongFilter, SimpleTokenizer, TextAnalyzer};

use crate::config::FieldHint;
use crate::index::{Field, FieldKind, IndexError, Shape};

/// The tokenizer of text fields: words of letters and digits, lowercased.
const WORDS: &str = "words";
/// Words of more bytes are not searchable.
const LONGEST_WORD: usize = 255;
const RAW: &str = "raw";

pub(super) const HASH_HIGH: &str = "__hash_high";
pub(super) const HASH_LOW: &str = "__hash_low";
pub(super) const SEQUENCE: &str = "__sequence";

/// How a field's values are put into the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Text,
    Keyword,
    I64,
    U64,
    F64,
    Bool,
    Time,
    Object,
}

/// One searchable column of the documents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) slot: Slot,
    pub(super) fill: Fill,
}

/// A shape as the index holds it.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) schema: Schema,
    pub(super) key: Slot,
    pub(super) hash_high: Slot,
    pub(super) hash_low: Slot,
    pub(super) sequence: Slot,
    pub(super) source: Slot,
    /// By the name in the document. The key is missing where the id column is it.
    pub(super) columns: HashMap<String, Column>,
    /// Where words without a field name are looked for.
    pub(super) defaults: Vec<Slot>,
    /// Names that a query may use, in the SQL's order.
    pub(super) searchable: Vec<String>,
    /// Names of fields that are kept and not searchable.
    pub(super) stored: Vec<String>,
}

impl Physical {
    /// Derives the physical schema; deterministic.
    pub(super) fn of(shape: &Shape) -> Result<Self, IndexError> {
        check_names(shape)?;
        let mut builder = Schema::builder();
        let id_is_text = shape
            .fields
            .iter()
            .any(|field| field.name == shape.id && field.kind == FieldKind::Text && !field.many && is_exact(field));
        let key = builder.add_text_field(if id_is_text { &shape.id } else { "__id" }, exact(false) | STORED);
        let hash_high = builder.add_u64_field(HASH_HIGH, FAST);
        let hash_low = builder.add_u64_field(HASH_LOW, FAST);
        let sequence = builder.add_u64_field(SEQUENCE, FAST);
        let source = builder.add_bytes_field("__source", STORED);

        let mut columns = HashMap::new();
        let mut searchable = Vec::new();
        let mut stored = Vec::new();
        let mut text = Vec::new();
        for field in &shape.fields {
            if field.name == shape.id && id_is_text {
                searchable.push(field.name.clone());
                continue;
            }
            let Some(fill) = fill(field) else {
                stored.push(field.name.clone());
                continue;
            };
            let slot = add(&mut builder, &field.name, fill);
            if fill == Fill::Text {
                text.push(slot);
            }
            searchable.push(field.name.clone());
            columns.insert(field.name.clone(), Column { slot, fill });
        }
        let defaults = if text.is_empty() { exact_columns(key, &columns) } else { text };
        let schema = builder.build();
        Ok(Self { schema, key, hash_high, hash_low, sequence, source, columns, defaults, searchable, stored })
    }

    /// Makes the tokenizers known to an index that was just opened.
    pub(super) fn register(index: &Index) {
        let words = TextAnalyzer::builder(SimpleTokenizer::default())
            .filter(RemoveLongFilter::limit(LONGEST_WORD + 1))
            .filter(LowerCaser)
            .build();
        index.tokenizers().register(WORDS, words);
    }
}

fn check_names(shape: &Shape) -> Result<(), IndexError> {
    let mut seen = std::collections::HashSet::new();
    for Field { name, .. } in &shape.fields {
        let wrong = if name.is_empty() {
            "a field without a name"
        } else if name.starts_with("__") {
            "names that begin with two underscores belong to the index"
        } else if name.starts_with('-') {
            "names that begin with a hyphen cannot be searched"
        } else if name.chars().any(char::is_control) {
            "names with control characters cannot be searched"
        } else if !seen.insert(name) {
            "the name stands twice"
        } else {
            continue;
        };
        return Err(IndexError::Shape(format!(
            "field `{}` cannot be indexed: {wrong}; rename it in the SQL (`AS ...`)",
            name.escape_debug()
        )));
    }
    Ok(())
}

fn is_exact(field: &Field) -> bool {
    matches!(field.hint, None | Some(FieldHint::Keyword))
}

fn fill(field: &Field) -> Option<Fill> {
    match (field.kind, field.hint) {
        (_, Some(FieldHint::Stored)) => None,
        (FieldKind::Object, _) => Some(Fill::Object),
        (_, Some(FieldHint::Text)) => Some(Fill::Text),
        (_, Some(FieldHint::Keyword)) => Some(Fill::Keyword),
        (FieldKind::Text, None) => Some(Fill::Text),
        // A day's text sorts as the day does, so ranges and equality come for free.
        (FieldKind::Date, None) => Some(Fill::Keyword),
        (FieldKind::I64, None) => Some(Fill::I64),
        (FieldKind::U64, None) => Some(Fill::U64),
        (FieldKind::F64, None) => Some(Fill::F64),
        (FieldKind::Bool, None) => Some(Fill::Bool),
        (FieldKind::Time, None) => Some(Fill::Time),
    }
}

fn add(builder: &mut SchemaBuilder, name: &str, fill: Fill) -> Slot {
    match fill {
        Fill::Text => builder.add_text_field(name, TextOptions::default().set_indexing_options(words())),
        Fill::Keyword => builder.add_text_field(name, exact(true)),
        Fill::I64 => builder.add_i64_field(name, INDEXED | FAST),
        Fill::U64 => builder.add_u64_field(name, INDEXED | FAST),
        Fill::F64 => builder.add_f64_field(name, INDEXED | FAST),
        Fill::Bool => builder.add_bool_field(name, INDEXED | FAST),
        Fill::Time => {
            let options = DateOptions::default().set_indexed().set_fast();
            builder.add_date_field(name, options.set_precision(DateTimePrecision::Microseconds))
        }
        Fill::Object => {
            let options = JsonObjectOptions::default().set_indexing_options(words()).set_fast(RAW);
            builder.add_json_field(name, options.set_expand_dots_enabled())
        }
    }
}

fn words() -> TextFieldIndexing {
    TextFieldIndexing::default().set_tokenizer(WORDS).set_index_option(IndexRecordOption::WithFreqsAndPositions)
}

fn exact(fast: bool) -> TextOptions {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(RAW)
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::Basic);
    let options = TextOptions::default().set_indexing_options(indexing);
    if fast { options.set_fast(RAW) } else { options }
}

fn exact_columns(key: Slot, columns: &HashMap<String, Column>) -> Vec<Slot> {
    let mut slots = vec![key];
    slots.extend(columns.values().filter(|column| column.fill == Fill::Keyword).map(|column| column.slot));
    slots.sort();
    slots
}
