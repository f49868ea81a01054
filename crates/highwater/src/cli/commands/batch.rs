//! `once`, `plan` and `verify`: one look, one batch, one proof.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use highwater_core::driver::GRACE;
use highwater_core::lease::Wait;
use highwater_core::plan::Plan;
use highwater_core::ports::Clock;
use highwater_core::{SourceName, Timestamp};
use serde::Serialize;

use crate::cli::args::{BatchArgs, OnceArgs, VerifyArgs};
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::{Latest, Output};
use crate::cli::signals::{Stop, asked};
use crate::cli::text;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::engine::{Access, LookAhead, Pipeline};

/// One batch over everything in the window.
pub async fn once(config: Config, args: &OnceArgs, stop: Stop, output: &Output) -> Result<Exit, CliError> {
    let pipeline = Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Write)?;
    let mut waiting = Latest::default();
    let mut tell = |wait: &Wait| {
        let text = wait.to_string();
        if waiting.is_news(&text) {
            output.note(&text);
        }
    };
    let batch = pipeline.once(args.batch.now, args.accept_removals, output.batch_progress(), &mut tell);
    tokio::pin!(batch);
    let report = tokio::select! {
        biased;
        report = &mut batch => report?,
        () = asked(stop) => tokio::select! {
            biased;
            report = &mut batch => report?,
            () = SystemClock.sleep(GRACE) => {
                return Err(CliError::Failure("stopped before the batch ended; the next start repairs what it left".into()));
            }
        },
    };
    if args.batch.format.json {
        output.json(&report)?;
    } else {
        output.result(text::batch(&report))?;
    }
    Ok(Exit::Done)
}

/// Proves the index equation.
pub async fn verify(config: Config, args: &VerifyArgs, output: &Output) -> Result<Exit, CliError> {
    let pipeline = Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Read)?;
    let report = pipeline.verify(args.relist, output.batch_progress()).await?;
    if args.format.json {
        output.json(&report)?;
    } else {
        output.result(text::verify(&report))?;
    }
    Ok(match report.equal {
        Some(true) => Exit::Done,
        Some(false) => Exit::Different,
        None => Exit::Failure,
    })
}

/// `plan --json`.
#[derive(Debug, Serialize)]
struct PlanReport<'a> {
    clock: Timestamp,
    watermark: Timestamp,
    watermark_before: Option<Timestamp>,
    /// `full`, or `none` if nothing would change.
    mode: &'static str,
    sources: BTreeMap<&'a SourceName, SourceReport<'a>>,
    holes: &'a [highwater_core::holes::Hole],
    alarms: &'a [highwater_core::receipt::Alarm],
}

#[derive(Debug, Serialize)]
struct SourceReport<'a> {
    #[serde(rename = "from")]
    evict_before: Option<Timestamp>,
    read: Vec<&'a str>,
    drop: Vec<&'a str>,
    /// Pinned paths that stay though they are gone from the listing.
    withheld: Vec<&'a str>,
    /// Within so long a late file anywhere in the window is seen.
    late_file_seen_within_s: f64,
    /// Prefixes that a first tick lists.
    prefixes: usize,
}

/// Tells what the next batch would do.
pub async fn plan(config: Config, args: &BatchArgs, output: &Output) -> Result<Exit, CliError> {
    let pipeline = Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Read)?;
    let ahead = pipeline.plan(args.now).await?;
    if args.format.json {
        output.json(&report(&ahead))?;
    } else {
        output.result(words(&ahead))?;
    }
    Ok(Exit::Done)
}

fn mode(ahead: &LookAhead) -> &'static str {
    if ahead.due { "full" } else { "none" }
}

fn report(ahead: &LookAhead) -> PlanReport<'_> {
    let plan = &ahead.plan;
    let mut sources = BTreeMap::new();
    for (name, source) in &plan.sources {
        let report = SourceReport {
            evict_before: source.evict_before,
            read: source.added.iter().map(|version| &*version.path).collect(),
            drop: source.dropped.iter().map(|version| &*version.path).collect(),
            withheld: source.withheld.iter().map(|path| &**path).collect(),
            late_file_seen_within_s: ahead.revisit[name].as_secs_f64(),
            prefixes: ahead.prefixes[name],
        };
        sources.insert(name, report);
    }
    let Plan { clock, watermark, watermark_before, holes, alarms, .. } = plan;
    PlanReport {
        clock: *clock,
        watermark: *watermark,
        watermark_before: *watermark_before,
        mode: mode(ahead),
        sources,
        holes,
        alarms,
    }
}

fn words(ahead: &LookAhead) -> String {
    let mut text = ahead.plan.to_string();
    let _ = match mode(ahead) {
        "none" => writeln!(text, "nothing changed: no batch"),
        _ => writeln!(text, "the batch computes all documents, and writes those that differ"),
    };
    for (name, bound) in &ahead.revisit {
        let prefixes = ahead.prefixes[name];
        let _ = writeln!(
            text,
            "{name}: a late file anywhere in the window is seen within {}; a first tick lists {prefixes} prefixes, \
             later ones two at most",
            text::seconds(bound.as_secs_f64())
        );
    }
    text
}
