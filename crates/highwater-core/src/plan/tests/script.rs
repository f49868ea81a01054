//! Plans as text: a script of what is known and when it is planned, and the plans that come of it.
//!
//! One line each; all times are of one day, `10/a#1` is the file `a` of etag 1 in hour 10, `#0` one of zero bytes:
//! `source NAME STEP [window=3h] [settle=5m] [hold=1h|never] [skew=1h] [forever=02:00|base=SETTLE/MARGIN]` (or `source NAME reference`),
//! both may have `[guard=3/50%|never]` (10 files and 10 % otherwise), the reference `[settle=1m]`; `accept NAME 10:00`
//! (removals withheld since then or longer, in the next plans; `accept NAME never` ends it), `on_lag RULE`, `W 10:00`, `clock 10:05`, `E NAME 07:00`, `newest NAME 10:00`, `live NAME FILE…`,
//! `quarantined NAME FILE since=10:00 attempts=1`, `list NAME 07-10 at 10:10: FILE…` (complete listings of these
//! hours), `fail NAME 09`, `unreadable NAME FILE` (its bytes are broken: batches that read it set it aside), then
//! `plan 10:10` (shows a plan), `tick 10:10` (shows it and commits it) or `pass 10:10` (commits it unseen), and `ledger`
//! (shows which holes are open, and which have ended since the last `ledger`). `snapshots NAME 06 08` tells which base
//! snapshots there are, by hour; a file of the one of hour 6 is `@06/a#1`, and `list NAME @06 at 10:10: FILE…` lists it. A number of bytes stands behind a colon,
//! `10/a#1:500`; a day in front of a time, `2T10:00`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::super::*;
use crate::file::{BASE, SeenFile};
use crate::listing::{Snapshot, SourceLister};
use crate::log::{BatchRecord, Cursor, FORMAT, Record, Sequence, SourceState, WriterId};
use crate::partition::{Calendar, Layout};
use crate::policy::{BasePolicy, Partitioned, Retention, TimePolicy};
use crate::policy::{Guard, GuardLimit};
use crate::receipt::Receipt;

const DAY: &str = "2026-05-01";

/// The plans of a script, with the day left out.
pub fn check(script: &str) -> String {
    run(script).1
}

/// The world after a script, and its plans.
pub fn run(script: &str) -> (World, String) {
    let mut world = World::default();
    let mut shown = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ledger"] => shown += &world.ledger(),
            ["pass", now] => {
                let plan = world.plan(at(now)).unwrap();
                world.commit(&plan);
            }
            ["plan", now] => shown += &show(&world.plan(at(now))),
            ["tick", now] => {
                let plan = world.plan(at(now));
                shown += &show(&plan);
                if let Ok(plan) = plan {
                    world.commit(&plan);
                }
            }
            _ => world.learn(&words),
        }
    }
    let shown = shown.replace(&format!("{DAY}T"), "").replace(&format!("{DAY}/"), "").replace(":00Z", "");
    (world, shown)
}

fn show(plan: &Result<Plan, Unplanned>) -> String {
    match plan {
        Ok(plan) => plan.to_string(),
        Err(why) => format!("{why}\n"),
    }
}

/// What a planner sees of one pipeline, over several ticks.
pub struct World {
    pub state: PipelineState,
    pub policy: PipelinePolicy,
    pub sources: BTreeMap<SourceName, Known>,
    pub committed: bool,
    /// Versions that no batch can read.
    pub unreadable: BTreeSet<FileVersion>,
    /// Ended holes that were shown.
    pub told: usize,
}

/// One source.
pub struct Known {
    pub lister: SourceLister,
    pub view: View,
    pub accepted: Option<Timestamp>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            state: PipelineState::default(),
            policy: pipeline("1h"),
            sources: BTreeMap::new(),
            committed: false,
            unreadable: BTreeSet::new(),
            told: 0,
        }
    }
}

impl World {
    fn learn(&mut self, words: &[&str]) {
        match words {
            ["source", name, step, options @ ..] => self.add(source(name, step, options)),
            ["on_lag", "halt"] => self.policy.on_lag = OnLag::Halt,
            ["on_lag", "catch_up"] => self.policy.on_lag = OnLag::CatchUp,
            ["W", time] => self.state.watermark = Some(at(time)),
            ["clock", time] => self.state.clock = Some(at(time)),
            ["E", name, time] => self.state_of(name).evict_before = Some(at(time)),
            ["newest", name, time] => self.state_of(name).newest_end = Some(at(time)),
            ["live", name, files @ ..] => {
                let files = files.iter().map(|text| file(text)).map(|file| (file.path.clone(), file));
                self.state_of(name).live = Arc::new(files.collect());
            }
            ["quarantined", name, text, since, attempts] => {
                let entry = Quarantined {
                    source: SourceName::new(*name),
                    version: file(text),
                    reason: "broken".into(),
                    since: at(since.strip_prefix("since=").unwrap()),
                    attempts: attempts.strip_prefix("attempts=").unwrap().parse().unwrap(),
                };
                self.state_of(name).quarantined.insert(entry.version.path.clone(), entry);
            }
            ["list", name, snapshot, "at", time, files @ ..] if snapshot.starts_with('@') => {
                let files = files.iter().map(|text| file(text)).collect();
                let prefix = base_folder(snapshot.trim_start_matches('@'));
                self.listed(name, &prefix, at(time.trim_end_matches(':')), files);
            }
            ["list", name, hours, "at", time, files @ ..] => {
                let (from, to) = hours.split_once('-').unwrap_or((*hours, *hours));
                let files: Vec<FileVersion> = files.iter().map(|text| file(text)).collect();
                for hour in from.parse::<u8>().unwrap()..=to.parse().unwrap() {
                    let prefix = format!("{DAY}/{hour:02}/");
                    let here = files.iter().filter(|file| file.path.starts_with(&prefix)).cloned();
                    self.listed(name, &prefix, at(time.trim_end_matches(':')), here.collect());
                }
            }
            ["snapshots", name, hours @ ..] => {
                let snapshot =
                    |hour: &&str| Snapshot { time: at(&format!("{hour}:00")), prefix: base_folder(hour).into() };
                let found = hours.iter().map(snapshot).collect();
                self.view(name).found_snapshots(found);
            }
            ["list-all", name, "at", time, files @ ..] => {
                let files = files.iter().map(|text| file(text)).collect();
                self.listed(name, "", at(time.trim_end_matches(':')), files);
            }
            ["accept", name, time] => {
                let accepted = (*time != "never").then(|| at(time));
                self.sources.get_mut(&SourceName::new(*name)).unwrap().accepted = accepted;
            }
            ["unreadable", _, text] => {
                self.unreadable.insert(file(text));
            }
            ["fail", name, hour] => self.view(name).failed(&format!("{DAY}/{hour}/"), "out of reach".into()),
            _ => panic!("not a line of a script: {words:?}"),
        }
    }

    pub fn add(&mut self, policy: SourcePolicy) {
        let name = policy.name.clone();
        let lister = SourceLister::new(policy, Duration::from_secs(1));
        self.sources.insert(name, Known { lister, view: View::default(), accepted: None });
    }

    pub fn view(&mut self, name: &str) -> &mut View {
        &mut self.sources.get_mut(&SourceName::new(name)).unwrap().view
    }

    pub fn listed(&mut self, name: &str, prefix: &str, at: Timestamp, files: Vec<FileVersion>) {
        let known = self.sources.get_mut(&SourceName::new(name)).unwrap();
        let seen = files.into_iter().map(|version| SeenFile { version, modified: None }).collect();
        known.view.listed(&known.lister.policy().clone(), prefix, at, seen);
    }

    fn state_of(&mut self, name: &str) -> &mut SourceState {
        self.state.sources.entry(SourceName::new(name)).or_default()
    }

    /// The plan; once something was committed, planned from the changes alone, which must give the same.
    pub fn plan(&self, now: Timestamp) -> Result<Plan, Unplanned> {
        let all = self.plan_in(now, Scope::All);
        if self.committed {
            assert_eq!(self.plan_in(now, Scope::Changed), all, "planned from the changes, and from everything");
        }
        all
    }

    fn plan_in(&self, now: Timestamp, scope: Scope) -> Result<Plan, Unplanned> {
        let mut facts = BTreeMap::new();
        for (name, known) in &self.sources {
            let (policy, prefixes) = (known.lister.policy(), known.lister.prefixes());
            facts.insert(
                name.clone(),
                Facts {
                    policy,
                    view: &known.view,
                    prefixes,
                    accepted: known.accepted,
                    backfill: policy.backfill(None),
                },
            );
        }
        plan(now, &self.state, &facts, &self.policy, scope)
    }

    /// What the driver does with a plan whose batch goes well.
    pub fn commit(&mut self, plan: &Plan) {
        let sources: BTreeMap<SourceName, Cursor> = match plan.changes() {
            true => plan
                .sources
                .iter()
                .map(|(name, planned)| (name.clone(), self.cursor(name, planned, plan.clock)))
                .collect(),
            false => plan.learnt(&self.state),
        };
        let policies = self.sources.values().map(|known| known.lister.policy());
        let (opened, ended) = quarantine(plan.clock, &self.state, &sources, policies);
        let (watermark, holes) = (plan.watermark, [plan.holes.clone(), opened].concat());
        let closed = [plan.closed.clone(), ended].concat();
        let body = if plan.changes() {
            crate::log::Body::Batch(Box::new(BatchRecord {
                watermark,
                sources,
                receipt: Receipt::default(),
                holes,
                closed,
                alarms: Vec::new(),
                requests: Default::default(),
                spec: None,
                freshness_ms: Vec::new(),
            }))
        } else {
            crate::log::Body::Advance { watermark, holes, closed, sources, alarms: Vec::new() }
        };
        let writer = WriterId("w".into());
        let seq = self.state.next();
        self.state.apply(&Record { format: FORMAT, seq, writer, epoch: Sequence(1), clock: plan.clock, body });
        if !plan.catching_up {
            self.sources.values_mut().for_each(|known| known.view.settled(plan.clock));
            self.committed = true;
        }
    }

    /// Of a batch that set aside what it could not read.
    fn cursor(&self, source: &SourceName, planned: &SourcePlan, since: Timestamp) -> Cursor {
        let (broken, added): (Vec<_>, Vec<_>) =
            planned.added.iter().cloned().partition(|version| self.unreadable.contains(version));
        let paths: BTreeSet<&Arc<str>> = planned.added.iter().map(|version| &version.path).collect();
        let gone = planned.dropped.iter().filter(|version| !paths.contains(&version.path));
        let known = self.state.sources.get(source).map(|state| state.quarantined.clone()).unwrap_or_default();
        let reason = "broken".to_owned();
        let failed = broken.into_iter().map(|version| match known.get(&version.path) {
            Some(entry) if entry.version == version => Quarantined { attempts: entry.attempts + 1, ..entry.clone() },
            _ => Quarantined { source: source.clone(), version, reason: reason.clone(), since, attempts: 1 },
        });
        let read = added.iter().map(|version| version.path.clone()).filter(|path| known.contains_key(path));
        Cursor {
            kind: "files".into(),
            withheld: planned.change.clone(),
            evict_before: planned.evict_before,
            newest_end: planned.newest_end,
            removed: gone.map(|version| version.path.clone()).collect(),
            quarantined: planned.quarantined.iter().cloned().chain(failed).collect(),
            released: planned.released.iter().cloned().chain(read).collect(),
            added,
        }
    }

    /// Open holes, then those that ended since they were last told.
    fn ledger(&mut self) -> String {
        let mut lines: Vec<String> = Vec::new();
        let line = |hole: &Hole| {
            let path = hole.path.as_ref().map_or(String::new(), |path| format!(" ({path})"));
            let detail = hole.detail.as_ref().map_or(String::new(), |detail| format!(": {detail}"));
            let (source, cause) = (&hole.source, hole.cause.as_str());
            format!("{cause} in {source}, {} to {}{path}{detail}, since {}", hole.from, hole.to, hole.since)
        };
        lines.extend(self.state.holes.iter().map(|hole| format!("  {}\n", line(hole))));
        let ended = &self.state.closed_holes[self.told..];
        lines.extend(ended.iter().map(|ended| format!("  {} {}\n", ended.end.as_str(), line(&ended.hole))));
        self.told = self.state.closed_holes.len();
        format!("ledger:\n{}", lines.concat())
    }
}

pub fn pipeline(step: &str) -> PipelinePolicy {
    PipelinePolicy {
        poll: Duration::from_secs(1),
        on_lag: OnLag::SkipToLatest,
        calendar: Calendar::new(length(step), TimeZone::UTC).unwrap(),
        settle: length("5m"),
    }
}

pub fn source(name: &str, step: &str, options: &[&str]) -> SourcePolicy {
    let name = SourceName::new(name);
    if step == "reference" {
        let time = TimePolicy::Reference { every: Duration::from_secs(60) };
        return SourcePolicy { name, time, guard: guard(options) };
    }
    let minutes = if length(step) < length("1h") { "/%M" } else { "" };
    let mut time = Partitioned {
        calendar: Calendar::new(length(step), TimeZone::UTC).unwrap(),
        layout: Layout::parse(&format!("%Y-%m-%d/%H{minutes}")).unwrap(),
        window: length("3h"),
        settle: length("5m"),
        hold_after: Some(length("1h")),
        max_skew: length("1h"),
        retention: Retention::Window,
        backfill: None,
    };
    for option in options {
        match option.split_once('=').unwrap() {
            ("window", value) => time.window = length(value),
            ("settle", value) => time.settle = length(value),
            ("guard", _) => {}
            ("skew", value) => time.max_skew = length(value),
            ("hold", "never") => time.hold_after = None,
            ("hold", value) => time.hold_after = Some(length(value)),
            ("forever", value) => time.retention = Retention::Since(at(value)),
            ("backfill", bytes) => time.backfill = Some(bytes.parse().unwrap()),
            ("base", value) => time.retention = Retention::Base(Box::new(base(value))),
            other => panic!("no such option: {other:?}"),
        }
    }
    SourcePolicy { name, time: TimePolicy::Partitioned(Box::new(time)), guard: guard(options) }
}

fn base(value: &str) -> BasePolicy {
    let (settle, margin) = value.split_once('/').unwrap();
    BasePolicy {
        layout: Layout::parse("%Y-%m-%d/%H").unwrap(),
        calendar: Calendar::new(SignedDuration::from_secs(1), TimeZone::UTC).unwrap(),
        settle: length(settle),
        margin: length(margin),
    }
}

fn base_folder(hour: &str) -> String {
    format!("{BASE}{DAY}/{hour}/")
}

fn guard(options: &[&str]) -> Guard {
    let mut guard = Guard { settle: length("5m"), ..Guard::default() };
    for option in options {
        match option.split_once('=').unwrap() {
            ("guard", "never") => guard.limit = None,
            ("guard", limit) => {
                let (files, percent) = limit.trim_end_matches('%').split_once('/').unwrap();
                guard.limit = Some(GuardLimit { files: files.parse().unwrap(), percent: percent.parse().unwrap() });
            }
            ("settle", value) => guard.settle = length(value),
            _ => {}
        }
    }
    guard
}

pub fn length(text: &str) -> SignedDuration {
    text.parse().unwrap()
}

pub fn at(text: &str) -> Timestamp {
    match text.split_once('T') {
        Some((day, time)) => format!("2026-05-0{day}T{time}:00Z").parse().unwrap(),
        None => format!("{DAY}T{text}:00Z").parse().unwrap(),
    }
}

pub fn file(text: &str) -> FileVersion {
    let (path, etag) = text.split_once('#').unwrap();
    if let Some(below) = path.strip_prefix('@') {
        let (hour, name) = below.split_once('/').unwrap();
        let version = file(&format!("x#{etag}"));
        return FileVersion { path: format!("{}{name}", base_folder(hour)).into(), ..version };
    }
    let (etag, size) = etag.split_once(':').map_or((etag, 7), |(etag, size)| (etag, size.parse().unwrap()));
    let day = if path.starts_with(|c: char| c.is_ascii_digit()) { format!("{DAY}/") } else { String::new() };
    FileVersion { path: format!("{day}{path}").into(), size: if etag == "0" { 0 } else { size }, etag: etag.into() }
}
