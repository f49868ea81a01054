//! Which removals are believed: too many at once are withheld, with the additions of their partitions, until the files
//! return, an operator accepts, or the partition turns out to be rewritten. Knows what listings said, not how they were
//! made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Facts, SourcePlan};
use crate::file::{BASE, FileVersion};
use crate::listing::Placed;
use crate::log::SourceState;
use crate::withheld::Standing;

/// A partition's start; `None`: the one partition of a reference source.
pub(super) type Start = Option<Timestamp>;

/// How many withheld paths an alarm names.
const NAMED: usize = 3;

/// What complete listings ask of a table, before anything is decided.
#[derive(Default)]
pub(super) struct Asked {
    gone: BTreeMap<Arc<str>, FileVersion>,
    come: BTreeMap<Start, Vec<Arrival>>,
}

struct Arrival {
    file: Placed,
    /// The pinned version that it replaces.
    former: Option<FileVersion>,
}

/// A pinned file that no listing shows.
#[derive(Clone)]
struct Missing {
    version: FileVersion,
    since: Timestamp,
    /// It was not withheld before.
    is_new: bool,
    /// A complete listing of this process lacks it.
    is_looked_at: bool,
}

/// What stands in the alarm.
pub(super) struct Withholding {
    pub since: Timestamp,
    pub detail: String,
}

impl Asked {
    /// A pinned file is gone from a complete listing.
    pub fn goes(&mut self, version: &FileVersion) {
        self.gone.insert(version.path.clone(), version.clone());
    }

    /// A new file, or another version of a pinned one, is to be read.
    pub fn comes(&mut self, file: &Placed, former: Option<&FileVersion>) {
        let start = file.partition.map(|partition| partition.start);
        self.come.entry(start).or_default().push(Arrival { file: file.clone(), former: former.cloned() });
    }
}

/// The partition that a path names.
pub(super) fn start_of(path: &str, facts: &Facts<'_>) -> Start {
    let partition = facts.policy.partitioned()?.partition_of(path).ok()?;
    Some(partition.start)
}

/// Lets files come and go in `plan`, where so far stands only what left the live range.
pub(super) fn decide(
    clock: Timestamp,
    before: &SourceState,
    facts: &Facts<'_>,
    asked: Asked,
    plan: &mut SourcePlan,
) -> Option<Withholding> {
    let Asked { gone, mut come } = asked;
    let live = before.live.len() - plan.dropped.len();
    let missing = doubt(clock, before, facts, gone, &come, plan);
    let listings = digests(&missing, &come, facts);
    let (mut withheld, mut standing) = (Vec::new(), Vec::new());
    for (start, files) in missing {
        let stands = listings.get(&start).map(|listing| stand(start, listing, clock, before));
        let waiting = come.get(&start).map(Vec::as_slice).unwrap_or_default();
        let is_rewritten = stands.as_ref().is_some_and(|stands| has_settled(stands, waiting, clock, facts));
        let (accepted, rest): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_accepted(file, facts));
        if is_rewritten || rest.is_empty() {
            accepted.into_iter().chain(rest).for_each(|file| remove(file.version, before, plan));
            continue;
        }
        // A rewrite is taken as a whole: with a part of its removals alone its rows would be missing, or count twice.
        if waiting.is_empty() {
            accepted.into_iter().for_each(|file| remove(file.version, before, plan));
            withheld.extend(rest);
            continue;
        }
        withheld.extend(accepted.into_iter().chain(rest));
        standing.extend(stands);
        for arrival in come.remove(&start).into_iter().flatten() {
            plan.withheld.extend(arrival.former.map(|former| former.path));
            plan.held.push(arrival.file.version);
        }
    }
    for arrival in come.into_values().flatten() {
        plan.dropped.extend(arrival.former);
        plan.added.push(arrival.file.version);
    }
    note_standing(standing, before, plan);
    note_withheld(withheld, live, facts, plan)
}

/// What is missing and not believed at once, by partition. All other removals are let through, and counted.
fn doubt(
    clock: Timestamp,
    before: &SourceState,
    facts: &Facts<'_>,
    gone: BTreeMap<Arc<str>, FileVersion>,
    come: &BTreeMap<Start, Vec<Arrival>>,
    plan: &mut SourcePlan,
) -> BTreeMap<Start, Vec<Missing>> {
    let evicted: BTreeSet<Arc<str>> = plan.dropped.iter().map(|version| version.path.clone()).collect();
    let stay = still_missing(before, facts, &gone, &evicted, plan);
    let known = &before.withheld.paths;
    let fresh: Vec<FileVersion> = gone.into_values().filter(|version| !known.contains_key(&version.path)).collect();
    let arrivals = come.values().flatten().filter(|arrival| arrival.former.is_none()).count();
    let counts = Counts { live: before.live.len() - evicted.len(), stay: &stay, fresh: fresh.len(), arrivals };
    let is_doubted = is_doubted(clock, before, facts, counts);
    let mut missing: BTreeMap<Start, Vec<Missing>> = BTreeMap::new();
    for file in stay {
        missing.entry(start_of(&file.version.path, facts)).or_default().push(file);
    }
    let mut applied = 0;
    for version in fresh {
        let start = start_of(&version.path, facts);
        // A snapshot is written once: what is missing of it was taken away.
        if is_doubted || missing.contains_key(&start) || version.path.starts_with(BASE) {
            let file = Missing { version, since: clock, is_new: true, is_looked_at: true };
            missing.entry(start).or_default().push(file);
        } else {
            remove(version, before, plan);
            applied += 1;
        }
    }
    if applied > 0 {
        let cycle = facts.prefixes.revisit_bound(clock);
        plan.change.vanished = Some(before.withheld.vanished.plus(applied, cycle, clock));
    }
    missing
}

/// What was withheld and is not back. What is listed again has returned, whatever its version.
fn still_missing(
    before: &SourceState,
    facts: &Facts<'_>,
    gone: &BTreeMap<Arc<str>, FileVersion>,
    evicted: &BTreeSet<Arc<str>>,
    plan: &mut SourcePlan,
) -> Vec<Missing> {
    let mut stay = Vec::new();
    for (path, since) in &before.withheld.paths {
        let Some(version) = before.live.get(path).filter(|_| !evicted.contains(path)) else { continue };
        if facts.view.files().contains_key(path) {
            plan.change.returned.push(path.clone());
            continue;
        }
        let (version, is_looked_at) = (version.clone(), gone.contains_key(path));
        stay.push(Missing { version, since: *since, is_new: false, is_looked_at });
    }
    stay
}

struct Counts<'a> {
    /// Pinned files that did not leave the live range.
    live: usize,
    stay: &'a [Missing],
    fresh: usize,
    /// Files of new paths.
    arrivals: usize,
}

/// Removals of one revisit cycle are judged together: listings arrive prefix by prefix.
fn is_doubted(clock: Timestamp, before: &SourceState, facts: &Facts<'_>, counts: Counts<'_>) -> bool {
    let Counts { live, stay, fresh, arrivals } = counts;
    let Some(limit) = facts.policy.guard.limit.filter(|_| fresh > 0) else { return false };
    let cycle = facts.prefixes.revisit_bound(clock);
    let lately = |file: &&Missing| clock.duration_since(file.since).unsigned_abs() < cycle;
    let (known, recent) = (stay.len(), stay.iter().filter(lately).count() as u64);
    let removed = before.withheld.vanished.within(cycle, clock);
    let listed = (live - known) as u64;
    let is_emptied = listed == fresh as u64 && arrivals == 0;
    is_emptied || limit.is_passed(removed + recent + fresh as u64, removed + recent + listed)
}

/// A guard that was turned off accepts all that a listing has confirmed.
fn is_accepted(file: &Missing, facts: &Facts<'_>) -> bool {
    let is_ordered = facts.accepted.is_some_and(|until| file.since <= until);
    file.is_looked_at && (is_ordered || facts.policy.guard.limit.is_none())
}

/// Takes a pinned file away, and out of the quarantine.
fn remove(version: FileVersion, before: &SourceState, plan: &mut SourcePlan) {
    if before.quarantined.contains_key(&version.path) {
        plan.released.push(version.path.clone());
    }
    plan.dropped.push(version);
}

/// Since when a partition is listed as it is now.
fn stand(start: Start, listing: &str, clock: Timestamp, before: &SourceState) -> Standing {
    match before.withheld.standing(start) {
        Some(known) if known.listing == listing => known.clone(),
        _ => Standing { partition: start, listing: listing.to_owned(), since: clock },
    }
}

/// True if complete listings of all its prefixes show the partition unchanged for `settle`.
fn has_settled(stands: &Standing, waiting: &[Arrival], clock: Timestamp, facts: &Facts<'_>) -> bool {
    let Some(first) = waiting.first() else { return false };
    let settled = stands.since + facts.policy.guard.settle;
    let prefixes = match &first.file.partition {
        Some(partition) => facts.prefixes.of_range(partition.start, partition.end),
        None => facts.prefixes.of_path(&first.file.version.path).into_iter().collect(),
    };
    let is_listed = |prefix: &String| facts.view.listed_at(prefix).is_some_and(|at| at >= settled);
    clock >= settled && prefixes.iter().all(is_listed)
}

/// Digests of what is listed in the partitions where files are missing and others have come.
fn digests(
    missing: &BTreeMap<Start, Vec<Missing>>,
    come: &BTreeMap<Start, Vec<Arrival>>,
    facts: &Facts<'_>,
) -> BTreeMap<Start, String> {
    let mut sums: BTreeMap<Start, Digest> = BTreeMap::new();
    sums.extend(missing.keys().filter(|start| come.contains_key(start)).map(|start| (*start, Digest::default())));
    if sums.is_empty() {
        return BTreeMap::new();
    }
    for file in facts.view.files().values() {
        if let Some(sum) = sums.get_mut(&file.partition.map(|partition| partition.start)) {
            sum.add(&file.version);
        }
    }
    sums.into_iter().map(|(start, sum)| (start, format!("{:016x}", sum.0))).collect()
}

/// FNV-1a: the same in every build, which a digest that the log keeps has to be.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, version: &FileVersion) {
        let size = version.size.to_le_bytes();
        let bytes = version.path.bytes().chain([0]).chain(size).chain(version.etag.bytes()).chain([0]);
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn note_standing(standing: Vec<Standing>, before: &SourceState, plan: &mut SourcePlan) {
    let stands = |start: Start| standing.iter().any(|stands| stands.partition == start);
    let ended = before.withheld.standing.iter().map(|stood| stood.partition).filter(|start| !stands(*start));
    plan.change.resolved = ended.collect();
    plan.change.standing =
        standing.into_iter().filter(|stands| before.withheld.standing(stands.partition) != Some(stands)).collect();
}

fn note_withheld(
    mut withheld: Vec<Missing>,
    live: usize,
    facts: &Facts<'_>,
    plan: &mut SourcePlan,
) -> Option<Withholding> {
    withheld.sort_by(|a, b| a.version.path.cmp(&b.version.path));
    let since = withheld.iter().map(|file| file.since).min()?;
    let names: Vec<&str> = withheld.iter().take(NAMED).map(|file| &*file.version.path).collect();
    let (names, count) = (names.join(", "), withheld.len());
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    let waiting = match plan.held.len() {
        0 => String::new(),
        held => format!("; {held} new files of the same partitions wait with them"),
    };
    let detail = format!(
        "{count} of {live} files are gone from the listing and stay in the table until they return: {names}{more}{waiting}; \
         if they were meant to go: highwater accept-removals {}",
        facts.policy.name
    );
    for file in withheld {
        if file.is_new {
            plan.change.withheld.push(file.version.path.clone());
        }
        plan.withheld.insert(file.version.path);
    }
    Some(Withholding { since, detail })
}
