//! A sink and a searcher over a collection of a SolrCloud, by plain HTTP. Knows nothing of sources or SQL.
//!
//! Every write carries a version made of its batch's number, and the collection's update chain lets older versions lose,
//! so that sending twice changes nothing and a stale writer has no effect. Deletions are tombstones. Solr has no rollback:
//! what was staged shows with the next commit, whoever makes it, which is why opening and abandoning commit. A batch shows
//! shard by shard, within one commit. The stamp is a document, read before whatever it is told with.

mod client;
mod convert;
mod export;
mod fields;
mod home;
mod reading;
mod search;
mod setup;
#[cfg(test)]
mod tests;
mod tombstones;
mod writer;
mod zip;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use highwater_core::Sequence;
use highwater_core::lease::Lease;
use highwater_core::ports::Fault;

use self::client::Client;
use self::fields::LIVE;
pub use self::home::SolrHome;
pub use self::search::SolrSearcher;
use self::writer::Writer;
use crate::config::SolrConfig;
use crate::index::{AsOf, Change, Pair, Refused, Shape, Sink};

/// A collection, open for writing.
pub struct SolrSink {
    client: Arc<Client>,
    writer: Writer,
}

impl SolrSink {
    /// Opens the collection, creating it (and its configset) where there is none, and makes visible what a former writer
    /// left.
    ///
    /// # Errors
    /// `Invalid` if the collection was made for something else: the message names what it lacks, or which field is in the
    /// way.
    pub async fn open(config: &SolrConfig, shape: &Shape) -> Result<Self, Fault> {
        let columns = fields::columns(shape)?;
        let client = Arc::new(Client::new(config)?);
        setup::prepare(&client, &columns).await?;
        client.make_visible().await.map_err(|trouble| client.fault(trouble))?;
        let stamped = client.stamp().await?;
        if let Some(stamped) = stamped.as_ref().filter(|stamped| stamped.pipeline != shape.pipeline) {
            return Err(Fault::Invalid(format!(
                "{} is kept by the pipeline `{}`: name another collection for `{}`",
                client.place(),
                stamped.pipeline,
                shape.pipeline
            )));
        }
        let version = client.highest_version().await?;
        let writer = Writer::new(Arc::clone(&client), &shape.pipeline, columns, version, stamped);
        Ok(Self { client, writer })
    }
}

/// Makes visible what a writer that ended left; a collection that is not there yet is fine.
pub async fn settle(config: &SolrConfig) -> Result<(), Fault> {
    let client = Client::new(config)?;
    if !setup::exists(&client).await? {
        return Ok(());
    }
    client.make_visible().await.map_err(|trouble| client.fault(trouble))
}

/// [`Sink::traces`], of a collection that is not open and may not be there.
pub async fn traces(config: &SolrConfig, void: &[Sequence]) -> Result<bool, Fault> {
    let client = Client::new(config)?;
    Ok(setup::exists(&client).await? && client.traces(void).await?)
}

#[async_trait]
impl Sink for SolrSink {
    fn is_atomic(&self) -> bool {
        false
    }

    async fn as_of(&self) -> Result<Option<AsOf>, Fault> {
        Ok(self.client.stamp().await?.map(|stamped| stamped.as_of))
    }

    async fn count(&self) -> Result<u64, Fault> {
        self.client.count().await
    }

    async fn pairs(&self) -> Result<BoxStream<'static, Result<Vec<Pair>, Fault>>, Fault> {
        Ok(export::pairs(Arc::clone(&self.client)))
    }

    async fn stage(
        &mut self,
        sequence: Sequence,
        changes: Vec<Change>,
        lease: &dyn Lease,
    ) -> Result<Vec<Refused>, Fault> {
        self.writer.stage(sequence, changes, lease).await
    }

    async fn commit(&mut self, as_of: &AsOf, lease: &dyn Lease) -> Result<(), Fault> {
        self.writer.commit(as_of, lease).await
    }

    async fn abandon(&mut self) -> Result<(), Fault> {
        self.writer.abandon().await
    }

    async fn traces(&self, void: &[Sequence]) -> Result<bool, Fault> {
        self.client.traces(void).await
    }

    async fn left_by(&self, void: &[Sequence]) -> Result<u64, Fault> {
        self.client.left_by(void, LIVE).await
    }
}
