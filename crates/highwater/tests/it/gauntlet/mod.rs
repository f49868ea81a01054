//! The gauntlet: ways in which other pipelines over files lost or corrupted data, each with an input of its own and each
//! a named test here, or in the unit tests of the room that it is about. `.ci/gauntlet` holds the list.
//!
//! Partitions of a minute, settled after two, a window of three hours; the day is 2024-05-01. A tick is a process, with
//! the clock fixed. [`Case::check`] is what every case asserts at its end.

mod discovery;
mod files;
pub mod generations;
mod keys;
mod log;
mod server;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use crate::lake::{ITEMS, Lake, eventually, text};
use server::{BUCKET, S3};

const LIMIT: Duration = Duration::from_secs(60);

/// The pipeline of `ITEMS`, with the gauntlet's window and settle.
static TOML: LazyLock<String> = LazyLock::new(|| {
    ITEMS.replace("window = \"1h\"", "window = \"3h\"").replace("settle = \"10s\"", "settle = \"2m\"")
});

/// What [`Case::check`] may take for granted.
#[derive(Clone, Copy)]
struct Checks<'a> {
    /// The rows of all live files, where each is a document, a refused row, or lost to one with the same id.
    rows: Option<u64>,
    /// A fresh start comes to the same index; not so where files behind the window, or time passed over, matter.
    rebuilds: bool,
    /// Files that are no data of the window: each is named by one of these beginnings.
    left_out: &'a [&'a str],
}

const ALL: Checks<'static> = Checks { rows: None, rebuilds: true, left_out: &[] };

/// One case: a pipeline over a folder, or over a bucket of a scripted server.
struct Case {
    lake: Lake,
    s3: Option<S3>,
}

impl Case {
    fn local(toml: &str, sql: &str) -> Self {
        Self { lake: Lake::new(toml, sql), s3: None }
    }

    fn items() -> Self {
        Self::local(&TOML, "SELECT id, v FROM items")
    }

    /// The lake in a bucket, the state in a folder.
    fn bucket(toml: &str, s3: &S3) -> Self {
        let toml = toml.replace("\"./lake\"", &format!("\"s3://{BUCKET}/in\""));
        let store = format!("\n[store.\"s3://{BUCKET}\"]\nendpoint = \"{}\"\nallow_http = true\n", s3.endpoint);
        Self { lake: Lake::new(&(toml + &store), "SELECT id, v FROM items"), s3: Some(s3.clone()) }
    }

    /// Lands a file of minute `min` in hour 10.
    fn land(&self, minute: u8, name: &str, content: impl AsRef<[u8]>) {
        self.land_at(&at(minute, name), content);
    }

    fn land_at(&self, path: &str, content: impl AsRef<[u8]>) {
        match &self.s3 {
            Some(s3) => s3.put(&format!("in/{path}"), content.as_ref()),
            None => self.lake.land(path, content),
        }
    }

    fn remove(&self, minute: u8, name: &str) {
        match &self.s3 {
            Some(s3) => s3.delete(&format!("in/{}", at(minute, name))),
            None => self.lake.remove(&at(minute, name)),
        }
    }

    /// One batch at `HH:MM` or `HH:MM:SS` of the day.
    fn tick(&self, time: &str) -> Value {
        self.lake.once(&clock(time))
    }

    /// One batch that must end with `code`, and what it said.
    fn tick_fails(&self, time: &str, code: i32) -> String {
        let output = self.try_tick(time);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        text(&output)
    }

    fn try_tick(&self, time: &str) -> Output {
        self.lake.run(&["once", "--json", "--now", &clock(time)])
    }

    fn ids(&self) -> String {
        self.lake.ids()
    }

    /// The value of `v` by id.
    fn values(&self) -> BTreeMap<String, String> {
        let value = |document: Value| document["v"].as_str().unwrap_or_default().to_owned();
        self.lake.documents().into_iter().map(|(id, document)| (id, value(document))).collect()
    }

    fn status(&self) -> Value {
        self.lake.json(&["status", "--json"])
    }

    fn records(&self) -> Vec<Value> {
        let output = self.lake.run(&["log", "--json", "--limit", "1000"]);
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Numbers of the records of this kind: `claim`, `batch`, `advance`.
    fn numbers(&self, kind: &str) -> Vec<u64> {
        let records = self.records();
        records.iter().filter(|record| record["kind"] == kind).map(|record| record["seq"].as_u64().unwrap()).collect()
    }

    /// Every path that the log pins for `items`.
    fn pinned(&self) -> BTreeSet<String> {
        let mut pinned = BTreeSet::new();
        for record in self.records() {
            let cursor = &record["sources"]["items"];
            for path in cursor["removed"].as_array().into_iter().flatten() {
                pinned.remove(path.as_str().unwrap());
            }
            for version in cursor["added"].as_array().into_iter().flatten() {
                pinned.insert(version["path"].as_str().unwrap().to_owned());
            }
        }
        pinned
    }

    /// Every data file of the lake.
    fn files(&self) -> BTreeSet<String> {
        match &self.s3 {
            Some(s3) => s3.keys("in/").iter().map(|key| key["in/".len()..].to_owned()).collect(),
            None => {
                let (root, mut files) = (self.lake.path("lake"), BTreeSet::new());
                let mut folders = vec![root.clone()];
                while let Some(folder) = folders.pop() {
                    for entry in std::fs::read_dir(folder).unwrap() {
                        let path = entry.unwrap().path();
                        match path.is_dir() {
                            true => folders.push(path),
                            false => {
                                files.insert(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                            }
                        }
                    }
                }
                files
            }
        }
    }

    /// What every case asserts: a tick without change does nothing, a kill changes nothing, a fresh start comes to the
    /// same index, and no file or row is dropped without a name and a number.
    fn check(&self, time: &str, checks: Checks<'_>) {
        let dump = self.lake.dump();
        let status = self.assert_nothing_changes(time);
        self.assert_all_is_told(&status, checks.left_out);
        self.kill_once(time);
        self.tick(time);
        assert_eq!(self.lake.dump(), dump, "after kill -9 and a restart");
        if checks.rebuilds {
            let report = self.assert_a_fresh_start_is_the_same(time, &dump);
            if let Some(rows) = checks.rows {
                let counts = ["documents", "rejected_rows", "duplicate_ids"].map(|name| report[name].as_u64().unwrap());
                assert_eq!(counts.iter().sum::<u64>(), rows, "a row was dropped without a word: {report}");
                let named = report["rejected"].as_array().map_or(0, Vec::len);
                assert_eq!(named as u64, counts[1].min(100), "refused rows are named: {report}");
            }
        }
    }

    /// The status after it.
    fn assert_nothing_changes(&self, time: &str) -> Value {
        let before = self.status();
        let quiet = self.tick(time);
        assert_eq!((&quiet["mode"], changes(&quiet)), (&"none".into(), (0, 0)), "{quiet}");
        let after = self.status();
        assert_eq!(after["seq"], before["seq"], "the index was committed");
        after
    }

    /// Every file is pinned by the log, or named by what an operator sees.
    fn assert_all_is_told(&self, status: &Value, left_out: &[&str]) {
        let (pinned, told) = (self.pinned(), status.to_string());
        for path in self.files().difference(&pinned) {
            let expected = left_out.iter().any(|start| path.starts_with(start));
            assert!(expected || told.contains(path.as_str()), "{path} is neither pinned nor named: {told}");
        }
    }

    /// A batch process that is killed as soon as it has claimed the pipeline.
    fn kill_once(&self, time: &str) {
        let records = || match &self.s3 {
            Some(s3) if !self.lake.path("state").exists() => s3.keys("state/items/log/").len(),
            _ => std::fs::read_dir(self.lake.path("state/items/log")).unwrap().count(),
        };
        let before = records();
        let run = self.lake.spawn(&["once", "--now", &clock(time)]);
        eventually("the claim", LIMIT, || (records() > before).then_some(()));
        run.kill();
    }

    fn assert_a_fresh_start_is_the_same(&self, time: &str, dump: &str) -> Value {
        let toml = std::fs::read_to_string(self.lake.path("highwater.toml")).unwrap();
        let mut fresh = toml.replace("path = \"./index\"", "path = \"./fresh/index\"");
        let start = fresh.find("state = ").unwrap();
        let end = start + fresh[start..].find('\n').unwrap();
        fresh.replace_range(start..end, "state = \"./fresh/state\"");
        std::fs::write(self.lake.path("fresh.toml"), fresh).unwrap();
        let report = self.lake.json(&["once", "-c", "fresh.toml", "--json", "--now", &clock(time)]);
        let output = self.lake.run(&["dump", "-c", "fresh.toml"]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), dump, "a fresh start comes to another index");
        std::fs::remove_dir_all(self.lake.path("fresh")).unwrap();
        report
    }
}

fn clock(time: &str) -> String {
    let seconds = if time.len() == 5 { ":00" } else { "" };
    match time.contains('T') {
        true => time.to_owned(),
        false => format!("2024-05-01T{time}{seconds}Z"),
    }
}

fn at(minute: u8, name: &str) -> String {
    format!("dt=2024-05-01/hr=10/min={minute:02}/{name}")
}

fn changes(batch: &Value) -> (u64, u64) {
    (batch["upserts"].as_u64().unwrap(), batch["deletes"].as_u64().unwrap())
}
