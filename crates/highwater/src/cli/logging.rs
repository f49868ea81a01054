//! The program's own log, to standard error: what `HIGHWATER_LOG` lets through.

use tracing_subscriber::EnvFilter;

use super::exit::CliError;

/// Warnings, save those of the index library: they speak of its segments, and nobody can act on them. What it fails at
/// comes back as an error of the batch.
const DEFAULT: &str = "warn,tantivy=error";

/// Starts logging, with `colour` only where a terminal shows it; `filter` is the value of `HIGHWATER_LOG` (`debug`, or
/// `highwater=debug,warn`), by default warnings without the index library's own.
pub fn start(filter: Option<&str>, colour: bool) -> Result<(), CliError> {
    let filter = EnvFilter::try_new(filter.unwrap_or(DEFAULT))
        .map_err(|error| CliError::Usage(format!("HIGHWATER_LOG is not a filter: {error}; try HIGHWATER_LOG=info")))?;
    // A second start in one process (a test) keeps the first log.
    _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .try_init();
    Ok(())
}
