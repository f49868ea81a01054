//! A plan as text for people and snapshots.

use std::fmt;

use super::Plan;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.watermark_before {
            Some(before) if before == self.watermark => writeln!(f, "at {}: watermark stays at {before}", self.clock)?,
            Some(before) => writeln!(f, "at {}: watermark {before} -> {}", self.clock, self.watermark)?,
            None => writeln!(f, "at {}: watermark starts at {}", self.clock, self.watermark)?,
        }
        for (name, source) in &self.sources {
            write!(f, "{name}:")?;
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
            let path = hole.path.as_ref().map(|path| format!(" ({path})")).unwrap_or_default();
            writeln!(f, "hole in {}: {} to {}{path}", hole.source, hole.from, hole.to)?;
        }
        for alarm in &self.alarms {
            let source = alarm.source.as_ref().map(|source| format!(" of {source}")).unwrap_or_default();
            writeln!(f, "alarm {}{source}: {}", alarm.kind, alarm.detail)?;
        }
        Ok(())
    }
}
