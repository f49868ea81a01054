//! What a source's layout and step come to, as the core and the formats take them.

use highwater_core::partition::{Calendar, Layout};
use jiff::SignedDuration;

use super::SourceConfig;
use crate::format;

impl SourceConfig {
    /// Its layout and calendar; `None` for a reference source. An error names what does not fit.
    pub fn time(&self) -> Result<Option<(Layout, Calendar)>, String> {
        let Some(layout) = &self.layout else { return Ok(None) };
        let parsed = Layout::parse(layout).map_err(|error| error.to_string())?;
        parsed.check_step(self.step).map_err(|error| error.to_string())?;
        let calendar = Calendar::new(self.step, self.time_zone.clone()).map_err(|error| error.to_string())?;
        Ok(Some((parsed, calendar)))
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

/// Checks a layout against a step, and names the columns that it captures: the check that [`super::load`] is given.
pub fn check_layout(layout: &str, step: SignedDuration) -> Result<Vec<String>, String> {
    let parsed = Layout::parse(layout).map_err(|error| error.to_string())?;
    parsed.check_step(step).map_err(|error| error.to_string())?;
    Ok(parsed.captures().to_vec())
}
