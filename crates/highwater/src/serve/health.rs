//! Health: whether the loops move, and whether the indexes are fresh. Reads memory only, so that it answers at once
//! while a store is out of reach.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use highwater_core::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Progress, Site};

/// `/healthz` and `/readyz`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthReport {
    /// Every pipeline is well.
    pub ok: bool,
    /// Each pipeline.
    pub pipelines: Vec<PipelineHealth>,
}

/// One pipeline's health.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PipelineHealth {
    /// Its name.
    pub name: String,
    /// It is well.
    pub ok: bool,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

pub(super) async fn alive(State(site): State<Arc<Site>>) -> Response {
    let now = site.clock.now();
    let mut pipelines = Vec::new();
    for view in &site.views {
        pipelines.push(health(view.name(), moves(&view.progress(), site.started, now)));
    }
    answer(pipelines)
}

pub(super) async fn ready(State(site): State<Arc<Site>>) -> Response {
    let mut pipelines = Vec::new();
    for view in &site.views {
        pipelines.push(health(view.name(), view.ready()));
    }
    answer(pipelines)
}

fn health(name: &str, state: Result<(), String>) -> PipelineHealth {
    PipelineHealth { name: name.to_owned(), ok: state.is_ok(), reason: state.err() }
}

fn answer(pipelines: Vec<PipelineHealth>) -> Response {
    let ok = pipelines.iter().all(|pipeline| pipeline.ok);
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(HealthReport { ok, pipelines })).into_response()
}

/// A loop stands still when it is silent three times as long as it should be: one slow tick is no reason to restart.
fn moves(progress: &Progress, started: Timestamp, now: Timestamp) -> Result<(), String> {
    if !progress.loop_runs_here {
        return Ok(());
    }
    let since = progress.last_tick.unwrap_or(started).max(started);
    // A clock that was set back tells nothing about the loop.
    let silent = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    if silent <= progress.expected_every * 3 {
        return Ok(());
    }
    let (silent, every) = (silent.as_secs(), progress.expected_every.as_secs_f64());
    Err(format!("the loop gave no sign of life for {silent} s; one is expected every {every} s"))
}
