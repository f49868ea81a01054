//! How a command ends: the exit codes, and the errors that lead to them.

use std::process::ExitCode;

use highwater_core::ports::Fault;
use thiserror::Error;

use crate::config::ConfigReport;
use crate::index::SearchError;

/// The exit codes; each has one meaning for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// It failed.
    Failure = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// `on_lag = "halt"` stopped the pipeline.
    Halted = 3,
    /// Another writer holds the pipeline, or took it.
    Held = 4,
    /// The store or the index is out of reach.
    Unreachable = 5,
    /// `verify` found differences.
    Different = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, Error)]
pub enum CliError {
    /// The configuration has problems, by file.
    #[error("{}", lines(.0))]
    Config(Vec<ConfigReport>),
    /// What was typed cannot be done.
    #[error("{0}")]
    Usage(String),
    /// Something outside went wrong.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Anything else.
    #[error("{0}")]
    Failure(String),
    /// Nobody reads the output any more, which is no failure.
    #[error("the reader of the output went away")]
    Closed,
}

impl CliError {
    /// The code that the process ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Usage(_) | Self::Fault(Fault::Invalid(_)) => Exit::Usage,
            Self::Fault(Fault::Halted(_)) => Exit::Halted,
            Self::Fault(Fault::Fenced(_)) => Exit::Held,
            Self::Fault(Fault::Unavailable(_)) => Exit::Unreachable,
            Self::Fault(Fault::Internal(_) | Fault::Data(_)) | Self::Failure(_) => Exit::Failure,
            Self::Closed => Exit::Done,
        }
    }
}

fn lines(reports: &[ConfigReport]) -> String {
    reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl From<ConfigReport> for CliError {
    fn from(report: ConfigReport) -> Self {
        Self::Config(vec![report])
    }
}

impl From<SearchError> for CliError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Query(message) => Self::Usage(message),
            SearchError::Empty => Self::Failure(error.to_string()),
            SearchError::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failure(format!("cannot write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_code() {
        let report = ConfigReport::of_file("x.toml".as_ref(), "gone", "find it");
        for (error, code) in [
            (CliError::from(report), 2),
            (CliError::Usage("no".into()), 2),
            (Fault::Halted("lag".into()).into(), 3),
            (Fault::Invalid("sql".into()).into(), 2),
            (Fault::Fenced("b".into()).into(), 4),
            (Fault::Unavailable("s3".into()).into(), 5),
            (Fault::Internal("bug".into()).into(), 1),
            (SearchError::Query("(".into()).into(), 2),
            (SearchError::Empty.into(), 1),
            (SearchError::Fault(Fault::Unavailable("x".into())).into(), 5),
            (std::io::Error::from(std::io::ErrorKind::BrokenPipe).into(), 0),
            (std::io::Error::from(std::io::ErrorKind::StorageFull).into(), 1),
        ] {
            assert_eq!(error.exit() as u8, code, "{error}");
        }
    }
}
