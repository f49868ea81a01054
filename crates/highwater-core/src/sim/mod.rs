//! The simulator: the real driver, planner, schedule and log over stores, clocks and sinks that misbehave by one seed.

pub mod month;
