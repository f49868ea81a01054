//! The socket: binds it, serves a router on it until told to stop. Knows nothing of routes.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::{Router, middleware};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::guard;
use crate::task;

/// Why HTTP is not served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Something else listens there.
    #[error(
        "serve.listen: {0} is already in use; stop what listens there, or name another port (0 takes any free one)"
    )]
    InUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("serve.listen: cannot listen on {addr}: {reason}; name an address of this machine and a free port")]
    Bind {
        /// What was asked for.
        addr: SocketAddr,
        /// What the system says.
        reason: io::Error,
    },
    /// The server ended by itself.
    #[error("serve: the server stopped: {0}")]
    Stopped(String),
}

/// A server that listens.
#[derive(Debug)]
pub struct Bound {
    /// The address that it listens on, with its real port.
    pub addr: SocketAddr,
    server: JoinHandle<io::Result<()>>,
}

impl Bound {
    /// Waits until the server has stopped: after `shutdown` it finishes the requests that it has begun.
    pub async fn stopped(self) -> Result<(), ServeError> {
        match self.server.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(ServeError::Stopped(error.to_string())),
            Err(error) => Err(ServeError::Stopped(error.to_string())),
        }
    }
}

/// Listens on `addr` (port 0: any free one) and serves `router` until `shutdown` is done. On a loopback address only
/// requests that name a loopback host are answered.
pub async fn listen(
    addr: SocketAddr,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<Bound, ServeError> {
    let refused = |reason: io::Error| match reason.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse(addr),
        _ => ServeError::Bind { addr, reason },
    };
    let listener = TcpListener::bind(addr).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let router = if bound.ip().to_canonical().is_loopback() {
        router.layer(middleware::from_fn(guard::loopback_only))
    } else {
        router
    };
    // The security headers stand on a refusal of the guard too.
    let router = router.layer(middleware::map_response(guard::secure));
    let server = task::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(shutdown).await });
    Ok(Bound { addr: bound, server })
}
