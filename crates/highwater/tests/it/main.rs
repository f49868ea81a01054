//! The integration tests: the real binary, real files, real servers.

mod bucket;
mod changes;
mod commands;
mod crash;
mod data;
mod lake;
mod s3;
mod workload;
