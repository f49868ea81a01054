//! Which folders to list so that the partitions of a stretch of time are seen. Knows no store and no schedule.

use std::fmt;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp, ToSpan, Unit};

use crate::partition::{Calendar, Layout, finest};

/// A prefix's time is never shorter than so many polls, nor than a minute: else prefixes would come faster than the
/// schedule can look at them.
const POLLS_PER_PREFIX: u32 = 5;
const SHORTEST_PREFIX: Duration = Duration::from_secs(60);

/// One prefix to list, and the partitions that it can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixSpan {
    /// Ends in `/`, or is empty: everything below the location.
    pub prefix: String,
    /// Start of the first partition that files below it can belong to.
    pub from: Timestamp,
    /// End of the last one.
    pub to: Timestamp,
    /// Which of the capture combinations asked for it is.
    pub combination: usize,
}

impl fmt::Display for PrefixSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" {}..{}", self.prefix, self.from, self.to)
    }
}

/// The level of folders that listings name, for one layout and calendar.
///
/// It is the deepest level at which a folder's name follows from a time (and from the captures before it), and whose
/// unit of time holds whole partitions. A *combination* is the raw names of the folders of the first
/// [`discovery_levels`](Self::discovery_levels) levels; where there are none, the one combination is empty.
#[derive(Clone, Debug)]
pub struct PrefixPlan {
    layout: Layout,
    calendar: Calendar,
    /// The unit of a prefix and how many folders it has; `None`: one prefix, everything.
    level: Option<(Unit, usize)>,
    discovery: usize,
}

impl PrefixPlan {
    /// Chooses the level. `poll` is the pause between two ticks.
    pub fn new(layout: &Layout, calendar: &Calendar, poll: Duration) -> Self {
        let shortest = SHORTEST_PREFIX.max(poll.saturating_mul(POLLS_PER_PREFIX));
        let mut fields = Vec::new();
        let mut level = None;
        let mut discovery = 0;
        for (number, folder) in layout.folders().iter().enumerate() {
            if folder.has_capture() {
                if folder.has_time() || !fields.is_empty() {
                    break;
                }
                discovery = number + 1;
            } else if folder.has_time() {
                fields.extend(folder.fields());
                match finest(&fields) {
                    _ if !folder.is_exact() => break,
                    Some(Ok(unit)) if !holds_whole_partitions(unit, calendar, shortest) => break,
                    Some(Ok(unit)) => level = Some((unit, number + 1)),
                    _ => {}
                }
            } else if let Some((unit, folders)) = level.filter(|(_, folders)| *folders == number) {
                level = Some((unit, folders + 1));
            }
        }
        let discovery = if level.is_some() { discovery } else { 0 };
        Self { layout: layout.clone(), calendar: calendar.clone(), level, discovery }
    }

    /// The length of time that one prefix holds (months and years about); [`Duration::MAX`] for everything.
    pub fn unit_length(&self) -> Duration {
        self.level.map_or(Duration::MAX, |(unit, _)| Duration::from_secs(seconds(unit)))
    }

    /// How many leading folder levels must be listed to find the capture combinations; 0: there is just the empty one.
    pub fn discovery_levels(&self) -> usize {
        self.discovery
    }

    /// The name of a leading level's folder, where it is the same for all paths and need not be looked for.
    pub fn literal_folder(&self, level: usize) -> Option<&str> {
        self.layout.folders().get(level)?.literal()
    }

    /// True if a folder found at a leading level can hold data. Hidden names cannot.
    pub fn matches_capture_folder(&self, level: usize, name: &str) -> bool {
        !name.starts_with(['_', '.']) && self.layout.check_folder(level, name).is_ok()
    }

    /// Every prefix that can hold files of the partitions of `[from, to)`, both at partition boundaries: newest first,
    /// and for each time the combinations in the order given. Civil times that the clock skipped are covered with the
    /// partition that they belong to.
    pub fn prefixes(&self, from: Timestamp, to: Timestamp, combinations: &[Vec<String>]) -> Vec<PrefixSpan> {
        let Some((unit, _)) = self.level else {
            return vec![PrefixSpan {
                prefix: String::new(),
                from: Timestamp::MIN,
                to: Timestamp::MAX,
                combination: 0,
            }];
        };
        if from >= to {
            return Vec::new();
        }
        let (first, end) = self.calendar.civil_range(from, to);
        let mut spans = Vec::new();
        let mut next = Some(truncate(first, unit));
        while let Some(start) = next.filter(|start| *start < end) {
            next = after(start, unit);
            let last = next.unwrap_or(DateTime::MAX).saturating_sub(1.second());
            let (from, to) = (self.calendar.holding_civil(start).start, self.calendar.holding_civil(last).end);
            spans.push((start, from, to));
        }
        let single = [Vec::new()];
        let combinations = if self.discovery == 0 { &single } else { combinations };
        let mut prefixes = Vec::with_capacity(spans.len() * combinations.len());
        for (start, from, to) in spans.into_iter().rev() {
            for (number, names) in combinations.iter().enumerate() {
                prefixes.push(PrefixSpan { prefix: self.render(start, names), from, to, combination: number });
            }
        }
        prefixes
    }

    /// The prefixes behind the live range, which starts with the partition at `live_from`: back to one more window,
    /// and at least one; none of them is a prefix of the live range itself.
    pub fn behind(
        &self,
        live_from: Timestamp,
        window: SignedDuration,
        combinations: &[Vec<String>],
    ) -> Vec<PrefixSpan> {
        let Some((unit, _)) = self.level else { return Vec::new() };
        let first = self.calendar.holding(live_from);
        let (civil, _) = self.calendar.civil_range(first.start, first.end);
        let edge = self.calendar.holding_civil(truncate(civil, unit));
        let back = self.calendar.floor(live_from.saturating_sub(window).unwrap_or(Timestamp::MIN));
        let back = back.min(self.calendar.previous(&edge).start);
        let live = self.prefixes(first.start, first.end, combinations);
        let mut behind = self.prefixes(back, edge.start, combinations);
        behind.retain(|span| live.iter().all(|live| live.prefix != span.prefix));
        behind
    }

    /// The prefix whose folder's time is shown by the local clock now: where punctual writers write. Other prefixes can
    /// hold the same partition while an hour is repeated, or just after one was skipped.
    pub fn newest(&self, now: Timestamp, combination: &[String]) -> String {
        self.level.map_or_else(String::new, |_| self.render(self.calendar.local(now), combination))
    }

    /// The prefix that a located path is listed under; `None` if it has too few folders.
    pub fn prefix_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        let Some((_, folders)) = self.level else { return Some("") };
        let (slash, _) = path.match_indices('/').nth(folders - 1)?;
        Some(&path[..=slash])
    }

    fn render(&self, civil: DateTime, combination: &[String]) -> String {
        assert!(combination.len() == self.discovery, "a combination names {} folders", self.discovery);
        let (_, folders) = self.level.unwrap_or((Unit::Year, 0));
        let mut prefix = String::new();
        for (number, folder) in self.layout.folders()[..folders].iter().enumerate() {
            match combination.get(number) {
                Some(name) => prefix += name,
                None => prefix += &folder.render(&civil),
            }
            prefix.push('/');
        }
        prefix
    }
}

fn holds_whole_partitions(unit: Unit, calendar: &Calendar, shortest: Duration) -> bool {
    let step = calendar.step().unsigned_abs();
    let length = seconds(unit);
    // Days hold whole steps by the calendar's rule.
    unit >= Unit::Day || (length.is_multiple_of(step.as_secs()) && Duration::from_secs(length) >= shortest)
}

fn seconds(unit: Unit) -> u64 {
    match unit {
        Unit::Year => 365 * 86_400,
        Unit::Month => 30 * 86_400,
        Unit::Day => 86_400,
        Unit::Hour => 3_600,
        Unit::Minute => 60,
        _ => 1,
    }
}

fn truncate(civil: DateTime, unit: Unit) -> DateTime {
    let date = civil.date();
    match unit {
        Unit::Year => date.first_of_year().at(0, 0, 0, 0),
        Unit::Month => date.first_of_month().at(0, 0, 0, 0),
        Unit::Day => date.at(0, 0, 0, 0),
        Unit::Hour => date.at(civil.hour(), 0, 0, 0),
        _ => date.at(civil.hour(), civil.minute(), 0, 0),
    }
}

fn after(start: DateTime, unit: Unit) -> Option<DateTime> {
    let span = match unit {
        Unit::Year => 1.year(),
        Unit::Month => 1.month(),
        Unit::Day => 1.day(),
        Unit::Hour => 1.hour(),
        _ => 1.minute(),
    };
    start.checked_add(span).ok()
}

#[cfg(test)]
mod tests;
