//! One source's looks at its store: which are due, what they saw, and which prefixes a path or a time stands under.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};

use super::{Item, LISTED, PrefixPlan, PrefixSpan, Schedule, Snapshot, View, Zone, settled_at};
use crate::file::{BASE, is_hidden};
use crate::holes::Hole;
use crate::log::SourceState;
use crate::plan::{Prefixes, pinned_base};
use crate::policy::{BasePolicy, Partitioned, Retention, SourcePolicy, TimePolicy};
use crate::ports::Store;

/// Looks of one source that are under way at once.
const AT_ONCE: usize = 8;
/// So much of a long hole, in prefixes, is looked into at its newest end: it gets shorter from there.
const AT_THE_END_OF_A_HOLE: u32 = 256;
/// Pause between looks at base snapshots: they come once in hours or days.
const BASE_EVERY: Duration = Duration::from_secs(600);

/// Lists one source, and remembers what the last complete listings said.
#[derive(Debug)]
pub struct SourceLister {
    policy: Arc<SourcePolicy>,
    poll: Duration,
    prefixes: SourcePrefixes,
    /// Of the range that was last looked at: it is another one only once a step.
    spans: Option<Arc<Spans>>,
    view: View,
    /// When a prefix was last looked at, whether or not the look was complete.
    looked: BTreeMap<String, Timestamp>,
    /// Folders with capture values, by prefix.
    folders: BTreeMap<String, Folders>,
    base: BaseLooks,
    /// Prefixes that hold time of open holes.
    in_holes: BTreeSet<String>,
}

/// What holes say is missing of a source and may be filled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missed<'a> {
    /// The holes.
    pub holes: &'a [Hole],
    /// How many prefixes are listed for them in one look.
    pub prefixes: usize,
}

/// Looks at base snapshots.
#[derive(Clone, Debug, Default)]
struct BaseLooks {
    looked: Option<Timestamp>,
    /// The snapshots that are listed, by prefix.
    keep: BTreeSet<String>,
    /// Time of the oldest of them.
    oldest: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
struct Folders {
    level: usize,
    looked: Option<Timestamp>,
    /// A look at it was complete.
    complete: bool,
    names: Vec<String>,
}

/// Under which prefixes the files of a source are listed.
#[derive(Clone, Debug)]
struct SourcePrefixes {
    /// `None`: a reference source, listed whole.
    plan: Option<PrefixPlan>,
    combinations: Vec<Vec<String>>,
    /// Folders that were never looked into: files of any time may lie below.
    unknown: Vec<String>,
    base: Option<BasePolicy>,
}

impl SourcePrefixes {
    fn of_path(&self, path: &str) -> Option<String> {
        if path.starts_with(BASE) {
            return self.base.as_ref()?.prefix_of(path).map(str::to_owned);
        }
        match &self.plan {
            None => Some(String::new()),
            Some(plan) => plan.prefix_of(path).map(str::to_owned),
        }
    }

    fn of_range(&self, from: Timestamp, to: Timestamp) -> Vec<String> {
        match &self.plan {
            None => vec![String::new()],
            Some(plan) => {
                let known = plan.prefixes(from, to, &self.combinations).into_iter().map(|span| span.prefix);
                known.chain(self.unknown.iter().cloned()).collect()
            }
        }
    }
}

impl Prefixes for SourceLister {
    fn of_path(&self, path: &str) -> Option<String> {
        self.prefixes.of_path(path)
    }

    fn of_range(&self, from: Timestamp, to: Timestamp) -> Vec<String> {
        self.prefixes.of_range(from, to)
    }

    fn revisit_bound(&self, clock: Timestamp) -> Duration {
        self.revisit_bound(clock)
    }
}

impl SourceLister {
    /// Knows nothing yet. `poll` is the pause between two ticks.
    pub fn new(policy: SourcePolicy, poll: Duration) -> Self {
        let plan = policy.partitioned().map(|time| PrefixPlan::new(&time.layout, &time.calendar, poll));
        let base = policy.partitioned().and_then(Partitioned::base).cloned();
        let combinations = match &plan {
            Some(plan) if plan.discovery_levels() > 0 => Vec::new(),
            _ => vec![Vec::new()],
        };
        Self {
            policy: Arc::new(policy),
            poll,
            prefixes: SourcePrefixes { plan, combinations, unknown: Vec::new(), base },
            base: BaseLooks::default(),
            in_holes: BTreeSet::new(),
            spans: None,
            view: View::default(),
            looked: BTreeMap::new(),
            folders: BTreeMap::new(),
        }
    }

    /// The source's policy.
    pub fn policy(&self) -> &SourcePolicy {
        &self.policy
    }

    /// What listings saw.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Which prefixes there are.
    pub fn prefixes(&self) -> &dyn Prefixes {
        self
    }

    /// Looks at what is due, or at everything in the live range; failures are noted in the view. Answers how many
    /// prefixes were looked at.
    pub async fn look(
        &mut self,
        store: &dyn Store,
        clock: Timestamp,
        watermark: Option<Timestamp>,
        before: Option<&SourceState>,
        everything: bool,
        missed: Missed<'_>,
    ) -> usize {
        if everything {
            self.view.forget_failures();
        }
        let policy = self.policy.clone();
        let Some(time) = policy.partitioned() else {
            return self.look_at_reference(store, clock, everything).await;
        };
        let mut looks = self.look_at_base(store, clock, before, everything).await;
        if everything {
            self.remember(before);
            looks += self.discover(store, clock).await;
        }
        let range = LiveRange::new(time, clock, watermark, before, self.base.oldest);
        let from = range.from;
        let spans = self.spans(time, range);
        let (mut due, folders) = self.due(time, spans.as_deref(), clock, everything);
        let known = if folders.is_empty() { Vec::new() } else { self.prefixes.combinations.clone() };
        for folder in &folders {
            looks += self.list_folders(store, clock, folder.clone()).await;
        }
        if !folders.is_empty() && self.prefixes.combinations != known {
            // What was found is listed at once, so that no tick takes it for known and does not know its files.
            let spans = self.spans(time, range);
            let live = spans.iter().flat_map(|spans| &spans.live);
            let is_new = |span: &&PrefixSpan| !known.contains(&self.prefixes.combinations[span.combination]);
            due.extend(live.filter(is_new).map(|span| span.prefix.clone()));
        }
        looks += self.list(store, clock, due).await;
        looks += self.look_further_back(store, time, clock, watermark, before, from).await;
        looks + self.look_into_holes(store, time, clock, before, missed).await
    }

    /// Lists what holes say is missing, the newest time first: a few prefixes a tick, or all near its newest end.
    async fn look_into_holes(
        &mut self,
        store: &dyn Store,
        time: &Partitioned,
        clock: Timestamp,
        before: Option<&SourceState>,
        missed: Missed<'_>,
    ) -> usize {
        self.in_holes.clear();
        let bound = before.and_then(|before| before.evict_before).filter(|_| time.keeps_rows());
        let (Some(plan), Some(bound)) = (&self.prefixes.plan, bound) else { return 0 };
        let mut due: Vec<(Option<Timestamp>, Reverse<Timestamp>, String)> = Vec::new();
        let reach = SignedDuration::try_from(plan.unit_length().saturating_mul(AT_THE_END_OF_A_HOLE)).ok();
        for hole in missed.holes {
            let to = time.calendar.holding(hole.to - SignedDuration::from_nanos(1)).end;
            let near = reach.and_then(|reach| to.checked_sub(reach).ok()).unwrap_or(Timestamp::MIN);
            let from = time.calendar.floor(hole.from.max(bound).max(near));
            for span in plan.prefixes(from, to, &self.prefixes.combinations) {
                let is_listed = self.view.listed_at(&span.prefix).is_some_and(|at| at >= hole.since);
                let looked = self.looked.get(&span.prefix).copied();
                if !is_listed && looked != Some(clock) {
                    due.push((looked, Reverse(span.from), span.prefix.clone()));
                }
                self.in_holes.insert(span.prefix);
            }
        }
        // One that failed comes after those that were not tried.
        due.sort();
        due.dedup();
        due.truncate(missed.prefixes);
        let due = due.into_iter().map(|(_, _, prefix)| prefix).collect();
        self.list(store, clock, due).await
    }

    /// Before the first batch nobody knows how new the newest data is. Where it is old, the live range begins earlier than
    /// what was listed: what lies between is listed too, so that the first batch is whole.
    async fn look_further_back(
        &mut self,
        store: &dyn Store,
        time: &Partitioned,
        clock: Timestamp,
        watermark: Option<Timestamp>,
        before: Option<&SourceState>,
        from: Timestamp,
    ) -> usize {
        let is_first = before.is_none_or(|before| before.evict_before.is_none());
        let newest = self.view.newest_end(clock + time.max_skew, std::iter::empty());
        let (true, false, Some(newest)) = (is_first, time.keeps_rows(), newest) else { return 0 };
        let watermark = watermark.unwrap_or_else(|| time.calendar.frontier(clock, time.settle));
        let bound = time.eviction_bound(watermark, Some(newest));
        let Some(plan) = self.prefixes.plan.as_ref().filter(|_| bound < from) else { return 0 };
        let spans = plan.prefixes(bound, from, &self.prefixes.combinations);
        let unlisted = spans.into_iter().map(|span| span.prefix).filter(|prefix| self.view.listed_at(prefix).is_none());
        let due = unlisted.collect();
        self.list(store, clock, due).await
    }

    /// Lists all that holes say is missing.
    pub async fn look_at_missed(
        &mut self,
        store: &dyn Store,
        clock: Timestamp,
        before: Option<&SourceState>,
        holes: &[Hole],
    ) -> usize {
        let policy = self.policy.clone();
        let Some(time) = policy.partitioned() else { return 0 };
        self.look_into_holes(store, time, clock, before, Missed { holes, prefixes: usize::MAX }).await
    }

    /// Lists the prefixes of these paths again.
    pub async fn look_again(&mut self, store: &dyn Store, clock: Timestamp, paths: &[&str]) -> usize {
        let prefixes: BTreeSet<String> = paths.iter().filter_map(|path| self.prefixes.of_path(path)).collect();
        self.list(store, clock, prefixes.into_iter().collect()).await
    }

    /// A committed plan took in what changed; what lies behind the audited time is forgotten.
    pub fn settled(&mut self, state: Option<&SourceState>, watermark: Option<Timestamp>, clock: Timestamp) {
        self.view.settled(clock);
        let policy = self.policy.clone();
        let Some(time) = policy.partitioned() else { return };
        let range = LiveRange::new(time, clock, watermark, state, self.base.oldest);
        let spans = self.spans(time, range);
        // Where prefixes do not follow from time there is one, of everything, besides those of snapshots.
        let is_live =
            |prefix: &str| spans.as_ref().map_or(!prefix.starts_with(BASE), |spans| spans.keep.contains(prefix));
        let (folders, base, in_holes) = (&self.folders, &self.base.keep, &self.in_holes);
        self.looked.retain(|prefix, _| is_live(prefix) || in_holes.contains(prefix));
        let is_known =
            |prefix: &str| folders.contains_key(prefix) || base.contains(prefix) || in_holes.contains(prefix);
        self.view.retain(|prefix| is_live(prefix) || is_known(prefix));
    }

    /// The prefixes of a range; `None` where they do not follow from time.
    fn spans(&mut self, time: &Partitioned, range: LiveRange) -> Option<Arc<Spans>> {
        let plan = self.prefixes.plan.as_ref()?;
        if let Some(spans) = self.spans.as_ref().filter(|spans| spans.range == range) {
            return Some(spans.clone());
        }
        let live = plan.prefixes(range.from, range.to, &self.prefixes.combinations);
        let behind = plan.behind(range.from, time.window, &self.prefixes.combinations);
        let keep = live.iter().chain(&behind).map(|span| span.prefix.clone()).collect();
        let spans = Arc::new(Spans { range, live, behind, keep });
        self.spans = Some(spans.clone());
        Some(spans)
    }

    /// R: a late file anywhere in the live range is seen within it, and so is a new value of a capture.
    pub fn revisit_bound(&self, clock: Timestamp) -> Duration {
        let (Some(plan), Some(time)) = (&self.prefixes.plan, self.policy.partitioned()) else {
            return match self.policy.time {
                TimePolicy::Reference { every } => every + self.poll,
                TimePolicy::Partitioned(_) => self.poll,
            };
        };
        let to = time.calendar.holding(clock + time.max_skew).end;
        let from = time.calendar.floor(clock - time.settle - time.window - time.calendar.step());
        let older = plan.prefixes(from, to, &[vec![String::new(); plan.discovery_levels()]]).len().saturating_sub(1);
        let discovery = if plan.discovery_levels() > 0 { self.folders.len().max(1) } else { 0 };
        self.schedule(plan, time).bound(older, discovery)
    }

    fn schedule(&self, plan: &PrefixPlan, time: &Partitioned) -> Schedule {
        Schedule::new(self.poll, plan.unit_length(), time.window.unsigned_abs())
    }

    /// Looks for snapshots now and then, and lists those that a table may stand on. One that is complete only by the name
    /// of a newer one is listed after that was found, so that no listing is of a snapshot in the making.
    async fn look_at_base(
        &mut self,
        store: &dyn Store,
        clock: Timestamp,
        before: Option<&SourceState>,
        everything: bool,
    ) -> usize {
        let policy = self.policy.clone();
        let Some((time, base)) = policy.partitioned().and_then(|time| Some((time, time.base()?))) else { return 0 };
        let pause = BASE_EVERY.max(self.poll.saturating_mul(10));
        let rests = self.base.looked.is_some_and(|at| clock.duration_since(at).unsigned_abs() < pause);
        let failed = self.view.failures().any(|(prefix, _)| prefix.starts_with(BASE));
        if rests && !failed && !everything {
            return 0;
        }
        self.base.looked = Some(clock);
        let mut looks = self.find_snapshots(store, base).await;
        let in_use = before.and_then(|before| pinned_base(base, before));
        let snapshots = self.view.snapshots();
        let newer = snapshots.complete(time, clock).take_while(|snapshot| Some(snapshot.time) > in_use);
        let mut listed: Vec<Snapshot> = newer.take(LISTED).collect();
        self.base.oldest = listed.last().map(|snapshot| snapshot.time);
        listed.extend(in_use.and_then(|time| snapshots.of(time)));
        // The folder of the one in use may be gone: that is how its files are missed.
        let pinned = before.into_iter().flat_map(|before| before.live.keys()).filter_map(|path| base.prefix_of(path));
        self.base.keep = listed.iter().map(|snapshot| snapshot.prefix.to_string()).collect();
        self.base.keep.extend(pinned.map(str::to_owned));
        let due = self.base.keep.iter().cloned().collect();
        looks += self.list(store, clock, due).await;
        looks
    }

    /// Walks the base's folders down to the last level that tells time.
    async fn find_snapshots(&mut self, store: &dyn Store, base: &BasePolicy) -> usize {
        let (mut looks, mut found) = (0, Vec::new());
        let mut due = vec![(0, BASE.to_owned())];
        while let Some((level, prefix)) = due.pop() {
            looks += 1;
            let names = match store.folders(&self.policy.name, &prefix).await {
                Ok(names) => names,
                Err(fault) => {
                    self.view.failed(&prefix, fault.to_string());
                    return looks;
                }
            };
            self.view.mended(&prefix);
            let fits = |name: &String| !is_hidden(name) && base.layout.check_folder(level, name).is_ok();
            for name in names.iter().filter(|name| fits(name)) {
                let below = format!("{prefix}{name}/");
                if level + 1 < base.layout.time_folders() {
                    due.push((level + 1, below));
                } else if let Ok(time) = base.time_of_folder(&below) {
                    found.push(Snapshot { time, prefix: below.into() });
                }
            }
        }
        self.view.found_snapshots(found.into_iter().collect());
        looks
    }

    async fn look_at_reference(&mut self, store: &dyn Store, clock: Timestamp, everything: bool) -> usize {
        let TimePolicy::Reference { every } = self.policy.time else { return 0 };
        let elapsed = self.looked.get("").is_none_or(|at| clock.duration_since(*at).unsigned_abs() >= every);
        let due = elapsed || self.view.failures().next().is_some();
        if !everything && !due {
            return 0;
        }
        self.list(store, clock, vec![String::new()]).await
    }

    /// Prefixes to list, and folders to look for new capture values in.
    fn due(
        &self,
        time: &Partitioned,
        spans: Option<&Spans>,
        clock: Timestamp,
        everything: bool,
    ) -> (Vec<String>, Vec<String>) {
        let (Some(plan), Some(spans)) = (&self.prefixes.plan, spans) else { return (Vec::new(), Vec::new()) };
        let Spans { live, behind, .. } = spans;
        if everything {
            return (live.iter().map(|span| span.prefix.clone()).collect(), Vec::new());
        }
        let schedule = self.schedule(plan, time);
        let (mut prefixes, mut folders) = (Vec::new(), Vec::new());
        for combination in 0..self.prefixes.combinations.len().max(1) {
            let ours = |span: &&PrefixSpan| span.combination == combination;
            let newest = self.prefixes.combinations.get(combination).map(|names| plan.newest(clock, names));
            let mut names: Vec<&str> = Vec::new();
            let mut items = Vec::new();
            for span in live.iter().filter(ours) {
                let is_newest = newest.as_ref() == Some(&span.prefix);
                let zone = if is_newest { Zone::Newest } else { Zone::InWindow };
                let complete = self.view.listed_at(&span.prefix);
                let settled = settled_at(&time.calendar, span, time.settle, complete, clock);
                items.push(Item { zone, looked: self.looked.get(&span.prefix).copied(), settled });
                names.push(&span.prefix);
            }
            for span in behind.iter().filter(ours) {
                let looked = self.looked.get(&span.prefix).copied();
                items.push(Item { zone: Zone::Behind, looked, settled: None });
                names.push(&span.prefix);
            }
            let prefix_count = names.len();
            if combination == 0 {
                for (prefix, folder) in &self.folders {
                    let settled = (!folder.complete).then_some(Timestamp::MIN);
                    items.push(Item { zone: Zone::Discovery, looked: folder.looked, settled });
                    names.push(prefix);
                }
            }
            for number in schedule.due(clock, &items) {
                let to = if number < prefix_count { &mut prefixes } else { &mut folders };
                to.push(names[number].to_owned());
            }
        }
        (prefixes, folders)
    }

    async fn list(&mut self, store: &dyn Store, clock: Timestamp, prefixes: Vec<String>) -> usize {
        let name = self.policy.name.clone();
        let name = &name;
        let looks = prefixes.into_iter().map(|prefix| async move {
            let seen = store.files(name, &prefix).await;
            (prefix, seen)
        });
        let mut looks = futures::stream::iter(looks).buffer_unordered(AT_ONCE);
        let mut count = 0;
        while let Some((prefix, seen)) = looks.next().await {
            count += 1;
            match seen {
                Ok(files) => self.view.listed(&self.policy, &prefix, clock, files),
                Err(fault) => self.view.failed(&prefix, fault.to_string()),
            }
            self.looked.insert(prefix, clock);
        }
        count
    }

    /// Capture values of pinned files are known, even where their folders are gone: that is how the files are missed.
    fn remember(&mut self, before: Option<&SourceState>) {
        let levels = self.prefixes.plan.as_ref().map_or(0, PrefixPlan::discovery_levels);
        let own = before.iter().flat_map(|before| before.live.keys()).filter(|path| !path.starts_with(BASE));
        for path in own {
            let mut prefix = String::new();
            for (level, name) in path.split('/').take(levels).enumerate() {
                let folder = self.folders.entry(prefix.clone()).or_default();
                folder.level = level;
                if !folder.names.iter().any(|known| known == name) {
                    folder.names.push(name.to_owned());
                }
                prefix = format!("{prefix}{name}/");
            }
        }
    }

    /// Walks the leading folder levels for capture values.
    async fn discover(&mut self, store: &dyn Store, clock: Timestamp) -> usize {
        let levels = self.prefixes.plan.as_ref().map_or(0, PrefixPlan::discovery_levels);
        if levels == 0 {
            return 0;
        }
        self.folders.entry(String::new()).or_default();
        let mut looks = 0;
        let mut due: Vec<String> = self.folders.keys().cloned().collect();
        while let Some(prefix) = due.pop() {
            looks += self.list_folders_here(store, clock, &prefix, &mut due).await;
        }
        self.combine(levels);
        looks
    }

    /// Looks into one folder for new capture values, and below those that are new.
    async fn list_folders(&mut self, store: &dyn Store, clock: Timestamp, prefix: String) -> usize {
        let levels = self.prefixes.plan.as_ref().map_or(0, PrefixPlan::discovery_levels);
        let (mut looks, mut due) = (0, vec![prefix]);
        while let Some(prefix) = due.pop() {
            looks += self.list_folders_here(store, clock, &prefix, &mut due).await;
        }
        self.combine(levels);
        looks
    }

    /// One folder; those below it that were not known are due next.
    async fn list_folders_here(
        &mut self,
        store: &dyn Store,
        clock: Timestamp,
        prefix: &str,
        due: &mut Vec<String>,
    ) -> usize {
        let Some(plan) = &self.prefixes.plan else { return 0 };
        let level = self.folders.get(prefix).map_or(0, |folder| folder.level);
        let (names, looks) = match plan.literal_folder(level) {
            Some(name) => (vec![name.to_owned()], 0),
            None => match store.folders(&self.policy.name, prefix).await {
                Ok(names) => (names.into_iter().filter(|name| plan.matches_capture_folder(level, name)).collect(), 1),
                Err(fault) => {
                    self.view.failed(prefix, fault.to_string());
                    self.folders.entry(prefix.to_owned()).or_default().looked = Some(clock);
                    return 1;
                }
            },
        };
        self.view.mended(prefix);
        if level + 1 < plan.discovery_levels() {
            for name in &names {
                let below = format!("{prefix}{name}/");
                if !self.folders.contains_key(&below) {
                    self.folders.insert(below.clone(), Folders { level: level + 1, ..Folders::default() });
                    due.push(below);
                }
            }
        }
        // A value that is gone keeps its combination: its prefixes then list empty, which is how its files are missed.
        let folder = self.folders.entry(prefix.to_owned()).or_default();
        let known: BTreeSet<String> = folder.names.drain(..).chain(names).collect();
        *folder = Folders { level, looked: Some(clock), complete: true, names: known.into_iter().collect() };
        looks
    }

    fn combine(&mut self, levels: usize) {
        let mut combinations = Vec::new();
        let mut open = vec![(String::new(), Vec::new())];
        while let Some((prefix, names)) = open.pop() {
            for name in self.folders.get(&prefix).map(|folder| folder.names.as_slice()).unwrap_or_default() {
                let mut longer: Vec<String> = names.clone();
                longer.push(name.clone());
                if longer.len() == levels {
                    combinations.push(longer);
                } else {
                    open.push((format!("{prefix}{name}/"), longer));
                }
            }
        }
        combinations.sort();
        self.spans = None;
        let unknown = self.folders.iter().filter(|(_, folder)| !folder.complete);
        self.prefixes.unknown = unknown.map(|(prefix, _)| prefix.clone()).collect();
        self.prefixes.combinations = combinations;
    }
}

/// The prefixes of one live range.
#[derive(Debug)]
struct Spans {
    range: LiveRange,
    live: Vec<PrefixSpan>,
    behind: Vec<PrefixSpan>,
    /// All of them by name.
    keep: BTreeSet<String>,
}

/// The time that is looked at: from the eviction bound of the last record to the greatest skew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LiveRange {
    from: Timestamp,
    to: Timestamp,
}

impl LiveRange {
    /// `oldest` is the time of the oldest base snapshot that the first batch may stand on.
    fn new(
        time: &Partitioned,
        clock: Timestamp,
        watermark: Option<Timestamp>,
        before: Option<&SourceState>,
        oldest: Option<Timestamp>,
    ) -> Self {
        let newest = before.and_then(|before| before.newest_end);
        let evicted = before.and_then(|before| before.evict_before);
        let frontier = time.calendar.frontier(clock, time.settle);
        let windowed = time.eviction_bound(watermark.unwrap_or(frontier), newest);
        let from = match (&time.retention, evicted) {
            (Retention::Window, Some(bound)) => bound,
            // Before the first batch too, what the watermark waits for is listed.
            (Retention::Window, None) => windowed,
            (Retention::Since(since), None) => time.calendar.floor(*since),
            (Retention::Since(since), Some(_)) => windowed.max(time.calendar.floor(*since)),
            (Retention::Base(base), None) => oldest.map_or(windowed, |oldest| time.since_base(base, oldest)),
            (Retention::Base(_), Some(bound)) => windowed.max(bound),
        };
        Self { from, to: time.calendar.holding(clock + time.max_skew).end }
    }
}
