//! `highwater.toml`: what the user typed, checked as a whole and resolved. Opens nothing but the two files it reads, and
//! asks the machine for its memory.

mod columns;
mod describe;
mod duration;
mod location;
mod machine;
mod model;
mod problem;
mod raw;
mod resolve;
mod section;
mod size;
mod substitute;
mod suggest;
mod template;
#[cfg(test)]
mod tests;
mod time;

use std::collections::BTreeSet;
use std::path::Path;

use toml::de::DeTable;

pub use columns::parse_column_type;
pub use describe::{Description, Origin, Setting};
pub use duration::{format_duration, parse_duration};
pub use model::*;
pub use problem::{Complaint, ConfigReport, Problem, fancy, plain};
pub use resolve::LayoutCheck;
pub use size::{format_size, parse_size};
pub use substitute::Env;
pub use suggest::nearest;
pub use template::{EXAMPLE_SOURCE, Template, example_lake, template};
pub use time::check_layout;

use self::problem::Findings;
use self::raw::Raw;
use self::section::{Reader, Section};

/// Reads a configuration and the SQL that it names. On `Err` the report holds every problem at once, in the order of
/// the file; what works and may not be meant stands in [`Config::warnings`].
///
/// `env` looks up the variables of `${NAME}`; `layout` checks a layout and names the columns that it captures.
pub fn load(path: &Path, env: Env<'_>, layout: LayoutCheck<'_>) -> Result<Config, ConfigReport> {
    let text = read(path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = whole.parent().unwrap_or(Path::new("/"));
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { env, found: Findings::new(text), given: BTreeSet::new() };
    // What a broken file was meant to say is a guess: its syntax comes first.
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        reader.found.problem(span, format!("not TOML: {}", error.message()), "mend the syntax; then check again");
    }
    let mut resolved = None;
    if errors.is_empty() {
        let whole = Section::new(&mut reader, String::new(), 0..0, table.get_ref());
        let raw = Raw::read(&mut reader, whole);
        resolved = resolve::resolve(&raw, path, base, layout, &mut reader);
    }
    let (problems, warnings) = reader.found.sorted();
    match resolved {
        Some(config) if problems.is_empty() => Ok(Config { warnings, ..config }),
        _ => {
            assert!(!problems.is_empty(), "a configuration was refused without a problem");
            Err(ConfigReport { file: path.to_owned(), text: text.to_owned(), problems, warnings })
        }
    }
}

fn read(path: &Path) -> Result<String, ConfigReport> {
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let fix = "write one with `highwater init`, or name yours with -c FILE";
            ConfigReport::of_file(path, "there is no such file", fix)
        }
        _ => ConfigReport::of_file(path, format!("cannot be read: {error}"), "make the file readable"),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        ConfigReport::of_file(path, format!("line {line} is not UTF-8"), "save the file as UTF-8")
    })
}
