//! Holes of tables that keep their rows, filled by themselves within a budget, or by order.

use super::check;

#[test]
fn what_a_lag_passed_over_is_read_later_from_its_newest_end_within_the_budget() {
    insta::assert_snapshot!(check("
        source ads 1h forever=01:00 hold=never backfill=20
        list ads 01-06 at 05:10: 04/x#1
        pass 05:10
        list ads 10-15 at 14:10: 13/x#1
        tick 14:10
        list ads 09-10 at 14:11: 09/a#1:15 09/b#1:4 10/a#1:5
        tick 14:11
        ledger
        list ads 05-08 at 14:12: 05/a#1:30 08/a#1:15 08/b#1:15
        tick 14:12
        tick 14:13
        tick 14:14
        ledger
    "), @"
    at 14:10: watermark 05:00 -> 14:00
    ads: from 01:00
      + 13/x
    hole in ads: 05:00 to 11:00
    at 14:11: watermark stays at 14:00
    ads: from 01:00
      + 09/a
      + 10/a
    hole in ads: 05:00 to 10:00
    filled passed_over in ads: 10:00 to 11:00
    ledger:
      passed_over in ads, 05:00 to 10:00, since 14:10
      filled passed_over in ads, 10:00 to 11:00, since 14:10
    at 14:12: watermark stays at 14:00
    ads: from 01:00
      + 08/a
      + 09/b
    hole in ads: 05:00 to 09:00
    filled passed_over in ads: 09:00 to 10:00
    at 14:13: watermark stays at 14:00
    ads: from 01:00
      + 08/b
    hole in ads: 05:00 to 06:00
    filled passed_over in ads: 06:00 to 09:00
    at 14:14: watermark stays at 14:00
    ads: from 01:00
      + 05/a
    filled passed_over in ads: 05:00 to 06:00
    ledger:
      filled passed_over in ads, 09:00 to 10:00, since 14:10
      filled passed_over in ads, 06:00 to 09:00, since 14:10
      filled passed_over in ads, 05:00 to 06:00, since 14:10
    ");
}

#[test]
fn without_a_budget_holes_stay_as_they_are() {
    insta::assert_snapshot!(check("
        source ads 1h forever=01:00 hold=never
        list ads 01-06 at 05:10: 04/x#1
        pass 05:10
        list ads 10-15 at 14:10: 13/x#1
        tick 14:10
        list ads 09-10 at 14:11: 09/a#1:15 10/a#1:5
        tick 14:11
        ledger
    "), @"
    at 14:10: watermark 05:00 -> 14:00
    ads: from 01:00
      + 13/x
    hole in ads: 05:00 to 11:00
    at 14:11: watermark stays at 14:00
    ads: from 01:00
    hole in ads: 10:00 to 11:00 (10/a)
    alarm late_out_of_window of ads: 10/a landed behind the window and was not taken in
    ledger:
      passed_over in ads, 05:00 to 11:00, since 14:10
      late_file in ads, 10:00 to 11:00 (10/a), since 14:11
    ");
}

#[test]
fn a_late_file_behind_the_window_is_told_and_then_read() {
    insta::assert_snapshot!(check("
        source ads 1h forever=01:00 backfill=100
        list ads 01-11 at 10:10: 04/x#1 09/x#1
        pass 10:10
        list ads 04 at 10:20: 04/x#1 04/late#1 04/later#1 04/third#1 04/z1#1 04/z2#1
        tick 10:20
        ledger
        tick 10:21
        tick 10:22
        ledger
    "), @"
    at 10:20: watermark stays at 10:00
    ads: from 01:00
    hole in ads: 04:00 to 05:00 (04/late)
    hole in ads: 04:00 to 05:00 (04/later)
    hole in ads: 04:00 to 05:00 (04/third)
    hole in ads: 04:00 to 05:00, late_file: 2 more of this partition
    alarm late_out_of_window of ads: 5 files, 04/late the first of them, landed behind the window and were not taken in at once; back-filling comes to it
    ledger:
      late_file in ads, 04:00 to 05:00 (04/late), since 10:20
      late_file in ads, 04:00 to 05:00 (04/later), since 10:20
      late_file in ads, 04:00 to 05:00 (04/third), since 10:20
      late_file in ads, 04:00 to 05:00: 2 more of this partition, since 10:20
    at 10:21: watermark stays at 10:00
    ads: from 01:00
      + 04/late
      + 04/later
      + 04/third
      + 04/z1
      + 04/z2
    filled late_file in ads: 04:00 to 05:00
    filled late_file in ads: 04:00 to 05:00 (04/late)
    filled late_file in ads: 04:00 to 05:00 (04/later)
    filled late_file in ads: 04:00 to 05:00 (04/third)
    at 10:22: watermark stays at 10:00
    ads: from 01:00
    ledger:
      filled late_file in ads, 04:00 to 05:00: 2 more of this partition, since 10:20
      filled late_file in ads, 04:00 to 05:00 (04/late), since 10:20
      filled late_file in ads, 04:00 to 05:00 (04/later), since 10:20
      filled late_file in ads, 04:00 to 05:00 (04/third), since 10:20
    ");
}

#[test]
fn a_file_in_a_hole_that_cannot_be_read_has_a_hole_of_its_own() {
    insta::assert_snapshot!(check("
        source ads 1h forever=01:00 hold=never backfill=100
        list ads 01-06 at 05:10: 04/x#1
        pass 05:10
        list ads 10-15 at 14:10: 13/x#1
        pass 14:10
        list ads 05-10 at 14:11: 06/a#1 06/b#1
        unreadable ads 06/a#1
        tick 14:11
        tick 14:12
        ledger
    "), @"
    at 14:11: watermark stays at 14:00
    ads: from 01:00
      + 06/a
      + 06/b
    filled passed_over in ads: 05:00 to 11:00
    at 14:12: watermark stays at 14:00
    ads: from 01:00
      + 06/a
    ledger:
      quarantined in ads, 06:00 to 07:00 (06/a): broken, since 14:11
      filled passed_over in ads, 05:00 to 11:00, since 14:10
    ");
}

#[test]
fn a_part_that_cannot_be_listed_keeps_the_hole_open() {
    insta::assert_snapshot!(check("
        source ads 1h forever=01:00 hold=never backfill=100
        list ads 01-06 at 05:10: 04/x#1
        pass 05:10
        list ads 10-15 at 14:10: 13/x#1
        pass 14:10
        list ads 05-07 at 14:11: 06/a#1
        list ads 09-10 at 14:11:
        fail ads 08
        tick 14:11
        ledger
        list ads 08 at 14:12: 08/a#1
        tick 14:12
        ledger
    "), @"
    at 14:11: watermark stays at 14:00
    ads: from 01:00
      + 06/a
    hole in ads: 05:00 to 09:00
    filled passed_over in ads: 09:00 to 11:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 08/: out of reach
    ledger:
      passed_over in ads, 05:00 to 09:00, since 14:10
      filled passed_over in ads, 09:00 to 11:00, since 14:10
    at 14:12: watermark stays at 14:00
    ads: from 01:00
      + 08/a
    filled passed_over in ads: 05:00 to 09:00
    ledger:
      filled passed_over in ads, 05:00 to 09:00, since 14:10
    ");
}

#[test]
fn where_rows_leave_with_their_partition_nothing_is_filled_whatever_the_budget() {
    let script = |options: &str| {
        format!(
            "
        source ads 1h hold=never {options}
        list ads 01-06 at 05:10: 04/x#1
        pass 05:10
        list ads 10-15 at 14:10: 13/x#1
        tick 14:10
        list ads 09-10 at 14:11: 10/a#1 10/b#1 10/c#1 10/d#1 10/e#1
        tick 14:11
        list ads 09-10 at 14:12:
        tick 14:12
        ledger
    "
        )
    };
    assert_eq!(check(&script("backfill=100")), check(&script("")));
}
