use super::check;

const ONE: &str = "
    source ads 1h
    W 10:00
    clock 10:05
    E ads 07:00
    newest ads 11:00
    live ads 08/a#1
    quarantined ads 08/a#2 since=10:05 attempts=1
    quarantined ads 09/b#1 since=10:05 attempts=2
    list ads 07-11 at 10:05: 08/a#2 09/b#1
";

fn with(script: &str) -> String {
    check(&format!("{ONE}{script}"))
}

#[test]
fn zero_bytes_where_rows_were_set_the_file_aside_and_keep_its_rows() {
    insta::assert_snapshot!(check("
        source ads 1h
        W 10:00
        E ads 07:00
        newest ads 11:00
        live ads 08/a#1
        list ads 07-11 at 10:10: 08/a#0 08/new#0
        tick 10:10
        tick 10:30
        list ads 08 at 10:31: 08/a#3
        tick 10:31
    "), @"
    at 10:10: watermark stays at 10:00
    ads: from 07:00
      ! 08/a: zero bytes, where the file had rows before; its rows stay until it has some again or is removed
    alarm empty_files of ads: 2 files hold no bytes and were skipped: 08/a: zero bytes; 08/new: zero bytes
    at 10:30: watermark stays at 10:00
    ads: from 07:00
    alarm empty_files of ads: 2 files hold no bytes and were skipped: 08/a: zero bytes; 08/new: zero bytes
    at 10:31: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      + 08/a
    ");
}

#[test]
fn a_version_in_quarantine_is_tried_again_after_a_minute_then_after_twice_as_long() {
    insta::assert_snapshot!(with("plan 10:05\n plan 10:06\n plan 10:07\n plan 10:08\n"), @"
    at 10:05: watermark stays at 10:00
    ads: from 07:00
    at 10:06: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      + 08/a
    at 10:07: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      + 08/a
    at 10:08: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      + 08/a
      + 09/b
    ");
}

#[test]
fn pauses_between_tries_grow_to_an_hour() {
    let due = |attempts: u32, now: &str| {
        let text = check(&format!(
            "source ads 1h window=12h\n W 01:00\n E ads 00:00\n list ads 00-02 at 01:05: 00/a#1\n
             quarantined ads 00/a#1 since=01:05 attempts={attempts}\n plan {now}\n"
        ));
        text.contains("+ 00/a")
    };
    assert!(!due(6, "02:07") && due(6, "02:08"), "1 + 2 + 4 + 8 + 16 + 32 minutes");
    assert!(!due(7, "03:07") && due(7, "03:08"), "and an hour");
    assert!(!due(8, "04:07") && due(8, "04:08"), "and another");
}

#[test]
fn a_new_version_is_tried_at_once() {
    insta::assert_snapshot!(with("list ads 07-11 at 10:05: 08/a#3 09/b#2\n tick 10:05\n tick 10:05\n"), @"
    at 10:05: watermark stays at 10:00
    ads: from 07:00
      - 08/a
      + 08/a
      + 09/b
    at 10:05: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn a_file_that_is_gone_or_evicted_leaves_the_quarantine() {
    insta::assert_snapshot!(with("list ads 09 at 10:05:\n plan 10:05\n"), @"
    at 10:05: watermark stays at 10:00
    ads: from 07:00
      ~ 09/b
    ");
    insta::assert_snapshot!(with("clock 12:05\n W 12:00\n newest ads 13:00\n plan 12:05\n"), @"
    at 12:05: watermark stays at 12:00
    ads: from 09:00
      - 08/a
      + 09/b
      ~ 08/a
    ");
}

#[test]
fn the_last_good_version_back_again_ends_the_quarantine() {
    insta::assert_snapshot!(with("list ads 08 at 10:05: 08/a#1\n tick 10:05\n tick 10:05\n"), @"
    at 10:05: watermark stays at 10:00
    ads: from 07:00
      ~ 08/a
    at 10:05: watermark stays at 10:00
    ads: from 07:00
    ");
}

#[test]
fn nothing_where_an_unreadable_file_was_ends_its_quarantine() {
    insta::assert_snapshot!(with("list ads 09 at 10:05: 09/b#0\n tick 10:05\n tick 10:05\n"), @"
    at 10:05: watermark stays at 10:00
    ads: from 07:00
      ~ 09/b
    alarm empty_files of ads: 1 files hold no bytes and were skipped: 09/b: zero bytes
    at 10:05: watermark stays at 10:00
    ads: from 07:00
    alarm empty_files of ads: 1 files hold no bytes and were skipped: 09/b: zero bytes
    ");
}

#[test]
fn a_pinned_version_that_can_be_read_no_more_is_tried_again_at_intervals_too() {
    insta::assert_snapshot!(check("
        source ads 1h
        W 10:00
        clock 10:05
        E ads 07:00
        newest ads 11:00
        live ads 08/a#1
        quarantined ads 08/a#1 since=10:05 attempts=1
        list ads 07-11 at 10:05: 08/a#1
        plan 10:05
        plan 10:06
    "), @"
    at 10:05: watermark stays at 10:00
    ads: from 07:00
    at 10:06: watermark stays at 10:00
    ads: from 07:00
      ~ 08/a
    ");
}
