//! The path template that names partitions: folders below a location, read both ways. Knows nothing of zones or stores.

use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Unit};
use thiserror::Error;

use super::folder::{Field, Folder, Found};
use super::template::{is_file_name, parse_folder};

const SUPPORTED: &str = "%Y %m %d %j %H %M %S, %F for %Y-%m-%d, %-m %-d %-j %-H %-M %-S for numbers without leading zeros, and %% for a percent sign";

/// A template that cannot name partitions, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// Nothing in it tells time.
    #[error(
        "layout \"{0}\" holds no time; name the folders that do, such as \"dt=%Y-%m-%d/hr=%H\", or leave the layout out for a reference source"
    )]
    NoTime(String),
    /// A finer part of a time without the coarser one that it needs.
    #[error("layout has the {has} (%{}) but no {needs}; add %{} in the folder that names the {needs}", .has_letter, .needs_letter)]
    Gap {
        /// The finer part.
        has: &'static str,
        /// Its letter behind `%`.
        has_letter: char,
        /// The coarser part.
        needs: &'static str,
        /// Its letter behind `%`.
        needs_letter: char,
    },
    /// A part of a time stands twice.
    #[error("layout has the {0} twice; keep one and make the other a capture such as {{name}}")]
    Twice(&'static str),
    /// `%j` beside `%m` or `%d`.
    #[error("layout has %j beside %m or %d, which say the same; keep %j or the two others")]
    TwoDates,
    /// A capture stands twice.
    #[error("layout captures \"{0}\" twice; give each capture its own name")]
    DuplicateCapture(String),
    /// Two pieces of unknown length side by side.
    #[error(
        "in layout folder \"{folder}\" it cannot be told where {left} ends and {right} begins; put text between them"
    )]
    Adjacent {
        /// The folder, as written.
        folder: String,
        /// The first piece.
        left: String,
        /// The second.
        right: String,
    },
    /// The time, or the end of the template, is a file's name.
    #[error(
        "layout folder \"{0}\" is a file's name; a layout names folders only, so that a partition can be listed without reading every name: drop it, files at any depth below are found"
    )]
    FileName(String),
    /// A `%` with something unsupported behind it.
    #[error("layout has \"%{0}\", which is not supported; supported are {SUPPORTED}")]
    Unsupported(String),
    /// A brace that is no capture.
    #[error(
        "layout folder \"{0}\" has a brace that is no capture; a capture is {{name}} with a name of letters, digits and _, within one folder"
    )]
    Brace(String),
    /// A wildcard.
    #[error(
        "layout folder \"{0}\" has a *; a folder of any name is a capture such as {{name}}, and files at any depth below the last folder are found without it"
    )]
    Wildcard(String),
    /// An empty folder name, or `.` or `..`.
    #[error(
        "layout \"{0}\" has an empty, \".\" or \"..\" folder; write folders below the location, separated by single slashes"
    )]
    NoFolder(String),
    /// A folder that readers skip.
    #[error(
        "layout folder \"{0}\" begins with _ or . and so is hidden: its files are never data; move the location below it"
    )]
    Hidden(String),
    /// The step is finer than paths can tell.
    #[error("step {step:#} is shorter than the {unit}, the finest time in layout \"{layout}\"; {fix}")]
    Step {
        /// As configured.
        step: SignedDuration,
        /// The finest part of a time in the layout.
        unit: &'static str,
        /// The template.
        layout: String,
        /// The way out.
        fix: &'static str,
    },
}

/// Why a path does not tell its partition. The caller counts it and names the path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Misplaced {
    /// Too few folders.
    #[error("it is not below a folder like \"{0}\"")]
    Shallow(String),
    /// A folder that is not like the template's.
    #[error("folder \"{name}\" is not like \"{folder}\"")]
    Folder {
        /// As found.
        name: String,
        /// As in the template.
        folder: String,
    },
    /// A folder whose numbers have, or lack, leading zeros.
    #[error("folder \"{name}\" is like \"{folder}\" but for leading zeros; the layout takes %H for 07 and %-H for 7")]
    Padding {
        /// As found.
        name: String,
        /// As in the template.
        folder: String,
    },
    /// No such time.
    #[error("there is no time {0}")]
    Impossible(String),
}

/// What a path says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The local time; parts that the layout lacks are their least.
    pub civil: DateTime,
    /// Percent-decoded values in the order of [`Layout::captures`]; `None` for an empty one and for
    /// `__HIVE_DEFAULT_PARTITION__`.
    pub captures: Vec<Option<String>>,
}

/// A path template such as `region={region}/dt=%Y-%m-%d/hr=%H`.
///
/// Each folder holds literal text, parts of a time and captures. A time has one spelling, so that the prefix to list
/// follows from it: `%H` is two digits, `%-H` has no leading zero. Where a folder's text has characters that table
/// formats percent-encode (`%H:%M`), names are read in both spellings, and listings stay one level above;
/// `%H%%3A%M` says that the encoded one is meant. A capture takes as little as it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    template: String,
    folders: Vec<Folder>,
    captures: Vec<String>,
    finest: Unit,
}

impl Layout {
    /// Reads a template; a slash at its end means nothing.
    pub fn parse(template: &str) -> Result<Self, LayoutError> {
        let mut captures = Vec::new();
        let mut folders = Vec::new();
        let below = template.strip_suffix('/').unwrap_or(template);
        if below.is_empty() {
            return Err(LayoutError::NoTime(template.into()));
        }
        for text in below.split('/') {
            if matches!(text, "" | "." | "..") {
                return Err(LayoutError::NoFolder(template.into()));
            }
            folders.push(parse_folder(text, &mut captures)?);
        }
        if let Some(last) = folders.last().filter(|folder| is_file_name(folder)) {
            return Err(LayoutError::FileName(last.text.clone()));
        }
        let fields: Vec<_> = folders.iter().flat_map(Folder::fields).collect();
        let finest = check_fields(&fields, template)?;
        Ok(Self { template: template.into(), folders, captures, finest })
    }

    /// The names of captured columns, in the order of the path.
    pub fn captures(&self) -> &[String] {
        &self.captures
    }

    /// The finest part of a time that paths tell, from `Unit::Year` to `Unit::Second`.
    pub fn finest_unit(&self) -> Unit {
        self.finest
    }

    /// Refuses a step that paths cannot tell apart.
    pub fn check_step(&self, step: SignedDuration) -> Result<(), LayoutError> {
        let (unit, seconds, fix) = match self.finest {
            Unit::Year => ("year", i64::MAX, "no step is that long: add %m and %d to the layout"),
            Unit::Month => ("month", i64::MAX, "no step is that long: add %d to the layout"),
            Unit::Day => ("day", 86_400, "set step = \"24h\", or add %H to the layout"),
            Unit::Hour => ("hour", 3_600, "set step = \"1h\", or add %M to the layout"),
            Unit::Minute => ("minute", 60, "set step = \"1m\", or add %S to the layout"),
            _ => ("second", 1, "set step = \"1s\""),
        };
        if step.as_secs() >= seconds {
            return Ok(());
        }
        Err(LayoutError::Step { step, unit, layout: self.template.clone(), fix })
    }

    /// Reads the path of a file, at any depth below its partition's folder: its key below the location, as listed.
    pub fn locate(&self, path: &str) -> Result<Located, Misplaced> {
        let found = self.read(&self.folders, path)?;
        Ok(Located { civil: civil(&found.fields)?, captures: found.captures })
    }

    fn read(&self, folders: &[Folder], path: &str) -> Result<Found, Misplaced> {
        let mut found = Found { captures: vec![None; self.captures.len()], ..Found::default() };
        let mut rest = path;
        for folder in folders {
            let Some((name, below)) = rest.split_once('/') else {
                return Err(Misplaced::Shallow(self.template.clone()));
            };
            self.read_folder(folder, name, &mut found)?;
            rest = below;
        }
        Ok(found)
    }

    /// The local time that a folder tells by itself, [`time_folders`](Self::time_folders) below the location; it ends in `/`.
    pub fn time_of_folder(&self, prefix: &str) -> Result<DateTime, Misplaced> {
        civil(&self.read(&self.folders[..self.time_folders()], prefix)?.fields)
    }

    /// Judges the name of a folder `level` folders below the location (0: directly below), so that one look at the
    /// names there tells of folders that no prefix will ever list. Folders below the template's last are all fine.
    pub fn check_folder(&self, level: usize, name: &str) -> Result<(), Misplaced> {
        let mut found = Found { captures: vec![None; self.captures.len()], ..Found::default() };
        self.folders.get(level).map_or(Ok(()), |folder| self.read_folder(folder, name, &mut found))
    }

    /// How many folders there are down to the last one that tells time.
    pub fn time_folders(&self) -> usize {
        self.folders.iter().rposition(Folder::has_time).map_or(0, |last| last + 1)
    }

    /// True if a folder above the last one that tells time is a capture, or holds one.
    pub fn captures_above_time(&self) -> bool {
        self.folders[..self.time_folders()].iter().any(Folder::has_capture)
    }

    pub(crate) fn folders(&self) -> &[Folder] {
        &self.folders
    }

    fn read_folder(&self, folder: &Folder, name: &str, found: &mut Found) -> Result<(), Misplaced> {
        if folder.read(name, found).is_some() {
            return Ok(());
        }
        let respelt = folder.matches_if_respelt(name, self.captures.len());
        let (name, folder) = (name.into(), folder.text.clone());
        Err(if respelt { Misplaced::Padding { name, folder } } else { Misplaced::Folder { name, folder } })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.template)
    }
}

/// The finest unit that a set of parts tells, or the pair (part, what it needs) that is not complete; `None` if empty.
pub(crate) fn finest(fields: &[Field]) -> Option<Result<Unit, (Field, Field)>> {
    let has = |field| fields.contains(&field);
    let needs = |field| match field {
        Field::Year => Field::Year,
        Field::Month | Field::DayOfYear => Field::Year,
        Field::Day => Field::Month,
        Field::Hour if has(Field::DayOfYear) => Field::DayOfYear,
        Field::Hour => Field::Day,
        Field::Minute => Field::Hour,
        Field::Second => Field::Minute,
    };
    for field in fields {
        if !has(needs(*field)) {
            return Some(Err((*field, needs(*field))));
        }
    }
    Some(Ok(match fields.iter().max()? {
        Field::Year => Unit::Year,
        Field::Month => Unit::Month,
        Field::Day | Field::DayOfYear => Unit::Day,
        Field::Hour => Unit::Hour,
        Field::Minute => Unit::Minute,
        Field::Second => Unit::Second,
    }))
}

fn check_fields(fields: &[Field], template: &str) -> Result<Unit, LayoutError> {
    for (number, field) in fields.iter().enumerate() {
        if fields[..number].contains(field) {
            return Err(LayoutError::Twice(field.word()));
        }
    }
    let has = |field| fields.contains(&field);
    if has(Field::DayOfYear) && (has(Field::Month) || has(Field::Day)) {
        return Err(LayoutError::TwoDates);
    }
    match finest(fields) {
        None => Err(LayoutError::NoTime(template.into())),
        Some(Ok(unit)) => Ok(unit),
        Some(Err((has, needs))) => Err(LayoutError::Gap {
            has: has.word(),
            has_letter: has.letter(),
            needs: needs.word(),
            needs_letter: needs.letter(),
        }),
    }
}

fn civil(fields: &[Option<i16>; 7]) -> Result<DateTime, Misplaced> {
    let part = |field: Field, least: i16| fields[field as usize].unwrap_or(least);
    let small = |field: Field, least: i16| i8::try_from(part(field, least)).unwrap_or(i8::MAX);
    let year = part(Field::Year, 0);
    let date = match fields[Field::DayOfYear as usize] {
        Some(day) => Date::new(year, 1, 1).and_then(|first| first.with().day_of_year(day).build()),
        None => Date::new(year, small(Field::Month, 1), small(Field::Day, 1)),
    };
    let time = Time::new(small(Field::Hour, 0), small(Field::Minute, 0), small(Field::Second, 0), 0);
    match (date, time) {
        (Ok(date), Ok(time)) => Ok(date.to_datetime(time)),
        _ => Err(Misplaced::Impossible(spell(fields))),
    }
}

/// The parts as read, for a message.
fn spell(fields: &[Option<i16>; 7]) -> String {
    let part =
        |field: Field, mark: &str| fields[field as usize].map(|value| format!("{mark}{value:02}")).unwrap_or_default();
    [
        part(Field::Year, ""),
        part(Field::DayOfYear, ", day "),
        part(Field::Month, "-"),
        part(Field::Day, "-"),
        part(Field::Hour, " "),
        part(Field::Minute, ":"),
        part(Field::Second, ":"),
    ]
    .concat()
        + if fields[Field::Hour as usize].is_some() && fields[Field::Minute as usize].is_none() { "h" } else { "" }
}

#[cfg(test)]
mod tests;
