//! Ticks for as long as the process lives.

use std::future::Future;
use std::time::Duration;

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
}

/// Ticks every `poll` until `stop` resolves, or a fault that waiting does not mend. A store that is out of reach, or data
/// that allows no batch, is reported and tried again, after a pause that grows to ten polls or ten seconds.
/// [`Fault::Unavailable`] comes back where the session is broken: start another. From `retire_at` on, by the monotonic
/// clock, no further tick is begun.
pub async fn run(
    driver: &mut Driver,
    ports: Ports<'_>,
    executor: &mut dyn Executor,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
    retire_at: Option<Duration>,
) -> Result<Ended, Fault> {
    let poll = driver.policy.poll;
    let mut pause = poll;
    tokio::pin!(stop);
    loop {
        let (ticked, stopping) = {
            let tick = driver.tick(ports, executor, Look::Scheduled);
            tokio::pin!(tick);
            tokio::select! {
                biased;
                ticked = &mut tick => (ticked, false),
                () = &mut stop => tokio::select! {
                    biased;
                    ticked = &mut tick => (ticked, true),
                    () = ports.clock.sleep(GRACE) => return Ok(Ended::Stopped),
                },
            }
        };
        observer.ticked(ticked.as_ref());
        let behind = match ticked {
            Ok(report) => {
                pause = poll;
                report.behind
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
