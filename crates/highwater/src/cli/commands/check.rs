//! `check`: the configuration with every value, or every problem at once, those that only stores and SQL show included.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::clock::SystemClock;
use crate::config::{Config, ConfigReport, Description, Problem};
use crate::engine::{Access, Examined, Pipeline, Place};

/// `check --json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    /// Nothing must be mended.
    pub ok: bool,
    /// What must be mended.
    pub problems: Vec<FiledProblem>,
    /// What works and may not be meant.
    pub warnings: Vec<FiledProblem>,
    /// Worth knowing, and no fault.
    pub notes: Vec<String>,
    /// Every value; `null` if there are problems.
    #[serde(flatten)]
    pub description: Option<Description>,
}

/// A problem and the file that it stands in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FiledProblem {
    /// The configuration, or the file of its SQL.
    pub file: PathBuf,
    /// What is wrong, where, and the way out.
    #[serde(flatten)]
    pub problem: Problem,
}

/// Reports on a configuration as it was loaded, and on what lies behind it.
pub async fn check(loaded: Result<Config, ConfigReport>, json: bool, output: &Output) -> Result<Exit, CliError> {
    let config = match loaded {
        Ok(config) => config,
        Err(report) => return refuse(vec![report], json, output),
    };
    let pipeline = Pipeline::open(Arc::new(config.clone()), Arc::new(SystemClock), Access::Read)?;
    let examined = pipeline.examine().await?;
    if !examined.problems.is_empty() {
        return refuse(reports(&config, examined), json, output);
    }
    let notes = examined.notes;
    if json {
        let warnings = filed(&config.file, config.warnings.clone());
        let description = Some(config.describe());
        output.json(&CheckReport { ok: true, problems: Vec::new(), warnings, notes, description })?;
        return Ok(Exit::Done);
    }
    output.warnings(&config);
    output.result(config.resolved_toml())?;
    for note in notes {
        output.note(format_args!("note: {note}"));
    }
    Ok(Exit::Done)
}

fn refuse(reports: Vec<ConfigReport>, json: bool, output: &Output) -> Result<Exit, CliError> {
    if !json {
        return Err(CliError::Config(reports));
    }
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    for report in reports {
        problems.extend(filed(&report.file, report.problems));
        warnings.extend(filed(&report.file, report.warnings));
    }
    output.json(&CheckReport { ok: false, problems, warnings, notes: Vec::new(), description: None })?;
    Ok(Exit::Usage)
}

fn filed(file: &Path, problems: Vec<Problem>) -> Vec<FiledProblem> {
    problems.into_iter().map(|problem| FiledProblem { file: file.to_owned(), problem }).collect()
}

/// Problems sorted into the two files that they stand in.
fn reports(config: &Config, examined: Examined) -> Vec<ConfigReport> {
    let text = std::fs::read_to_string(&config.file).unwrap_or_default();
    let sql = &config.document.sql;
    let (mut in_config, mut in_sql) = (Vec::new(), Vec::new());
    for found in examined.problems {
        match found.place {
            Place::Key(key) => in_config.push(Problem::at_key(&text, &key, found.message, found.fix)),
            Place::Sql(place) => in_sql.push(Problem::at(place, sql, found.message, found.fix)),
        }
    }
    let warnings = config.warnings.clone();
    let mut reports = vec![ConfigReport { file: config.file.clone(), text, problems: in_config, warnings }];
    let file = config.document.sql_file.clone();
    reports.push(ConfigReport { file, text: sql.clone(), problems: in_sql, warnings: Vec::new() });
    reports.retain(|report| !(report.problems.is_empty() && report.warnings.is_empty()));
    reports
}
