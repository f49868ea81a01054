//! The collections of one pipeline: one a generation, behind an alias that readers ask by. A collection that somebody else
//! made, or an alias of one, is kept as it is: it is the one generation that there is.

use std::sync::Arc;

use async_trait::async_trait;
use highwater_core::Sequence;
use highwater_core::generation::GenerationName;
use highwater_core::ports::Fault;
use serde_json::Value;

use super::client::{Ask, Client, Trouble};
use super::{SolrSearcher, SolrSink, settle, setup, traces};
use crate::config::SolrConfig;
use crate::index::{Home, Searcher, Shape, Sink};

/// The collections `NAME_g1`, `NAME_g2`, … behind the alias `NAME`.
pub struct SolrHome {
    config: SolrConfig,
}

/// What stands under the name that the configuration gives.
enum Named {
    /// Nothing yet.
    Nothing,
    /// An alias of a collection of ours.
    Alias(GenerationName),
    /// A collection, or an alias of one that is none of ours.
    Anothers,
}

impl SolrHome {
    /// For the collections that the configuration names, whether or not they are there.
    pub fn new(config: &SolrConfig) -> Self {
        Self { config: config.clone() }
    }

    fn collection_of(&self, name: &GenerationName) -> String {
        format!("{}_{name}", self.config.collection)
    }

    fn generation_of(&self, collection: &str) -> Option<GenerationName> {
        GenerationName::parse(collection.strip_prefix(&self.config.collection)?.strip_prefix('_')?)
    }

    fn client(&self) -> Result<Client, Fault> {
        Client::new(&self.config)
    }

    async fn named(&self, client: &Client) -> Result<Named, Fault> {
        let aliases = ask(client, &[("action", "LISTALIASES")]).await?;
        if let Some(target) = aliases["aliases"].get(&self.config.collection).and_then(Value::as_str) {
            return Ok(self.generation_of(target).map_or(Named::Anothers, Named::Alias));
        }
        Ok(if collections(client).await?.contains(&self.config.collection) { Named::Anothers } else { Named::Nothing })
    }

    /// The configuration of a generation's own collection.
    async fn of(&self, name: &GenerationName) -> Result<SolrConfig, Fault> {
        let is_anothers = matches!(self.named(&self.client()?).await?, Named::Anothers);
        if is_anothers && *name == GenerationName::default() {
            return Ok(self.config.clone());
        }
        Ok(SolrConfig { collection: self.collection_of(name), ..self.config.clone() })
    }

    /// Points the alias, in one step; done twice it does no harm.
    async fn point(&self, client: &Client, to: &GenerationName) -> Result<(), Fault> {
        let collection = self.collection_of(to);
        let query = [("action", "CREATEALIAS"), ("name", &self.config.collection), ("collections", &collection)];
        ask(client, &query).await.map(drop)
    }

    fn is_no_alias(&self) -> Fault {
        Fault::Invalid(format!(
            "`{}` is a collection, or an alias of one, that highwater did not make: it is kept in place and cannot be \
             rebuilt beside itself. Name another `collection` for generations, fill it, and point your clients at that",
            self.config.collection
        ))
    }
}

async fn ask(client: &Client, query: &[(&str, &str)]) -> Result<Value, Fault> {
    client.json(Ask::get("/admin/collections", query)).await.map_err(|trouble| client.fault(trouble))
}

async fn collections(client: &Client) -> Result<Vec<String>, Fault> {
    let list = ask(client, &[("action", "LIST")]).await?;
    Ok(list["collections"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect())
}

#[async_trait]
impl Home for SolrHome {
    async fn open(
        &self,
        name: &GenerationName,
        is_live: bool,
        shape: &Shape,
        _writer_memory_bytes: u64,
        _threads: usize,
    ) -> Result<Box<dyn Sink>, Fault> {
        let client = self.client()?;
        let named = self.named(&client).await?;
        if matches!(named, Named::Anothers) && *name != GenerationName::default() {
            return Err(self.is_no_alias());
        }
        let mut sink = SolrSink::open(&self.of(name).await?, shape).await?;
        if !is_live {
            sink.writer.be_modest();
        }
        if is_live && matches!(named, Named::Nothing) {
            self.point(&client, name).await?;
        }
        Ok(Box::new(sink))
    }

    async fn can_grow(&self) -> Result<(), Fault> {
        match self.named(&self.client()?).await? {
            Named::Anothers => Err(self.is_no_alias()),
            Named::Nothing | Named::Alias(_) => Ok(()),
        }
    }

    async fn settle(&self, name: &GenerationName) -> Result<(), Fault> {
        settle(&self.of(name).await?).await
    }

    async fn traces(&self, name: &GenerationName, void: &[Sequence]) -> Result<bool, Fault> {
        traces(&self.of(name).await?, void).await
    }

    async fn searcher(&self, name: &GenerationName) -> Result<Arc<dyn Searcher>, Fault> {
        Ok(Arc::new(SolrSearcher::open(&self.of(name).await?)))
    }

    async fn live(&self) -> Result<Option<GenerationName>, Fault> {
        Ok(match self.named(&self.client()?).await? {
            Named::Nothing => None,
            Named::Alias(name) => Some(name),
            Named::Anothers => Some(GenerationName::default()),
        })
    }

    async fn switch(&self, to: &GenerationName) -> Result<(), Fault> {
        let client = self.client()?;
        if matches!(self.named(&client).await?, Named::Anothers) {
            return Err(self.is_no_alias());
        }
        self.point(&client, to).await
    }

    async fn all(&self) -> Result<Vec<GenerationName>, Fault> {
        let client = self.client()?;
        Ok(collections(&client).await?.iter().filter_map(|name| self.generation_of(name)).collect())
    }

    async fn delete(&self, name: &GenerationName) -> Result<(), Fault> {
        let client = self.client()?;
        let collection = self.collection_of(name);
        if matches!(self.named(&client).await?, Named::Alias(live) if live == *name) {
            return Err(Fault::Invalid(format!(
                "`{collection}` is the collection that readers see; it is not deleted"
            )));
        }
        if collections(&client).await?.contains(&collection) {
            ask(&client, &[("action", "DELETE"), ("name", &collection)]).await?;
        }
        if self.config.configset.is_none() {
            let configset = setup::configset_of(&collection);
            let query = [("action", "DELETE"), ("name", configset.as_str())];
            match client.json(Ask::get("/admin/configs", &query)).await {
                // It is gone already.
                Ok(_) | Err(Trouble::Refused { status: 400 | 404, .. }) => {}
                Err(trouble) => return Err(client.fault(trouble)),
            }
        }
        Ok(())
    }
}
