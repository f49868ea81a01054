//! Step, window and the other lengths: those of the pipeline, and what a source says for itself.

use highwater_core::policy::GuardLimit;
use jiff::SignedDuration;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde_spanned::Spanned;

use super::spanned;
use crate::config::duration::{format_duration, parse_duration};
use crate::config::model::MaxRejects;
use crate::config::problem::{Complaint, Findings};
use crate::config::raw::{RawGuard, RawTimes};
use crate::config::section::{Scalar, Text};
use crate::config::suggest::nearest;

const DAY_S: i64 = 86_400;
const SETTLE: SignedDuration = SignedDuration::from_mins(1);

/// What one section says; `None` where it says nothing, or nothing usable.
#[derive(Default)]
pub struct Times {
    pub step: Option<Spanned<SignedDuration>>,
    pub window: Option<Spanned<SignedDuration>>,
    settle: Option<SignedDuration>,
    time_zone: Option<TimeZone>,
    hold_after: Option<Option<SignedDuration>>,
    max_skew: Option<SignedDuration>,
    max_rejects: Option<MaxRejects>,
    guard: Option<Option<GuardLimit>>,
}

/// What holds for one source.
pub struct SourceTimes {
    pub step: SignedDuration,
    pub window: SignedDuration,
    pub settle: SignedDuration,
    pub time_zone: TimeZone,
    pub hold_after: Option<SignedDuration>,
    pub max_skew: SignedDuration,
    pub max_rejects: MaxRejects,
    pub guard: Option<GuardLimit>,
}

impl Times {
    pub fn parse(raw: &RawTimes, found: &mut Findings) -> Self {
        let times = Self {
            step: step(raw.step.as_ref(), found),
            window: length("window", raw.window.as_ref(), found),
            settle: length("settle", raw.settle.as_ref(), found).map(Spanned::into_inner),
            time_zone: zone(raw.time_zone.as_ref(), found),
            hold_after: hold_after(raw.hold_after.as_ref(), found),
            max_skew: length("max_skew", raw.max_skew.as_ref(), found).map(Spanned::into_inner),
            max_rejects: max_rejects(raw.max_rejects.as_ref(), found),
            guard: guard(raw.guard.as_ref(), found),
        };
        if let (Some(step), Some(window)) = (&times.step, &times.window) {
            check_window(step, window, window, found);
        }
        times
    }

    /// What holds for a source that says `self` in a pipeline that says `pipeline`.
    pub fn within(&self, pipeline: &Self, found: &mut Findings) -> Option<SourceTimes> {
        let step = self.step.as_ref().or(pipeline.step.as_ref())?;
        let window = self.window.as_ref().or(pipeline.window.as_ref())?;
        // Where both are the pipeline's, or both its own, they were compared when they were read.
        match (&self.step, &self.window) {
            (Some(own), None) => check_window(step, window, own, found),
            (None, Some(own)) => check_window(step, window, own, found),
            _ => {}
        }
        let (step, window) = (*step.get_ref(), *window.get_ref());
        Some(SourceTimes {
            step,
            window,
            settle: self.settle.or(pipeline.settle).unwrap_or(SETTLE),
            time_zone: self.time_zone.clone().or(pipeline.time_zone.clone()).unwrap_or(TimeZone::UTC),
            hold_after: self.hold_after.or(pipeline.hold_after).unwrap_or(Some(window / 2)),
            max_skew: self.max_skew.or(pipeline.max_skew).unwrap_or(step),
            max_rejects: self.max_rejects.or(pipeline.max_rejects).unwrap_or(MaxRejects::Default),
            guard: self.guard.or(pipeline.guard).unwrap_or_else(|| Some(GuardLimit::default())),
        })
    }
}

pub fn length(key: &str, text: Option<&Text>, found: &mut Findings) -> Option<Spanned<SignedDuration>> {
    let text = text?;
    Some(spanned(text, found.keep(text.span(), key, parse_duration(text.get_ref()))?))
}

fn step(text: Option<&Text>, found: &mut Findings) -> Option<Spanned<SignedDuration>> {
    let step = length("step", text, found)?;
    let seconds = step.get_ref().as_secs();
    if step.get_ref().subsec_nanos() != 0 || seconds == 0 || DAY_S % seconds != 0 {
        found.problem(
            step.span(),
            format!("`step`: a day cannot be divided into steps of {}", format_duration(*step.get_ref())),
            "write whole seconds that divide 24h, as in \"1m\", \"5m\", \"15m\", \"1h\" or \"24h\"",
        );
        return None;
    }
    Some(step)
}

fn check_window(
    step: &Spanned<SignedDuration>,
    window: &Spanned<SignedDuration>,
    at: &Spanned<SignedDuration>,
    found: &mut Findings,
) {
    let (step, window) = (*step.get_ref(), *window.get_ref());
    if window.is_zero() || window.as_millis() % step.as_millis() != 0 {
        let steps = (window.as_millis() / step.as_millis()).max(0) as i32 + 1;
        let fix = match step.checked_mul(steps) {
            Some(next) => format!("write \"{}\", for example", format_duration(next)),
            None => "write fewer steps".into(),
        };
        let (window, step) = (format_duration(window), format_duration(step));
        found.problem(at.span(), format!("a window of {window} is not a multiple of the step of {step}"), fix);
    }
}

fn zone(name: Option<&Text>, found: &mut Findings) -> Option<TimeZone> {
    let name = name?;
    let known = TimeZoneDatabase::bundled();
    let zone = known.get(name.get_ref()).map_err(|_| {
        let names: Vec<String> = known.available().map(|name| name.to_string()).collect();
        let fix = match nearest_zone(name.get_ref(), &names) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => "write an IANA name, as in \"UTC\" or \"Europe/Berlin\"".into(),
        };
        Complaint::new(format!("\"{}\" is not a time zone", name.get_ref()), fix)
    });
    found.keep(name.span(), "time_zone", zone)
}

/// The nearest name, or the name of the nearest city.
fn nearest_zone<'a>(word: &str, names: &'a [String]) -> Option<&'a str> {
    let city = |name: &'a str| name.rsplit('/').next().unwrap_or(name);
    let whole = nearest(word, names.iter().map(String::as_str));
    whole.or_else(|| {
        let meant = nearest(word, names.iter().map(|name| city(name)))?;
        names.iter().map(String::as_str).find(|name| city(name) == meant)
    })
}

fn hold_after(text: Option<&Text>, found: &mut Findings) -> Option<Option<SignedDuration>> {
    let text = text?;
    if text.get_ref() == "never" {
        return Some(None);
    }
    let parsed = parse_duration(text.get_ref()).map_err(|complaint| Complaint {
        fix: complaint.fix + ", or \"never\" to let the clock alone decide",
        ..complaint
    });
    found.keep(text.span(), "hold_after", parsed).map(Some)
}

fn guard(raw: Option<&RawGuard>, found: &mut Findings) -> Option<Option<GuardLimit>> {
    let (files, percent) = match raw? {
        RawGuard::Word(word) if word.get_ref() == "never" => return Some(None),
        RawGuard::Word(word) => {
            let message = format!("`guard` cannot be \"{}\"", word.get_ref());
            found.problem(word.span(), message, "write { files = 10, percent = 10 }, or \"never\"");
            return None;
        }
        RawGuard::Limits { files, percent } => (files, percent),
    };
    let ordinary = GuardLimit::default();
    let files = limit("files", files.as_ref(), ordinary.files, u64::MAX, found);
    let percent = limit("percent", percent.as_ref(), ordinary.percent, 100, found);
    Some(Some(GuardLimit { files: files?, percent: percent? }))
}

/// A number of the guard; what is left out is as ordinary.
fn limit(
    key: &str,
    value: Option<&Spanned<Scalar>>,
    ordinary: u64,
    greatest: u64,
    found: &mut Findings,
) -> Option<u64> {
    let Some(value) = value else { return Some(ordinary) };
    let number = match value.get_ref() {
        Scalar::Integer(number) => u64::try_from(*number).ok().filter(|number| *number <= greatest),
        Scalar::Text(_) => None,
    };
    if number.is_none() {
        let bounds = if greatest == u64::MAX { "0 or more".into() } else { format!("from 0 to {greatest}") };
        found.problem(
            value.span(),
            format!("`{key}` of `guard` must be a number, {bounds}"),
            format!("write {key} = 10"),
        );
    }
    number
}

fn max_rejects(value: Option<&Spanned<Scalar>>, found: &mut Findings) -> Option<MaxRejects> {
    let value = value?;
    let rows = match value.get_ref() {
        Scalar::Integer(rows) => u64::try_from(*rows).ok(),
        Scalar::Text(_) => None,
    };
    if rows.is_none() {
        found.problem(
            value.span(),
            "`max_rejects` must be a number of rows, 0 or more",
            "write max_rejects = 100, or take it out for 1 % of a file's rows and at least 100",
        );
    }
    rows.map(MaxRejects::Rows)
}
