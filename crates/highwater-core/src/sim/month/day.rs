//! What is told of one day.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lake::Counts;
use crate::file::SourceName;

/// Sizes at one instant; of a day, the greatest of its hours.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Pinned file versions.
    pub live_files: u64,
    /// Files in quarantine.
    pub quarantined: u64,
    /// Open holes.
    pub holes: u64,
    /// Closed holes that the state remembers.
    pub closed_holes: u64,
    /// Objects of the log: records and snapshots.
    pub log_objects: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Bytes of the largest snapshot.
    pub snapshot_bytes: u64,
    /// The state as JSON.
    pub state_bytes: u64,
    /// Resident memory of the process, the log's objects included.
    pub resident_bytes: u64,
}

/// One virtual day.
#[derive(Clone, Debug, Default)]
pub struct Day {
    /// From 1.
    pub number: u32,
    /// New files in the store.
    pub landed: u64,
    /// New versions of files.
    pub replaced: u64,
    /// Files that were taken away.
    pub removed: u64,
    /// Ticks.
    pub ticks: u64,
    /// Ticks that found the store out of reach.
    pub failed_ticks: u64,
    /// Batch records.
    pub batches: u64,
    /// Records that moved the watermark alone.
    pub advances: u64,
    /// LIST requests of up to 1,000 keys, by source.
    pub lists: BTreeMap<SourceName, u64>,
    /// Greatest sizes.
    pub most: Sample,
    /// Median time of a tick, in nanoseconds.
    pub tick_p50_ns: u64,
    /// 99th percentile of the same.
    pub tick_p99_ns: u64,
    /// All ticks together, in milliseconds.
    pub ticks_ms: u64,
    tick_ns: Vec<u64>,
}

impl Day {
    pub(super) fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) fn ticked(&mut self, took: Duration) {
        self.ticks += 1;
        self.tick_ns.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn sampled(&mut self, sample: Sample) {
        let most = &mut self.most;
        most.live_files = most.live_files.max(sample.live_files);
        most.quarantined = most.quarantined.max(sample.quarantined);
        most.holes = most.holes.max(sample.holes);
        most.closed_holes = most.closed_holes.max(sample.closed_holes);
        most.log_objects = most.log_objects.max(sample.log_objects);
        most.log_bytes = most.log_bytes.max(sample.log_bytes);
        most.snapshot_bytes = most.snapshot_bytes.max(sample.snapshot_bytes);
        most.state_bytes = most.state_bytes.max(sample.state_bytes);
        most.resident_bytes = most.resident_bytes.max(sample.resident_bytes);
    }

    pub(super) fn close(&mut self, before: &Counts, after: &Counts) {
        self.landed = after.landed - before.landed;
        self.replaced = after.replaced - before.replaced;
        self.removed = after.removed - before.removed;
        for (source, lists) in &after.lists {
            self.lists.insert(source.clone(), lists - before.lists.get(source).copied().unwrap_or_default());
        }
        let mut ticks = std::mem::take(&mut self.tick_ns);
        ticks.sort_unstable();
        let at = |percent: usize| ticks.get(ticks.len() * percent / 100).copied().unwrap_or_default();
        (self.tick_p50_ns, self.tick_p99_ns) = (at(50), at(99));
        self.ticks_ms = ticks.iter().sum::<u64>() / 1_000_000;
    }
}
