//! `completions`: the shell's own script, from the same definition as the help.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::args::Cli;
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;

/// Prints the script.
pub fn completions(shell: Shell, output: &Output) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "highwater", &mut script);
    output.bytes(script.trim_ascii_end())?;
    Ok(Exit::Done)
}
