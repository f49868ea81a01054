//! Ticks for as long as the process lives.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;

use super::{Driver, Look, Ports, TickReport};
use crate::ports::{Executor, Fault};

/// How long a batch in hand may take to end after a stop was asked for; then it is abandoned, which a restart repairs.
/// A second less than the process is given, which has to let go of its lease and its index.
pub const GRACE: Duration = Duration::from_secs(4);

/// Is told of every tick, at once.
pub trait Observer {
    /// A tick ended; one that failed says why, and is tried again.
    fn ticked(&mut self, tick: Result<&TickReport, &Fault>);
}

/// Why the loop ended in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// It was time to: see [`run`].
    Retired,
    /// Another generation is live now: begin a session on it.
    Switched,
}

/// What is done between two ticks, while nothing of a batch is under way.
#[async_trait]
pub trait Between: Send {
    /// After each tick that ended well. True if another generation is live now, so that this session is over.
    async fn between(&mut self, driver: &mut Driver, ports: Ports<'_>) -> Result<bool, Fault>;
}

/// Nothing is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

#[async_trait]
impl Between for Unattended {
    async fn between(&mut self, _driver: &mut Driver, _ports: Ports<'_>) -> Result<bool, Fault> {
        Ok(false)
    }
}

/// Ticks every `poll` until `stop` resolves, or a fault that waiting does not mend. A store that is out of reach, or data
/// that allows no batch, is reported and tried again, after a pause that grows to ten polls or ten seconds.
/// [`Fault::Unavailable`] comes back where the session is broken: start another. From `retire_at` on, by the monotonic
/// clock, no further tick is begun.
pub async fn run(
    driver: &mut Driver,
    ports: Ports<'_>,
    executor: &mut dyn Executor,
    between: &mut dyn Between,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
    retire_at: Option<Duration>,
) -> Result<Ended, Fault> {
    let poll = driver.policy.poll;
    let mut pause = poll;
    tokio::pin!(stop);
    loop {
        let (ended, stopping) = {
            let step = async {
                let ticked = driver.tick(ports, executor, Look::Scheduled).await;
                observer.ticked(ticked.as_ref());
                let behind = ticked?.behind;
                let switched =
                    !behind && between.between(driver, ports).await.inspect_err(|fault| observer.ticked(Err(fault)))?;
                Ok((behind, switched))
            };
            tokio::pin!(step);
            tokio::select! {
                biased;
                ended = &mut step => (ended, false),
                () = &mut stop => tokio::select! {
                    biased;
                    ended = &mut step => (ended, true),
                    () = ports.clock.sleep(GRACE) => return Ok(Ended::Stopped),
                },
            }
        };
        let behind = match ended {
            Ok((_, true)) if !stopping => return Ok(Ended::Switched),
            Ok((behind, _)) => {
                pause = poll;
                behind
            }
            Err(Fault::Unavailable(_) | Fault::Data(_)) if !driver.is_broken() => {
                pause = (pause * 2).min((poll * 10).max(Duration::from_secs(10)));
                false
            }
            Err(fault) => return Err(fault),
        };
        if stopping {
            return Ok(Ended::Stopped);
        }
        if retire_at.is_some_and(|at| ports.clock.monotonic() >= at) {
            return Ok(Ended::Retired);
        }
        if behind {
            continue;
        }
        tokio::select! {
            biased;
            () = &mut stop => return Ok(Ended::Stopped),
            () = ports.clock.sleep(pause) => {}
        }
    }
}
