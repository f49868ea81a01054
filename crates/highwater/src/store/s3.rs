//! A prefix of an S3 bucket: listed page by page with exact keys, fetched by version. Knows nothing of what is in the
//! objects.
//!
//! Signing, credentials and retries are object_store's. Keys are not: its paths drop slashes, so listings are read by the
//! HTTP layer below it. A key that its paths cannot hold is listed as any other and fails by name when it is fetched.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use highwater_core::file::is_hidden;
use highwater_core::ports::{Clock, Fault, root_cause};
use highwater_core::{FileVersion, SeenFile, Timestamp};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, GetOptions, GetRange, ObjectStore, RetryConfig};

use super::credentials::{CREDENTIALS, Renewing};
use super::http::{Connector, Counters, Refusal, Slot};
use super::page::{Object, Page};
use super::{Content, FetchError, MEMORY_BYTES, Skipped, Spool, StoreError};
use crate::config::StoreConfig;

/// More pages than any prefix that is listed as a whole can sensibly have (100 million keys).
const MAX_PAGES: u32 = 100_000;
/// Ranges of one object in flight.
const RANGES: usize = 4;
/// Before the time of an object whose store sends no entity tag; no entity tag begins so.
const BY_TIME: &str = "modified@";
/// How long a connection may take, and one request with its body where the configuration says nothing: without bounds a
/// server that accepts and never answers would hold a pipeline for ever.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How hard to try.
#[derive(Clone, Debug)]
pub(super) struct Tuning {
    /// Retries of one request.
    pub(super) retry: RetryConfig,
    /// How often an object is asked for anew when its body breaks off.
    pub(super) attempts: u32,
    /// Pause before asking anew.
    pub(super) pause: Duration,
    /// Objects above it are fetched in ranges of it.
    pub(super) range_bytes: u64,
    /// Objects above it are spooled to disk.
    pub(super) memory_bytes: u64,
}

/// Retries of one request, after pauses that grow.
fn retry(times: usize) -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(2), base: 2.0 };
    RetryConfig { backoff, max_retries: times, retry_timeout: Duration::from_secs(10) }
}

/// Retries of the log's requests: few, since the log repeats by itself what may pass.
pub(super) fn log_retry() -> RetryConfig {
    retry(3)
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            retry: retry(10),
            attempts: 3,
            pause: Duration::from_millis(250),
            range_bytes: 8 << 20,
            memory_bytes: MEMORY_BYTES,
        }
    }
}

/// A client for `bucket` by the AWS environment variables and, before them, by the configuration.
pub(super) fn builder(bucket: &str, config: &StoreConfig) -> Result<AmazonS3Builder, StoreError> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    if let Some(region) = &config.region {
        builder = builder.with_region(region);
    }
    if let Some(allow_http) = config.allow_http {
        builder = builder.with_allow_http(allow_http);
    }
    if let Some(style) = config.virtual_hosted_style {
        builder = builder.with_virtual_hosted_style_request(style);
    }
    let timeout = config.timeout.unwrap_or(REQUEST_TIMEOUT);
    for (key, length) in
        [(ClientConfigKey::Timeout, timeout), (ClientConfigKey::ConnectTimeout, timeout.min(CONNECT_TIMEOUT))]
    {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), format!("{}ms", length.as_millis()));
    }
    let Some(endpoint) = endpoint(&builder) else { return Ok(builder) };
    let url = url::Url::parse(&endpoint)
        .map_err(|error| StoreError::Invalid(format!("endpoint `{endpoint}` of s3://{bucket} is no URL: {error}")))?;
    let allowed = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    match url.scheme() {
        "https" => Ok(builder),
        "http" if allowed.as_deref() == Some("true") => Ok(builder),
        "http" => Err(StoreError::Invalid(format!(
            "endpoint {endpoint} of s3://{bucket} is plain HTTP: set allow_http = true in [store.\"s3://{bucket}\"]"
        ))),
        other => Err(StoreError::Invalid(format!(
            "endpoint {endpoint} of s3://{bucket} is neither http nor https but {other}"
        ))),
    }
}

fn endpoint(builder: &AmazonS3Builder) -> Option<String> {
    let of_s3 = builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint);
    of_s3.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
}

/// Finishes a client: its requests are counted, its retries bounded, its credentials renewed when a store refuses them.
pub(super) fn build(
    builder: AmazonS3Builder,
    bucket: &str,
    counters: Arc<Counters>,
    retry: RetryConfig,
) -> Result<AmazonS3, StoreError> {
    let refused = Arc::default();
    let builder = builder.with_retry(retry);
    let built = Renewing::new(builder.clone(), Arc::clone(&refused)).and_then(|credentials| {
        let connector = Connector { counters, refused };
        builder.with_http_connector(connector).with_credentials(Arc::new(credentials)).build()
    });
    built.map_err(|error| StoreError::Invalid(format!("s3://{bucket} cannot be opened: {}", root_cause(&error))))
}

/// One bucket.
pub(super) struct Bucket {
    name: String,
    endpoint: String,
    store: AmazonS3,
    clock: Arc<dyn Clock>,
    tuning: Tuning,
}

impl Bucket {
    pub(super) fn new(
        name: &str,
        builder: AmazonS3Builder,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
        tuning: Tuning,
    ) -> Result<Self, StoreError> {
        let endpoint = endpoint(&builder).unwrap_or_else(|| "AWS".to_owned());
        let store = build(builder, name, counters, tuning.retry.clone())?;
        Ok(Self { name: name.to_owned(), endpoint, store, clock, tuning })
    }

    /// Says what is wrong with a request of ours, as `Unavailable`: rights and buckets can come back by themselves.
    fn explain(&self, prefix: &str, refusal: Option<&Refusal>, error: &object_store::Error) -> String {
        let (bucket, endpoint) = (&self.name, &self.endpoint);
        let Some(Refusal { status, code, message }) = refusal else {
            if let object_store::Error::Generic { store: CREDENTIALS, source } = error {
                return format!(
                    "no credentials for s3://{bucket}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or mend the \
                     source that the environment names ({source})"
                );
            }
            return format!("no usable answer from {endpoint} for s3://{bucket}/{prefix}: {}", root_cause(error));
        };
        match (*status, code.as_str()) {
            (_, "NoSuchBucket") | (404, _) => format!("bucket `{bucket}` does not exist at {endpoint}"),
            (301 | 307, _) | (_, "AuthorizationHeaderMalformed" | "PermanentRedirect") => {
                format!("s3://{bucket} is in another region ({code}: {message}): set `region`")
            }
            (401 | 403, _) => {
                format!("access to s3://{bucket}/{prefix} is denied by {endpoint} ({status} {code}: {message})")
            }
            _ => format!("{endpoint} refuses s3://{bucket}/{prefix} ({status} {code}: {message})"),
        }
    }
}

/// A prefix of a bucket that a source's objects are in.
pub(super) struct Prefix {
    /// The bucket, shared by its prefixes.
    pub(super) bucket: Arc<Bucket>,
    /// `""`, or a key prefix ending in a slash.
    base: String,
    skipped: Skipped,
}

impl Prefix {
    pub(super) fn new(bucket: Arc<Bucket>, prefix: &str, skipped: Skipped) -> Self {
        let prefix = prefix.trim_matches('/');
        let base = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Self { bucket, base, skipped }
    }

    /// Every object below `prefix`, zero-byte ones too; directory markers are left out.
    pub(super) async fn files(&self, prefix: &str) -> Result<Vec<SeenFile>, Fault> {
        self.skipped.clear(prefix);
        let full = format!("{}{prefix}", self.base);
        let mut found = BTreeMap::new();
        let mut pages = Pages::new(&self.bucket, &full, false);
        while let Some(page) = pages.next().await? {
            for object in page.objects {
                let path = self.below(&full, &object.key)?;
                if path.is_empty() || is_hidden(path) || (path.ends_with('/') && object.size == 0) {
                    continue;
                }
                let path: Arc<str> = path.into();
                found.insert(Arc::clone(&path), seen(path, &object));
            }
        }
        Ok(found.into_values().collect())
    }

    /// The folders directly below `prefix`.
    pub(super) async fn folders(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        let full = format!("{}{prefix}", self.base);
        let mut names = Vec::new();
        if is_hidden(prefix) {
            return Ok(names);
        }
        let mut pages = Pages::new(&self.bucket, &full, true);
        while let Some(page) = pages.next().await? {
            for folder in page.folders {
                let name = self.below(&full, &folder)?[prefix.len()..].trim_end_matches('/').to_owned();
                if name.is_empty() {
                    self.skipped.add(format!("{prefix}/"), "a folder without a name");
                } else if !is_hidden(&name) {
                    names.push(name);
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// The part of a listed key below the location.
    fn below<'a>(&self, asked: &str, key: &'a str) -> Result<&'a str, Fault> {
        let bucket = &self.bucket.name;
        match key.strip_prefix(asked) {
            Some(_) => Ok(&key[self.base.len()..]),
            None => Err(Fault::Unavailable(format!("s3://{bucket}: asked for keys below `{asked}`, got `{key}`"))),
        }
    }

    /// Whether the prefix can be listed.
    pub(super) async fn reach(&self) -> Result<(), StoreError> {
        let mut pages = Pages { max_keys: Some(1), ..Pages::new(&self.bucket, &self.base, false) };
        pages.next().await.map(drop).map_err(|fault| StoreError::Unavailable(fault.to_string()))
    }

    /// The bytes of exactly this version.
    pub(super) async fn fetch(&self, version: &FileVersion) -> Result<Content, FetchError> {
        let key = format!("{}{}", self.base, version.path);
        let path = Path::parse(&key).ok().filter(|path| path.as_ref() == key).ok_or_else(|| {
            FetchError::Unreadable(format!(
                "key `{key}` has an empty, `.` or `..` part, or a control character: rename it"
            ))
        })?;
        let mut attempt = 1;
        loop {
            match self.bucket.fetch(&path, version).await {
                Err(Trouble::Broken(why)) if attempt == self.bucket.tuning.attempts => {
                    return Err(FetchError::Unavailable(format!("s3://{}/{key}: {why}", self.bucket.name)));
                }
                Err(Trouble::Broken(_)) => {
                    self.bucket.clock.sleep(self.bucket.tuning.pause * attempt).await;
                    attempt += 1;
                }
                Err(Trouble::Final(error)) => return Err(error),
                Ok(content) => return Ok(content),
            }
        }
    }
}

/// Why one try at an object failed.
enum Trouble {
    /// It may work the next time.
    Broken(String),
    /// It will not.
    Final(FetchError),
}

impl Bucket {
    async fn fetch(&self, path: &Path, version: &FileVersion) -> Result<Content, Trouble> {
        let size = version.size;
        if size <= self.tuning.range_bytes {
            return Ok(Content::Bytes(self.get(path, version, None).await?));
        }
        let step = self.tuning.range_bytes;
        let ranges = (0..size.div_ceil(step)).map(|n| n * step..((n + 1) * step).min(size));
        let mut pieces =
            futures::stream::iter(ranges).map(|range| self.get(path, version, Some(range))).buffered(RANGES);
        if size <= self.tuning.memory_bytes {
            let mut whole = BytesMut::with_capacity(usize::try_from(size).unwrap_or(0));
            while let Some(piece) = pieces.next().await {
                whole.extend_from_slice(&piece?);
            }
            return Ok(Content::Bytes(whole.freeze()));
        }
        let mut spool = Spool::open().await.map_err(Trouble::Final)?;
        while let Some(piece) = pieces.next().await {
            spool = spool.append(piece?).await.map_err(Trouble::Final)?;
        }
        spool.finish().await.map_err(Trouble::Final)
    }

    /// One request for an object or a range of it, checked against the version.
    async fn get(&self, path: &Path, version: &FileVersion, range: Option<Range<u64>>) -> Result<Bytes, Trouble> {
        let slot = Slot::default();
        let expected = range.as_ref().map_or(version.size, |range| range.end - range.start);
        let mut options =
            GetOptions { if_match: if_match(version), range: range.map(GetRange::Bounded), ..GetOptions::default() };
        options.extensions.insert(slot.clone());
        let result = match self.store.get_opts(path, options).await {
            Ok(result) => result,
            Err(error) => return Err(self.trouble(path, slot.refusal().as_ref(), &error)),
        };
        let moved = |why: &str| Trouble::Final(FetchError::Moved(format!("{path} {why} since it was listed")));
        let modified = Some(result.meta.last_modified.timestamp()).filter(|seconds| *seconds != 0);
        // Some servers ignore If-Match.
        if !is_version(version, result.meta.e_tag.as_deref(), modified) {
            return Err(moved("was replaced"));
        }
        if result.meta.size != version.size {
            let sizes = format!("{} bytes instead of {}", result.meta.size, version.size);
            return Err(match result.meta.e_tag {
                Some(_) => Trouble::Broken(format!("the answer has the listed entity tag but {sizes}")),
                None => moved(&format!("has {sizes}")),
            });
        }
        let bytes = result.bytes().await.map_err(|error| Trouble::Broken(root_cause(&error)))?;
        if bytes.len() as u64 != expected {
            return Err(Trouble::Broken(format!("the body has {} bytes instead of {expected}", bytes.len())));
        }
        Ok(bytes)
    }

    fn trouble(&self, path: &Path, refusal: Option<&Refusal>, error: &object_store::Error) -> Trouble {
        let explained = || self.explain(path.as_ref(), refusal, error);
        let Some(Refusal { status, code, .. }) = refusal else { return Trouble::Broken(explained()) };
        Trouble::Final(match (*status, code.as_str()) {
            (_, "NoSuchBucket") => FetchError::Unavailable(explained()),
            (404, _) => FetchError::Moved(format!("{path} is gone since it was listed")),
            (412 | 416, _) => FetchError::Moved(format!("{path} was replaced since it was listed")),
            (403, _) if refusal.is_some_and(Refusal::is_of_credentials) => FetchError::Unavailable(explained()),
            (403, _) => FetchError::Unreadable(explained()),
            _ => FetchError::Unavailable(explained()),
        })
    }
}

/// The pages of one listing.
struct Pages<'a> {
    bucket: &'a Bucket,
    prefix: &'a str,
    delimiter: bool,
    max_keys: Option<usize>,
    token: Option<String>,
    used: HashSet<String>,
    count: u32,
    done: bool,
}

impl<'a> Pages<'a> {
    fn new(bucket: &'a Bucket, prefix: &'a str, delimiter: bool) -> Self {
        Self { bucket, prefix, delimiter, max_keys: None, token: None, used: HashSet::new(), count: 0, done: false }
    }

    async fn next(&mut self) -> Result<Option<Page>, Fault> {
        if self.done {
            return Ok(None);
        }
        let (bucket, prefix) = (self.bucket, self.prefix);
        let endless = |why: &str| Fault::Unavailable(format!("s3://{}/{prefix} cannot be listed: {why}", bucket.name));
        if self.count == MAX_PAGES {
            return Err(endless("it has no end"));
        }
        self.count += 1;
        let slot = Slot::default();
        let mut options = PaginatedListOptions {
            delimiter: self.delimiter.then_some("/".into()),
            max_keys: self.max_keys,
            page_token: self.token.clone(),
            ..PaginatedListOptions::default()
        };
        options.extensions.insert(slot.clone());
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        if let Err(error) = bucket.store.list_paginated(prefix, options).await {
            return Err(Fault::Unavailable(bucket.explain(self.prefix, slot.refusal().as_ref(), &error)));
        }
        let page = slot.page().ok_or_else(|| Fault::Internal("a listing succeeded without a page".to_owned()))?;
        match page.follow(self.token.as_deref()).map_err(|why| endless(&why))? {
            None => self.done = true,
            Some(token) if !self.used.insert(token.to_owned()) => {
                return Err(endless(&format!("the server answers continuation token `{token}` twice")));
            }
            Some(token) => self.token = Some(token.to_owned()),
        }
        Ok(Some(page))
    }
}

fn seen(path: Arc<str>, object: &Object) -> SeenFile {
    let modified = object.modified.as_deref().and_then(|text| text.trim().parse::<Timestamp>().ok());
    let etag = match object.etag.as_deref().filter(|etag| !etag.trim_matches('"').is_empty()) {
        Some(etag) => unquoted(etag).into(),
        // Its whole seconds and the size are then all that tells two versions apart.
        None => format!("{BY_TIME}{}", modified.map_or(0, Timestamp::as_second)).into(),
    };
    SeenFile { version: FileVersion { path, size: object.size, etag }, modified }
}

/// An entity tag without the quotes of a strong one; servers disagree on whether a listing has them.
fn unquoted(etag: &str) -> &str {
    etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap_or(etag)
}

/// The If-Match of a version; weak tags never match by it.
fn if_match(version: &FileVersion) -> Option<String> {
    let etag = &version.etag;
    let strong = !etag.starts_with("W/") && !etag.starts_with(BY_TIME);
    strong.then(|| format!("\"{etag}\""))
}

/// Whether an answer with this entity tag and time (seconds) can be this version. A header that is not sent says nothing.
fn is_version(version: &FileVersion, etag: Option<&str>, modified: Option<i64>) -> bool {
    match version.etag.strip_prefix(BY_TIME) {
        Some(listed) => modified.is_none_or(|modified| listed == modified.to_string()),
        None => etag.is_none_or(|etag| {
            let strength = |etag: &str| unquoted(etag.trim_start_matches("W/")).to_owned();
            strength(etag) == strength(&version.etag)
        }),
    }
}

#[cfg(test)]
mod tests;
