//! `kill -9` at random moments against a lake that keeps growing, and during `once`: one batch converges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::lake::{Background, Dice, Lake, SECONDS, SECONDS_SQL, batches, eventually, land, rows};

const ROUNDS: usize = 20;
const LIMIT: Duration = Duration::from_secs(240);

/// Lands files until it is dropped: new ones, replaced ones, late ones, and now and then takes one away.
struct Feeder {
    files: Arc<AtomicU64>,
    _work: Background,
}

impl Feeder {
    fn start(lake: &Lake) -> Self {
        let files = Arc::new(AtomicU64::new(0));
        let (items, events) = (lake.path("lake"), lake.path("events"));
        let (count, mut dice) = (files.clone(), Dice(0x9e37_79b9_7f4a_7c15));
        let work = Background::start(move || {
            let n = count.fetch_add(1, Ordering::Relaxed);
            let now = jiff::Timestamp::now();
            let at = now - jiff::SignedDuration::from_secs((dice.roll(4) * dice.roll(20)).cast_signed());
            let id = format!("i{}", dice.roll(200));
            // Most files are new; now and then one is written again, or taken away.
            let name = format!("f{}.ndjson", if dice.roll(10) == 0 { dice.roll(4) } else { n });
            let path = items.join(at.strftime("dt=%Y-%m-%d/hr=%H/min=%M/s=%S").to_string()).join(name);
            match dice.roll(4) {
                0 if path.exists() => std::fs::remove_file(&path).unwrap(),
                _ => land(&path, rows(&[(&id, &n.to_string())]).as_bytes()),
            }
            let line = format!("{{\"id\":\"i{}\",\"n\":{n}}}\n", dice.roll(200));
            land(&events.join(now.strftime("%Y%m%d/%H%M").to_string()).join(format!("e{n}.ndjson")), line.as_bytes());
            std::thread::sleep(Duration::from_millis(20 + dice.roll(60)));
        });
        Self { files, _work: work }
    }
}

/// Equal, as soon as no pinned version was replaced between the batch and the look; never different.
fn verify_while_it_grows(lake: &Lake) {
    eventually("a proof", LIMIT, || {
        let output = lake.run(&["verify", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_ne!(report["equal"], false, "{report}");
        (report["equal"] == true).then_some(())
    });
}

#[test]
fn twenty_kills_while_the_lake_grows() {
    let lake = Lake::new(SECONDS, SECONDS_SQL);
    std::fs::create_dir_all(lake.path("events")).unwrap();
    let feeder = Feeder::start(&lake);
    let mut dice = Dice(42);
    eventually("files to land", LIMIT, || (feeder.files.load(Ordering::Relaxed) > 20).then_some(()));
    for round in 0..ROUNDS {
        let before = batches(&std::fs::read_to_string(lake.path("run.log")).unwrap_or_default());
        let run = lake.spawn(&["run", "--json"]);
        eventually(&format!("a batch after restart {round}:\n{}", run.log()), LIMIT, || {
            (batches(&run.log()) > before).then_some(())
        });
        verify_while_it_grows(&lake);
        // Any moment of a batch or between two may be hit: that is the point of the wait's randomness.
        std::thread::sleep(Duration::from_millis(dice.roll(700)));
        run.kill();
    }
    let run = lake.spawn(&["run", "--json"]);
    drop(feeder);
    let settled = batches(&run.log());
    eventually("a batch after the lake stopped growing", LIMIT, || (batches(&run.log()) > settled).then_some(()));
    eventually("the index to hold what the store holds", LIMIT, || {
        let output = lake.run(&["verify", "--relist", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).ok()?;
        (report["equal"] == true).then_some(())
    });
    run.kill();
}

#[test]
fn once_killed_at_random_and_run_again_changes_nothing() {
    let lake = Lake::items();
    let reference = Lake::items();
    let mut dice = Dice(7);
    for minute in 0..12 {
        let file = format!("dt=2024-05-01/hr=10/min={minute:02}/a.ndjson");
        let content: String = (0..500).map(|n| rows(&[(&format!("{}", (minute * 311 + n) % 4000), "x")])).collect();
        lake.land(&file, &content);
        reference.land(&file, &content);
        let now = format!("2024-05-01T10:{:02}:30Z", minute + 1);
        let run = lake.spawn(&["once", "--now", &now]);
        std::thread::sleep(Duration::from_millis(dice.roll(400)));
        run.kill();
        lake.once(&now);
        reference.once(&now);
        assert_eq!(lake.dump(), reference.dump(), "after {now}");
    }
    lake.verify_equal();
}

/// Hits the writer while it puts a commit together: from the first new file in the index on, a little later each time.
#[test]
fn a_writer_killed_in_the_middle_of_a_commit_leaves_the_last_one() {
    let lake = Lake::items();
    let mut dice = Dice(11);
    let index = lake.path("index/generations/g1/index");
    let names = || -> Vec<std::ffi::OsString> {
        let entries = std::fs::read_dir(&index).into_iter().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.sort();
        names
    };
    for round in 0..ROUNDS {
        // The same thousands of documents, each time with other words in a half of them.
        let content: String = (0..3_000)
            .map(|n| rows(&[(&n.to_string(), &format!("word{}", if n % 2 == round % 2 { 0 } else { round }))]))
            .collect();
        lake.land("dt=2024-05-01/hr=10/min=00/a.ndjson", &content);
        let now = format!("2024-05-01T10:{:02}:30Z", round + 1);
        let (before, run) = (names(), lake.spawn(&["once", "--now", &now]));
        // The file of the writer's lock, and those that its start clears away, change too: those moments are welcome.
        eventually("a change in the index", LIMIT, || (names() != before).then_some(()));
        std::thread::sleep(Duration::from_millis(dice.roll(250)));
        run.kill();
        let report: Value = lake.once(&now);
        assert_eq!(report["documents"], 3_000, "round {round}: {report}");
        lake.verify_equal();
    }
}

#[test]
fn sigterm_ends_run_cleanly_and_a_second_run_is_refused_meanwhile() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let lake = Lake::new(&format!("{SECONDS}\n[serve]\nlisten = \"{port}\"\n"), SECONDS_SQL);
    std::fs::create_dir_all(lake.path("events")).unwrap();
    let feeder = Feeder::start(&lake);
    let mut run = lake.spawn(&["run", "--json"]);
    eventually("a first batch", LIMIT, || (batches(&run.log()) > 0).then_some(()));
    let second = lake.run(&["run"]);
    assert_eq!(second.status.code(), Some(4), "{}", crate::lake::text(&second));
    assert!(crate::lake::text(&second).contains("held by host"), "{}", crate::lake::text(&second));
    run.signal("TERM");
    assert_eq!(run.wait(LIMIT).code(), Some(0), "{}", run.log());
    drop(feeder);
    // What was replaced after the last batch is gone in the version that it pinned.
    assert!(lake.run(&["once"]).status.success());
    lake.verify_equal();
}
