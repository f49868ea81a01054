//! The searcher over an embedded index, in the writer's process or another. Knows nothing of writing.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::tantivy::collector::{Count, TopDocs};
use ::tantivy::query::{Query, QueryParser, QueryParserError};
use ::tantivy::{TantivyError, query_grammar};
use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use highwater_core::ports::Fault;

use super::bounds;
use super::layout::Layout;
use super::schema::Physical;
use super::snapshot::{Snapshot, Snapshots, fault};
use crate::index::{AsOf, Dump, Found, Hit, SearchError, SearchQuery, Searcher, StoredDocument};
use crate::task;

/// Reads an embedded index. Each call sees the newest commit of the generation that the folder points at; there need not
/// be any yet. Nothing is written: a folder that may only be read will do.
pub struct TantivySearcher {
    layout: Layout,
    /// The one generation that it reads; `None`: the one that the folder points at.
    only: Option<String>,
    open: Mutex<Option<(String, Arc<Snapshots>)>>,
}

impl TantivySearcher {
    /// Takes the folder; opens what is in it when asked for the first time.
    pub fn open(path: &Path) -> Self {
        Self { layout: Layout::new(path), only: None, open: Mutex::new(None) }
    }

    /// Reads one generation, whichever the folder points at.
    pub(super) fn of(layout: Layout, name: &str) -> Self {
        Self { layout, only: Some(name.to_owned()), open: Mutex::new(None) }
    }

    /// The newest commit; `None` before the first.
    fn latest(&self) -> Result<Option<(Arc<Snapshot>, AsOf)>, Fault> {
        let name = match &self.only {
            Some(name) => Some(name.clone()).filter(|name| self.layout.is_made(name)),
            None => self.layout.current()?,
        };
        let Some(name) = name else { return Ok(None) };
        let snapshot = self.snapshots(name)?.latest()?;
        Ok(snapshot.as_of.clone().map(|as_of| (snapshot, as_of)))
    }

    fn snapshots(&self, name: String) -> Result<Arc<Snapshots>, Fault> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, snapshots)) = &*open
            && *known == name
        {
            return Ok(Arc::clone(snapshots));
        }
        let physical = Physical::of(&self.layout.shape(&name)?)?;
        let snapshots = Arc::new(Snapshots::open(&self.layout.index(&name), physical).map_err(fault)?);
        *open = Some((name, Arc::clone(&snapshots)));
        Ok(snapshots)
    }

    fn committed(&self) -> Result<(Arc<Snapshot>, AsOf), SearchError> {
        self.latest()?.ok_or(SearchError::Empty)
    }
}

#[async_trait]
impl Searcher for TantivySearcher {
    async fn search(&self, query: &SearchQuery) -> Result<Found, SearchError> {
        let (snapshot, as_of) = self.committed()?;
        let query = query.clone();
        task::blocking(move || find(&snapshot, as_of, &query)).await?
    }

    async fn get(&self, id: &str) -> Result<(Option<StoredDocument>, AsOf), SearchError> {
        let (snapshot, as_of) = self.committed()?;
        let id = id.to_owned();
        let document = task::blocking(move || snapshot.get(&id)).await?.map_err(fault)?;
        Ok((document, as_of))
    }

    async fn dump(&self) -> Result<(Option<AsOf>, Dump), Fault> {
        Ok(match self.latest()? {
            Some((snapshot, as_of)) => (Some(as_of), snapshot.documents()),
            None => (None, stream::empty().boxed()),
        })
    }

    async fn as_of(&self) -> Result<Option<(AsOf, u64)>, Fault> {
        Ok(self.latest()?.map(|(snapshot, as_of)| (as_of, snapshot.count())))
    }
}

fn find(snapshot: &Snapshot, as_of: AsOf, query: &SearchQuery) -> Result<Found, SearchError> {
    let text = query.query.trim();
    if text.is_empty() || text == "*" {
        let page = snapshot.page(query.offset, query.limit).map_err(fault)?;
        let hits = page.into_iter().map(|document| Hit { score: 1.0, document }).collect();
        return Ok(Found { as_of, total: snapshot.count(), hits });
    }
    let parsed = parse(snapshot, text)?;
    // The collector allocates for what it is asked for, and there are no more hits than documents.
    let most = usize::try_from(snapshot.count()).unwrap_or(usize::MAX);
    let (limit, offset) = (query.limit.min(most), query.offset.min(most));
    if limit == 0 {
        let total = snapshot.searcher.search(&parsed, &Count).map_err(|error| refused(error, &snapshot.physical))?;
        return Ok(Found { as_of, total: total as u64, hits: Vec::new() });
    }
    let best = TopDocs::with_limit(limit).and_offset(offset).order_by_score();
    let (best, total) =
        snapshot.searcher.search(&parsed, &(best, Count)).map_err(|error| refused(error, &snapshot.physical))?;
    let mut hits = Vec::with_capacity(best.len());
    for (score, address) in best {
        hits.push(Hit { score, document: snapshot.document(address).map_err(fault)? });
    }
    Ok(Found { as_of, total: total as u64, hits })
}

fn parse(snapshot: &Snapshot, text: &str) -> Result<Box<dyn Query>, SearchError> {
    let physical = &snapshot.physical;
    bounds::check_text(text).map_err(SearchError::Query)?;
    let tree = match query_grammar::parse_query(text) {
        Ok(tree) => tree,
        Err(_) => return Err(SearchError::Query(syntax(text))),
    };
    bounds::check_patterns(&tree).map_err(SearchError::Query)?;
    let mut parser = QueryParser::for_index(snapshot.searcher.index(), physical.defaults.clone());
    parser.set_conjunction_by_default();
    parser.allow_regexes();
    let (query, errors) = parser.build_query_from_user_input_ast_lenient(tree);
    // A query of exclusions alone is fine here: all documents but those.
    match errors.into_iter().find(|error| *error != QueryParserError::AllButQueryForbidden) {
        Some(error) => Err(SearchError::Query(explain(error, physical))),
        None => Ok(query),
    }
}

fn syntax(text: &str) -> String {
    let (_, errors) = query_grammar::parse_query_lenient(text);
    match errors.first() {
        Some(error) => format!("the query cannot be read at character {}: {}: `{text}`", error.pos, error.message),
        None => format!("the query cannot be read; put quotes around values with signs in them: `{text}`"),
    }
}

fn explain(error: QueryParserError, physical: &Physical) -> String {
    match error {
        QueryParserError::FieldDoesNotExist(name) | QueryParserError::FieldNotIndexed(name) => {
            let fields = physical.searchable.join(", ");
            if physical.stored.contains(&name) {
                format!("field `{name}` is kept in the documents and cannot be searched; these can: {fields}")
            } else {
                format!("there is no field `{name}`; the fields are {fields}")
            }
        }
        QueryParserError::NoDefaultFieldDeclared => {
            format!("no field holds text, so name one; the fields are {}", physical.searchable.join(", "))
        }
        QueryParserError::FieldDoesNotHavePositionsIndexed(name) => {
            format!("field `{name}` holds exact terms and cannot be searched for phrases")
        }
        QueryParserError::ExpectedInt(error) => format!("a whole number is expected: {error}"),
        QueryParserError::ExpectedFloat(error) => format!("a number is expected: {error}"),
        QueryParserError::ExpectedBool(_) => "`true` or `false` is expected".to_owned(),
        QueryParserError::DateFormatError(_) => {
            "a time is expected like 2026-01-31T18:00:00Z, in quotes outside a range".to_owned()
        }
        QueryParserError::PhrasePrefixRequiresAtLeastTwoTerms { phrase, .. } => format!(
            "a phrase with `*` behind it needs two words at least: `\"{phrase}\"*`; for the beginning of one word write \
             `field:/{phrase}.*/`"
        ),
        other => format!("the query cannot be used: {other}"),
    }
}

/// What only the search itself finds wrong with a query is the reader's mistake too.
fn refused(error: TantivyError, physical: &Physical) -> SearchError {
    match error {
        TantivyError::FieldNotFound(name) => {
            SearchError::Query(explain(QueryParserError::FieldDoesNotExist(name), physical))
        }
        TantivyError::SchemaError(message) | TantivyError::InvalidArgument(message) => SearchError::Query(format!(
            "the query cannot be used: {message} (`field:*` needs an exact field, a number, a bool, a time or an object)"
        )),
        other => SearchError::Fault(fault(other)),
    }
}
