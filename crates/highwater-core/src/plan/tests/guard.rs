//! The tables of `docs/guards.md`, row by row, and what a table does not show.

use std::collections::BTreeSet;

use super::check;
use super::script::{World, at, pipeline, run, source};
use crate::plan::Plan;
use crate::policy::GuardLimit;

const PAGE: &str = include_str!("../../../../../docs/guards.md");

/// The cells of the rows below the table's head that begins with these columns.
fn table(columns: &[&str]) -> Vec<Vec<String>> {
    let head = format!("| {} |", columns.join(" | "));
    let rows = PAGE.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "docs/guards.md has no table that begins with {head}");
    rows
}

/// `08/1-3 09/a` as `08/1 08/2 08/3 09/a`; `etag` stands behind those that name none.
fn files(text: &str, etag: &str) -> Vec<String> {
    let mut all = Vec::new();
    for word in text.split_whitespace().filter(|word| *word != "nothing") {
        let (path, etag) = word.split_once('#').unwrap_or((word, etag));
        let (folder, name) = path.split_once('/').unwrap();
        match name.split_once('-') {
            Some((from, to)) => {
                let numbers = from.parse::<u32>().unwrap()..=to.parse().unwrap();
                all.extend(numbers.map(|number| format!("{folder}/{number}#{etag}")));
            }
            None => all.push(format!("{folder}/{name}#{etag}")),
        }
    }
    all
}

fn paths(text: &str) -> BTreeSet<String> {
    files(text, "").iter().map(|file| file.trim_end_matches('#').to_owned()).collect()
}

fn short<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    paths.map(|path| path.trim_start_matches("2026-05-01/").to_owned()).collect()
}

/// Plays `10:12 FILES; 10:18 FILES` over pinned files; gives the last plan.
fn play(kind: &str, pinned: &str, steps: &str) -> Plan {
    let (pinned, is_reference) = (files(pinned, "1").join(" "), kind == "reference");
    let list = |files: &str, time: &str| match is_reference {
        true => format!("list-all ads at {time}: {files}\n"),
        false => format!("list ads 06-14 at {time}: {files}\n"),
    };
    let mut script = match is_reference {
        true => "source ads reference settle=5m\nW 10:00\nclock 10:10\n".to_owned(),
        false => "source ads 1h\nW 10:00\nclock 10:10\nE ads 07:00\nnewest ads 11:00\n".to_owned(),
    };
    script += &format!("live ads {pinned}\n{}tick 10:11\n", list(&pinned, "10:11"));
    let steps: Vec<&str> = steps.split(';').map(str::trim).collect();
    let (last, former) = steps.split_last().unwrap();
    let mut step = |step: &str, act: &str| {
        let (time, listed) = step.split_once(' ').unwrap();
        match listed.strip_prefix("accepted ") {
            Some(until) => script += &format!("accept ads {until}\n{act} {time}\n"),
            None => script += &format!("{}{act} {time}\n", list(&files(listed, "1").join(" "), time)),
        }
        time.to_owned()
    };
    former.iter().for_each(|former| drop(step(former, "tick")));
    let now = step(last, "plan");
    run(&script).0.plan(at(&now)).unwrap()
}

#[test]
fn the_removals_of_the_page_are_what_the_planner_does() {
    let columns = ["case", "pinned", "listings, one a look", "taken away", "taken in", "withheld", "waits", "alarm"];
    for row in table(&columns) {
        let [case, pinned, steps, dropped, added, withheld, waits, alarm] = &row[..] else { panic!("{row:?}") };
        let kind = if case.starts_with("reference") { "reference" } else { "partitioned" };
        let plan = play(kind, pinned, steps);
        let source = plan.sources.values().next().unwrap();
        assert_eq!(short(source.dropped.iter().map(|file| &*file.path)), paths(dropped), "{case}: taken away\n{plan}");
        assert_eq!(short(source.added.iter().map(|file| &*file.path)), paths(added), "{case}: taken in\n{plan}");
        assert_eq!(short(source.held.iter().map(|file| &*file.path)), paths(waits), "{case}: waits\n{plan}");
        let held: BTreeSet<_> = short(source.held.iter().map(|file| &*file.path));
        let missing = short(source.withheld.iter().map(|path| &**path)).difference(&held).cloned().collect();
        assert_eq!(paths(withheld), missing, "{case}: withheld\n{plan}");
        let raised = plan.alarms.iter().find(|alarm| alarm.kind == "removals_withheld");
        let raised = raised.map_or("none".to_owned(), |alarm| alarm.detail.split(" files").next().unwrap().to_owned());
        assert_eq!(raised, *alarm, "{case}: alarm\n{plan}");
    }
}

#[test]
fn the_eviction_bounds_of_the_page_are_what_the_planner_does() {
    let columns = ["`hold_after`", "clock", "W", "newest data ends", "E", "alarm"];
    for row in table(&columns) {
        let [hold, clock, watermark, newest, bound, alarm] = &row[..] else { panic!("{row:?}") };
        let mut world = World { policy: pipeline("1h"), ..World::default() };
        world.add(source("ads", "1h", &[&format!("hold={hold}")]));
        if newest != "none yet" {
            world.state.sources.entry(crate::SourceName::new("ads")).or_default().newest_end = Some(at(newest));
        }
        for hour in 0..24 {
            world.listed("ads", &format!("2026-05-01/{hour:02}/"), at(clock), Vec::new());
        }
        let plan = world.plan(at(clock)).unwrap();
        let evict_before = plan.sources.values().next().unwrap().evict_before;
        assert_eq!((plan.watermark, evict_before), (at(watermark), Some(at(bound))), "{row:?}");
        let kinds: Vec<&str> = plan.alarms.iter().map(|alarm| &*alarm.kind).collect();
        assert_eq!(if kinds.is_empty() { "none".into() } else { kinds.join(" ") }, *alarm, "{row:?}");
    }
}

#[test]
fn past_the_limit_means_more_files_and_a_greater_share() {
    let limit = GuardLimit::default();
    for (vanished, live, is_passed) in
        [(10, 10, false), (11, 11, true), (11, 110, false), (12, 110, true), (30, 300, false), (31, 300, true)]
    {
        assert_eq!(limit.is_passed(vanished, live), is_passed, "{vanished} of {live}");
    }
}

const STANDING: &str = "
    source ads 1h guard=1/10%
    W 10:00
    clock 10:10
    E ads 07:00
    newest ads 11:00
    live ads 07/a#1 08/a#1 08/b#1 08/c#1 09/a#1 10/a#1
    list ads 07-11 at 10:10: 07/a#1 08/a#1 08/b#1 08/c#1 09/a#1 10/a#1
    tick 10:10
";

/// Plans after those of [`STANDING`].
fn after(script: &str) -> String {
    check(&format!("{STANDING}{script}")).split_once("07:00\n").unwrap().1.to_owned()
}

#[test]
fn what_is_withheld_stays_so_and_the_alarm_says_since_when_until_it_returns() {
    insta::assert_snapshot!(after("
        list ads 08 at 10:12: 08/a#1
        tick 10:12
        list ads 10 at 10:40: 10/a#1 10/new#1
        tick 10:40
        list ads 08 at 10:41: 08/a#1 08/b#1 08/c#2
        tick 10:41
        plan 10:41
    "), @"
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      withheld 08/b
      withheld 08/c
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; if they were meant to go: highwater accept-removals ads
    at 10:40: watermark stays at 10:00
    ads: from 07:00
      + 10/new
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; if they were meant to go: highwater accept-removals ads
    at 10:41: watermark stays at 10:00
    ads: from 07:00
      - 08/c
      + 08/c
      returned 08/b
      returned 08/c
    at 10:41: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn a_rewritten_partition_is_applied_once_listings_show_it_unchanged_for_settle() {
    insta::assert_snapshot!(after("
        list ads 08 at 10:12: 08/a#1 08/new1#1
        tick 10:12
        list ads 08 at 10:16: 08/a#2 08/new1#1 08/new2#1
        tick 10:16
        plan 10:30
        list ads 08 at 10:20: 08/a#2 08/new1#1 08/new2#1
        tick 10:20
        list ads 08 at 10:21: 08/a#2 08/new1#1 08/new2#1
        tick 10:21
        plan 10:21
    "), @"
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      withheld 08/b
      withheld 08/c
      waits 08/new1
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; 1 new files of the same partitions wait with them; if they were meant to go: highwater accept-removals ads
    at 10:16: watermark stays at 10:00
    ads: from 07:00
      waits 08/a
      waits 08/new1
      waits 08/new2
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; 3 new files of the same partitions wait with them; if they were meant to go: highwater accept-removals ads
    at 10:30: watermark stays at 10:00
    ads: from 07:00
      waits 08/a
      waits 08/new1
      waits 08/new2
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; 3 new files of the same partitions wait with them; if they were meant to go: highwater accept-removals ads
    at 10:20: watermark stays at 10:00
    ads: from 07:00
      waits 08/a
      waits 08/new1
      waits 08/new2
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; 3 new files of the same partitions wait with them; if they were meant to go: highwater accept-removals ads
    at 10:21: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      - 08/b
      - 08/c
      + 08/a
      + 08/new1
      + 08/new2
    at 10:21: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn a_removal_beside_withheld_ones_waits_with_them_and_elsewhere_it_counts_by_itself() {
    let wide = STANDING.replace("guard=", "window=9h hold=9h guard=");
    let (_, plans) = run(&format!(
        "{wide}
        list ads 08 at 10:12: 08/a#1
        tick 10:12
        list ads 07-15 at 14:00: 07/a#1 08/a#1 10/a#1
        tick 14:00
        list ads 08 at 15:00:
        plan 15:00
    "
    ));
    let moves: Vec<&str> = plans.lines().filter(|line| line.starts_with("  ") || line.starts_with("at")).collect();
    insta::assert_snapshot!(moves.join("\n"), @"
    at 10:10: watermark stays at 10:00
    at 10:12: watermark stays at 10:00
      withheld 08/b
      withheld 08/c
    at 14:00: watermark 10:00 -> 13:00
      - 09/a
    at 15:00: watermark stays at 13:00
      withheld 08/a
    ");
}

#[test]
fn removals_are_counted_over_a_revisit_cycle() {
    insta::assert_snapshot!(after("
        list ads 07 at 10:12:
        tick 10:12
        list ads 08 at 10:13: 08/a#1 08/b#1
        tick 10:13
    "), @"
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      - 07/a
    at 10:13: watermark stays at 10:00
    ads: from 07:00
      withheld 08/c
    alarm removals_withheld of ads: 1 of 5 files are gone from the listing and stay in the table until they return: 08/c; if they were meant to go: highwater accept-removals ads
    ");
}

#[test]
fn an_order_takes_what_was_seen_and_nothing_that_went_later() {
    insta::assert_snapshot!(after("
        list ads 08 at 10:12: 08/a#1
        tick 10:12
        list ads 09 at 10:13:
        tick 10:13
        accept ads 10:12
        tick 10:14
        accept ads 10:13
        tick 10:15
        plan 10:15
    "), @"
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      withheld 08/b
      withheld 08/c
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; if they were meant to go: highwater accept-removals ads
    at 10:13: watermark stays at 10:00
    ads: from 07:00
      withheld 09/a
    alarm removals_withheld of ads: 3 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c, 09/a; if they were meant to go: highwater accept-removals ads
    at 10:14: watermark stays at 10:00
    ads: from 07:00
      - 08/b
      - 08/c
    alarm removals_withheld of ads: 1 of 6 files are gone from the listing and stay in the table until they return: 09/a; if they were meant to go: highwater accept-removals ads
    at 10:15: watermark stays at 10:00
    ads: from 07:00
      - 09/a
    at 10:15: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn an_order_leaves_a_rewrite_that_went_on_after_it() {
    insta::assert_snapshot!(after("
        list ads 08 at 10:12: 08/a#1
        tick 10:12
        list ads 08 at 10:13: 08/new#1
        tick 10:13
        accept ads 10:12
        plan 10:14
        accept ads 10:13
        plan 10:14
    "), @"
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      withheld 08/b
      withheld 08/c
    alarm removals_withheld of ads: 2 of 6 files are gone from the listing and stay in the table until they return: 08/b, 08/c; if they were meant to go: highwater accept-removals ads
    at 10:13: watermark stays at 10:00
    ads: from 07:00
      withheld 08/a
      waits 08/new
    alarm removals_withheld of ads: 3 of 6 files are gone from the listing and stay in the table until they return: 08/a, 08/b, 08/c; 1 new files of the same partitions wait with them; if they were meant to go: highwater accept-removals ads
    at 10:14: watermark stays at 10:00
    ads: from 07:00
      waits 08/new
    alarm removals_withheld of ads: 3 of 6 files are gone from the listing and stay in the table until they return: 08/a, 08/b, 08/c; 1 new files of the same partitions wait with them; if they were meant to go: highwater accept-removals ads
    at 10:14: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      - 08/b
      - 08/c
      + 08/new
    ");
}

#[test]
fn what_is_withheld_leaves_with_the_window() {
    insta::assert_snapshot!(after("
        list ads 07-08 at 10:12:
        tick 10:12
        list ads 09-13 at 12:06: 09/a#1 10/a#1 12/a#1
        tick 12:06
    "), @"
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      withheld 07/a
      withheld 08/a
      withheld 08/b
      withheld 08/c
    alarm removals_withheld of ads: 4 of 6 files are gone from the listing and stay in the table until they return: 07/a, 08/a, 08/b and 1 more; if they were meant to go: highwater accept-removals ads
    at 12:06: watermark 10:00 -> 12:00
    ads: from 09:00
      - 07/a
      - 08/a
      - 08/b
      - 08/c
      + 12/a
    ");
}

#[test]
fn a_version_in_quarantine_keeps_its_place_while_its_file_is_withheld() {
    insta::assert_snapshot!(check("
        source ads 1h guard=1/10%
        W 10:00
        E ads 07:00
        newest ads 11:00
        live ads 08/a#1 08/b#1 09/a#1
        quarantined ads 08/a#2 since=10:05 attempts=1
        list ads 07-11 at 10:12: 09/a#1
        tick 10:12
        accept ads 10:12
        plan 10:13
    "), @"
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      withheld 08/a
      withheld 08/b
    alarm removals_withheld of ads: 2 of 3 files are gone from the listing and stay in the table until they return: 08/a, 08/b; if they were meant to go: highwater accept-removals ads
    at 10:13: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      - 08/b
      ~ 08/a
    ");
}

#[test]
fn a_guard_that_is_turned_off_lets_go_of_what_it_withheld() {
    let (mut world, _) = run(&format!("{STANDING} list ads 08 at 10:12: 08/a#1\n tick 10:12\n"));
    let off = source("ads", "1h", &["guard=never"]);
    let known = world.sources.get_mut(&off.name).unwrap();
    let view = std::mem::take(&mut known.view);
    world.add(off.clone());
    world.sources.get_mut(&off.name).unwrap().view = view;
    let plan = world.plan(at("10:13")).unwrap();
    assert_eq!(plan.sources[&off.name].dropped.len(), 2, "{plan}");
}
