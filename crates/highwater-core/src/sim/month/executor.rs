//! An executor that takes every batch: it reads names, counts files, and keeps its stamp.

use std::sync::Arc;

use async_trait::async_trait;

use super::lake::BROKEN;
use crate::file::SourceName;
use crate::lease::Lease;
use crate::log::Sequence;
use crate::ports::{Attempt, Committed, Executed, Executor, Fault, Stamp};
use crate::receipt::Quarantined;

#[derive(Debug, Default)]
pub(super) struct Counting {
    stamp: Option<Stamp>,
}

#[async_trait]
impl Executor for Counting {
    async fn execute(
        &mut self,
        attempt: &Attempt,
        _give_up: &[(SourceName, Arc<str>)],
        _lease: &dyn Lease,
    ) -> Result<Executed, Fault> {
        let mut committed = Committed::default();
        let mut unreadable = Vec::new();
        for (source, input) in &attempt.sources {
            for version in input.added.iter().filter(|version| version.etag.starts_with(BROKEN)) {
                let (source, version, since) = (source.clone(), version.clone(), attempt.clock);
                unreadable.push(Quarantined { source, version, reason: "cut short".into(), since, attempts: 1 });
            }
            committed.receipt.files_read += input.added.len() as u64;
            committed.receipt.files_dropped += input.dropped.len() as u64;
            committed.receipt.documents += input.live.len() as u64;
        }
        if !unreadable.is_empty() {
            return Ok(Executed::Unreadable(unreadable));
        }
        self.stamp = Some(Stamp { sequence: attempt.sequence, watermark: attempt.watermark });
        Ok(Executed::Committed(Box::new(committed)))
    }

    async fn traces(&mut self, _void: &[Sequence]) -> Result<bool, Fault> {
        Ok(false)
    }

    fn recorded(&mut self) {}

    async fn stamp(&mut self) -> Result<Option<Stamp>, Fault> {
        Ok(self.stamp)
    }

    fn is_current(&self) -> bool {
        true
    }

    fn reads_watermark(&self) -> bool {
        false
    }
}
