//! The search box and what it found. Knows nothing of the query language: the index answers for it.

use std::fmt;

use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Facts;
use super::words::{ago, count, counted, instant};
use crate::index::SearchQuery;
use crate::report::{HitReport, SearchReport};
use crate::serve::answer::Refusal;
use crate::serve::api;
use crate::serve::params::Params;
use crate::serve::{MAX_OFFSET, MAX_QUERY_BYTES, PipelineView};

/// Hits on a page.
const HITS: usize = 10;
/// Characters of a value that the page shows; the document's JSON has the rest.
const SHOWN: usize = 400;
/// Fields that name a document, the best first.
const TITLES: [&str; 6] = ["title", "name", "headline", "label", "subject", "text"];

/// What the reader asked for; no query: nothing.
pub(super) struct Asked(Option<SearchQuery>);

impl Asked {
    pub fn read(params: &Params<'_>) -> Result<Self, Refusal> {
        let offset = params.offset()?;
        if params.text("q").is_none() {
            return Ok(Self(None));
        }
        Ok(Self(Some(SearchQuery { query: params.query()?.to_owned(), limit: HITS, offset })))
    }

    pub async fn answer(&self, view: &dyn PipelineView) -> Option<Result<SearchReport, Refusal>> {
        match &self.0 {
            Some(query) => Some(api::find(view, query).await),
            None => None,
        }
    }
}

pub(super) fn section(
    name: &str,
    asked: &Asked,
    answer: Option<&Result<SearchReport, Refusal>>,
    facts: &Facts,
) -> Markup {
    let query = asked.0.as_ref().map_or("", |query| query.query.as_str());
    html! {
        section #search aria-label="Search" {
            form role="search" action="/" method="get" {
                input type="hidden" name="pipeline" value=(name);
                label for="q" { "Search" }
                div.box {
                    input #q type="search" name="q" value=(query) maxlength=(MAX_QUERY_BYTES)
                        placeholder="words, field:value, or nothing for all" autocomplete="off" spellcheck="false";
                    button type="submit" { "Search" }
                }
            }
            @match answer {
                None => {}
                Some(Err(refusal)) => p.problem role="alert" { (refusal.message) },
                Some(Ok(found)) => (results(name, asked, found, facts)),
            }
        }
    }
}

fn results(name: &str, asked: &Asked, found: &SearchReport, facts: &Facts) -> Markup {
    let Some(query) = &asked.0 else { return html! {} };
    let as_of = &found.as_of;
    html! {
        p.count role="status" {
            @if found.hits.is_empty() {
                (counted(found.total, "document matches", "documents match"))
                @if found.total > 0 { ", none past the first " (count(query.offset as u64)) }
            } @else {
                (count(query.offset as u64 + 1)) "–" (count((query.offset + found.hits.len()) as u64)) " of "
                (counted(found.total, "document", "documents"))
            }
        }
        @if !found.hits.is_empty() {
            ol.hits start=(query.offset + 1) { @for hit in &found.hits { (self::hit(name, hit)) } }
        }
        (pages(name, query, found))
        p.quiet.asof {
            "As of batch " (as_of.seq) ", complete to watermark " (instant(as_of.watermark, facts.now))
            " (" (ago(as_of.watermark, facts.now)) ")."
        }
    }
}

fn hit(name: &str, hit: &HitReport) -> Markup {
    let fields = match serde_json::from_str::<Fields>(hit.document.get()) {
        Ok(fields) => fields.0,
        Err(_) => Vec::new(),
    };
    let title = title(&fields);
    let href = format!("/api/v1/pipelines/{}/documents/{}", segment(name), segment(&hit.id));
    html! {
        li {
            article aria-label=(hit.id) {
                h3 { a href=(href) { (title.map_or(hit.id.as_str(), |(_, text)| text)) } }
                dl {
                    @for (field, value) in &fields {
                        @let titled = title.map_or(value == &hit.id, |(titled, _)| titled == field);
                        @if !titled { div { dt { (field) } dd { (shown(value)) } } }
                    }
                }
            }
        }
    }
}

/// The field that best names the document, with its text.
fn title(fields: &[(String, String)]) -> Option<(&String, &str)> {
    for wanted in TITLES {
        for (field, value) in fields {
            if field.eq_ignore_ascii_case(wanted) && !value.trim().is_empty() && value.len() <= SHOWN {
                return Some((field, value));
            }
        }
    }
    None
}

fn shown(value: &str) -> Markup {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => html! { (&value[..end]) "…" },
        None => html! { (value) },
    }
}

fn pages(name: &str, query: &SearchQuery, found: &SearchReport) -> Markup {
    let next = query.offset + HITS;
    let more = found.hits.len() == HITS && (next as u64) < found.total && next <= MAX_OFFSET;
    html! {
        @if query.offset > 0 || more {
            nav.pages aria-label="Pages of hits" {
                @if query.offset > 0 {
                    a rel="prev" href=(page(name, query, query.offset.saturating_sub(HITS))) { "← Before" }
                }
                @if more { a rel="next" href=(page(name, query, next)) { "Next →" } }
            }
        }
    }
}

fn page(name: &str, query: &SearchQuery, offset: usize) -> String {
    let mut pairs = url::form_urlencoded::Serializer::new(String::new());
    pairs.append_pair("pipeline", name).append_pair("q", &query.query).append_pair("offset", &offset.to_string());
    format!("/?{}#search", pairs.finish())
}

/// One segment of a path, slashes included.
fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A document's fields in their order, each as text: strings bare, all else as its JSON, digit for digit. Nulls are
/// left out.
struct Fields(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some((field, value)) = map.next_entry::<String, Box<RawValue>>()? {
            let json = value.get();
            if json != "null" {
                fields.push((field, serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())));
            }
        }
        Ok(Fields(fields))
    }
}
