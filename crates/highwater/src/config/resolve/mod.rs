//! From what the user typed to what the program uses: defaults, and every rule within and between keys. Opens nothing
//! but the SQL's file.

mod index;
mod parts;
mod source;
mod times;

use std::ops::Range;
use std::path::Path;

use jiff::SignedDuration;
use serde_spanned::Spanned;

use self::source::resolve_source;
use self::times::Times;
use super::duration::format_duration;
use super::location::{contains, parse_location};
use super::model::{Config, Location, SourceConfig, TableKind};
use super::problem::Findings;
use super::raw::{Raw, RawSource};
use super::section::{Reader, Text};
use super::suggest::nearest;

/// Checks a layout for a step, and names the columns that it captures. An error names the layout, and the way out
/// behind a `; `.
pub type LayoutCheck<'a> = &'a dyn Fn(&str, SignedDuration) -> Result<Vec<String>, String>;

/// Resolves everything; `None` if something that is needed could not be. Problems stand in the reader's findings.
pub fn resolve(
    raw: &Raw,
    file: &Path,
    base: &Path,
    layout: LayoutCheck<'_>,
    reader: &mut Reader<'_>,
) -> Option<Config> {
    let times = Times::parse(&raw.pipeline.times, &mut reader.found);
    let pipeline = parts::pipeline(&raw.pipeline, &times, base, &mut reader.found);
    let mut sources = Vec::new();
    for source in &raw.sources {
        sources.push(resolve_source(source, &times, base, layout, reader));
    }
    check_windows(raw, &sources, &mut reader.found);
    let document = parts::document(&raw.document, base, &mut reader.found);
    let index = index::index(&raw.index, base, &mut reader.found);
    let generations = parts::generations(&raw.generations, &raw.gates, &mut reader.found);
    let serve = raw.serve.as_ref().map(|listen| parts::serve(listen, &mut reader.found));
    let places = Places::of(raw, base);
    let stores = parts::stores(&raw.stores, places.used().as_deref(), reader);
    places.check(&mut reader.found);
    Some(Config {
        file: file.to_owned(),
        pipeline: pipeline?,
        sources: sources.into_iter().map(|source| source.map(|s| (s.name.clone(), s))).collect::<Option<_>>()?,
        document: document?,
        index: index?,
        generations: generations?,
        serve: match serve {
            Some(serve) => Some(serve?),
            None => None,
        },
        stores,
        warnings: Vec::new(),
        given: std::mem::take(&mut reader.given),
    })
}

/// The watermark moves by the longest step of all sources: a shorter window would lag behind at each move.
fn check_windows(raw: &Raw, sources: &[Option<SourceConfig>], found: &mut Findings) {
    let timed = || sources.iter().zip(&raw.sources).filter_map(|(source, raw)| Some((source.as_ref()?, raw)));
    let timed = || timed().filter(|(source, _)| source.kind != TableKind::Reference);
    let Some((longest, _)) = timed().max_by_key(|(source, _)| source.step) else { return };
    // Where the step is the source's own, the window was held against it when it was read.
    let short = |source: &SourceConfig| source.window < longest.step && source.step < longest.step;
    for (source, own) in timed().filter(|(source, _)| short(source) && !source.window.is_zero()) {
        let at = own.times.window.as_ref().or(raw.pipeline.times.window.as_ref());
        let (window, step) = (format_duration(source.window), format_duration(longest.step));
        let message = format!(
            "the window of `{}`, {window}, is shorter than the step of `{}`, {step}, by which the watermark moves",
            source.name, longest.name
        );
        let fix = format!("make it {step} or longer, or that step shorter");
        found.problem(at.map_or(own.name.span(), Spanned::span), message, fix);
    }
}

/// Where everything is, as far as it can be told, whatever else is wrong.
struct Places<'a> {
    sources: Vec<(&'a RawSource, Option<Location>)>,
    bases: Vec<(&'a Text, Option<Location>)>,
    state: Option<Location>,
    index: Option<Location>,
}

impl<'a> Places<'a> {
    fn of(raw: &'a Raw, base: &Path) -> Self {
        let at = |text: &Option<Text>| parse_location(text.as_ref()?.get_ref(), base).ok();
        Self {
            sources: raw.sources.iter().map(|source| (source, at(&source.location))).collect(),
            bases: raw
                .sources
                .iter()
                .filter_map(|source| source.base.as_ref()?.location.as_ref())
                .map(|text| (text, parse_location(text.get_ref(), base).ok()))
                .collect(),
            state: at(&raw.pipeline.state),
            index: at(&raw.index.path),
        }
    }

    /// Every location with a store; `None` if one is unknown.
    fn used(&self) -> Option<Vec<&Location>> {
        let bases = self.bases.iter().map(|(_, place)| place.as_ref());
        self.sources.iter().map(|(_, place)| place.as_ref()).chain(bases).chain([self.state.as_ref()]).collect()
    }

    /// A base's folders would be listed as partitions of a source that they lie in.
    fn check_bases(&self, found: &mut Findings) {
        for (text, base) in &self.bases {
            let Some(base) = base else { continue };
            for (source, place) in &self.sources {
                if place.as_ref().is_some_and(|place| contains(place, base)) {
                    let message = format!("the base at {base} lies within the source `{}`", source.name.get_ref());
                    found.problem(text.span(), message, "give the snapshots a location of their own");
                }
            }
        }
    }

    /// Folders and prefixes that would get into each other's way.
    fn check(&self, found: &mut Findings) {
        self.check_bases(found);
        for (n, (source, place)) in self.sources.iter().enumerate() {
            let (Some(text), Some(place)) = (&source.location, place) else { continue };
            for (what, own) in [("state", &self.state), ("index", &self.index)] {
                if let Some(own) = own {
                    check_own(source, text.span(), place, what, own, found);
                }
            }
            let layout = source.layout.as_ref().map(Text::get_ref);
            for (other, _) in self.sources[..n].iter().filter(|(_, at)| at.as_ref() == Some(place)) {
                if other.layout.as_ref().map(Text::get_ref) == layout {
                    let (one, two) = (other.name.get_ref(), source.name.get_ref());
                    let fix = "give them locations or layouts of their own, unless both tables are meant";
                    found.warn(text.span(), format!("sources `{one}` and `{two}` read the same files"), fix);
                }
            }
        }
    }
}

fn check_own(
    source: &RawSource,
    span: Range<usize>,
    place: &Location,
    what: &str,
    own: &Location,
    found: &mut Findings,
) {
    let name = source.name.get_ref();
    let reference = source.kind.as_ref().is_some_and(|kind| kind.get_ref() == "reference");
    if contains(own, place) {
        let message = format!("source `{name}` lies within the {what} at {own}, which highwater writes");
        found.problem(span, message, format!("move the {what} elsewhere"));
    } else if contains(place, own) && reference {
        let message =
            format!("the {what} at {own} lies within the reference source `{name}`, all of whose files are data");
        found.problem(span, message, format!("move the {what} elsewhere"));
    } else if contains(place, own) {
        let message = format!("the {what} at {own} lies within the source `{name}`");
        found.warn(span, message, format!("move the {what} elsewhere, so that its files are not listed as data"));
    }
}

/// One of a few words.
fn choose<T: Copy>(key: &str, word: &Text, choices: &[(&str, T)], found: &mut Findings) -> Option<T> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == word.get_ref()) {
        return Some(*value);
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let fix = match nearest(word.get_ref(), names.iter().copied()) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => format!("write one of {}", names.join(", ")),
    };
    found.problem(word.span(), format!("`{key}` cannot be \"{}\"", word.get_ref()), fix);
    None
}

/// The text, if there is any in it.
fn filled(key: &str, text: Option<&Text>, found: &mut Findings) -> Option<String> {
    let text = text?;
    if text.get_ref().trim().is_empty() {
        found.problem(text.span(), format!("`{key}` is empty"), "give it a value, or take it out");
        return None;
    }
    Some(text.get_ref().clone())
}

fn spanned<T>(of: &Spanned<impl Sized>, value: T) -> Spanned<T> {
    Spanned::new(of.span(), value)
}
