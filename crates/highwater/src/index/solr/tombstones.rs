//! When tombstones may go: once no writer can still be behind them. Decides only; knows no HTTP.
//!
//! A tombstone makes writes lose that are older than it. Such a write can only come from a writer that had the pipeline
//! before, or from a request that the network held back: not a day later, by any lease. The stamp carries from which
//! batches on a day is counted, so that it is counted over restarts.

use highwater_core::{Sequence, Timestamp};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// How long a tombstone is kept at least.
pub(super) const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// So many marks are made in that time: tombstones are purged as often.
const MARKS: i32 = 24;

/// A batch, and when it was committed by its writer's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    sequence: Sequence,
    clock: Timestamp,
}

/// How a writer stands to the batches before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// The last batch that was committed before it began: all beyond are its own.
    pub(super) begun_after: Option<Sequence>,
    /// For how long it has had the pipeline; no clock that is set counts.
    pub(super) age: SignedDuration,
}

/// The marks once batch `sequence` is committed, and the batch up to which tombstones may go, if there are any to go now.
pub(super) fn advance(
    marks: &[Mark],
    (sequence, now): (Sequence, Timestamp),
    session: Session,
    kept: SignedDuration,
) -> (Vec<Mark>, Option<Sequence>) {
    let is_over = |mark: &&Mark| now.duration_since(mark.clock) >= kept;
    let is_anothers = |mark: &&Mark| Some(mark.sequence) <= session.begun_after || session.age >= kept;
    let purged = marks.iter().rfind(|mark| is_over(mark) && is_anothers(mark)).map(|mark| mark.sequence);
    let mut left: Vec<Mark> = marks.iter().filter(|mark| Some(mark.sequence) > purged).cloned().collect();
    if left.last().is_none_or(|last| now.duration_since(last.clock) >= kept / MARKS) {
        left.push(Mark { sequence, clock: now });
    }
    (left, purged)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Session = Session { begun_after: Some(Sequence(1_000)), age: SignedDuration::ZERO };

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    /// A batch every ten minutes: which purges happen, as `minute: batch`.
    fn purges(minutes: i64, session: Session) -> Vec<String> {
        let (mut marks, mut purges) = (Vec::new(), Vec::new());
        for minute in (0..minutes).step_by(10) {
            let sequence = Sequence(minute.unsigned_abs() / 10 + 1);
            let (next, purged) = advance(&marks, (sequence, at(minute)), session, KEPT);
            purges.extend(purged.map(|purged| format!("{minute}: {purged}")));
            marks = next;
            assert!(marks.len() <= 32, "{marks:?}");
        }
        purges
    }

    #[test]
    fn tombstones_go_a_day_later_once_an_hour() {
        assert_eq!(purges(24 * 60, LATER), [""; 0]);
        assert_eq!(purges(27 * 60, LATER), ["1440: 1", "1500: 7", "1560: 13"]);
    }

    #[test]
    fn a_writer_that_just_began_purges_nothing_of_its_own() {
        let began = Session { begun_after: Some(Sequence(7)), ..LATER };
        assert_eq!(purges(30 * 60, began), ["1440: 1", "1500: 7"], "whatever its clock says");
        let old = Session { age: KEPT, ..began };
        assert_eq!(purges(27 * 60, old), ["1440: 1", "1500: 7", "1560: 13"]);
        assert_eq!(purges(30 * 60, Session { begun_after: None, ..LATER }), [""; 0]);
    }

    #[test]
    fn a_clock_that_goes_back_purges_nothing() {
        let marks = [Mark { sequence: Sequence(1), clock: at(10_000) }];
        assert_eq!(advance(&marks, (Sequence(2), at(0)), LATER, KEPT), (marks.to_vec(), None));
    }
}
