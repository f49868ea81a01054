//! The JSON API: searches, documents, status and batches of each pipeline. Knows nothing of how they are found.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::Refusal;
use super::params::Params;
use super::{PipelineView, Site};
use crate::index::SearchQuery;
use crate::report::{self, BatchReport, DocumentReport, HolesReport, SearchReport, StatusReport};

/// Hits, and batches, in an answer that was asked without `limit`.
pub(super) const DEFAULT_HITS: usize = 10;
pub(super) const DEFAULT_BATCHES: usize = 20;

/// `/api/v1/pipelines`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PipelinesReport {
    /// The pipelines that are served here.
    pub pipelines: Vec<PipelineReport>,
}

/// A pipeline in the list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PipelineReport {
    /// Its name.
    pub name: String,
    /// Fresh within its objective.
    pub ready: bool,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// This process runs its loop; false: it only reads.
    pub writes: bool,
}

/// `/api/v1/pipelines/{name}/batches`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BatchesReport {
    /// The last batches, newest first.
    pub batches: Vec<BatchReport>,
}

pub(super) async fn pipelines(
    State(site): State<Arc<Site>>,
    RawQuery(raw): RawQuery,
) -> Result<Json<PipelinesReport>, Refusal> {
    Params::read(raw.as_deref(), &[])?;
    let mut pipelines = Vec::new();
    for view in &site.views {
        let reason = view.ready().err();
        let writes = view.progress().loop_runs_here;
        pipelines.push(PipelineReport { name: view.name().to_owned(), ready: reason.is_none(), reason, writes });
    }
    Ok(Json(PipelinesReport { pipelines }))
}

pub(super) async fn status(
    State(site): State<Arc<Site>>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(raw): RawQuery,
) -> Result<Json<StatusReport>, Refusal> {
    Params::read(raw.as_deref(), &[])?;
    let view = named(&site, &name?.0)?;
    Ok(Json(view.status().await?))
}

pub(super) async fn holes(
    State(site): State<Arc<Site>>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(raw): RawQuery,
) -> Result<Json<HolesReport>, Refusal> {
    Params::read(raw.as_deref(), &[])?;
    let view = named(&site, &name?.0)?;
    Ok(Json(view.holes().await?))
}

pub(super) async fn batches(
    State(site): State<Arc<Site>>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(raw): RawQuery,
) -> Result<Json<BatchesReport>, Refusal> {
    let params = Params::read(raw.as_deref(), &["limit"])?;
    let limit = params.limit(DEFAULT_BATCHES)?;
    let view = named(&site, &name?.0)?;
    Ok(Json(BatchesReport { batches: view.batches(limit).await? }))
}

pub(super) async fn search(
    State(site): State<Arc<Site>>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(raw): RawQuery,
) -> Result<Json<SearchReport>, Refusal> {
    let params = Params::read(raw.as_deref(), &["q", "limit", "offset"])?;
    let query =
        SearchQuery { query: params.query()?.to_owned(), limit: params.limit(DEFAULT_HITS)?, offset: params.offset()? };
    let view = named(&site, &name?.0)?;
    Ok(Json(find(view.as_ref(), &query).await?))
}

pub(super) async fn document(
    State(site): State<Arc<Site>>,
    path: Result<Path<(String, String)>, PathRejection>,
    RawQuery(raw): RawQuery,
) -> Result<Json<DocumentReport>, Refusal> {
    Params::read(raw.as_deref(), &[])?;
    let Path((name, id)) = path?;
    let view = named(&site, &name)?;
    let (found, as_of) = view.searcher().await?.get(&id).await?;
    let Some(stored) = found else {
        return Err(Refusal::not_found(format!("no document has the id {id:?}")).with_as_of(as_of.into()));
    };
    Ok(Json(report::document(stored, as_of)?))
}

/// Searches one pipeline.
pub(super) async fn find(view: &dyn PipelineView, query: &SearchQuery) -> Result<SearchReport, Refusal> {
    Ok(report::found(view.searcher().await?.search(query).await?)?)
}

fn named<'a>(site: &'a Site, name: &str) -> Result<&'a Arc<dyn PipelineView>, Refusal> {
    site.view(name).ok_or_else(|| Refusal::unknown_pipeline(name))
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_path", rejection.body_text())
    }
}
