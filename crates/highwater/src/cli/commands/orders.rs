//! `accept-removals`, `backfill` and `holes retry`: orders to whoever writes the pipeline. They claim nothing and touch no index.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::cli::args::{AcceptArgs, BackfillArgs, Format};
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::engine::{Access, Pipeline};
use crate::report::{AcceptReport, BackfillReport, RetryReport, WriterReport};

/// How many files in quarantine are named.
const NAMED: usize = 10;

fn open(config: Config) -> Result<Pipeline, CliError> {
    Ok(Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Read)?)
}

/// Accepts removals that are withheld.
pub async fn accept_removals(config: Config, args: &AcceptArgs, output: &Output) -> Result<Exit, CliError> {
    let report = open(config)?.accept_removals(args.source.as_deref()).await?;
    if args.format.json {
        output.json(&report)?;
    } else {
        output.result(accepted(&report))?;
    }
    Ok(Exit::Done)
}

/// Has files in quarantine tried again at once: of one source or of all, one path or all.
pub async fn retry(
    config: Config,
    source: Option<&str>,
    path: Option<&str>,
    format: Format,
    output: &Output,
) -> Result<Exit, CliError> {
    let report = open(config)?.retry(source, path).await?;
    if format.json {
        output.json(&report)?;
    } else {
        output.result(retried(&report))?;
    }
    Ok(Exit::Done)
}

/// Has the files in holes of tables that keep their rows read.
pub async fn backfill(config: Config, args: &BackfillArgs, output: &Output) -> Result<Exit, CliError> {
    let report = open(config)?.backfill(args.source.as_deref()).await?;
    if args.format.json {
        output.json(&report)?;
    } else {
        output.result(filled(&report))?;
    }
    Ok(Exit::Done)
}

fn filled(report: &BackfillReport) -> String {
    if report.order.is_none() {
        return "no table that keeps its rows has a hole that reading could fill".into();
    }
    let mut text = String::new();
    for hole in report.holes.iter().take(NAMED) {
        let what = hole.path.as_deref().map_or(String::new(), |path| format!(" ({path})"));
        _ = writeln!(text, "{}: {} to {}, {}{what}", hole.source, hole.from, hole.to, hole.cause.as_str());
    }
    if report.holes.len() > NAMED {
        _ = writeln!(text, "and {} more", report.holes.len() - NAMED);
    }
    text + &carried_out("what is there of them is read, a gigabyte a batch at most", report.writer.as_ref())
}

fn accepted(report: &AcceptReport) -> String {
    if report.order.is_none() {
        return "nothing is withheld: there is nothing to accept".into();
    }
    let mut text = String::new();
    for (source, withheld) in &report.withheld {
        let (files, of, since) = (withheld.files, withheld.of, withheld.since);
        _ = writeln!(text, "{source}: {files} of {of} files are gone and stay in the table (since {since})");
        for path in &withheld.paths {
            _ = writeln!(text, "  {path}");
        }
        let more = withheld.files - withheld.paths.len() as u64;
        if more > 0 {
            _ = writeln!(text, "  and {more} more");
        }
    }
    for (source, detail) in &report.bases {
        _ = writeln!(text, "{source}: {detail}");
    }
    let what = if report.withheld.is_empty() { "it is accepted" } else { "their removal is accepted" };
    text + &carried_out(what, report.writer.as_ref())
}

fn retried(report: &RetryReport) -> String {
    if report.order.is_none() {
        return "no such file is in quarantine: there is nothing to try again".into();
    }
    let mut text = String::new();
    for file in report.quarantined.iter().take(NAMED) {
        _ = writeln!(text, "{}: {}: {}", file.source, file.version.path, file.reason);
    }
    if report.quarantined.len() > NAMED {
        _ = writeln!(text, "and {} more", report.quarantined.len() - NAMED);
    }
    text + &carried_out("they are due again", report.writer.as_ref())
}

fn carried_out(what: &str, writer: Option<&WriterReport>) -> String {
    let last = writer.map_or(String::new(), |writer| format!(" (the last one was {})", writer.holder));
    format!("{what}; a running writer{last} carries it out at its next tick, else the next `run` or `once` does\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use highwater_core::receipt::Quarantined;
    use highwater_core::{FileVersion, SourceName, Timestamp};

    use super::*;
    use crate::report::WithheldReport;

    fn since() -> Timestamp {
        "2026-05-01T10:12:00Z".parse().unwrap()
    }

    #[test]
    fn an_operator_reads_what_is_withheld_and_who_will_act() {
        let paths = vec!["dt=1/a.json".into(), "dt=1/b.json".into()];
        let withheld = WithheldReport { files: 200, of: 300, since: since(), paths };
        let writer = Some(WriterReport { holder: "host h, process 7".into(), since: since() });
        let mut report = AcceptReport {
            order: Some("n".into()),
            withheld: [(SourceName::new("ads"), withheld)].into(),
            bases: BTreeMap::new(),
            writer,
        };
        insta::assert_snapshot!(accepted(&report), @"
        ads: 200 of 300 files are gone and stay in the table (since 2026-05-01T10:12:00Z)
          dt=1/a.json
          dt=1/b.json
          and 198 more
        their removal is accepted; a running writer (the last one was host h, process 7) carries it out at its next tick, else the next `run` or `once` does
        ");
        report.order = None;
        insta::assert_snapshot!(accepted(&report), @"nothing is withheld: there is nothing to accept");
    }

    #[test]
    fn an_operator_reads_which_files_are_tried_again() {
        let version = FileVersion { path: "dt=1/a.json".into(), size: 7, etag: "e".into() };
        let (source, reason) = (SourceName::new("ads"), "cut gzip member".to_owned());
        let file = Quarantined { source, version, reason, since: since(), attempts: 3 };
        let mut report = RetryReport { order: Some("n".into()), quarantined: vec![file], writer: None };
        insta::assert_snapshot!(retried(&report), @"
        ads: dt=1/a.json: cut gzip member
        they are due again; a running writer carries it out at its next tick, else the next `run` or `once` does
        ");
        report.order = None;
        insta::assert_snapshot!(retried(&report), @"no such file is in quarantine: there is nothing to try again");
    }
}
