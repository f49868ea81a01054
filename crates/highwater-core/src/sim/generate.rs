//! From a seed to a history.

use super::history::{History, Kind, LeaseKind, Place, Point, Quality, Setup, Step, Trouble};
use super::random::Dice;
use crate::policy::OnLag;

/// So many gates that whatever runs comes to its end.
pub(super) const TO_THE_END: u16 = 10_000;

/// The history of a seed.
pub fn history(seed: u64) -> History {
    let mut dice = Dice::new(seed);
    let setup = setup(&mut dice);
    // Some histories are calm, so that what only shows after long quiet is seen too.
    let trouble = dice.pick(&[1, 8, 16, 30]);
    let second = if setup.lease == LeaseKind::Heartbeat { dice.pick(&[0, 20, 50]) } else { 10 };
    let length = dice.between(20, 160);
    let steps = (0..length).map(|_| step(&mut dice, &setup, trouble, second)).collect();
    History { setup, steps }
}

fn setup(dice: &mut Dice) -> Setup {
    let mut kinds = vec![dice.weighted(&[(5, Kind::Short), (2, Kind::Captured), (2, Kind::Forever)])];
    if dice.chance(40) {
        kinds.push(dice.pick(&[Kind::Short, Kind::Captured, Kind::Forever, Kind::Reference, Kind::Reference]));
    }
    if dice.chance(15) {
        kinds.push(dice.pick(&[Kind::Forever, Kind::Reference]));
    }
    Setup {
        kinds,
        on_lag: dice.weighted(&[(5, OnLag::SkipToLatest), (3, OnLag::CatchUp), (2, OnLag::Halt)]),
        hold_min: dice.pick(&[None, Some(30), Some(180)]),
        lease: dice.pick(&[LeaseKind::Lock, LeaseKind::Heartbeat, LeaseKind::Heartbeat]),
        leased_log: dice.chance(70),
        atomic_sink: dice.chance(30),
        reads_watermark: dice.chance(8),
        end_by_crash: dice.chance(50),
        backfill: dice.chance(50),
    }
}

fn step(dice: &mut Dice, setup: &Setup, trouble: u32, second: u32) -> Step {
    let host = usize::from(dice.chance(second));
    let choice = dice.weighted(&[(24, 0), (5, 1), (2, 2), (16, 3), (34, 4), (2, 5), (4, 6), (trouble, 7), (3, 8)]);
    match choice {
        0 => Step::Land { place: place(dice, setup), ids: ids(dice), quality: quality(dice, trouble) },
        1 => Step::Remove { place: place(dice, setup) },
        2 => Step::Compact { place: place(dice, setup) },
        3 => Step::Wait { seconds: pause(dice) },
        4 => Step::Run { host, gates: gates(dice), everything: dice.chance(8) },
        5 => Step::Cruise { host, ticks: u8_of(dice, 40), seconds: u16_of(dice, 900) },
        6 if trouble > 1 || dice.chance(30) => Step::Crash { host },
        7 => arm(dice),
        8 => rare(dice, host),
        _ => Step::Mend,
    }
}

fn place(dice: &mut Dice, setup: &Setup) -> Place {
    let source = u8_of(dice, u32::try_from(setup.kinds.len()).unwrap_or(1));
    let back = if dice.chance(60) { 1 + u8_of(dice, 2) } else { u8_of(dice, 9) };
    Place { source, back, name: u8_of(dice, 4) }
}

fn ids(dice: &mut Dice) -> u8 {
    u8_of(dice, 64) & u8_of(dice, 64) | 1 << dice.below(6)
}

fn quality(dice: &mut Dice, trouble: u32) -> Quality {
    if trouble <= 1 {
        return Quality::Good;
    }
    dice.weighted(&[(88, Quality::Good), (5, Quality::Broken), (4, Quality::Empty), (3, Quality::Rowless)])
}

/// Mostly within a partition; now and then a stop that no window covers.
fn pause(dice: &mut Dice) -> u32 {
    let (from, to) = dice.weighted(&[(40, (1, 60)), (40, (60, 900)), (14, (900, 4000)), (4, (4000, 20_000))]);
    u32::try_from(dice.between(from, to)).unwrap_or(1)
}

fn gates(dice: &mut Dice) -> u16 {
    if dice.chance(55) { TO_THE_END } else { 1 + u16_of(dice, 30) }
}

fn arm(dice: &mut Dice) -> Step {
    use Trouble::{Conflict, Cut, Fail, Hide, Lose, Precondition};
    let (point, troubles): (Point, &[Trouble]) = dice.weighted(&[
        (5, (Point::LogPut, &[Fail, Lose, Lose, Conflict, Precondition][..])),
        (2, (Point::LogGet, &[Fail, Cut])),
        (2, (Point::LogList, &[Fail, Cut])),
        (1, (Point::LogDelete, &[Fail, Lose])),
        (6, (Point::SourceList, &[Fail, Fail, Hide, Cut])),
        (3, (Point::SourceRead, &[Fail])),
        (2, (Point::SinkRead, &[Fail])),
        (4, (Point::SinkWrite, &[Fail, Lose])),
        (3, (Point::SinkCommit, &[Fail, Lose, Lose])),
    ]);
    let trouble = if dice.chance(15) { Trouble::Slow(1 + u16_of(dice, 40)) } else { dice.pick(troubles) };
    let times = if dice.chance(60) { 1 } else { 1 + u8_of(dice, 12) };
    Step::Arm { point, skip: if dice.chance(60) { 0 } else { u8_of(dice, 12) }, times, trouble }
}

fn rare(dice: &mut Dice, host: usize) -> Step {
    match dice.below(4) {
        0 => {
            let (from, to) = dice.weighted(&[(6, (-300, 300)), (1, (-9000, 9000))]);
            Step::Skew { host, seconds: i32::try_from(dice.between(from, to)).unwrap_or(0) }
        }
        1 => Step::Lag { seconds: if dice.chance(40) { 0 } else { u16_of(dice, 90) } },
        _ => Step::Deafen { host, deaf: dice.chance(70) },
    }
}

fn u8_of(dice: &mut Dice, below: u32) -> u8 {
    u8::try_from(dice.below(below)).unwrap_or(u8::MAX)
}

fn u16_of(dice: &mut Dice, below: u32) -> u16 {
    u16::try_from(dice.below(below)).unwrap_or(u16::MAX)
}
