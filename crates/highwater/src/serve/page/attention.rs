//! What needs a look, each with what to do about it: alarms, files in quarantine, holes, refused rows.

use highwater_core::holes::{Hole, HoleCause};
use highwater_core::receipt::{Alarm, Quarantined, RejectedRow};
use maud::{Markup, html};

use super::Facts;
use super::words::{ago, counted, instant};
use crate::report::what_to_do;

/// Rows of each list that the page shows; the API has them all.
const SHOWN: usize = 20;

pub(super) fn section(facts: &Facts) -> Markup {
    let Ok(status) = &facts.status else { return html! { section #attention data-live hidden {} } };
    let nothing = status.alarms.is_empty()
        && status.quarantined.is_empty()
        && status.holes.is_empty()
        && status.rejected.is_empty();
    if nothing {
        // The empty section stays, so that the script has a place to put what comes.
        return html! { section #attention data-live hidden {} };
    }
    html! {
        section #attention data-live aria-labelledby="attention-title" {
            h2 #attention-title { "Needs a look" }
            @for alarm in &status.alarms { (self::alarm(alarm, facts)) }
            @if !status.quarantined.is_empty() { (quarantined(&status.quarantined, facts)) }
            @if !status.holes.is_empty() { (holes(&status.holes, facts)) }
            @if !status.rejected.is_empty() { (rejected(&status.rejected)) }
        }
    }
}

fn alarm(alarm: &Alarm, facts: &Facts) -> Markup {
    html! {
        div.alarm {
            p {
                strong { (alarm.kind.replace('_', " ")) }
                @if let Some(source) = &alarm.source { " · " (source) }
                span.quiet { " · since " (instant(alarm.since, facts.now)) " (" (ago(alarm.since, facts.now)) ")" }
            }
            p { (alarm.detail) }
            p.todo { (todo(&alarm.kind)) }
        }
    }
}

/// What an operator does about an alarm.
fn todo(kind: &str) -> &'static str {
    match kind {
        "source_silent" => "See whether the job that writes this source runs. What it brought last stays searchable.",
        "listing_failed" => {
            "The watermark waits until the store can be listed; then it goes on by itself. See whether the store is \
             reachable and the credentials hold."
        }
        "future_partition" => "See whether the writer's clock is right, and the source's time_zone.",
        "late_out_of_window" => {
            "These files landed behind the window and were not read. A longer window takes them in."
        }
        "empty_files" => "Files of zero bytes are skipped. See whether the job that writes them ends well.",
        "skipped_names" => "These names cannot be read as files of the source. Rename them, or move them away.",
        "misplaced_files" => "No partition holds these files. See whether the source's layout fits their paths.",
        "removals_withheld" => {
            "See whether the store shows what it should: the files come back by themselves. If they were meant to go, run \
             highwater accept-removals."
        }
        "add_only" => "Nothing is deleted until every pinned file can be read again, or has left the window.",
        _ => "The detail names what to look at.",
    }
}

fn quarantined(files: &[Quarantined], facts: &Facts) -> Markup {
    html! {
        details open id="quarantined" {
            summary { (counted(files.len() as u64, "file", "files")) " in quarantine" }
            p.todo {
                "Their last good version stays in the table. Replace the file: a new version is read as soon as it "
                "is seen."
            }
            div.scroll role="region" tabindex="0" aria-label="Files in quarantine" {
                table {
                    thead { tr {
                        th scope="col" { "File" } th scope="col" { "Reason" }
                        th.number scope="col" { "Since" } th.number scope="col" { "Tries" }
                    } }
                    tbody {
                        @for file in files.iter().take(SHOWN) {
                            tr {
                                th scope="row" { (file.source) ": " code { (file.version.path) } }
                                td.prose { (file.reason) }
                                td.number { (instant(file.since, facts.now)) }
                                td.number { (file.attempts) }
                            }
                        }
                    }
                }
            }
            (left_out(files.len()))
        }
    }
}

fn holes(holes: &[Hole], facts: &Facts) -> Markup {
    html! {
        details open id="holes" {
            summary { (counted(holes.len() as u64, "hole", "holes")) }
            p.todo { "Time that is not, or not wholly, in the index." }
            @for cause in HoleCause::ALL.iter().filter(|cause| holes.iter().any(|hole| hole.cause == **cause)) {
                p.todo { strong { (cause.as_str().replace('_', " ")) } ": " (what_to_do(*cause)) }
            }
            div.scroll role="region" tabindex="0" aria-label="Holes" {
                table {
                    thead { tr {
                        th scope="col" { "Source" } th scope="col" { "From" } th scope="col" { "To" }
                        th scope="col" { "Why" } th.number scope="col" { "Written down" }
                    } }
                    tbody {
                        @for hole in holes.iter().rev().take(SHOWN) {
                            tr {
                                th scope="row" { (hole.source) }
                                td { (instant(hole.from, facts.now)) }
                                td { (instant(hole.to, facts.now)) }
                                td.prose {
                                    (cause(hole.cause))
                                    @if let Some(path) = &hole.path { " " code { (path) } }
                                    @if let Some(detail) = &hole.detail { ": " (detail) }
                                }
                                td.number { (instant(hole.since, facts.now)) }
                            }
                        }
                    }
                }
            }
            (left_out(holes.len()))
        }
    }
}

fn cause(cause: HoleCause) -> &'static str {
    match cause {
        HoleCause::PassedOver => "the lag was longer than the window; the index went on at the newest state",
        HoleCause::LateFile => "a file landed behind the window",
        HoleCause::Quarantined => "a file cannot be read",
        HoleCause::UnderFilled => "far less data than the source's partitions usually hold",
    }
}

fn rejected(rows: &[RejectedRow]) -> Markup {
    html! {
        details id="rejected" {
            summary { (counted(rows.len() as u64, "row", "rows")) " refused lately" }
            p.todo { "The other rows of these files are in. Correct the rows, and write the file anew." }
            div.scroll role="region" tabindex="0" aria-label="Refused rows" {
                table {
                    thead { tr {
                        th scope="col" { "Where" } th.number scope="col" { "Row" } th scope="col" { "Reason" }
                    } }
                    tbody {
                        @for row in rows.iter().take(SHOWN) {
                            tr {
                                th scope="row" {
                                    @match &row.source {
                                        Some(source) => { (source) ": " code { (row.path) } }
                                        None => "a document of the SQL",
                                    }
                                }
                                td.number { @if row.row > 0 { (row.row) } @else { "–" } }
                                td.prose { (row.reason) }
                            }
                        }
                    }
                }
            }
            (left_out(rows.len()))
        }
    }
}

fn left_out(all: usize) -> Markup {
    html! { @if all > SHOWN { p.quiet { (counted((all - SHOWN) as u64, "more is", "more are")) " in the status." } } }
}
