//! A small month: the same proof at a size that a test can afford.

use std::time::Duration;

use super::*;
/// Fewer records than the product keeps, so that trimming is seen within two days.
const KEPT: u64 = 100;

struct Nothing;

impl Gauge for Nothing {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

async fn small(files: u64, days: u32, forever: bool) -> Vec<Day> {
    let poll = Duration::from_secs(300);
    let options = Options { files, days, poll, forever, keep: KEPT, ..Options::default() };
    run(&options, &Nothing, |_| {}).await.unwrap()
}

#[tokio::test]
async fn state_and_log_are_flat_after_the_first_window() {
    let days = small(20_000, 2, false).await;
    let [first, second] = &days[..] else { panic!("two days") };
    assert!(first.landed + second.landed > 19_800, "{} and {} landed", first.landed, second.landed);
    assert!(second.replaced > 0 && second.removed > 0 && second.most.holes > 0, "nothing went wrong: {second:?}");
    // The window's files, and a quarter for what the silent hour put off.
    assert!(second.most.live_files <= 10_000 * 310 / 1_440 * 5 / 4, "{} files pinned", second.most.live_files);
    assert!(second.most.state_bytes <= first.most.state_bytes * 21 / 20, "{:?} {:?}", first.most, second.most);
    // What trimming keeps, and what two snapshots stand for.
    assert!(first.batches + second.batches > 3 * KEPT, "too few batches to see trimming: {first:?} {second:?}");
    assert!(second.most.log_objects <= 2 * KEPT + 10, "{} objects", second.most.log_objects);
    for day in &days {
        // A start lists everything: seven hours at most.
        let most = 2 * day.ticks + 3 * 7;
        for (source, lists) in &day.lists {
            assert!(*lists <= most, "{source}: {lists} requests in {} ticks of day {}", day.ticks, day.number);
        }
    }
}

#[test]
fn one_odd_day_is_no_growth_and_a_slope_is() {
    let day = |number: u32, bytes: u64| {
        let mut day = Day::new(number);
        day.most.state_bytes = bytes;
        day
    };
    let growth = |bytes: &[u64]| {
        let days: Vec<Day> = bytes.iter().zip(1..).map(|(bytes, number)| day(number, *bytes)).collect();
        trends(&days)[0].clone()
    };
    let odd = growth(&[10, 100, 100, 300, 100, 100, 100]);
    assert!(odd.is_flat() && odd.growth == 0.0, "{odd:?}");
    let slope = growth(&[10, 100, 102, 104, 106, 108, 110]);
    assert!(!slope.is_flat(), "{slope:?}");
}

#[tokio::test]
async fn rows_that_stay_for_ever_are_seen_to_grow() {
    let states = trends(&small(900, 3, true).await).remove(0);
    assert!(!states.is_flat(), "{states:?}");
}
