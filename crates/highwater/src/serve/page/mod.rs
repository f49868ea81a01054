//! The operator's page: what stands, what needs a look, a search, the last batches. It works without scripts; its one
//! script only swaps the parts that change. Knows nothing of how they come about.

mod attention;
mod batches;
mod search;
mod standing;
mod words;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use highwater_core::Timestamp;
use highwater_core::ports::Fault;
use maud::{DOCTYPE, Markup, html};

use super::answer::Refusal;
use super::params::Params;
use super::{PipelineView, Site};
use crate::report::{BatchReport, StatusReport};

/// Batches in the table, and in the bars.
const BATCHES: usize = 20;
/// Seconds between two looks at what changed.
const REFRESH_S: u32 = 5;

/// Everything about one pipeline that the page shows, read once.
struct Facts {
    status: Result<StatusReport, Fault>,
    batches: Result<Vec<BatchReport>, Fault>,
    ready: Result<(), String>,
    loop_runs_here: bool,
    now: Timestamp,
}

impl Facts {
    async fn read(view: &dyn PipelineView, now: Timestamp) -> Self {
        Self {
            status: view.status().await,
            batches: view.batches(BATCHES).await,
            ready: view.ready(),
            loop_runs_here: view.progress().loop_runs_here,
            now,
        }
    }
}

pub(super) async fn show(State(site): State<Arc<Site>>, RawQuery(raw): RawQuery) -> Response {
    match page(&site, raw.as_deref()).await {
        Ok((status, page)) => (status, page).into_response(),
        Err(refusal) => (refusal.status, refused(&refusal)).into_response(),
    }
}

async fn page(site: &Site, raw: Option<&str>) -> Result<(StatusCode, Markup), Refusal> {
    let params = Params::read(raw, &["pipeline", "q", "offset"])?;
    let now = site.clock.now();
    let chosen = match (params.text("pipeline"), site.views.as_slice()) {
        (Some(name), _) => site.view(name).ok_or_else(|| Refusal::unknown_pipeline(name))?,
        (None, [only]) => only,
        (None, _) => return Ok((StatusCode::OK, overview(site, now).await)),
    };
    let asked = search::Asked::read(&params)?;
    let answer = asked.answer(chosen.as_ref()).await;
    let status =
        answer.as_ref().and_then(|answer| answer.as_ref().err()).map_or(StatusCode::OK, |refusal| refusal.status);
    let facts = Facts::read(chosen.as_ref(), now).await;
    let name = chosen.name();
    let body = html! {
        (standing::headline(name, &facts))
        (attention::section(&facts))
        (search::section(name, &asked, answer.as_ref(), &facts))
        (batches::section(&facts))
        (standing::sources(&facts))
    };
    // A page that holds an answer must not be drawn anew under the reader.
    let refresh = params.text("q").is_none();
    Ok((status, shell(name, &nav(site, Some(name)), &page_of(name), refresh, &body)))
}

async fn overview(site: &Site, now: Timestamp) -> Markup {
    let mut parts = Vec::new();
    for view in &site.views {
        let facts = Facts::read(view.as_ref(), now).await;
        parts.push(html! { (standing::summary(view.name(), &facts, &page_of(view.name()))) });
    }
    let body = html! {
        h1 { "Pipelines" }
        @if parts.is_empty() { p.quiet { "No pipeline is served here." } }
        @for part in &parts { (part) }
    };
    shell("pipelines", &nav(site, None), "/", true, &body)
}

fn refused(refusal: &Refusal) -> Markup {
    let body = html! {
        h1 { (refusal.status.canonical_reason().unwrap_or("Error")) }
        p.problem role="alert" { (refusal.message) }
        p { a href="/" { "Back to the page" } }
    };
    shell("highwater", &html! {}, "/", false, &body)
}

/// `live` is where the script looks for what changed: the same page without a search.
fn shell(title: &str, nav: &Markup, live: &str, refresh: bool, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · highwater" }
                link rel="icon" href="/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/style.css";
                script src="/live.js" defer {}
                @if refresh {
                    noscript { meta http-equiv="refresh" content=(REFRESH_S); }
                }
            }
            body data-live=(live) data-every-s=(REFRESH_S) {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" { "highwater" }
                    (nav)
                }
                main #main { (body) }
                footer {
                    p #connection role="status" {}
                    p {
                        "Times are UTC. "
                        a href="/api/v1/openapi.json" { "API" } " · "
                        a href="/metrics" { "Metrics" } " · "
                        a href="/healthz" { "Health" } " · "
                        a href="/readyz" { "Readiness" }
                    }
                }
            }
        }
    }
}

fn nav(site: &Site, current: Option<&str>) -> Markup {
    if site.views.len() < 2 {
        return html! {};
    }
    html! {
        nav aria-label="Pipelines" {
            ul {
                @for view in &site.views {
                    @let here = current == Some(view.name());
                    li { a href=(page_of(view.name())) aria-current=[here.then_some("page")] { (view.name()) } }
                }
            }
        }
    }
}

/// The page of one pipeline.
fn page_of(name: &str) -> String {
    format!("/?{}", url::form_urlencoded::Serializer::new(String::new()).append_pair("pipeline", name).finish())
}

/// The files of the binary that the page asks for.
pub(super) fn assets() -> Vec<(&'static str, MethodRouter<Arc<Site>>)> {
    vec![
        ("/style.css", get(|| asset("text/css; charset=utf-8", include_str!("style.css")))),
        ("/live.js", get(|| asset("text/javascript; charset=utf-8", include_str!("live.js")))),
        ("/icon.svg", get(|| asset("image/svg+xml", include_str!("icon.svg")))),
    ]
}

async fn asset(media: &'static str, text: &'static str) -> Response {
    let media = HeaderValue::from_static(media);
    // Asked for again after an upgrade of the binary at the latest a minute later.
    let cached = HeaderValue::from_static("max-age=60");
    ([(header::CONTENT_TYPE, media), (header::CACHE_CONTROL, cached)], text).into_response()
}
