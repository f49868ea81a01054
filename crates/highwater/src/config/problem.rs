//! What is wrong with a configuration, each problem with its place and its fix. Knows nothing of what keys there are.

use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Severity, SourceCode};
use schemars::JsonSchema;
use serde::Serialize;

/// What a value's own parser has to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub fix: String,
}

impl Complaint {
    pub(super) fn new(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { message: message.into(), fix: fix.into() }
    }
}

/// One problem or warning, at its place in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// Column in characters, from 1; 0 where the whole file is meant.
    pub column: usize,
    /// What is wrong, naming the key.
    pub message: String,
    /// The way out.
    pub fix: String,
    /// The offending bytes of the file.
    #[serde(skip)]
    pub span: Range<usize>,
}

/// Every problem of one configuration. Its `Display` is the plain report, one line a problem.
#[derive(Clone, Debug, thiserror::Error)]
pub struct ConfigReport {
    /// The configuration file.
    pub file: PathBuf,
    /// Its text; empty if it could not be read.
    pub text: String,
    /// What must be mended, in the order of the file.
    pub problems: Vec<Problem>,
    /// What works and may not be meant.
    pub warnings: Vec<Problem>,
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = plain(&self.file, &self.problems, "") + &plain(&self.file, &self.warnings, "warning: ");
        f.write_str(lines.trim_end())
    }
}

impl ConfigReport {
    /// A report of one problem that has no place in the file.
    pub fn of_file(file: &Path, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let problem = Problem { line: 0, column: 0, message: message.into(), fix: fix.into(), span: 0..0 };
        Self { file: file.to_owned(), text: String::new(), problems: vec![problem], warnings: Vec::new() }
    }

    /// The report for a terminal: the offending lines, marked.
    pub fn fancy(&self, colour: bool) -> String {
        fancy(&self.file, &self.text, &self.problems, Severity::Error, colour)
            + &fancy(&self.file, &self.text, &self.warnings, Severity::Warning, colour)
    }
}

impl Problem {
    /// A problem at the value of a key of a configuration's text, or at the nearest section around it that is there.
    pub fn at_key(text: &str, key: &[String], message: impl Into<String>, fix: impl Into<String>) -> Self {
        let span = toml::de::DeTable::parse(text).ok().and_then(|table| span_of(table.get_ref(), key));
        let (message, fix) = (message.into(), fix.into());
        match span {
            Some(span) => place(text, span, message, fix),
            None => Self { line: 0, column: 0, message, fix, span: 0..0 },
        }
    }

    /// A problem at a line and column of a text, both from 1.
    pub fn at(place: Option<(usize, usize)>, text: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let (line, column) = place.unwrap_or_default();
        let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        let start = (before + column.saturating_sub(1)).min(text.len());
        Self { line, column, message: message.into(), fix: fix.into(), span: start..start }
    }
}

fn span_of(table: &toml::de::DeTable<'_>, key: &[String]) -> Option<Range<usize>> {
    let (first, rest) = key.split_first()?;
    let (name, value) = table.iter().find(|(name, _)| name.get_ref().as_ref() == first.as_str())?;
    if rest.is_empty() {
        return Some(name.span());
    }
    let below = value.get_ref().as_table().and_then(|below| span_of(below, rest));
    Some(below.unwrap_or(name.span()))
}

fn place(text: &str, span: Range<usize>, message: String, fix: String) -> Problem {
    let before = text.get(..span.start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    Problem { line, column: before[line_start..].chars().count() + 1, message, fix, span }
}

/// One line a problem: `file:line:column: message; fix: …`.
pub fn plain(file: &Path, problems: &[Problem], prefix: &str) -> String {
    let mut lines = String::new();
    for problem in problems {
        let place = if problem.line == 0 { String::new() } else { format!("{}:{}:", problem.line, problem.column) };
        let Problem { message, fix, .. } = problem;
        _ = writeln!(lines, "{}:{place} {prefix}{message}; fix: {fix}", file.display());
    }
    lines
}

/// The same problems, drawn into the text.
pub fn fancy(file: &Path, text: &str, problems: &[Problem], severity: Severity, colour: bool) -> String {
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(110);
    let source = NamedSource::new(file.display().to_string(), text.to_owned());
    let mut drawn = String::new();
    for problem in problems {
        let shown = Drawn { problem, text: &source, severity };
        if handler.render_report(&mut drawn, &shown).is_err() {
            drawn += &plain(file, std::slice::from_ref(problem), "");
        }
        drawn.push('\n');
    }
    drawn
}

#[derive(Debug, thiserror::Error)]
#[error("{}", .problem.message)]
struct Drawn<'a> {
    problem: &'a Problem,
    text: &'a NamedSource<String>,
    severity: Severity,
}

impl Diagnostic for Drawn<'_> {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.problem.fix))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        (self.problem.line > 0).then_some(self.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_with_span(Some("here".into()), self.problem.span.clone());
        (self.problem.line > 0).then(|| Box::new(std::iter::once(label)) as Box<dyn Iterator<Item = LabeledSpan>>)
    }
}

/// Collects what is found while a file is read, so that nothing stops at the first problem.
#[derive(Debug)]
pub(super) struct Findings {
    text: String,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

impl Findings {
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), problems: Vec::new(), warnings: Vec::new() }
    }

    pub fn problem(&mut self, span: Range<usize>, message: impl Into<String>, fix: impl Into<String>) {
        let problem = self.place(span, message.into(), fix.into());
        self.problems.push(problem);
    }

    pub fn warn(&mut self, span: Range<usize>, message: impl Into<String>, fix: impl Into<String>) {
        let warning = self.place(span, message.into(), fix.into());
        self.warnings.push(warning);
    }

    /// The value, or its parser's complaint written down.
    pub fn keep<T>(&mut self, span: Range<usize>, key: &str, parsed: Result<T, Complaint>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(complaint) => {
                self.problem(span, format!("`{key}`: {}", complaint.message), complaint.fix);
                None
            }
        }
    }

    /// Ends the reading: both lists in the order of the file.
    pub fn sorted(mut self) -> (Vec<Problem>, Vec<Problem>) {
        self.problems.sort_by_key(|problem| problem.span.start);
        self.warnings.sort_by_key(|problem| problem.span.start);
        (self.problems, self.warnings)
    }

    fn place(&self, span: Range<usize>, message: String, fix: String) -> Problem {
        place(&self.text, span, message, fix)
    }
}
