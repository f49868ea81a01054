use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::Mutex;

use highwater_core::SourceName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::clock::SystemClock;

/// One request as it came over the wire.
#[derive(Clone, Debug)]
struct Asked {
    /// Path, percent-encoded as sent.
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
}

impl Asked {
    fn parse(head: &str) -> Self {
        let mut lines = head.lines();
        let target = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(k, v)| (k.to_lowercase(), v.to_owned()));
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Self { path: path.to_owned(), query, headers: headers.collect() }
    }

    fn is_list(&self) -> bool {
        self.query.contains_key("list-type")
    }

    fn query(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn range(&self) -> Option<Range<usize>> {
        let (start, end) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(start.parse().unwrap()..end.parse::<usize>().unwrap() + 1)
    }
}

/// What goes back, byte for byte.
#[derive(Clone, Debug, Default)]
struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    /// Content-Length, where it is not the body's.
    length: Option<usize>,
    /// End with a reset instead of a close.
    reset: bool,
}

fn ok(body: impl Into<Vec<u8>>) -> Answer {
    Answer { status: 200, body: body.into(), ..Answer::default() }
}

fn object(etag: &str, body: &[u8]) -> Answer {
    Answer { headers: format!("ETag: \"{etag}\"\r\n"), ..ok(body) }
}

fn error(status: u16, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>told</Message></Error>");
    Answer { status, ..ok(body) }
}

/// An object as a server with ranges and If-Match answers it.
fn served(asked: &Asked, etag: &str, body: &[u8]) -> Answer {
    if asked.headers.get("if-match").is_some_and(|wanted| *wanted != format!("\"{etag}\"")) {
        return error(412, "PreconditionFailed");
    }
    match asked.range() {
        None => object(etag, body),
        Some(range) => Answer {
            status: 206,
            headers: format!(
                "ETag: \"{etag}\"\r\nContent-Range: bytes {}-{}/{}\r\n",
                range.start,
                range.end - 1,
                body.len()
            ),
            ..ok(&body[range])
        },
    }
}

/// A listing page; keys are escaped, `&` apart from that is not looked for.
fn page(keys: &[String], next: Option<&str>) -> Answer {
    let mut xml = String::from("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>");
    write!(xml, "<IsTruncated>{}</IsTruncated>", next.is_some()).unwrap();
    for key in keys {
        let (key, size) = key.split_once('|').map_or((key.as_str(), "3"), |(key, size)| (key, size));
        write!(
            xml,
            "<Contents><Key>{key}</Key><LastModified>2024-05-01T10:00:05.000Z</LastModified>\
             <ETag>&quot;e&quot;</ETag><Size>{size}</Size></Contents>"
        )
        .unwrap();
    }
    if let Some(next) = next {
        write!(xml, "<NextContinuationToken>{next}</NextContinuationToken>").unwrap();
    }
    ok(xml + "</ListBucketResult>")
}

struct Server {
    prefix: Prefix,
    counters: Arc<Counters>,
    seen: Arc<Mutex<Vec<Asked>>>,
}

/// A server that answers by a script: the request's number from 0, and the request.
async fn serve(script: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static) -> Server {
    serve_below("", Tuning::default(), script).await
}

async fn serve_below(
    prefix: &str,
    tuning: Tuning,
    script: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let log = Arc::clone(&seen);
    let script = Arc::new(script);
    crate::task::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            crate::task::spawn(async move { answer(stream, &*script, &log).await });
        }
    });
    let (prefix, counters) = open(&format!("http://{address}"), prefix, tuning);
    Server { prefix, counters, seen }
}

async fn answer(
    mut stream: TcpStream,
    script: &(dyn Fn(usize, &Asked) -> Answer + Send + Sync),
    log: &Mutex<Vec<Asked>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let asked = Asked::parse(std::str::from_utf8(&head).unwrap());
    let number = {
        let mut log = log.lock().unwrap();
        log.push(asked.clone());
        log.len() - 1
    };
    let Answer { status, headers, body, length, reset } = script(number, &asked);
    let length = length.unwrap_or(body.len());
    let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
    let _ = stream.flush().await;
    if reset {
        // Unread bytes of the other side make the close a reset; so does a linger of nothing, without waiting for any.
        let _ = socket_reset(&stream);
    }
}

#[allow(deprecated)]
fn socket_reset(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_linger(Some(Duration::ZERO))
}

/// Impatient, so that a test that runs into every retry is quick.
fn quick() -> Tuning {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(1), max_backoff: Duration::from_millis(2), base: 2.0 };
    Tuning {
        retry: RetryConfig { backoff, max_retries: 3, retry_timeout: Duration::from_secs(60) },
        pause: Duration::ZERO,
        ..Tuning::default()
    }
}

fn open(endpoint: &str, prefix: &str, tuning: Tuning) -> (Prefix, Arc<Counters>) {
    let builder = AmazonS3Builder::new()
        .with_bucket_name("b")
        .with_region("us-east-1")
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_access_key_id("test")
        .with_secret_access_key("testtest");
    let counters = Arc::new(Counters::default());
    let tuning = Tuning { range_bytes: tuning.range_bytes, memory_bytes: tuning.memory_bytes, ..quick() };
    let bucket = Bucket::new("b", builder, Arc::new(SystemClock), Arc::clone(&counters), tuning).unwrap();
    let skipped = Skipped { source: SourceName::new("s"), root: "", names: Arc::default() };
    (Prefix::new(Arc::new(bucket), prefix, skipped), counters)
}

impl Server {
    async fn paths(&self, prefix: &str) -> Vec<String> {
        let found = self.prefix.files(prefix).await.unwrap();
        found.into_iter().map(|file| file.version.path.to_string()).collect()
    }

    fn asked(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }
}

fn version(path: &str, size: u64, etag: &str) -> FileVersion {
    FileVersion { path: path.into(), size, etag: etag.into() }
}

fn bytes(content: Content) -> Vec<u8> {
    match content {
        Content::Bytes(bytes) => bytes.to_vec(),
        Content::Spooled { mut file, .. } => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        }
    }
}

fn keys(range: Range<usize>) -> Vec<String> {
    range.map(|n| format!("in/{n:05}")).collect()
}

/// 2,501 keys in three pages.
fn three_pages(asked: &Asked) -> Answer {
    match asked.query("continuation-token") {
        "" => page(&keys(0..1000), Some("t1")),
        "t1" => page(&keys(1000..2000), Some("t2")),
        "t2" => page(&keys(2000..2501), None),
        other => panic!("token {other}"),
    }
}

#[tokio::test]
async fn a05_every_page_once_and_every_key_once() {
    let server =
        serve(
            |_, asked| {
                if asked.query.contains_key("start-after") { error(400, "InvalidArgument") } else { three_pages(asked) }
            },
        )
        .await;
    assert_eq!(server.paths("in/").await, keys(0..2501));
    assert_eq!(server.counters.read().list, 3);
    assert_eq!(server.counters.read().get, 0);
    assert_eq!(server.asked()[0].query("prefix"), "in/");
    assert_eq!(server.asked()[0].path, "/b");
}

#[tokio::test]
async fn a05_broken_pagination_is_an_error_and_ends() {
    type Script = fn(&Asked) -> Answer;
    let same: Script = |_| page(&keys(0..1000), Some("t1"));
    let round: Script = |asked| match asked.query("continuation-token") {
        "t1" => page(&keys(1000..2000), Some("t2")),
        _ => page(&keys(0..1000), Some("t1")),
    };
    let no_token: Script = |_| {
        let xml = String::from_utf8(page(&keys(0..1000), None).body).unwrap();
        ok(xml.replace("<IsTruncated>false", "<IsTruncated>true"))
    };
    for (name, script, requests) in [("same", same, 2), ("round", round, 3), ("no token", no_token, 1)] {
        let server = serve(move |_, asked| script(asked)).await;
        let fault = server.prefix.files("in/").await.unwrap_err();
        assert!(matches!(&fault, Fault::Unavailable(why) if why.contains("token")), "{name}: {fault}");
        assert_eq!(server.counters.read().list, requests, "{name}");
    }
}

#[tokio::test]
async fn a01_a_throttled_page_is_asked_again_and_never_left_out() {
    let slow = |failures: usize| {
        move |number: usize, asked: &Asked| match asked.query("continuation-token") {
            "t1" if number <= failures => error(503, "SlowDown"),
            _ => three_pages(asked),
        }
    };
    let server = serve(slow(2)).await;
    assert_eq!(server.paths("in/").await.len(), 2501);
    assert_eq!(server.counters.read().list, 5, "retries count");

    let server = serve(slow(usize::MAX)).await;
    let fault = server.prefix.files("in/").await.unwrap_err();
    assert!(matches!(&fault, Fault::Unavailable(why) if why.contains("503 SlowDown: told")), "{fault}");
    assert_eq!(server.counters.read().list, 5, "the first page, and the second four times");
}

#[tokio::test]
async fn a_page_that_breaks_off_is_asked_again() {
    let whole = page(&keys(0..500), None);
    let half = whole.body[..whole.body.len() / 2].to_vec();
    let broken = [
        Answer { length: Some(whole.body.len()), ..ok(half.clone()) },
        ok(half.clone()),
        Answer { length: Some(whole.body.len()), reset: true, ..ok(half) },
    ];
    let server = serve(move |number, _| broken.get(number).unwrap_or(&whole).clone()).await;
    assert_eq!(server.paths("in/").await, keys(0..500));
    assert_eq!(server.counters.read().list, 4);

    let server = serve(|_, _| ok("<html>a proxy's page</html>")).await;
    let fault = server.prefix.files("in/").await.unwrap_err();
    assert!(fault.to_string().contains("expected <ListBucketResult>, found <html>"), "{fault}");
}

#[tokio::test]
async fn paths_are_below_the_location_and_hidden_ones_left_out() {
    let server = serve_below("/lake/ads/", Tuning::default(), |_, asked| {
        assert_eq!(asked.query("prefix"), "lake/ads/");
        let keys = ["dt=1/a", "dt=1/", "|0", "empty|0", "_x/a", "dt=1/.b", "dt=1//c", "folder/|5", "v.1/d"];
        page(&keys.map(|key| format!("lake/ads/{key}")), None)
    })
    .await;
    let found = server.prefix.files("").await.unwrap();
    let sizes: Vec<_> = found.iter().map(|file| (&*file.version.path, file.version.size)).collect();
    let expected = [("dt=1/", 3), ("dt=1//c", 3), ("dt=1/a", 3), ("empty", 0), ("folder/", 5), ("v.1/d", 3)];
    assert_eq!(sizes, expected);
    assert_eq!(&*found[0].version.etag, "e");
    assert_eq!(found[0].modified, Some("2024-05-01T10:00:05Z".parse().unwrap()));
    for path in ["dt=1/", "dt=1//c", "folder/", "./x", "a/../b"] {
        let fault = server.prefix.fetch(&version(path, 3, "e")).await.unwrap_err();
        assert!(matches!(&fault, FetchError::Unreadable(why) if why.contains(path)), "named, not lost: {fault}");
    }
}

#[tokio::test]
async fn a_key_outside_of_what_was_asked_for_is_an_error() {
    let server = serve_below("ads", Tuning::default(), |_, _| page(&["ads2/a".into()], None)).await;
    assert!(server.prefix.files("").await.unwrap_err().to_string().contains("got `ads2/a`"));
}

#[tokio::test]
async fn folders_are_common_prefixes() {
    let server = serve_below("in", Tuning::default(), |_, asked| {
        assert_eq!((asked.query("prefix"), asked.query("delimiter")), ("in/x/", "/"));
        let folders = ["a b", "_tmp", "dt=1", ""]
            .map(|name| format!("<CommonPrefixes><Prefix>in/x/{name}/</Prefix></CommonPrefixes>"));
        ok(format!("<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>", folders.concat()))
    })
    .await;
    assert_eq!(server.prefix.folders("x/").await.unwrap(), ["a b", "dt=1"]);
    assert_eq!(server.prefix.skipped.names.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a19_keys_are_fetched_by_exactly_the_bytes_listed() {
    let names = [
        ("a b", "/b/in/a%20b"),
        ("a+b", "/b/in/a%2Bb"),
        ("a%20b", "/b/in/a%2520b"),
        ("100%", "/b/in/100%25"),
        ("x,y", "/b/in/x%2Cy"),
        ("\u{e9}", "/b/in/%C3%A9"),
        ("e\u{301}", "/b/in/e%CC%81"),
        ("v.1/f", "/b/in/v.1/f"),
        ("ts=2024-05-01 10%3A00/f", "/b/in/ts%3D2024-05-01%2010%253A00/f"),
        (" lead", "/b/in/%20lead"),
    ];
    let server = serve(move |_, asked| {
        if asked.is_list() { page(&names.map(|(name, _)| format!("in/{name}")), None) } else { object("e", b"abc") }
    })
    .await;
    let found = server.prefix.files("in/").await.unwrap();
    assert_eq!(found.len(), names.len());
    for (name, wire) in names {
        let file = found.iter().find(|file| *file.version.path == format!("in/{name}")).unwrap();
        server.prefix.fetch(&file.version).await.unwrap();
        let asked = server.asked().pop().unwrap();
        assert_eq!(asked.path, wire);
        assert_eq!(asked.header("if-match"), "\"e\"");
    }
}

#[tokio::test]
async fn refusals_tell_what_to_do() {
    type Is = fn(&FetchError) -> bool;
    let cases: [(&str, u16, Is); 9] = [
        ("PreconditionFailed", 412, |e| matches!(e, FetchError::Moved(_))),
        ("NoSuchKey", 404, |e| matches!(e, FetchError::Moved(_))),
        ("InvalidRange", 416, |e| matches!(e, FetchError::Moved(_))),
        ("AccessDenied", 403, |e| matches!(e, FetchError::Unreadable(_))),
        ("InvalidObjectState", 403, |e| matches!(e, FetchError::Unreadable(_))),
        ("ExpiredToken", 403, |e| matches!(e, FetchError::Unavailable(_))),
        ("NoSuchBucket", 404, |e| matches!(e, FetchError::Unavailable(_))),
        ("Unauthorized", 401, |e| matches!(e, FetchError::Unavailable(_))),
        ("SlowDown", 503, |e| matches!(e, FetchError::Unavailable(_))),
    ];
    for (code, status, expected) in cases {
        let server = serve(move |_, _| error(status, code)).await;
        let fault = server.prefix.fetch(&version("k", 3, "e")).await.unwrap_err();
        assert!(expected(&fault), "{code}: {fault:?}");
        assert!(server.counters.read().get <= 4, "{code}: bounded");
    }
}

#[tokio::test]
async fn reach_says_what_is_wrong() {
    for (answer, words) in [
        (error(404, "NoSuchBucket"), "bucket `b` does not exist at http"),
        (error(403, "AccessDenied"), "access to s3://b/in/ is denied by http"),
        (error(301, "PermanentRedirect"), "another region"),
    ] {
        let server = serve_below("in", Tuning::default(), move |_, _| answer.clone()).await;
        let fault = server.prefix.reach().await.unwrap_err();
        assert!(matches!(&fault, StoreError::Unavailable(why) if why.contains(words)), "{fault}");
    }
    let server = serve(|_, asked| {
        assert_eq!(asked.query("max-keys"), "1");
        page(&keys(0..1), Some("t"))
    })
    .await;
    server.prefix.reach().await.unwrap();
    assert_eq!(server.counters.read().list, 1);

    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (prefix, _) = open(&format!("http://{free}"), "in", Tuning::default());
    let fault = prefix.reach().await.unwrap_err().to_string();
    assert!(fault.contains(&format!("no usable answer from http://{free}")) && fault.contains("refused"), "{fault}");
}

#[test]
fn endpoints_are_checked_before_use() {
    let with = |endpoint: &str| StoreConfig {
        endpoint: Some(endpoint.into()),
        allow_http: Some(false),
        ..StoreConfig::default()
    };
    for (endpoint, words) in
        [("http://h:1", "allow_http = true in [store.\"s3://b\"]"), ("h:1", "neither"), ("", "no URL")]
    {
        let fault = builder("b", &with(endpoint)).unwrap_err();
        assert!(matches!(&fault, StoreError::Invalid(why) if why.contains(words)), "{fault}");
    }
    builder("b", &with("https://h:1")).unwrap();
    builder("b", &StoreConfig { allow_http: Some(true), ..with("http://h:1") }).unwrap();
}

#[tokio::test]
async fn a39_a_body_that_breaks_off_is_never_taken_for_the_object() {
    let body: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    let size = body.len();
    let cut = object("e", &body[..size / 2]);
    let breaks = [
        ("clean end", Answer { length: Some(size), ..cut.clone() }),
        ("reset", Answer { length: Some(size), reset: true, ..cut.clone() }),
        ("short length", cut),
    ];
    for (name, broken) in breaks {
        let (first, whole) = (broken.clone(), body.clone());
        let server =
            serve(move |number, asked| if number == 0 { first.clone() } else { served(asked, "e", &whole) }).await;
        let content = server.prefix.fetch(&version("k", size as u64, "e")).await.unwrap();
        assert!(bytes(content) == body, "{name}");
        assert!(server.asked().iter().all(|asked| asked.header("if-match") == "\"e\""), "{name}");

        let server = serve(move |_, _| broken.clone()).await;
        let fault = server.prefix.fetch(&version("k", size as u64, "e")).await.unwrap_err();
        assert!(matches!(fault, FetchError::Unavailable(_)), "{name}: {fault:?}");
        assert!(server.counters.read().get <= 12, "{name}: bounded");
    }
}

#[tokio::test]
async fn a_replacement_while_the_body_breaks_off_is_noticed() {
    let server = serve(|number, asked| match number {
        0 => Answer { length: Some(6), ..object("e", b"abc") },
        _ => served(asked, "f", b"xyzuvw"),
    })
    .await;
    let fault = server.prefix.fetch(&version("k", 6, "e")).await.unwrap_err();
    assert!(matches!(fault, FetchError::Moved(_)), "{fault:?}");
}

#[tokio::test]
async fn a_server_that_ignores_conditions_is_not_believed() {
    let server = serve(|_, _| object("f", b"xyz")).await;
    let fault = server.prefix.fetch(&version("k", 3, "e")).await.unwrap_err();
    assert!(matches!(fault, FetchError::Moved(_)), "{fault:?}");
}

#[tokio::test]
async fn a10_stored_bytes_are_not_inflated() {
    let stored = b"\x1f\x8b\x08not really gzip";
    let server = serve(|_, _| {
        let mut answer = object("e", stored);
        answer.headers.push_str("Content-Encoding: gzip\r\n");
        answer
    })
    .await;
    assert_eq!(bytes(server.prefix.fetch(&version("k", stored.len() as u64, "e")).await.unwrap()), stored);
    assert_eq!(server.asked()[0].header("accept-encoding"), "");
}

#[tokio::test]
async fn a13_large_objects_come_in_ranges_of_one_version() {
    let body: Vec<u8> = (0..2_500u32).flat_map(u32::to_le_bytes).collect();
    for (memory_bytes, spooled) in [(1 << 20, false), (5_000, true)] {
        let tuning = Tuning { range_bytes: 999, memory_bytes, ..Tuning::default() };
        let whole = body.clone();
        let server = serve_below("", tuning.clone(), move |_, asked| served(asked, "e", &whole)).await;
        let content = server.prefix.fetch(&version("k", 10_000, "e")).await.unwrap();
        assert_eq!(matches!(content, Content::Spooled { .. }), spooled);
        assert_eq!(content.size(), 10_000);
        assert!(bytes(content) == body);
        assert_eq!(server.counters.read().get, 11);
        assert!(server.asked().iter().all(|asked| asked.header("if-match") == "\"e\""));

        let whole = body.clone();
        let server =
            serve_below("", tuning, move |number, asked| served(asked, if number < 5 { "e" } else { "f" }, &whole))
                .await;
        let fault = server.prefix.fetch(&version("k", 10_000, "e")).await.unwrap_err();
        assert!(matches!(fault, FetchError::Moved(_)), "{fault:?}");
    }
}

#[tokio::test]
async fn without_entity_tags_time_and_size_tell_versions_apart() {
    let listed = Object { key: "k".into(), size: 3, etag: None, modified: Some("2024-05-01T10:00:05.000Z".into()) };
    let listed = seen("k".into(), &listed).version;
    for (date, size, ok) in [
        ("Wed, 01 May 2024 10:00:05 GMT", 3, true),
        ("Wed, 01 May 2024 10:00:06 GMT", 3, false),
        ("Wed, 01 May 2024 10:00:05 GMT", 4, false),
    ] {
        let server = serve(move |_, asked| {
            assert_eq!(asked.header("if-match"), "");
            Answer {
                status: 200,
                headers: format!("Last-Modified: {date}\r\n"),
                body: vec![b'a'; size],
                ..Answer::default()
            }
        })
        .await;
        let fetched = server.prefix.fetch(&listed).await;
        assert_eq!(fetched.is_ok(), ok, "{date} {size}: {fetched:?}");
        assert!(ok || matches!(fetched, Err(FetchError::Moved(_))));
    }
}

#[test]
fn entity_tags_compare_without_their_quotes() {
    for (listed, answered, same) in [
        ("\"e\"", "\"e\"", true),
        ("e", "\"e\"", true),
        ("\"e\"", "e", true),
        ("W/\"e\"", "\"e\"", true),
        ("\"e\"", "\"f\"", false),
        ("\"e-2\"", "\"e\"", false),
    ] {
        let object = Object { key: "k".into(), size: 1, etag: Some(listed.into()), modified: None };
        let version = seen("k".into(), &object).version;
        assert_eq!(is_version(&version, Some(answered), None), same, "{listed} {answered}");
    }
    assert_eq!(if_match(&version("k", 1, "W/\"e\"")), None);
}
