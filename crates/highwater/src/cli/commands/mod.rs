//! One file a group of commands: arguments in, output and an exit code out.

mod batch;
mod check;
mod completions;
mod demo;
mod generations;
mod holes;
mod init;
pub mod orders;
mod read;
mod run;

pub use batch::{once, plan, verify};
pub use check::{CheckReport, FiledProblem, check};
pub use completions::completions;
pub use demo::demo;
pub use generations::{drop_generation, generations, promote, rebuild, rollback};
pub use holes::holes;
pub use init::init;
pub use orders::{accept_removals, backfill, retry};
pub use read::{dump, get, log, search, status};
pub use run::{run, serve};
