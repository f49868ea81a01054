//! What a source's layout and step come to, as the core and the formats take them.

use std::collections::BTreeSet;

use highwater_core::partition::{Calendar, Layout};
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::{BaseConfig, Retain, SourceConfig, TableKind};
use crate::format;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

impl SourceConfig {
    /// Its layout and calendar; `None` for a reference source. An error names what does not fit.
    pub fn time(&self) -> Result<Option<(Layout, Calendar)>, String> {
        let Some(layout) = &self.layout else { return Ok(None) };
        let parsed = Layout::parse(layout).map_err(|error| error.to_string())?;
        parsed.check_step(self.step).map_err(|error| error.to_string())?;
        let calendar = Calendar::new(self.step, self.time_zone.clone()).map_err(|error| error.to_string())?;
        Ok(Some((parsed, calendar)))
    }

    /// True if rows stay though their partition left the window.
    pub fn keeps_rows(&self) -> bool {
        matches!(&self.kind, TableKind::Upsert { retain, .. } if *retain != Retain::Window)
    }

    /// How many bytes of files in holes a batch reads by itself.
    pub fn backfill(&self) -> Option<u64> {
        match &self.kind {
            TableKind::Upsert { backfill, .. } => *backfill,
            TableKind::Append | TableKind::Reference => None,
        }
    }

    /// The base that its table stands on.
    pub fn base(&self) -> Option<&BaseConfig> {
        match &self.kind {
            TableKind::Upsert { retain: Retain::Based(base), .. } => Some(base),
            _ => None,
        }
    }

    /// Columns that its layout captures from paths.
    pub fn captures(&self) -> Vec<String> {
        let parsed = self.layout.as_deref().and_then(|layout| Layout::parse(layout).ok());
        parsed.map(|layout| layout.captures().to_vec()).unwrap_or_default()
    }

    /// How its files are written.
    pub fn spec(&self) -> format::Spec {
        format::Spec { format: self.format, csv: self.csv.clone() }
    }
}

impl BaseConfig {
    /// Its layout and the calendar of its times.
    pub fn time(&self, zone: &TimeZone) -> Result<(Layout, Calendar), String> {
        let parsed = Layout::parse(&self.layout).map_err(|error| error.to_string())?;
        let calendar = Calendar::new(SECOND, zone.clone()).map_err(|error| error.to_string())?;
        Ok((parsed, calendar))
    }
}

/// Checks the layout of base snapshots beside the source's own, in the same words as [`check_layout`].
pub fn check_base_layout(layout: &str, captures: &[String]) -> Result<(), String> {
    let parsed = Layout::parse(layout).map_err(|error| error.to_string())?;
    if parsed.captures_above_time() {
        return Err(format!(
            "base layout \"{layout}\" captures a column above the time; a snapshot is one folder: name its time first"
        ));
    }
    let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    if sorted(parsed.captures()) != sorted(captures) {
        let named = if captures.is_empty() { "nothing".into() } else { captures.join(", ") };
        return Err(format!(
            "base layout \"{layout}\" does not capture the columns of the source's layout ({named}); capture the same in both"
        ));
    }
    Ok(())
}

/// Checks a layout against a step, and names the columns that it captures: the check that [`super::load`] is given.
pub fn check_layout(layout: &str, step: SignedDuration) -> Result<Vec<String>, String> {
    let parsed = Layout::parse(layout).map_err(|error| error.to_string())?;
    parsed.check_step(step).map_err(|error| error.to_string())?;
    Ok(parsed.captures().to_vec())
}
