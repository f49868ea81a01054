//! A virtual month: the real driver, planner, schedule and log over a lake that delivers very many files, to see what
//! grows. Its executor counts files and holds none, so that all memory is the core's own.

mod day;
mod executor;
mod lake;
#[cfg(test)]
mod tests;
mod trend;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;

pub use day::{Day, Sample};
pub use trend::{Trend, trends};

use crate::driver::{Driver, Look, Ports, Session};
use crate::file::SourceName;
use crate::lease::Unguarded;
use crate::log::{Body, KEEP, ObjectLog, Writer, WriterId, claim};
use crate::partition::{Calendar, Layout};
use crate::policy::{Guard, OnLag, Partitioned, PipelinePolicy, Retention, SourcePolicy, TimePolicy};
use crate::ports::{Clock, Fault, NoOrders};
use executor::Counting;
use lake::Lake;

/// When the month begins.
const START: &str = "2026-05-01T00:00:00Z";
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// What a month is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files that the lake delivers over the whole time, replacements not counted.
    pub files: u64,
    /// Virtual days.
    pub days: u32,
    /// Pause between ticks.
    pub poll: Duration,
    /// All chance follows from it.
    pub seed: u64,
    /// Rows stay for ever (`retain = "forever"`), and so do the pinned versions.
    pub forever: bool,
    /// Records that trimming leaves in the log.
    pub keep: u64,
    /// Names of the sources; the files are shared out among them evenly.
    pub sources: Vec<SourceName>,
}

impl Default for Options {
    fn default() -> Self {
        let sources = ["ads", "campaigns", "signals"].into_iter().map(SourceName::new).collect();
        Self { files: 1_000_000, days: 30, poll: Duration::from_secs(1), seed: 1, forever: false, keep: KEEP, sources }
    }
}

/// What only the process can tell: the core reads no clock and asks no operating system.
pub trait Gauge {
    /// Time since some instant.
    fn elapsed(&self) -> Duration;
    /// Resident memory of the process, 0 where it is not known.
    fn resident_bytes(&self) -> u64;
}

/// Runs a month; `ended` is told of every day as it ends.
///
/// Partitions of 5 minutes, a window of 5 hours. Every day the process is started again twice; every seventh day, from
/// the second on, the store cannot be listed for ten minutes, and the first source is silent for an hour; every
/// fourteenth day the process stands still for eight hours, longer than the window, and skips. Of the files, some come
/// late, a few behind the window; some are replaced, removed, or cannot be read until they are replaced.
pub async fn run(options: &Options, gauge: &dyn Gauge, mut ended: impl FnMut(&Day)) -> Result<Vec<Day>, Fault> {
    let mut month = Month::new(options)?;
    let mut days = Vec::new();
    for number in 1..=options.days {
        let day = month.day(number, gauge).await?;
        ended(&day);
        days.push(day);
    }
    Ok(days)
}

/// A clock that moves when it is told to, and by what is slept.
#[derive(Debug)]
struct SetClock(Mutex<Timestamp>);

impl SetClock {
    fn set(&self, at: Timestamp) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = at;
    }
}

#[async_trait]
impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now().as_millisecond().unsigned_abs())
    }

    async fn sleep(&self, length: Duration) {
        self.set(self.now() + length);
    }
}

struct Month {
    policy: PipelinePolicy,
    sources: Vec<SourcePolicy>,
    start: Timestamp,
    clock: Arc<SetClock>,
    lake: Lake,
    objects: Arc<InMemory>,
    log: ObjectLog,
    executor: Counting,
    driver: Option<Driver>,
    starts: u32,
}

impl Month {
    fn new(options: &Options) -> Result<Self, Fault> {
        let start: Timestamp = START.parse().map_err(internal)?;
        let clock = Arc::new(SetClock(Mutex::new(start)));
        let objects = Arc::new(InMemory::new());
        let log = ObjectLog::new(objects.clone(), Path::from("state"), clock.clone());
        let log = log.leased(Arc::new(Unguarded)).keeping(options.keep);
        let calendar = Calendar::new(SignedDuration::from_mins(5), TimeZone::UTC).map_err(internal)?;
        let mut sources = Vec::new();
        for name in &options.sources {
            let time = TimePolicy::Partitioned(Box::new(Partitioned {
                calendar: calendar.clone(),
                layout: Layout::parse("dt=%Y-%m-%d/hr=%H/mi=%M").map_err(internal)?,
                window: HOUR * 5,
                settle: SignedDuration::from_mins(1),
                hold_after: Some(SignedDuration::from_mins(150)),
                max_skew: SignedDuration::from_mins(5),
                retention: if options.forever { Retention::Since(start) } else { Retention::Window },
                backfill: None,
            }));
            sources.push(SourcePolicy { name: name.clone(), time, guard: Guard::default() });
        }
        let settle = SignedDuration::from_mins(1);
        Ok(Self {
            policy: PipelinePolicy { poll: options.poll, on_lag: OnLag::SkipToLatest, calendar, settle },
            sources,
            start,
            lake: Lake::new(options, start),
            clock,
            objects,
            log,
            executor: Counting::default(),
            driver: None,
            starts: 0,
        })
    }

    async fn day(&mut self, number: u32, gauge: &dyn Gauge) -> Result<Day, Fault> {
        let begin = self.start + HOUR * 24 * (i32::try_from(number).map_err(internal)? - 1);
        let mut day = Day::new(number);
        let before = self.lake.counts();
        for hour in 0..24 {
            let until = begin + HOUR * (hour + 1);
            self.incidents(number, hour, begin);
            while self.clock.now() < until {
                self.tick(&mut day, gauge).await?;
            }
            let sample = self.sample(gauge).await?;
            day.sampled(sample);
        }
        day.close(&before, &self.lake.counts());
        Ok(day)
    }

    /// What goes wrong in this hour of this day.
    fn incidents(&mut self, day: u32, hour: i32, begin: Timestamp) {
        let at = begin + HOUR * hour;
        match hour {
            3 if day % 7 == 2 => self.lake.fail_until(at + SignedDuration::from_mins(10)),
            6 | 18 => self.driver = None,
            9 if day % 14 == 2 => {
                self.driver = None;
                self.clock.set(at + HOUR * 8);
            }
            _ => {}
        }
    }

    async fn tick(&mut self, day: &mut Day, gauge: &dyn Gauge) -> Result<(), Fault> {
        let now = self.clock.now();
        self.lake.deliver(now);
        let mut driver = match self.driver.take() {
            Some(driver) => driver,
            None => self.restart().await?,
        };
        let ports = Ports { clock: &*self.clock, store: &self.lake, log: &self.log, orders: &NoOrders };
        let began = gauge.elapsed();
        let ticked = driver.tick(ports, &mut self.executor, Look::Scheduled).await;
        day.ticked(gauge.elapsed() - began);
        match ticked {
            Ok(report) => match report.record.map(|record| record.body) {
                Some(Body::Batch(_)) => day.batches += 1,
                Some(_) => day.advances += 1,
                None => {}
            },
            Err(Fault::Unavailable(_)) => day.failed_ticks += 1,
            Err(fault) => return Err(fault),
        }
        self.driver = Some(driver).filter(|driver| !driver.is_broken());
        self.clock.set(now + self.policy.poll);
        Ok(())
    }

    async fn restart(&mut self) -> Result<Driver, Fault> {
        self.starts += 1;
        let id = WriterId(format!("start-{}", self.starts).into());
        let writer = Writer { id, holder: "month".into(), version: "0".into() };
        let claimed = claim(&self.log, self.clock.now(), &writer).await.map_err(Fault::from)?;
        let session = Session { claimed, exclusive: true, lease: Arc::new(Unguarded) };
        Driver::start(self.policy.clone(), self.sources.clone(), session, &mut self.executor).await
    }

    async fn sample(&self, gauge: &dyn Gauge) -> Result<Sample, Fault> {
        let objects: Vec<_> = self.objects.list(None).try_collect().await.map_err(internal)?;
        let mut sample = Sample { resident_bytes: gauge.resident_bytes(), ..Sample::default() };
        for object in &objects {
            sample.log_objects += 1;
            sample.log_bytes += object.size;
            if object.location.as_ref().contains("/snapshot/") {
                sample.snapshot_bytes = sample.snapshot_bytes.max(object.size);
            }
        }
        if let Some(driver) = &self.driver {
            let state = driver.state();
            sample.state_bytes = serde_json::to_vec(state).map_err(internal)?.len() as u64;
            sample.live_files = state.sources.values().map(|source| source.live.len() as u64).sum();
            sample.quarantined = state.sources.values().map(|source| source.quarantined.len() as u64).sum();
            sample.holes = state.holes.len() as u64;
            sample.closed_holes = state.closed_holes.len() as u64;
        }
        Ok(sample)
    }
}

fn internal(error: impl std::fmt::Display) -> Fault {
    Fault::Internal(error.to_string())
}
