//! The machine's clock, and stopwatches: the one place that reads them.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use async_trait::async_trait;
use highwater_core::Timestamp;
use highwater_core::ports::Clock;
use rustix::time::{ClockId, clock_gettime};

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        // Where the system has it, the clock that goes on while the machine sleeps: a lease does not.
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    }

    async fn sleep(&self, length: Duration) {
        tokio::time::sleep(length).await;
    }
}

/// Measures how long something takes, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Milliseconds since the start.
    pub fn ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands still, for replays (`--now`). Waiting takes no time.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub Timestamp);

#[async_trait]
impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }

    async fn sleep(&self, _length: Duration) {}
}
