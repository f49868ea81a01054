//! A store that fails by script: what the network does to a log, on order. Knows nothing of records.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::lease::HEARTBEAT;

/// What happens to one put.
#[derive(Clone, Copy, Debug)]
pub enum OnPut {
    /// Nothing in particular.
    Pass,
    /// It is not done, and no reply ever comes.
    Hang,
    /// It is done, but the reply is lost.
    LoseReply,
    /// It is not done, and the reply is lost.
    TimeOut,
    /// It is not done, and the reply says that the object exists.
    Refuse,
}

/// What happens to one get of a record.
pub enum OnGet {
    /// The connection breaks.
    Break,
    /// The body ends early, without an error.
    Cut,
    /// The body ends early, and its length is said to be just that.
    Short,
    /// Somebody else is faster: this happens first.
    After(BoxFuture<'static, ()>),
}

/// Passes everything on to a store, save what the script says. An exhausted script passes everything on.
pub struct Faulty {
    inner: Arc<dyn ObjectStore>,
    puts: Mutex<VecDeque<OnPut>>,
    gets: Mutex<VecDeque<OnGet>>,
    beats: Mutex<VecDeque<OnGet>>,
    lists_broken: Mutex<u32>,
    careless: bool,
}

impl Faulty {
    /// A store before `inner`.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            puts: Mutex::default(),
            gets: Mutex::default(),
            beats: Mutex::default(),
            lists_broken: Mutex::default(),
            careless: false,
        }
    }

    /// The next puts go like this, in this order.
    pub fn on_puts(self, puts: impl IntoIterator<Item = OnPut>) -> Self {
        self.puts.lock().unwrap_or_else(PoisonError::into_inner).extend(puts);
        self
    }

    /// Every create overwrites what is there.
    pub fn careless(mut self) -> Self {
        self.careless = true;
        self
    }

    /// The next gets below a folder named `log` go like this, in this order.
    pub fn on_gets(self, gets: impl IntoIterator<Item = OnGet>) -> Self {
        self.gets.lock().unwrap_or_else(PoisonError::into_inner).extend(gets);
        self
    }

    /// The next gets of a heartbeat go like this, in this order.
    pub fn on_beats(self, gets: impl IntoIterator<Item = OnGet>) -> Self {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner).extend(gets);
        self
    }

    /// So many listings break after their first object.
    pub fn on_lists(self, broken: u32) -> Self {
        *self.lists_broken.lock().unwrap_or_else(PoisonError::into_inner) = broken;
        self
    }

    fn next_put(&self) -> Option<OnPut> {
        self.puts.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn next_get(&self, location: &Path) -> Option<OnGet> {
        let script = match location.parts().any(|part| part.as_ref() == "log") {
            true => &self.gets,
            false if location.filename() == Some(HEARTBEAT) => &self.beats,
            false => return None,
        };
        script.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The first half of what was found, which claims to be all.
pub(crate) async fn cut(found: GetResult) -> Result<GetResult> {
    let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
    let bytes = found.bytes().await?;
    let half = bytes.slice(..bytes.len() / 2);
    let payload = GetResultPayload::Stream(stream::iter([Ok(half)]).boxed());
    Ok(GetResult { payload, meta, range, attributes })
}

/// A connection that ended before its answer.
pub(crate) fn broken() -> Error {
    Error::Generic { store: "faulty", source: "connection reset".into() }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({:?})", self.inner)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mode = if self.careless { PutMode::Overwrite } else { options.mode.clone() };
        let options = PutOptions { mode, ..options };
        match self.next_put() {
            None | Some(OnPut::Pass) => self.inner.put_opts(location, payload, options).await,
            Some(OnPut::Hang) => std::future::pending().await,
            Some(OnPut::LoseReply) => {
                self.inner.put_opts(location, payload, options).await?;
                Err(broken())
            }
            Some(OnPut::TimeOut) => Err(broken()),
            Some(OnPut::Refuse) => {
                Err(Error::AlreadyExists { path: location.to_string(), source: "competing request".into() })
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.next_get(location) {
            None => {}
            Some(OnGet::Break) => return Err(broken()),
            Some(OnGet::Cut) => return cut(self.inner.get_opts(location, options).await?).await,
            Some(OnGet::Short) => {
                let mut found = cut(self.inner.get_opts(location, options).await?).await?;
                found.meta.size /= 2;
                return Ok(found);
            }
            Some(OnGet::After(event)) => event.await,
        }
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let mut broken_left = self.lists_broken.lock().unwrap_or_else(PoisonError::into_inner);
        if *broken_left == 0 {
            return self.inner.list(prefix);
        }
        *broken_left -= 1;
        self.inner.list(prefix).take(1).chain(stream::iter([Err(broken())])).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
