//! Partitions that settled with far less than their source's partitions usually hold.
//!
//! The rule: fewer than a quarter of the median number of files, or of bytes, of the settled partitions of the last
//! window, of which there are at least eight that are not thin themselves. The median, because half of the partitions
//! may be anything without moving it (a mean follows one giant); a quarter, because the night of a source is rarely
//! thinner than that against its day, while a writer that lost a shard or died half-way is; eight, because the median of
//! fewer is itself a matter of luck. Partitions that are in an open entry are no measure: a long outage must not become
//! what is usual.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Ledger;
use crate::file::FileVersion;
use crate::holes::{Hole, HoleCause, HoleEnd};
use crate::log::SourceState;
use crate::partition::Partition;
use crate::plan::Facts;
use crate::plan::source::{Planned, Times};
use crate::policy::Partitioned;

/// Settled partitions that are needed to say what is usual.
const ENOUGH: usize = 8;
/// A partition is thin below one part in so many of the median.
const PARTS: u64 = 4;

/// What is known of one source after its plan.
pub(super) struct Look<'a> {
    pub times: Times,
    pub before: &'a SourceState,
    pub facts: &'a Facts<'a>,
    pub time: &'a Partitioned,
    pub planned: &'a Planned,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fill {
    files: u64,
    bytes: u64,
}

/// Looks when the watermark passes a partition, or when an open entry's partition changed; else costs nothing.
pub(super) fn tend(ledger: &mut Ledger<'_>, look: &Look<'_>) {
    let settled = look.settled();
    let known = ledger.has(&look.facts.policy.name, HoleCause::UnderFilled);
    let open = if known { ledger.of(&look.facts.policy.name, HoleCause::UnderFilled) } else { Vec::new() };
    let changed = if open.is_empty() { BTreeSet::new() } else { look.changed() };
    let touched: Vec<&Hole> = open.iter().filter(|hole| changed.iter().any(|p| holds(hole, p))).collect();
    if settled.is_empty() && touched.is_empty() {
        return;
    }
    let Some(from) = look.usual_from() else { return };
    let first = touched.iter().map(|hole| hole.from).fold(from, Timestamp::min);
    let fills = look.fills(first);
    if let Some(usual) = usual(look, &fills, &open, from, look.times.watermark).enough() {
        for hole in touched {
            recheck(ledger, look, hole, &fills, &changed, usual);
        }
    }
    check(ledger, look, &settled, &fills, from);
}

impl Look<'_> {
    /// Live partitions that the watermark passes with this plan. A first start has nothing to compare with.
    fn settled(&self) -> Vec<Partition> {
        let (Some(passed), Some(bound)) = (self.times.watermark_before, self.planned.plan.evict_before) else {
            return Vec::new();
        };
        let mut settled = Vec::new();
        if passed < self.times.watermark {
            let mut partition = self.time.calendar.holding(passed.max(bound));
            while partition.end <= self.times.watermark {
                if partition.start >= bound {
                    settled.push(partition);
                }
                partition = self.time.calendar.next(&partition);
            }
        }
        settled
    }

    /// Partitions whose files this plan changes.
    fn changed(&self) -> BTreeSet<Partition> {
        let plan = &self.planned.plan;
        plan.added.iter().chain(&plan.dropped).filter_map(|version| self.partition_of(&version.path)).collect()
    }

    fn partition_of(&self, path: &str) -> Option<Partition> {
        match self.facts.view.files().get(path) {
            Some(file) => file.partition,
            None => self.time.partition_of(path).ok(),
        }
    }

    /// Where the partitions begin that say what is usual: one window back, in the live range.
    fn usual_from(&self) -> Option<Timestamp> {
        let bound = self.planned.plan.evict_before?;
        Some(bound.max(self.time.calendar.floor(self.times.watermark - self.time.window)))
    }

    /// What the table holds of each settled partition from `first` on, with this plan.
    fn fills(&self, first: Timestamp) -> BTreeMap<Timestamp, Fill> {
        let plan = &self.planned.plan;
        let added: BTreeMap<&str, &FileVersion> = plan.added.iter().map(|version| (&*version.path, version)).collect();
        let dropped: BTreeSet<&str> = plan.dropped.iter().map(|version| &*version.path).collect();
        let mut fills: BTreeMap<Timestamp, Fill> = BTreeMap::new();
        let seen = self.facts.view.files();
        let withheld = plan.withheld.iter().filter(|path| !seen.contains_key(*path));
        let withheld = withheld.map(|path| (path, self.partition_of(path)));
        for (path, partition) in seen.iter().map(|(path, file)| (path, file.partition)).chain(withheld) {
            let Some(partition) = partition else { continue };
            if partition.start < first || partition.end > self.times.watermark {
                continue;
            }
            let kept = || self.before.live.get(path).filter(|_| !dropped.contains(&**path));
            if let Some(version) = added.get(&**path).copied().or_else(kept) {
                let fill = fills.entry(partition.start).or_default();
                fill.files += 1;
                fill.bytes += version.size;
            }
        }
        fills
    }
}

/// What is usual: sorted numbers, of which the middle one counts.
#[derive(Clone, Debug, Default)]
struct Usual {
    files: Vec<u64>,
    bytes: Vec<u64>,
}

impl Usual {
    fn add(&mut self, fill: Fill) {
        for (sorted, value) in [(&mut self.files, fill.files), (&mut self.bytes, fill.bytes)] {
            sorted.insert(sorted.partition_point(|known| *known <= value), value);
        }
    }

    fn enough(&self) -> Option<Fill> {
        if self.files.len() < ENOUGH {
            return None;
        }
        let middle = (self.files.len() - 1) / 2;
        Some(Fill { files: self.files[middle], bytes: self.bytes[middle] })
    }
}

impl Fill {
    fn is_thin(self, usual: Self) -> bool {
        self.files * PARTS < usual.files || self.bytes * PARTS < usual.bytes
    }

    fn against(self, usual: Self) -> String {
        format!("{} of usually {} files, {} of usually {} bytes", self.files, usual.files, self.bytes, usual.bytes)
    }
}

fn holds(hole: &Hole, partition: &Partition) -> bool {
    hole.from <= partition.start && partition.start < hole.to
}

fn fill_of(fills: &BTreeMap<Timestamp, Fill>, partition: &Partition) -> Fill {
    fills.get(&partition.start).copied().unwrap_or_default()
}

/// The partitions of `[from, to)` that are in no open entry.
fn usual(look: &Look<'_>, fills: &BTreeMap<Timestamp, Fill>, open: &[Hole], from: Timestamp, to: Timestamp) -> Usual {
    let mut usual = Usual::default();
    let mut partition = look.time.calendar.holding(from);
    while partition.end <= to {
        if !open.iter().any(|hole| holds(hole, &partition)) {
            usual.add(fill_of(fills, &partition));
        }
        partition = look.time.calendar.next(&partition);
    }
    usual
}

/// Each partition that just settled is held against those before it.
fn check(
    ledger: &mut Ledger<'_>,
    look: &Look<'_>,
    settled: &[Partition],
    fills: &BTreeMap<Timestamp, Fill>,
    from: Timestamp,
) {
    let (Some(first), source) = (settled.first(), &look.facts.policy.name) else { return };
    let mut open = ledger.of(source, HoleCause::UnderFilled);
    let mut usual = usual(look, fills, &open, from, first.start);
    for partition in settled {
        let fill = fill_of(fills, partition);
        let measure = usual.enough().filter(|measure| fill.is_thin(*measure));
        let Some(measure) = measure else {
            if !open.iter().any(|hole| holds(hole, partition)) {
                usual.add(fill);
            }
            continue;
        };
        let known = open.iter_mut().find(|hole| hole.to == partition.start);
        let blank = ledger.hole(source, HoleCause::UnderFilled, partition.start, partition.end);
        let hole = match &known {
            Some(known) => Hole { to: partition.end, count: Some(known.stands_for() + 1), ..(*known).clone() },
            None => blank,
        };
        let hole = Hole { detail: Some(fill.against(measure)), ..hole };
        match known {
            Some(known) => known.clone_from(&hole),
            None => open.push(hole.clone()),
        }
        ledger.put(hole);
    }
}

/// Of an entry whose partitions changed, those that caught up are closed, and the others stay open.
fn recheck(
    ledger: &mut Ledger<'_>,
    look: &Look<'_>,
    hole: &Hole,
    fills: &BTreeMap<Timestamp, Fill>,
    changed: &BTreeSet<Partition>,
    usual: Fill,
) {
    let mut runs: Vec<(bool, Hole)> = Vec::new();
    let mut partition = look.time.calendar.holding(hole.from);
    while partition.start < hole.to {
        let thin = !changed.contains(&partition) || fill_of(fills, &partition).is_thin(usual);
        match runs.last_mut().filter(|(last, _)| *last == thin) {
            Some((_, run)) => {
                run.to = partition.end;
                run.count = Some(run.stands_for() + 1);
            }
            None => {
                let (from, to) = (partition.start, partition.end);
                runs.push((thin, Hole { from, to, count: None, ..hole.clone() }));
            }
        }
        partition = look.time.calendar.next(&partition);
    }
    if runs.iter().all(|(thin, _)| *thin) {
        return;
    }
    for (thin, run) in runs {
        match thin {
            true => ledger.put(run),
            false => ledger.end_part(run, HoleEnd::Filled),
        }
    }
}
