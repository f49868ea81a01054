mod gauntlet;
mod http;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use highwater_core::Timestamp;
use highwater_core::lease::Unguarded;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::index::contract::document;

fn change(text: &str) -> Change {
    match text.split_at(1) {
        ("+", id) => Change::Upsert(document(id, 1)),
        ("-", id) => Change::Delete(id.into()),
        _ => panic!("neither + nor -: {text}"),
    }
}

/// Delivers `+a +b -c`, each request answered by `script` (its number from 0, the ids in it), and shows every step.
fn check(changes: &str, script: impl Fn(usize, &[&str]) -> Answer) -> String {
    let mut delivery = Delivery::new(Patience::default(), changes.split(' ').map(change).collect());
    let (mut shown, mut number) = (String::new(), 0);
    loop {
        let answer = match delivery.step() {
            Err(fault) => return shown + &format!("{fault}\n"),
            Ok(Step::End(Delivered { upserts, deletes, refused, requests, sent_again })) => {
                let refused: Vec<String> = refused.iter().map(|r| format!("{}: {}", r.id, r.reason)).collect();
                shown += &format!("{upserts} upserts, {deletes} deletes, {refused:?} refused, ");
                return shown + &format!("{requests} requests, {sent_again} sent again\n");
            }
            Ok(Step::Wait(pause)) => {
                shown += &format!("wait {pause:?}\n");
                continue;
            }
            Ok(Step::Send(changes)) => {
                let ids: Vec<&str> = changes.iter().map(|change| change.id()).collect();
                shown += &format!("send {}\n", ids.join(" "));
                number += 1;
                script(number - 1, &ids)
            }
        };
        if let Err(fault) = delivery.answered(answer) {
            return shown + &format!("{fault}\n");
        }
    }
}

fn done(ids: &[&str]) -> Answer {
    Answer::Each(vec![Outcome::Done; ids.len()])
}

fn later(reason: &str) -> Answer {
    Answer::Later { reason: reason.into(), after: None }
}

/// The word on each change: `.` done, `x` refused, `~` later, `<` stale.
fn each(words: &str) -> Answer {
    let outcome = |word| match word {
        '.' => Outcome::Done,
        'x' => Outcome::Refused("bad date".into()),
        '~' => Outcome::Later("busy".into()),
        _ => Outcome::Stale,
    };
    Answer::Each(words.chars().map(outcome).collect())
}

#[test]
fn what_is_done_is_done() {
    assert_snapshot!(check("+a +b -c", |_, ids| done(ids)), @r#"
    send a b c
    2 upserts, 1 deletes, [] refused, 1 requests, 0 sent again
    "#);
    assert_eq!(Delivery::new(Patience::default(), vec![]).step().unwrap(), Step::End(Delivered::default()));
}

#[test]
fn only_what_was_put_off_is_sent_again_and_pauses_grow_while_nothing_comes_of_it() {
    let answers = ["x~.~", "~~", "~~", ".~", "~", "."];
    assert_snapshot!(check("+a +b -c -d", |n, _| each(answers[n])), @r#"
    send a b c d
    wait 100ms
    send b d
    wait 200ms
    send b d
    wait 400ms
    send b d
    wait 100ms
    send d
    wait 200ms
    send d
    1 upserts, 2 deletes, ["a: bad date"] refused, 6 requests, 2 sent again
    "#);
}

#[test]
fn a_server_may_ask_for_a_longer_pause() {
    let after = |seconds| Answer::Later { reason: "busy".into(), after: Some(Duration::from_secs(seconds)) };
    assert_snapshot!(check("+a", |n, ids| [after(2), after(60), done(ids)][n].clone()), @r#"
    send a
    wait 2s
    send a
    wait 5s
    send a
    1 upserts, 0 deletes, [] refused, 3 requests, 1 sent again
    "#);
}

#[test]
fn a_server_that_never_answers_is_given_up_and_nothing_counts() {
    assert_snapshot!(check("+a +b", |n, _| if n == 0 { each(".~") } else { later("connection reset") }), @r#"
    send a b
    wait 100ms
    send b
    wait 200ms
    send b
    wait 400ms
    send b
    wait 800ms
    send b
    wait 1.6s
    send b
    wait 3.2s
    send b
    wait 5s
    send b
    wait 5s
    send b
    the index did not take 1 of 2 changes in 9 tries: connection reset
    "#);
}

#[test]
fn a_request_refused_as_a_whole_is_halved_down_to_the_one() {
    let script = |_: usize, ids: &[&str]| if ids.contains(&"f") { Answer::Whole("400".into()) } else { done(ids) };
    assert_snapshot!(check("+a +b +c +d +e +f -g", script), @r#"
    send a b c d e f g
    send a b c
    send d e f g
    send d e
    send f g
    send f
    send g
    5 upserts, 1 deletes, ["f: 400"] refused, 7 requests, 7 sent again
    "#);
}

#[test]
fn what_cannot_go_on_ends_the_delivery() {
    assert_snapshot!(check("+a +b", |_, _| each(".<")), @r#"
    send a b
    fenced: the index holds a newer version of the id "b": another writer
    "#);
    assert_snapshot!(check("-a", |_, _| Answer::Whole("no such shard".into())), @r#"
    send a
    the index refuses to delete the id "a": no such shard
    "#);
    assert_snapshot!(check("+a", |_, _| of_request(404, "collection ads at http://h", "", None)), @r#"
    send a
    collection ads at http://h is not there (status 404): create it, or check its name
    "#);
    let all: Vec<String> = (0..1_000).map(|n| format!("+{n}")).collect();
    let shown = check(&all.join(" "), |_, _| Answer::Whole("no field v".into()));
    assert!(shown.ends_with("the index refused 501 requests of one batch, the last for: no field v\n"), "{shown}");
}

#[test]
fn an_answer_about_other_changes_is_no_answer() {
    assert_snapshot!(check("+a +b", |n, ids| if n == 0 { each(".") } else { done(ids) }), @r#"
    send a b
    wait 100ms
    send a b
    2 upserts, 0 deletes, [] refused, 2 requests, 2 sent again
    "#);
}

#[test]
fn statuses_say_what_to_do() {
    let (upsert, delete) = (change("+a"), change("-a"));
    let item = |status, change: &Change| match of_item(status, change, " why ") {
        Outcome::Done => "done".to_owned(),
        Outcome::Stale => "stale".to_owned(),
        Outcome::Refused(reason) => format!("refused, {reason}"),
        Outcome::Later(reason) => format!("later, {reason}"),
    };
    for (status, of_upsert, of_delete) in [
        (200, "done", "done"),
        (201, "done", "done"),
        (404, "refused, status 404: why", "done"),
        (409, "stale", "stale"),
        (400, "refused, status 400: why", "refused, status 400: why"),
        (429, "later, status 429: why", "later, status 429: why"),
        (503, "later, status 503: why", "later, status 503: why"),
    ] {
        assert_eq!((item(status, &upsert).as_str(), item(status, &delete).as_str()), (of_upsert, of_delete));
    }
    let whole = |status| match of_request(status, "it", "", None) {
        Answer::Whole(_) => "whole",
        Answer::Later { .. } => "later",
        Answer::Fatal(Fault::Invalid(_)) => "fatal",
        other => panic!("{other:?}"),
    };
    for (status, meaning) in [
        (400, "whole"),
        (413, "whole"),
        (422, "whole"),
        (429, "later"),
        (500, "later"),
        (503, "later"),
        (401, "fatal"),
        (403, "fatal"),
        (404, "fatal"),
        (405, "fatal"),
    ] {
        assert_eq!(whole(status), meaning, "{status}");
    }
}

/// Notes what it was made to wait.
#[derive(Default)]
pub(super) struct Waits(pub(super) Mutex<Vec<Duration>>);

#[async_trait]
impl Clock for Waits {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, length: Duration) {
        self.0.lock().unwrap().push(length);
    }
}

struct Busy(AtomicUsize);

#[async_trait]
impl Transport for Busy {
    async fn send(&self, _: Sequence, changes: &[&Change]) -> Answer {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => later("busy"),
            _ => Answer::Each(vec![Outcome::Done; changes.len()]),
        }
    }
}

#[tokio::test]
async fn waiting_goes_by_the_clock_and_nothing_is_sent_outside_the_lease() {
    #[derive(Debug)]
    struct Ended;
    impl Lease for Ended {
        fn holds(&self) -> bool {
            false
        }
    }
    let (busy, waits) = (Busy(AtomicUsize::new(0)), Waits::default());
    let changes = || vec![change("+a")];
    let sent = deliver(&busy, &waits, &Ended, Patience::default(), Sequence(1), changes()).await;
    assert!(matches!(sent, Err(Fault::Fenced(_))), "{sent:?}");
    assert_eq!(busy.0.load(Ordering::SeqCst), 0);
    deliver(&busy, &waits, &Unguarded, Patience::default(), Sequence(1), changes()).await.unwrap();
    assert_eq!(*waits.0.lock().unwrap(), [Duration::from_millis(100)]);
}

/// What a server makes of one request: the documents that it never takes, and how often it puts others off.
fn answer(bad: &BTreeSet<usize>, tells: bool, mut busy: u64, ids: &[&str]) -> Answer {
    let is_bad = |id: &&str| bad.contains(&id.parse().unwrap());
    if !tells && ids.iter().any(is_bad) {
        return Answer::Whole("bad".into());
    }
    let outcomes = ids.iter().map(|id| {
        busy = busy.rotate_right(1);
        match is_bad(id) {
            true => Outcome::Refused("bad".into()),
            false if busy & 3 == 0 => Outcome::Later("busy".into()),
            false => Outcome::Done,
        }
    });
    Answer::Each(outcomes.collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_change_counts_once_whatever_the_order(
        (order, bad) in (1_usize..200).prop_flat_map(|n| {
            let all: Vec<usize> = (0..n).collect();
            (Just(all.clone()).prop_shuffle(), prop::sample::subsequence(all, 0..=n.min(6)))
        }),
        tells in any::<bool>(),
        busy in prop::collection::vec(any::<u64>(), 1..6),
    ) {
        let bad: BTreeSet<usize> = bad.into_iter().collect();
        let texts: Vec<String> = order.iter().map(|n| format!("+{n}")).collect();
        let mut delivery = Delivery::new(Patience::default(), texts.iter().map(|text| change(text)).collect());
        let mut number = 0;
        let delivered = loop {
            let answered = match delivery.step().unwrap() {
                Step::End(delivered) => break delivered,
                Step::Wait(_) => continue,
                Step::Send(changes) => {
                    let ids: Vec<&str> = changes.iter().map(|change| change.id()).collect();
                    let busy = busy.get(number).copied().unwrap_or(u64::MAX);
                    number += 1;
                    answer(&bad, tells, busy, &ids)
                }
            };
            delivery.answered(answered).unwrap();
        };
        let refused: BTreeSet<usize> = delivered.refused.iter().map(|refused| refused.id.parse().unwrap()).collect();
        prop_assert_eq!(&refused, &bad);
        prop_assert_eq!(delivered.refused.len(), bad.len());
        prop_assert_eq!(delivered.upserts as usize, order.len() - bad.len());
        if busy.iter().all(|busy| *busy == u64::MAX) || tells {
            let halvings = usize::BITS - (order.len() - 1).leading_zeros();
            let most = 1 + if tells { busy.len() } else { 2 * bad.len() * halvings as usize };
            prop_assert!(delivered.requests as usize <= most, "{} requests", delivered.requests);
        }
    }
}

#[test]
fn one_bad_document_costs_a_few_requests() {
    for (n, at) in [(1, 0), (2, 1), (7, 3), (100, 56), (1_000, 0), (1_000, 999), (1_024, 511), (1_025, 600)] {
        let texts: Vec<String> = (0..n).map(|n| format!("+{n}")).collect();
        let bad = at.to_string();
        let shown = check(&texts.join(" "), |_, ids| match ids.contains(&bad.as_str()) {
            true => Answer::Whole("bad".into()),
            false => done(ids),
        });
        let requests = shown.lines().filter(|line| line.starts_with("send")).count();
        let halvings = (n as f64).log2().ceil() as usize;
        assert!(requests <= 1 + 2 * halvings, "{requests} requests for {n}");
        assert!(shown.contains(&format!("{} upserts, 0 deletes, [\"{at}: bad\"] refused", n - 1)), "{shown}");
    }
}
