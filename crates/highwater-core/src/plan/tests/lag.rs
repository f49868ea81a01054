use super::check;
use super::script::run;

const STOPPED: &str = "
    source ads 1h
    W 03:00
    clock 03:10
    E ads 00:00
    newest ads 04:00
    live ads 02/a#1 03/a#1
    list ads 00-14 at 13:10: 02/a#1 03/a#1 05/a#1 08/a#1 11/a#1 13/a#1
";

#[test]
fn skip_to_latest_jumps_and_writes_the_hole_down_once() {
    insta::assert_snapshot!(check(&format!("{STOPPED} tick 13:10\n tick 13:11\n")), @"
    at 13:10: watermark 03:00 -> 13:00
    ads: from 10:00
      - 02/a
      - 03/a
      + 11/a
      + 13/a
    hole in ads: 03:00 to 10:00
    at 13:11: watermark stays at 13:00
    ads: from 10:00
    ");
}

#[test]
fn a_lag_that_the_window_covers_is_none() {
    insta::assert_snapshot!(check(&format!("{STOPPED} W 10:00\n E ads 07:00\n plan 13:10\n")), @"
    at 13:10: watermark 10:00 -> 13:00
    ads: from 10:00
      - 02/a
      - 03/a
      + 11/a
      + 13/a
    hole in ads: 08:00 to 09:00 (08/a)
    alarm late_out_of_window of ads: 08/a landed behind the window and was not taken in
    ");
}

#[test]
fn silence_is_no_lag() {
    insta::assert_snapshot!(check("
        source ads 1h
        W 03:00
        E ads 00:00
        newest ads 04:00
        live ads 02/a#1
        list ads 00-14 at 13:10: 02/a#1
        plan 13:10
    "), @"
    at 13:10: watermark 03:00 -> 13:00
    ads: from 02:00
    alarm source_silent of ads: no new data since 04:00; the window is held at 02:00
    ");
}

#[test]
fn halt_leaves_it_to_an_operator() {
    insta::assert_snapshot!(check(&format!("{STOPPED} on_lag halt\n plan 13:10\n")), @r#"halted: the watermark 03:00 lies before 10:00, where the window begins now; go on with on_lag = "skip_to_latest" (jumps and writes the hole down) or "catch_up""#);
}

#[test]
fn catch_up_takes_a_window_a_batch_and_ends_with_an_ordinary_one() {
    insta::assert_snapshot!(
        check(&format!("{STOPPED} on_lag catch_up\n tick 13:10\n tick 13:10\n tick 13:10\n tick 13:10\n tick 13:10\n")),
        @"
    at 13:10: watermark 03:00 -> 06:00
    ads: from 03:00
      - 02/a
      + 05/a
    at 13:10: watermark 06:00 -> 09:00
    ads: from 06:00
      - 03/a
      - 05/a
      + 08/a
    at 13:10: watermark 09:00 -> 12:00
    ads: from 09:00
      - 08/a
      + 11/a
    at 13:10: watermark 12:00 -> 13:00
    ads: from 10:00
      + 13/a
    at 13:10: watermark stays at 13:00
    ads: from 10:00
    "
    );
}

#[test]
fn catch_up_ends_like_one_batch_that_covers_everything() {
    let ticks = " tick 13:10\n".repeat(5);
    let (caught_up, _) = run(&format!("{STOPPED} on_lag catch_up\n{ticks}"));
    let (jumped, _) = run(&format!("{STOPPED} tick 13:10\n"));
    assert_eq!(caught_up.state.sources, jumped.state.sources);
    assert_eq!(caught_up.state.watermark, jumped.state.watermark);
    assert!(caught_up.state.holes.is_empty());
}

#[test]
fn catch_up_waits_for_a_listing_that_failed() {
    insta::assert_snapshot!(check("
        on_lag catch_up
        source ads 1h
        W 03:00
        E ads 00:00
        newest ads 04:00
        live ads 03/a#1
        list ads 00-03 at 13:10: 03/a#1
        list ads 05-14 at 13:10: 05/a#1 12/a#1
        fail ads 04
        tick 13:10
        tick 13:10
        list ads 04 at 13:11: 04/a#1
        tick 13:11
    "), @"
    at 13:10: watermark 03:00 -> 04:00
    ads: from 01:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 04/: out of reach
    at 13:10: watermark stays at 04:00
    ads: from 01:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 04/: out of reach
    at 13:11: watermark 04:00 -> 07:00
    ads: from 04:00
      - 03/a
      + 04/a
      + 05/a
    ");
}

#[test]
fn what_was_passed_over_stays_out_while_the_watermark_waits() {
    insta::assert_snapshot!(check("
        source ads 1h
        W 03:00
        E ads 00:00
        newest ads 04:00
        list ads 00-10 at 13:10: 08/a#1 09/a#1 10/a#1
        list ads 12-14 at 13:10: 12/a#1
        fail ads 11
        tick 13:10
        list ads 09-11 at 13:11: 09/new#1 10/a#1 11/a#1
        tick 13:11
    "), @"
    at 13:10: watermark 03:00 -> 11:00
    ads: from 10:00
      + 10/a
      + 12/a
    hole in ads: 03:00 to 10:00
    alarm listing_failed of ads: the watermark waits for a complete listing of 11/: out of reach
    at 13:11: watermark 11:00 -> 13:00
    ads: from 10:00
      + 11/a
    hole in ads: 09:00 to 10:00 (09/new)
    alarm late_out_of_window of ads: 09/new landed behind the window and was not taken in
    ");
}

#[test]
fn a_hole_of_one_source_is_written_once_while_another_holds_the_watermark() {
    insta::assert_snapshot!(check("
        source ads 1h window=2h hold=never
        source views 1h window=12h hold=never
        W 05:00
        list ads 00-14 at 13:10: 05/a#1 12/a#1
        list views 00-04 at 13:10:
        list views 06-14 at 13:10: 06/v#1
        fail views 05
        tick 13:10
        tick 13:11
    "), @"
    at 13:10: watermark stays at 05:00
    ads: from 11:00
      + 12/a
    views: from 2026-04-30T17:00
      + 06/v
    hole in ads: 05:00 to 11:00
    alarm listing_failed of views: the watermark waits for a complete listing of 05/: out of reach
    at 13:11: watermark stays at 05:00
    ads: from 11:00
    views: from 2026-04-30T17:00
    alarm listing_failed of views: the watermark waits for a complete listing of 05/: out of reach
    ");
}

/// W went on while the table waited for its first file: what lies before it stays out as well.
#[test]
fn a_table_for_ever_that_never_had_a_batch_is_passed_over_from_its_start() {
    let plan = check(
        "
        source ads 1h hold=never forever=02:00
        W 06:00
        list ads 02-14 at 13:10: 04/a#1 07/a#1 12/a#1
        plan 13:10
    ",
    );
    assert!(plan.contains("hole in ads: 02:00 to 10:00"), "{plan}");
    assert!(plan.contains("+ 12/a") && !plan.contains("+ 04/a"), "{plan}");
}
