//! One file a command: arguments in, output and an exit code out.

mod check;
mod completions;
mod init;

pub use check::{CheckReport, Probe, Probed, check, look_at_folders};
pub use completions::completions;
pub use init::init;
