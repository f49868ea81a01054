//! HTTP to the nodes of one SolrCloud: which node is asked, who asks, and what an answer that is no success means.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use highwater_core::ports::Fault;
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;
use url::form_urlencoded;

use crate::config::{SolrAuth, SolrConfig};
use crate::index::bulk::{Answer, of_request};

const CONNECT: Duration = Duration::from_secs(5);
/// How long a server may say nothing: a commit that merges, or a collection in the making, takes its time.
const SILENCE: Duration = Duration::from_secs(120);
/// What is asked of collections and configsets without changing any.
const LISTINGS: [&str; 3] = ["LIST", "LISTALIASES", "CLUSTERSTATUS"];
const FORM: &str = "application/x-www-form-urlencoded";
/// The handler that finds tombstones and the stamp too, in highwater's own configset.
pub(super) const EVERYTHING: &str = "/highwater";
/// How much of a message is told.
const LONGEST_REASON: usize = 500;

/// One collection, as this process asks it.
pub(super) struct Client {
    http: reqwest::Client,
    pub(super) config: SolrConfig,
    /// Which node is asked next: it moves on when one is out of reach.
    node: AtomicUsize,
}

/// What is sent.
#[derive(Clone)]
pub(super) struct Ask<'a> {
    method: Method,
    path: String,
    query: &'a [(&'a str, &'a str)],
    body: Option<(&'static str, Bytes)>,
}

impl<'a> Ask<'a> {
    /// Reads a path below `/solr`.
    pub(super) fn get(path: impl Into<String>, query: &'a [(&'a str, &'a str)]) -> Self {
        Self { method: Method::GET, path: path.into(), query, body: None }
    }

    /// Reads with parameters of any length.
    pub(super) fn form(path: impl Into<String>, parameters: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        Self { method: Method::POST, path: path.into(), query: &[], body: Some((FORM, body.into())) }
    }

    /// Sends a body.
    pub(super) fn post(
        path: impl Into<String>,
        query: &'a [(&'a str, &'a str)],
        kind: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self { method: Method::POST, path: path.into(), query, body: Some((kind, body.into())) }
    }

    /// True if nothing changes by it.
    fn only_reads(&self) -> bool {
        match &self.body {
            Some((kind, _)) => *kind == FORM,
            None => self.query.iter().all(|(key, value)| *key != "action" || LISTINGS.contains(value)),
        }
    }
}

/// Why there is no answer to use.
#[derive(Debug)]
pub(super) enum Trouble {
    /// No node answered, or the answer broke off: it may have been done.
    Unreachable(String),
    /// A node answered with another status than success.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        reason: String,
        /// How long it wants to be left alone.
        after: Option<Duration>,
    },
}

impl Client {
    pub(super) fn new(config: &SolrConfig) -> Result<Self, Fault> {
        let http = reqwest::Client::builder().connect_timeout(CONNECT).read_timeout(SILENCE).build();
        let http = http.map_err(|error| Fault::Internal(format!("no HTTP client could be made: {error}")))?;
        Ok(Self { http, config: config.clone(), node: AtomicUsize::new(0) })
    }

    /// The collection's name.
    pub(super) fn collection(&self) -> &str {
        &self.config.collection
    }

    /// The collection and where it is, for messages.
    pub(super) fn place(&self) -> String {
        format!("the collection `{}` at {}", self.collection(), self.base())
    }

    fn base(&self) -> &str {
        let nodes = &self.config.urls;
        &nodes[self.node.load(Ordering::Relaxed) % nodes.len()]
    }

    /// Sends to one node after the other until one takes the connection (what only reads: until one answers), and answers
    /// with a success.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Response, Trouble> {
        let mut reason = String::new();
        for _ in 0..self.config.urls.len() {
            match self.request(&ask).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) => {
                    // The node may be on its way down: the next request goes to another.
                    if answer.status().is_server_error() {
                        self.node.fetch_add(1, Ordering::Relaxed);
                    }
                    let trouble = refused(answer).await;
                    return Err(if self.is_not_yet_there(&ask, &trouble).await { starting() } else { trouble });
                }
                Err(error) => {
                    reason = format!("{}: {}", self.base(), root_cause(&error));
                    self.node.fetch_add(1, Ordering::Relaxed);
                    // Whatever may have arrived is not repeated here: who asks decides.
                    if !error.is_connect() && !ask.only_reads() {
                        break;
                    }
                }
            }
        }
        Err(Trouble::Unreachable(reason))
    }

    /// A node that starts answers "not found" for collections that it has not loaded yet, as if they were deleted: the
    /// cluster knows better. A handler that a configset lacks is no sign of either.
    async fn is_not_yet_there(&self, ask: &Ask<'_>, trouble: &Trouble) -> bool {
        let is_missing = matches!(trouble, Trouble::Refused { status: 404, .. });
        if !is_missing || ask.path.starts_with("/admin/") || ask.path.ends_with(EVERYTHING) {
            return false;
        }
        for (action, within) in [("LIST", "collections"), ("LISTALIASES", "aliases")] {
            let query = [("action", action)];
            let list = Ask::get("/admin/collections", &query);
            let Ok(answer) = self.request(&list).send().await else { return true };
            if answer.status().is_server_error() {
                return true;
            }
            let body = answer.bytes().await.unwrap_or_default();
            let known: Value = serde_json::from_slice(&body).unwrap_or_default();
            let is_listed = match &known[within] {
                Value::Array(names) => names.iter().any(|name| name == self.collection()),
                names => names.get(self.collection()).is_some(),
            };
            if is_listed {
                return true;
            }
        }
        false
    }

    /// Sends and reads the JSON of the answer.
    pub(super) async fn json(&self, ask: Ask<'_>) -> Result<Value, Trouble> {
        let answer = self.send(ask).await?;
        let body = answer.bytes().await.map_err(|error| Trouble::Unreachable(root_cause(&error)))?;
        serde_json::from_slice(&body)
            .map_err(|error| Trouble::Unreachable(format!("{}: an answer that is no JSON: {error}", self.base())))
    }

    /// Reads documents of the collection: parameters, by its handler.
    pub(super) async fn query(&self, handler: &str, parameters: &[(&str, &str)]) -> Result<Value, Trouble> {
        self.json(Ask::form(format!("/{}{handler}", self.collection()), parameters)).await
    }

    fn request(&self, ask: &Ask<'_>) -> RequestBuilder {
        let mut url = format!("{}{}?wt=json", self.base(), ask.path);
        for (key, value) in ask.query {
            url.push('&');
            url.push_str(&form_urlencoded::Serializer::new(String::new()).append_pair(key, value).finish());
        }
        let mut request = self.http.request(ask.method.clone(), url);
        request = match &self.config.auth {
            Some(SolrAuth::Basic { user, password }) => request.basic_auth(user, Some(password.reveal())),
            Some(SolrAuth::Bearer(token)) => request.bearer_auth(token.reveal()),
            None => request,
        };
        match &ask.body {
            Some((kind, body)) => request.header(CONTENT_TYPE, HeaderValue::from_static(kind)).body(body.clone()),
            None => request,
        }
    }

    /// What trouble means to who reads, or sets the collection up.
    pub(super) fn fault(&self, trouble: Trouble) -> Fault {
        match self.answer(trouble) {
            Answer::Fatal(fault) => fault,
            Answer::Later { reason, .. } => Fault::Unavailable(format!("{}: {reason}", self.place())),
            Answer::Whole(reason) => Fault::Internal(format!("{} does not understand: {reason}", self.place())),
            Answer::Each(_) => Fault::Internal(format!("{}: no answer", self.place())),
        }
    }

    /// What trouble means to a delivery.
    pub(super) fn answer(&self, trouble: Trouble) -> Answer {
        let (status, reason, after) = match trouble {
            Trouble::Unreachable(reason) => return Answer::Later { reason, after: None },
            Trouble::Refused { status, reason, after } => (status, reason, after),
        };
        if status == 403 && reason.contains("read-only") {
            let reason = format!("{reason}: it is read-only until MODIFYCOLLECTION takes `readOnly` back");
            return Answer::Later { reason, after };
        }
        of_request(status, &self.place(), &reason, after)
    }
}

fn starting() -> Trouble {
    Trouble::Refused { status: 503, reason: "the node has not loaded the collection yet".to_owned(), after: None }
}

async fn refused(answer: Response) -> Trouble {
    let status = answer.status().as_u16();
    let after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = answer.bytes().await.unwrap_or_default();
    Trouble::Refused { status, reason: reason(&body), after: after.map(Duration::from_secs) }
}

/// The server's own words, out of whatever stands around them.
fn reason(body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let words = [&json["error"]["msg"], &json["exception"]["msg"], &json["error"]["trace"]];
    let text = match words.iter().find_map(|words| words.as_str()) {
        Some(text) => text.to_owned(),
        // A page for people: its text alone.
        None => {
            let mut within = false;
            let mut text = String::new();
            for c in String::from_utf8_lossy(body).chars() {
                match c {
                    '<' => within = true,
                    '>' => within = false,
                    c if !within => text.push(c),
                    _ => {}
                }
            }
            text
        }
    };
    let text: Vec<&str> = text.split_whitespace().collect();
    text.join(" ").chars().take(LONGEST_REASON).collect()
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
