//! highwater as a library: what the binary is made of. Each module is a room; data flows store -> format -> table ->
//! transform -> index, and the core's driver is the only loop.

pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod engine;
pub mod format;
pub mod index;
pub mod nonce;
pub mod report;
pub mod serve;
pub mod store;
pub mod table;
pub mod task;
pub mod transform;
