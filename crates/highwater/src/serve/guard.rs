//! What keeps other sites out of the browser of someone who reads these pages: headers, and the check of the host.
//! Knows nothing of what is served.

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::Refusal;

/// Set on every answer. Styles and scripts are files of the binary, so nothing inline is allowed.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Adds the security headers, and keeps answers about a moment out of caches.
pub(super) async fn secure(mut response: Response) -> Response {
    for (name, value) in &HEADERS {
        response.headers_mut().insert(name.clone(), HeaderValue::from_static(value));
    }
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Refuses requests that name another host than this machine. A page of a foreign site can point its own name at
/// 127.0.0.1 (DNS rebinding) and so read a loopback server; its requests still carry its own name.
pub(super) async fn loopback_only(request: Request, next: Next) -> Response {
    if names_loopback(&request) {
        return next.run(request).await;
    }
    let message = "the request names another host; on loopback only localhost, 127.0.0.1 and [::1] are answered";
    Refusal::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message).into_response()
}

fn names_loopback(request: &Request) -> bool {
    let hosts = request.headers().get_all(header::HOST);
    if hosts.iter().next().is_none() {
        return false;
    }
    let headers_fit = hosts.iter().all(|host| {
        let authority = host.to_str().ok().and_then(|text| text.parse::<Authority>().ok());
        authority.is_some_and(|authority| is_loopback(&authority))
    });
    headers_fit && request.uri().authority().is_none_or(is_loopback)
}

fn is_loopback(authority: &Authority) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    // An address cannot be rebound, so any loopback address is as good as the two usual ones.
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    address.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}
