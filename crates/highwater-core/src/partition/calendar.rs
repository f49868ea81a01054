//! Partitions of time: steps counted from local midnight in one zone. Knows nothing of paths.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

const DAY: i64 = 86_400;
/// How far around an instant offset changes are looked up: more than the longest partition and two changes of a day.
const REACH: i64 = 8 * DAY;

/// A step that cannot tile a day.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CalendarError {
    /// Shorter than a second.
    #[error("step {0:#} is shorter than one second; use a step of whole seconds such as \"5m\"")]
    TooShort(SignedDuration),
    /// Not whole seconds.
    #[error("step {0:#} is not a whole number of seconds; use a step such as \"5s\" or \"5m\"")]
    Fraction(SignedDuration),
    /// Steps from midnight would not end at midnight.
    #[error("step {step:#} does not divide a day of 24 hours; the nearest that do are {shorter:#} and {longer:#}")]
    Uneven {
        /// As given.
        step: SignedDuration,
        /// The longest shorter step that works.
        shorter: SignedDuration,
        /// The shortest longer step that works.
        longer: SignedDuration,
    },
    /// Longer than a day.
    #[error("step {0:#} is longer than a day; the longest step is \"24h\"")]
    TooLong(SignedDuration),
}

/// One partition: the instants `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// First instant.
    pub start: Timestamp,
    /// First instant after it; the start of the next one.
    pub end: Timestamp,
}

impl Partition {
    /// True if the instant is in it.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// Cuts time into partitions without gap or overlap.
///
/// A partition begins whenever the local clock passes a multiple of the step, counted from local midnight, for good. So
/// a repeated stretch and all steps that touch it are one longer partition, and a civil time that the clock skipped
/// belongs to the partition that holds the first instant after it. Within sixteen days of the ends of [`Timestamp`]'s
/// range instants count as sixteen days away from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    step: i64,
    zone: TimeZone,
    fixed: Option<i64>,
}

impl Calendar {
    /// Steps of `step` (whole seconds, a divisor of 24 hours) in `zone`.
    pub fn new(step: SignedDuration, zone: TimeZone) -> Result<Self, CalendarError> {
        if step < SignedDuration::from_secs(1) {
            return Err(CalendarError::TooShort(step));
        }
        if step.subsec_nanos() != 0 {
            return Err(CalendarError::Fraction(step));
        }
        let seconds = step.as_secs();
        if seconds > DAY {
            return Err(CalendarError::TooLong(step));
        }
        if DAY % seconds != 0 {
            let shorter = (1..seconds).rev().find(|s| DAY % s == 0).unwrap_or(1);
            let longer = (seconds..DAY).find(|s| DAY % s == 0).unwrap_or(DAY);
            let [shorter, longer] = [shorter, longer].map(SignedDuration::from_secs);
            return Err(CalendarError::Uneven { step, shorter, longer });
        }
        let fixed = zone.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds()));
        Ok(Self { step: seconds, zone, fixed })
    }

    /// The length of an ordinary partition.
    pub fn step(&self) -> SignedDuration {
        SignedDuration::from_secs(self.step)
    }

    /// The zone whose midnight steps are counted from.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The partition that holds an instant.
    pub fn holding(&self, at: Timestamp) -> Partition {
        let at = whole_second(at);
        self.partition(&self.clock_around(at), at)
    }

    /// The partition that a local time belongs to; a repeated one to the partition that holds both passages, a skipped
    /// one to that of the first instant after the gap. Fractions of a second are ignored.
    pub fn holding_civil(&self, civil: DateTime) -> Partition {
        let civil = civil_second(civil);
        let clock = self.clock_around(civil);
        self.partition(&clock, clock.first_at(civil))
    }

    /// The partition after this one.
    pub fn next(&self, partition: &Partition) -> Partition {
        self.holding(partition.end)
    }

    /// The partition before this one.
    pub fn previous(&self, partition: &Partition) -> Partition {
        self.holding(instant(whole_second(partition.start) - 1))
    }

    /// The start of the partition that holds an instant.
    pub fn floor(&self, at: Timestamp) -> Timestamp {
        let at = whole_second(at);
        instant(self.start(&self.clock_around(at), at))
    }

    /// The frontier at clock `t`: the end of the last partition that ended at or before `t - settle`.
    pub fn frontier(&self, t: Timestamp, settle: SignedDuration) -> Timestamp {
        let settled =
            t.checked_sub(settle).unwrap_or(if settle.is_negative() { Timestamp::MAX } else { Timestamp::MIN });
        self.floor(settled)
    }

    /// The local time at an instant.
    pub fn local(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(at)
    }

    /// The civil times `[from, to)` that belong to the partitions of `[from, to)`, both at partition boundaries: those
    /// that the clock skipped before a partition included.
    pub fn civil_range(&self, from: Timestamp, to: Timestamp) -> (DateTime, DateTime) {
        (self.civil_before(from), self.civil_before(to))
    }

    /// What the local clock would have shown at an instant, had no change of the offset fallen on it.
    fn civil_before(&self, at: Timestamp) -> DateTime {
        let at = whole_second(at);
        let clock = self.clock_around(at);
        Offset::UTC.to_datetime(instant(at + clock.offset(at - 1)))
    }

    fn partition(&self, clock: &LocalClock, at: i64) -> Partition {
        Partition { start: instant(self.start(clock, at)), end: instant(self.end(clock, at)) }
    }

    fn start(&self, clock: &LocalClock, at: i64) -> i64 {
        let mut mark = self.round_down(at + clock.offset(at));
        loop {
            let begin = clock.first_at(mark);
            match clock.falls_below(mark, begin) {
                None => return begin,
                Some(fall) => mark = self.round_down(fall.shows),
            }
        }
    }

    fn end(&self, clock: &LocalClock, at: i64) -> i64 {
        // Passed for good, a mark above what the clock shows at `at` is passed after it.
        let mut mark = self.round_down(at + clock.offset(at)) + self.step;
        loop {
            let begin = clock.first_at(mark);
            match clock.falls_below(mark, begin) {
                None => return begin,
                Some(fall) => mark = self.round_up(fall.showed).max(mark + self.step),
            }
        }
    }

    fn round_down(&self, civil: i64) -> i64 {
        civil - civil.rem_euclid(self.step)
    }

    fn round_up(&self, civil: i64) -> i64 {
        self.round_down(civil + self.step - 1)
    }

    fn clock_around(&self, at: i64) -> LocalClock {
        if let Some(offset) = self.fixed {
            return LocalClock(vec![Stretch { from: i64::MIN, offset }]);
        }
        let first = instant(at - REACH);
        let offset = i64::from(self.zone.to_offset(first).seconds());
        let mut stretches = vec![Stretch { from: i64::MIN, offset }];
        for change in self.zone.following(first) {
            let from = change.timestamp().as_second();
            if from > at + REACH {
                break;
            }
            stretches.push(Stretch { from, offset: i64::from(change.offset().seconds()) });
        }
        LocalClock(stretches)
    }
}

/// A stretch of time with one offset, in seconds.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: i64,
    offset: i64,
}

/// The local clock near one instant: stretches in order, the first from ever. Instants and civil times are seconds.
struct LocalClock(Vec<Stretch>);

/// A change that put the local clock back.
struct Fall {
    /// What it was about to show.
    showed: i64,
    /// What it shows instead.
    shows: i64,
}

impl LocalClock {
    fn offset(&self, at: i64) -> i64 {
        self.0.iter().rev().find(|stretch| stretch.from <= at).map_or(0, |stretch| stretch.offset)
    }

    /// The first instant at which the clock shows `civil` or more.
    fn first_at(&self, civil: i64) -> i64 {
        for (number, stretch) in self.0.iter().enumerate() {
            let ends = self.0.get(number + 1).map(|next| next.from);
            if ends.is_none_or(|ends| ends + stretch.offset > civil) {
                return stretch.from.max(civil - stretch.offset);
            }
        }
        civil
    }

    /// The first change after `since` that puts the clock below `mark`.
    fn falls_below(&self, mark: i64, since: i64) -> Option<Fall> {
        let falls = self.changes().find(|(at, _, after)| *at > since && at + after < mark);
        falls.map(|(at, before, after)| Fall { showed: at + before, shows: at + after })
    }

    /// Instant, offset before, offset after.
    fn changes(&self) -> impl Iterator<Item = (i64, i64, i64)> {
        self.0.windows(2).map(|pair| (pair[1].from, pair[0].offset, pair[1].offset))
    }
}

fn whole_second(at: Timestamp) -> i64 {
    clamp(at.as_second() - i64::from(at.subsec_nanosecond() < 0))
}

fn civil_second(civil: DateTime) -> i64 {
    match Offset::UTC.to_timestamp(civil) {
        Ok(at) => whole_second(at),
        Err(_) if civil.year() < 0 => clamp(i64::MIN),
        Err(_) => clamp(i64::MAX),
    }
}

fn clamp(second: i64) -> i64 {
    second.clamp(Timestamp::MIN.as_second() + 2 * REACH, Timestamp::MAX.as_second() - 2 * REACH)
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(if second < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests;
