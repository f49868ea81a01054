//! A store that makes its files up as time goes by, and forgets those that nobody looks at any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::Options;
use crate::file::{FileVersion, SeenFile, SourceName};
use crate::ports::{Fault, Store};
use crate::receipt::Requests;

/// How the etag of a file begins that cannot be read.
pub(super) const BROKEN: &str = "broken";

const STEP: SignedDuration = SignedDuration::from_mins(5);
/// What one LIST request answers at most.
const PAGE: u64 = 1_000;
/// Folders are forgotten a day after their hour: nothing lists back so far.
const KEPT_HOURS: usize = 28;

/// The files of all sources, by source.
#[derive(Debug)]
pub(super) struct Lake(Mutex<Inner>);

/// Counts since the month began.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub landed: u64,
    pub replaced: u64,
    pub removed: u64,
    /// LIST requests, by source.
    pub lists: BTreeMap<SourceName, u64>,
}

#[derive(Debug)]
struct Inner {
    sources: Vec<SourceName>,
    /// By source, the folders of one hour each, by prefix.
    hours: BTreeMap<SourceName, BTreeMap<String, BTreeMap<Arc<str>, SeenFile>>>,
    pending: BTreeMap<(Timestamp, u64), Delivery>,
    deliveries: u64,
    counts: Counts,
    now: Timestamp,
    failing_until: Timestamp,
    start: Timestamp,
    /// The partition that is planned next, and how many there are in all.
    next: u64,
    partitions: u64,
    files: u64,
    planned: u64,
    chance: Chance,
}

#[derive(Debug)]
struct Delivery {
    source: SourceName,
    /// The folder of the hour.
    prefix: String,
    path: Arc<str>,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Land { broken: bool },
    Replace,
    Remove,
}

impl Lake {
    pub fn new(options: &Options, start: Timestamp) -> Self {
        Self(Mutex::new(Inner {
            sources: options.sources.clone(),
            hours: options.sources.iter().map(|name| (name.clone(), BTreeMap::new())).collect(),
            pending: BTreeMap::new(),
            deliveries: 0,
            counts: Counts::default(),
            now: start,
            failing_until: Timestamp::MIN,
            start,
            next: 0,
            partitions: u64::from(options.days) * 288,
            files: options.files,
            planned: 0,
            chance: Chance(options.seed),
        }))
    }

    /// Everything that landed, changed or went by `now`.
    pub fn deliver(&self, now: Timestamp) {
        let mut inner = self.inner();
        inner.now = now;
        while inner.next < inner.partitions && inner.start_of(inner.next) <= now {
            inner.plan_partition();
        }
        while let Some(first) = inner.pending.first_entry().filter(|first| first.key().0 <= now) {
            let ((at, _), delivery) = first.remove_entry();
            inner.apply(at, delivery);
        }
    }

    /// Until then every look at the store fails.
    pub fn fail_until(&self, at: Timestamp) {
        self.inner().failing_until = at;
    }

    pub fn counts(&self) -> Counts {
        self.inner().counts.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn start_of(&self, partition: u64) -> Timestamp {
        self.start + STEP * i32::try_from(partition).unwrap_or(i32::MAX)
    }

    /// Plans the deliveries of the next partition, all sources.
    fn plan_partition(&mut self) {
        let (number, start) = (self.next, self.start_of(self.next));
        self.next += 1;
        let due = self.files * self.next / self.partitions;
        let mut count = due - self.planned;
        self.planned = due;
        let sources = self.sources.clone();
        for (index, source) in sources.iter().enumerate() {
            // The day's wave: a quarter more or less, shared out unevenly.
            let left = (sources.len() - index) as u64;
            let mean = count / left;
            let share = if left == 1 { count } else { mean - mean / 4 + self.chance.below(mean / 2 + 1) };
            count -= share.min(count);
            if index == 0 && is_silent(number) {
                // What the silent hour owes comes with the next partitions.
                self.planned -= share.min(self.planned);
                continue;
            }
            for file in 0..share {
                self.plan_file(source, start, file);
            }
        }
    }

    fn plan_file(&mut self, source: &SourceName, start: Timestamp, file: u64) {
        let prefix = start.strftime("dt=%Y-%m-%d/hr=%H/").to_string();
        let path: Arc<str> = format!("{prefix}{}/part-{file:05}-c000.snappy.parquet", start.strftime("mi=%M")).into();
        let seconds = match self.chance.below(10_000) {
            // Behind the window.
            0 => 7 * 3_600,
            // Late.
            1..50 => 600 + self.chance.below(3 * 3_600),
            // In three waves, the last one just after the partition's end.
            dice => 120 * (1 + dice % 3) + self.chance.below(20),
        };
        let landed = start + SignedDuration::from_secs(i64::try_from(seconds).unwrap_or_default());
        let later = |seconds: u64| landed + SignedDuration::from_secs(i64::try_from(seconds).unwrap_or_default());
        let broken = self.chance.below(4_000) == 0;
        self.schedule(landed, source, &prefix, &path, What::Land { broken });
        if broken {
            self.schedule(later(1_200), source, &prefix, &path, What::Replace);
        }
        match self.chance.below(1_000) {
            0..3 => {
                let at = later(300 + self.chance.below(2 * 3_600));
                self.schedule(at, source, &prefix, &path, What::Replace);
            }
            3 => {
                let at = later(300 + self.chance.below(2 * 3_600));
                self.schedule(at, source, &prefix, &path, What::Remove);
            }
            _ => {}
        }
    }

    fn schedule(&mut self, at: Timestamp, source: &SourceName, prefix: &str, path: &Arc<str>, what: What) {
        self.deliveries += 1;
        let delivery = Delivery { source: source.clone(), prefix: prefix.into(), path: path.clone(), what };
        self.pending.insert((at, self.deliveries), delivery);
    }

    fn apply(&mut self, at: Timestamp, delivery: Delivery) {
        let Delivery { source, prefix, path, what } = delivery;
        let hours = self.hours.entry(source).or_default();
        let tag = self.chance.next();
        let etag = match what {
            What::Remove => {
                let gone = hours.get_mut(&prefix).and_then(|hour| hour.remove(&path));
                self.counts.removed += u64::from(gone.is_some());
                return;
            }
            What::Land { broken: true } => format!("{BROKEN}-{tag:025x}"),
            What::Land { broken: false } | What::Replace => format!("{tag:032x}"),
        };
        let version = FileVersion { path: path.clone(), size: 40_000 + tag % 8_192, etag: etag.into() };
        let before = hours.entry(prefix).or_default().insert(path, SeenFile { version, modified: Some(at) });
        match before {
            Some(_) => self.counts.replaced += 1,
            None => self.counts.landed += 1,
        }
        while hours.len() > KEPT_HOURS {
            hours.pop_first();
        }
    }
}

/// An hour of every seventh day, from the second on.
fn is_silent(partition: u64) -> bool {
    let (day, hour) = (partition / 288 + 1, partition % 288 / 12);
    day % 7 == 2 && hour == 20
}

#[async_trait]
impl Store for Lake {
    async fn files(&self, source: &SourceName, prefix: &str) -> Result<Vec<SeenFile>, Fault> {
        let mut inner = self.inner();
        if inner.now < inner.failing_until {
            *inner.counts.lists.entry(source.clone()).or_default() += 1;
            return Err(Fault::Unavailable("503 slow down".into()));
        }
        let hours = inner.hours.get(source);
        let seen: Vec<SeenFile> =
            hours.and_then(|hours| hours.get(prefix)).into_iter().flat_map(BTreeMap::values).cloned().collect();
        *inner.counts.lists.entry(source.clone()).or_default() += (seen.len() as u64).div_ceil(PAGE).max(1);
        Ok(seen)
    }

    async fn folders(&self, _source: &SourceName, _prefix: &str) -> Result<Vec<String>, Fault> {
        Ok(Vec::new())
    }

    fn skipped(&self, _source: &SourceName) -> Vec<String> {
        Vec::new()
    }

    fn requests(&self) -> Requests {
        Requests { list: self.inner().counts.lists.values().sum(), ..Requests::default() }
    }
}

/// SplitMix64: small, seeded, the same everywhere.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
