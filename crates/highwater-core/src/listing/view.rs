//! What is known of one source's files: the last complete listing of each prefix. Knows no schedule and no store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::file::{FileVersion, SeenFile, is_hidden};
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
    /// Its partition; `None` in a reference source.
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
    changed: BTreeSet<Arc<str>>,
    appeared_again: BTreeSet<Arc<str>>,
    first_listed: BTreeSet<Arc<str>>,
}

impl View {
    /// Takes in one complete listing of `prefix`, begun at `at`. Files that are not data are counted and named.
    pub fn listed(&mut self, policy: &SourcePolicy, prefix: &str, at: Timestamp, mut seen: Vec<SeenFile>) {
        let mut fresh = PrefixView { listed_at: Some(at), ..PrefixView::default() };
        let known = self.prefixes.remove(prefix);
        let relisted = known.as_ref().is_some_and(|known| known.listed_at.is_some());
        if !relisted {
            self.first_listed.insert(prefix.into());
        }
        // The store's order means nothing, not even for which names stand in an alarm.
        seen.sort_unstable_by(|a, b| a.version.path.cmp(&b.version.path));
        for file in seen {
            if is_hidden(&file.version.path) {
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
            let before = self.files.insert(path.clone(), placed);
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
                self.files.remove(path);
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
                self.files.remove(&path);
            }
        }
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
        TimePolicy::Partitioned(time) => {
            let located = time.layout.locate(path).map_err(|misplaced| misplaced.to_string())?;
            Ok(Some(time.calendar.holding_civil(located.civil)))
        }
    }
}
