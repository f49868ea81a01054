//! How a version of a local file is known: by what the file system says of it, and by its bytes while that alone could
//! lie. Opens no file and reads no clock.
//!
//! A file's etag is `SECONDS.NANOS-INODE` of its change time (which, unlike the modification time, nobody can set), and
//! stands beside its size. Two writes within one tick of the kernel's clock can leave all of this equal, so a file that
//! changed within the last [`RECENT`] is read and its BLAKE3 hash is added:
//!
//! - `…#HASH` when the hash was taken so long after the change that a later write must show another change time
//!   ([`tick`]). Such an etag stands for as long as the change time does; nothing is read again, not even after a restart.
//! - `…~HASH` when it was taken within that tick. The file is read once more when it is quiet. Equal bytes keep the etag
//!   as it is, text and all, so a file does not look replaced merely because it grew older; other bytes are a new version.
//!
//! What was read is remembered in [`Marks`], and a new process learns it from the etags pinned in the log
//! ([`Marks::remember`]). Without that, a file that was new when it was pinned would look like another version once old.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use highwater_core::{FileVersion, Timestamp};
use jiff::SignedDuration;

/// A file that changed no longer ago than this is read.
const RECENT: SignedDuration = SignedDuration::from_secs(2);
/// How far ahead of our clock a change time may be and still count as now; one further ahead cannot be written again.
const AHEAD: SignedDuration = SignedDuration::from_secs(60);
/// Ten times the longest tick of a kernel that keeps nanoseconds.
const FINE_TICK: SignedDuration = SignedDuration::from_millis(100);
/// How many files may be remembered; beyond it the longest unchanged ones are forgotten, at the price of a read.
const MARKS: usize = 1 << 20;

/// What the file system says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    seconds: i64,
    nanos: i64,
    inode: u64,
    /// Length in bytes.
    pub(super) size: u64,
}

impl Stat {
    /// Taken from metadata. The device is left out: its number changes when a disk is mounted anew.
    pub(super) fn of(meta: &Metadata) -> Self {
        Self { seconds: meta.ctime(), nanos: meta.ctime_nsec(), inode: meta.ino(), size: meta.size() }
    }

    /// `now` less the change time.
    fn age(&self, now: Timestamp) -> SignedDuration {
        let changed = i32::try_from(self.nanos).ok().and_then(|nanos| Timestamp::new(self.seconds, nanos).ok());
        changed.map_or(SignedDuration::MAX, |changed| now.duration_since(changed))
    }

    /// How long another write may still leave the same change time. Whole milliseconds mean a file system that keeps
    /// coarse times; the coarsest in use keeps two seconds.
    fn tick(&self) -> SignedDuration {
        if self.nanos % 1_000_000 == 0 { RECENT } else { FINE_TICK }
    }

    fn is_recent(&self, now: Timestamp) -> bool {
        let age = self.age(now);
        age < RECENT && age > -AHEAD
    }

    fn is_quiet(&self, now: Timestamp) -> bool {
        let age = self.age(now);
        age >= self.tick() || age <= -AHEAD
    }

    fn etag(&self) -> String {
        format!("{}.{:09}-{:x}", self.seconds, self.nanos, self.inode)
    }
}

/// The first half of a BLAKE3 hash, as hexadecimal text.
pub(super) fn digest(hash: &blake3::Hash) -> Arc<str> {
    hash.to_hex()[..32].into()
}

/// What an etag of a local file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// What the file system said.
    pub(super) stat: Stat,
    /// The hash of the bytes, where they were read.
    pub(super) digest: Option<Arc<str>>,
    /// False for a hash that was taken within the tick of the change.
    certain: bool,
}

impl Identity {
    /// Reads a version's etag; `None` if it is not one of a local file.
    pub(super) fn parse(version: &FileVersion) -> Option<Self> {
        let etag = &*version.etag;
        let (stat, digest, certain) = match etag.split_once(['#', '~']) {
            Some((stat, digest)) => (stat, Some(digest.into()), etag.contains('#')),
            None => (etag, None, true),
        };
        let (changed, inode) = stat.rsplit_once('-')?;
        let (seconds, nanos) = changed.rsplit_once('.')?;
        let stat = Stat {
            seconds: seconds.parse().ok()?,
            nanos: nanos.parse().ok()?,
            inode: u64::from_str_radix(inode, 16).ok()?,
            size: version.size,
        };
        Some(Self { stat, digest, certain })
    }
}

/// What to do about a listed file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// This is its etag.
    Etag(Arc<str>),
    /// Read it, then ask [`Marks::was_read`].
    Read,
}

#[derive(Clone, Debug)]
struct Mark {
    stat: Stat,
    digest: Arc<str>,
    /// As the etag says.
    certain: bool,
    /// The bytes were seen after the tick: no need to look again.
    settled: bool,
}

impl Mark {
    fn etag(&self) -> Arc<str> {
        format!("{}{}{}", self.stat.etag(), if self.certain { '#' } else { '~' }, self.digest).into()
    }
}

/// The files of one location that were read for their hash, by path.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<Arc<str>, Mark>);

impl Marks {
    /// Takes over what pinned etags say of files.
    pub(super) fn remember<'a>(&mut self, versions: impl IntoIterator<Item = &'a FileVersion>) {
        for version in versions {
            let Some(Identity { stat, digest: Some(digest), certain }) = Identity::parse(version) else { continue };
            let known = self.0.get(&version.path).is_some_and(|mark| mark.stat == stat && mark.digest == digest);
            if !known {
                self.put(&version.path, Mark { stat, digest, certain, settled: certain });
            }
        }
    }

    /// What to do about a file, given a clock read before its metadata.
    pub(super) fn decide(&self, path: &str, stat: &Stat, now: Timestamp) -> Decision {
        if stat.size == 0 {
            return Decision::Etag(stat.etag().into());
        }
        match self.0.get(path).filter(|mark| mark.stat == *stat) {
            Some(mark) if mark.settled => Decision::Etag(mark.etag()),
            Some(_) => Decision::Read,
            None if stat.is_recent(now) => Decision::Read,
            None => Decision::Etag(stat.etag().into()),
        }
    }

    /// Notes a file's hash, given a clock read before the file was opened; answers its etag.
    pub(super) fn was_read(&mut self, path: &str, stat: Stat, digest: Arc<str>, now: Timestamp) -> Arc<str> {
        let quiet = stat.is_quiet(now);
        if let Some(mark) = self.0.get_mut(path)
            && mark.stat == stat
            && mark.digest == digest
        {
            mark.settled |= quiet;
            return mark.etag();
        }
        let mark = Mark { stat, digest, certain: quiet, settled: quiet };
        let etag = mark.etag();
        self.put(path, mark);
        etag
    }

    /// The etag of a file that cannot be read: its reader is to find out.
    pub(super) fn unread(stat: &Stat) -> Arc<str> {
        stat.etag().into()
    }

    /// Forgets one file.
    pub(super) fn forget(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// Forgets the files below `prefix` that a complete listing did not find.
    pub(super) fn keep(&mut self, prefix: &str, found: &dyn Fn(&str) -> bool) {
        let below = self
            .0
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(path, _)| path.starts_with(prefix));
        let gone: Vec<Arc<str>> = below.filter(|(path, _)| !found(path)).map(|(path, _)| Arc::clone(path)).collect();
        for path in gone {
            self.0.remove(&path);
        }
    }

    fn put(&mut self, path: &str, mark: Mark) {
        self.0.insert(path.into(), mark);
        if self.0.len() > MARKS {
            let mut changes: Vec<i64> = self.0.values().map(|mark| mark.stat.seconds).collect();
            let (_, median, _) = changes.select_nth_unstable(MARKS / 2);
            let median = *median;
            self.0.retain(|_, mark| mark.stat.seconds > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(changed: &str, size: u64) -> Stat {
        let changed: Timestamp = changed.parse().unwrap();
        Stat { seconds: changed.as_second(), nanos: changed.subsec_nanosecond().into(), inode: 7, size }
    }

    fn at(second: &str) -> Timestamp {
        format!("2024-05-01T10:00:{second}Z").parse().unwrap()
    }

    fn version(size: u64, etag: Arc<str>) -> FileVersion {
        FileVersion { path: "a".into(), size, etag }
    }

    const NEW: &str = "2024-05-01T10:00:00.000012345Z";

    #[test]
    fn an_old_file_is_known_without_reading() {
        let marks = Marks::default();
        assert_eq!(marks.decide("a", &stat(NEW, 5), at("02.1")), Decision::Etag("1714557600.000012345-7".into()));
        assert_eq!(marks.decide("a", &stat(NEW, 0), at("00.1")), Decision::Etag("1714557600.000012345-7".into()));
    }

    #[test]
    fn a_new_file_is_read_once_when_its_tick_is_over() {
        let mut marks = Marks::default();
        assert_eq!(marks.decide("a", &stat(NEW, 5), at("00.5")), Decision::Read);
        let etag = marks.was_read("a", stat(NEW, 5), "h1".into(), at("00.5"));
        assert_eq!(&*etag, "1714557600.000012345-7#h1");
        for later in ["00.6", "01.9", "30"] {
            assert_eq!(marks.decide("a", &stat(NEW, 5), at(later)), Decision::Etag(Arc::clone(&etag)), "{later}");
        }
    }

    #[test]
    fn within_its_tick_a_file_is_read_again_and_keeps_its_etag() {
        let mut marks = Marks::default();
        let first = marks.was_read("a", stat(NEW, 5), "h1".into(), at("00.01"));
        assert_eq!(&*first, "1714557600.000012345-7~h1");
        assert_eq!(marks.decide("a", &stat(NEW, 5), at("00.05")), Decision::Read);
        assert_eq!(marks.was_read("a", stat(NEW, 5), "h1".into(), at("00.05")), first);
        assert_eq!(marks.decide("a", &stat(NEW, 5), at("09")), Decision::Read, "not yet seen quiet");
        assert_eq!(marks.was_read("a", stat(NEW, 5), "h1".into(), at("09")), first);
        assert_eq!(marks.decide("a", &stat(NEW, 5), at("10")), Decision::Etag(first));
    }

    #[test]
    fn a_rewrite_that_leaves_no_trace_is_another_version() {
        let mut marks = Marks::default();
        let first = marks.was_read("a", stat(NEW, 5), "h1".into(), at("00.01"));
        let second = marks.was_read("a", stat(NEW, 5), "h2".into(), at("09"));
        assert_ne!(first, second);
        assert_eq!(marks.decide("a", &stat(NEW, 5), at("10")), Decision::Etag(second));
    }

    #[test]
    fn coarse_times_need_the_whole_two_seconds() {
        let coarse = "2024-05-01T10:00:00Z";
        let mut marks = Marks::default();
        assert!(marks.was_read("a", stat(coarse, 5), "h1".into(), at("01.5")).contains('~'));
        assert_eq!(marks.decide("a", &stat(coarse, 5), at("01.9")), Decision::Read);
    }

    #[test]
    fn a_clock_behind_the_file_counts_as_now_and_one_far_behind_as_old() {
        let marks = Marks::default();
        assert_eq!(marks.decide("a", &stat(NEW, 5), "2024-05-01T09:59:30Z".parse().unwrap()), Decision::Read);
        assert!(matches!(marks.decide("a", &stat(NEW, 5), "2024-05-01T08:00:00Z".parse().unwrap()), Decision::Etag(_)));
    }

    #[test]
    fn a_new_process_keeps_pinned_etags() {
        let mut before = Marks::default();
        let certain = before.was_read("a", stat(NEW, 5), "h1".into(), at("00.5"));
        let mut after = Marks::default();
        after.remember([&version(5, Arc::clone(&certain))]);
        assert_eq!(after.decide("a", &stat(NEW, 5), at("30")), Decision::Etag(certain));

        let mut before = Marks::default();
        let hasty = before.was_read("a", stat(NEW, 5), "h1".into(), at("00.01"));
        let mut after = Marks::default();
        after.remember([&version(5, Arc::clone(&hasty))]);
        assert_eq!(after.decide("a", &stat(NEW, 5), at("30")), Decision::Read, "it may have changed since");
        assert_eq!(after.was_read("a", stat(NEW, 5), "h1".into(), at("30")), hasty);
        after.remember([&version(5, Arc::clone(&hasty))]);
        assert_eq!(after.decide("a", &stat(NEW, 5), at("31")), Decision::Etag(hasty), "what was seen since stands");
    }

    #[test]
    fn a_complete_listing_forgets_what_is_gone() {
        let mut marks = Marks::default();
        for path in ["p/a", "p/b", "q/a"] {
            marks.was_read(path, stat(NEW, 5), "h".into(), at("00.5"));
        }
        marks.keep("p/", &|path| path == "p/b");
        assert_eq!(marks.0.keys().map(|path| &**path).collect::<Vec<_>>(), ["p/b", "q/a"]);
    }
}
