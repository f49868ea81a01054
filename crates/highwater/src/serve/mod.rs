//! HTTP: the operator's page, the JSON API, metrics and health over pipelines that it only reads. Knows nothing of
//! sources, SQL or the engine; what it shows it asks through [`PipelineView`].

mod answer;
mod api;
mod guard;
mod health;
mod listen;
mod metrics;
mod openapi;
mod page;
mod params;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::middleware;
use axum::routing::{MethodRouter, get};
use highwater_core::Timestamp;
use highwater_core::ports::{Clock, Fault};

pub use answer::{ErrorDetail, ErrorReport};
pub use api::{BatchesReport, PipelineReport, PipelinesReport};
pub use health::{HealthReport, PipelineHealth};
pub use listen::{Bound, ServeError, listen};
pub use metrics::Metrics;

use crate::index::{MAX_QUERY_BYTES, MAX_QUERY_NESTING, SearchError, Searcher};
use crate::report::{BatchReport, HolesReport, StatusReport};

/// The most hits, or batches, in one answer.
pub const MAX_LIMIT: usize = 1_000;
/// The furthest that a search pages; past it `highwater dump` is the way.
pub const MAX_OFFSET: usize = 10_000;
/// One pipeline, as readers see it. Calls may come at any time and together; none changes anything.
#[async_trait]
pub trait PipelineView: Send + Sync {
    /// Its name: a part of paths, and the label `pipeline`.
    fn name(&self) -> &str;
    /// How it stands now. A pipeline without a committed batch has a status too.
    async fn status(&self) -> Result<StatusReport, Fault>;
    /// Its holes: those that are open, and the last that ended.
    async fn holes(&self) -> Result<HolesReport, Fault>;
    /// The last batches, newest first, at most `limit`.
    async fn batches(&self, limit: usize) -> Result<Vec<BatchReport>, Fault>;
    /// The index that readers search now; [`SearchError::Empty`] while there is none.
    async fn searcher(&self) -> Result<Arc<dyn Searcher>, SearchError>;
    /// Whether its loop moves. Answers at once: it reads nothing but memory.
    fn progress(&self) -> Progress;
    /// Fresh within its objective; else the reason. Answers at once.
    fn ready(&self) -> Result<(), String>;
}

/// A sign of life of a pipeline's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The last time that the loop showed that it moves: a tick, or a phase of a long batch. `None`: not yet.
    pub last_tick: Option<Timestamp>,
    /// The longest that two such signs should lie apart.
    pub expected_every: Duration,
    /// False where this process only reads: then there is no loop to watch.
    pub loop_runs_here: bool,
}

/// What every handler sees.
struct Site {
    views: Vec<Arc<dyn PipelineView>>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// When the router was made: a loop without a sign of life is measured from here.
    started: Timestamp,
}

impl Site {
    fn view(&self, name: &str) -> Option<&Arc<dyn PipelineView>> {
        self.views.iter().find(|view| view.name() == name)
    }
}

/// Everything that is served, for pipelines with distinct names. Reading only: nothing here changes state.
pub fn router(views: Vec<Arc<dyn PipelineView>>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Router {
    for view in &views {
        metrics.announce(view.name());
    }
    let started = clock.now();
    let site = Arc::new(Site { views, clock, metrics, started });
    let mut router = Router::new();
    for (path, handler) in routes().into_iter().chain(page::assets()) {
        router = router.route(path, handler);
    }
    router
        .fallback(answer::no_such_path)
        .method_not_allowed_fallback(answer::reading_only)
        .layer(middleware::map_response(guard::secure))
        .with_state(site)
}

/// The documented routes, each of which stands in the OpenAPI document too.
fn routes() -> Vec<(&'static str, MethodRouter<Arc<Site>>)> {
    vec![
        ("/", get(page::show)),
        ("/api/v1/pipelines", get(api::pipelines)),
        ("/api/v1/pipelines/{name}/search", get(api::search)),
        ("/api/v1/pipelines/{name}/documents/{*id}", get(api::document)),
        ("/api/v1/pipelines/{name}/status", get(api::status)),
        ("/api/v1/pipelines/{name}/holes", get(api::holes)),
        ("/api/v1/pipelines/{name}/batches", get(api::batches)),
        ("/api/v1/openapi.json", get(openapi::show)),
        ("/metrics", get(metrics::show)),
        ("/healthz", get(health::alive)),
        ("/readyz", get(health::ready)),
    ]
}
