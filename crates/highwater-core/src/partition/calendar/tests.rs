use insta::assert_snapshot;
use jiff::civil::{DateTime, date};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;

use super::{Calendar, Partition};

const ZONES: [&str; 11] = [
    "UTC",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "America/St_Johns",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/Havana",
];
const STEPS: [i64; 7] = [5, 60, 300, 900, 5_400, 3_600, 86_400];

fn calendar(zone: &str, step: i64) -> Calendar {
    let zone = TimeZone::get(zone).expect("zone");
    Calendar::new(SignedDuration::from_secs(step), zone).expect("calendar")
}

/// The partitions from the one of a civil time on, in local time with the offset.
fn show(zone: &str, step: i64, from: DateTime, count: usize) -> String {
    let calendar = calendar(zone, step);
    let mut text = String::new();
    let mut at = calendar.holding_civil(from);
    for _ in 0..count {
        let [start, end] =
            [at.start, at.end].map(|t| t.to_zoned(calendar.zone().clone()).strftime("%d %H:%M:%S%:z").to_string());
        text += &format!("{start} .. {end}  {:#}\n", at.end.duration_since(at.start));
        at = calendar.next(&at);
    }
    text
}

fn ts(text: &str) -> Timestamp {
    text.parse().expect("timestamp")
}

#[test]
fn a_late_path_time_falls_into_its_step() {
    let calendar = calendar("UTC", 300);
    let found = calendar.holding_civil(date(2026, 5, 1).at(10, 7, 0, 0));
    assert_snapshot!(found, @"2026-05-01T10:05:00Z..2026-05-01T10:10:00Z");
    assert_snapshot!(calendar.holding(ts("1969-12-31T23:59:59.5Z")), @"1969-12-31T23:55:00Z..1970-01-01T00:00:00Z");
}

#[test]
fn the_frontier_is_the_end_of_the_last_settled_partition() {
    let calendar = calendar("UTC", 300);
    let minute = SignedDuration::from_mins(1);
    assert_eq!(calendar.frontier(ts("2026-05-01T10:11:00Z"), minute), ts("2026-05-01T10:10:00Z"));
    assert_eq!(calendar.frontier(ts("2026-05-01T10:10:59.999Z"), minute), ts("2026-05-01T10:05:00Z"));
    assert_eq!(calendar.frontier(ts("2026-05-01T10:10:00Z"), SignedDuration::ZERO), ts("2026-05-01T10:10:00Z"));
}

#[test]
fn berlin_skips_an_hour() {
    assert_snapshot!(show("Europe/Berlin", 3_600, date(2024, 3, 31).at(1, 0, 0, 0), 3), @r"
    31 01:00:00+01:00 .. 31 03:00:00+02:00  1h
    31 03:00:00+02:00 .. 31 04:00:00+02:00  1h
    31 04:00:00+02:00 .. 31 05:00:00+02:00  1h
    ");
    let calendar = calendar("Europe/Berlin", 300);
    let skipped = calendar.holding_civil(date(2024, 3, 31).at(2, 35, 0, 0));
    assert_snapshot!(skipped, @"2024-03-31T01:00:00Z..2024-03-31T01:05:00Z");
    let (from, to) = calendar.civil_range(skipped.start, skipped.end);
    assert_snapshot!(format!("{from} {to}"), @"2024-03-31T02:00:00 2024-03-31T03:05:00");
    assert_snapshot!(show("Europe/Berlin", 86_400, date(2024, 3, 31).at(2, 30, 0, 0), 1), @"31 00:00:00+01:00 .. 01 00:00:00+02:00  23h");
}

#[test]
fn berlin_repeats_an_hour() {
    assert_snapshot!(show("Europe/Berlin", 900, date(2024, 10, 27).at(1, 45, 0, 0), 3), @r"
    27 01:45:00+02:00 .. 27 02:00:00+02:00  15m
    27 02:00:00+02:00 .. 27 03:00:00+01:00  2h
    27 03:00:00+01:00 .. 27 03:15:00+01:00  15m
    ");
    assert_snapshot!(show("Europe/Berlin", 5_400, date(2024, 10, 27).at(0, 0, 0, 0), 3), @r"
    27 00:00:00+02:00 .. 27 01:30:00+02:00  1h 30m
    27 01:30:00+02:00 .. 27 03:00:00+01:00  2h 30m
    27 03:00:00+01:00 .. 27 04:30:00+01:00  1h 30m
    ");
    let calendar = calendar("Europe/Berlin", 900);
    let merged = calendar.holding_civil(date(2024, 10, 27).at(2, 59, 59, 0));
    let settle = SignedDuration::ZERO;
    assert_eq!(
        calendar.frontier(ts("2024-10-27T01:59:59Z"), settle),
        ts("2024-10-27T00:00:00Z"),
        "second passage is on"
    );
    assert_eq!(calendar.frontier(ts("2024-10-27T02:00:00Z"), settle), merged.end);
}

#[test]
fn lord_howe_moves_by_half_an_hour() {
    assert_snapshot!(show("Australia/Lord_Howe", 3_600, date(2024, 4, 7).at(0, 0, 0, 0), 3), @r"
    07 00:00:00+11:00 .. 07 01:00:00+11:00  1h
    07 01:00:00+11:00 .. 07 02:00:00+10:30  1h 30m
    07 02:00:00+10:30 .. 07 03:00:00+10:30  1h
    ");
    assert_snapshot!(show("Australia/Lord_Howe", 3_600, date(2024, 10, 6).at(1, 0, 0, 0), 3), @r"
    06 01:00:00+10:30 .. 06 02:30:00+11:00  1h
    06 02:30:00+11:00 .. 06 03:00:00+11:00  30m
    06 03:00:00+11:00 .. 06 04:00:00+11:00  1h
    ");
}

#[test]
fn a_skipped_midnight_begins_the_day_later() {
    assert_snapshot!(show("America/Sao_Paulo", 86_400, date(2018, 11, 4).at(0, 30, 0, 0), 1), @"04 01:00:00-02:00 .. 05 00:00:00-02:00  23h");
    assert_snapshot!(show("Asia/Beirut", 3_600, date(2024, 3, 30).at(23, 0, 0, 0), 2), @r"
    30 23:00:00+02:00 .. 31 01:00:00+03:00  1h
    31 01:00:00+03:00 .. 31 02:00:00+03:00  1h
    ");
    assert_snapshot!(show("Asia/Beirut", 86_400, date(2024, 10, 26).at(0, 0, 0, 0), 1), @"26 00:00:00+03:00 .. 27 00:00:00+02:00  25h");
}

#[test]
fn changes_across_midnight_join_days() {
    // One minute past midnight the clock went back to 23:01 of the day before.
    assert_snapshot!(show("America/St_Johns", 86_400, date(2010, 11, 6).at(0, 0, 0, 0), 2), @r"
    06 00:00:00-02:30 .. 08 00:00:00-03:30  49h
    08 00:00:00-03:30 .. 09 00:00:00-03:30  24h
    ");
    // The whole of December 30 was skipped.
    assert_snapshot!(show("Pacific/Apia", 86_400, date(2011, 12, 29).at(0, 0, 0, 0), 2), @r"
    29 00:00:00-10:00 .. 31 00:00:00+14:00  24h
    31 00:00:00+14:00 .. 01 00:00:00+14:00  24h
    ");
}

#[test]
fn odd_offsets_count_from_local_midnight() {
    assert_snapshot!(calendar("Asia/Kolkata", 3_600).holding(ts("2024-05-01T10:00:00Z")), @"2024-05-01T09:30:00Z..2024-05-01T10:30:00Z");
    assert_snapshot!(calendar("Asia/Kathmandu", 3_600).holding(ts("2024-05-01T10:00:00Z")), @"2024-05-01T09:15:00Z..2024-05-01T10:15:00Z");
}

#[test]
fn impossible_steps_are_refused_with_the_way_out() {
    let refused = |millis| Calendar::new(SignedDuration::from_millis(millis), TimeZone::UTC).expect_err("refused");
    assert_snapshot!(refused(0), @r#"step 0s is shorter than one second; use a step of whole seconds such as "5m""#);
    assert_snapshot!(refused(1_500), @r#"step 1s 500ms is not a whole number of seconds; use a step such as "5s" or "5m""#);
    assert_snapshot!(refused(7 * 60_000), @"step 7m does not divide a day of 24 hours; the nearest that do are 6m 40s and 7m 12s");
    assert_snapshot!(refused(172_800_000), @r#"step 48h is longer than a day; the longest step is "24h""#);
}

#[test]
fn the_ends_of_time_do_not_break() {
    for zone in ZONES {
        let calendar = calendar(zone, 3_600);
        for at in [Timestamp::MIN, Timestamp::MAX] {
            let found = calendar.holding(at);
            assert!(found.start < found.end);
            calendar.next(&found);
            calendar.previous(&found);
        }
        calendar.holding_civil(DateTime::MIN);
        calendar.holding_civil(DateTime::MAX);
        calendar.frontier(Timestamp::MIN, SignedDuration::MAX);
    }
}

/// Instants, half of them within three days of a change of the zone's offset.
fn instants() -> impl Strategy<Value = (&'static str, i64, Timestamp)> {
    let anywhere = 0i64..2_000_000_000;
    let near = (0i64..2_000_000_000, -260_000i64..260_000);
    (
        prop::sample::select(&ZONES[..]),
        prop::sample::select(&STEPS[..]),
        anywhere,
        near,
        any::<bool>(),
        0i32..1_000_000_000,
    )
        .prop_map(|(zone, step, anywhere, (seed, shift), close, nanos)| {
            let seed = Timestamp::from_second(seed).expect("in range");
            let tz = TimeZone::get(zone).expect("zone");
            let change = tz.following(seed).next().map(|change| change.timestamp().as_second() + shift);
            let second = change.filter(|_| close).unwrap_or(anywhere);
            (zone, step, Timestamp::new(second, nanos).expect("in range"))
        })
}

fn check(calendar: &Calendar, found: Partition) -> Result<(), TestCaseError> {
    prop_assert!(found.start < found.end);
    prop_assert_eq!(calendar.holding(found.start), found);
    prop_assert_eq!(calendar.holding(found.end - 1.nanosecond()), found);
    prop_assert_eq!(calendar.floor(found.end - 1.nanosecond()), found.start);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn partitions_tile_time((zone, step, at) in instants()) {
        let calendar = calendar(zone, step);
        let found = calendar.holding(at);
        prop_assert!(found.contains(at));
        check(&calendar, found)?;
        let (next, previous) = (calendar.next(&found), calendar.previous(&found));
        prop_assert_eq!(next.start, found.end);
        prop_assert_eq!(previous.end, found.start);
        prop_assert_eq!(calendar.previous(&next), found);
        prop_assert_eq!(calendar.next(&previous), found);
        check(&calendar, next)?;
        check(&calendar, previous)?;
    }

    #[test]
    fn the_path_of_an_instant_leads_back_to_its_partition((zone, step, at) in instants()) {
        let calendar = calendar(zone, step);
        prop_assert_eq!(calendar.holding_civil(calendar.local(at)), calendar.holding(at));
    }

    #[test]
    fn every_civil_time_belongs_to_the_partition_whose_range_covers_it((zone, step, at) in instants()) {
        let calendar = calendar(zone, step);
        // Read as a civil time, so that skipped ones come up too.
        let civil = Offset::UTC.to_datetime(at);
        let found = calendar.holding_civil(civil);
        let (from, to) = calendar.civil_range(found.start, found.end);
        prop_assert!(from <= civil && civil < to, "{civil} not in {from}..{to} of {found}");
    }

    #[test]
    fn an_ordinary_partition_is_one_step((step, at) in (prop::sample::select(&STEPS[..]), 0i64..2_000_000_000)) {
        let found = calendar("UTC", step).holding(Timestamp::from_second(at).expect("in range"));
        prop_assert_eq!(found.start.as_second(), at - at % step);
        prop_assert_eq!(found.end.as_second(), at - at % step + step);
    }
}
