//! What is known of one source's files: the last complete listing of each prefix. Knows no schedule and no store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::Snapshots;
use crate::file::{BASE, FileVersion, SeenFile, below_base, is_hidden};
use crate::partition::Partition;
use crate::policy::{SourcePolicy, TimePolicy};

/// How many names a count of ignored files keeps.
const NAMED: usize = 10;

/// A file of the source, with the partition that its path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// What identifies the content.
    pub version: FileVersion,
    /// When the store says it was written: for freshness figures only.
    pub modified: Option<Timestamp>,
    /// Its partition; `None` in a reference source, and in a base snapshot.
    pub partition: Option<Partition>,
}

/// Files that were seen and are not data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// How many.
    pub count: u64,
    /// The first few, with a word on why.
    pub named: Vec<String>,
}

impl Ignored {
    fn add(&mut self, path: &str, why: &str) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(format!("{path}: {why}"));
        }
    }
}

#[derive(Clone, Debug, Default)]
struct PrefixView {
    listed_at: Option<Timestamp>,
    failed: Option<String>,
    paths: BTreeSet<Arc<str>>,
    misplaced: Ignored,
    empty: Ignored,
}

/// The view of one source.
#[derive(Clone, Debug, Default)]
pub struct View {
    prefixes: BTreeMap<Arc<str>, PrefixView>,
    files: BTreeMap<Arc<str>, Placed>,
    filled: Filled,
    changed: BTreeSet<Arc<str>>,
    appeared_again: BTreeSet<Arc<str>>,
    first_listed: BTreeSet<Arc<str>>,
    snapshots: Snapshots,
}

/// How many files the partitions hold, by their starts: kept beside the files, for every tick asks for the newest.
#[derive(Clone, Debug, Default)]
struct Filled(BTreeMap<Timestamp, Fill>);

#[derive(Clone, Debug)]
struct Fill {
    end: Timestamp,
    files: u64,
    with_bytes: u64,
}

impl Filled {
    fn add(&mut self, file: &Placed) {
        let Some(partition) = &file.partition else { return };
        let fill = self.0.entry(partition.start).or_insert(Fill { end: partition.end, files: 0, with_bytes: 0 });
        fill.files += 1;
        fill.with_bytes += u64::from(file.version.size > 0);
    }

    fn take(&mut self, file: Option<&Placed>) {
        let Some((partition, size)) = file.and_then(|file| Some((file.partition?, file.version.size))) else { return };
        let Some(fill) = self.0.get_mut(&partition.start) else { return };
        fill.files -= 1;
        fill.with_bytes -= u64::from(size > 0);
        if fill.files == 0 {
            self.0.remove(&partition.start);
        }
    }
}

impl View {
    /// Takes in one complete listing of `prefix`, begun at `at`. Files that are not data are counted and named.
    pub fn listed(&mut self, policy: &SourcePolicy, prefix: &str, at: Timestamp, mut seen: Vec<SeenFile>) {
        let mut fresh = PrefixView { listed_at: Some(at), ..PrefixView::default() };
        // The store's order means nothing, not even for which names stand in an alarm.
        seen.sort_unstable_by(|a, b| a.version.path.cmp(&b.version.path));
        if self.is_unchanged(prefix, &seen)
            && let Some(known) = self.prefixes.get_mut(prefix)
        {
            (known.listed_at, known.failed) = (Some(at), None);
            return;
        }
        let known = self.prefixes.remove(prefix);
        let relisted = known.as_ref().is_some_and(|known| known.listed_at.is_some());
        if !relisted {
            self.first_listed.insert(prefix.into());
        }
        for file in seen {
            if is_hidden(below_base(&file.version.path).unwrap_or(&file.version.path)) {
                continue;
            }
            if let Some((path, placed)) = self.files.get_key_value(&file.version.path)
                && placed.version == file.version
                && placed.modified == file.modified
            {
                if file.version.size == 0 {
                    fresh.empty.add(path, "zero bytes");
                }
                fresh.paths.insert(path.clone());
                continue;
            }
            let partition = match place(policy, &file.version.path) {
                Ok(partition) => partition,
                Err(why) => {
                    fresh.misplaced.add(&file.version.path, &why);
                    continue;
                }
            };
            if file.version.size == 0 {
                fresh.empty.add(&file.version.path, "zero bytes");
            }
            let path = file.version.path.clone();
            let placed = Placed { version: file.version, modified: file.modified, partition };
            self.filled.add(&placed);
            let before = self.files.insert(path.clone(), placed);
            self.filled.take(before.as_ref());
            let same = before
                .as_ref()
                .is_some_and(|before| Some(&before.version) == self.files.get(&path).map(|f| &f.version));
            if !same {
                self.changed.insert(path.clone());
            }
            if before.is_none() && relisted {
                self.appeared_again.insert(path.clone());
            }
            fresh.paths.insert(path);
        }
        if let Some(known) = known {
            for path in known.paths.difference(&fresh.paths) {
                self.filled.take(self.files.remove(path).as_ref());
                self.changed.insert(path.clone());
            }
        }
        self.prefixes.insert(prefix.into(), fresh);
    }

    /// Notes that a look at `prefix` failed; what is known of it stands.
    pub fn failed(&mut self, prefix: &str, why: String) {
        self.prefixes.entry(prefix.into()).or_default().failed = Some(why);
    }

    /// Before a look at everything: what failed earlier is looked at anew, or is no concern of the live range.
    pub fn forget_failures(&mut self) {
        for view in self.prefixes.values_mut() {
            view.failed = None;
        }
    }

    /// A look at a folder that is not itself listed for files succeeded.
    pub fn mended(&mut self, prefix: &str) {
        if self.prefixes.get(prefix).is_some_and(|view| view.listed_at.is_none()) {
            self.prefixes.remove(prefix);
        }
    }

    /// When `prefix` was last listed completely.
    pub fn listed_at(&self, prefix: &str) -> Option<Timestamp> {
        self.prefixes.get(prefix)?.listed_at
    }

    /// Every file known, by path.
    pub fn files(&self) -> &BTreeMap<Arc<str>, Placed> {
        &self.files
    }

    /// The files below a prefix, in path order.
    pub fn below(&self, prefix: &str) -> impl Iterator<Item = &Placed> {
        let from = self.files.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.map(|(_, file)| file).take_while(move |file| file.version.path.starts_with(prefix))
    }

    /// The base snapshots that there are.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Takes in a complete look at the base's folders.
    pub fn found_snapshots(&mut self, snapshots: Snapshots) {
        self.snapshots = snapshots;
    }

    /// Paths that appeared, vanished or changed since they were last [`View::settled`], and those still ahead of time.
    pub fn changed(&self) -> &BTreeSet<Arc<str>> {
        &self.changed
    }

    /// Paths that appeared in a prefix that had been listed completely before.
    pub fn arrivals(&self) -> &BTreeSet<Arc<str>> {
        &self.appeared_again
    }

    /// Prefixes that were completely listed for the first time since the view was last [`View::settled`].
    pub fn first_listed(&self) -> &BTreeSet<Arc<str>> {
        &self.first_listed
    }

    /// Forgets changes that a batch at `clock` took in, or that are no concern of the live range. Files of partitions
    /// that had not begun then may be its concern later.
    pub fn settled(&mut self, clock: Timestamp) {
        let files = &self.files;
        let ahead = |file: &Placed| file.partition.is_some_and(|partition| partition.start > clock);
        self.changed.retain(|path| files.get(path).is_some_and(ahead));
        self.appeared_again.clear();
        self.first_listed.clear();
    }

    /// Prefixes whose last look failed, with the reasons.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.prefixes.iter().filter_map(|(prefix, view)| Some((&**prefix, view.failed.as_deref()?)))
    }

    /// Files whose path does not fit the layout.
    pub fn misplaced(&self) -> Ignored {
        self.collect(|view| &view.misplaced)
    }

    /// Files of zero bytes.
    pub fn empty(&self) -> Ignored {
        self.collect(|view| &view.empty)
    }

    /// Keeps only what `keep` wants to know, by prefix.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        let gone: Vec<Arc<str>> = self.prefixes.keys().filter(|prefix| !keep(prefix)).cloned().collect();
        for prefix in gone {
            for path in self.prefixes.remove(&prefix).into_iter().flat_map(|view| view.paths) {
                self.filled.take(self.files.remove(&path).as_ref());
            }
        }
    }

    /// End of the newest partition that starts at or before `latest` and has a file with bytes in it, those files not
    /// counted that are `broken` in the very version that was seen.
    pub fn newest_end<'a>(
        &self,
        latest: Timestamp,
        broken: impl Iterator<Item = &'a FileVersion>,
    ) -> Option<Timestamp> {
        let mut but: BTreeMap<Timestamp, u64> = BTreeMap::new();
        for version in broken.filter(|version| version.size > 0) {
            let seen = self.files.get(&version.path).filter(|file| file.version == *version);
            if let Some(partition) = seen.and_then(|file| file.partition) {
                *but.entry(partition.start).or_default() += 1;
            }
        }
        let begun = self.filled.0.range(..=latest).rev();
        let mut sound = begun.filter(|(start, fill)| fill.with_bytes > but.get(start).copied().unwrap_or_default());
        sound.next().map(|(_, fill)| fill.end)
    }

    /// True if a file lies in a partition that starts after `latest`.
    pub fn reaches_beyond(&self, latest: Timestamp) -> bool {
        self.filled.0.last_key_value().is_some_and(|(start, _)| *start > latest)
    }

    /// True if the last complete listing of the prefix saw the same, so that nothing has to be placed anew: in a quiet
    /// hour nearly every look ends here. `seen` is in path order.
    fn is_unchanged(&self, prefix: &str, seen: &[SeenFile]) -> bool {
        let Some(known) = self.prefixes.get(prefix) else { return false };
        // Hidden and misplaced names are not among the paths, so a listing with them is longer.
        if known.listed_at.is_none() || known.paths.len() != seen.len() {
            return false;
        }
        let below = self.files.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let same = |((file, path), placed): ((&SeenFile, &Arc<str>), &Placed)| {
            file.version == placed.version && file.modified == placed.modified && *path == file.version.path
        };
        let pairs = seen.iter().zip(&known.paths).zip(below.map(|(_, placed)| placed));
        pairs.filter(|pair| same(*pair)).count() == seen.len()
    }

    fn collect(&self, of: impl Fn(&PrefixView) -> &Ignored) -> Ignored {
        let mut all = Ignored::default();
        for ignored in self.prefixes.values().map(of) {
            all.count += ignored.count;
            let room = NAMED.saturating_sub(all.named.len());
            all.named.extend(ignored.named.iter().take(room).cloned());
        }
        all
    }
}

fn place(policy: &SourcePolicy, path: &str) -> Result<Option<Partition>, String> {
    match &policy.time {
        TimePolicy::Reference { .. } => Ok(None),
        TimePolicy::Partitioned(time) => match time.base().filter(|_| path.starts_with(BASE)) {
            Some(base) => base.time_of(path).map(|_| None),
            None => time.partition_of(path).map(Some),
        }
        .map_err(|misplaced| misplaced.to_string()),
    }
}

#[cfg(test)]
mod tests;
