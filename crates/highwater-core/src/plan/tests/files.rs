use super::check;

const STANDING: &str = "
    source ads 1h
    W 10:00
    clock 10:10
    E ads 07:00
    newest ads 11:00
    live ads 07/a#1 08/a#1 10/a#1
    list ads 07-11 at 10:11: 07/a#1 08/a#1 10/a#1
    tick 10:11
";

fn after(script: &str) -> String {
    check(&format!("{STANDING}{script}"))
}

#[test]
fn a_first_start_takes_in_the_window_and_writes_no_hole() {
    insta::assert_snapshot!(check("
        source ads 1h
        list ads 06-11 at 10:10: 06/old#1 07/a#1 09/b#1 10/open#1
        plan 10:10
    "), @"
    at 10:10: watermark starts at 10:00
    ads: from 07:00
      + 07/a
      + 09/b
      + 10/open
    ");
}

#[test]
fn a_first_start_without_any_file_only_starts_the_watermark() {
    insta::assert_snapshot!(check("
        source ads 1h
        list ads 07-11 at 10:10:
        tick 10:10
    "), @"
    at 10:10: watermark starts at 10:00
    ads: from 07:00
    ");
}

#[test]
fn new_late_replaced_and_removed_files() {
    insta::assert_snapshot!(after("
        list ads 07-11 at 10:12: 07/a#2 07/late#1 10/a#1 10/new#1
        tick 10:12
        tick 10:12
    "), @"
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      - 07/a
      - 08/a
      + 07/a
      + 07/late
      + 10/new
    at 10:12: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn files_leave_when_the_window_slides() {
    insta::assert_snapshot!(after("
        list ads 08-12 at 11:06: 08/a#1 10/a#1
        tick 11:06
    "), @"
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    at 11:06: watermark 10:00 -> 11:00
    ads: from 08:00
      - 07/a
    ");
}

#[test]
fn a_late_file_behind_the_window_becomes_a_hole_once() {
    insta::assert_snapshot!(after("
        list ads 06 at 10:12:
        tick 10:12
        list ads 06 at 10:13: 06/late#1
        tick 10:13
        list ads 06 at 10:14: 06/late#1
        tick 10:14
    "), @"
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    at 10:12: watermark stays at 10:00
    ads: from 07:00
    at 10:13: watermark stays at 10:00
    ads: from 07:00
    hole in ads: 06:00 to 07:00 (06/late)
    alarm late_out_of_window of ads: 06/late landed behind the window and was not taken in
    at 10:14: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn a_file_behind_the_window_that_was_there_before_is_no_news() {
    insta::assert_snapshot!(after("
        list ads 06 at 10:12: 06/old#1
        plan 10:12
    "), @"
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    at 10:12: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn a_file_removed_where_this_process_never_looked_stays_until_it_is_looked_at_or_evicted() {
    insta::assert_snapshot!(check("
        source ads 1h
        W 10:00
        E ads 07:00
        newest ads 11:00
        live ads 07/gone#1 08/gone#1 10/a#1
        list ads 09-11 at 10:10: 10/a#1
        fail ads 07
        fail ads 08
        tick 10:10
        list ads 08 at 10:11:
        tick 10:11
        list ads 10-12 at 11:06: 10/a#1
        tick 11:06
    "), @"
    at 10:10: watermark stays at 10:00
    ads: from 07:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 07/: out of reach; 08/: out of reach
    at 10:11: watermark stays at 10:00
    ads: from 07:00
      - 08/gone
    alarm listing_failed of ads: the watermark waits for a complete listing of 07/: out of reach
    at 11:06: watermark 10:00 -> 11:00
    ads: from 08:00
      - 07/gone
    alarm listing_failed of ads: the watermark waits for a complete listing of 07/: out of reach
    ");
}

#[test]
fn what_is_no_data_is_named_or_hidden() {
    insta::assert_snapshot!(check("
        source ads 15m window=1h
        list ads 09-11 at 10:20: 10/00/_tmp/a#1 10/00/.a#1 10/xx/a#1 10/a#1 10/00/empty#0 10/00/part/x#1 10/07/y#1
        plan 10:20
    "), @r#"
    at 10:20: watermark starts at 10:15
    ads: from 09:15
      + 10/00/part/x
      + 10/07/y
    alarm misplaced_files of ads: 2 files do not fit the layout: 10/a: it is not below a folder like "%Y-%m-%d/%H/%M"; 10/xx/a: folder "xx" is not like "%M"
    alarm empty_files of ads: 1 files hold no bytes and were skipped: 10/00/empty: zero bytes
    "#);
}

#[test]
fn a_file_that_comes_back_as_it_was_is_new_again() {
    insta::assert_snapshot!(after("
        list ads 08 at 10:12:
        tick 10:12
        list ads 08 at 10:13: 08/a#1
        tick 10:13
    "), @"
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    at 10:12: watermark stays at 10:00
    ads: from 07:00
      - 08/a
    at 10:13: watermark stays at 10:00
    ads: from 07:00
      + 08/a
    ");
}

#[test]
fn files_too_far_ahead_wait_with_an_alarm_and_come_in_when_their_time_is_near() {
    insta::assert_snapshot!(after("
        list ads 12-14 at 10:12: 12/soon#1 14/far#1
        tick 10:12
        list ads 11-14 at 11:00: 11/on_time#1 12/soon#1 14/far#1
        tick 11:00
    "), @"
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    at 10:12: watermark stays at 10:00
    ads: from 07:00
    alarm future_partition of ads: 2 files lie further in the future than max_skew, such as 12/soon
    at 11:00: watermark stays at 10:00
    ads: from 07:00
      + 11/on_time
      + 12/soon
    alarm future_partition of ads: 1 files lie further in the future than max_skew, such as 14/far
    ");
}

#[test]
fn a_clock_that_leaps_over_a_file_ahead_still_takes_it_in() {
    insta::assert_snapshot!(after("
        list ads 13 at 10:12: 13/far#1
        tick 10:12
        list ads 10-12 at 13:20: 10/a#1
        list ads 14 at 13:20:
        tick 13:20
    "), @"
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    at 10:12: watermark stays at 10:00
    ads: from 07:00
    alarm future_partition of ads: 1 files lie further in the future than max_skew, such as 13/far
    at 13:20: watermark 10:00 -> 13:00
    ads: from 10:00
      - 07/a
      - 08/a
      + 13/far
    ");
}
