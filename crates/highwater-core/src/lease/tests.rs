//! Two or three processes around one object store, on clocks that are turned by hand.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::*;
use crate::log::contract::faulty::{Faulty, OnGet, OnPut};
use crate::log::{Appended, BatchLog, Body, Claimed, ObjectLog, Sequence, Writer, WriterId};
use crate::ports::Clock;

const LEASE: Duration = Duration::from_secs(10);
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// One machine's clock. Sleeping turns it, and then lets the world go on by one event of the script.
struct Hand {
    monotonic_ms: AtomicU64,
    /// How far the wall clock is off.
    off_ms: Mutex<i64>,
    script: Mutex<VecDeque<Event>>,
}

type Event = Box<dyn FnOnce() -> futures::future::BoxFuture<'static, ()> + Send>;

impl Hand {
    fn new() -> Arc<Self> {
        Arc::new(Self { monotonic_ms: AtomicU64::new(5_000), off_ms: Mutex::new(0), script: Mutex::default() })
    }

    fn turn(&self, ms: u64) {
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn step_wall(&self, by: SignedDuration) {
        *self.off_ms.lock().unwrap() += i64::try_from(by.as_millis()).unwrap();
    }

    fn then<F: Future<Output = ()> + Send + 'static>(&self, event: impl FnOnce() -> F + Send + 'static) {
        self.script.lock().unwrap().push_back(Box::new(move || Box::pin(event())));
    }
}

#[async_trait]
impl Clock for Hand {
    // The in-memory store dates objects by the machine's clock.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_millis(*self.off_ms.lock().unwrap())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }

    async fn sleep(&self, length: Duration) {
        self.turn(u64::try_from(length.as_millis()).unwrap());
        let event = self.script.lock().unwrap().pop_front();
        if let Some(event) = event {
            event().await;
        }
        tokio::task::yield_now().await;
    }
}

struct Process {
    name: &'static str,
    clock: Arc<Hand>,
    taker: Taker,
    told: Vec<String>,
    starts: u32,
}

impl Process {
    fn new(name: &'static str, store: Arc<dyn ObjectStore>) -> Self {
        let clock = Hand::new();
        let terms = Terms { lease: LEASE, max_skew: SKEW };
        let taker = Taker::new(store, Path::from("ads"), clock.clone(), terms);
        Self { name, clock, taker, told: Vec::new(), starts: 0 }
    }

    fn holder(&self) -> Holder {
        Holder { host: self.name.into(), pid: 7, since: Timestamp::UNIX_EPOCH }
    }

    async fn take(&mut self, patience: Patience) -> Result<(Claimed, Arc<HeartbeatLease>), Fault> {
        self.starts += 1;
        let id = WriterId(format!("{}{}", self.name, self.starts).into());
        let writer = Writer { id, holder: self.name.into(), version: "0".into() };
        let (holder, clock) = (self.holder(), self.clock.clone());
        let told = &mut self.told;
        let mut tell = |wait: &Wait| {
            let text = wait.to_string();
            if told.last() != Some(&text) {
                told.push(text);
            }
        };
        self.taker.take(&*clock, &writer, &holder, patience, &mut tell).await
    }

    /// Seconds since the test began, on this process's clock.
    fn seconds(&self) -> u64 {
        self.clock.monotonic().as_secs() - 5
    }
}

fn store() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

fn log_on(store: &Arc<dyn ObjectStore>) -> ObjectLog {
    ObjectLog::new(store.clone(), Path::from("ads"), Hand::new())
}

async fn advance(log: &ObjectLog, claimed: &mut Claimed) -> Appended {
    let body = Body::Advance {
        watermark: Timestamp::UNIX_EPOCH,
        holes: Vec::new(),
        closed: Vec::new(),
        sources: Default::default(),
        alarms: Vec::new(),
    };
    let record = claimed.record(Timestamp::UNIX_EPOCH, body);
    let appended = log.append(&record).await.unwrap();
    claimed.state.apply(&record);
    appended
}

#[tokio::test]
async fn a_first_start_and_one_after_a_clean_end_wait_for_nothing() {
    let store = store();
    let (mut a, mut b) = (Process::new("a", store.clone()), Process::new("b", store));
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    assert!(lease.holds());
    lease.end().await.unwrap();
    assert!(matches!(lease.check(), Err(Fault::Fenced(_))));
    b.take(Patience::Refuse).await.unwrap();
    assert_eq!((a.seconds(), b.seconds()), (0, 0));
    assert!(a.told.is_empty() && b.told.is_empty());
}

#[tokio::test]
async fn a_holder_that_beats_is_named_and_left_in_peace() {
    let store = store();
    let (mut a, mut b) = (Process::new("a", store.clone()), Process::new("b", store.clone()));
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    let beats = lease.clone();
    b.clock.then(|| async {});
    b.clock.then(move || async move { beats.beat().await.unwrap() });
    let fault = b.take(Patience::Refuse).await.unwrap_err();
    assert_eq!(fault.to_string(), "fenced: the pipeline is held by host a, process 7, since 1970-01-01T00:00:00Z");
    assert_eq!(b.seconds(), 2);
    assert_eq!(
        b.told,
        ["waiting up to 11 s for the lease of the last writer (held by host a, process 7, since 1970-01-01T00:00:00Z)"]
    );
    lease.beat().await.unwrap();
    assert_eq!(log_on(&store).highest().await.unwrap(), Sequence(1), "nothing was claimed");
}

#[tokio::test]
async fn a_holder_that_died_is_waited_out_once() {
    let store = store();
    let (mut a, mut b) = (Process::new("a", store.clone()), Process::new("b", store));
    a.take(Patience::Refuse).await.unwrap();
    let mut told = 0;
    b.taker.free(Patience::Refuse, &mut |_| told += 1).await.unwrap();
    assert_eq!((b.seconds(), told), (11, 11));
    let (_, lease) = b.take(Patience::Refuse).await.unwrap();
    assert_eq!(b.seconds(), 11, "what was seen before is not waited for again");
    assert!(lease.holds());
}

#[tokio::test]
async fn a_standby_waits_while_the_holder_beats_and_takes_over_when_it_stops() {
    let store = store();
    let (mut a, mut b) = (Process::new("a", store.clone()), Process::new("b", store));
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    for _ in 0..20 {
        let lease = lease.clone();
        b.clock.then(move || async move { lease.beat().await.unwrap() });
    }
    b.take(Patience::Wait).await.unwrap();
    assert_eq!(b.seconds(), 20 + 11);
    assert_eq!(b.told, ["standby: the pipeline is held by host a, process 7, since 1970-01-01T00:00:00Z"]);
    assert!(matches!(lease.beat().await, Err(Fault::Fenced(_))));
    assert!(!lease.holds());
}

#[tokio::test]
async fn a_lease_counts_from_before_the_beat_was_sent_and_comes_back_with_the_next() {
    let store = store();
    let mut a = Process::new("a", store);
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    a.clock.turn(8_999);
    assert!(lease.holds());
    a.clock.turn(1);
    let fault = lease.check().unwrap_err();
    assert!(matches!(&fault, Fault::Unavailable(_)), "nobody took it: {fault}");
    lease.beat().await.unwrap();
    assert!(lease.holds());
}

#[tokio::test]
async fn steps_of_the_wall_clock_move_no_lease() {
    let store = store();
    let (mut a, mut b) = (Process::new("a", store.clone()), Process::new("b", store));
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    for by in [SignedDuration::from_hours(-7), SignedDuration::from_mins(7 * 60 + 4)] {
        a.clock.step_wall(by);
        assert!(lease.holds());
        lease.beat().await.unwrap();
    }
    b.clock.step_wall(SignedDuration::from_hours(-30));
    b.take(Patience::Refuse).await.unwrap();
    assert_eq!(b.seconds(), 11);
}

#[tokio::test]
async fn a_clock_ahead_of_the_stores_is_refused() {
    let store = store();
    let mut a = Process::new("a", store.clone());
    a.clock.step_wall(SignedDuration::from_mins(6));
    let fault = a.take(Patience::Refuse).await.unwrap_err();
    assert!(matches!(&fault, Fault::Invalid(why) if why.contains("ahead by more than max_skew (5m)")), "{fault}");
    let mut b = Process::new("b", store);
    b.clock.step_wall(SignedDuration::from_secs(299));
    let (_, lease) = b.take(Patience::Wait).await.unwrap();
    b.clock.step_wall(SignedDuration::from_mins(6));
    assert!(matches!(lease.beat().await, Err(Fault::Invalid(_))));
    assert!(matches!(lease.check(), Err(Fault::Invalid(_))));
}

#[tokio::test]
async fn a_beat_whose_reply_is_lost_holds_nothing_and_the_next_one_does() {
    let inner = store();
    let mut a = Process::new("a", inner.clone());
    let (_, first) = a.take(Patience::Refuse).await.unwrap();
    first.end().await.unwrap();
    // The probe, the claim, and the first beat pass; two more are lost.
    let pass = [OnPut::Pass, OnPut::Pass, OnPut::Pass, OnPut::Pass];
    let faulty = Faulty::new(inner).on_puts(pass.into_iter().chain([OnPut::LoseReply, OnPut::TimeOut]));
    let mut b = Process::new("b", Arc::new(faulty));
    let (_, lease) = b.take(Patience::Refuse).await.unwrap();
    b.clock.turn(5_000);
    for _ in 0..2 {
        assert!(matches!(lease.beat().await, Err(Fault::Unavailable(_))));
    }
    b.clock.turn(4_000);
    assert!(!lease.holds());
    lease.beat().await.unwrap();
    assert!(lease.holds());
}

#[tokio::test]
async fn own_records_are_no_sign_of_another_writer() {
    let store = store();
    let mut a = Process::new("a", store.clone());
    let (mut claimed, lease) = a.take(Patience::Refuse).await.unwrap();
    let log = log_on(&store).leased(lease.clone());
    for _ in 0..3 {
        assert_eq!(advance(&log, &mut claimed).await, Appended::Written);
        lease.beat().await.unwrap();
    }
    assert!(lease.holds());
}

/// The holder wakes up between the taker's last look and its claim: its beat gets through, and it may write for a lease.
#[tokio::test]
async fn a_beat_right_before_the_claim_is_waited_out_after_it() {
    let store = store();
    let mut a = Process::new("a", store.clone());
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    a.clock.turn(11_000);
    assert!(!lease.holds());
    // The first object of the log that `b` reads, it reads to claim.
    let beats = lease.clone();
    let wakes = OnGet::After(Box::pin(async move { beats.beat().await.unwrap() }));
    let mut b = Process::new("b", Arc::new(Faulty::new(store).on_gets([wakes])));
    b.take(Patience::Refuse).await.unwrap();
    assert_eq!(b.seconds(), 11 + 11);
    assert_eq!(b.told[1..], ["waiting 11 s: a former writer's lease may last so long"]);
    assert!(lease.holds(), "by its own clock");
    assert!(matches!(lease.beat().await, Err(Fault::Fenced(_))));
}

#[tokio::test]
async fn an_end_that_hides_another_writers_beat_is_not_believed() {
    let store = store();
    let place = Path::from("ads").join(HEARTBEAT);
    let (mut a, mut b) = (Process::new("a", store.clone()), Process::new("b", store.clone()));
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    lease.end().await.unwrap();
    let ended = store.get(&place).await.unwrap().bytes().await.unwrap();
    let (_, held) = b.take(Patience::Refuse).await.unwrap();
    // What `a` had sent lands a second time, late.
    store.put(&place, ended.into()).await.unwrap();
    let mut c = Process::new("c", store);
    c.take(Patience::Refuse).await.unwrap();
    assert_eq!(c.seconds(), 11);
    assert!(matches!(held.beat().await, Err(Fault::Fenced(_))));
}

#[tokio::test]
async fn of_two_takers_the_newest_claim_has_the_lease() {
    let store = store();
    let (mut a, mut b, mut c) =
        (Process::new("a", store.clone()), Process::new("b", store.clone()), Process::new("c", store.clone()));
    a.take(Patience::Refuse).await.unwrap();
    for taker in [&mut b, &mut c] {
        taker.taker.free(Patience::Wait, &mut |_| {}).await.unwrap();
    }
    let (_, first) = b.take(Patience::Wait).await.unwrap();
    // `c` looks again before it claims, and sees that `b` beats.
    let beats = first.clone();
    c.clock.then(move || async move { beats.beat().await.unwrap() });
    assert!(matches!(c.take(Patience::Refuse).await, Err(Fault::Fenced(_))));
    assert!(first.holds());
    assert_eq!(log_on(&store).highest().await.unwrap(), Sequence(2));
}

#[tokio::test]
async fn a_start_after_a_broken_session_of_ones_own_does_not_wait() {
    let store = store();
    let mut a = Process::new("a", store.clone());
    let (_, first) = a.take(Patience::Refuse).await.unwrap();
    let (_, second) = a.take(Patience::Refuse).await.unwrap();
    assert_eq!(a.seconds(), 0);
    assert!(!first.holds() && second.holds());
    second.beat().await.unwrap();
}

#[tokio::test]
async fn a_damaged_heartbeat_is_somebodys() {
    let store = store();
    let mut a = Process::new("a", store.clone());
    store.put(&Path::from("ads").join(HEARTBEAT), "{".into()).await.unwrap();
    a.take(Patience::Refuse).await.unwrap();
    assert_eq!(
        a.told,
        [
            "waiting up to 11 s for the lease of the last writer (held by another process)",
            "waiting 11 s: a former writer's lease may last so long"
        ]
    );
}

#[tokio::test]
async fn a_beat_that_hangs_is_given_up_for_the_next() {
    let inner = store();
    let faulty = Faulty::new(inner.clone()).on_puts([OnPut::Pass, OnPut::Pass, OnPut::Pass, OnPut::Pass, OnPut::Hang]);
    let (mut a, mut b) = (Process::new("a", Arc::new(faulty)), Process::new("b", inner));
    let (_, lease) = a.take(Patience::Refuse).await.unwrap();
    // The keeper sleeps, sends a beat that hangs, gives it up, sleeps, and sends one that gets through.
    let clock = a.clock.clone();
    let kept = lease.clone();
    let until = async move {
        while clock.monotonic() < Duration::from_secs(20) {
            tokio::task::yield_now().await
        }
    };
    tokio::select! { lost = kept.keep() => panic!("{lost}"), () = until => {} }
    assert!(lease.holds());
    lease.end().await.unwrap();
    b.take(Patience::Refuse).await.unwrap();
    assert_eq!(b.seconds(), 0);
}

#[tokio::test]
async fn a_store_that_ignores_create_if_absent_is_refused() {
    let store: Arc<dyn ObjectStore> = Arc::new(Faulty::new(store()).careless());
    let mut a = Process::new("a", store.clone());
    let fault = a.take(Patience::Refuse).await.unwrap_err();
    let Fault::Invalid(why) = fault else { panic!("{fault}") };
    assert!(why.contains("creates an object a second time") && why.contains("single_writer = true"), "{why}");
    let left = store.list_with_delimiter(Some(&Path::from("ads/probe"))).await.unwrap();
    assert!(left.objects.is_empty());
    assert_eq!(log_on(&store).highest().await.unwrap(), Sequence(0));
}

#[tokio::test]
async fn a_heartbeat_read_by_half_is_no_sign_of_life() {
    let inner = store();
    Process::new("a", inner.clone()).take(Patience::Refuse).await.unwrap();
    let faulty = Faulty::new(inner).on_beats([OnGet::After(Box::pin(async {})), OnGet::Short, OnGet::Short]);
    let mut b = Process::new("b", Arc::new(faulty));
    let (_, lease) = b.take(Patience::Refuse).await.unwrap();
    assert!(lease.holds());
}

#[tokio::test]
async fn a_refusal_with_nothing_written_is_not_held_against_a_store() {
    for refused in [vec![OnPut::Refuse], vec![OnPut::LoseReply], vec![OnPut::Pass, OnPut::Refuse]] {
        let faulty = Faulty::new(store()).on_puts(refused.clone());
        let taken = Process::new("a", Arc::new(faulty)).take(Patience::Refuse).await;
        assert!(taken.is_ok() || matches!(taken, Err(Fault::Unavailable(_))), "{refused:?}: {:?}", taken.err());
    }
}
