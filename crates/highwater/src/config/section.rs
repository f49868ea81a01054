//! One table of the file, read key by key: wrong types and unknown keys are written down, never fatal. Knows nothing of
//! what keys mean.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Findings;
use super::substitute::{Env, substitute};
use super::suggest::nearest;

/// A string of the file, variables put in.
pub type Text = Spanned<String>;

/// A value that may be a number or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    Integer(i64),
    Text(String),
}

/// What all sections of one file share.
pub struct Reader<'e> {
    pub env: Env<'e>,
    pub found: Findings,
    /// Every key that the file holds, as `section.key`.
    pub given: BTreeSet<String>,
}

impl Reader<'_> {
    fn string(&mut self, key: &str, raw: &str, span: Range<usize>) -> Option<Text> {
        let put_in = substitute(raw, self.env);
        Some(Spanned::new(span.clone(), self.found.keep(span, key, put_in)?))
    }

    fn mistyped(&mut self, key: &str, wanted: &str, example: &str, value: &Spanned<DeValue<'_>>) {
        let is = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.found.problem(value.span(), format!("`{key}` must be {wanted}, not {is}"), format!("write {example}"));
    }
}

/// One table, and which of its keys were asked for.
pub struct Section<'t> {
    /// Its place in the file, as `source.ads`; empty for the whole.
    pub path: String,
    /// Its header.
    pub span: Range<usize>,
    table: &'t DeTable<'t>,
    asked: Vec<&'static str>,
}

impl<'t> Section<'t> {
    pub fn new(reader: &mut Reader<'_>, path: String, span: Range<usize>, table: &'t DeTable<'t>) -> Self {
        for key in table.keys() {
            reader.given.insert(if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{key}") });
        }
        Self { path, span, table, asked: Vec::new() }
    }

    /// A string.
    pub fn text(&mut self, reader: &mut Reader<'_>, key: &'static str, example: &str) -> Option<Text> {
        let value = self.ask(key)?;
        match value.get_ref() {
            DeValue::String(raw) => reader.string(key, raw, value.span()),
            _ => {
                reader.mistyped(key, "a string", example, value);
                None
            }
        }
    }

    /// A string that must be there.
    pub fn need(&mut self, reader: &mut Reader<'_>, key: &'static str, example: &str) -> Option<Text> {
        if !self.has(key) {
            let message = format!("`{key}` is missing in [{}]", self.path);
            reader.found.problem(self.span.clone(), message, format!("write {example}"));
        }
        self.text(reader, key, example)
    }

    /// A string or an unquoted RFC 3339 time.
    pub fn time(&mut self, reader: &mut Reader<'_>, key: &'static str, example: &str) -> Option<Text> {
        match self.ask(key)?.get_ref() {
            DeValue::Datetime(time) => Some(Spanned::new(self.ask(key)?.span(), time.to_string())),
            _ => self.text(reader, key, example),
        }
    }

    /// An integer or a string.
    pub fn scalar(&mut self, reader: &mut Reader<'_>, key: &'static str, example: &str) -> Option<Spanned<Scalar>> {
        let value = self.ask(key)?;
        let scalar = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(Scalar::Integer),
            DeValue::String(raw) => Some(Scalar::Text(reader.string(key, raw, value.span())?.into_inner())),
            _ => None,
        };
        if scalar.is_none() {
            reader.mistyped(key, "an integer or a string", example, value);
        }
        Some(Spanned::new(value.span(), scalar?))
    }

    /// True or false, with its place.
    pub fn spanned_flag(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<Spanned<bool>> {
        let flag = self.flag(reader, key)?;
        Some(Spanned::new(self.ask(key)?.span(), flag))
    }

    /// True or false.
    pub fn flag(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<bool> {
        let value = self.ask(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            reader.mistyped(key, "true or false", &format!("{key} = true"), value);
        }
        flag
    }

    /// A string, or an array of strings.
    pub fn texts(&mut self, reader: &mut Reader<'_>, key: &'static str, example: &str) -> Option<Spanned<Vec<Text>>> {
        let value = self.ask(key)?;
        let mut texts = Vec::new();
        match value.get_ref() {
            DeValue::String(raw) => texts.push(reader.string(key, raw, value.span())?),
            DeValue::Array(items) => {
                for item in items.iter() {
                    match item.get_ref() {
                        DeValue::String(raw) => texts.push(reader.string(key, raw, item.span())?),
                        _ => reader.mistyped(key, "a string or an array of strings", example, item),
                    }
                }
            }
            _ => {
                reader.mistyped(key, "a string or an array of strings", example, value);
                return None;
            }
        }
        Some(Spanned::new(value.span(), texts))
    }

    /// A table within.
    pub fn section(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<Section<'t>> {
        let value = self.ask(key)?;
        self.open(reader, key, value)
    }

    /// The tables within, by names of the user's choice, in the order of the file.
    pub fn sections(&mut self, reader: &mut Reader<'_>) -> Vec<(Text, Section<'t>)> {
        let mut sections = Vec::new();
        for (key, value) in self.in_order() {
            let name = key.get_ref().to_string();
            if let Some(section) = self.open(reader, &name, value) {
                sections.push((Spanned::new(key.span(), name), section));
            }
        }
        sections
    }

    /// The strings within, by names of the user's choice, in the order of the file.
    pub fn entries(&mut self, reader: &mut Reader<'_>, example: &str) -> Vec<(Text, Text)> {
        let mut entries = Vec::new();
        for (key, value) in self.in_order() {
            let name = key.get_ref().to_string();
            let DeValue::String(raw) = value.get_ref() else {
                reader.mistyped(&name, "a string", example, value);
                continue;
            };
            if let Some(text) = reader.string(&name, raw, value.span()) {
                entries.push((Spanned::new(key.span(), name), text));
            }
        }
        entries
    }

    /// True if the file holds the key.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// True if the file holds a table under the key.
    pub fn has_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().is_table())
    }

    /// Ends the reading: what was not asked for is unknown.
    pub fn finish(self, reader: &mut Reader<'_>) {
        for (key, value) in self.in_order() {
            let name = key.get_ref().as_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let within = if self.path.is_empty() { "this file".into() } else { format!("[{}]", self.path) };
            let kind = if self.path.is_empty() && value.get_ref().is_table() { "section" } else { "key" };
            let fix = match (nearest(name, self.asked.iter().copied()), home_of(name)) {
                (Some(meant), _) => format!("did you mean `{meant}`?"),
                (None, Some(home)) => format!("it belongs in {home}"),
                (None, None) => format!("take it out; known here: {}", self.asked.join(", ")),
            };
            reader.found.problem(key.span(), format!("unknown {kind} `{name}` in {within}"), fix);
        }
    }

    fn open(&self, reader: &mut Reader<'_>, key: &str, value: &'t Spanned<DeValue<'t>>) -> Option<Section<'t>> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(reader, path, value.span(), table)),
            _ => {
                reader.mistyped(key, "a table", &format!("[{path}]"), value);
                None
            }
        }
    }

    fn ask(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.table.get(key)
    }

    fn in_order(&self) -> Vec<(&'t Spanned<toml::de::DeString<'t>>, &'t Spanned<DeValue<'t>>)> {
        let mut pairs: Vec<_> = self.table.iter().collect();
        pairs.sort_by_key(|(key, _)| key.span().start);
        pairs
    }
}

/// Where a key belongs that is often written one table too high.
fn home_of(key: &str) -> Option<&'static str> {
    match key {
        "header" | "delimiter" | "quote" | "escape" | "null" => Some("[source.NAME.csv]"),
        "endpoint" | "region" | "allow_http" | "timeout" => Some("[store.\"s3://BUCKET\"]"),
        "poll" | "on_lag" | "lease" | "memory" | "single_writer" | "max_uptime" | "on_max_uptime" => Some("[pipeline]"),
        "absent" => Some("[index]"),
        "keep_hot" | "rebuild_every" | "rebuild_on_change" => Some("[generations]"),
        "listen" => Some("[serve]"),
        _ => None,
    }
}
