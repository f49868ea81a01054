use std::time::Duration;

use insta::assert_snapshot;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;

use super::PrefixPlan;
use crate::partition::{Calendar, Layout};

const SECOND: Duration = Duration::from_secs(1);

fn parts(template: &str, zone: &str, step: i64) -> (Layout, Calendar) {
    let zone = TimeZone::get(zone).expect("zone");
    let calendar = Calendar::new(SignedDuration::from_secs(step), zone).expect("calendar");
    (Layout::parse(template).expect("layout"), calendar)
}

fn plan(template: &str, zone: &str, step: i64) -> PrefixPlan {
    let (layout, calendar) = parts(template, zone, step);
    PrefixPlan::new(&layout, &calendar, SECOND)
}

fn ts(text: &str) -> Timestamp {
    text.parse().expect("timestamp")
}

fn show(plan: &PrefixPlan, from: &str, to: &str, combinations: &[&str]) -> String {
    let combinations: Vec<_> = combinations.iter().map(|names| names.split('/').map(String::from).collect()).collect();
    let spans = plan.prefixes(ts(from), ts(to), &combinations);
    spans.iter().map(|span| format!("{span}\n")).collect()
}

#[test]
fn the_level_is_the_deepest_that_holds_whole_partitions() {
    for (template, step, expected) in [
        ("dt=%Y-%m-%d/hr=%H/mi=%M", 300, "dt=2026-05-01/hr=10/"),
        ("dt=%Y-%m-%d/hr=%H/mi=%M", 60, "dt=2026-05-01/hr=10/mi=07/"),
        ("dt=%Y-%m-%d/hr=%H/mi=%M", 5_400, "dt=2026-05-01/"),
        ("%Y/%m/%d/%H/%M/%S", 5, "2026/05/01/10/07/"),
        ("%Y/%m/%d", 86_400, "2026/05/01/"),
        ("%Y%m%d/data/%H", 86_400, "20260501/data/"),
        ("%Y%m%d/data/%H", 3_600, "20260501/data/10/"),
        ("in/%Y/%j/%-H", 3_600, "in/2026/121/10/"),
        ("hr=%H/dt=%F", 3_600, "hr=10/dt=2026-05-01/"),
        ("dt=%F/{shard}/hr=%H", 300, "dt=2026-05-01/"),
        ("dt=%F/{shard}-%H", 3_600, "dt=2026-05-01/"),
        ("%Y/%m/{shard}-%d", 86_400, "2026/05/"),
        ("{a}-%F", 86_400, ""),
        ("in/hr=%H/{shard}/dt=%F", 3_600, ""),
        ("dt=%F/%H:%M", 60, "dt=2026-05-01/"),
        ("dt=%F/%H%%3A%M", 60, "dt=2026-05-01/10%3A07/"),
    ] {
        let found = plan(template, "UTC", step).newest(ts("2026-05-01T10:07:08Z"), &[]);
        assert_eq!(found, expected, "{template} {step}");
    }
    let (layout, calendar) = parts("%F/%H/%M", "UTC", 60);
    let slow = PrefixPlan::new(&layout, &calendar, Duration::from_secs(30));
    assert_eq!(slow.newest(ts("2026-05-01T10:07:08Z"), &[]), "2026-05-01/10/");
    assert_eq!(slow.unit_length(), Duration::from_secs(3_600));
}

#[test]
fn prefixes_are_listed_newest_first_for_each_combination() {
    let plan = plan("in/region={region}/%F/%H", "UTC", 300);
    assert_eq!(plan.discovery_levels(), 2);
    assert_eq!(plan.literal_folder(0), Some("in"));
    assert_eq!(plan.literal_folder(1), None);
    assert!(plan.matches_capture_folder(1, "region=San%20Francisco"));
    assert!(!plan.matches_capture_folder(1, "city=eu"));
    assert!(!plan.matches_capture_folder(1, "_temporary"));
    assert_snapshot!(show(&plan, "2026-05-01T09:55:00Z", "2026-05-01T10:05:00Z", &["in/region=eu", "in/region=San%20Francisco"]), @r#"
    "in/region=eu/2026-05-01/10/" 2026-05-01T10:00:00Z..2026-05-01T11:00:00Z
    "in/region=San%20Francisco/2026-05-01/10/" 2026-05-01T10:00:00Z..2026-05-01T11:00:00Z
    "in/region=eu/2026-05-01/09/" 2026-05-01T09:00:00Z..2026-05-01T10:00:00Z
    "in/region=San%20Francisco/2026-05-01/09/" 2026-05-01T09:00:00Z..2026-05-01T10:00:00Z
    "#);
    assert_eq!(show(&plan, "2026-05-01T09:55:00Z", "2026-05-01T09:55:00Z", &["in/region=eu"]), "");
    assert_eq!(show(&plan, "2026-05-01T09:55:00Z", "2026-05-01T10:55:00Z", &[]), "");
}

#[test]
fn skipped_and_repeated_hours_are_covered() {
    let berlin = plan("%F/%H", "Europe/Berlin", 3_600);
    assert_snapshot!(show(&berlin, "2024-03-31T01:00:00Z", "2024-03-31T02:00:00Z", &[]), @r#"
    "2024-03-31/03/" 2024-03-31T01:00:00Z..2024-03-31T02:00:00Z
    "2024-03-31/02/" 2024-03-31T01:00:00Z..2024-03-31T02:00:00Z
    "#);
    assert_snapshot!(show(&berlin, "2024-10-26T23:00:00Z", "2024-10-27T03:00:00Z", &[]), @r#"
    "2024-10-27/03/" 2024-10-27T02:00:00Z..2024-10-27T03:00:00Z
    "2024-10-27/02/" 2024-10-27T00:00:00Z..2024-10-27T02:00:00Z
    "2024-10-27/01/" 2024-10-26T23:00:00Z..2024-10-27T00:00:00Z
    "#);
    assert_eq!(berlin.newest(ts("2024-10-27T00:30:00Z"), &[]), "2024-10-27/02/");
    assert_eq!(berlin.newest(ts("2024-10-27T01:30:00Z"), &[]), "2024-10-27/02/");
    let apia = plan("%F", "Pacific/Apia", 86_400);
    assert_snapshot!(show(&apia, "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", &[]), @r#"
    "2011-12-31/" 2011-12-30T10:00:00Z..2011-12-31T10:00:00Z
    "2011-12-30/" 2011-12-30T10:00:00Z..2011-12-31T10:00:00Z
    "#);
}

#[test]
fn behind_the_window_there_is_at_least_one() {
    let window = SignedDuration::from_hours(2);
    let names = |plan: &PrefixPlan, from| -> Vec<_> {
        plan.behind(ts(from), window, &[]).into_iter().map(|span| span.prefix).collect()
    };
    assert_eq!(names(&plan("%F/%H", "UTC", 300), "2026-05-01T10:20:00Z"), ["2026-05-01/09/", "2026-05-01/08/"]);
    assert_eq!(names(&plan("%F", "UTC", 300), "2026-05-01T10:20:00Z"), ["2026-04-30/"]);
    assert_eq!(names(&plan("{a}-%F", "UTC", 300), "2026-05-01T10:20:00Z"), [""; 0]);
    assert_eq!(
        names(&plan("%F/%H", "Europe/Berlin", 300), "2024-03-31T01:00:00Z"),
        ["2024-03-31/01/", "2024-03-31/00/"]
    );
}

#[test]
fn a_path_is_listed_under_its_prefix() {
    let plan = plan("region={region}/%F/%H/%M", "UTC", 300);
    assert_eq!(plan.prefix_of("region=a%20b/2026-05-01/10/05/x/y"), Some("region=a%20b/2026-05-01/10/"));
    assert_eq!(plan.prefix_of("region=a/x"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Whatever a writer in the zone names by its clock, or by a time that its clock skipped, is below a prefix of the
    /// range that its partition is in, and within that prefix's span.
    #[test]
    fn no_file_of_the_range_is_missed(
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "America/St_Johns"]),
        template in prop::sample::select(vec!["%F/%H/%M/%S", "%Y/%m/%d-%H/%M-%S", "%Y-%m/%-d/%-H/%-M/%S", "%Y/%j/%H%M%S", "%Y/x/%m/%d%H%M%S"]),
        step in prop::sample::select(vec![5i64, 60, 300, 900, 3_600, 5_400, 86_400]),
        second in 1_262_300_000i64..1_730_000_000, shift in -200_000i64..200_000, near: bool, before in 0i64..4, after in 0i64..4,
    ) {
        let (layout, calendar) = parts(template, zone, step);
        let plan = PrefixPlan::new(&layout, &calendar, SECOND);
        let at = Timestamp::from_second(second).expect("in range");
        let change = calendar.zone().following(at).next().map(|change| change.timestamp() + shift.seconds());
        let civil = TimeZone::UTC.to_datetime(change.filter(|_| near).unwrap_or(at));
        let path: String = layout.folders().iter().map(|folder| folder.render(&civil) + "/").collect::<String>() + "file";
        let partition = calendar.holding_civil(layout.locate(&path).expect("located").civil);
        let (mut from, mut to) = (partition, partition);
        for _ in 0..before { from = calendar.previous(&from); }
        for _ in 0..after { to = calendar.next(&to); }
        let spans = plan.prefixes(from.start, to.end, &[]);
        let prefix = plan.prefix_of(&path).expect("deep enough");
        let span = spans.iter().find(|span| span.prefix == prefix);
        let span = span.ok_or_else(|| TestCaseError::fail(format!("{path} is below none of {spans:?}")))?;
        prop_assert!(path.starts_with(&span.prefix));
        prop_assert!(span.from <= partition.start && partition.end <= span.to, "{path}: {partition} not in {span}");
        prop_assert!(spans.is_sorted_by(|a, b| a.to >= b.to));
        prop_assert!(spans.iter().all(|span| span.to > from.start && span.from < to.end), "{spans:?} for {from} to {to}");
    }
}
