//! `highwater-sim --seeds`: plays seeds of the simulator, and shortens the history of one that fails.
#![allow(clippy::disallowed_macros, reason = "a tool that prints, outside the program and its output")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater_core::sim::{Violation, history, play, shrink};

/// Plays what the arguments ask for; `None`: they make no sense.
pub fn main(arguments: impl Iterator<Item = String>) -> Option<ExitCode> {
    Some(match Task::parse(arguments)? {
        Task::One { seed, traced } => one(seed, traced),
        Task::Many { seeds, all } => many(seeds, all),
    })
}

/// What was asked for.
enum Task {
    One { seed: u64, traced: bool },
    Many { seeds: std::ops::Range<u64>, all: bool },
}

impl Task {
    fn parse(mut rest: impl Iterator<Item = String>) -> Option<Self> {
        let (mut seed, mut traced, mut count, mut from, mut all) = (None, false, 1_000, 0, false);
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--seed" => seed = Some(rest.next()?.parse().ok()?),
                "--seeds" => count = rest.next()?.parse().ok()?,
                "--from" => from = rest.next()?.parse().ok()?,
                "--trace" => traced = true,
                "--all" => all = true,
                _ => return None,
            }
        }
        Some(match seed {
            Some(seed) => Self::One { seed, traced },
            None => Self::Many { seeds: from..from + count, all },
        })
    }
}

fn one(seed: u64, traced: bool) -> ExitCode {
    let history = history(seed);
    let outcome = play(&history, traced);
    for line in &outcome.trace {
        println!("{line}");
    }
    match outcome.violation {
        Some(violation) => {
            tell(seed, &violation);
            ExitCode::FAILURE
        }
        None => {
            println!(
                "seed {seed}: {} batches, {} advances, hash {:016x}",
                outcome.batches, outcome.advances, outcome.hash
            );
            ExitCode::SUCCESS
        }
    }
}

fn many(seeds: std::ops::Range<u64>, all: bool) -> ExitCode {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (batches, played) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Vec<(u64, Violation)>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let count = seeds.end - seeds.start;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = play(&history(seed), false);
                    batches.fetch_add(outcome.batches, Ordering::Relaxed);
                    let done = played.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(1_000) {
                        println!("{done} of {count} seeds, {} batches", batches.load(Ordering::Relaxed));
                    }
                    if let Some(violation) = outcome.violation {
                        failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((seed, violation));
                        stop.store(!all, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failed.sort_by_key(|(seed, _)| *seed);
    let played = played.into_inner();
    println!("{played} seeds, {} batches: {} failed", batches.into_inner(), failed.len());
    let Some((seed, violation)) = failed.first() else { return ExitCode::SUCCESS };
    if all {
        let mut rules: std::collections::BTreeMap<&str, (u64, u64)> = std::collections::BTreeMap::new();
        for (seed, violation) in &failed {
            rules.entry(violation.rule).or_insert((0, *seed)).0 += 1;
        }
        for (rule, (count, first)) in rules {
            println!("{count:6}  {rule} (first: seed {first})");
        }
    }
    tell(*seed, violation);
    ExitCode::FAILURE
}

/// The seed, the rule, and a short history that breaks it.
fn tell(seed: u64, violation: &Violation) {
    println!("seed {seed} breaks a rule: {violation}");
    let shortest = shrink(&history(seed));
    println!("{} steps do:\n{shortest}", shortest.steps.len());
    if let Some(violation) = play(&shortest, false).violation {
        println!("{violation}");
    }
}
