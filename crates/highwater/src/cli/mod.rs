//! The command line: what was typed, what is printed, and how the process ends. Decides nothing about batches.

pub mod args;
pub mod commands;
pub mod exit;
pub mod logging;
pub mod output;
pub mod progress;
pub mod signals;
pub mod table;
pub mod text;
