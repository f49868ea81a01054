//! Every live document's pair, ascending by the bytes of the id over all shards. Each shard is asked by itself and merged
//! here: Solr's own merge compares ids as UTF-16, and its `/export` of a collection answers for one shard alone.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use highwater_core::Sequence;
use highwater_core::ports::Fault;
use serde::Deserialize;

use super::client::{Ask, Client};
use super::convert::unhex;
use super::fields::LIVE;
use crate::index::Pair;

const PAIRS_A_BLOCK: usize = 1_000;

type Blocks = BoxStream<'static, Result<Vec<Pair>, Fault>>;

/// Pairs of the collection as it is when the stream is first asked.
pub(super) fn pairs(client: Arc<Client>) -> Blocks {
    // An export that nobody reads is closed by the server after a while, so that it begins with its reader.
    let start = stream::once(async move {
        let mut shards = Vec::new();
        for core in cores(&client).await? {
            shards.push(Shard { blocks: of_core(Arc::clone(&client), core), block: VecDeque::new() });
        }
        Ok(merge(shards))
    });
    start
        .flat_map(|merged: Result<Blocks, Fault>| match merged {
            Ok(blocks) => blocks,
            Err(fault) => stream::iter([Err(fault)]).boxed(),
        })
        .boxed()
}

/// A replica of each shard that answers.
async fn cores(client: &Client) -> Result<Vec<String>, Fault> {
    let query = [("action", "CLUSTERSTATUS"), ("collection", client.collection())];
    let status = client.json(Ask::get("/admin/collections", &query)).await.map_err(|trouble| client.fault(trouble))?;
    let live: Vec<&str> =
        status["cluster"]["live_nodes"].as_array().into_iter().flatten().filter_map(|node| node.as_str()).collect();
    let mut cores = Vec::new();
    for collection in status["cluster"]["collections"].as_object().into_iter().flat_map(|all| all.values()) {
        for (name, shard) in collection["shards"].as_object().into_iter().flatten() {
            if shard["state"] != "active" {
                continue;
            }
            let replicas = shard["replicas"].as_object().into_iter().flat_map(|all| all.values());
            let serving = replicas.filter(|replica| {
                replica["state"] == "active" && replica["node_name"].as_str().is_some_and(|node| live.contains(&node))
            });
            // The leader has what every other replica has.
            let best = serving.max_by_key(|replica| replica["leader"] == "true");
            let Some(core) = best.and_then(|replica| replica["core"].as_str()) else {
                return Err(Fault::Unavailable(format!("no replica of {name} of {} serves", client.place())));
            };
            cores.push(core.to_owned());
        }
    }
    if cores.is_empty() {
        return Err(Fault::Unavailable(format!("{} has no shard that serves", client.place())));
    }
    Ok(cores)
}

/// What one shard still has to give.
struct Shard {
    blocks: Blocks,
    block: VecDeque<Pair>,
}

impl Shard {
    /// False at its end.
    async fn fill(&mut self) -> Result<bool, Fault> {
        while self.block.is_empty() {
            match self.blocks.next().await {
                None => return Ok(false),
                Some(block) => self.block.extend(block?),
            }
        }
        Ok(true)
    }
}

fn merge(shards: Vec<Shard>) -> Blocks {
    stream::try_unfold(shards, |mut shards| async move {
        let mut block = Vec::with_capacity(PAIRS_A_BLOCK);
        while block.len() < PAIRS_A_BLOCK {
            let mut left = Vec::with_capacity(shards.len());
            for mut shard in shards {
                if shard.fill().await? {
                    left.push(shard);
                }
            }
            shards = left;
            let least = shards.iter_mut().min_by(|a, b| first(a).cmp(first(b)));
            let Some(pair) = least.and_then(|shard| shard.block.pop_front()) else { break };
            block.push(pair);
        }
        Ok((!block.is_empty()).then_some((block, shards)))
    })
    .boxed()
}

fn first(shard: &Shard) -> &[u8] {
    shard.block.front().map_or(&[], |pair| pair.id.as_bytes())
}

fn of_core(client: Arc<Client>, core: String) -> Blocks {
    let start = stream::once(async move {
        let parameters = [
            ("q", "*:*"),
            ("fq", LIVE),
            ("sort", "id asc"),
            ("fl", "id,_hw_hash_,_hw_seq_"),
            ("distrib", "false"),
            ("indent", "off"),
        ];
        let asked = client.send(Ask::form(format!("/{core}/export"), &parameters)).await;
        let answer = asked.map_err(|trouble| client.fault(trouble))?;
        let place = client.place();
        let broken = move |error: reqwest::Error| Fault::Unavailable(format!("{place}: an export broke off: {error}"));
        let bytes = answer.bytes_stream().map(move |chunk| chunk.map_err(&broken)).boxed();
        Ok(tuples(bytes, client.place()))
    });
    start
        .flat_map(|blocks: Result<Blocks, Fault>| match blocks {
            Ok(blocks) => blocks,
            Err(fault) => stream::iter([Err(fault)]).boxed(),
        })
        .boxed()
}

/// Reads the answer of an export as it comes.
fn tuples(bytes: BoxStream<'static, Result<Bytes, Fault>>, place: String) -> Blocks {
    stream::try_unfold(Some((bytes, Scanner::default(), place)), |state| async move {
        let Some((mut bytes, mut scanner, place)) = state else { return Ok(None) };
        while let Some(chunk) = bytes.next().await {
            let block = scanner.read(&chunk?).map_err(|why| broken(&place, &why))?;
            if !block.is_empty() {
                return Ok(Some((block, Some((bytes, scanner, place)))));
            }
        }
        scanner.end().map_err(|why| broken(&place, &why))?;
        Ok::<_, Fault>(None)
    })
    .boxed()
}

fn broken(place: &str, why: &str) -> Fault {
    Fault::Unavailable(format!("{place}: an export is not whole: {why}"))
}

/// One document of an export.
#[derive(Deserialize)]
struct Tuple {
    id: Option<String>,
    #[serde(rename = "_hw_hash_")]
    hash: Option<String>,
    #[serde(rename = "_hw_seq_")]
    sequence: Option<u64>,
    #[serde(rename = "EXCEPTION")]
    exception: Option<String>,
}

/// Cuts the answer into its documents: `{… "numFound":N, "docs":[ {…}, {…} ]}}`.
#[derive(Default)]
pub(super) struct Scanner {
    /// What was read of the head, or of a document.
    pending: Vec<u8>,
    within_documents: bool,
    ended: bool,
    expected: Option<u64>,
    seen: u64,
    depth: u32,
    within_string: bool,
    escaped: bool,
}

impl Scanner {
    pub(super) fn read(&mut self, chunk: &[u8]) -> Result<Vec<Pair>, String> {
        let mut pairs = Vec::new();
        for byte in chunk {
            if self.ended {
                break;
            }
            if !self.within_documents {
                self.pending.push(*byte);
                if *byte == b'[' && self.pending.ends_with(b"\"docs\":[") {
                    self.head()?;
                }
            } else if self.advance(*byte) {
                pairs.push(self.document()?);
            }
        }
        Ok(pairs)
    }

    /// How many documents there will be.
    fn head(&mut self) -> Result<(), String> {
        let head = String::from_utf8_lossy(&self.pending);
        let digits = head.rsplit_once("\"numFound\":").map(|(_, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits
        });
        self.expected = digits.and_then(|digits| digits.parse().ok());
        self.pending.clear();
        self.within_documents = true;
        Ok(())
    }

    /// True at the end of a document.
    fn advance(&mut self, byte: u8) -> bool {
        if self.depth > 0 {
            self.pending.push(byte);
        }
        if self.within_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.within_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.within_string = true,
            b'{' => {
                if self.depth == 0 {
                    self.pending.push(byte);
                }
                self.depth += 1;
            }
            b'}' if self.depth > 0 => {
                self.depth -= 1;
                return self.depth == 0;
            }
            b']' if self.depth == 0 => self.ended = true,
            _ => {}
        }
        false
    }

    fn document(&mut self) -> Result<Pair, String> {
        let tuple: Tuple = serde_json::from_slice(&self.pending).map_err(|error| error.to_string())?;
        self.pending.clear();
        if let Some(exception) = tuple.exception {
            return Err(exception);
        }
        self.seen += 1;
        let id = tuple.id.ok_or("a document without an id")?.into_boxed_str();
        let sequence = Sequence(tuple.sequence.unwrap_or_default());
        Ok(Pair { id, hash: unhex(tuple.hash.as_deref()), sequence })
    }

    /// An answer that stops early is no answer, though its status was 200.
    pub(super) fn end(&self) -> Result<(), String> {
        if !self.ended {
            let head = String::from_utf8_lossy(&self.pending);
            return Err(format!(
                "it broke off after {} documents: {}",
                self.seen,
                head.chars().take(200).collect::<String>()
            ));
        }
        match self.expected {
            Some(expected) if expected != self.seen => Err(format!("{} documents of {expected}", self.seen)),
            None => Err("it does not tell how many documents there are".to_owned()),
            Some(_) => Ok(()),
        }
    }
}
