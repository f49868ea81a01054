//! Which alarms stand for one source. Knows what was planned; changes nothing of it.

use jiff::Timestamp;

use super::Facts;
use super::guard::Withholding;
use super::source::{Planned, Range};
use crate::file::BASE;
use crate::listing::Placed;
use crate::receipt::Alarm;

/// The alarm of removals that are seen and not applied.
pub const REMOVALS_WITHHELD: &str = "removals_withheld";
/// The alarm of a base snapshot that is not taken because it is so much smaller than the one in use.
pub const BASE_WITHHELD: &str = "base_withheld";

pub(super) fn raise(
    clock: Timestamp,
    watermark: Timestamp,
    facts: &Facts<'_>,
    range: &Range<'_>,
    planned: &Planned,
    alarms: &mut Vec<Alarm>,
) {
    if let Some(Withholding { since, detail }) = &planned.withholding {
        let (kind, source, detail) = (REMOVALS_WITHHELD.into(), Some(facts.policy.name.clone()), detail.clone());
        alarms.push(Alarm { kind, source, since: *since, detail });
    }
    let mut add = |kind: &str, detail: String| {
        alarms.push(Alarm { kind: kind.into(), source: Some(facts.policy.name.clone()), since: clock, detail });
    };
    let (bases, failures): (Vec<_>, Vec<_>) = facts.view.failures().partition(|(prefix, _)| prefix.starts_with(BASE));
    let tell = |failures: &[(&str, &str)]| {
        let told =
            failures.iter().map(|(prefix, why)| format!("{}: {why}", if prefix.is_empty() { "/" } else { prefix }));
        told.collect::<Vec<_>>().join("; ")
    };
    let mut waiting = Vec::new();
    if !failures.is_empty() {
        waiting.push(format!("the watermark waits for a complete listing of {}", tell(&failures)));
    }
    if !bases.is_empty() {
        waiting.push(format!("no newer base is taken without a complete listing of {}", tell(&bases)));
    }
    if !waiting.is_empty() {
        add("listing_failed", waiting.join("; "));
    }
    if let (Some(time), Some(bound)) = (facts.policy.partitioned(), range.evict_before)
        && !time.keeps_rows()
        && time.is_silent(watermark, range.newest_end)
    {
        let newest = range.newest_end.map_or_else(|| "ever".into(), |end| format!("since {end}"));
        add("source_silent", format!("no new data {newest}; the window is held at {bound}"));
    }
    let ahead = |file: &&Placed| range.is_future(file);
    let future: Vec<&Placed> =
        if range.has_future(facts.view) { facts.view.files().values().filter(ahead).collect() } else { Vec::new() };
    if let Some(first) = future.first() {
        let count = future.len();
        add(
            "future_partition",
            format!("{count} files lie further in the future than max_skew, such as {}", first.version.path),
        );
    }
    if let Some((path, _)) = planned.late.first() {
        let which = match planned.late.len() {
            1 => format!("{path} landed behind the window and was"),
            count => format!("{count} files, {path} the first of them, landed behind the window and were"),
        };
        let then = match facts.backfill {
            Some(_) => "taken in at once; back-filling comes to it",
            None => "taken in",
        };
        add("late_out_of_window", format!("{which} not {then}"));
    }
    let misplaced = facts.view.misplaced();
    if misplaced.count > 0 {
        add(
            "misplaced_files",
            format!("{} files do not fit the layout: {}", misplaced.count, misplaced.named.join("; ")),
        );
    }
    let empty = facts.view.empty();
    if empty.count > 0 {
        add("empty_files", format!("{} files hold no bytes and were skipped: {}", empty.count, empty.named.join("; ")));
    }
}
