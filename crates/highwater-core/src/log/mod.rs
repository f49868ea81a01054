//! The batch log: numbered records, created only if absent, that are the pipeline's only state. Knows nothing of files'
//! contents or of the sink.

mod record;
mod state;

pub use record::{BatchRecord, Body, Cursor, FORMAT, Record, Sequence, WriterId};
pub use state::{PipelineState, SourceState};
