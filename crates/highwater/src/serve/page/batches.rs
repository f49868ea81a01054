//! The last batches, as a table whose bars show where time went slower.

use highwater_core::receipt::Mode;
use maud::{Markup, html};

use super::Facts;
use super::words::{count, instant, span_ms};
use crate::report::BatchReport;

pub(super) fn section(facts: &Facts) -> Markup {
    html! {
        section #batches data-live aria-labelledby="batches-title" {
            h2 #batches-title { "Last batches" }
            @match &facts.batches {
                Err(fault) => p.problem { "The batches cannot be read: " (fault) "." },
                Ok(batches) if batches.is_empty() => p.quiet { "None yet." },
                Ok(batches) => (table(batches, facts)),
            }
        }
    }
}

fn table(batches: &[BatchReport], facts: &Facts) -> Markup {
    let slowest = batches.iter().map(total_ms).max().unwrap_or_default().max(1);
    html! {
        div.scroll role="region" tabindex="0" aria-labelledby="batches-title" {
            table {
                thead { tr {
                    th scope="col" { "Batch" }
                    th scope="col" { "Clock" }
                    th scope="col" { "Mode" }
                    th.number scope="col" { "Files" }
                    th.number scope="col" { "Upserts" }
                    th.number scope="col" { "Deletes" }
                    th.number scope="col" { "Documents" }
                    th.number scope="col" { "Freshness" }
                    th.number scope="col" { "Took" }
                    td {}
                } }
                tbody { @for batch in batches { (row(batch, slowest, facts)) } }
            }
        }
    }
}

fn row(batch: &BatchReport, slowest: u64, facts: &Facts) -> Markup {
    let took = total_ms(batch);
    html! {
        tr {
            th scope="row" { (batch.seq) }
            td { (instant(batch.clock, facts.now)) }
            td.quiet { (mode(batch.mode)) }
            td.number { (change(batch.files_read)) }
            td.number { (change(batch.upserts)) }
            td.number { (change(batch.deletes)) }
            td.number { (count(batch.documents)) }
            td.number { @match batch.freshness_ms { Some(freshness) => (span_ms(freshness.p50)), None => "–" } }
            td.number title=(phases(batch)) { (span_ms(took)) }
            td.bar { (bar(took, slowest)) }
        }
    }
}

fn bar(ms: u64, slowest: u64) -> Markup {
    let width = (ms.saturating_mul(100) / slowest).clamp(1, 100);
    html! {
        svg width="100" height="8" viewBox="0 0 100 8" aria-hidden="true" focusable="false" {
            rect width=(width) height="8" rx="1.5" {}
        }
    }
}

/// A zero says least where it is least seen.
fn change(number: u64) -> Markup {
    html! { @if number == 0 { span.quiet { "0" } } @else { (count(number)) } }
}

fn phases(batch: &BatchReport) -> String {
    let phases: Vec<String> = batch.ms.iter().map(|(phase, ms)| format!("{phase} {ms} ms")).collect();
    phases.join(", ")
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Full => "full",
        Mode::Incremental => "incremental",
        Mode::None => "no change",
    }
}

fn total_ms(batch: &BatchReport) -> u64 {
    batch.ms.get("total").copied().unwrap_or_default()
}
