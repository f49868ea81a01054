//! Scenarios over a real socket, against pipelines that are made up.

mod api;
mod fake;
mod health;
mod hosts;
mod metrics;
mod openapi;
mod page;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;

use super::{Metrics, PipelineView, listen, router};
use fake::{FakeView, FixedClock};

/// A served set of pipelines.
struct Served {
    addr: SocketAddr,
    clock: Arc<FixedClock>,
    metrics: Arc<Metrics>,
    client: reqwest::Client,
    _stop: oneshot::Sender<()>,
}

/// An answer, taken in.
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Status and kind of an error.
    fn refusal(&self) -> (u16, String) {
        let error = &self.json()["error"];
        assert!(!error["message"].as_str().unwrap().is_empty());
        (self.status, error["kind"].as_str().unwrap().to_owned())
    }
}

impl Served {
    async fn new(views: Vec<FakeView>) -> Self {
        let clock = Arc::new(FixedClock::default());
        let metrics = Arc::new(Metrics::new());
        let views = views.into_iter().map(|view| Arc::new(view) as Arc<dyn PipelineView>).collect();
        let router = router(views, clock.clone(), metrics.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        let bound = listen("127.0.0.1:0".parse().unwrap(), router, shutdown).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { addr: bound.addr, clock, metrics, client, _stop: stop }
    }

    async fn ads() -> Self {
        Self::new(vec![FakeView::new("ads")]).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(reqwest::Method::GET, path).await
    }

    async fn send(&self, method: reqwest::Method, path: &str) -> Answer {
        let response = self.client.request(method, format!("http://{}{path}", self.addr)).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }
}
