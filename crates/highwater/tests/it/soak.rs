//! The soak: `run` against a lake that grows, through a proxy that breaks a part of all requests, killed again and again.
//! Then the faults stop, and everything must be as if nothing had happened. `bench/soak.sh` runs it for long.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::Value;

use crate::bucket::Bucket;
use crate::lake::{Background, Dice, Lake, Running, SECONDS, SECONDS_SQL, batches, eventually};
use crate::proxy::{Fault, Kind, Proxy};

const LIMIT: Duration = Duration::from_secs(180);
const WINDOW: SignedDuration = SignedDuration::from_mins(3);
const STEP: SignedDuration = SignedDuration::from_secs(5);
/// How long a file may take to be read when nothing is wrong; a fault costs a few of these.
const SOON: SignedDuration = SignedDuration::from_secs(20);

/// The pipeline of seconds, sources and state in the bucket.
fn pipeline(bucket: &Bucket, endpoint: &str) -> String {
    let inside = |folder: &str| format!("\"s3://hw-test/{}/{folder}\"", bucket.prefix);
    let mut toml = SECONDS
        .replace("window = \"2m\"", "window = \"3m\"")
        .replace("poll = \"50ms\"", "poll = \"200ms\"\nlease = \"5s\"\nhold_after = \"never\"\nmax_skew = \"1m\"");
    for folder in ["state", "lake", "events"] {
        toml = toml.replace(&format!("\"./{folder}\""), &inside(folder));
    }
    let store = "endpoint = \"ENDPOINT\"\nallow_http = true\ntimeout = \"2s\"\n".replace("ENDPOINT", endpoint);
    toml + "\n[store.\"s3://hw-test\"]\n" + &store
}

/// What requests meet, and how often of a hundred faults of their kind.
fn faults() -> Vec<(Kind, Fault, u64)> {
    let mut all = Vec::new();
    for kind in [Kind::List, Kind::Get] {
        all.extend([
            (kind, Fault::Refused(503, "SlowDown"), 40),
            (kind, Fault::Refused(500, "InternalError"), 5),
            (kind, Fault::Reset, 12),
            (kind, Fault::LostReset, 12),
            (kind, Fault::ResetBody, 9),
            (kind, Fault::CutBody, 9),
            (kind, Fault::Short, 5),
            (kind, Fault::SlowHead(400), 4),
            (kind, Fault::Trickle(40), 2),
            (kind, Fault::Refused(403, "ExpiredToken"), 1),
            (kind, Fault::Hang, 1),
        ]);
    }
    for kind in [Kind::Create, Kind::Put, Kind::Other] {
        all.extend([
            (kind, Fault::Refused(503, "SlowDown"), 30),
            (kind, Fault::Lost(503, "SlowDown"), 15),
            (kind, Fault::Reset, 15),
            (kind, Fault::LostReset, 20),
            (kind, Fault::SlowHead(400), 5),
            (kind, Fault::Hang, 1),
        ]);
    }
    all.push((Kind::Create, Fault::Refused(409, "ConditionalRequestConflict"), 7));
    all.push((Kind::Create, Fault::Refused(412, "PreconditionFailed"), 4));
    all.push((Kind::Create, Fault::Lost(409, "ConditionalRequestConflict"), 3));
    all
}

/// What tells an operator what alarms and warnings mean: a line of the log that it does not know fails the soak.
const OPERATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");

/// How hard.
pub struct Plan {
    pub length: Duration,
    /// Seconds between two kills, from and to.
    pub kills: (u64, u64),
    /// Requests of a hundred that meet a fault.
    pub percent: u64,
    pub seed: u64,
}

/// A file that was landed.
#[derive(Clone, Debug)]
struct Landed {
    /// Start of its partition.
    partition: Timestamp,
    at: Timestamp,
    /// When it was taken away.
    removed: Option<Timestamp>,
    broken: bool,
}

impl Landed {
    /// It stood in the window long enough that it must have been read, or a hole must say why not.
    fn was_due(&self, until: Timestamp) -> bool {
        let leaves = self.partition + WINDOW;
        let gone = self.removed.unwrap_or(Timestamp::MAX).min(leaves).min(until);
        // It was there when its partition settled, so that no watermark may have passed it by.
        let punctual = self.at < self.partition + STEP;
        punctual && gone.duration_since(self.at) > SOON * 4
    }
}

type Files = Arc<Mutex<BTreeMap<String, Landed>>>;

/// Lands files straight in the store: most are new, some late, some far too late, some replaced, some broken, some removed.
struct Feeder {
    files: Files,
    work: Background,
}

impl Feeder {
    fn start(bucket: &Arc<Bucket>, seed: u64) -> Self {
        let files = Files::default();
        let (landed, bucket) = (files.clone(), bucket.clone());
        let (mut dice, mut n) = (Dice(seed | 1), 0);
        let work = Background::start(move || {
            n += 1;
            feed(&bucket, &landed, &mut dice, n);
            std::thread::sleep(Duration::from_millis(100 + dice.roll(300)));
        });
        Self { files, work }
    }

    fn end(mut self) -> BTreeMap<String, Landed> {
        self.work.halt();
        self.files.lock().unwrap().clone()
    }
}

fn feed(bucket: &Bucket, files: &Files, dice: &mut Dice, n: u64) {
    let now = Timestamp::now();
    let late = match dice.roll(20) {
        0..=13 => 0,
        14..=18 => dice.roll(150),
        _ => 300 + dice.roll(100),
    };
    let at = now - SignedDuration::from_secs(late.cast_signed());
    let partition = at.as_second().div_euclid(STEP.as_secs()) * STEP.as_secs();
    let partition = Timestamp::from_second(partition).unwrap();
    let known: Vec<String> = files.lock().unwrap().keys().rev().take(40).cloned().collect();
    match dice.roll(12) {
        0 if !known.is_empty() => {
            let path = &known[dice.roll(known.len() as u64) as usize];
            let mut files = files.lock().unwrap();
            let Some(landed) = files.get_mut(path).filter(|landed| landed.removed.is_none()) else { return };
            bucket.delete(&format!("lake/{path}"));
            landed.removed = Some(Timestamp::now());
        }
        kind => {
            let broken = kind == 1 && dice.roll(4) == 0;
            let again = kind == 2 && !known.is_empty();
            let path = match again {
                true => known[dice.roll(known.len() as u64) as usize].clone(),
                false => partition.strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/s=%S/f{n}.ndjson")).to_string(),
            };
            let content = match broken {
                true => "this is no JSON\n".repeat(5),
                false => (0..5).map(|_| format!("{{\"id\":\"i{}\",\"v\":\"{n}\"}}\n", dice.roll(300))).collect(),
            };
            bucket.put(&format!("lake/{path}"), content);
            let landed = Landed { partition, at: Timestamp::now(), removed: None, broken };
            let mut files = files.lock().unwrap();
            match files.get_mut(&path) {
                // What was there before may have been read or not: it is as if it landed now.
                Some(before) => *before = Landed { partition: before.partition, ..landed },
                None => _ = files.insert(path, landed),
            }
        }
    }
    let path = now.strftime(&format!("events/%Y%m%d/%H%M/e{n}.ndjson")).to_string();
    bucket.put(&path, format!("{{\"id\":\"i{}\",\"n\":{n}}}\n", dice.roll(300)));
}

/// What the log's records say, gathered while they stand: old ones are trimmed.
#[derive(Default)]
struct Records {
    read: BTreeSet<String>,
    batches: u64,
    added: BTreeSet<String>,
    quarantined: BTreeSet<String>,
    holes: Vec<Value>,
    watermark: Option<Timestamp>,
}

impl Records {
    fn gather(&mut self, bucket: &Bucket) {
        let folder = bucket.key("state/live/log");
        bucket.runtime.block_on(async {
            let mut listed: Vec<Path> =
                bucket.store.list(Some(&folder)).map_ok(|object| object.location).try_collect().await.unwrap();
            listed.sort();
            for place in listed {
                if self.read.insert(place.to_string()) {
                    // One may be trimmed in between.
                    let Ok(found) = bucket.store.get(&place).await else { continue };
                    let bytes = found.bytes().await.unwrap();
                    self.record(&serde_json::from_slice(&bytes).unwrap());
                }
            }
        });
    }

    fn record(&mut self, record: &Value) {
        let body = record.get("body").unwrap_or(record);
        if let Some(watermark) = body["watermark"].as_str() {
            let watermark: Timestamp = watermark.parse().unwrap();
            assert!(self.watermark.is_none_or(|before| before <= watermark), "the watermark moved back: {record}");
            self.watermark = Some(watermark);
        }
        self.holes.extend(body["holes"].as_array().into_iter().flatten().cloned());
        let Some(cursor) = body["sources"].get("items") else { return };
        self.batches += u64::from(body["receipt"].is_object());
        let paths = |list: &Value| -> Vec<String> {
            list.as_array()
                .into_iter()
                .flatten()
                .filter_map(|entry| entry["path"].as_str().map(str::to_owned))
                .collect()
        };
        self.added.extend(paths(&cursor["added"]));
        self.quarantined.extend(paths(&cursor["quarantined"]));
    }

    /// Every file that was due was read, or stands in a hole.
    fn account_for(&self, files: &BTreeMap<String, Landed>, until: Timestamp) -> usize {
        let mut due = 0;
        for (path, landed) in files.iter().filter(|(_, landed)| landed.was_due(until)) {
            due += 1;
            let told = self.added.contains(path) || self.quarantined.contains(path) || self.is_passed_over(landed);
            assert!(told, "{path} was neither read nor told of: {landed:?}");
            if landed.broken && landed.removed.is_none() {
                assert!(self.quarantined.contains(path), "{path} is broken, and nothing says so");
            }
        }
        due
    }

    fn is_passed_over(&self, landed: &Landed) -> bool {
        let time = |hole: &Value, key: &str| hole[key].as_str().unwrap().parse::<Timestamp>().unwrap();
        self.holes
            .iter()
            .filter(|hole| hole["source"] == "items" && hole["cause"] == "passed_over")
            .any(|hole| time(hole, "from") <= landed.partition && landed.partition < time(hole, "to"))
    }

    fn tells_of(&self, path: &str) -> bool {
        self.holes.iter().any(|hole| hole["path"] == path)
    }

    /// A hole says what happened.
    fn holes_are_true(&self, files: &BTreeMap<String, Landed>) {
        for hole in self.holes.iter().filter(|hole| hole["source"] == "items") {
            let Some(path) = hole["path"].as_str() else { continue };
            let landed = &files[path];
            if hole["cause"] == "late_file" {
                // One that was there when its partition settled must have been read.
                assert!(landed.at >= landed.partition + STEP, "{hole} {landed:?}");
            }
        }
    }
}

/// What kind of a line of the log it is: `None` if no operator could act on it.
fn kind_of(line: &str, operations: &str) -> Option<String> {
    let said = |start: &str| line.strip_prefix(start).map(str::to_owned);
    let documented = |kind: String| operations.contains(&format!("`{kind}`")).then_some(kind);
    if let Some(what) = said("ALARM ").or_else(|| said("over: ")) {
        let kind = what.split([' ', ':']).next().unwrap_or_default().to_owned();
        return documented(kind)
            .map(|kind| format!("{}{kind}", if line.starts_with("over") { "over: " } else { "ALARM " }));
    }
    // What is tried again is out of reach: the message names what, and exit code 5 is the same matter.
    for known in ["trying again: ", "back again", "waiting ", "the pipeline is ours now"] {
        if line.starts_with(known) {
            return Some(known.to_owned());
        }
    }
    let (_, warning) = line.split_once(" WARN ")?;
    let mut rows = operations.lines().filter_map(|row| row.strip_prefix("| ")?.split(" |").next());
    let row = rows.find(|text| text.contains(' ') && warning.contains(*text))?;
    Some(format!("WARN {row}"))
}

/// Lines that are no batch, by kind, and those that no operator could act on.
fn kinds(log: &str) -> (BTreeMap<String, u64>, Vec<&str>) {
    let operations = std::fs::read_to_string(OPERATIONS).unwrap();
    let (mut known, mut unknown) = (BTreeMap::new(), Vec::new());
    for line in log.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('{')) {
        match kind_of(line, &operations) {
            Some(kind) => *known.entry(kind).or_default() += 1,
            None => unknown.push(line),
        }
    }
    (known, unknown)
}

/// Runs the soak, and tells its figures.
pub fn soak(bucket: Bucket, plan: &Plan) -> String {
    let (proxy, bucket) = (Proxy::start(&bucket.endpoint), Arc::new(bucket));
    let lake = Lake::new(&pipeline(&bucket, &proxy.endpoint()), SECONDS_SQL);
    let (begin, mut dice) = (Instant::now(), Dice(plan.seed | 1));
    let feeder = Feeder::start(&bucket, plan.seed);
    proxy.at_random(plan.seed, plan.percent, &faults());
    let (mut records, mut kills, mut memory_kib) = (Records::default(), 0, Vec::new());
    while begin.elapsed() < plan.length {
        let before = batches(&log(&lake));
        let run = lake.spawn(&["run", "--json"]);
        let wait = Duration::from_millis(plan.kills.0 * 1000 + dice.roll((plan.kills.1 - plan.kills.0) * 1000));
        let started = Instant::now();
        eventually(&format!("a batch after kill {kills}"), LIMIT, || {
            assert!(run.is_alive(), "run ended by itself:\n{}", tail(&run.log()));
            (batches(&run.log()) > before).then_some(())
        });
        let after_first_batch = run.memory_kib();
        while started.elapsed() < wait && begin.elapsed() < plan.length {
            assert!(run.is_alive(), "run ended by itself:\n{}", tail(&run.log()));
            std::thread::sleep(Duration::from_millis(50));
        }
        memory_kib.push((after_first_batch, run.memory_kib()));
        run.kill();
        kills += 1;
        records.gather(&bucket);
    }
    let (faults, requests) = (proxy.faults(), proxy.requests());
    proxy.heal();
    let run = lake.spawn(&["run", "--json"]);
    let before = batches(&run.log());
    eventually("a batch after the faults", LIMIT, || (batches(&run.log()) > before).then_some(()));
    let files = feeder.end();
    let until = Timestamp::now();
    eventually("the index to hold what the store holds", LIMIT, || {
        let output = lake.run(&["verify", "--relist", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).ok()?;
        (report["equal"] == true).then_some(())
    });
    let status = lake.json(&["status", "--json"]);
    run.kill();
    records.gather(&bucket);
    let due = records.account_for(&files, until);
    records.holes_are_true(&files);
    let text = log(&lake);
    let (known, unknown) = kinds(&text);
    assert!(unknown.is_empty(), "lines that no operator could act on:\n{}", unknown.join("\n"));
    figures(&Figures {
        plan,
        kills,
        faults,
        requests,
        files: &files,
        due,
        records: &records,
        known,
        memory_kib,
        status,
    })
}

struct Figures<'a> {
    plan: &'a Plan,
    kills: u64,
    faults: BTreeMap<String, u64>,
    requests: u64,
    files: &'a BTreeMap<String, Landed>,
    due: usize,
    records: &'a Records,
    known: BTreeMap<String, u64>,
    memory_kib: Vec<(u64, u64)>,
    status: Value,
}

fn figures(figures: &Figures<'_>) -> String {
    let Figures { plan, kills, faults, requests, files, due, records, known, memory_kib, status } = figures;
    let mut text = format!("soak: {} s, seed {}\n", plan.length.as_secs(), plan.seed);
    let broken = files.values().filter(|landed| landed.broken).count();
    let removed = files.values().filter(|landed| landed.removed.is_some()).count();
    let all: u64 = faults.values().sum();
    _ = writeln!(
        text,
        "files: {} ({broken} broken, {removed} removed), {due} of them had to be read or told of",
        files.len()
    );
    let behind = files.iter().filter(|(_, landed)| landed.at > landed.partition + WINDOW + SOON);
    let (told, silent): (Vec<_>, Vec<_>) = behind.partition(|(path, _)| records.tells_of(path));
    _ = writeln!(text, "landed behind the window: {}, told of as late: {}", told.len() + silent.len(), told.len());
    _ = writeln!(text, "batches: {}, kills: {kills}, watermark never back", records.batches);
    _ = writeln!(text, "requests: {requests}, faults: {all} ({} %)", all * 100 / requests.max(&1));
    for (name, count) in faults {
        _ = writeln!(text, "  {count:>6}  {name}");
    }
    let causes = records.holes.iter().map(|hole| hole["cause"].as_str().unwrap_or_default());
    let mut holes: BTreeMap<&str, u64> = BTreeMap::new();
    for cause in causes {
        *holes.entry(cause).or_default() += 1;
    }
    _ = writeln!(text, "holes written down: {holes:?}");
    _ = writeln!(text, "freshness of the last batches: {}", status["freshness_s"]);
    _ = writeln!(text, "memory of each process after its first batch and before its kill, KiB: {memory_kib:?}");
    _ = writeln!(text, "lines of the log that are no batch:");
    for (line, count) in known {
        _ = writeln!(text, "  {count:>6}  {line}");
    }
    text
}

fn log(lake: &Lake) -> String {
    std::fs::read_to_string(lake.path("run.log")).unwrap_or_default()
}

fn tail(log: &str) -> String {
    log.lines().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
}

impl Running {
    /// Resident memory.
    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}

/// A few seconds of it.
#[test]
fn run_killed_under_faults_converges() {
    let Some(bucket) = Bucket::of("HIGHWATER_TEST_S3_SEAWEED") else { return };
    soak(bucket, &Plan { length: Duration::from_secs(12), kills: (2, 4), percent: 20, seed: 7 });
}

#[test]
#[ignore = "takes as long as it is told; bench/soak.sh runs it"]
fn for_long() {
    let Some(bucket) = Bucket::of("HIGHWATER_TEST_S3_SEAWEED") else { return };
    let minutes = std::env::var("HIGHWATER_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let seed = Timestamp::now().as_second().unsigned_abs();
    println!(
        "{}",
        soak(bucket, &Plan { length: Duration::from_secs(minutes * 60), kills: (20, 60), percent: 20, seed })
    );
}
