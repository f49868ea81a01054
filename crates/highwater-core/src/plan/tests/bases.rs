//! Tables that stand on a base snapshot.

use super::check;

#[test]
fn a_table_is_the_newest_complete_snapshot_and_the_partitions_since_its_time_less_a_margin() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h
        snapshots ads 02 06 09
        list ads @02 at 10:10: @02/a#1
        list ads @06 at 10:10: @06/a#1 @06/b#1
        list ads 04-11 at 10:10: 04/x#1 05/x#1 09/x#1
        tick 10:10
    "), @"
    at 10:10: watermark starts at 10:00
    ads: base 06:00 and from 05:00
      + .base/06/a
      + .base/06/b
      + 05/x
      + 09/x
    ");
}

#[test]
fn a_newer_snapshot_takes_the_place_of_the_one_in_use_and_of_the_partitions_before_it() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h
        snapshots ads 02
        list ads @02 at 05:10: @02/a#1
        list ads 01-06 at 05:10: 01/x#1 03/x#1 04/x#1
        tick 05:10
        snapshots ads 02 05
        list ads @02 at 06:10: @02/a#1
        list ads 05-06 at 06:10: 05/x#1
        tick 06:10
        list ads @05 at 07:10: @05/a#1 @05/b#1
        list ads 06-07 at 07:10: 06/x#1
        tick 07:10
        tick 07:11
    "), @"
    at 05:10: watermark starts at 05:00
    ads: base 02:00 and from 01:00
      + .base/02/a
      + 01/x
      + 03/x
      + 04/x
    at 06:10: watermark 05:00 -> 06:00
    ads: base 02:00 and from 01:00
      + 05/x
    at 07:10: watermark 06:00 -> 07:00
    ads: base 05:00 and from 04:00
      - .base/02/a
      - 01/x
      - 03/x
      + .base/05/a
      + .base/05/b
      + 06/x
    at 07:11: watermark stays at 07:00
    ads: base 05:00 and from 04:00
    ");
}

#[test]
fn a_snapshot_is_complete_at_once_when_a_newer_one_exists() {
    insta::assert_snapshot!(check("
        source ads 1h base=9h/0h
        snapshots ads 05 06
        list ads @05 at 07:10: @05/a#1
        list ads 05-08 at 07:10: 06/x#1
        tick 07:10
    "), @"
    at 07:10: watermark starts at 07:00
    ads: base 05:00 and from 05:00
      + .base/05/a
      + 06/x
    ");
}

#[test]
fn a_table_that_never_had_a_snapshot_waits_for_one() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h
        list ads 03-06 at 05:10: 04/x#1
        plan 05:10
        snapshots ads 05
        list ads @05 at 05:11: @05/a#1
        plan 05:11
        plan 07:00
        snapshots ads 04 05
        list ads @04 at 07:01: @04/empty#0
        plan 07:01
    "), @"
    source ads has no base snapshot yet that can be used: one is when it is complete (2h after the time that its folder names, or when a newer one exists), holds files, and all of them can be read
    source ads has no base snapshot yet that can be used: one is when it is complete (2h after the time that its folder names, or when a newer one exists), holds files, and all of them can be read
    at 07:00: watermark starts at 05:00
    ads: base 05:00 and from 04:00
      + .base/05/a
      + 04/x
    at 07:01: watermark starts at 05:00
    ads: base 05:00 and from 04:00
      + .base/05/a
      + 04/x
    alarm empty_files of ads: 1 files hold no bytes and were skipped: .base/04/empty: zero bytes
    ");
}

#[test]
fn a_snapshot_that_cannot_be_read_is_passed_by_and_tried_again_when_its_quarantine_says_so() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h
        snapshots ads 02
        list ads @02 at 05:10: @02/a#1
        list ads 01-06 at 05:10: 04/x#1
        tick 05:10
        snapshots ads 02 05
        list ads @05 at 07:10: @05/a#1 @05/b#1
        list ads 05-08 at 07:10: 06/x#1
        quarantined ads @05/b#1 since=07:10 attempts=1
        tick 07:10
        tick 07:10
        plan 07:11
        list ads @05 at 07:12: @05/a#1 @05/b#2
        tick 07:12
    "), @"
    at 05:10: watermark starts at 05:00
    ads: base 02:00 and from 01:00
      + .base/02/a
      + 04/x
    at 07:10: watermark 05:00 -> 07:00
    ads: base 02:00 and from 01:00
      + 06/x
    at 07:10: watermark stays at 07:00
    ads: base 02:00 and from 01:00
    at 07:11: watermark stays at 07:00
    ads: base 05:00 and from 04:00
      - .base/02/a
      + .base/05/a
      + .base/05/b
    at 07:12: watermark stays at 07:00
    ads: base 05:00 and from 04:00
      - .base/02/a
      + .base/05/a
      + .base/05/b
    ");
}

#[test]
fn a_snapshot_of_less_than_half_the_bytes_is_withheld_until_an_operator_accepts_it() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h
        snapshots ads 02
        list ads @02 at 05:10: @02/a#1:600 @02/b#1:500
        list ads 01-06 at 05:10: 04/x#1
        tick 05:10
        snapshots ads 02 05
        list ads @05 at 07:10: @05/a#1:540
        list ads 05-08 at 07:10: 06/x#1
        tick 07:10
        accept ads 07:12
        tick 07:12
    "), @"
    at 05:10: watermark starts at 05:00
    ads: base 02:00 and from 01:00
      + .base/02/a
      + .base/02/b
      + 04/x
    at 07:10: watermark 05:00 -> 07:00
    ads: base 02:00 and from 01:00
      + 06/x
    alarm base_withheld of ads: .base/05/ has 540 bytes, the snapshot in use 1100: it is not taken; if it is whole: highwater accept-removals ads
    at 07:12: watermark stays at 07:00
    ads: base 05:00 and from 04:00
      - .base/02/a
      - .base/02/b
      + .base/05/a
    ");
}

#[test]
fn files_of_the_snapshot_in_use_that_vanish_are_withheld_and_come_back_or_go_with_the_next_snapshot() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h guard=3/50%
        snapshots ads 02
        list ads @02 at 05:10: @02/a#1 @02/b#1
        list ads 01-06 at 05:10: 04/x#1
        tick 05:10
        list ads @02 at 05:20: @02/a#1
        list ads 05-06 at 05:20: 05/x#1
        tick 05:20
        list ads @02 at 05:30: @02/a#1 @02/b#1
        tick 05:30
        list ads @02 at 05:40:
        tick 05:40
        snapshots ads 05
        list ads @05 at 07:10: @05/a#1
        list ads 05-08 at 07:10: 05/x#1
        tick 07:10
    "), @"
    at 05:10: watermark starts at 05:00
    ads: base 02:00 and from 01:00
      + .base/02/a
      + .base/02/b
      + 04/x
    at 05:20: watermark stays at 05:00
    ads: base 02:00 and from 01:00
      + 05/x
      withheld .base/02/b
    alarm removals_withheld of ads: 1 of 3 files are gone from the listing and stay in the table until they return: .base/02/b; if they were meant to go: highwater accept-removals ads
    at 05:30: watermark stays at 05:00
    ads: base 02:00 and from 01:00
      returned .base/02/b
    at 05:40: watermark stays at 05:00
    ads: base 02:00 and from 01:00
      withheld .base/02/a
      withheld .base/02/b
    alarm removals_withheld of ads: 2 of 4 files are gone from the listing and stay in the table until they return: .base/02/a, .base/02/b; if they were meant to go: highwater accept-removals ads
    at 07:10: watermark 05:00 -> 07:00
    ads: base 05:00 and from 04:00
      - .base/02/a
      - .base/02/b
      + .base/05/a
    ");
}

#[test]
fn the_next_snapshot_ends_the_holes_that_lie_before_it() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h window=2h hold=never
        snapshots ads 02
        list ads @02 at 05:10: @02/a#1
        list ads 01-06 at 05:10: 04/x#1
        pass 05:10
        list ads 09-13 at 12:10: 11/x#1
        tick 12:10
        ledger
        snapshots ads 02 11
        list ads @11 at 13:10: @11/a#1
        list ads 12-14 at 13:10: 12/x#1
        tick 13:10
        ledger
    "), @"
    at 12:10: watermark 05:00 -> 12:00
    ads: base 02:00 and from 01:00
      + 11/x
    hole in ads: 05:00 to 10:00
    ledger:
      passed_over in ads, 05:00 to 10:00, since 12:10
    at 13:10: watermark 12:00 -> 13:00
    ads: base 11:00 and from 10:00
      - .base/02/a
      - 04/x
      + .base/11/a
      + 12/x
    rebased passed_over in ads: 05:00 to 10:00
    ledger:
      rebased passed_over in ads, 05:00 to 10:00, since 12:10
    ");
}

#[test]
fn a_table_that_kept_rows_since_a_start_goes_over_to_a_snapshot() {
    insta::assert_snapshot!(check("
        source ads 1h base=2h/1h
        W 05:00
        clock 05:10
        E ads 01:00
        newest ads 05:00
        live ads 02/x#1 04/x#1
        list ads 01-06 at 05:20: 02/x#1 04/x#1
        tick 05:20
        snapshots ads 03
        list ads @03 at 05:30: @03/a#1
        tick 05:30
    "), @"
    at 05:20: watermark stays at 05:00
    ads: from 01:00
    at 05:30: watermark stays at 05:00
    ads: base 03:00 and from 02:00
      + .base/03/a
    ");
}
