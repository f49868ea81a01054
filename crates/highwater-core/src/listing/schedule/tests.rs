use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::{Item, PrefixSpan, Schedule, Zone, settled_at};
use crate::partition::Calendar;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn calendar(step: i64) -> Calendar {
    Calendar::new(SignedDuration::from_secs(step), TimeZone::UTC).expect("calendar")
}

fn item(zone: Zone, looked: i64) -> Item {
    Item { zone, looked: Some(at(looked)), settled: None }
}

fn hourly() -> Schedule {
    Schedule::new(Duration::from_secs(1), Duration::from_secs(3_600), Duration::from_secs(5 * 3_600))
}

#[test]
fn the_first_tick_looks_at_everything() {
    let zones = [Zone::Newest, Zone::InWindow, Zone::Behind, Zone::Discovery];
    let items = zones.map(|zone| Item { zone, looked: None, settled: None });
    assert_eq!(hourly().due(at(0), &items), [0, 1, 2, 3]);
}

#[test]
fn the_newest_is_looked_at_every_tick_and_older_ones_at_growing_intervals() {
    let newest = item(Zone::Newest, 99_999);
    let older = |looked| item(Zone::InWindow, looked);
    let due = |items: &[Item]| hourly().due(at(100_000), items);
    assert_eq!(due(&[newest, older(99_941), older(99_881)]), [0], "59 s and 119 s");
    assert_eq!(due(&[newest, older(99_940), older(99_881)]), [0, 1], "60 s is one sixtieth of an hour");
    assert_eq!(due(&[newest, older(99_941), older(99_880)]), [0, 2], "the second waits twice as long");
    assert_eq!(due(&[newest, older(99_900), older(99_800)]), [0, 1], "the earlier deadline first");
    assert_eq!(due(&[newest, older(99_930), older(99_700)]), [0, 2]);
}

#[test]
fn what_the_watermark_waits_for_comes_first() {
    let newest = item(Zone::Newest, 99_999);
    let overdue = item(Zone::InWindow, 99_890);
    let waiting = |looked, settled| Item { settled: Some(at(settled)), ..item(Zone::InWindow, looked) };
    let due = |items: &[Item]| hourly().due(at(100_000), items);
    assert_eq!(due(&[newest, overdue, waiting(99_990, 99_999)]), [0, 2]);
    assert_eq!(due(&[newest, overdue, waiting(99_997, 99_999)]), [0, 1], "looked at three ticks ago");
    assert_eq!(due(&[newest, item(Zone::InWindow, 99_800), waiting(99_990, 99_999)]), [0, 1], "past its deadline");
}

#[test]
fn what_was_never_looked_at_or_in_the_future_takes_the_slot() {
    let fresh = Item { zone: Zone::InWindow, looked: None, settled: None };
    assert_eq!(hourly().due(at(100), &[item(Zone::Newest, 99), fresh, item(Zone::InWindow, 0)]), [0, 1]);
    assert_eq!(
        hourly().due(at(100), &[item(Zone::Newest, 99), item(Zone::InWindow, 99), item(Zone::InWindow, 500)]),
        [0, 2]
    );
}

#[test]
fn the_watermark_waits_for_a_listing_since_a_partition_settled() {
    let span = PrefixSpan { prefix: "10/".into(), from: at(36_000), to: at(39_600), combination: 0 };
    let wait = |complete: Option<i64>, now| {
        let settled = settled_at(&calendar(300), &span, SignedDuration::from_secs(60), complete.map(at), at(now));
        settled.map(Timestamp::as_second)
    };
    assert_eq!(wait(None, 36_359), None, "nothing has settled");
    assert_eq!(wait(None, 36_360), Some(36_360));
    assert_eq!(wait(Some(36_360), 36_400), None, "listed as it settled");
    assert_eq!(wait(Some(36_359), 37_000), Some(36_360));
    assert_eq!(wait(Some(36_361), 37_000), Some(36_660), "the next partition");
    assert_eq!(wait(Some(39_659), 50_000), Some(39_660), "the last partition");
    assert_eq!(wait(Some(39_660), 50_000), None, "all were listed since");
    let all = PrefixSpan { prefix: String::new(), from: Timestamp::MIN, to: Timestamp::MAX, combination: 0 };
    assert_eq!(settled_at(&calendar(300), &all, SignedDuration::ZERO, Some(at(299)), at(300)), Some(at(300)));
}

#[test]
fn the_bound_of_the_default_window_is_minutes() {
    assert_eq!(hourly().bound(5, 0), Duration::from_secs(602));
    assert_eq!(hourly().bound(0, 1), Duration::from_secs(122));
    let minutely = Schedule::new(Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(18_000));
    assert_eq!(minutely.bound(300, 0), Duration::from_secs(2_402));
    assert_eq!(minutely.audit_bound(300), Duration::from_secs(18_002));
}

/// A source without captures, or one with a folder of them, run tick by tick.
struct Run {
    poll_ms: i64,
    unit: i64,
    step: i64,
    settle: i64,
    older: i64,
    discovery: bool,
    /// Listings of every so many-th prefix fail for ever; waits may then be twice as long.
    failing: Option<i64>,
}

impl Run {
    /// Runs long past the bound; fails where a tick lists more than two or an item waits longer than promised.
    fn check(&self) -> Result<(), TestCaseError> {
        let unit = Duration::from_secs(self.unit.unsigned_abs());
        let poll = Duration::from_millis(self.poll_ms.unsigned_abs());
        let schedule = Schedule::new(poll, unit, unit * u32::try_from(self.older).expect("small"));
        let older = usize::try_from(self.older).expect("small");
        let bound = SignedDuration::try_from(schedule.bound(older, usize::from(self.discovery))).expect("short");
        let audit = SignedDuration::try_from(schedule.audit_bound(older)).expect("short");
        let calendar = calendar(self.step);
        let mut looked = BTreeMap::new();
        let ticks = (bound.as_millis() * 5 / 2 / i128::from(self.poll_ms)).min(7_000);
        for tick in 0..i64::try_from(ticks).expect("small") {
            let now = Timestamp::from_millisecond(1_777_777_777_000 + tick * self.poll_ms).expect("in range");
            let (keys, items) = self.items(&calendar, now, &looked);
            let due = schedule.due(now, &items);
            prop_assert!(tick == 0 || due.len() <= 2, "{} in tick {tick}", due.len());
            prop_assert!(due.contains(&0));
            // Waits are judged when they end; those that never do, in the last tick.
            let last = i128::from(tick) == ticks - 1;
            for number in if last { (0..items.len()).collect() } else { due } {
                let item = items[number];
                let promised = if item.zone == Zone::Behind { audit } else { bound };
                let promised = if self.failing.is_some() { promised * 2 } else { promised };
                let age =
                    looked.insert(keys[number], now).map_or(SignedDuration::ZERO, |then| now.duration_since(then));
                prop_assert!(age <= promised, "{item:?} waits {age:#}, promised {promised:#}, in tick {tick}");
                let settled = item.settled.filter(|_| tick > 0 && self.failing.is_none());
                let waited = settled.map_or(0, |settled| now.duration_since(settled).as_millis());
                prop_assert!(waited <= 8 * i128::from(self.poll_ms), "the watermark waits {waited} ms in tick {tick}");
            }
        }
        Ok(())
    }

    fn items(&self, calendar: &Calendar, now: Timestamp, looked: &BTreeMap<i64, Timestamp>) -> (Vec<i64>, Vec<Item>) {
        let current = now.as_second() / self.unit;
        let mut keys = Vec::new();
        let mut items = Vec::new();
        for back in 0..=2 * self.older {
            let key = current - back;
            let zone = match back {
                0 => Zone::Newest,
                back if back <= self.older => Zone::InWindow,
                _ => Zone::Behind,
            };
            let (from, to) = (at(key * self.unit), at((key + 1) * self.unit));
            let span = PrefixSpan { prefix: String::new(), from, to, combination: 0 };
            let looked = looked.get(&key).copied();
            let settle = SignedDuration::from_secs(self.settle);
            let settled = settled_at(calendar, &span, settle, looked, now).filter(|_| zone == Zone::InWindow);
            let fails = zone == Zone::InWindow && self.failing.is_some_and(|every| key % every == 0);
            keys.push(key);
            items.push(Item { zone, looked, settled: if fails { Some(from) } else { settled } });
        }
        if self.discovery {
            keys.push(-1);
            items.push(Item { zone: Zone::Discovery, looked: looked.get(&-1).copied(), settled: None });
        }
        (keys, items)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn nothing_waits_longer_than_promised_and_two_listings_are_enough(
        poll_ms in 200i64..=10_000,
        (unit, step) in prop::sample::select(vec![(60, 5), (60, 60), (3_600, 5), (3_600, 300), (3_600, 3_600), (86_400, 300)]),
        settle in prop::sample::select(vec![0, 60, 300, 7_200]),
        magnitude in 0.0f64..1.0,
        discovery: bool,
    ) {
        // As many small windows as large ones.
        let older = 120f64.powf(magnitude) as i64;
        Run { poll_ms, unit, step, settle, older, discovery, failing: None }.check()?;
    }
}

#[test]
fn the_widest_window_holds_too() {
    let run = Run { poll_ms: 10_000, unit: 60, step: 5, settle: 60, older: 720, discovery: true, failing: None };
    run.check().expect("in bounds");
}

#[test]
fn prefixes_that_fail_for_ever_starve_no_other() {
    for every in [1, 2, 7] {
        let failing = Some(every);
        let run = Run { poll_ms: 1_000, unit: 3_600, step: 300, settle: 60, older: 20, discovery: true, failing };
        run.check().expect("in bounds");
    }
}
