//! The counts beside the files say what the files say, and a listing that saw nothing new changes nothing.

use proptest::prelude::*;

use super::*;
use crate::plan::tests::script::{at, file, source};

fn seen(files: &[(u8, u8)], hour: u8) -> Vec<SeenFile> {
    let here = files.iter().map(|(name, etag)| file(&format!("{hour:02}/{name}#{etag}")));
    here.map(|version| SeenFile { version, modified: None }).collect()
}

fn prefix(hour: u8) -> String {
    file(&format!("{hour:02}/#1")).path.to_string()
}

/// Partition by partition over all files, as [`View::newest_end`] is defined.
fn newest_by_scan(view: &View, latest: Timestamp, broken: &[FileVersion]) -> Option<Timestamp> {
    let sound = view.files().values().filter(|file| file.version.size > 0 && !broken.contains(&file.version));
    sound.filter_map(|file| file.partition).filter(|p| p.start <= latest).map(|p| p.end).max()
}

proptest! {
    #[test]
    fn the_counts_agree_with_the_files(
        listings in prop::collection::vec((0_u8..6, prop::collection::btree_map(0_u8..4, 0_u8..3, 0..4)), 1..30),
        forgotten in prop::collection::vec(0_u8..6, 0..3),
        broken in prop::collection::btree_map((0_u8..6, 0_u8..4), 0_u8..3, 0..4),
        latest in 0_u8..7,
    ) {
        let policy = source("ads", "1h", &[]);
        let mut view = View::default();
        for (hour, files) in listings {
            let files: Vec<_> = files.into_iter().collect();
            view.listed(&policy, &prefix(hour), at("10:00"), seen(&files, hour));
        }
        view.retain(|known| !forgotten.iter().any(|hour| prefix(*hour) == known));
        let broken: Vec<_> =
            broken.iter().map(|((hour, name), etag)| file(&format!("{hour:02}/{name}#{etag}"))).collect();
        let latest = at(&format!("{latest:02}:00"));
        prop_assert_eq!(view.newest_end(latest, broken.iter()), newest_by_scan(&view, latest, &broken));
        let beyond = view.files().values().any(|file| file.partition.is_some_and(|p| p.start > latest));
        prop_assert_eq!(view.reaches_beyond(latest), beyond);
    }
}

#[test]
fn a_listing_that_saw_the_same_changes_nothing_but_its_time() {
    let policy = source("ads", "1h", &[]);
    let mut view = View::default();
    let mut list = |files: &[(u8, u8)], time: &str| {
        view.listed(&policy, &prefix(7), at(time), seen(files, 7));
        let changed = view.changed().iter().map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
        let changed: Vec<String> = changed.collect();
        assert_eq!(view.listed_at(&prefix(7)), Some(at(time)));
        view.settled(at("12:00"));
        changed.join(" ")
    };
    assert_eq!(list(&[(1, 1), (2, 1)], "10:00"), "1 2");
    assert_eq!(list(&[(1, 1), (2, 1)], "10:01"), "");
    assert_eq!(list(&[(1, 1), (2, 2)], "10:02"), "2", "another version");
    assert_eq!(list(&[(2, 2), (3, 1)], "10:03"), "1 3", "as many names, not the same");
    assert_eq!(list(&[(2, 2)], "10:04"), "3", "the last one vanished");
    assert_eq!(list(&[(2, 2), (4, 1)], "10:05"), "4", "one came");
    assert_eq!(list(&[], "10:06"), "2 4");
}

#[test]
fn a_complete_listing_ends_a_failure_though_nothing_changed() {
    let policy = source("ads", "1h", &[]);
    let mut view = View::default();
    view.listed(&policy, &prefix(7), at("10:00"), seen(&[(1, 1)], 7));
    view.failed(&prefix(7), "503".into());
    assert_eq!(view.failures().count(), 1);
    view.listed(&policy, &prefix(7), at("10:01"), seen(&[(1, 1)], 7));
    assert_eq!(view.failures().count(), 0);
}
