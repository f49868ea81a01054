//! The HTTP layer below the S3 client: counts each request as it goes out, retries included, and reads listings and
//! refusals before the client does. Knows nothing of files.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use highwater_core::receipt::Requests;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use thiserror::Error;

use super::page::{Page, error_document};

/// Requests so far, by kind.
#[derive(Debug, Default)]
pub(super) struct Counters {
    list: AtomicU64,
    get: AtomicU64,
    head: AtomicU64,
    put: AtomicU64,
}

impl Counters {
    /// One more page or folder walk.
    pub(super) fn list(&self) {
        self.list.fetch_add(1, Ordering::Relaxed);
    }

    /// One more read.
    pub(super) fn get(&self) {
        self.get.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts.
    pub(super) fn read(&self) -> Requests {
        Requests {
            list: self.list.load(Ordering::Relaxed),
            get: self.get.load(Ordering::Relaxed),
            head: self.head.load(Ordering::Relaxed),
            put: self.put.load(Ordering::Relaxed),
        }
    }

    fn count(&self, request: &HttpRequest) {
        let counter = match request.method().as_str() {
            "GET" if is_listing(request) => &self.list,
            "GET" => &self.get,
            "HEAD" => &self.head,
            _ => &self.put,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A store's refusal: a status other than success, and what the error document says.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal {
    /// HTTP status.
    pub(super) status: u16,
    /// S3's error code, or empty.
    pub(super) code: String,
    /// S3's message, or empty.
    pub(super) message: String,
}

/// What the HTTP layer saw last of one request: travels with it as an extension, because the client keeps keys as paths
/// that lose leading, trailing and double slashes, and its errors do not tell S3's code.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    page: Option<Page>,
    refusal: Option<Refusal>,
}

impl Slot {
    /// The page of a listing that succeeded.
    pub(super) fn page(&self) -> Option<Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).page.take()
    }

    /// The refusal that ended the request, if one did.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).refusal.take()
    }

    fn set(&self, seen: Seen) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
}

/// Error codes that are about who asks and not about what is asked for.
const OUR_CREDENTIALS: [&str; 7] = [
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "AccountProblem",
];

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl Refusal {
    /// True if other credentials may be answered otherwise.
    pub(super) fn is_of_credentials(&self) -> bool {
        OUR_CREDENTIALS.contains(&self.code.as_str())
    }
}

/// Makes HTTP clients that count, and that note when a store refuses the credentials.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) counters: Arc<Counters>,
    pub(super) refused: Arc<AtomicBool>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        let (counters, refused) = (Arc::clone(&self.counters), Arc::clone(&self.refused));
        Ok(HttpClient::new(Service { inner, counters, refused }))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    counters: Arc<Counters>,
    refused: Arc<AtomicBool>,
}

#[derive(Debug, Error)]
#[error("{0}")]
struct BadAnswer(String);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.counters.count(&request);
        let slot = request.extensions().get::<Slot>().cloned().unwrap_or_default();
        let asked_with_slot = request.extensions().get::<Slot>().is_some();
        let listing = is_listing(&request);
        let token = query(&request, "continuation-token");
        slot.set(Seen::default());

        let response = self.inner.execute(request).await?;
        let status = response.status();
        if status.is_success() && !listing {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        // A body that breaks off is worth another try; the client itself would not try a listing again.
        let body = body.bytes().await.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
        if !status.is_success() {
            let (code, message) = error_document(&body).unwrap_or_default();
            let refusal = Refusal { status: status.as_u16(), code, message };
            if refusal.is_of_credentials() {
                self.refused.store(true, Ordering::Relaxed);
            }
            // Without the document's identifiers, so that the same refusal reads the same wherever it is told.
            let body = if refusal.code.is_empty() { body.into() } else { format!("{refusal}").into() };
            slot.set(Seen { refusal: Some(refusal), page: None });
            return Ok(HttpResponse::from_parts(head, body));
        }
        let page = Page::parse(&body)
            .map_err(|fault| HttpError::new(HttpErrorKind::Interrupted, BadAnswer(format!("bad listing: {fault}"))))?;
        page.follow(token.as_deref()).map_err(|fault| HttpError::new(HttpErrorKind::Decode, BadAnswer(fault)))?;
        if !asked_with_slot {
            return Ok(HttpResponse::from_parts(head, body.into()));
        }
        slot.set(Seen { page: Some(page), refusal: None });
        Ok(HttpResponse::from_parts(head, "<ListBucketResult></ListBucketResult>".to_owned().into()))
    }
}

fn is_listing(request: &HttpRequest) -> bool {
    request.method().as_str() == "GET" && query(request, "list-type").is_some()
}

fn query(request: &HttpRequest, name: &str) -> Option<String> {
    let text = request.uri().query()?;
    let mut pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
