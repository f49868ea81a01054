use super::check;

#[test]
fn the_watermark_goes_by_the_clock_alone() {
    insta::assert_snapshot!(check("
        source ads 1h hold=never
        list ads 06-12 at 11:05: 07/a#1
        plan 10:04
        plan 10:05
        plan 10:59
        plan 11:04
        plan 11:05
    "), @"
    at 10:04: watermark starts at 09:00
    ads: from 06:00
      + 07/a
    at 10:05: watermark starts at 10:00
    ads: from 07:00
      + 07/a
    at 10:59: watermark starts at 10:00
    ads: from 07:00
      + 07/a
    at 11:04: watermark starts at 10:00
    ads: from 07:00
      + 07/a
    at 11:05: watermark starts at 11:00
    ads: from 08:00
    ");
}

#[test]
fn a_failed_listing_holds_the_watermark_and_the_next_complete_one_lets_it_go() {
    insta::assert_snapshot!(check("
        source ads 1h
        W 08:00
        E ads 05:00
        newest ads 11:00
        live ads 10/a#1
        list ads 05-08 at 10:10:
        list ads 10-11 at 10:10: 10/a#1
        fail ads 09
        tick 10:10
        tick 10:11
        list ads 09 at 10:12: 09/a#1
        tick 10:12
    "), @"
    at 10:10: watermark 08:00 -> 09:00
    ads: from 06:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 09/: out of reach
    at 10:11: watermark stays at 09:00
    ads: from 06:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 09/: out of reach
    at 10:12: watermark 09:00 -> 10:00
    ads: from 07:00
      + 09/a
    ");
}

#[test]
fn a_listing_from_before_a_partition_settled_does_not_count() {
    insta::assert_snapshot!(check("
        source ads 1h
        W 09:00
        list ads 06-11 at 10:04:
        plan 10:05
        list ads 09 at 10:05:
        plan 10:05
    "), @"
    at 10:05: watermark stays at 09:00
    ads: from 06:00
    at 10:05: watermark 09:00 -> 10:00
    ads: from 07:00
    ");
}

#[test]
fn a_clock_that_steps_back_changes_nothing() {
    insta::assert_snapshot!(check("
        source ads 1h
        list ads 07-12 at 11:10: 08/a#1 10/a#1
        tick 11:10
        plan 08:00
    "), @"
    at 11:10: watermark starts at 11:00
    ads: from 08:00
      + 08/a
      + 10/a
    at 11:10: watermark stays at 11:00
    ads: from 08:00
    ");
}

#[test]
fn a_window_is_held_by_silence_with_an_alarm_and_slides_no_further_than_hold_after() {
    insta::assert_snapshot!(check("
        source ads 1h
        list ads 05-09 at 08:10: 06/a#1 07/a#1
        tick 08:10
        list ads 08-10 at 09:10:
        tick 09:10
        list ads 09-15 at 14:10:
        tick 14:10
        list ads 15 at 15:10:
        list ads 14 at 15:10: 14/back#1
        tick 15:10
    "), @"
    at 08:10: watermark starts at 08:00
    ads: from 05:00
      + 06/a
      + 07/a
    at 09:10: watermark 08:00 -> 09:00
    ads: from 06:00
    at 14:10: watermark 09:00 -> 14:00
    ads: from 06:00
    alarm source_silent of ads: no new data since 08:00; the window is held at 06:00
    at 15:10: watermark 14:00 -> 15:00
    ads: from 12:00
      - 06/a
      - 07/a
      + 14/back
    ");
}

#[test]
fn where_nothing_holds_the_clock_empties_the_window() {
    insta::assert_snapshot!(check("
        source ads 1h hold=never
        list ads 05-09 at 08:10: 06/a#1 07/a#1
        tick 08:10
        list ads 07-11 at 10:10: 07/a#1
        tick 10:10
        list ads 08-12 at 11:10:
        tick 11:10
    "), @"
    at 08:10: watermark starts at 08:00
    ads: from 05:00
      + 06/a
      + 07/a
    at 10:10: watermark 08:00 -> 10:00
    ads: from 07:00
      - 06/a
    at 11:10: watermark 10:00 -> 11:00
    ads: from 08:00
      - 07/a
    ");
}

#[test]
fn the_eviction_bound_never_moves_back() {
    insta::assert_snapshot!(check("
        source ads 1h window=5h
        W 10:00
        E ads 08:00
        newest ads 11:00
        live ads 08/a#1
        list ads 05-11 at 10:10: 06/a#1 08/a#1
        plan 10:10
    "), @"
    at 10:10: watermark stays at 10:00
    ads: from 08:00
    ");
}

#[test]
fn a_table_that_keeps_its_rows_and_begins_within_the_window_does_not_wait_for_what_lies_before() {
    insta::assert_snapshot!(check("
        source ads 1h forever=09:00
        list ads 09-11 at 10:10: 09/a#1
        tick 10:10
        source more 1h forever=12:00
        list more 12-11 at 10:11:
        plan 10:11
    "), @"
    at 10:10: watermark starts at 10:00
    ads: from 09:00
      + 09/a
    at 10:11: watermark stays at 10:00
    ads: from 09:00
    more: from 12:00
    ");
}
