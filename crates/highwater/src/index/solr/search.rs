//! The reader of a collection: search in Solr's query language, single documents, all of them.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use highwater_core::ports::Fault;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::client::{Client, Trouble};
use super::reading::{FIELDS, stored, total};
use super::setup::{self, Schema};
use crate::config::SolrConfig;
use crate::index::{AsOf, Dump, Found, Hit, MAX_QUERY_BYTES, SearchError, SearchQuery, Searcher, StoredDocument};

const DOCUMENTS_A_BLOCK: &str = "500";

/// A collection, open for reading; it need not be there yet.
pub struct SolrSearcher {
    client: Result<Arc<Client>, Fault>,
    /// Where words without a field name are looked for.
    defaults: OnceCell<String>,
}

impl SolrSearcher {
    /// Opens it; nothing is asked before the first question.
    pub fn open(config: &SolrConfig) -> Self {
        Self { client: Client::new(config).map(Arc::new), defaults: OnceCell::new() }
    }

    fn client(&self) -> Result<&Arc<Client>, Fault> {
        self.client.as_ref().map_err(Clone::clone)
    }

    /// The stamp, read before whatever it is told with: that is never older. `None` before the first commit.
    async fn stamp(&self) -> Result<Option<AsOf>, Fault> {
        let client = self.client()?;
        match client.stamp().await {
            Ok(stamped) => Ok(stamped.map(|stamped| stamped.as_of)),
            // No collection yet is an index before its first batch.
            Err(Fault::Invalid(_)) if !setup::exists(client).await? => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn defaults(&self) -> Result<&str, Fault> {
        let client = self.client()?;
        let read = || async { Ok::<_, Fault>(Schema::read(client).await?.defaults().join(" ")) };
        self.defaults.get_or_try_init(read).await.map(String::as_str)
    }
}

#[async_trait]
impl Searcher for SolrSearcher {
    async fn search(&self, query: &SearchQuery) -> Result<Found, SearchError> {
        let client = self.client()?;
        let as_of = self.stamp().await?.ok_or(SearchError::Empty)?;
        let text = query.query.trim();
        if text.len() > MAX_QUERY_BYTES {
            let message = format!("the query has {} bytes, more than {MAX_QUERY_BYTES}", text.len());
            return Err(SearchError::Query(message));
        }
        let (rows, start) = (query.limit.to_string(), query.offset.to_string());
        let mut parameters = vec![("rows", rows.as_str()), ("start", &start), ("fl", FIELDS)];
        if text.is_empty() || text == "*" {
            parameters.extend([("q", "*:*"), ("sort", "id asc")]);
        } else {
            parameters.extend([("defType", "edismax"), ("qf", self.defaults().await?), ("q", text)]);
            parameters.extend([("q.op", "AND"), ("uf", "* -_query_"), ("sort", "score desc,id asc")]);
        }
        let found = match client.live(&parameters).await {
            Ok(found) => found,
            Err(Trouble::Refused { status: 400, reason, .. }) => return Err(SearchError::Query(reason)),
            Err(trouble) => return Err(client.fault(trouble).into()),
        };
        let hits = documents(&found).map(|document| Hit {
            score: document["score"].as_f64().unwrap_or_default() as f32,
            document: stored(document).unwrap_or_else(nothing),
        });
        let hits = hits.collect();
        Ok(Found { as_of, total: total(&found).ok_or_else(|| client.odd())?, hits })
    }

    async fn get(&self, id: &str) -> Result<(Option<StoredDocument>, AsOf), SearchError> {
        let client = self.client()?;
        let as_of = self.stamp().await?.ok_or(SearchError::Empty)?;
        let parameters = [("q", "{!term f=id v=$wanted}"), ("wanted", id), ("fl", FIELDS), ("rows", "1")];
        let found = client.live(&parameters).await.map_err(|trouble| client.fault(trouble))?;
        Ok((documents(&found).next().and_then(stored), as_of))
    }

    async fn dump(&self) -> Result<(Option<AsOf>, Dump), Fault> {
        let client = Arc::clone(self.client()?);
        let as_of = self.stamp().await?;
        if as_of.is_none() && !setup::exists(&client).await? {
            return Ok((None, stream::empty().boxed()));
        }
        let start = Some(Page { client, as_of: as_of.clone(), cursor: "*".to_owned() });
        let blocks = stream::try_unfold(start, |page| async move {
            let Some(page) = page else { return Ok(None) };
            page.read().await
        });
        Ok((as_of, blocks.boxed()))
    }

    async fn as_of(&self) -> Result<Option<(AsOf, u64)>, Fault> {
        match self.stamp().await? {
            Some(as_of) => Ok(Some((as_of, self.client()?.count().await?))),
            None => Ok(None),
        }
    }
}

/// Where a dump goes on.
struct Page {
    client: Arc<Client>,
    as_of: Option<AsOf>,
    cursor: String,
}

impl Page {
    async fn read(mut self) -> Result<Option<(Vec<StoredDocument>, Option<Self>)>, Fault> {
        let parameters = [
            ("q", "*:*"),
            ("sort", "id asc"),
            ("fl", FIELDS),
            ("rows", DOCUMENTS_A_BLOCK),
            ("cursorMark", self.cursor.as_str()),
        ];
        let found = self.client.live(&parameters).await.map_err(|trouble| self.client.fault(trouble))?;
        let next = found["nextCursorMark"].as_str().ok_or_else(|| self.client.odd())?.to_owned();
        let block: Vec<StoredDocument> = documents(&found).filter_map(stored).collect();
        if next == self.cursor {
            // The pages are of one commit only if none came in between.
            let now = self.client.stamp().await?.map(|stamped| stamped.as_of);
            if now != self.as_of {
                return Err(Fault::Unavailable(format!(
                    "{} was committed to while its documents were read: try again",
                    self.client.place()
                )));
            }
            return Ok(Some((block, None)));
        }
        self.cursor = next;
        Ok(Some((block, Some(self))))
    }
}

fn documents(found: &Value) -> impl Iterator<Item = &Value> {
    found["response"]["docs"].as_array().into_iter().flatten()
}

/// Every document has the unique key; this stands for one that would not.
fn nothing() -> StoredDocument {
    StoredDocument { id: "".into(), json: Box::default(), hash: [0; 16], sequence: highwater_core::Sequence(0) }
}
