//! A pipeline of a test's own: a folder with a lake, a configuration and the real binary to run over it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

/// Every file gets this modification time, so that nothing can depend on it.
const MODIFIED: u64 = 1_700_000_000;

pub const BINARY: &str = env!("CARGO_BIN_EXE_highwater");

/// One minute partitions, a window of an hour, one append source `items` of NDJSON files.
pub const ITEMS: &str = r#"
[pipeline]
name = "items"
state = "./state"
step = "1m"
window = "1h"
settle = "10s"
poll = "50ms"

[source.items]
location = "./lake"
layout = "dt=%Y-%m-%d/hr=%H/min=%M"
format = "ndjson"
kind = "append"
columns = { id = "string", v = "string" }

[document]
sql = "document.sql"
id = "id"

[index]
kind = "tantivy"
path = "./index"
"#;

/// Two sources with steps of seconds and of a minute, joined: an upsert table `items` and an append table `events`.
pub const SECONDS: &str = r#"
[pipeline]
name = "live"
state = "./state"
step = "5s"
window = "2m"
settle = "1s"
poll = "50ms"

[source.items]
location = "./lake"
layout = "dt=%Y-%m-%d/hr=%H/min=%M/s=%S"
format = "ndjson"
kind = "upsert"
key = "id"
retain = "window"
columns = { id = "string", v = "string" }

[source.events]
location = "./events"
layout = "%Y%m%d/%H%M"
format = "ndjson"
kind = "append"
step = "1m"
columns = { id = "string", n = "int64" }

[document]
sql = "document.sql"
id = "id"

[index]
kind = "tantivy"
path = "./index"
"#;

pub const SECONDS_SQL: &str = "SELECT items.id, items.v, count(events.n) AS events, sum(events.n) AS total \
                   FROM items LEFT JOIN events ON events.id = items.id GROUP BY items.id, items.v";

pub struct Lake {
    dir: TempDir,
}

impl Lake {
    pub fn new(toml: &str, sql: &str) -> Self {
        let lake = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(lake.path("lake")).unwrap();
        fs::write(lake.path("highwater.toml"), toml).unwrap();
        fs::write(lake.path("document.sql"), sql).unwrap();
        lake
    }

    pub fn items() -> Self {
        Self::new(ITEMS, "SELECT id, v FROM items")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Lands a file below `lake/`, whole, with the one modification time.
    pub fn land(&self, path: &str, content: impl AsRef<[u8]>) {
        let target = self.path("lake").join(path);
        land(&target, content.as_ref());
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.path("lake").join(path)).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.current_dir(self.dir.path()).args(args);
        command.env_remove("HIGHWATER_LOG");
        for (name, value) in
            [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "testtest"), ("AWS_REGION", "us-east-1")]
        {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and reads its JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?} ended with {}:\n{}", output.status, text(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    }

    pub fn once(&self, now: &str) -> Value {
        self.json(&["once", "--json", "--now", now])
    }

    /// Documents by id.
    pub fn documents(&self) -> BTreeMap<String, Value> {
        let mut documents = BTreeMap::new();
        for line in self.dump().lines() {
            let document: Value = serde_json::from_str(line).unwrap();
            documents.insert(document["id"].as_str().unwrap().to_owned(), document);
        }
        documents
    }

    pub fn dump(&self) -> String {
        let output = self.run(&["dump"]);
        assert!(output.status.success(), "dump ended with {}:\n{}", output.status, text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ids of the documents, joined.
    pub fn ids(&self) -> String {
        self.documents().into_keys().collect::<Vec<_>>().join(" ")
    }

    pub fn verify_equal(&self) {
        let report = self.json(&["verify", "--json"]);
        assert_eq!(report["equal"], true, "{report}");
    }

    pub fn spawn(&self, args: &[&str]) -> Running {
        self.spawn_to("run.log", args)
    }

    pub fn spawn_to(&self, log: &str, args: &[&str]) -> Running {
        self.spawn_with(log, args, &[])
    }

    /// With further environment variables.
    pub fn spawn_with(&self, log: &str, args: &[&str], variables: &[(&str, &str)]) -> Running {
        self.spawn_changed(log, args, |command| _ = command.envs(variables.iter().copied()))
    }

    /// The same, changed in any way.
    pub fn spawn_changed(&self, log: &str, args: &[&str], change: impl FnOnce(&mut Command)) -> Running {
        let log = self.path(log);
        let out = fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let err = out.try_clone().unwrap();
        let mut command = self.command(args);
        change(&mut command);
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        Running { child, log }
    }
}

/// A process that is killed when the test ends, however it ends.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// False once it ended by itself.
    pub fn is_alive(&self) -> bool {
        // A process that ended stays a zombie until it is waited for.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, at once.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the process watches SIGTERM and SIGINT; before that there is nothing of it to stop in order.
    pub fn watches_signals(&self) {
        let status = format!("/proc/{}/status", self.child.id());
        eventually("signals to be watched", Duration::from_secs(60), || {
            let status = fs::read_to_string(&status).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let both = 1 << 14 | 1 << 1;
            (u64::from_str_radix(caught.trim(), 16).ok()? & both == both).then_some(())
        });
    }

    pub fn wait(&mut self, limit: Duration) -> std::process::ExitStatus {
        let child = &mut self.child;
        eventually("the process to end", limit, || child.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Random numbers from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Work that goes on beside a test, round after round, until it is halted or dropped.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub fn start(mut round: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                round();
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Returns once the round in hand has ended.
    pub fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for a condition, and fails past the limit.
pub fn eventually<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < limit, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn land(target: &Path, content: &[u8]) {
    let folder = target.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    let aside = folder.join(format!(".{}.aside", target.file_name().unwrap().to_string_lossy()));
    fs::write(&aside, content).unwrap();
    let file = fs::File::options().write(true).open(&aside).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED)).unwrap();
    drop(file);
    fs::rename(&aside, target).unwrap();
}

/// Says that a test did nothing, and why: past the harness, which keeps what a passing test prints to itself.
pub fn left_out(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "left out: {name}: {why}");
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// How many batches the reports of `run --json` in its log tell of.
pub fn batches(log: &str) -> usize {
    let reports = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    reports.filter(|report| report["mode"] == "full").count()
}

/// NDJSON of `(id, v)` rows.
pub fn rows(rows: &[(&str, &str)]) -> String {
    rows.iter().map(|(id, v)| format!("{{\"id\":\"{id}\",\"v\":\"{v}\"}}\n")).collect()
}
