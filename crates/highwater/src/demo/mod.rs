//! The demo: a lake that feeds itself, so that a real pipeline has real files to follow. Knows nothing of the pipeline.

mod feed;

pub use feed::{Feed, FeedError, write_pipeline};
