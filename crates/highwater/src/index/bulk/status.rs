//! What HTTP statuses mean to a delivery: of one change in an answer that tells of each, and of a request as a whole.

use std::time::Duration;

use highwater_core::ports::Fault;

use super::{Answer, Outcome};
use crate::index::Change;

/// What the status of one change says.
pub fn of_item(status: u16, change: &Change, reason: &str) -> Outcome {
    match status {
        200..=299 => Outcome::Done,
        404 if matches!(change, Change::Delete(_)) => Outcome::Done,
        409 => Outcome::Stale,
        408 | 429 | 500..=599 => Outcome::Later(said(status, reason)),
        _ => Outcome::Refused(said(status, reason)),
    }
}

/// What the status of a whole request says, where it is no success; `place` names the collection and the server.
/// `after` is the server's Retry-After.
pub fn of_request(status: u16, place: &str, reason: &str, after: Option<Duration>) -> Answer {
    let reason = said(status, reason);
    match status {
        400 | 413 | 422 => Answer::Whole(reason),
        408 | 429 | 500..=599 => Answer::Later { reason, after },
        401 | 403 => Answer::Fatal(Fault::Invalid(format!(
            "{place} refuses access ({reason}): check the credentials and what they may do"
        ))),
        404 => Answer::Fatal(Fault::Invalid(format!("{place} is not there ({reason}): create it, or check its name"))),
        _ => Answer::Fatal(Fault::Invalid(format!("{place} does not take writes ({reason})"))),
    }
}

fn said(status: u16, reason: &str) -> String {
    let reason = reason.trim();
    if reason.is_empty() { format!("status {status}") } else { format!("status {status}: {reason}") }
}
