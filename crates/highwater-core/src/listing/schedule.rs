//! When to look at which prefix: the newest every tick, one other at most. Knows only ages, never names or files.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::PrefixSpan;
use crate::partition::Calendar;

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// The prefix that punctual writers write to now.
    Newest,
    /// Another one that holds partitions of the live range.
    InWindow,
    /// Behind the live range: looked at to report late files that missed it.
    Behind,
    /// A folder whose subfolders are capture values.
    Discovery,
}

/// Something that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it stands.
    pub zone: Zone,
    /// The clock of the tick that last looked at it, whether the listing came back complete or failed.
    pub looked: Option<Timestamp>,
    /// Since when the watermark waits for it, if it does: see [`settled_at`].
    pub settled: Option<Timestamp>,
}

/// Since when a partition of the span has been settled without a complete listing of the prefix since: the watermark
/// waits for one. `complete` is the clock of the tick that began the last complete listing.
pub fn settled_at(
    calendar: &Calendar,
    span: &PrefixSpan,
    settle: SignedDuration,
    complete: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let settled = |end: Timestamp| end.checked_add(settle).unwrap_or(Timestamp::MAX);
    let complete = complete.unwrap_or(Timestamp::MIN);
    if settled(span.to) <= complete || settled(span.from) >= now {
        return None;
    }
    let seen = complete.checked_sub(settle).unwrap_or(Timestamp::MIN);
    let end = calendar.holding(seen.max(span.from)).end;
    (end <= span.to && settled(end) <= now).then(|| settled(end))
}

/// The schedule of one source. All times are milliseconds.
///
/// A tick has one slot beside the newest prefix. Each other item asks for it when its interval has passed since it was
/// last looked at, and should have it within a second interval; one that the watermark waits for asks at once (but not
/// more often than every fourth tick) and should have it a poll later. The earliest such deadline wins. The intervals
/// are so long that at most 95 % of the slots are asked for: 25 % by settled partitions, 50 % by older prefixes, 10 %
/// each by the time behind the window and by discovery. Then no deadline is missed, and
/// [`bound`](Self::bound) holds. Where ticks take longer than `poll`, give the usual length of a tick in its place;
/// even in overload nothing starves, since deadlines pass in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    poll: i64,
    unit: i64,
    window: i64,
}

impl Schedule {
    /// `poll` from one tick to the next, `unit` the time that a prefix holds, `window` how far back is looked.
    pub fn new(poll: Duration, unit: Duration, window: Duration) -> Self {
        let ms = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX).clamp(1, 1 << 42);
        Self { poll: ms(poll), unit: ms(unit.min(window)), window: ms(window) }
    }

    /// The numbers of the items to list in a tick, for the items of one combination of captures, prefixes from new to
    /// old. At most two: the newest and one other; all of them, if none was ever looked at. An item for discovery
    /// stands among those of one combination only.
    pub fn due(&self, now: Timestamp, items: &[Item]) -> Vec<usize> {
        if items.iter().all(|item| item.looked.is_none()) {
            return (0..items.len()).collect();
        }
        let count = |zone| items.iter().filter(|item| item.zone == zone).count();
        let (older, behind, discovery) = (count(Zone::InWindow), count(Zone::Behind), count(Zone::Discovery));
        let mut due = Vec::new();
        let mut other = None;
        let mut rank = 0;
        for (number, item) in items.iter().enumerate() {
            let interval = match item.zone {
                Zone::Newest => {
                    due.push(number);
                    continue;
                }
                Zone::InWindow => {
                    rank += 1;
                    self.older_interval(rank, older)
                }
                Zone::Behind => self.behind_interval(behind),
                Zone::Discovery => self.discovery_interval(discovery),
            };
            let deadline = self.deadline(now.as_millisecond(), item, interval);
            if let Some(deadline) = deadline.filter(|deadline| other.is_none_or(|(least, _)| *deadline < least)) {
                other = Some((deadline, number));
            }
        }
        due.extend(other.map(|(_, number)| number));
        due
    }

    /// R: within so long a late file in the live range is seen, and a new value of a capture is found. `older` is the
    /// greatest number of prefixes in the live range beside the newest, `discovery` that of folders with capture values.
    pub fn bound(&self, older: usize, discovery: usize) -> Duration {
        let older = if older == 0 { 0 } else { self.older_interval(older, older) };
        let discovery = if discovery == 0 { 0 } else { self.discovery_interval(discovery) };
        self.by_deadline(older.max(discovery))
    }

    /// Within so long a late file behind the live range is seen and can be reported; `behind` as `older` in
    /// [`bound`](Self::bound).
    pub fn audit_bound(&self, behind: usize) -> Duration {
        self.by_deadline(self.behind_interval(behind))
    }

    fn by_deadline(&self, interval: i64) -> Duration {
        Duration::from_millis((2 * interval + 2 * self.poll).unsigned_abs())
    }

    /// By when the item should be looked at, if it asks to be.
    fn deadline(&self, now: i64, item: &Item, interval: i64) -> Option<i64> {
        let looked = item.looked.map(Timestamp::as_millisecond).filter(|looked| *looked <= now);
        let Some(looked) = looked else { return Some(i64::MIN) };
        let aged = (looked + interval <= now).then_some(looked + 2 * interval);
        let asked = item.settled.map(|settled| settled.as_millisecond().max(looked + 4 * self.poll));
        let settled = asked.filter(|asked| *asked <= now).map(|asked| asked + self.poll);
        aged.into_iter().chain(settled).min()
    }

    /// Of the `rank`-th of so many older prefixes. The second term keeps the load: 1/1 + 1/2 + … + 1/n is at most
    /// 1 + log2 n, so the growing part asks for a quarter of the slots, and the cap for another.
    fn older_interval(&self, rank: usize, older: usize) -> i64 {
        let (rank, n) = (long(rank), long(older.max(1)));
        let by_age = (rank * self.unit / 60).min(self.unit);
        let by_load = (rank * (1 + i64::from(n.ilog2()))).min(n) * 4 * self.poll;
        by_age.max(by_load)
    }

    fn behind_interval(&self, behind: usize) -> i64 {
        (self.window / 2).max(600_000).max(10 * self.poll * long(behind))
    }

    fn discovery_interval(&self, discovery: usize) -> i64 {
        (self.unit / 60).max(10 * self.poll * long(discovery))
    }
}

fn long(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX).min(1 << 20)
}

#[cfg(test)]
mod tests;
