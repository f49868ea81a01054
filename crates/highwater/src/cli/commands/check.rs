//! `check`: the configuration with every value, or every problem at once.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::config::{Config, ConfigReport, Description, Location, Problem};

/// What lies behind the file: SQL, sources, stores. An error ends the check with its code.
pub type Probe<'a> = &'a dyn Fn(&Config) -> Result<Probed, CliError>;

/// What a probe found.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// Worth knowing, and no fault.
    pub notes: Vec<String>,
}

/// `check --json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    /// Nothing must be mended.
    pub ok: bool,
    /// What must be mended.
    pub problems: Vec<Problem>,
    /// What works and may not be meant.
    pub warnings: Vec<Problem>,
    /// Worth knowing, and no fault.
    pub notes: Vec<String>,
    /// Every value; `null` if there are problems.
    #[serde(flatten)]
    pub description: Option<Description>,
}

/// Reports on a configuration as it was loaded, and on what `probe` finds behind it.
pub fn check(
    loaded: Result<Config, ConfigReport>,
    json: bool,
    probe: Probe<'_>,
    output: &Output,
) -> Result<Exit, CliError> {
    let config = match loaded {
        Ok(config) => config,
        Err(report) if json => {
            let ConfigReport { problems, warnings, .. } = report;
            output.json(&CheckReport { ok: false, problems, warnings, notes: Vec::new(), description: None })?;
            return Ok(Exit::Usage);
        }
        Err(report) => return Err(report.into()),
    };
    let Probed { notes } = probe(&config)?;
    if json {
        let description = Some(config.describe());
        output.json(&CheckReport { ok: true, problems: Vec::new(), warnings: config.warnings, notes, description })?;
        return Ok(Exit::Done);
    }
    output.warnings(&config);
    output.result(config.resolved_toml())?;
    for note in notes {
        output.note(format_args!("note: {note}"));
    }
    Ok(Exit::Done)
}

/// Tells which folders of sources hold no file yet. Hidden names are no data.
pub fn look_at_folders(config: &Config) -> Result<Probed, CliError> {
    let mut probed = Probed::default();
    for source in config.sources.values() {
        let Location::Folder(folder) = &source.location else { continue };
        let held = holds_file(folder).map_err(|error| {
            CliError::Failure(format!("cannot look at {}, the location of {}: {error}", folder.display(), source.name))
        })?;
        if !held {
            let name = &source.name;
            probed.notes.push(format!("source `{name}`: no files are there yet in {}", folder.display()));
        }
    }
    Ok(probed)
}

fn holds_file(folder: &Path) -> std::io::Result<bool> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let hidden = entry.file_name().to_string_lossy().starts_with(['.', '_']);
        // A link counts as what it points to.
        let kind = std::fs::metadata(entry.path())?;
        if !hidden && (kind.is_file() || kind.is_dir() && holds_file(&entry.path())?) {
            return Ok(true);
        }
    }
    Ok(false)
}
