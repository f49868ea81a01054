//! One source: what its kind needs and what it refuses.

use std::path::Path;

use highwater_core::partition::Layout;
use highwater_core::{SourceName, Timestamp};
use jiff::SignedDuration;
use serde_spanned::Spanned;

use super::times::{Times, length};
use super::{LayoutCheck, choose, filled};
use crate::config::columns::parse_column_type;
use crate::config::location::parse_location;
use crate::config::model::{BaseConfig, Retain, SourceConfig, TableKind};
use crate::config::problem::{Complaint, Findings};
use crate::config::raw::{RawBase, RawCsv, RawSource};
use crate::config::section::{Reader, Scalar, Text};
use crate::config::size::parse_size;
use crate::config::time::check_base_layout;
use crate::format::{ColumnType, CsvOptions, FileFormat};

const FORMATS: [(&str, FileFormat); 5] = [
    ("parquet", FileFormat::Parquet),
    ("ndjson", FileFormat::Ndjson),
    ("json", FileFormat::Ndjson),
    ("csv", FileFormat::Csv),
    ("avro", FileFormat::Avro),
];
/// Columns that every table has, besides its own.
const OWN_COLUMNS: [&str; 3] = ["_partition", "_file", "_row"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Append,
    Upsert,
    Reference,
}

pub fn resolve_source(
    raw: &RawSource,
    pipeline: &Times,
    base: &Path,
    layout: LayoutCheck<'_>,
    reader: &mut Reader<'_>,
) -> Option<SourceConfig> {
    let path = format!("source.{}", raw.name.get_ref());
    check_name(&raw.name, &mut reader.found);
    let times = Times::parse(&raw.times, &mut reader.found).within(pipeline, &mut reader.found);
    let location = raw.location.as_ref().and_then(|text| {
        let parsed = parse_location(text.get_ref(), base);
        reader.found.keep(text.span(), "location", parsed)
    });
    let format = raw.format.as_ref().and_then(|word| choose("format", word, &FORMATS, &mut reader.found));
    let kind = raw.kind.as_ref().and_then(|word| choose("kind", word, &KINDS, &mut reader.found));
    let columns = resolve_columns(&raw.columns, &mut reader.found);
    let csv = resolve_csv(raw.csv.as_ref(), format, columns.is_empty(), &mut reader.found);
    let table = kind.and_then(|kind| {
        check_needed(raw, kind, &path, reader);
        check_foreign(raw, kind, &mut reader.found);
        match kind {
            Kind::Upsert => upsert(raw, &path, (base, times.as_ref().map(|times| times.window)), reader),
            Kind::Append => Some(TableKind::Append),
            Kind::Reference => Some(TableKind::Reference),
        }
    });
    if let Some(text) = &raw.layout {
        // Where the step is not known, the longest one asks least of the layout.
        let step = times.as_ref().map_or(SignedDuration::from_hours(24), |times| times.step);
        check_layout(text, step, layout, &raw.columns, &mut reader.found);
    }
    let times = times?;
    Some(SourceConfig {
        name: SourceName::new(raw.name.get_ref().as_str()),
        location: location?,
        layout: raw.layout.as_ref().map(|text| text.get_ref().clone()),
        format: format?,
        csv: csv?,
        kind: table?,
        columns: columns.into_iter().map(|(name, kind)| Some((name, kind?))).collect::<Option<_>>()?,
        step: times.step,
        window: times.window,
        settle: times.settle,
        time_zone: times.time_zone,
        hold_after: times.hold_after,
        max_skew: times.max_skew,
        max_rejects: times.max_rejects,
        guard: times.guard,
    })
}

const LAYOUT: (&str, &str) = (
    "layout",
    "write layout = \"dt=%Y-%m-%d/hr=%H/mi=%M\", the path that names its partitions, or kind = \"reference\"",
);
const KEY: (&str, &str) = ("key", "an upsert source has a key: write key = \"id\", or a list of columns");
const RETAIN: (&str, &str) = (
    "retain",
    "an upsert source says how long rows stay: write retain = \"window\" (they leave with their partition) or \"forever\" (since `start`)",
);
const KINDS: [(&str, Kind); 3] = [("append", Kind::Append), ("upsert", Kind::Upsert), ("reference", Kind::Reference)];

/// SQL folds unquoted names to lower case: a name in lower case is found however the SQL writes it.
fn check_name(name: &Text, found: &mut Findings) {
    let text = name.get_ref();
    let lower = text.to_ascii_lowercase();
    let plain: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let plain =
        if plain.starts_with(|c: char| c.is_ascii_digit()) || plain.is_empty() { format!("s_{plain}") } else { plain };
    if *text != plain {
        let message = format!("\"{text}\" cannot name a table in SQL: use lower-case letters, digits and _");
        found.problem(name.span(), message, format!("write [source.{plain}]"));
    }
}

fn check_needed(raw: &RawSource, kind: Kind, path: &str, reader: &mut Reader<'_>) {
    let needed: &[(&str, &str)] = match kind {
        Kind::Upsert => &[LAYOUT, KEY, RETAIN],
        Kind::Append => &[LAYOUT],
        Kind::Reference => &[],
    };
    for (key, fix) in needed {
        if !reader.given.contains(&format!("{path}.{key}")) {
            reader.found.problem(raw.span.clone(), format!("`{key}` is missing in [{path}]"), *fix);
        }
    }
}

fn check_foreign(raw: &RawSource, kind: Kind, found: &mut Findings) {
    let keys = [
        ("key", raw.key.as_ref().map(|v| v.span())),
        ("version", raw.version.as_ref().map(Text::span)),
        ("deleted", raw.deleted.as_ref().map(Text::span)),
        ("retain", raw.retain.as_ref().map(Text::span)),
        ("start", raw.start.as_ref().map(Text::span)),
        ("base", raw.base.as_ref().map(|base| base.span.clone())),
        ("backfill", raw.backfill.as_ref().map(Spanned::span)),
    ];
    for (key, span) in keys {
        if let Some(span) = span.filter(|_| kind != Kind::Upsert) {
            let message = format!("`{key}` belongs to upsert sources only");
            found.problem(span, message, "take it out, or write kind = \"upsert\"");
        }
    }
    if kind != Kind::Reference {
        return;
    }
    if let Some(layout) = &raw.layout {
        let message = "a reference source has no `layout`: all files under its location are its table";
        found.problem(layout.span(), message, "take it out, or write kind = \"append\" or \"upsert\"");
    }
    let times = [
        ("step", &raw.times.step),
        ("window", &raw.times.window),
        ("time_zone", &raw.times.time_zone),
        ("hold_after", &raw.times.hold_after),
        ("max_skew", &raw.times.max_skew),
    ];
    for (key, value) in times {
        if let Some(value) = value {
            found.warn(value.span(), format!("`{key}` has no effect on a reference source"), "take it out");
        }
    }
}

fn check_layout(
    text: &Text,
    step: SignedDuration,
    layout: LayoutCheck<'_>,
    columns: &[(Text, Text)],
    found: &mut Findings,
) {
    let captures = match layout(text.get_ref(), step) {
        Ok(captures) => captures,
        Err(message) => {
            let help = "write the path below the location with %Y, %m, %d, %H, %M and {name} for columns";
            let (message, fix) = message.split_once("; ").unwrap_or((&message, help));
            return found.problem(text.span(), message, fix);
        }
    };
    for capture in captures {
        if OWN_COLUMNS.contains(&capture.as_str()) {
            let message = format!("`layout` captures `{capture}`, which every table has already");
            found.problem(text.span(), message, "give the capture another name");
        } else if let Some((name, _)) = columns.iter().find(|(name, _)| *name.get_ref() == capture) {
            let message = format!("`columns` holds `{capture}`, which the layout captures from the path");
            found.problem(name.span(), message, "take it out, or give the capture another name");
        }
    }
}

fn upsert(
    raw: &RawSource,
    path: &str,
    (folder, window): (&Path, Option<SignedDuration>),
    reader: &mut Reader<'_>,
) -> Option<TableKind> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Word {
        Window,
        Forever,
    }
    let start_given = reader.given.contains(&format!("{path}.start"));
    let found = &mut reader.found;
    let words = [("window", Word::Window), ("forever", Word::Forever)];
    let retain = raw.retain.as_ref().and_then(|word| choose("retain", word, &words, found));
    let start = raw.start.as_ref().and_then(|text| {
        let parsed = text.get_ref().parse::<Timestamp>();
        if parsed.is_err() {
            let message = format!("`start`: \"{}\" is not a time with its zone", text.get_ref());
            found.problem(text.span(), message, "write RFC 3339, as in \"2026-05-01T00:00:00Z\"");
        }
        parsed.ok()
    });
    let retain = match retain {
        Some(Word::Forever) => match &raw.base {
            Some(base) => {
                if let Some(start) = &raw.start {
                    let message = "`start` has no meaning beside a base: the table begins with a snapshot";
                    found.problem(start.span(), message, "take it out, or the base");
                }
                resolve_base(base, raw, folder, window, found).map(Retain::Based)
            }
            None if !start_given => {
                let span = raw.retain.as_ref().map_or(raw.span.clone(), Text::span);
                let fix = format!(
                    "write start = \"2026-05-01T00:00:00Z\", the first time whose rows stay, or a [{path}.base] of full snapshots"
                );
                found.problem(span, format!("`start` is missing in [{path}], whose rows stay forever"), fix);
                None
            }
            None => start.map(|start| Retain::Forever { start }),
        },
        Some(Word::Window) => {
            if let Some(base) = &raw.base {
                let message = "a base has no meaning with retain = \"window\"";
                found.problem(base.span.clone(), message, "take it out, or write retain = \"forever\"");
            }
            if let Some(start) = &raw.start {
                let message = "`start` has no meaning with retain = \"window\"";
                found.problem(start.span(), message, "take it out, or write retain = \"forever\"");
            }
            Some(Retain::Window)
        }
        None => None,
    };
    let keeps = retain.as_ref().is_some_and(|retain| *retain != Retain::Window);
    let backfill = resolve_backfill(raw, keeps || retain.is_none(), found);
    let key = resolve_key(raw, found);
    let version = raw.version.as_ref().map(|text| filled("version", Some(text), found));
    let deleted = raw.deleted.as_ref().map(|text| filled("deleted", Some(text), found));
    Some(TableKind::Upsert {
        key: key?,
        version: version.flatten(),
        deleted: deleted.flatten(),
        retain: retain?,
        backfill: backfill?,
    })
}

/// How many bytes of files in holes a batch reads besides its own.
const BACKFILL_BYTES: u64 = 64 << 20;

/// `None`: not usable.
fn resolve_backfill(raw: &RawSource, keeps: bool, found: &mut Findings) -> Option<Option<u64>> {
    let Some(value) = &raw.backfill else { return Some(keeps.then_some(BACKFILL_BYTES)) };
    if !keeps {
        let message = "`backfill` has no meaning where rows leave with their partition";
        found.problem(value.span(), message, "take it out, or write retain = \"forever\"");
        return None;
    }
    let parsed = match value.get_ref() {
        Scalar::Text(word) if word == "never" => return Some(None),
        Scalar::Text(text) => parse_size(text),
        Scalar::Integer(bytes) => u64::try_from(*bytes)
            .map_err(|_| Complaint::new(format!("{bytes} is no number of bytes"), "write \"64MiB\", or \"never\"")),
    };
    found.keep(value.span(), "backfill", parsed).map(Some)
}

/// How long after its time a snapshot counts as complete: jobs that write whole tables take hours.
const BASE_SETTLE: SignedDuration = SignedDuration::from_hours(6);

fn resolve_base(
    base: &RawBase,
    raw: &RawSource,
    folder: &Path,
    window: Option<SignedDuration>,
    found: &mut Findings,
) -> Option<BaseConfig> {
    let settle = length("settle", base.settle.as_ref(), found).map(Spanned::into_inner);
    let margin = length("margin", base.margin.as_ref(), found).map(Spanned::into_inner);
    let location = base.location.as_ref().and_then(|text| {
        let parsed = parse_location(text.get_ref(), folder);
        found.keep(text.span(), "location", parsed)
    });
    let layout = base.layout.as_ref()?;
    let own = raw.layout.as_ref().and_then(|own| Layout::parse(own.get_ref()).ok());
    let captures = own.map(|layout| layout.captures().to_vec()).unwrap_or_default();
    if let Err(message) = check_base_layout(layout.get_ref(), &captures) {
        let help = "write the folder of a snapshot with %Y, %m, %d, %H, %M";
        let (message, fix) = message.split_once("; ").unwrap_or((&message, help));
        found.problem(layout.span(), message, fix);
        return None;
    }
    Some(BaseConfig {
        location: location?,
        layout: layout.get_ref().clone(),
        settle: settle.unwrap_or(BASE_SETTLE),
        margin: margin.or(window)?,
    })
}

fn resolve_key(raw: &RawSource, found: &mut Findings) -> Option<Vec<String>> {
    let key = raw.key.as_ref()?;
    let mut columns: Vec<String> = Vec::new();
    for column in key.get_ref() {
        if columns.contains(column.get_ref()) {
            let message = format!("`key` names `{}` twice", column.get_ref());
            found.problem(column.span(), message, "name each column once");
        }
        columns.extend(filled("key", Some(column), found));
    }
    if key.get_ref().is_empty() {
        found.problem(key.span(), "`key` names no column", "write key = \"id\", or a list of columns");
    }
    Some(columns)
}

fn resolve_columns(raw: &[(Text, Text)], found: &mut Findings) -> Vec<(String, Option<ColumnType>)> {
    let mut columns = Vec::new();
    for (name, kind) in raw {
        if OWN_COLUMNS.contains(&name.get_ref().as_str()) {
            let message = format!("`columns` holds `{}`, which every table has already", name.get_ref());
            found.problem(name.span(), message, "take it out");
        }
        let parsed = parse_column_type(kind.get_ref());
        columns.push((name.get_ref().clone(), found.keep(kind.span(), name.get_ref(), parsed)));
    }
    columns
}

fn resolve_csv(
    raw: Option<&RawCsv>,
    format: Option<FileFormat>,
    no_columns: bool,
    found: &mut Findings,
) -> Option<CsvOptions> {
    let defaults = CsvOptions::default();
    let Some(raw) = raw else { return Some(defaults) };
    if format.is_some_and(|format| format != FileFormat::Csv) {
        let fix = "take the section out, or write format = \"csv\"";
        found.problem(raw.span.clone(), "a csv section stands in a source of another format", fix);
    }
    if raw.header == Some(false) && no_columns {
        let fix = "write columns = { a = \"string\", … }, in the order of the fields";
        found.problem(raw.span.clone(), "without a header nothing names the fields", fix);
    }
    let delimiter = byte("delimiter", raw.delimiter.as_ref(), found);
    let quote = byte("quote", raw.quote.as_ref(), found);
    let escape = byte("escape", raw.escape.as_ref(), found);
    let options = CsvOptions {
        header: raw.header.unwrap_or(defaults.header),
        delimiter: delimiter?.unwrap_or(defaults.delimiter),
        quote: quote?.unwrap_or(defaults.quote),
        escape: escape?,
        null: raw.null.as_ref().map(|text| text.get_ref().clone()),
    };
    if options.delimiter == options.quote {
        found.problem(raw.span.clone(), "`delimiter` and `quote` are the same", "choose two characters");
    }
    Some(options)
}

/// `None`: not usable; `Some(None)`: not given.
fn byte(key: &str, text: Option<&Text>, found: &mut Findings) -> Option<Option<u8>> {
    let Some(text) = text else { return Some(None) };
    match text.get_ref().as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Some(Some(*byte)),
        _ => {
            let message = format!("`{key}` must be one ASCII character, not \"{}\"", text.get_ref().escape_debug());
            found.problem(text.span(), message, "write one character, as in \",\" or \"\\t\"");
            None
        }
    }
}
