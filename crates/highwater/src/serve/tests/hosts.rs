//! The socket, the check of the host, the headers, the methods.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::fake::FakeView;
use super::{Metrics, Served, listen, router};
use crate::serve::ServeError;

/// Sends a request word for word and returns the status line.
async fn raw(served: &Served, request: &str) -> String {
    let mut stream = TcpStream::connect(served.addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn only_loopback_names_are_answered_on_loopback() {
    let served = Served::ads().await;
    let cases = [
        ("localhost", 200),
        ("LOCALHOST:8642", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("[::1]", 200),
        ("[::1]:8642", 200),
        ("evil.example", 421),
        ("evil.example:8642", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 421),
        ("evil.example@localhost", 421),
        ("[::ffff:127.0.0.1]", 200),
        ("10.0.0.1", 421),
        ("0.0.0.0", 421),
        ("", 421),
    ];
    for (host, status) in cases {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let line = raw(&served, &request).await;
        assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{host:?}: {line}");
    }
    let twice = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let line = raw(&served, twice).await;
    assert!(line.contains(" 421 ") || line.contains(" 400 "), "{line}");
    let none = raw(&served, "GET / HTTP/1.0\r\n\r\n").await;
    assert!(none.contains(" 421 "), "{none}");
    let absolute = "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let line = raw(&served, absolute).await;
    assert!(line.contains(" 421 "), "{line}");
}

#[tokio::test]
async fn another_address_answers_to_any_name() {
    let views = vec![std::sync::Arc::new(FakeView::new("ads")) as _];
    let clock = std::sync::Arc::new(super::FixedClock::default());
    let router = router(views, clock, std::sync::Arc::new(Metrics::new()));
    let (_stop, stopped) = oneshot::channel::<()>();
    let bound = listen("0.0.0.0:0".parse().unwrap(), router, async move { drop(stopped.await) }).await.unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://127.0.0.1:{}/healthz", bound.addr.port());
    let answer = client.get(url).header("host", "search.example").send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn an_address_in_use_names_the_key() {
    let served = Served::ads().await;
    let router = router(Vec::new(), served.clock.clone(), served.metrics.clone());
    let error = listen(served.addr, router, async {}).await.unwrap_err();
    assert!(matches!(error, ServeError::InUse(_)), "{error}");
    assert!(error.to_string().starts_with(&format!("serve.listen: {} is already in use", served.addr)), "{error}");
}

#[tokio::test]
async fn an_address_of_another_machine_names_the_key() {
    let served = Served::ads().await;
    let router = router(Vec::new(), served.clock.clone(), served.metrics.clone());
    let error = listen("192.0.2.1:0".parse().unwrap(), router, async {}).await.unwrap_err();
    assert!(error.to_string().starts_with("serve.listen: cannot listen on 192.0.2.1:0"), "{error}");
}

#[tokio::test]
async fn it_stops_when_told() {
    let served = Served::ads().await;
    let router = router(Vec::new(), served.clock.clone(), served.metrics.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let bound = listen("127.0.0.1:0".parse().unwrap(), router, async move { drop(stopped.await) }).await.unwrap();
    let addr = bound.addr;
    drop(TcpStream::connect(addr).await.unwrap());
    stop.send(()).unwrap();
    bound.stopped().await.unwrap();
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn every_answer_carries_the_security_headers_and_allows_no_other_origin() {
    let served = Served::ads().await;
    for path in ["/", "/style.css", "/nothing", "/api/v1/pipelines/ads/search?limit=0", "/metrics", "/healthz"] {
        let answer = served.get(path).await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["x-frame-options"], "DENY", "{path}");
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{path}");
    }
    let url = format!("http://{}/", served.addr);
    let refused = served.client.get(url).header("host", "evil.example").send().await.unwrap();
    assert_eq!(refused.status(), 421);
    assert_eq!(refused.headers()["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn only_reading_is_served() {
    let served = Served::ads().await;
    for path in ["/", "/api/v1/pipelines/ads/search", "/api/v1/pipelines/ads/documents/1", "/metrics", "/healthz"] {
        let head = served.send(reqwest::Method::HEAD, path).await;
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
        for method in [reqwest::Method::POST, reqwest::Method::PUT, reqwest::Method::DELETE, reqwest::Method::OPTIONS] {
            let answer = served.send(method.clone(), path).await;
            assert_eq!(answer.refusal(), (405, "method_not_allowed".to_owned()), "{method} {path}");
            assert_eq!(answer.headers["allow"], "GET,HEAD");
        }
    }
}
