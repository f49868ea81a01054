//! `highwater.toml`: what the user typed, checked as a whole and resolved. Opens nothing but the two files it reads.

mod model;

pub use model::*;
