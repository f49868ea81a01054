//! Progress of long work, told to whoever shows it.

use std::sync::Arc;

/// Is told how far a batch is.
pub trait Progress: Send + Sync {
    /// A phase begins; `total` 0 means unknown.
    fn begin(&self, phase: &str, total: u64);
    /// So many more units of the phase are done.
    fn advance(&self, by: u64);
    /// The batch ended.
    fn end(&self);
}

/// Who is told of the live generation's batches, and who of the others' steps beside them.
#[derive(Clone)]
pub struct Audience {
    /// Of the live one.
    pub live: Arc<dyn Progress>,
    /// Of those that follow.
    pub followers: Arc<dyn Progress>,
}

impl Audience {
    /// Nobody.
    pub fn none() -> Self {
        Self { live: Arc::new(Silent), followers: Arc::new(Silent) }
    }
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _phase: &str, _total: u64) {}
    fn advance(&self, _by: u64) {}
    fn end(&self) {}
}
