use super::{history, play, shrink};

/// `./test` plays so many; `highwater-sim` plays more.
const SEEDS: u64 = 200;

#[test]
fn two_hundred_histories_end_as_the_files_say() {
    for seed in 0..SEEDS {
        let history = history(seed);
        if let Some(violation) = play(&history, false).violation {
            panic!("seed {seed}: {violation}\n{}", shrink(&history));
        }
    }
}

#[test]
fn the_same_seed_ends_alike_twice() {
    for seed in 0..20 {
        let history = history(seed);
        let (first, second) = (play(&history, true), play(&history, true));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.hash, second.hash, "seed {seed}");
    }
}

/// What the faults of 2,000 seeds found in the product, each as the history that showed it.
mod found {
    use super::super::*;
    use crate::policy::OnLag;

    fn setup(kinds: &[Kind]) -> Setup {
        Setup {
            kinds: kinds.to_vec(),
            on_lag: OnLag::SkipToLatest,
            hold_min: Some(30),
            lease: LeaseKind::Heartbeat,
            leased_log: true,
            backfill: false,
            atomic_sink: false,
            reads_watermark: false,
            end_by_crash: true,
        }
    }

    fn check(setup: Setup, steps: &[Step]) {
        let outcome = play(&History { setup, steps: steps.to_vec() }, false);
        assert_eq!(outcome.violation, None);
    }

    fn land(source: u8, back: u8, name: u8) -> Step {
        Step::Land { place: Place { source, back, name }, ids: 1, quality: Quality::Good }
    }

    fn run(host: usize) -> Step {
        Step::Run { host, gates: u16::MAX >> 3, everything: false }
    }

    /// The window reaches further back where the newest data is old: the first batch has to list that far.
    #[test]
    fn a_first_batch_over_old_data_is_whole() {
        check(setup(&[Kind::Captured, Kind::Short]), &[land(1, 8, 0), land(1, 1, 2), Step::Wait { seconds: 4_502 }]);
    }

    /// A table that keeps its rows begins before the window of another source: no lag is made of it.
    #[test]
    fn a_catching_up_pipeline_catches_up_with_a_table_that_begins_earlier() {
        let setup = setup(&[Kind::Short, Kind::Forever]);
        let setup = Setup { on_lag: OnLag::CatchUp, leased_log: false, end_by_crash: false, ..setup };
        check(setup, &[run(1), land(1, 7, 1), run(1)]);
    }

    /// The first batch is committed, its record never written; its file is gone when the next writer comes.
    #[test]
    fn what_an_unrecorded_first_batch_left_goes_with_its_file() {
        let lost = Step::Arm { point: Point::SinkCommit, skip: 0, times: 1, trouble: Trouble::Lose };
        let gone = Step::Remove { place: Place { source: 0, back: 1, name: 0 } };
        let (crash, wait) = (Step::Crash { host: 0 }, Step::Wait { seconds: 20 });
        check(setup(&[Kind::Short]), &[run(0), land(0, 1, 0), lost, run(0), crash, gone, wait, run(0), run(0)]);
    }

    /// An attempt at a first batch leaves documents and fails; a failed listing lets the next tick make no batch. An
    /// advance must not take the number that those documents carry.
    #[test]
    fn no_advance_takes_the_number_of_an_attempt_that_left_documents() {
        let lost = Step::Arm { point: Point::SinkWrite, skip: 0, times: 1, trouble: Trouble::Lose };
        // The newest prefix is listed, another is not.
        let deaf = Step::Arm { point: Point::SourceList, skip: 1, times: 9, trouble: Trouble::Fail };
        let gone = Step::Remove { place: Place { source: 0, back: 1, name: 0 } };
        let hour = Step::Wait { seconds: 700 };
        let (crash, wait) = (Step::Crash { host: 0 }, Step::Wait { seconds: 20 });
        let steps =
            [run(0), land(0, 1, 0), lost, run(0), gone, hour, deaf, run(0), crash, wait, Step::Mend, run(0), run(0)];
        check(setup(&[Kind::Short]), &steps);
    }

    /// A batch is committed and never recorded; the next session cannot list the folder of its file, nor the one above it,
    /// which names a captured value. Its documents stay until it was looked for.
    #[test]
    fn what_an_unrecorded_batch_put_in_stays_until_its_files_were_looked_for() {
        let lost = Step::Arm { point: Point::SinkWrite, skip: 0, times: 7, trouble: Trouble::Lose };
        let deaf = Step::Arm { point: Point::SourceList, skip: 0, times: 8, trouble: Trouble::Fail };
        let some = Step::Run { host: 0, gates: 21, everything: false };
        let deafen = |deaf| Step::Deafen { host: 0, deaf };
        let mut steps = vec![land(1, 8, 2), land(0, 2, 1), run(0), run(0), land(1, 2, 1)];
        steps.extend([deafen(true), Step::Wait { seconds: 17 }, lost, run(0), run(0), deafen(false), run(0), some]);
        steps.extend([Step::Wait { seconds: 35 }, deaf, run(0), run(0), run(0), run(0)]);
        steps.extend([Step::Wait { seconds: 886 }, run(0)]);
        let setup = Setup { leased_log: false, end_by_crash: false, ..setup(&[Kind::Short, Kind::Captured]) };
        check(Setup { on_lag: OnLag::Halt, ..setup }, &steps);
    }
}
