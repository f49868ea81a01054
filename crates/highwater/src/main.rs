//! The binary: parse, dispatch, end.

use std::process::ExitCode;

use clap::Parser;
use highwater::cli::args::{Cli, Command};
use highwater::cli::exit::{CliError, Exit};
use highwater::cli::output::Output;
use highwater::cli::signals::{self, Stop};
use highwater::cli::{commands, logging};
use highwater::clock::SystemClock;
use highwater::config::{Config, ConfigReport, check_layout, load};
use highwater::task::{block_on, deep};
use highwater_core::ports::Clock;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // With huge pages the allocator has whole megabytes cleared for a few kilobytes: on virtual machines that give idle
    // memory back this took more time than a batch. Where the kernel refuses, they stay.
    _ = rustix::thread::disable_transparent_huge_pages(true);
    let output = Output::of_process(env("NO_COLOR").is_some_and(|value| !value.is_empty()));
    match Cli::try_parse() {
        Ok(cli) => output.finish(deep(|| run(&cli, &output)).unwrap_or_else(|fault| Err(fault.into()))),
        Err(refused) => {
            // Help and version are results; to whom they cannot be shown they do not matter.
            _ = refused.print();
            if refused.exit_code() == 0 { Exit::Done.into() } else { Exit::Usage.into() }
        }
    }
}

fn run(cli: &Cli, output: &Output) -> Result<Exit, CliError> {
    logging::start(env("HIGHWATER_LOG").as_deref(), output.colour())?;
    match &cli.command {
        Command::Init(args) => commands::init(args, &cli.config, SystemClock.now(), output),
        Command::Check(format) => block_on(commands::check(config(cli), format.json, output))?,
        Command::Plan(args) => block_on(commands::plan(config(cli)?, args, output))?,
        Command::Run(args) => {
            let stop = stop(Exit::Done)?;
            block_on(commands::run(config(cli)?, *args, stop, output))?
        }
        Command::Once(args) => {
            let stop = stop(Exit::Failure)?;
            block_on(commands::once(config(cli)?, args, stop, output))?
        }
        Command::AcceptRemovals(args) => block_on(commands::accept_removals(config(cli)?, args, output))?,
        Command::Backfill(args) => block_on(commands::backfill(config(cli)?, args, output))?,
        Command::Rebuild(args) => {
            let stop = stop(Exit::Failure)?;
            block_on(commands::rebuild(config(cli)?, args, stop, output))?
        }
        Command::Promote(args) => {
            let stop = stop(Exit::Failure)?;
            block_on(commands::promote(config(cli)?, args, stop, output))?
        }
        Command::Rollback(args) => {
            let stop = stop(Exit::Failure)?;
            block_on(commands::rollback(config(cli)?, args, stop, output))?
        }
        Command::Generations(args) => match &args.drop {
            None => block_on(commands::generations(config(cli)?, args.format, output))?,
            Some(name) => {
                let stop = stop(Exit::Failure)?;
                block_on(commands::drop_generation(config(cli)?, (name, args), stop, output))?
            }
        },
        Command::Status(format) => block_on(commands::status(config(cli)?, *format, output))?,
        Command::Log(args) => block_on(commands::log(config(cli)?, args, output))?,
        Command::Holes(args) => block_on(commands::holes(config(cli)?, args, output))?,
        Command::Search(args) => block_on(commands::search(config(cli)?, args, output))?,
        Command::Get(args) => block_on(commands::get(config(cli)?, args, output))?,
        Command::Dump => block_on(commands::dump(config(cli)?, output))?,
        Command::Verify(args) => block_on(commands::verify(config(cli)?, args, output))?,
        Command::Serve(args) => {
            let stop = stop(Exit::Done)?;
            block_on(commands::serve(config(cli)?, args, stop, output))?
        }
        Command::Demo(args) => block_on(commands::demo(args, stop(Exit::Done)?, output))?,
        Command::Completions { shell } => commands::completions(*shell, output),
    }
}

/// Signals, from now on. `overdue`: how the process ends if the command does not in time.
#[allow(clippy::disallowed_methods)]
fn stop(overdue: Exit) -> Result<Stop, CliError> {
    signals::watch(overdue, |exit| std::process::exit(exit as i32))
}

fn config(cli: &Cli) -> Result<Config, ConfigReport> {
    load(&cli.config, &env, &check_layout)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
