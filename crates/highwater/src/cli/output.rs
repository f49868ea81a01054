//! The one place that prints: results to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use miette::Severity;
use serde::Serialize;

use super::exit::{CliError, Exit};
use super::progress::Bar;
use crate::config::{Config, fancy, plain};
use crate::engine::Progress;

/// What was told last of a thing that may last: it is told once.
#[derive(Default)]
pub struct Latest(Option<String>);

impl Latest {
    /// True if it was not the last thing told; now it is.
    pub fn is_news(&mut self, text: &str) -> bool {
        let is_news = self.0.as_deref() != Some(text);
        if is_news {
            self.0 = Some(text.to_owned());
        }
        is_news
    }

    /// True if something was told and lasted until now.
    pub fn ends(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Where the output goes, and what is at its other end.
pub struct Output {
    results: Mutex<Box<dyn Write + Send>>,
    notes: Mutex<Box<dyn Write + Send>>,
    /// Standard error is a terminal: marked lines and progress bars are welcome.
    terminal: bool,
    colour: bool,
}

impl Output {
    /// The process's own streams. `no_colour`: the environment asks for none (`NO_COLOR`).
    pub fn of_process(no_colour: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            results: Mutex::new(Box::new(io::stdout())),
            notes: Mutex::new(Box::new(io::stderr())),
            terminal,
            colour: terminal && !no_colour,
        }
    }

    /// Other streams, without a terminal.
    pub fn to(results: impl Write + Send + 'static, notes: impl Write + Send + 'static) -> Self {
        Self {
            results: Mutex::new(Box::new(results)),
            notes: Mutex::new(Box::new(notes)),
            terminal: false,
            colour: false,
        }
    }

    /// Whether standard error shows colours.
    pub fn colour(&self) -> bool {
        self.colour
    }

    /// Prints a result for people, ended by a line break.
    pub fn result(&self, text: impl Display) -> Result<(), CliError> {
        self.write(text.to_string().trim_end_matches('\n').as_bytes())
    }

    /// Prints a result for programs: one line of JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<(), CliError> {
        let line = serde_json::to_vec(value).map_err(|error| CliError::Failure(format!("no JSON: {error}")))?;
        self.write(&line)
    }

    /// Tells something that is no result. Nothing depends on its arriving.
    pub fn note(&self, text: impl Display) {
        let mut notes = self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        _ = writeln!(notes, "{}", text.to_string().trim_end_matches('\n'));
    }

    /// Tells what a configuration's file may not mean as it stands.
    pub fn warnings(&self, config: &Config) {
        if config.warnings.is_empty() {
            return;
        }
        let text = match std::fs::read_to_string(&config.file) {
            Ok(text) if self.terminal => fancy(&config.file, &text, &config.warnings, Severity::Warning, self.colour),
            _ => plain(&config.file, &config.warnings, "warning: "),
        };
        self.note(text);
    }

    /// The progress of a batch; drawn on a terminal only.
    pub fn batch_progress(&self) -> Arc<dyn Progress> {
        Arc::new(Bar::new(self.terminal))
    }

    /// Prints bytes as they are, ended by a line break.
    pub fn bytes(&self, line: &[u8]) -> Result<(), CliError> {
        self.write(line)
    }

    /// Prints lines as they are: documents of `dump`.
    pub fn lines<'l>(&self, lines: impl Iterator<Item = &'l [u8]>) -> Result<(), CliError> {
        let mut block = Vec::new();
        for line in lines {
            block.extend_from_slice(line);
            block.push(b'\n');
        }
        let mut results = self.results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        results.write_all(&block)?;
        Ok(results.flush()?)
    }

    /// Ends a command: tells its error, and gives the process's exit code.
    pub fn finish(&self, ended: Result<Exit, CliError>) -> ExitCode {
        let error = match ended {
            Ok(exit) => return exit.into(),
            Err(error) => error,
        };
        match &error {
            CliError::Closed => {}
            CliError::Config(reports) if self.terminal => {
                for report in reports {
                    self.note(report.fancy(self.colour));
                }
            }
            CliError::Config(_) => self.note(&error),
            other if self.colour => self.note(format_args!("\u{1b}[1;31merror:\u{1b}[0m {other}")),
            other => self.note(format_args!("error: {other}")),
        }
        error.exit().into()
    }

    fn write(&self, line: &[u8]) -> Result<(), CliError> {
        let mut results = self.results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        results.write_all(line)?;
        results.write_all(b"\n")?;
        Ok(results.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigReport;

    /// A stream that a test can look at.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<u8>>>);

    impl Write for Seen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn results_and_notes_go_their_ways() {
        let (results, notes) = (Seen::default(), Seen::default());
        let output = Output::to(results.clone(), notes.clone());
        output.result("two\nlines\n").unwrap();
        output.json(&serde_json::json!({"a": 1})).unwrap();
        output.note("by the way");
        let report = ConfigReport::of_file("x.toml".as_ref(), "there is no such file", "write it");
        assert_eq!(output.finish(Err(report.into())), ExitCode::from(2));
        assert_eq!(output.finish(Ok(Exit::Different)), ExitCode::from(6));
        assert_eq!(
            output.finish(Err(CliError::Fault(highwater_core::ports::Fault::Halted("lag".into())))),
            ExitCode::from(3)
        );
        assert_eq!(results.text(), "two\nlines\n{\"a\":1}\n");
        assert_eq!(notes.text(), "by the way\nx.toml: there is no such file; fix: write it\nerror: lag\n");
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let notes = Seen::default();
        let output = Output::to(Closed, notes.clone());
        let ended = output.result("x").map(|()| Exit::Done);
        assert_eq!(output.finish(ended), ExitCode::SUCCESS);
        assert_eq!(notes.text(), "");
        Output::to(Closed, Closed).note("nobody hears this");
    }
}
