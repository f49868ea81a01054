//! What must hold, checked as it happens: at every record that comes to stand in the log, at every write to the sink and
//! at the end of every tick. It folds the log for itself, from what the store truly holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};

use super::executor::documents;
use super::history::{GUARDED, Kind};
use super::lake::Lake;
use super::sink::{Change, Id};
use super::world::{HOSTS, World};
use crate::driver::TickReport;
use crate::file::{FileVersion, SourceName};
use crate::holes::{Hole, HoleCause};
use crate::log::{BatchRecord, Body, Cursor, PipelineState, Record, Sequence};
use crate::ports::Stamp;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: &'static str,
    /// By what.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// A listing that succeeded.
#[derive(Debug)]
pub(super) struct Look {
    pub source: SourceName,
    pub prefix: String,
    /// The folders that it showed, where it was one of folders: of what is below them it tells nothing.
    pub folders: Option<Vec<String>>,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// The fold of the log as it truly is.
    pub state: PipelineState,
    /// The last batch could only add.
    pub add_only: bool,
    /// Every record by number, those that were trimmed since included.
    records: BTreeMap<Sequence, Record>,
    /// Which process wrote to the sink under a number.
    writers: BTreeMap<Sequence, (usize, u64)>,
    /// When each session last listed a prefix completely, by its clock at the beginning of the listing.
    listings: [BTreeMap<(SourceName, String), Timestamp>; HOSTS],
    /// What each session's listings have covered so far.
    looks: [Vec<Look>; HOSTS],
    /// Sources of which a listing hid something.
    lies: BTreeSet<SourceName>,
    /// When a pinned version was pinned, in true time.
    pinned: BTreeMap<(SourceName, FileVersion), Timestamp>,
    /// Every hole that was ever written down.
    holes: Vec<Hole>,
    /// The longest lag of listings so far.
    pub longest_lag_s: u16,
    /// Batches and advances, for figures.
    pub batches: u64,
    pub advances: u64,
}

impl Oracle {
    pub fn session(&mut self, host: usize) {
        self.listings[host].clear();
        self.looks[host].clear();
    }

    pub fn looked(&mut self, host: usize, look: Look) {
        self.looks[host].push(look);
    }

    /// True if some listing of the session, had the file been there, would have shown it.
    fn looked_for(&self, host: usize, source: &SourceName, path: &str) -> bool {
        self.looks[host].iter().any(|look| {
            let Some(rest) = path.strip_prefix(look.prefix.as_str()).filter(|_| look.source == *source) else {
                return false;
            };
            let shown =
                |folders: &Vec<String>| rest.split_once('/').is_some_and(|(name, _)| folders.iter().any(|f| f == name));
            !look.folders.as_ref().is_some_and(shown)
        })
    }

    pub fn listed(&mut self, host: usize, source: &SourceName, prefix: &str, clock: Timestamp) {
        self.listings[host].insert((source.clone(), prefix.to_owned()), clock);
    }

    pub fn lied(&mut self, source: &SourceName) {
        self.lies.insert(source.clone());
    }

    /// True if a lag passed the instant over, in that source; where holes are filled, if one is open still.
    pub fn is_passed_over(&self, source: &SourceName, at: Timestamp, fills: bool) -> bool {
        let holes = if fills { &self.state.holes } else { &self.holes };
        let lag = |hole: &&Hole| hole.source == *source && hole.cause == HoleCause::PassedOver;
        holes.iter().filter(lag).any(|hole| hole.from <= at && at < hole.to)
    }

    /// Notes a broken rule; the first one counts.
    pub fn broken(&mut self, rule: &'static str, detail: String) {
        self.violation.get_or_insert(Violation { rule, detail });
    }
}

impl World {
    /// The sink took a change.
    pub fn sink_written(&mut self, host: usize, sequence: Sequence, change: &Change) {
        let writer = (host, self.hosts[host].life);
        if !self.holds(host) {
            self.oracle.broken("no write outside the lease", format!("host {host} writes under {sequence}"));
        }
        let first = *self.oracle.writers.entry(sequence).or_insert(writer);
        if first != writer {
            self.oracle.broken("one writer a number", format!("{first:?} and {writer:?} write under {sequence}"));
        }
        let is_claim = |record: &Record| matches!(record.body, Body::Claim { .. });
        let mut later = self.oracle.records.range(sequence..);
        if let Some((last, _)) = later.find(|(_, record)| !is_claim(record)) {
            let detail = format!("host {host} writes under {sequence}, record {last} stands");
            self.oracle.broken("what was committed is not touched", detail);
        }
        self.check_looks(host, change);
        self.sink.write(sequence, change);
    }

    /// What a document says of a file that no record pins, a batch that was never recorded put there: it stays until a
    /// listing was made that could have shown the file.
    fn check_looks(&mut self, host: usize, change: &Change) {
        let Some(before) = self.sink.documents().remove(&change.id) else { return };
        let after = change.content.as_deref().unwrap_or_default();
        let goes = |value: &&str| !after.split(' ').any(|stays| stays == *value);
        for (source, path) in before.split(' ').filter(goes).filter_map(file_of) {
            let pinned = self.oracle.state.sources.get(&source).is_some_and(|source| source.live.contains_key(path));
            if !(pinned || self.may_have_left(host, &source, path) || self.oracle.looked_for(host, &source, path)) {
                let detail =
                    format!("{source}/{path} leaves document {}, and host {host} did not look for it", change.id);
                self.oracle.broken("no delete from a failed look", detail);
            }
        }
    }

    /// True if the path names a time that the session's clock may have pushed out of the window, or that lies too far
    /// ahead of it.
    fn may_have_left(&self, host: usize, source: &SourceName, path: &str) -> bool {
        let Some(time) = self.lake.policies().get(source).and_then(|policy| policy.partitioned()) else { return false };
        let (Some(start), Some(clock)) = (self.lake.start_of(source, path), self.hosts[host].tick_clock) else {
            return false;
        };
        let frontier = time.calendar.frontier(clock, time.settle);
        start < time.eviction_bound(frontier, None) || start > clock + time.max_skew
    }

    /// The sink took a stamp.
    pub fn sink_committed(&mut self, host: usize, stamp: Stamp) {
        if !self.holds(host) {
            self.oracle.broken("no write outside the lease", format!("host {host} commits {}", stamp.sequence));
        }
        if self.sink.stamp.is_some_and(|last| last.sequence >= stamp.sequence) {
            self.oracle.broken("stamps rise", format!("{stamp:?} after {:?}", self.sink.stamp));
        }
        self.sink.commit(stamp);
    }

    /// A record came to stand in the log.
    pub fn record_created(&mut self, host: usize, bytes: &Bytes) {
        let record: Record = match serde_json::from_slice(bytes) {
            Ok(record) => record,
            Err(error) => return self.oracle.broken("records can be read", error.to_string()),
        };
        if self.oracle.records.contains_key(&record.seq) {
            // Trimmed since: whoever wrote it must find out before it counts, which the end of its tick shows.
            return;
        }
        if record.seq != self.oracle.state.next() {
            let detail = format!("record {} follows {}", record.seq, self.oracle.state.last);
            self.oracle.broken("numbers have no gap", detail);
        }
        self.check_clock(host, &record);
        match &record.body {
            Body::Claim { .. } => {}
            Body::Generation { .. } => self.check_epoch(&record),
            Body::Advance { watermark, holes, .. } => {
                self.check_epoch(&record);
                self.check_watermark(host, *watermark, record.clock, holes);
            }
            Body::Batch(batch) => {
                self.check_epoch(&record);
                self.check_watermark(host, batch.watermark, record.clock, &batch.holes);
                self.check_batch(&record, batch);
            }
        }
        self.oracle.state.apply(&record);
        self.note_pinned(&record);
        if let Body::Batch(batch) = &record.body {
            self.oracle.add_only = batch.receipt.add_only;
            if !self.oracle.add_only {
                self.check_index("after the commit");
            }
        }
        self.oracle.records.insert(record.seq, record);
    }

    fn note_pinned(&mut self, record: &Record) {
        match &record.body {
            Body::Claim { .. } | Body::Generation { .. } => {}
            Body::Advance { holes, .. } => {
                self.oracle.advances += 1;
                self.oracle.holes.extend(holes.iter().cloned());
            }
            Body::Batch(batch) => {
                self.oracle.batches += 1;
                self.oracle.holes.extend(batch.holes.iter().cloned());
                for (source, cursor) in &batch.sources {
                    for version in &cursor.added {
                        self.oracle.pinned.insert((source.clone(), version.clone()), self.now);
                    }
                }
            }
        }
    }

    /// A batch reads the clock once, and time does not go back.
    fn check_clock(&mut self, host: usize, record: &Record) {
        let last = self.oracle.state.clock;
        if last.is_some_and(|last| record.clock < last) {
            self.oracle.broken("clocks of records do not go back", format!("{} after {last:?}", record.clock));
        }
        let once = self.hosts[host].tick_clock;
        if !matches!(record.body, Body::Claim { .. }) && once != Some(record.clock) {
            self.oracle.broken("the clock is read once", format!("{} and {once:?}", record.clock));
        }
    }

    /// Only whoever claimed last writes.
    fn check_epoch(&mut self, record: &Record) {
        if record.epoch != self.oracle.state.epoch {
            let detail =
                format!("record {} of epoch {} in epoch {}", record.seq, record.epoch, self.oracle.state.epoch);
            self.oracle.broken("the newest claim writes", detail);
        }
    }

    /// W does not go back, nor past the frontier, nor past a partition that nobody looked at since it settled and that is in
    /// no hole.
    fn check_watermark(&mut self, host: usize, watermark: Timestamp, clock: Timestamp, opened: &[Hole]) {
        let before = self.oracle.state.watermark;
        if before.is_some_and(|before| watermark < before) {
            self.oracle.broken("W does not go back", format!("{watermark} after {before:?}"));
        }
        for (name, policy) in self.lake.policies().clone() {
            let Some(time) = policy.partitioned() else { continue };
            let frontier = time.calendar.frontier(clock, time.settle);
            if watermark > frontier && before.is_none_or(|before| watermark > before) {
                self.oracle.broken("W is at most F", format!("{watermark}, and {frontier} of {name} at {clock}"));
            }
            let Some(before) = before else { continue };
            let mut partition = time.calendar.holding(before);
            while partition.end <= watermark {
                let from = partition.start.max(before);
                let passed_over = self.oracle.holes.iter().chain(opened).any(|hole| {
                    let is_lag = hole.source == name && hole.cause == HoleCause::PassedOver;
                    is_lag && hole.from <= from && partition.end <= hole.to
                });
                let folders = self.folders(&name, host, partition.start);
                let listed =
                    folders.iter().all(|folder| self.listed_since(host, &name, folder, partition.end + time.settle));
                if !passed_over && !listed {
                    let detail =
                        format!("W goes to {watermark} past {partition} of {name}, not listed since it settled");
                    self.oracle.broken("no hole unrecorded", detail);
                }
                partition = time.calendar.next(&partition);
            }
        }
    }

    /// The folders of a partition, those of captured values only as far as the session looked for any.
    fn folders(&self, name: &SourceName, host: usize, start: Timestamp) -> Vec<String> {
        let Some(kind) = self.kind(name) else { return Vec::new() };
        if kind != Kind::Captured {
            return vec![kind.folder(start, 0)];
        }
        let known = |folder: &String| {
            let region = folder.split('/').next().unwrap_or_default();
            self.oracle.listings[host].keys().any(|(source, prefix)| source == name && prefix.starts_with(region))
        };
        [0, 1].map(|value| kind.folder(start, value)).into_iter().filter(known).collect()
    }

    fn kind(&self, name: &SourceName) -> Option<Kind> {
        let number = (0..self.setup.kinds.len()).find(|number| self.setup.name(*number) == *name)?;
        self.setup.kinds.get(number).copied()
    }

    fn listed_since(&self, host: usize, name: &SourceName, folder: &str, settled: Timestamp) -> bool {
        let listings = &self.oracle.listings[host];
        listings
            .iter()
            .any(|((source, prefix), at)| source == name && folder.starts_with(prefix.as_str()) && *at >= settled)
    }

    /// The sink committed before the record was written; nothing is dropped that was there all the time.
    fn check_batch(&mut self, record: &Record, batch: &BatchRecord) {
        let stamp = Stamp { sequence: record.seq, watermark: batch.watermark };
        if self.sink.stamp != Some(stamp) {
            let detail = format!("record {} says {stamp:?}, the sink {:?}", record.seq, self.sink.stamp);
            self.oracle.broken("the sink commits before the log", detail);
        }
        for (source, cursor) in &batch.sources {
            let Some(before) = self.oracle.state.sources.get(source).map(|before| before.live.clone()) else {
                continue;
            };
            let removed = cursor.removed.iter().filter_map(|path| before.get(path));
            let replaced =
                cursor.added.iter().filter_map(|version| before.get(&version.path).filter(|was| *was != version));
            let gone: Vec<&FileVersion> = removed.chain(replaced).collect();
            let mut unfounded: Vec<&FileVersion> =
                gone.iter().copied().filter(|version| !self.may_go(record.clock, source, cursor, version)).collect();
            // A listing that hid files is believed as far as the guard goes: where it hid the same for so long that the
            // partition, which gained files, looks rewritten, it goes all the way.
            let was_lied_to = self.oracle.lies.contains(source);
            let start = |version: &FileVersion| self.lake.start_of(source, &version.path);
            let gained = |version: &FileVersion| cursor.added.iter().any(|added| start(added) == start(version));
            unfounded.retain(|version| !(was_lied_to && gained(version)));
            let is_emptied = gone.len() == before.len() && cursor.added.is_empty();
            if was_lied_to && unfounded.len() as u64 <= GUARDED && !is_emptied {
                continue;
            }
            for version in unfounded {
                let detail = format!("{source}: {version} was there all the time, and is dropped by {}", record.seq);
                self.oracle.broken("no removal without a removal", detail);
            }
        }
    }

    fn may_go(&self, clock: Timestamp, source: &SourceName, cursor: &Cursor, version: &FileVersion) -> bool {
        let pinned = self.oracle.pinned.get(&(source.clone(), version.clone())).copied().unwrap_or(self.now);
        // A listing that lags may show what was before.
        let lag = i64::from(self.oracle.longest_lag_s);
        if self.lake.was_not_there(source, version, pinned - SignedDuration::from_secs(lag)) {
            return true;
        }
        let Some(start) = self.lake.start_of(source, &version.path) else { return false };
        let skew = self.lake.policies().get(source).and_then(|policy| policy.partitioned()).map(|time| time.max_skew);
        cursor.evict_before.is_some_and(|bound| start < bound) || skew.is_some_and(|skew| start > clock + skew)
    }

    /// The index equation.
    pub fn check_index(&mut self, when: &str) {
        let expected = self.pinned_documents();
        let found = self.sink.documents();
        if found != expected {
            let ids: Vec<Id> = (0..8).filter(|id| found.get(id) != expected.get(id)).collect();
            let named = ids.first().map(|id| format!("{id}: {:?} instead of {:?}", found.get(id), expected.get(id)));
            let detail = format!("{when}, documents {ids:?} differ; {}", named.unwrap_or_default());
            self.oracle.broken("the index is what the pinned files say", detail);
        }
    }

    fn pinned_documents(&self) -> BTreeMap<Id, String> {
        let state = &self.oracle.state;
        let mut rows = BTreeMap::new();
        for (name, source) in &state.sources {
            for version in source.live.values() {
                rows.insert((name.clone(), version.clone()), ids(&self.lake, version));
            }
        }
        let watermark = state.stamp.filter(|_| self.setup.reads_watermark).map(|stamp| stamp.watermark);
        documents(&rows, watermark)
    }

    /// A tick ended well; `complete` says that it knows every listing.
    pub fn tick_ended(&mut self, host: usize, report: &TickReport, state: &PipelineState, complete: bool) {
        if let Some(record) = &report.record
            && self.oracle.records.get(&record.seq) != Some(record)
        {
            let detail = format!("host {host} believes that it wrote record {}, which is another's", record.seq);
            self.oracle.broken("one record a number", detail);
        }
        if !self.holds(host) || self.oracle.state.last != state.last {
            return;
        }
        if self.oracle.state != *state {
            let detail = format!("host {host} at record {}", state.last);
            self.oracle.broken("the state is the fold of the log", detail);
        }
        // What a first batch left, whose record was never written, stays until all is looked at.
        let waits = state.stamp.is_none() && !complete;
        if !self.oracle.add_only && !waits {
            self.check_index("after a tick");
        }
    }
}

/// The source and path of a value that names a version.
fn file_of(value: &str) -> Option<(SourceName, &str)> {
    let (source, version) = value.split_once('/')?;
    Some((SourceName::new(source), version.rsplit_once('#')?.0))
}

fn ids(lake: &Lake, version: &FileVersion) -> u8 {
    lake.content(version).map_or(0, |content| content.ids)
}
