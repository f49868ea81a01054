//! How a pipeline stands: the one line that says it all, the figures below it, and each source's newest data.

use maud::{Markup, html};

use super::Facts;
use super::words::{ago, count, counted, instant, span};
use crate::report::StatusReport;

/// The pipeline's name, its state, the line, the figures.
pub(super) fn headline(name: &str, facts: &Facts) -> Markup {
    html! {
        section #standing data-live aria-labelledby="name" {
            div.title {
                h1 #name { (name) }
                (state(facts))
            }
            p.line { (line(facts)) }
            @if let Err(reason) = &facts.ready { p.quiet { "Not ready: " (reason) "." } }
            @if !facts.loop_runs_here { p.quiet { "This process only reads; another one writes, or none." } }
            @if let Ok(status) = &facts.status { (figures(status, facts)) }
        }
    }
}

/// A pipeline among several: name, state and line.
pub(super) fn summary(name: &str, facts: &Facts, href: &str) -> Markup {
    let attention = facts.status.as_ref().map_or(0, |status| status.alarms.len() + status.quarantined.len());
    html! {
        section.summary id={ "of-" (name) } data-live aria-label=(name) {
            div.title {
                h2 { a href=(href) { (name) } }
                (state(facts))
            }
            p.line { (line(facts)) }
            @if attention > 0 {
                p.quiet { a href=(href) { (counted(attention as u64, "thing needs", "things need")) " a look" } }
            }
        }
    }
}

fn state(facts: &Facts) -> Markup {
    let (class, word) = match &facts.status {
        Err(_) => ("bad", "out of reach"),
        Ok(status) if status.seq.is_none() => ("waiting", "waiting"),
        Ok(status) if !status.alarms.is_empty() => ("look", "needs a look"),
        Ok(_) if facts.ready.is_err() => ("look", "behind"),
        Ok(_) => ("good", "fresh"),
    };
    html! { span.state.(class) { (word) } }
}

fn line(facts: &Facts) -> Markup {
    let status = match &facts.status {
        Ok(status) => status,
        Err(fault) => return html! { "The status cannot be read: " (fault) "." },
    };
    let Some(watermark) = status.watermark else {
        return html! { "No batch was committed yet; the first one fills the index." };
    };
    html! {
        @if let Some(newest) = status.newest.values().max() {
            "Fresh as of " strong { (instant(*newest, facts.now)) } " UTC (" (ago(*newest, facts.now)) "), complete"
        } @else { "Complete" }
        " to watermark " strong { (instant(watermark, facts.now)) }
        @if let Some(holes) = status.complete.map(|complete| complete.except(&status.holes).len()) {
            @if holes > 0 { " except " a href="#holes" { (counted(holes as u64, "hole", "holes")) } }
        }
        ", "
        strong { (count(status.documents)) } @if status.documents == 1 { " document, " } @else { " documents, " }
        @match status.processing_lag_s {
            Some(lag) if lag > 0.0 => { "lag " strong { (span(lag)) } "." }
            _ => { "no lag." }
        }
    }
}

fn figures(status: &StatusReport, facts: &Facts) -> Markup {
    html! {
        dl.figures {
            div { dt { "Batch" } dd { @match status.seq { Some(seq) => (seq), None => "–" } } }
            div { dt { "Frontier" } dd { (instant(status.frontier, facts.now)) } }
            div { dt { "Data age" } dd { (or_dash(status.data_age_s)) } }
            div {
                dt { "File to search, median" }
                dd { (or_dash(status.freshness_s.map(|freshness| freshness.p50))) }
            }
            div { dt { "99th percentile" } dd { (or_dash(status.freshness_s.map(|freshness| freshness.p99))) } }
            div { dt { "Generation" } dd { (status.generation) } }
            @if let Some(writer) = &status.writer {
                div { dt { "Writer" } dd { (writer.holder) } dd.quiet { "since " (instant(writer.since, facts.now)) } }
            }
        }
    }
}

fn or_dash(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "–".to_owned(), span)
}

/// Per source: newest data, its age, files.
pub(super) fn sources(facts: &Facts) -> Markup {
    let Ok(status) = &facts.status else { return html! {} };
    let names: std::collections::BTreeSet<_> = status.newest.keys().chain(status.files.keys()).collect();
    html! {
        section #sources data-live aria-labelledby="sources-title" {
            h2 #sources-title { "Sources" }
            @if names.is_empty() {
                p.quiet { "No data was seen yet." }
            } @else {
                div.scroll role="region" tabindex="0" aria-labelledby="sources-title" {
                    table {
                        thead { tr {
                            th scope="col" { "Source" }
                            th.number scope="col" { "Newest data" }
                            th.number scope="col" { "Age" }
                            th.number scope="col" { "Files" }
                        } }
                        tbody {
                            @for name in names {
                                tr {
                                    th scope="row" { (name) }
                                    @match status.newest.get(name) {
                                        Some(newest) => {
                                            td.number { (instant(*newest, facts.now)) }
                                            td.number { (ago(*newest, facts.now)) }
                                        }
                                        None => { td.number { "–" } td.number { "–" } }
                                    }
                                    td.number {
                                        @match status.files.get(name) { Some(files) => (count(*files)), None => "–" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
