//! The integration tests: the real binary, real files, real servers.
// Helpers of tests panic as tests do, and wait by the machine's clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod bases;
mod bucket;
mod changes;
mod commands;
mod crash;
mod data;
mod faults;
mod gauntlet;
mod gauntlet_data;
mod generations;
mod guards;
mod holes;
mod lake;
mod lease;
mod proxy;
mod s3;
mod sim;
mod soak;
mod solr;
mod workload;
