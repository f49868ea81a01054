//! What a collection holds, in questions that sink and searcher share: the stamp, how many documents, traces.

use highwater_core::Sequence;
use highwater_core::ports::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::{Ask, Client, EVERYTHING, Trouble};
use super::convert::unhex;
use super::fields::{HASH, ID, LIVE, SEQUENCE, SOURCE, STAMP, VERSION};
use super::tombstones::Mark;
use crate::index::{AsOf, StoredDocument};

/// In a configset made by others, where nothing is filtered.
const SELECT: &str = "/select";

/// The fields that a document is read by.
pub(super) const FIELDS: &str = "id,_source_,_hw_hash_,_hw_seq_,score";

/// The text of the stamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamped {
    pub(super) format: u32,
    /// Whose collection it is.
    pub(super) pipeline: String,
    #[serde(flatten)]
    pub(super) as_of: AsOf,
    /// How old tombstones are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) marks: Vec<Mark>,
}

impl Client {
    /// Asks over all documents, tombstones and stamp included.
    pub(super) async fn everything(&self, parameters: &[(&str, &str)]) -> Result<Value, Trouble> {
        match self.query(EVERYTHING, parameters).await {
            Err(Trouble::Refused { status: 404, .. }) => self.query(SELECT, parameters).await,
            answer => answer,
        }
    }

    /// Asks over live documents.
    pub(super) async fn live(&self, parameters: &[(&str, &str)]) -> Result<Value, Trouble> {
        let mut all = vec![("fq", LIVE)];
        all.extend(parameters);
        self.query(SELECT, &all).await
    }

    /// The stamp of the last visible commit.
    pub(super) async fn stamp(&self) -> Result<Option<Stamped>, Fault> {
        let parameters = [("q", "{!term f=id v=$stamp}"), ("stamp", STAMP), ("fl", SOURCE), ("rows", "1")];
        let found = self.everything(&parameters).await.map_err(|trouble| self.fault(trouble))?;
        let Some(text) = found["response"]["docs"][0][SOURCE].as_str() else { return Ok(None) };
        let stamped: Stamped = serde_json::from_str(text)
            .map_err(|error| Fault::Invalid(format!("{} has a stamp that cannot be read: {error}", self.place())))?;
        if stamped.format != 1 {
            return Err(Fault::Invalid(format!(
                "{} was stamped by a newer version of this program (format {})",
                self.place(),
                stamped.format
            )));
        }
        Ok(Some(stamped))
    }

    /// How many documents are live.
    pub(super) async fn count(&self) -> Result<u64, Fault> {
        let found = self.live(&[("q", "*:*"), ("rows", "0")]).await.map_err(|trouble| self.fault(trouble))?;
        total(&found).ok_or_else(|| self.odd())
    }

    /// The highest version that any document has; 0 where none has one.
    pub(super) async fn highest_version(&self) -> Result<i64, Fault> {
        let order = format!("{VERSION} desc");
        let bound = format!("{VERSION}:[* TO *]");
        let parameters = [("q", bound.as_str()), ("sort", &order), ("fl", VERSION), ("rows", "1")];
        let found = self.everything(&parameters).await.map_err(|trouble| self.fault(trouble))?;
        Ok(found["response"]["docs"][0][VERSION].as_i64().unwrap_or_default())
    }

    /// Whether a document or tombstone was written by one of these batches.
    pub(super) async fn traces(&self, void: &[Sequence]) -> Result<bool, Fault> {
        Ok(self.left_by(void, &format!("-{ID}:{STAMP}")).await? > 0)
    }

    /// How many of those that a filter leaves were written by one of these batches.
    pub(super) async fn left_by(&self, void: &[Sequence], filter: &str) -> Result<u64, Fault> {
        if void.is_empty() {
            return Ok(0);
        }
        let numbers: Vec<String> = void.iter().map(|sequence| sequence.0.to_string()).collect();
        let query = format!("{SEQUENCE}:({})", numbers.join(" OR "));
        let parameters = [("q", query.as_str()), ("fq", filter), ("rows", "0")];
        let found = self.everything(&parameters).await.map_err(|trouble| self.fault(trouble))?;
        total(&found).ok_or_else(|| self.odd())
    }

    /// Makes visible what was sent, on every shard, and waits for it. Changes nothing where nothing was sent.
    pub(super) async fn make_visible(&self) -> Result<(), Trouble> {
        let query = [("commit", "true"), ("openSearcher", "true"), ("waitSearcher", "true")];
        let path = format!("/{}/update", self.collection());
        self.json(Ask::post(path, &query, "application/json", "[]")).await.map(drop)
    }

    pub(super) fn odd(&self) -> Fault {
        Fault::Unavailable(format!("{} gave an answer without what was asked for", self.place()))
    }
}

/// How many documents a question found.
pub(super) fn total(found: &Value) -> Option<u64> {
    found["response"]["numFound"].as_u64()
}

/// A document as it was read; one that highwater did not write has its id alone.
pub(super) fn stored(document: &Value) -> Option<StoredDocument> {
    let id = document[ID].as_str()?;
    let json = match document[SOURCE].as_str() {
        Some(source) => source.as_bytes().into(),
        None => serde_json::to_vec(&serde_json::json!({ ID: id })).ok()?.into_boxed_slice(),
    };
    let sequence = Sequence(document[SEQUENCE].as_u64().unwrap_or_default());
    Some(StoredDocument { id: id.into(), json, hash: unhex(document[HASH].as_str()), sequence })
}
