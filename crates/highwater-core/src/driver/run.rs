//! Ticks for as long as the process lives.

use std::future::Future;
use std::time::Duration;

use super::{Driver, Look, Ports, TickReport};
use crate::ports::{Executor, Fault};

/// How long a batch in hand may take to end after a stop was asked for; then it is abandoned, which a restart repairs.
const GRACE: Duration = Duration::from_secs(5);

/// Is told of every tick, at once.
pub trait Observer {
    /// A tick ended; one that failed says why, and is tried again.
    fn ticked(&mut self, tick: Result<&TickReport, &Fault>);
}

/// Ticks every `poll` until `stop` resolves (`Ok`), or a fault that waiting does not mend. A store that is out of reach, or data that allows no batch,
/// is reported and tried again, after a pause that grows to ten polls or ten seconds. [`Fault::Unavailable`] comes back
/// where the session is broken: start another.
pub async fn run(
    driver: &mut Driver,
    ports: Ports<'_>,
    executor: &mut dyn Executor,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<(), Fault> {
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
                    () = ports.clock.sleep(GRACE) => return Ok(()),
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
            return Ok(());
        }
        if behind {
            continue;
        }
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            () = ports.clock.sleep(pause) => {}
        }
    }
}
