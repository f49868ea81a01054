//! From a history that breaks a rule to a short one that breaks the same rule: what can be left out is left out.

use super::generate::TO_THE_END;
use super::history::{History, Step};
use super::run::play;

/// Histories tried at most.
const TRIES: usize = 4_000;

/// A history that is as short as leaving out steps makes it, with the same rule broken. The algorithm is Zeller's and
/// Hildebrandt's `ddmin` ("Simplifying and isolating failure-inducing input", 2002), complements only.
pub fn shrink(history: &History) -> History {
    let Some(violation) = play(history, false).violation else { return history.clone() };
    let mut tries = 0;
    let mut fails = |history: &History| {
        tries += 1;
        tries <= TRIES && play(history, false).violation.is_some_and(|found| found.rule == violation.rule)
    };
    let mut shortest = history.clone();
    let mut size = shortest.steps.len().div_ceil(2).max(1);
    loop {
        let before = shortest.steps.len();
        let mut from = 0;
        while from < shortest.steps.len() {
            let mut shorter = shortest.clone();
            shorter.steps.drain(from..(from + size).min(shortest.steps.len()));
            if fails(&shorter) { shortest = shorter } else { from += size }
        }
        if size == 1 && shortest.steps.len() == before {
            break;
        }
        size = if shortest.steps.len() < before { size.min(shortest.steps.len()).max(1) } else { size.div_ceil(2) };
    }
    for number in 0..shortest.steps.len() {
        let mut simpler = shortest.clone();
        if simplify(&mut simpler.steps[number]) && fails(&simpler) {
            shortest = simpler;
        }
    }
    shortest
}

/// A step that says less; false if it says as little as it can.
fn simplify(step: &mut Step) -> bool {
    let before = *step;
    match step {
        Step::Run { gates, everything, .. } => (*gates, *everything) = (TO_THE_END, false),
        Step::Land { ids, .. } => *ids = 1,
        Step::Arm { skip, .. } => *skip = 0,
        Step::Cruise { ticks, .. } => *ticks = 1,
        _ => {}
    }
    *step != before
}
