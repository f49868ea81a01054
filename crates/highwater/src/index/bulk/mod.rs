//! Delivery of changes to a sink behind a network: what is sent again, what is refused, what counts as done. Knows no
//! server's protocol: an HTTP sink brings a [`Transport`] and the meaning of its answers.
//!
//! Every change carries its id and its batch's number, so sending one twice changes nothing; that is why whatever is in
//! doubt is sent again, and why each change counts once.

mod delivery;
mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use highwater_core::Sequence;
use highwater_core::lease::Lease;
use highwater_core::ports::{Clock, Fault};

use crate::index::{Change, Refused};

pub use delivery::{Delivery, Step};
pub use status::{of_item, of_request};

/// What became of one change, as the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in, or what was to be deleted is not there.
    Done,
    /// The server will never take it: the reason, in its words.
    Refused(String),
    /// Not now: the reason.
    Later(String),
    /// A change of a later batch stands there: another writer has the pipeline.
    Stale,
}

/// What one request came to.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A word on each change, in the order in which they were sent.
    Each(Vec<Outcome>),
    /// Refused as a whole, and the server does not say for which change; any of the others may be in.
    Whole(String),
    /// Overloaded, out of reach, or the connection ended before the answer: any of the changes may be in.
    Later {
        /// Why.
        reason: String,
        /// The server asks to be left alone for so long.
        after: Option<Duration>,
    },
    /// No change is at fault and no repetition helps: the address, the credentials, the collection.
    Fatal(Fault),
}

/// Carries one request to the server. Never repeats one by itself.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends changes of batch `sequence`, each written so that an older one never replaces a newer one.
    async fn send(&self, sequence: Sequence, changes: &[&Change]) -> Answer;
}

/// How patient a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often in a row nothing may come of what is sent again.
    pub tries: u32,
    /// The pause before the first repetition; it doubles while nothing comes of them.
    pub first_pause: Duration,
    /// The longest pause, whatever the server asks for.
    pub longest_pause: Duration,
    /// How many requests may be refused as a whole before the fault is the batch's, not one document's.
    pub refused_requests: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 8,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            refused_requests: 500,
        }
    }
}

/// What was delivered: every change once, in one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Documents written.
    pub upserts: u64,
    /// Ids deleted, or not there.
    pub deletes: u64,
    /// Documents that the server will not take, in the order of the changes.
    pub refused: Vec<Refused>,
    /// Requests that it took.
    pub requests: u64,
    /// Changes sent more than once, counted once each.
    pub sent_again: u64,
}

/// Delivers changes of one batch, an id at most once among them. On `Err` any of them may be in, and none counts. No
/// request is begun while `lease` does not hold.
pub async fn deliver(
    transport: &dyn Transport,
    clock: &dyn Clock,
    lease: &dyn Lease,
    patience: Patience,
    sequence: Sequence,
    changes: Vec<Change>,
) -> Result<Delivered, Fault> {
    let mut delivery = Delivery::new(patience, changes);
    loop {
        match delivery.step()? {
            Step::Send(changes) => {
                lease.check()?;
                let answer = transport.send(sequence, &changes).await;
                delivery.answered(answer)?;
            }
            Step::Wait(pause) => clock.sleep(pause).await,
            Step::End(delivered) => return Ok(delivered),
        }
    }
}
