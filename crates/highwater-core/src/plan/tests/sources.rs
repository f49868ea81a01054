use super::check;

#[test]
fn the_slower_of_two_sources_sets_the_watermark() {
    insta::assert_snapshot!(check("
        source ads 1h
        source clicks 15m window=1h
        list ads 06-12 at 10:50: 09/a#1
        list clicks 08-12 at 10:50: 09/45/c#1 10/30/c#1
        tick 10:50
        list ads 10-12 at 11:20: 10/a#1
        list clicks 09-12 at 11:20: 09/45/c#1 10/30/c#1
        tick 11:20
    "), @"
    at 10:50: watermark starts at 10:00
    ads: from 07:00
      + 09/a
    clicks: from 09:00
      + 09/45/c
      + 10/30/c
    at 11:20: watermark 10:00 -> 11:00
    ads: from 08:00
      + 10/a
    clicks: from 10:00
      - 09/45/c
    ");
}

#[test]
fn a_reference_has_no_time_and_does_not_hold_the_watermark() {
    insta::assert_snapshot!(check("
        source ads 1h
        source brands reference
        list ads 07-11 at 10:10: 09/a#1
        list-all brands at 10:10: x/brands#1 y#1
        tick 10:10
        list-all brands at 10:11: x/brands#2
        tick 10:11
    "), @"
    at 10:10: watermark starts at 10:00
    ads: from 07:00
      + 09/a
    brands:
      + x/brands
      + y
    at 10:11: watermark stays at 10:00
    ads: from 07:00
    brands:
      - x/brands
      - y
      + x/brands
    ");
}

#[test]
fn references_alone_move_by_the_pipelines_step() {
    insta::assert_snapshot!(check("
        source brands reference
        list-all brands at 10:04: brands#1
        tick 10:04
        plan 10:05
    "), @"
    at 10:04: watermark starts at 09:00
    brands:
      + brands
    at 10:05: watermark 09:00 -> 10:00
    brands:
    ");
}

#[test]
fn rows_that_stay_for_ever_begin_at_the_start() {
    insta::assert_snapshot!(check("
        source ads 1h forever=02:00
        list ads 01-11 at 10:10: 01/before#1 02/a#1 05/b#1 10/c#1
        tick 10:10
        tick 10:11
    "), @"
    at 10:10: watermark starts at 10:00
    ads: from 02:00
      + 02/a
      + 05/b
      + 10/c
    at 10:11: watermark stays at 10:00
    ads: from 02:00
    ");
}

const FOR_EVER: &str = "
    source ads 1h forever=02:00
    W 10:00
    clock 10:05
    E ads 02:00
    newest ads 11:00
    live ads 02/a#1 03/a#1 10/a#1
    list ads 02-03 at 10:05: 02/a#1 03/a#1
    list ads 06-11 at 10:05: 10/a#1
    tick 10:05
";

#[test]
fn behind_the_window_a_late_file_is_a_hole_and_a_replaced_one_is_replaced() {
    insta::assert_snapshot!(check(&format!("{FOR_EVER}
        list ads 03 at 10:06: 03/a#2 03/late#1
        tick 10:06
        tick 10:07
    ")), @"
    at 10:05: watermark stays at 10:00
    ads: from 02:00
    at 10:06: watermark stays at 10:00
    ads: from 02:00
      - 03/a
      + 03/a
    hole in ads: 03:00 to 04:00 (03/late)
    alarm late_out_of_window of ads: 03/late landed behind the window and was not taken in
    at 10:07: watermark stays at 10:00
    ads: from 02:00
    ");
}

#[test]
fn time_that_was_passed_over_keeps_its_unread_files_out() {
    insta::assert_snapshot!(check(&format!("{FOR_EVER}
        list ads 11-18 at 17:10: 12/a#1 13/a#1 15/a#1
        tick 17:10
        list ads 13-14 at 17:11: 13/a#1 13/b#1 14/a#1
        tick 17:11
    ")), @"
    at 10:05: watermark stays at 10:00
    ads: from 02:00
    at 17:10: watermark 10:00 -> 17:00
    ads: from 02:00
      + 15/a
    hole in ads: 10:00 to 14:00
    at 17:11: watermark stays at 17:00
    ads: from 02:00
      + 14/a
    hole in ads: 13:00 to 14:00 (13/b)
    alarm late_out_of_window of ads: 13/b landed behind the window and was not taken in
    ");
}
