//! Sends the documents of an NDJSON file to a collection that highwater's configset shapes, as highwater sends them (1,024 a
//! request, four requests at once, through the same update chain), and commits once:
//! `solr-alone DOCUMENTS http://host:port/solr COLLECTION`. Prints the seconds that sending took, and the commit's. Reading
//! the file and making the requests' bodies is not counted.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

use std::error::Error;
use std::time::Instant;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DOCUMENTS_A_REQUEST: usize = 1_024;
const REQUESTS_AT_ONCE: usize = 4;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(documents), Some(solr), Some(collection)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: solr-alone DOCUMENTS URL COLLECTION".into());
    };
    let (count, bodies) = bodies(&std::fs::read_to_string(documents)?)?;
    let (http, update) = (reqwest::Client::new(), format!("{solr}/{collection}/update?wt=json"));
    let begin = Instant::now();
    stream::iter(bodies)
        .map(|body| post(&http, format!("{update}&update.chain=highwater&maxErrors=0"), body))
        .buffered(REQUESTS_AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let sending = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    post(&http, format!("{update}&commit=true"), Bytes::from_static(b"[]")).await?;
    let commit = begin.elapsed().as_secs_f64();
    println!("{}", json!({"documents": count, "seconds": sending, "commit_seconds": commit}));
    Ok(())
}

async fn post(http: &reqwest::Client, url: String, body: Bytes) -> Result<(), Failure> {
    let answer = http.post(url).header("content-type", "application/json").body(body).send().await?;
    let status = answer.status();
    let text = answer.text().await?;
    if status.is_success() { Ok(()) } else { Err(format!("{status}: {text}").into()) }
}

/// The same fields as highwater sends for each document.
fn bodies(documents: &str) -> Result<(usize, Vec<Bytes>), Failure> {
    let lines: Vec<&str> = documents.lines().collect();
    let mut bodies = Vec::new();
    for lines in lines.chunks(DOCUMENTS_A_REQUEST) {
        let mut entries = Vec::with_capacity(lines.len());
        for line in lines {
            let Value::Object(mut entry) = serde_json::from_str(line)? else {
                return Err("a line is no object".into());
            };
            entry.retain(|_, value| !value.is_null());
            let hash = blake3::hash(line.as_bytes()).to_hex();
            entry.insert("_hw_hash_".into(), hash[..32].into());
            entry.insert("_hw_seq_".into(), 1.into());
            entry.insert("_hw_version_".into(), (1 << 20).into());
            entry.insert("_source_".into(), (*line).into());
            entries.push(Value::Object(entry));
        }
        bodies.push(Value::Array(entries).to_string().into());
    }
    Ok((lines.len(), bodies))
}
