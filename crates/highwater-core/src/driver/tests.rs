mod bench;
mod faults;
mod gauntlet;
mod guarded;
mod listings;
mod running;
mod ticks;
