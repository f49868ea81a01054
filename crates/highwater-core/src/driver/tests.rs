mod bench;
mod faults;
mod guarded;
mod listings;
mod running;
mod simulation;

mod ticks;
