//! Answers that are errors: their shape, kinds and status codes. Knows nothing of what was asked.

use axum::Json;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use highwater_core::ports::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::index::SearchError;
use crate::report::AsOfReport;

/// The body of every error.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// What went wrong.
    pub error: ErrorDetail,
    /// The commit in which a document was looked for and not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOfReport>,
}

/// What went wrong.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// `bad_parameter`, `bad_query`, `bad_path`, `not_found`, `method_not_allowed`, `wrong_host`, `no_batch_yet`,
    /// `unavailable`, `fenced`, `invalid_configuration` or `internal`.
    pub kind: String,
    /// For people.
    pub message: String,
}

/// Why a request gets no answer.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub kind: &'static str,
    pub message: String,
    as_of: Option<AsOfReport>,
}

impl Refusal {
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), as_of: None }
    }

    pub fn bad_parameter(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_parameter", message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub fn unknown_pipeline(name: &str) -> Self {
        Self::not_found(format!("no pipeline is named {name:?}; /api/v1/pipelines lists them"))
    }

    pub fn with_as_of(mut self, as_of: AsOfReport) -> Self {
        self.as_of = Some(as_of);
        self
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let (status, kind) = match &fault {
            Fault::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Fault::Fenced(_) => (StatusCode::SERVICE_UNAVAILABLE, "fenced"),
            Fault::Invalid(_) | Fault::Halted(_) => (StatusCode::INTERNAL_SERVER_ERROR, "invalid_configuration"),
            Fault::Data(_) => (StatusCode::SERVICE_UNAVAILABLE, "data"),
            Fault::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, kind, fault.to_string())
    }
}

impl From<SearchError> for Refusal {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Query(message) => Self::new(StatusCode::BAD_REQUEST, "bad_query", message),
            SearchError::Empty => Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_batch_yet", error.to_string()),
            SearchError::Fault(fault) => fault.into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = ErrorDetail { kind: self.kind.to_owned(), message: self.message };
        let mut response = (self.status, Json(ErrorReport { error, as_of: self.as_of })).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

pub(super) async fn no_such_path(uri: Uri) -> Refusal {
    Refusal::not_found(format!("nothing is served at {}; /api/v1/openapi.json lists what is", uri.path()))
}

pub(super) async fn reading_only(method: Method) -> Response {
    let message = format!("{method} is not served here; only GET and HEAD are");
    let mut response = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
    response
}
