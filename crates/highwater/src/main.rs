//! The binary: parse, dispatch, end.

use std::process::ExitCode;

use clap::Parser;
use highwater::cli::args::{Cli, Command};
use highwater::cli::exit::{CliError, Exit};
use highwater::cli::output::Output;
use highwater::cli::{commands, logging};
use highwater::clock::SystemClock;
use highwater::config::{Config, ConfigReport, load};
use highwater_core::ports::Clock;
use jiff::SignedDuration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let output = Output::of_process(env("NO_COLOR").is_some_and(|value| !value.is_empty()));
    match Cli::try_parse() {
        Ok(cli) => output.finish(run(cli, &output)),
        Err(refused) => {
            // Help and version are results; to whom they cannot be shown they do not matter.
            _ = refused.print();
            if refused.exit_code() == 0 { Exit::Done.into() } else { Exit::Usage.into() }
        }
    }
}

fn run(cli: Cli, output: &Output) -> Result<Exit, CliError> {
    logging::start(env("HIGHWATER_LOG").as_deref())?;
    match &cli.command {
        Command::Init(args) => commands::init(args, &cli.config, SystemClock.now(), output),
        Command::Check(format) => commands::check(config(&cli), format.json, &commands::look_at_folders, output),
        Command::Completions { shell } => commands::completions(*shell, output),
        other => Err(CliError::Usage(format!("this build has no `{}`", other.name()))),
    }
}

fn config(cli: &Cli) -> Result<Config, ConfigReport> {
    load(&cli.config, &env, &layout_captures)
}

/// The columns that a layout captures.
fn layout_captures(layout: &str, _step: SignedDuration) -> Result<Vec<String>, String> {
    let mut captures = Vec::new();
    let mut rest = layout;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or("layout has a brace without its partner; a capture is {name}")?;
        captures.push(name.to_owned());
        rest = after;
    }
    Ok(captures)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
