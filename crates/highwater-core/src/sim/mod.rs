//! The simulator: the real driver, planner, schedule and log over stores, clocks and sinks that misbehave by one seed.
//!
//! A seed makes a [`History`]: policies and steps as plain values. [`play`] plays it in one thread, with its own time:
//! files come, change and go; processes start, tick, are left standing at any request, and die; requests meet troubles.
//! An oracle checks what must hold at every record and every write. Then the faults stop, and one tick later the index
//! must be what the files say. The same seed ends alike twice. It knows no SQL and no real store; `docs/simulator.md`
//! says how to use it. [`month`] is another one, without faults, that looks for what grows.

mod executor;
mod generate;
mod history;
mod lake;
pub mod month;
mod objects;
mod oracle;
mod process;
mod random;
mod replay;
mod run;
mod shrink;
mod sink;
mod store;
#[cfg(test)]
mod tests;
mod trace;
mod world;

pub use generate::history;
pub use history::{History, Kind, LeaseKind, Place, Point, Quality, Setup, Step, Trouble};
pub use oracle::Violation;
pub use random::Dice;
pub use replay::{Bytes, Event, Expected, Replay, replay};
pub use run::{Outcome, play};
pub use shrink::shrink;
