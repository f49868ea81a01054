//! Cases of reading: what is damaged is stepped over and named, what is trimmed is not missed.

use futures::FutureExt;
use jiff::Timestamp;
use object_store::path::Path;

use super::faulty::OnGet;
use super::{
    Appended, BatchLog, Case, Claimed, Outcome, Place, batch, commit, ensure, files, filled, live, numbers, record,
    same, say, writer,
};
use crate::log::{LogError, ObjectLog, Sequence, claim};

pub(super) const CASES: &[Case] = &[
    ("a damaged record is stepped over and reported", |place| Box::pin(damaged_record(place))),
    ("a missing record is reported", |place| Box::pin(missing_record(place))),
    ("damage at the end is never written over", |place| Box::pin(damaged_end(place))),
    ("a truncated snapshot costs nothing but time", |place| Box::pin(damaged_snapshots(place))),
    ("a trimmed log without snapshots is reported", |place| Box::pin(lost_beginning(place))),
    ("a newer format is refused", |place| Box::pin(newer_format(place))),
    ("a load during trimming starts again", |place| Box::pin(load_during_trim(place))),
    ("a broken read is repeated", |place| Box::pin(broken_read(place))),
    ("an outage is an error, not an empty log", |place| Box::pin(outage(place))),
    ("foreign files are not seen", |place| Box::pin(foreign_files(place))),
    ("a kill between snapshot and trim leaves a whole log", |place| Box::pin(killed_trim(place))),
    ("trimming keeps what may be needed", |place| Box::pin(trim_keeps(place))),
    ("every key comes back byte for byte", |place| Box::pin(keys(place))),
];

async fn damaged_record(place: Place) -> Outcome {
    let log = place.log();
    filled(&log, 6).await?;
    let wrong_number = place.read(&place.record(2)).await?;
    for (number, content) in [(3, b"{\"format\": 1, \"se".to_vec()), (4, Vec::new()), (5, wrong_number)] {
        place.overwrite(&place.record(number), content).await?;
    }
    let loaded = log.load().await.map_err(say)?;
    same("damaged", loaded.damaged.iter().map(|one| one.sequence.0).collect(), vec![3, 4, 5])?;
    same("highest", loaded.highest, Sequence(6))?;
    same("gap", loaded.state.gap, Some(Sequence(5)))?;
    same("void", loaded.state.void.iter().map(|number| number.0).collect(), vec![1, 3, 4, 5])?;
    same("readable", numbers(&loaded.recent), vec![1, 2, 6])?;

    let mut claimed = claim(&log, Timestamp::UNIX_EPOCH, &writer("second")).await.map_err(say)?;
    same("gap after a claim", claimed.state.gap, Some(Sequence(5)))?;
    commit(&log, &mut claimed, "healed").await?;
    same("gap after a batch", log.load().await.map_err(say)?.state.gap, None)
}

async fn missing_record(place: Place) -> Outcome {
    let log = place.log();
    filled(&log, 5).await?;
    place.remove(&place.record(4)).await?;
    let loaded = log.load().await.map_err(say)?;
    same("damaged", loaded.damaged.iter().map(|one| one.sequence.0).collect(), vec![4])?;
    same("gap", loaded.state.gap, Some(Sequence(4)))
}

async fn damaged_end(place: Place) -> Outcome {
    let log = place.log();
    filled(&log, 4).await?;
    place.overwrite(&place.record(4), "").await?;
    let claimed = claim(&log, Timestamp::UNIX_EPOCH, &writer("second")).await.map_err(say)?;
    same("epoch", claimed.epoch, Sequence(5))?;
    same("gap", claimed.state.gap, Some(Sequence(4)))?;
    same("damaged object", place.read(&place.record(4)).await?, Vec::new())
}

async fn damaged_snapshots(place: Place) -> Outcome {
    let log = place.log();
    let mut claimed = filled(&log, 4).await?;
    log.snapshot(&claimed.state).await.map_err(say)?;
    commit(&log, &mut claimed, "f5").await?;
    commit(&log, &mut claimed, "f6").await?;
    log.snapshot(&claimed.state).await.map_err(say)?;
    commit(&log, &mut claimed, "f7").await?;
    for (rounds, number) in [6, 4].into_iter().enumerate() {
        let whole = place.read(&place.snapshot(number)).await?;
        place.overwrite(&place.snapshot(number), &whole[..whole.len() / 2]).await?;
        let loaded = log.load().await.map_err(say)?;
        same("damaged", loaded.damaged.len(), rounds + 1)?;
        same("state", loaded.state, claimed.state.clone())?;
    }
    Ok(())
}

async fn lost_beginning(place: Place) -> Outcome {
    let log = place.log();
    filled(&log, 5).await?;
    for number in 1..=3 {
        place.remove(&place.record(number)).await?;
    }
    let loaded = log.load().await.map_err(say)?;
    same("damaged", loaded.damaged.iter().map(|one| one.sequence.0).collect(), vec![3])?;
    same("gap", loaded.state.gap, Some(Sequence(3)))
}

async fn newer_format(place: Place) -> Outcome {
    let log = place.log();
    filled(&log, 3).await?;
    place.overwrite(&place.record(4), r#"{"format": 99, "anything": {"goes": true}}"#).await?;
    for error in [log.load().await.err(), claim(&log, Timestamp::UNIX_EPOCH, &writer("second")).await.err()] {
        let expected = matches!(&error, Some(LogError::NewerFormat { object, found: 99, .. }) if *object == place.record(4).to_string());
        ensure(expected, || format!("{error:?}"))?;
    }
    same("highest", log.highest().await.map_err(say)?, Sequence(4))
}

/// Thirty records, snapshots at 20 and 30, nothing trimmed.
async fn untrimmed(log: &ObjectLog) -> Result<Claimed, String> {
    let mut claimed = filled(log, 20).await?;
    log.snapshot(&claimed.state).await.map_err(say)?;
    for number in 21..=30 {
        commit(log, &mut claimed, &format!("f{number}")).await?;
    }
    log.snapshot(&claimed.state).await.map_err(say)?;
    Ok(claimed)
}

async fn load_during_trim(place: Place) -> Outcome {
    let other = place.log();
    let claimed = filled(&other, 20).await?;
    let event = async move {
        let mut claimed = claimed;
        other.snapshot(&claimed.state).await.ok();
        for number in 21..=30 {
            commit(&other, &mut claimed, &format!("f{number}")).await.ok();
        }
        other.snapshot(&claimed.state).await.ok();
        other.trim(Sequence(30)).await.ok();
    };
    let log = place.log_through(|store| store.on_gets([OnGet::After(event.boxed())]));
    let loaded = log.load().await.map_err(say)?;
    ensure(place.read(&place.record(20)).await.is_err(), || "nothing was trimmed".into())?;
    same("damaged", loaded.damaged.clone(), Vec::new())?;
    same("highest", loaded.highest, Sequence(30))?;
    ensure(live(&loaded) == files(2..=30), || format!("live: {:?}", live(&loaded)))
}

async fn broken_read(place: Place) -> Outcome {
    filled(&place.log(), 3).await?;
    let gets = [OnGet::Break, OnGet::Cut, OnGet::Short, OnGet::Break, OnGet::Cut];
    let log = place.log_through(|store| store.on_gets(gets).on_lists(2));
    let loaded = log.load().await.map_err(say)?;
    same("damaged", loaded.damaged.clone(), Vec::new())?;
    same("highest", loaded.highest, Sequence(3))?;
    ensure(live(&loaded) == files(2..=3), || format!("live: {:?}", live(&loaded)))
}

async fn outage(place: Place) -> Outcome {
    filled(&place.log(), 3).await?;
    // The records are read at once: five tries for each of the three.
    let gets = || (0..15).map(|_| OnGet::Cut);
    for log in [place.log_through(|store| store.on_lists(5)), place.log_through(|store| store.on_gets(gets()))] {
        let outcome = log.load().await;
        ensure(matches!(outcome, Err(LogError::Unavailable { .. })), || format!("load: {outcome:?}"))?;
    }
    let outcome = place.log_through(|store| store.on_lists(5)).highest().await;
    ensure(matches!(outcome, Err(LogError::Unavailable { .. })), || format!("highest: {outcome:?}"))
}

async fn foreign_files(place: Place) -> Outcome {
    let log = place.log();
    let claimed = filled(&log, 3).await?;
    let names = [
        "README.md",
        "4.json",
        "0000000000000000000a.json",
        "00000000000000000009.json.bak",
        "00000000000000000000.json",
        "99999999999999999999.json",
        "+0000000000000000009.json",
    ];
    for name in names {
        place.overwrite(&place.root.clone().join("log").join(name), "foreign").await?;
        place.overwrite(&place.root.clone().join("snapshot").join(name), "foreign").await?;
    }
    let deeper = Path::from(format!("{}/part", place.record(9)));
    place.overwrite(&deeper, "foreign").await?;
    let loaded = log.load().await.map_err(say)?;
    same("damaged", loaded.damaged, Vec::new())?;
    same("highest", loaded.highest, Sequence(3))?;
    same("state", loaded.state, claimed.state)
}

async fn killed_trim(place: Place) -> Outcome {
    let log = place.log();
    let claimed = untrimmed(&log).await?;
    same("state before trimming", log.load().await.map_err(say)?.state, claimed.state.clone())?;
    // Killed with some records gone, in whatever order the store took them.
    for number in [1, 3, 4, 9] {
        place.remove(&place.record(number)).await?;
    }
    let loaded = log.load().await.map_err(say)?;
    same("damaged", loaded.damaged, Vec::new())?;
    same("state half trimmed", loaded.state, claimed.state.clone())?;
    same("objects trimmed", log.trim(Sequence(30)).await.map_err(say)?, 16)?;
    let loaded = log.load().await.map_err(say)?;
    same("numbers", numbers(&loaded.recent), (21..=30).collect())?;
    same("state trimmed", loaded.state, claimed.state)
}

async fn trim_keeps(place: Place) -> Outcome {
    let log = place.log();
    let mut claimed = untrimmed(&log).await?;
    let first = |loaded: super::Loaded| loaded.recent.first().map(|record| record.seq.0);
    same("behind a stamp", log.trim(Sequence(6)).await.map_err(say)?, 6)?;
    same("first", first(log.load().await.map_err(say)?), Some(7))?;

    let many = place.log().keeping(22);
    same("the last records", many.trim(Sequence(30)).await.map_err(say)?, 2)?;

    let whole = place.read(&place.snapshot(20)).await?;
    place.overwrite(&place.snapshot(20), &whole[..20]).await?;
    same("before one good snapshot", log.trim(Sequence(30)).await.map_err(say)?, 0)?;
    for number in 31..=40 {
        commit(&log, &mut claimed, &format!("f{number}")).await?;
    }
    log.snapshot(&claimed.state).await.map_err(say)?;
    same("before two good ones", log.trim(Sequence(40)).await.map_err(say)?, 22 + 1)?;

    let whole = place.read(&place.snapshot(40)).await?;
    place.overwrite(&place.snapshot(40), &whole[..20]).await?;
    let loaded = log.load().await.map_err(say)?;
    same("numbers", numbers(&loaded.recent), (31..=40).collect())?;
    same("state from the older snapshot", loaded.state, claimed.state)
}

async fn keys(place: Place) -> Outcome {
    let names = [
        "a b.ndjson",
        "a+b.ndjson",
        "a%20b.ndjson",
        "100%.ndjson",
        "x,y.ndjson",
        "\u{e9}.ndjson",
        "e\u{301}.ndjson",
        "v.1/\"quoted\" \\ 'single'.ndjson",
        "tab\tnew\nline\u{7f}\u{2028}.ndjson",
        "/leading//double/",
    ];
    let log = place.log();
    for (at, name) in names.iter().enumerate() {
        let outcome = log.append(&record(at as u64 + 1, "w", batch(name))).await.map_err(say)?;
        same("append", outcome, Appended::Written)?;
    }
    let mut expected = names.to_vec();
    expected.sort_unstable();
    let loaded = log.load().await.map_err(say)?;
    same("keys from records", live(&loaded), expected.clone())?;
    log.snapshot(&loaded.state).await.map_err(say)?;
    place.remove(&place.record(1)).await?;
    same("keys from a snapshot", live(&log.load().await.map_err(say)?), expected)
}
