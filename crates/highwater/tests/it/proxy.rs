//! An HTTP/1.1 proxy in front of an S3 server, or a node of Solr, that treats requests as networks and servers do: by rules,
//! or at random from a seed. Knows of S3 and Solr only what kind of request one is.
//!
//! The Host header passes unchanged, so that signatures stay right; a client's endpoint is the proxy's address.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::lake::eventually;

/// Pause between two looks at whether a hanging request was let go.
const LOOK: Duration = Duration::from_millis(20);

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A page of a listing.
    List,
    /// An object, or a range of it.
    Get,
    /// A put that must not replace anything.
    Create,
    /// Any other put.
    Put,
    /// What changes something in Solr: documents, a commit, a collection, an alias, a configset, a schema.
    Change,
    /// Anything else: deletions, looks at heads.
    Other,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused with this status and S3 error code; not carried out.
    Refused(u16, &'static str),
    /// Carried out; the answer is this status and code instead.
    Lost(u16, &'static str),
    /// The connection is reset before the request is carried out.
    Reset,
    /// Carried out; the connection is reset before a byte of the answer.
    LostReset,
    /// Reset in the middle of the body.
    ResetBody,
    /// The body ends in the middle, the connection is closed as if all were well.
    CutBody,
    /// Half of the body, and a Content-Length that says that this is all.
    Short,
    /// The answer begins so many milliseconds late.
    SlowHead(u64),
    /// The body comes in ten pieces, with so many milliseconds before each.
    Trickle(u64),
    /// No answer, until the faults end or the client leaves.
    Hang,
    /// Carried out; no answer, as above.
    LostHang,
    /// Carried out when the faults end, though the client may have left; no answer.
    Late,
    /// Not carried out; Solr's answer for a success all the same.
    Pretended,
}

impl Fault {
    /// Its kind, for figures.
    pub fn name(self) -> String {
        match self {
            Self::Refused(status, code) => format!("{status} {code}"),
            Self::Lost(status, code) => format!("{status} {code} after it was carried out"),
            Self::Reset => "reset".into(),
            Self::LostReset => "reset after it was carried out".into(),
            Self::ResetBody => "reset in the body".into(),
            Self::CutBody => "body cut".into(),
            Self::Short => "short Content-Length".into(),
            Self::SlowHead(_) => "slow head".into(),
            Self::Trickle(_) => "trickle".into(),
            Self::Hang => "hang".into(),
            Self::LostHang => "hang after it was carried out".into(),
            Self::Late => "late".into(),
            Self::Pretended => "pretended".into(),
        }
    }

    /// Whether the request reaches the server.
    fn is_passed_on(self) -> bool {
        !matches!(self, Self::Refused(..) | Self::Reset | Self::Hang | Self::Pretended)
    }
}

/// A fault for the next so many requests of a kind whose target or body holds a text.
#[derive(Debug)]
struct Rule {
    kind: Kind,
    holds: String,
    fault: Fault,
    /// So many are let through before.
    skip: u64,
    left: u64,
}

/// Faults at random.
#[derive(Debug)]
struct Chance {
    seed: u64,
    percent: u64,
    faults: Vec<(Kind, Fault, u64)>,
}

#[derive(Default)]
struct Plan {
    rules: Vec<Rule>,
    chance: Option<Chance>,
    /// Requests so far by kind and target: the dice of a request do not depend on how requests interleave.
    asked: BTreeMap<(u8, String), u64>,
    done: BTreeMap<String, u64>,
    /// Method and target of each request that met one, in order.
    met: Vec<String>,
    /// Only requests signed by this key are let through.
    key: Option<String>,
}

struct Shared {
    backend: SocketAddr,
    plan: Mutex<Plan>,
    requests: AtomicU64,
    /// Answers that are held back now.
    held: AtomicU64,
    /// Raised when faults end: what hangs is let go.
    healed: AtomicU64,
    stopped: AtomicBool,
}

/// A proxy that runs for as long as it is not dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Proxy {
    /// In front of `backend`, an `http://host:port`.
    pub fn start(backend: &str) -> Self {
        let backend = backend.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            backend,
            plan: Mutex::default(),
            requests: AtomicU64::new(0),
            held: AtomicU64::new(0),
            healed: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        let ours = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ours.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), shared) = (stream, ours.clone()) else { continue };
                std::thread::spawn(move || _ = serve(&shared, stream));
            }
        });
        Self { shared, address }
    }

    /// What a client takes for the server.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next `times` requests of this kind whose target or body holds a text meet a fault. Rules are tried in order.
    pub fn fault(&self, kind: Kind, holds: &str, fault: Fault, times: u64) {
        self.plan().rules.push(Rule { kind, holds: holds.to_owned(), fault, skip: 0, left: times });
    }

    /// The request of this kind that comes after `skip` others, and all that come after it, meet a fault.
    pub fn stop_after(&self, kind: Kind, holds: &str, skip: u64, fault: Fault) {
        self.plan().rules.push(Rule { kind, holds: holds.to_owned(), fault, skip, left: u64::MAX });
    }

    /// So many of a hundred requests meet one of these faults, by weight.
    pub fn at_random(&self, seed: u64, percent: u64, faults: &[(Kind, Fault, u64)]) {
        self.plan().chance = Some(Chance { seed, percent, faults: faults.to_vec() });
    }

    /// From now on only requests signed by this key are let through; others are told that their token has expired.
    pub fn admit(&self, key: &str) {
        self.plan().key = Some(key.to_owned());
    }

    /// No faults from now on.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.rules.clear();
        plan.chance = None;
        self.shared.healed.fetch_add(1, Ordering::Relaxed);
    }

    /// Faults so far, by name.
    pub fn faults(&self) -> BTreeMap<String, u64> {
        self.plan().done.clone()
    }

    /// Method and target of each request that met a fault, in order.
    pub fn met(&self) -> Vec<String> {
        self.plan().met.clone()
    }

    /// Waits until a request was carried out whose answer is held back.
    pub fn holds_an_answer(&self, limit: Duration) {
        eventually("an answer that is held back", limit, || {
            (self.shared.held.load(Ordering::Relaxed) > 0).then_some(())
        });
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.shared.plan.lock().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.heal();
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes whoever waits for the next client.
        _ = TcpStream::connect(self.address);
    }
}

impl Plan {
    fn fault_of(&mut self, request: &Message) -> Option<Fault> {
        let (kind, target) = (request.kind(), request.target());
        let signed = request.header("Authorization").unwrap_or_default();
        if self.key.as_ref().is_some_and(|key| !signed.contains(&format!("Credential={key}/"))) {
            return Some(Fault::Refused(403, "ExpiredToken"));
        }
        let asked = self.asked.entry((kind as u8, target.to_owned())).or_default();
        *asked += 1;
        let nth = *asked;
        let rule = self.rules.iter_mut().find(|rule| rule.left > 0 && rule.kind == kind && request.holds(&rule.holds));
        let fault = match (rule, &self.chance) {
            (Some(rule), _) if rule.skip > 0 => {
                rule.skip -= 1;
                None
            }
            (Some(rule), _) => {
                rule.left -= 1;
                Some(rule.fault)
            }
            (None, Some(chance)) => chance.roll(kind, target, nth),
            (None, None) => None,
        }?;
        *self.done.entry(fault.name()).or_default() += 1;
        self.met.push(format!("{} {target}", request.method()));
        Some(fault)
    }
}

impl Chance {
    fn roll(&self, kind: Kind, target: &str, nth: u64) -> Option<Fault> {
        let mut hasher = DefaultHasher::new();
        (self.seed, kind, target, nth).hash(&mut hasher);
        let dice = hasher.finish();
        if dice % 100 >= self.percent {
            return None;
        }
        let ours: Vec<_> = self.faults.iter().filter(|(of, _, _)| *of == kind).collect();
        let mut left = (dice / 100) % ours.iter().map(|(_, _, weight)| weight).sum::<u64>().max(1);
        for (_, fault, weight) in ours {
            match left.checked_sub(*weight) {
                None => return Some(*fault),
                Some(less) => left = less,
            }
        }
        None
    }
}

/// A request or an answer.
pub struct Message {
    /// Its first line.
    pub first: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The first line and headers; `None` at the end of the stream.
    pub fn head(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end().to_owned();
            match (line.is_empty(), lines.is_empty()) {
                (true, true) => {}
                (true, false) => break,
                (false, _) => lines.push(line),
            }
        }
        let first = lines.remove(0);
        let headers = lines.iter().filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        Ok(Some(Self { first, headers, body: Vec::new() }))
    }

    /// Reads the body; `to_the_end`: where nothing says its length, it ends with the stream.
    pub fn read_body(&mut self, from: &mut impl BufRead, to_the_end: bool) -> io::Result<()> {
        if self.header("Transfer-Encoding").is_some_and(|coding| coding.contains("chunked")) {
            return self.read_chunks(from);
        }
        match self.header("Content-Length").map(|text| text.parse().unwrap_or(0)) {
            Some(length) => {
                self.body = vec![0; length];
                from.read_exact(&mut self.body)
            }
            None if to_the_end => from.read_to_end(&mut self.body).map(|_| ()),
            None => Ok(()),
        }
    }

    fn read_chunks(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let length = line.trim().split(';').next().unwrap_or_default();
            let length = usize::from_str_radix(length, 16).map_err(io::Error::other)?;
            let start = self.body.len();
            self.body.resize(start + length, 0);
            from.read_exact(&mut self.body[start..])?;
            // The line's end; behind the last chunk, trailers too.
            loop {
                line.clear();
                from.read_line(&mut line)?;
                if line.trim().is_empty() {
                    break;
                }
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    /// First line and headers, with these instead of those that speak of one connection.
    fn render(&self, instead: &[(&str, &str)]) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.headers {
            let ours = ["connection", "transfer-encoding", "content-length"].contains(&name.to_lowercase().as_str());
            if !ours {
                text += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in instead {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        text.into_bytes()
    }

    pub fn method(&self) -> &str {
        self.first.split(' ').next().unwrap_or_default()
    }

    pub fn target(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    fn holds(&self, text: &str) -> bool {
        self.target().contains(text) || self.body.windows(text.len().max(1)).any(|part| part == text.as_bytes())
    }

    fn kind(&self) -> Kind {
        match self.method() {
            method if changes_solr(method, self.target()) => Kind::Change,
            "GET" if self.target().contains("list-type=") => Kind::List,
            "GET" => Kind::Get,
            "PUT" if self.header("If-None-Match").is_some() => Kind::Create,
            "PUT" => Kind::Put,
            _ => Kind::Other,
        }
    }
}

fn changes_solr(method: &str, target: &str) -> bool {
    let Some((path, query)) = target.strip_prefix("/solr/").and_then(|target| target.split_once('?')) else {
        return false;
    };
    let acts = ["action=CREATE", "action=DELETE", "action=UPLOAD", "action=MODIFY"];
    let is_sent = method == "POST" && (path.ends_with("/update") || path.ends_with("/schema"));
    is_sent || acts.iter().any(|act| query.contains(act))
}

/// One client's requests, until it leaves or a fault ends the connection.
fn serve(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    while let Some(mut request) = Message::head(&mut reader)? {
        request.read_body(&mut reader, false)?;
        shared.requests.fetch_add(1, Ordering::Relaxed);
        let fault = shared.plan.lock().unwrap().fault_of(&request);
        match fault {
            Some(Fault::Hang) => return hang(shared, &client),
            Some(Fault::Late) => {
                let healed = shared.healed.load(Ordering::Relaxed);
                while shared.healed.load(Ordering::Relaxed) == healed {
                    std::thread::sleep(LOOK);
                }
                return ask(shared, &request).map(drop);
            }
            Some(Fault::Reset) => return reset(client),
            Some(Fault::Pretended) => {
                send(&mut client, &pretended(), request.method())?;
                continue;
            }
            Some(Fault::Refused(status, code)) => {
                send(&mut client, &refusal(status, code), request.method())?;
                continue;
            }
            _ => {}
        }
        debug_assert!(fault.is_none_or(Fault::is_passed_on));
        // Without a server behind it the proxy is a connection that breaks.
        let Ok(answer) = ask(shared, &request) else { return Ok(()) };
        let (head, half) =
            (answer.render(&[("Content-Length", &answer.body.len().to_string())]), answer.body.len() / 2);
        match fault {
            Some(Fault::LostHang) => {
                shared.held.fetch_add(1, Ordering::Relaxed);
                let ended = hang(shared, &client);
                shared.held.fetch_sub(1, Ordering::Relaxed);
                return ended;
            }
            Some(Fault::LostReset) => return reset(client),
            Some(Fault::Lost(status, code)) => send(&mut client, &refusal(status, code), request.method())?,
            Some(Fault::ResetBody | Fault::CutBody) => {
                client.write_all(&head)?;
                client.write_all(&answer.body[..half])?;
                client.flush()?;
                if fault == Some(Fault::CutBody) {
                    return client.shutdown(std::net::Shutdown::Both);
                }
                // What was sent should be read first, so that the reset meets a reader in the middle of the body.
                std::thread::sleep(LOOK);
                return reset(client);
            }
            Some(Fault::Short) => {
                let short = Message { body: answer.body[..half].to_vec(), ..answer };
                send(&mut client, &short, request.method())?;
            }
            Some(Fault::SlowHead(ms)) => {
                std::thread::sleep(Duration::from_millis(ms));
                send(&mut client, &answer, request.method())?;
            }
            Some(Fault::Trickle(ms)) => {
                client.write_all(&head)?;
                for piece in answer.body.chunks(answer.body.len().div_ceil(10).max(1)) {
                    std::thread::sleep(Duration::from_millis(ms));
                    client.write_all(piece)?;
                    client.flush()?;
                }
            }
            _ => send(&mut client, &answer, request.method())?,
        }
    }
    Ok(())
}

/// Carries a request out.
fn ask(shared: &Shared, request: &Message) -> io::Result<Message> {
    let mut server = TcpStream::connect(shared.backend)?;
    server.set_nodelay(true)?;
    let length = request.body.len().to_string();
    let mut instead = vec![("Connection", "close")];
    if request.header("Content-Length").is_some() || !request.body.is_empty() {
        instead.push(("Content-Length", &length));
    }
    server.write_all(&request.render(&instead))?;
    server.write_all(&request.body)?;
    server.flush()?;
    let mut reader = BufReader::new(server);
    let mut answer = Message::head(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = answer.first.split(' ').nth(1).unwrap_or_default();
    if request.method() != "HEAD" && !["204", "304"].contains(&status) {
        answer.read_body(&mut reader, true)?;
    }
    Ok(answer)
}

fn send(client: &mut TcpStream, answer: &Message, method: &str) -> io::Result<()> {
    // A head has the length of the body that it does not bring.
    let length = match answer.header("Content-Length") {
        Some(length) if method == "HEAD" => length.to_owned(),
        _ => answer.body.len().to_string(),
    };
    client.write_all(&answer.render(&[("Content-Length", &length)]))?;
    client.write_all(&answer.body)?;
    client.flush()
}

fn refusal(status: u16, code: &str) -> Message {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>from the proxy</Message></Error>"
    );
    let headers = vec![("Content-Type".to_owned(), "application/xml".to_owned())];
    Message { first: format!("HTTP/1.1 {status} {code}"), headers, body: body.into_bytes() }
}

fn pretended() -> Message {
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    let body = br#"{"responseHeader":{"status":0,"QTime":1}}"#.to_vec();
    Message { first: "HTTP/1.1 200 OK".to_owned(), headers, body }
}

/// Ends the connection with a reset instead of a close: a linger of nothing, which only a runtime's sockets can be told.
#[allow(deprecated)]
pub fn reset(client: TcpStream) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    client.set_nonblocking(true)?;
    let client = tokio::net::TcpStream::from_std(client)?;
    client.set_linger(Some(Duration::ZERO))
}

fn hang(shared: &Shared, client: &TcpStream) -> io::Result<()> {
    let healed = shared.healed.load(Ordering::Relaxed);
    client.set_read_timeout(Some(LOOK))?;
    while shared.healed.load(Ordering::Relaxed) == healed {
        match client.peek(&mut [0]) {
            Ok(0) => break,
            Ok(_) => std::thread::sleep(LOOK),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
