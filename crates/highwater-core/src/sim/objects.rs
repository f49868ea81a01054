//! The store of the log as one process sees it: an object store in memory behind requests that meet troubles. Reads see
//! writes and listings are complete, or fail: the log needs that of its store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::history::{Point, Trouble};
use super::world::Port;
use crate::log::contract::faulty::{broken, cut};

/// The store, from one process.
#[derive(Clone, Debug)]
pub(super) struct SimStore {
    inner: Arc<InMemory>,
    port: Port,
}

impl SimStore {
    pub fn new(inner: Arc<InMemory>, port: Port) -> Self {
        Self { inner, port }
    }

    /// Tells the oracle of a record that was not there before.
    fn created(&self, location: &Path, bytes: &Bytes) {
        if location.parts().any(|part| part.as_ref() == "log") {
            self.port.world().record_created(self.port.host, bytes);
        }
    }

    async fn create(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let bytes: Bytes = payload.clone().into();
        let result = self.inner.put_opts(location, payload, options).await?;
        self.created(location, &bytes);
        Ok(result)
    }
}

impl fmt::Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let trouble = self.port.request(Point::LogPut, &format!("put {location}")).await;
        let path = location.to_string();
        let result = match trouble {
            None | Some(Trouble::Cut | Trouble::Hide | Trouble::Slow(_)) => {
                self.create(location, payload, options).await
            }
            Some(Trouble::Fail) => Err(broken()),
            Some(Trouble::Lose) => self.create(location, payload, options).await.and(Err(broken())),
            Some(Trouble::Conflict) => Err(Error::AlreadyExists { path, source: "competing request".into() }),
            Some(Trouble::Precondition) => Err(Error::Precondition { path, source: "competing request".into() }),
        };
        self.port.replied().await;
        result
    }

    async fn put_multipart_opts(
        &self,
        _location: &Path,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "put_multipart".into(), implementer: "SimStore".into() })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let trouble = self.port.request(Point::LogGet, &format!("get {location}")).await;
        let found = self.inner.get_opts(location, options).await;
        self.port.replied().await;
        match trouble {
            Some(Trouble::Cut) => cut(found?).await,
            Some(_) => Err(broken()),
            None => found,
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations
            .then(move |location| {
                let store = store.clone();
                async move {
                    let location = location?;
                    let trouble = store.port.request(Point::LogDelete, &format!("delete {location}")).await;
                    if trouble != Some(Trouble::Fail) {
                        store.inner.delete(&location).await?;
                    }
                    store.port.replied().await;
                    if trouble.is_some() { Err(broken()) } else { Ok(location) }
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listing = async move {
            let what = format!("list {}", prefix.as_ref().map(ToString::to_string).unwrap_or_default());
            let trouble = store.port.request(Point::LogList, &what).await;
            let mut found: Vec<Result<ObjectMeta>> = store.inner.list(prefix.as_ref()).collect().await;
            store.port.replied().await;
            if trouble.is_some() {
                found.truncate(found.len() / 2);
                found.push(Err(broken()));
            }
            stream::iter(found)
        };
        stream::once(listing).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
