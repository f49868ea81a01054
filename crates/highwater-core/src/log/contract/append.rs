//! Cases of writing: one winner a number, whatever replies get lost; a fenced writer learns it.

use futures::future::join_all;
use jiff::Timestamp;

use super::faulty::{OnGet, OnPut};
use super::{
    Appended, BatchLog, Body, Case, Outcome, Place, batch, commit, ensure, filled, numbers, record, same, say, writer,
};
use crate::log::{LogError, Sequence, claim};

pub(super) const CASES: &[Case] = &[
    ("records come back in the order of their numbers", |place| Box::pin(ordering(place))),
    ("of sixteen that create one number one wins", |place| Box::pin(one_winner(place))),
    ("of four that start at once each gets an epoch of its own", |place| Box::pin(starters(place))),
    ("a put whose reply was lost counts", |place| Box::pin(lost_reply(place))),
    ("a put whose reply was lost counts, though it is read back by half", |place| Box::pin(half_read_back(place))),
    ("a put that did not happen is put again", |place| Box::pin(put_again(place, OnPut::TimeOut))),
    ("a refusal with nothing written is put again", |place| Box::pin(put_again(place, OnPut::Refuse))),
    ("a lost race after a lost reply is a conflict", |place| Box::pin(lost_race(place))),
    ("an outage is an error, and the same record may be appended after it", |place| Box::pin(outage(place))),
    ("another record under our own number is no success", |place| Box::pin(own_earlier_record(place))),
    ("a writer with a newer claim before it is fenced", |place| Box::pin(fenced(place))),
    ("a trimmed log is not written from behind", |place| Box::pin(from_behind(place))),
];

async fn ordering(place: Place) -> Outcome {
    let log = place.log();
    same("highest of an empty log", log.highest().await.map_err(say)?, Sequence(0))?;
    let claimed = filled(&log, 12).await?;
    let loaded = log.load().await.map_err(say)?;
    same("numbers", numbers(&loaded.recent), (1..=12).collect())?;
    same("highest", loaded.highest, Sequence(12))?;
    same("highest alone", log.highest().await.map_err(say)?, Sequence(12))?;
    same("damaged", loaded.damaged, Vec::new())?;
    same("state", loaded.state, claimed.state)
}

async fn one_winner(place: Place) -> Outcome {
    let log = place.log();
    let records: Vec<_> = (0..16).map(|racer| record(1, &format!("w{racer}"), batch(&format!("r{racer}")))).collect();
    let outcomes = join_all(records.iter().map(|record| log.append(record))).await;
    let mut winners = Vec::new();
    for (record, outcome) in records.iter().zip(outcomes) {
        if outcome.map_err(say)? == Appended::Written {
            winners.push(record.clone());
        }
    }
    same("winners", winners.len(), 1)?;
    same("what the log holds", log.load().await.map_err(say)?.recent, winners)
}

async fn starters(place: Place) -> Outcome {
    let log = place.log();
    let names = ["a", "b", "c", "d"].map(writer);
    let claims = join_all(names.iter().map(|writer| claim(&log, Timestamp::UNIX_EPOCH, writer))).await;
    let mut epochs = Vec::new();
    for claimed in claims {
        epochs.push(claimed.map_err(say)?.epoch);
    }
    epochs.sort();
    let distinct = epochs.windows(2).all(|pair| pair[0] < pair[1]);
    ensure(distinct, || format!("epochs {epochs:?}"))?;
    same("newest epoch", log.load().await.map_err(say)?.state.epoch, epochs[3])
}

async fn lost_reply(place: Place) -> Outcome {
    let log = place.log_through(|store| store.on_puts([OnPut::LoseReply]));
    same("append", log.append(&record(1, "w", batch("a"))).await.map_err(say)?, Appended::Written)?;
    same("next append", log.append(&record(2, "w", batch("b"))).await.map_err(say)?, Appended::Written)?;
    same("numbers", numbers(&log.load().await.map_err(say)?.recent), vec![1, 2])
}

async fn half_read_back(place: Place) -> Outcome {
    let log = place.log_through(|store| store.on_puts([OnPut::LoseReply]).on_gets([OnGet::Short]));
    same("append", log.append(&record(1, "w", batch("a"))).await.map_err(say)?, Appended::Written)?;
    same("numbers", numbers(&log.load().await.map_err(say)?.recent), vec![1])
}

async fn put_again(place: Place, fault: OnPut) -> Outcome {
    let log = place.log_through(|store| store.on_puts([fault, fault]));
    let record = record(1, "w", batch("a"));
    same("append", log.append(&record).await.map_err(say)?, Appended::Written)?;
    same("what the log holds", log.load().await.map_err(say)?.recent, vec![record])
}

async fn lost_race(place: Place) -> Outcome {
    let other = record(1, "other", batch("theirs"));
    same("other's append", place.log().append(&other).await.map_err(say)?, Appended::Written)?;
    for fault in [OnPut::LoseReply, OnPut::TimeOut, OnPut::Refuse] {
        let log = place.log_through(|store| store.on_puts([fault]));
        let outcome = log.append(&record(1, "ours", batch("ours"))).await.map_err(say)?;
        same(&format!("append after {fault:?}"), outcome, Appended::Conflict)?;
    }
    same("what the log holds", place.log().load().await.map_err(say)?.recent, vec![other])
}

async fn outage(place: Place) -> Outcome {
    let record = record(1, "w", batch("a"));
    let log = place.log_through(|store| store.on_puts([OnPut::TimeOut; 5]));
    let outcome = log.append(&record).await;
    ensure(matches!(outcome, Err(LogError::Unavailable { .. })), || format!("append: {outcome:?}"))?;
    same("append again", log.append(&record).await.map_err(say)?, Appended::Written)?;
    same("append once more", log.append(&record).await.map_err(say)?, Appended::Written)
}

async fn own_earlier_record(place: Place) -> Outcome {
    let log = place.log();
    same("append", log.append(&record(1, "w", batch("a"))).await.map_err(say)?, Appended::Written)?;
    let outcome = log.append(&record(1, "w", batch("b"))).await;
    ensure(matches!(outcome, Err(LogError::Earlier { .. })), || format!("append: {outcome:?}"))
}

async fn fenced(place: Place) -> Outcome {
    let log = place.log();
    let old = filled(&log, 3).await?;
    let mut new = claim(&log, Timestamp::UNIX_EPOCH, &writer("second")).await.map_err(say)?;
    same("epoch", new.epoch, Sequence(4))?;
    let highest = log.highest().await.map_err(say)?;
    ensure(highest > old.state.last, || format!("the old writer sees no number above its own, {highest}"))?;
    let late = old.record(Timestamp::UNIX_EPOCH, batch("late"));
    same("the old writer's append", log.append(&late).await.map_err(say)?, Appended::Conflict)?;
    commit(&log, &mut new, "fresh").await?;
    same("state", log.load().await.map_err(say)?.state, new.state)
}

async fn from_behind(place: Place) -> Outcome {
    let log = place.log();
    let old = filled(&log, 3).await?;
    let mut new = claim(&log, Timestamp::UNIX_EPOCH, &writer("second")).await.map_err(say)?;
    for number in 5..=30 {
        commit(&log, &mut new, &format!("f{number}")).await?;
        if number % 10 == 0 {
            log.snapshot(&new.state).await.map_err(say)?;
        }
    }
    log.trim(Sequence(30)).await.map_err(say)?;
    let gone = place.read(&place.record(4)).await;
    ensure(gone.is_err(), || "record 4 was not trimmed".into())?;
    let late = old.record(
        Timestamp::UNIX_EPOCH,
        Body::Advance {
            watermark: Timestamp::UNIX_EPOCH,
            holes: Vec::new(),
            closed: Vec::new(),
            sources: std::collections::BTreeMap::new(),
            alarms: Vec::new(),
        },
    );
    same("the old writer's append", log.append(&late).await.map_err(say)?, Appended::Conflict)?;
    same("state", log.load().await.map_err(say)?.state, new.state)
}
