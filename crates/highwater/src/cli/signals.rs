//! Stops: the first SIGTERM or SIGINT asks a command to end in order; a second one, or an end that takes too long, ends
//! the process. Does not end it by itself: whoever may is called.

use std::sync::mpsc;
use std::time::Duration;

use highwater_core::ports::Clock;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::exit::{CliError, Exit};
use crate::clock::SystemClock;
use crate::task;

/// How long an end in order may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Becomes true once a stop was asked for.
pub type Stop = watch::Receiver<bool>;

/// Watches from now on, on a thread of its own: nothing that a command does keeps it from seeing a signal. `end` ends the
/// process: with `overdue` if a command takes longer than 5 s after the first signal, with [`Exit::Failure`] at the second.
pub fn watch(overdue: Exit, end: impl Fn(Exit) + Send + 'static) -> Result<Stop, CliError> {
    let failed = |error: String| CliError::Failure(format!("signals cannot be watched: {error}"));
    let (tell, told) = watch::channel(false);
    let (ready, begun) = mpsc::channel();
    task::apart(move || async move {
        let signals = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
        let (mut terminate, mut interrupt) = match signals {
            Ok(signals) => signals,
            Err(error) => {
                _ = ready.send(Err(error.to_string()));
                return;
            }
        };
        _ = ready.send(Ok(()));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        _ = tell.send(true);
        tokio::select! {
            _ = terminate.recv() => end(Exit::Failure),
            _ = interrupt.recv() => end(Exit::Failure),
            () = SystemClock.sleep(LIMIT) => end(overdue),
        }
    })?;
    match begun.recv() {
        Ok(Ok(())) => Ok(told),
        Ok(Err(error)) => Err(failed(error)),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Resolves once a stop was asked for.
pub async fn asked(mut stop: Stop) {
    if stop.wait_for(|asked| *asked).await.is_err() {
        // Whoever could ask is gone.
        std::future::pending::<()>().await;
    }
}
