//! What happened, line by line: as a hash that two runs of one seed must share, and in words where somebody reads it.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The lines so far.
#[derive(Debug)]
pub(super) struct Trace {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub fn new(kept: bool) -> Self {
        Self { hash: DefaultHasher::new(), lines: kept.then(Vec::new) }
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        line.hash(&mut self.hash);
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    pub fn lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
