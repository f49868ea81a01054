//! `rebuild`, `promote`, `rollback` and `generations`: the indexes of one pipeline, and which of them readers see.

use std::fmt::Write as _;
use std::sync::Arc;

use highwater_core::driver::TickReport;
use highwater_core::lease::Wait;
use highwater_core::log::Claimed;
use highwater_core::ports::Fault;

use crate::cli::args::{Format, GenerationsArgs, PromoteArgs, RebuildArgs, RollbackArgs};
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::{Latest, Output};
use crate::cli::signals::{Stop, asked};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::engine::{Access, Pipeline, Reports};
use crate::report::{BatchReport, GenerationsReport};

/// Builds a candidate, and judges it.
pub async fn rebuild(config: Config, args: &RebuildArgs, stop: Stop, output: &Output) -> Result<Exit, CliError> {
    let (pipeline, mut told) = (open(config, Access::Write)?, Told::new(output));
    let (progress, stop) = (output.batch_progress(), asked(stop));
    let report = pipeline.rebuild(&args.reason, args.promote, &mut told, progress, stop).await?;
    show(&report, args.format, output)
}

/// Makes the candidate live.
pub async fn promote(config: Config, args: &PromoteArgs, stop: Stop, output: &Output) -> Result<Exit, CliError> {
    let (pipeline, mut told) = (open(config, Access::Write)?, Told::new(output));
    let (progress, stop) = (output.batch_progress(), asked(stop));
    let report = pipeline.promote(args.force.as_deref(), &mut told, progress, stop).await?;
    show(&report, args.format, output)
}

/// Makes the former generation live again.
pub async fn rollback(config: Config, args: &RollbackArgs, stop: Stop, output: &Output) -> Result<Exit, CliError> {
    let (pipeline, mut told) = (open(config, Access::Write)?, Told::new(output));
    let (progress, stop) = (output.batch_progress(), asked(stop));
    let report = pipeline.rollback(&args.reason, &mut told, progress, stop).await?;
    show(&report, args.format, output)
}

/// Lists what there is.
pub async fn generations(config: Config, format: Format, output: &Output) -> Result<Exit, CliError> {
    let report = open(config, Access::Read)?.generations().await?;
    show(&report, format, output)
}

/// Takes one away that nobody needs.
pub async fn drop_generation(
    config: Config,
    (name, args): (&str, &GenerationsArgs),
    stop: Stop,
    output: &Output,
) -> Result<Exit, CliError> {
    let (pipeline, mut told) = (open(config, Access::Write)?, Told::new(output));
    let (progress, stop) = (output.batch_progress(), asked(stop));
    let report = pipeline.drop_generation(name, &args.reason, &mut told, progress, stop).await?;
    show(&report, args.format, output)
}

fn open(config: Config, access: Access) -> Result<Pipeline, CliError> {
    Ok(Pipeline::open(Arc::new(config), Arc::new(SystemClock), access)?)
}

fn show(report: &GenerationsReport, format: Format, output: &Output) -> Result<Exit, CliError> {
    if format.json {
        output.json(report)?;
    } else {
        output.result(text(report))?;
    }
    Ok(Exit::Done)
}

fn text(report: &GenerationsReport) -> String {
    let mut text = String::new();
    for generation in &report.generations {
        let since = generation.since.map_or(String::new(), |since| format!(" since {since}"));
        let reason = if generation.reason.is_empty() { String::new() } else { format!(": {}", generation.reason) };
        _ = writeln!(text, "{:<4} {}{since}{reason}", generation.name.as_str(), generation.role);
        for gate in generation.judgement.iter().flat_map(|judgement| &judgement.gates) {
            let verdict = if gate.passed { "passed" } else { "FAILED" };
            _ = writeln!(text, "     {verdict} {}: {}", gate.gate, gate.detail);
        }
    }
    text.trim_end().to_owned()
}

/// Says what the command waits for.
struct Told<'o> {
    output: &'o Output,
    waiting: Latest,
    failing: Latest,
}

impl<'o> Told<'o> {
    fn new(output: &'o Output) -> Self {
        Self { output, waiting: Latest::default(), failing: Latest::default() }
    }
}

impl Reports for Told<'_> {
    fn waits(&mut self, wait: &Wait) {
        let text = wait.to_string();
        if self.waiting.is_news(&text) {
            self.output.note(&text);
        }
    }

    fn begin(&mut self, _claimed: &Claimed) {}

    fn tick(&mut self, _report: &BatchReport, _tick: &TickReport, _changed: bool) {}

    fn failed(&mut self, fault: &Fault) {
        let text = fault.to_string();
        if self.failing.is_news(&text) {
            self.output.note(format_args!("trying again: {text}"));
        }
    }
}
