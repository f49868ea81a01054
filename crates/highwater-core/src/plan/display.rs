//! A plan as text for people and snapshots.

use std::fmt;

use super::Plan;
use crate::holes::Hole;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.watermark_before {
            Some(before) if before == self.watermark => writeln!(f, "at {}: watermark stays at {before}", self.clock)?,
            Some(before) => writeln!(f, "at {}: watermark {before} -> {}", self.clock, self.watermark)?,
            None => writeln!(f, "at {}: watermark starts at {}", self.clock, self.watermark)?,
        }
        for (name, source) in &self.sources {
            write!(f, "{name}:")?;
            if let Some(base) = source.base {
                write!(f, " base {base} and")?;
            }
            if let Some(bound) = source.evict_before {
                write!(f, " from {bound}")?;
            }
            writeln!(f)?;
            for version in &source.dropped {
                writeln!(f, "  - {}", version.path)?;
            }
            for version in &source.added {
                writeln!(f, "  + {}", version.path)?;
            }
            for file in &source.quarantined {
                writeln!(f, "  ! {}: {}", file.version.path, file.reason)?;
            }
            for path in &source.released {
                writeln!(f, "  ~ {path}")?;
            }
            for path in &source.change.withheld {
                writeln!(f, "  withheld {path}")?;
            }
            for path in &source.change.returned {
                writeln!(f, "  returned {path}")?;
            }
            for version in &source.held {
                writeln!(f, "  waits {}", version.path)?;
            }
        }
        for hole in &self.holes {
            write!(f, "hole in {}", hole.source)?;
            write_hole(f, hole)?;
            match &hole.detail {
                Some(detail) => writeln!(f, ", {}: {detail}", hole.cause.as_str())?,
                None => writeln!(f)?,
            }
        }
        for ended in &self.closed {
            write!(f, "{} {} in {}", ended.end.as_str(), ended.hole.cause.as_str(), ended.hole.source)?;
            write_hole(f, &ended.hole)?;
            writeln!(f)?;
        }
        for alarm in &self.alarms {
            let source = alarm.source.as_ref().map(|source| format!(" of {source}")).unwrap_or_default();
            writeln!(f, "alarm {}{source}: {}", alarm.kind, alarm.detail)?;
        }
        Ok(())
    }
}

fn write_hole(f: &mut fmt::Formatter<'_>, hole: &Hole) -> fmt::Result {
    write!(f, ": {} to {}", hole.from, hole.to)?;
    match &hole.path {
        Some(path) => write!(f, " ({path})"),
        None => Ok(()),
    }
}
