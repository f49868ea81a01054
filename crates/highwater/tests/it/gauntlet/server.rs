//! An S3 server of a test's own, in memory, that misbehaves by script.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::proxy::{Message, reset};

/// The bucket that it has.
pub const BUCKET: &str = "lake";

/// One request as it came over the wire.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// The key, decoded; empty for a listing.
    pub key: String,
    pub query: BTreeMap<String, String>,
    pub headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Asked {
    pub fn is_list(&self) -> bool {
        self.method == "GET" && self.query.contains_key("list-type")
    }

    pub fn gets(&self, key: &str) -> bool {
        self.method == "GET" && !self.is_list() && self.key == key
    }

    /// A batch record on its way into the log.
    pub fn puts_batch(&self) -> bool {
        self.method == "PUT" && self.key.contains("/log/") && String::from_utf8_lossy(&self.body).contains("receipt")
    }

    pub fn query(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn range(&self) -> Option<Range<usize>> {
        let (start, end) = self.header("range").strip_prefix("bytes=")?.split_once('-')?;
        Some(start.parse().unwrap()..end.parse::<usize>().unwrap() + 1)
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Deed {
    /// What a good server does.
    Serve,
    /// Nothing, with this status and code.
    Refuse(u16, &'static str),
    /// What was asked; the reply is lost.
    LoseReply,
    /// The body ends after so many bytes.
    Cut(usize, End),
    /// The answer's text is changed on its way.
    Edit(fn(String) -> String),
}

/// How a body ends early.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Content-Length says more, the connection closes cleanly.
    Clean,
    /// Content-Length says more, the connection is reset.
    Reset,
    /// Content-Length says what came.
    Short,
}

struct Object {
    body: Vec<u8>,
    etag: String,
    written: String,
    headers: String,
}

type Script = Box<dyn Fn(&Asked) -> Deed + Send + Sync>;

struct State {
    objects: Mutex<BTreeMap<String, Object>>,
    asked: Mutex<Vec<Asked>>,
    script: Mutex<Arc<Script>>,
    page: usize,
}

#[derive(Clone)]
pub struct S3 {
    state: Arc<State>,
    pub endpoint: String,
}

impl S3 {
    pub fn start() -> Self {
        Self::with_pages_of(1_000)
    }

    pub fn with_pages_of(page: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let script: Script = Box::new(|_| Deed::Serve);
        let script = Mutex::new(Arc::new(script));
        let state = Arc::new(State { objects: Mutex::default(), asked: Mutex::default(), script, page });
        let server = Self { state, endpoint };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || server.answer(stream));
            }
        });
        server
    }

    pub fn put(&self, key: &str, body: impl Into<Vec<u8>>) {
        self.put_with(key, body, "");
    }

    /// With headers that every answer for the object carries.
    pub fn put_with(&self, key: &str, body: impl Into<Vec<u8>>, headers: &str) {
        let body = body.into();
        let etag = format!("\"{}\"", &blake3::hash(&body).to_hex()[..32]);
        let object = Object { body, etag, written: written(key), headers: headers.to_owned() };
        self.state.objects.lock().unwrap().insert(key.to_owned(), object);
    }

    pub fn delete(&self, key: &str) {
        self.state.objects.lock().unwrap().remove(key);
    }

    pub fn keys(&self, prefix: &str) -> Vec<String> {
        self.state.objects.lock().unwrap().keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    /// From now on.
    pub fn script(&self, script: impl Fn(&Asked) -> Deed + Send + Sync + 'static) {
        let script: Script = Box::new(script);
        *self.state.script.lock().unwrap() = Arc::new(script);
    }

    pub fn behave(&self) {
        self.script(|_| Deed::Serve);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Answers requests of one connection, until one of them ends it.
    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(asked) = read(&mut reader) {
            self.state.asked.lock().unwrap().push(asked.clone());
            let script = self.state.script.lock().unwrap().clone();
            let answer = match script(&asked) {
                Deed::Serve => self.serve(&asked),
                Deed::Refuse(status, code) => error(status, code),
                Deed::LoseReply => {
                    self.serve(&asked);
                    return;
                }
                Deed::Cut(at, end) => {
                    drop(reader);
                    return cut(stream, &self.serve(&asked), at, end);
                }
                Deed::Edit(edit) => {
                    let answer = self.serve(&asked);
                    let body = edit(String::from_utf8(answer.body).unwrap()).into_bytes();
                    Answer { body, ..answer }
                }
            };
            if send(&stream, &answer, &answer.body, answer.body.len()).is_err() {
                return;
            }
        }
    }

    fn serve(&self, asked: &Asked) -> Answer {
        if asked.is_list() {
            return self.list(asked);
        }
        let mut objects = self.state.objects.lock().unwrap();
        let found = objects.get(&asked.key);
        let wanted = asked.header("if-match");
        if !wanted.is_empty() && found.is_none_or(|object| object.etag != wanted) {
            return if found.is_none() { error(404, "NoSuchKey") } else { error(412, "PreconditionFailed") };
        }
        match (asked.method.as_str(), found) {
            ("PUT", Some(_)) if asked.header("if-none-match") == "*" => error(412, "PreconditionFailed"),
            ("PUT", _) => {
                drop(objects);
                self.put(&asked.key, asked.body.clone());
                let etag = self.state.objects.lock().unwrap()[&asked.key].etag.clone();
                Answer { status: 200, headers: format!("ETag: {etag}\r\n"), ..Answer::default() }
            }
            ("POST", _) if asked.query.contains_key("delete") => {
                let text = String::from_utf8_lossy(&asked.body);
                for part in text.split("<Key>").skip(1) {
                    objects.remove(part.split("</Key>").next().unwrap_or_default());
                }
                Answer { status: 200, body: b"<DeleteResult></DeleteResult>".to_vec(), ..Answer::default() }
            }
            ("DELETE", _) => {
                objects.remove(&asked.key);
                Answer { status: 204, ..Answer::default() }
            }
            ("GET" | "HEAD", Some(object)) => {
                let Object { etag, written, headers, .. } = object;
                let mut headers = format!("ETag: {etag}\r\nLast-Modified: {written}\r\n{headers}");
                let (status, body) = match asked.range() {
                    Some(range) => {
                        let end = range.end.min(object.body.len());
                        let of = object.body.len();
                        write!(headers, "Content-Range: bytes {}-{}/{of}\r\n", range.start, end - 1).unwrap();
                        (206, object.body[range.start..end].to_vec())
                    }
                    None => (200, object.body.clone()),
                };
                Answer { status, headers, body, no_body: asked.method == "HEAD" }
            }
            _ => error(404, "NoSuchKey"),
        }
    }

    fn list(&self, asked: &Asked) -> Answer {
        let objects = self.state.objects.lock().unwrap();
        let (prefix, delimiter) = (asked.query("prefix"), asked.query("delimiter"));
        let mut entries = BTreeMap::new();
        for (key, object) in objects.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix)) {
            let rest = &key[prefix.len()..];
            match rest.split_once('/') {
                Some((folder, _)) if delimiter == "/" => {
                    let name = format!("{prefix}{folder}/");
                    entries.insert(
                        name.clone(),
                        format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", xml(&name)),
                    );
                }
                _ => {
                    let (key_text, etag, size) = (xml(key), xml(&object.etag), object.body.len());
                    let entry = format!(
                        "<Contents><Key>{key_text}</Key><LastModified>2024-05-01T10:00:05.000Z</LastModified>\
                         <ETag>{etag}</ETag><Size>{size}</Size></Contents>"
                    );
                    entries.insert(key.clone(), entry);
                }
            }
        }
        let size = asked.query("max-keys").parse().map_or(self.state.page, |max: usize| max.min(self.state.page));
        let after = asked.query("continuation-token").max(asked.query("start-after"));
        let names: Vec<&String> = entries.keys().filter(|name| after.is_empty() || name.as_str() > after).collect();
        let page = &names[..names.len().min(size)];
        let mut body = format!("<ListBucketResult><Name>{BUCKET}</Name><KeyCount>{}</KeyCount>", page.len());
        let more = names.len() > page.len();
        write!(body, "<IsTruncated>{more}</IsTruncated>").unwrap();
        page.iter().for_each(|name| body.push_str(&entries[*name]));
        if let (true, Some(last)) = (more, page.last()) {
            write!(body, "<NextContinuationToken>{}</NextContinuationToken>", xml(last)).unwrap();
        }
        body.push_str("</ListBucketResult>");
        Answer { status: 200, body: body.into_bytes(), ..Answer::default() }
    }
}

/// Every object was written at the same second, so that nothing can depend on it.
const WRITTEN: &str = "Wed, 01 May 2024 10:00:05 GMT";

/// Only the time of the pipeline's own state is real: a writer holds its clock against it.
fn written(key: &str) -> String {
    match key.starts_with("state/") {
        true => {
            jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&jiff::Timestamp::now()).unwrap()
        }
        false => WRITTEN.to_owned(),
    }
}

#[derive(Default)]
struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    no_body: bool,
}

fn error(status: u16, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>told to</Message></Error>");
    Answer { status, body: body.into_bytes(), ..Answer::default() }
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut message = Message::head(reader).ok()??;
    message.read_body(reader, false).ok()?;
    let (method, target) = (message.method().to_owned(), message.target());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let path = percent_encoding::percent_decode_str(path).decode_utf8().unwrap();
    let key = path.trim_start_matches('/').strip_prefix(BUCKET).unwrap_or_default().trim_start_matches('/').to_owned();
    let headers = message.headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    Some(Asked { method, key, query, headers, body: message.body })
}

/// Sends `body`, with a Content-Length of its own.
fn send(mut stream: &TcpStream, answer: &Answer, body: &[u8], length: usize) -> std::io::Result<()> {
    let Answer { status, headers, no_body, .. } = answer;
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{headers}\r\n");
    let body = if *no_body { &[] } else { body };
    stream.write_all(&[head.as_bytes(), body].concat())
}

fn cut(stream: TcpStream, answer: &Answer, at: usize, end: End) {
    let body = &answer.body[..at.min(answer.body.len())];
    let length = if matches!(end, End::Short) { body.len() } else { answer.body.len() };
    let _ = send(&stream, answer, body, length);
    if matches!(end, End::Reset) {
        reset(stream).unwrap();
    }
}
