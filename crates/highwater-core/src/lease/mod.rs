//! Who may write a pipeline: a lock, where its state is on a local folder; a heartbeat, where it is in an object store.
//! Must not know what is written under the lease.

mod beating;
mod folder;
mod heartbeat;
mod probe;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::Timestamp;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

pub use beating::HeartbeatLease;
pub use folder::{FolderLock, LOCK_FILE};
pub use heartbeat::{HEARTBEAT, Patience, Taker, Terms, Wait};
pub use probe::probe;

use crate::ports::{Fault, root_cause};

/// The exclusive right to write one pipeline.
pub trait Lease: fmt::Debug + Send + Sync {
    /// True while no other writer can hold it. Asked before an effect, to know whether it may begin, and after one, to
    /// know whether it counts.
    fn holds(&self) -> bool;

    /// What to do where it does not hold: [`Fault::Fenced`] for good, [`Fault::Unavailable`] until it is renewed.
    fn check(&self) -> Result<(), Fault> {
        if self.holds() {
            return Ok(());
        }
        Err(Fault::Fenced("the lease ended: another writer may have the pipeline now".into()))
    }
}

/// An object of the lease is out of reach. Told without what differs each time, so that a failure that lasts reads the
/// same.
fn unavailable(place: &Path, error: &dyn std::error::Error) -> Fault {
    Fault::Unavailable(format!("{place}: {}", root_cause(error)))
}

/// No lease: a single writer by agreement, or a session that only looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unguarded;

impl Lease for Unguarded {
    fn holds(&self) -> bool {
        true
    }
}

/// Who holds a lease, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The host's name.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// When it took the lease.
    pub since: Timestamp,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}, process {}, since {}", self.host, self.pid, self.since)
    }
}

/// The lease is another's. `None`: it is not told whose (its holder is just writing it, or what it wrote is
/// damaged).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy(pub Option<Holder>);

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(holder) => write!(f, "held by {holder}"),
            None => f.write_str("held by another process"),
        }
    }
}
