//! The ledger: how each cause opens, grows and ends.

use super::check;
use super::script::{at, run};
use crate::holes::{Hole, HoleEnd, OPEN_KEPT};

#[test]
fn a_lag_that_lasts_is_one_hole_and_ends_a_window_later() {
    insta::assert_snapshot!(check("
        source ads 1h hold=never
        W 03:00
        E ads 00:00
        newest ads 04:00
        list ads 00-10 at 13:10: 10/a#1
        list ads 12-14 at 13:10: 12/a#1
        fail ads 11
        pass 13:10
        ledger
        list ads 12-15 at 14:10: 12/a#1
        pass 14:10
        list ads 12-16 at 15:10: 12/a#1
        pass 15:10
        ledger
        list ads 11-19 at 18:10: 12/a#1 17/a#1
        pass 18:10
        ledger
        list ads 19-20 at 19:10:
        pass 19:10
        ledger
    "), @"
    ledger:
      passed_over in ads, 03:00 to 10:00, since 13:10
    ledger:
      passed_over in ads, 03:00 to 10:00, since 13:10
      passed_over in ads, 11:00 to 12:00, since 15:10
    ledger:
      left_window passed_over in ads, 03:00 to 10:00, since 13:10
      left_window passed_over in ads, 11:00 to 12:00, since 15:10
    ledger:
    ");
}

const ONE: &str = "
    source ads 1h hold=never
    W 12:00
    E ads 09:00
    newest ads 12:00
    live ads 09/a#1 10/a#1 11/a#1
    list ads 06-13 at 12:10: 09/a#1 10/a#1 11/a#1
    pass 12:10
";

fn with(script: &str) -> String {
    check(&format!("{ONE}{script}"))
}

#[test]
fn late_files_are_named_up_to_three_a_partition_and_end_when_they_are_gone() {
    insta::assert_snapshot!(with("
        list ads 07 at 12:20: 07/a#1 07/b#1 07/c#1 07/d#1 07/e#1
        list ads 08 at 12:20: 08/z#1
        tick 12:20
        tick 12:21
        fail ads 07
        tick 12:30
        list ads 07 at 12:40: 07/b#1 07/c#1 07/e#1 07/f#1
        tick 12:40
        list ads 07 at 12:50: 07/b#0
        pass 12:50
        ledger
    "), @"
    at 12:20: watermark stays at 12:00
    ads: from 09:00
    hole in ads: 07:00 to 08:00 (07/a)
    hole in ads: 07:00 to 08:00 (07/b)
    hole in ads: 07:00 to 08:00 (07/c)
    hole in ads: 07:00 to 08:00, late_file: 2 more of this partition
    hole in ads: 08:00 to 09:00 (08/z)
    alarm late_out_of_window of ads: 6 files, 07/a the first of them, landed behind the window and were not taken in
    at 12:21: watermark stays at 12:00
    ads: from 09:00
    at 12:30: watermark stays at 12:00
    ads: from 09:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 07/: out of reach
    at 12:40: watermark stays at 12:00
    ads: from 09:00
    hole in ads: 07:00 to 08:00, late_file: 3 more of this partition
    removed late_file in ads: 07:00 to 08:00 (07/a)
    alarm late_out_of_window of ads: 07/f landed behind the window and was not taken in
    ledger:
      late_file in ads, 08:00 to 09:00 (08/z), since 12:20
      removed late_file in ads, 07:00 to 08:00 (07/a), since 12:20
      removed late_file in ads, 07:00 to 08:00: 3 more of this partition, since 12:20
      removed late_file in ads, 07:00 to 08:00 (07/b), since 12:20
      removed late_file in ads, 07:00 to 08:00 (07/c), since 12:20
    ");
}

#[test]
fn late_files_are_of_no_concern_once_they_lie_a_window_behind() {
    insta::assert_snapshot!(with("
        list ads 08 at 12:20: 08/z#1
        pass 12:20
        list ads 12-15 at 14:10:
        pass 14:10
        ledger
        list ads 12-16 at 15:10:
        pass 15:10
        ledger
    "), @"
    ledger:
      late_file in ads, 08:00 to 09:00 (08/z), since 12:20
    ledger:
      left_window late_file in ads, 08:00 to 09:00 (08/z), since 12:20
    ");
}

#[test]
fn what_landed_in_live_time_while_nobody_looked_is_late() {
    insta::assert_snapshot!(check("
        source ads 1h hold=never
        W 12:00
        clock 12:10
        E ads 09:00
        newest ads 13:00
        live ads 09/a#1 12/a#1
        list ads 09-15 at 14:10: 09/a#1 09/new#1 10/new#1 12/a#1 13/a#1
        tick 14:10
        tick 14:11
    "), @"
    at 14:10: watermark 12:00 -> 14:00
    ads: from 11:00
      - 09/a
      + 13/a
    hole in ads: 09:00 to 10:00 (09/new)
    hole in ads: 10:00 to 11:00 (10/new)
    alarm late_out_of_window of ads: 2 files, 09/new the first of them, landed behind the window and were not taken in
    at 14:11: watermark stays at 14:00
    ads: from 11:00
    ");
}

#[test]
fn what_landed_unseen_and_would_have_left_by_now_is_not_told() {
    insta::assert_snapshot!(check("
        source ads 1h hold=never
        W 12:00
        clock 12:10
        E ads 05:00
        newest ads 13:00
        live ads 12/a#1
        list ads 05-15 at 14:10: 07/new#1 08/new#1 12/a#1 13/a#1
        tick 14:10
    "), @"
    at 14:10: watermark 12:00 -> 14:00
    ads: from 11:00
      + 13/a
    hole in ads: 08:00 to 09:00 (08/new)
    alarm late_out_of_window of ads: 08/new landed behind the window and was not taken in
    ");
}

#[test]
fn a_table_for_ever_keeps_its_late_files_until_they_are_read() {
    insta::assert_snapshot!(check("
        source ads 1h hold=never forever=00:00
        W 12:00
        clock 12:10
        E ads 00:00
        newest ads 12:00
        list ads 06-13 at 12:10: 11/a#1
        pass 12:10
        list ads 07 at 12:20: 07/a#1
        pass 12:20
        list ads 11-15 at 14:10: 11/a#1
        pass 14:10
        ledger
        source ads 1h hold=never forever=00:00 window=20h
        list ads 00-15 at 14:11: 07/a#1 11/a#1
        tick 14:11
        ledger
    "), @"
    ledger:
      late_file in ads, 07:00 to 08:00 (07/a), since 12:20
    at 14:11: watermark stays at 14:00
    ads: from 00:00
      + 07/a
    filled late_file in ads: 07:00 to 08:00 (07/a)
    ledger:
      filled late_file in ads, 07:00 to 08:00 (07/a), since 12:20
    ");
}

#[test]
fn a_file_in_quarantine_is_a_hole_until_it_is_read_or_gone() {
    insta::assert_snapshot!(with("
        unreadable ads 11/a#2
        unreadable ads 12/n#1
        list ads 10-12 at 12:20: 10/a#0 11/a#2 12/n#1
        pass 12:20
        ledger
        tick 12:20
        pass 12:21
        ledger
        list ads 10-12 at 12:30: 10/a#3 11/a#3
        pass 12:30
        ledger
    "), @"
    ledger:
      quarantined in ads, 10:00 to 11:00 (10/a): zero bytes, where the file had rows before; its rows stay until it has some again or is removed, since 12:20
      quarantined in ads, 11:00 to 12:00 (11/a): broken, since 12:20
      quarantined in ads, 12:00 to 13:00 (12/n): broken, since 12:20
    at 12:20: watermark stays at 12:00
    ads: from 09:00
    alarm empty_files of ads: 1 files hold no bytes and were skipped: 10/a: zero bytes
    ledger:
      quarantined in ads, 10:00 to 11:00 (10/a): zero bytes, where the file had rows before; its rows stay until it has some again or is removed, since 12:20
      quarantined in ads, 11:00 to 12:00 (11/a): broken, since 12:20
      quarantined in ads, 12:00 to 13:00 (12/n): broken, since 12:20
    ledger:
      filled quarantined in ads, 10:00 to 11:00 (10/a): zero bytes, where the file had rows before; its rows stay until it has some again or is removed, since 12:20
      filled quarantined in ads, 11:00 to 12:00 (11/a): broken, since 12:20
      removed quarantined in ads, 12:00 to 13:00 (12/n): broken, since 12:20
    ");
}

#[test]
fn a_file_in_quarantine_leaves_with_its_partition() {
    insta::assert_snapshot!(with("
        unreadable ads 09/a#2
        list ads 09 at 12:20: 09/a#2
        pass 12:20
        list ads 12-14 at 13:10:
        tick 13:10
        ledger
    "), @"
    at 13:10: watermark 12:00 -> 13:00
    ads: from 10:00
      - 09/a
      ~ 09/a
    ledger:
      left_window quarantined in ads, 09:00 to 10:00 (09/a): broken, since 12:20
    ");
}

#[test]
fn a_reference_source_has_no_time_but_that_of_finding_out() {
    insta::assert_snapshot!(check("
        source shops reference
        unreadable shops a#1
        clock 12:00
        list-all shops at 12:10: a#1
        pass 12:10
        ledger
        list-all shops at 12:20:
        pass 12:20
        ledger
    "), @"
    ledger:
      quarantined in shops, 12:10 to 12:10 (a): broken, since 12:10
    ledger:
      removed quarantined in shops, 12:10 to 12:10 (a): broken, since 12:10
    ");
}

/// Two files of 700 bytes an hour, hourly partitions, a window of half a day.
fn hourly(hours: std::ops::Range<u8>) -> String {
    hours.map(|hour| format!("{hour:02}/a#1:700 {hour:02}/b#1:700 ")).collect()
}

fn usual(script: &str) -> String {
    let live = hourly(0..12);
    check(&format!(
        "
        source ads 1h hold=never window=12h
        W 12:00
        E ads 00:00
        newest ads 12:00
        live ads {live}
        list ads 00-13 at 12:10: {live}
        pass 12:10
        {script}
    "
    ))
}

#[test]
fn a_partition_that_settles_thin_is_a_hole_until_it_catches_up() {
    insta::assert_snapshot!(usual("
        list ads 12-14 at 13:10: 12/a#1:300
        tick 13:10
        list ads 13-15 at 14:10: 13/a#1:700 13/b#1:700
        tick 14:10
        list ads 12 at 14:20: 12/a#1:300 12/b#1:50
        tick 14:20
        list ads 12 at 14:30: 12/a#1:300 12/b#1:51
        tick 14:30
        tick 14:31
    "), @"
    at 13:10: watermark 12:00 -> 13:00
    ads: from 01:00
      - 00/a
      - 00/b
      + 12/a
    hole in ads: 12:00 to 13:00, under_filled: 1 of usually 2 files, 300 of usually 1400 bytes
    at 14:10: watermark 13:00 -> 14:00
    ads: from 02:00
      - 01/a
      - 01/b
      + 13/a
      + 13/b
    at 14:20: watermark stays at 14:00
    ads: from 02:00
      + 12/b
    filled under_filled in ads: 12:00 to 13:00
    at 14:30: watermark stays at 14:00
    ads: from 02:00
      - 12/b
      + 12/b
    at 14:31: watermark stays at 14:00
    ads: from 02:00
    ");
}

#[test]
fn thin_partitions_side_by_side_are_one_hole_that_ends_in_parts() {
    insta::assert_snapshot!(usual("
        list ads 12-17 at 16:10: 12/a#1:10 14/a#1:10
        tick 16:10
        list ads 16-18 at 17:10:
        pass 17:10
        ledger
        list ads 12 at 17:20: 12/a#1:700
        tick 17:20
        list ads 14 at 17:30: 14/a#1:700
        tick 17:30
        ledger
        list ads 13 at 17:40: 13/a#1:700
        list ads 15-16 at 17:40: 15/a#1:700 16/a#1:700
        pass 17:40
        ledger
    "), @"
    at 16:10: watermark 12:00 -> 16:00
    ads: from 04:00
      - 00/a
      - 00/b
      - 01/a
      - 01/b
      - 02/a
      - 02/b
      - 03/a
      - 03/b
      + 12/a
      + 14/a
    hole in ads: 12:00 to 16:00, under_filled: 0 of usually 2 files, 0 of usually 1400 bytes
    ledger:
      under_filled in ads, 12:00 to 16:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 16:10
    at 17:20: watermark stays at 17:00
    ads: from 05:00
      - 12/a
      + 12/a
    hole in ads: 13:00 to 16:00, under_filled: 0 of usually 2 files, 0 of usually 1400 bytes
    filled under_filled in ads: 12:00 to 13:00
    at 17:30: watermark stays at 17:00
    ads: from 05:00
      - 14/a
      + 14/a
    hole in ads: 13:00 to 14:00, under_filled: 0 of usually 2 files, 0 of usually 1400 bytes
    hole in ads: 15:00 to 16:00, under_filled: 0 of usually 2 files, 0 of usually 1400 bytes
    filled under_filled in ads: 14:00 to 15:00
    ledger:
      under_filled in ads, 13:00 to 14:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 16:10
      under_filled in ads, 15:00 to 16:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 16:10
      filled under_filled in ads, 12:00 to 13:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 16:10
      filled under_filled in ads, 14:00 to 15:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 16:10
    ledger:
      filled under_filled in ads, 13:00 to 14:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 16:10
      filled under_filled in ads, 15:00 to 16:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 16:10
    ");
}

#[test]
fn a_silent_source_is_one_hole_that_stops_growing_and_leaves() {
    let silence: String = (11..23)
        .map(|hour| {
            let shown = if [12, 18, 22].contains(&hour) { "ledger" } else { "" };
            format!("list ads {}-{} at {hour}:10:\npass {hour}:10\n{shown}\n", hour - 1, hour + 1)
        })
        .collect();
    let live = hourly(0..10);
    insta::assert_snapshot!(check(&format!("
        source ads 1h hold=never window=10h
        W 10:00
        E ads 00:00
        newest ads 10:00
        live ads {live}
        list ads 00-11 at 10:10: {live}
        pass 10:10
        {silence}
    ")), @"
    ledger:
      under_filled in ads, 10:00 to 12:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 11:10
    ledger:
      under_filled in ads, 10:00 to 12:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 11:10
    ledger:
      left_window under_filled in ads, 10:00 to 12:00: 0 of usually 2 files, 0 of usually 1400 bytes, since 11:10
    ");
}

#[test]
fn a_first_start_compares_with_nothing_and_so_does_a_short_window() {
    let all = hourly(0..9);
    insta::assert_snapshot!(check(&format!("
        source ads 1h hold=never window=12h
        list ads 00-13 at 12:10: {all}
        tick 12:10
    ")), @"
    at 12:10: watermark starts at 12:00
    ads: from 00:00
      + 00/a
      + 00/b
      + 01/a
      + 01/b
      + 02/a
      + 02/b
      + 03/a
      + 03/b
      + 04/a
      + 04/b
      + 05/a
      + 05/b
      + 06/a
      + 06/b
      + 07/a
      + 07/b
      + 08/a
      + 08/b
    ");
    insta::assert_snapshot!(check("
        source ads 1h hold=never window=8h
        W 12:00
        clock 12:10
        E ads 04:00
        newest ads 12:00
        live ads 05/a#1 06/a#1 07/a#1 08/a#1 09/a#1 10/a#1 11/a#1
        list ads 04-14 at 13:10: 05/a#1 06/a#1 07/a#1 08/a#1 09/a#1 10/a#1 11/a#1
        tick 13:10
    "), @"
    at 13:10: watermark 12:00 -> 13:00
    ads: from 05:00
    ");
}

#[test]
fn past_a_hundred_entries_the_oldest_become_one() {
    let files = |hour: u8| (0..60).step_by(5).map(|minute| format!("{hour:02}/{minute:02}/a#1 ")).collect::<String>();
    let late = |hours: std::ops::Range<u8>| hours.map(files).collect::<String>();
    let (world, _) = run(&format!(
        "
        source ads 5m hold=never window=12h
        W 23:00
        E ads 11:00
        newest ads 23:00
        list ads 00-11 at 23:10:
        pass 23:10
        list ads 00-11 at 23:20: {}
        pass 23:20
        list ads 00-11 at 23:30: {}
        pass 23:30
    ",
        late(1..10),
        late(1..11)
    ));
    assert_eq!(world.state.holes.len(), OPEN_KEPT);
    assert_eq!(world.state.holes.iter().map(Hole::stands_for).sum::<u64>(), 10 * 12);
    let folded = world.state.holes.iter().find(|hole| hole.path.is_none()).unwrap();
    assert_eq!((folded.from, folded.to), (at("01:00"), at("02:45")));
    assert_eq!(folded.detail.as_deref(), Some("the oldest 21; the records tell each"));
    assert!(
        world.state.closed_holes.iter().all(|ended| ended.end == HoleEnd::Merged),
        "{:?}",
        world.state.closed_holes
    );
    assert_eq!(world.state.closed_holes.len(), 12, "those that were folded before they were written down are not told");
}
