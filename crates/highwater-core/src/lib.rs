//! The pure core of highwater: what a partition is, what to list, what a batch covers, and the one loop that does it.
//!
//! Decisions are pure functions over plain values. This crate never names DataFusion, Arrow, Tantivy or HTTP; what it
//! needs of the world it asks through the [`ports`].

pub mod driver;
pub mod file;
pub mod generation;
pub mod holes;
pub mod lease;
pub mod listing;
pub mod log;
pub mod orders;
pub mod partition;
pub mod plan;
pub mod policy;
pub mod ports;
pub mod receipt;
pub mod sim;
pub mod withheld;

pub use file::{FileVersion, SeenFile, SourceName};
pub use jiff::Timestamp;
pub use log::Sequence;
