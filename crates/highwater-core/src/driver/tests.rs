mod bench;
mod faults;
mod listings;
mod running;
mod simulation;

mod ticks;
