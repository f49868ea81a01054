//! Query strings, checked: each parameter known, given once, within its bounds. Knows nothing of what they ask for.

use std::borrow::Cow;

use super::answer::Refusal;
use super::{MAX_LIMIT, MAX_OFFSET, MAX_QUERY_BYTES};

/// A request's parameters, by name.
pub(super) struct Params<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Params<'a> {
    /// Reads a raw query string; a name that is not in `known`, or that stands twice, is refused.
    pub fn read(raw: Option<&'a str>, known: &[&str]) -> Result<Self, Refusal> {
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let choice = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Refusal::bad_parameter(format!("unknown parameter {name:?}; known here: {choice}")));
            }
            if pairs.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Refusal::bad_parameter(format!("parameter {name:?} stands twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// A parameter as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_ref())
    }

    /// `q`: empty where it is not given, which means all documents.
    pub fn query(&self) -> Result<&str, Refusal> {
        let query = self.text("q").unwrap_or_default();
        if query.len() > MAX_QUERY_BYTES {
            return Err(Refusal::bad_parameter(format!(
                "q is {} bytes long; at most {MAX_QUERY_BYTES} are taken",
                query.len()
            )));
        }
        Ok(query)
    }

    /// `limit`, from 1 to [`MAX_LIMIT`].
    pub fn limit(&self, default: usize) -> Result<usize, Refusal> {
        self.number("limit", default, 1, MAX_LIMIT)
    }

    /// `offset`, from 0 to [`MAX_OFFSET`].
    pub fn offset(&self) -> Result<usize, Refusal> {
        self.number("offset", 0, 0, MAX_OFFSET)
    }

    fn number(&self, name: &str, default: usize, least: usize, most: usize) -> Result<usize, Refusal> {
        let Some(text) = self.text(name) else { return Ok(default) };
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(Refusal::bad_parameter(format!(
                "{name} is {text:?}; a whole number from {least} to {most} is taken"
            ))),
        }
    }
}
