//! Real faults: the binary against real servers, through a proxy that breaks what networks break, with servers that are
//! killed, disks that are full and credentials that expire.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bucket::Bucket;
use crate::lake::{Lake, Running, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

const LIMIT: Duration = Duration::from_secs(90);
/// Of one request in these tests.
const TIMEOUT: &str = "timeout = \"1s\"";

const SLOW_DOWN: Fault = Fault::Refused(503, "SlowDown");
const EXPIRED: Fault = Fault::Refused(403, "ExpiredToken");

/// A pipeline whose every request goes through a proxy.
struct World {
    bucket: Bucket,
    proxy: Proxy,
    lake: Lake,
    minute: u32,
}

impl World {
    fn of(variable: &str) -> Option<Self> {
        let bucket = Bucket::of(variable)?;
        let proxy = Proxy::start(&bucket.endpoint);
        let lake = bucket.lake_through(&proxy.endpoint(), TIMEOUT);
        set(&lake, "poll = \"100ms\"", "poll = \"100ms\"\nlease = \"3s\"");
        Some(Self { bucket, proxy, lake, minute: 0 })
    }

    /// Lands one more file, past the proxy.
    fn land(&mut self) -> u32 {
        self.minute += 1;
        let id = format!("{:02}", self.minute);
        let name = format!("lake/region=eu/dt=2024-05-01/hr=10/min={id}/f.ndjson");
        self.bucket.put(&name, rows(&[(&id, "a")]));
        self.minute
    }

    /// `once`, a little after the last file landed.
    fn once(&self) -> Output {
        self.lake.run(&["once", "--json", "--now", &format!("2024-05-01T10:{:02}:30Z", self.minute + 1)])
    }

    /// A batch that must come through, with the file of `land` and nothing lost.
    fn comes_through(&self, what: &str) -> Value {
        let output = self.once();
        assert!(output.status.success(), "{what}: {}: {}", output.status, text(&output));
        let batch: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(batch["documents"], self.minute, "{what}: {batch}");
        assert_eq!((&batch["deletes"], &batch["quarantined"]), (&0.into(), &Value::Array(vec![])), "{what}: {batch}");
        batch
    }

    /// No fault was left over, and the index is what the store says.
    fn ends_well(&self) {
        self.proxy.heal();
        equal(&self.lake);
        assert_eq!(self.lake.documents().len(), self.minute as usize);
    }
}

fn set(lake: &Lake, from: &str, to: &str) {
    let path = lake.path("highwater.toml");
    let toml = fs::read_to_string(&path).unwrap();
    assert!(toml.contains(from), "{toml}");
    fs::write(path, toml.replace(from, to)).unwrap();
}

fn equal(lake: &Lake) {
    let report = lake.json(&["verify", "--relist", "--json"]);
    assert_eq!(report["equal"], true, "{report}");
}

/// What a command says that could not reach something: exit 5, and these words.
fn out_of_reach(output: &Output, words: &[&str]) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

/// Faults of anything that reads, with how often they strike.
const READING: [(Fault, u64); 9] = [
    (SLOW_DOWN, 3),
    (Fault::Reset, 2),
    (Fault::LostReset, 2),
    (Fault::ResetBody, 2),
    (Fault::CutBody, 2),
    (Fault::Short, 2),
    (Fault::SlowHead(300), 1),
    (Fault::Trickle(20), 1),
    (Fault::Hang, 1),
];

#[test]
fn listings_come_through_faults() {
    let Some(mut world) = World::of("HIGHWATER_TEST_S3_SEAWEED") else { return };
    for (fault, times) in READING {
        world.land();
        world.proxy.fault(Kind::List, "%2Flake", fault, times);
        world.comes_through(&format!("{fault:?} on listings"));
    }
    assert_eq!(world.proxy.faults().values().sum::<u64>(), READING.iter().map(|(_, times)| times).sum::<u64>());
    world.ends_well();
}

#[test]
fn files_come_through_faults() {
    let Some(mut world) = World::of("HIGHWATER_TEST_S3_SEAWEED") else { return };
    for (fault, times) in READING {
        world.land();
        world.proxy.fault(Kind::Get, "/lake/", fault, times);
        world.comes_through(&format!("{fault:?} on files"));
    }
    // What is said to be replaced is listed again, and planned again.
    world.land();
    world.proxy.fault(Kind::Get, "/lake/", Fault::Refused(412, "PreconditionFailed"), 2);
    world.comes_through("replaced");
    world.ends_well();
}

#[test]
fn the_log_comes_through_faults() {
    let Some(mut world) = World::of("HIGHWATER_TEST_S3_SEAWEED") else { return };
    world.land();
    world.comes_through("a first batch");
    for (fault, times) in READING {
        world.land();
        world.proxy.fault(Kind::Get, "/log/", fault, times);
        world.proxy.fault(Kind::List, "%2Flog", fault, times);
        world.comes_through(&format!("{fault:?} on reads of the log"));
    }
    let writing = [
        (SLOW_DOWN, 2),
        (Fault::Lost(503, "SlowDown"), 1),
        (Fault::Lost(409, "ConditionalRequestConflict"), 1),
        (Fault::Refused(409, "ConditionalRequestConflict"), 2),
        (Fault::Refused(412, "PreconditionFailed"), 2),
        (Fault::Reset, 1),
        (Fault::LostReset, 2),
        (Fault::SlowHead(300), 1),
        (Fault::Hang, 1),
    ];
    for (fault, times) in writing {
        world.land();
        world.proxy.fault(Kind::Create, "/log/", fault, times);
        world.comes_through(&format!("{fault:?} on creates of the log"));
    }
    // The stamp in the sink and the record agree after all of it: nothing is computed twice.
    let again: Value = serde_json::from_slice(&world.once().stdout).unwrap();
    assert_eq!(again["mode"], "none", "{again}");
    // A lost reply that is read back by half must not look like another writer's record.
    world.land();
    world.proxy.fault(Kind::Create, "/log/", Fault::LostReset, 1);
    world.proxy.fault(Kind::Get, "/log/", Fault::Short, 100);
    let output = world.once();
    assert_ne!(output.status.code(), Some(4), "{}", text(&output));
    world.proxy.heal();
    world.comes_through("half a record");
    world.ends_well();
}

#[test]
fn a_store_that_stays_away_is_named_and_takes_nothing_away() {
    let Some(mut world) = World::of("HIGHWATER_TEST_S3_SEAWEED") else { return };
    world.land();
    world.land();
    world.comes_through("before");
    let (before, state) = (world.lake.dump(), world.lake.path("state"));
    world.land();
    for (kind, fault, words) in [
        (Kind::List, SLOW_DOWN, ["source items: listing", "/lake/", "503 SlowDown"]),
        (Kind::List, EXPIRED, ["source items: listing", "/lake/", "403 ExpiredToken"]),
        (Kind::Get, EXPIRED, ["access to s3://hw-test", "/lake/region=eu", "403 ExpiredToken"]),
    ] {
        let holds = if kind == Kind::List { "%2Flake" } else { "/lake/" };
        world.proxy.fault(kind, holds, fault, u64::MAX);
        out_of_reach(&world.once(), &words);
        world.proxy.heal();
        assert_eq!(world.lake.dump(), before, "{fault:?}");
    }
    for (kind, holds) in [(Kind::List, "%2Flog"), (Kind::Get, "/log/"), (Kind::Create, "/log/")] {
        world.proxy.fault(kind, holds, EXPIRED, u64::MAX);
        out_of_reach(&world.once(), &["/state/items/log", "ExpiredToken"]);
        world.proxy.heal();
        assert_eq!(world.lake.dump(), before, "{kind:?}");
    }
    assert!(!state.exists());
    world.comes_through("after");
    world.ends_well();
}

/// A server that accepts and never answers ends in exit 5, in bounded time.
#[test]
fn a_store_that_hangs_is_given_up() {
    let Some(mut world) = World::of("HIGHWATER_TEST_S3_MOTO") else { return };
    world.land();
    world.comes_through("before");
    world.land();
    world.proxy.fault(Kind::Get, "/lake/", Fault::Hang, u64::MAX);
    let begin = Instant::now();
    out_of_reach(&world.once(), &["s3://hw-test", "/lake/region=eu"]);
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
    world.proxy.heal();
    world.comes_through("after");
    world.ends_well();
}

/// A file that appears while `run` runs.
fn land_now(bucket: &Bucket, id: &str) {
    let folder = jiff::Timestamp::now().strftime("lake/region=eu/dt=%Y-%m-%d/hr=%H/min=%M");
    bucket.put(&format!("{folder}/{id}.ndjson"), rows(&[(id, "a")]));
}

fn has(run: &Running, documents: u64) -> bool {
    let batches = run.log().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    assert!(batches.iter().all(|batch| batch["deletes"] == 0), "{}", run.log());
    batches.iter().any(|batch| batch["documents"] == documents)
}

fn waits_for(run: &Running, documents: u64) {
    let begin = Instant::now();
    while !has(run, documents) {
        assert!(run.is_alive() && begin.elapsed() < LIMIT, "no {documents} documents in: {}", run.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn says(run: &Running, words: &str) {
    let begin = Instant::now();
    while !run.log().contains(words) {
        assert!(run.is_alive() && begin.elapsed() < LIMIT, "no `{words}` in: {}", run.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn run_waits_for_a_store_and_goes_on() {
    let Some(world) = World::of("HIGHWATER_TEST_S3_MOTO") else { return };
    // Out of reach from the first request on: `run` has nothing yet, and waits.
    for kind in [Kind::List, Kind::Get, Kind::Create] {
        world.proxy.fault(kind, "", EXPIRED, u64::MAX);
    }
    let run = world.lake.spawn(&["run", "--json"]);
    says(&run, "trying again");
    world.proxy.heal();
    land_now(&world.bucket, "1");
    waits_for(&run, 1);
    // Sources alone, the log alone, and both by halves.
    for (n, (kind, holds, fault)) in [
        (Kind::List, "%2Flake", EXPIRED),
        (Kind::Get, "/lake/", EXPIRED),
        (Kind::Create, "/log/", EXPIRED),
        (Kind::List, "%2Flog", EXPIRED),
        (Kind::Create, "/log/", Fault::Hang),
    ]
    .into_iter()
    .enumerate()
    {
        let n = n as u64 + 2;
        world.proxy.fault(kind, holds, fault, 3);
        land_now(&world.bucket, &n.to_string());
        waits_for(&run, n);
        world.proxy.heal();
    }
    run.kill();
    equal(&world.lake);
}

/// Answers as a container's credentials endpoint does.
struct Credentials {
    address: String,
    good: Arc<AtomicBool>,
}

impl Credentials {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/credentials", listener.local_addr().unwrap());
        let good = Arc::new(AtomicBool::new(false));
        let now_good = good.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut head = [0; 4096];
                let read = stream.read(&mut head).unwrap_or(0);
                if !String::from_utf8_lossy(&head[..read]).to_lowercase().contains("authorization: pod") {
                    continue;
                }
                let key = if now_good.load(Ordering::Relaxed) { "renewed" } else { "expired" };
                // By its own word it holds for an hour, whatever the store says.
                let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
                let body = format!(
                    "{{\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"{until}\"}}"
                );
                let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { address, good }
    }
}

#[test]
fn credentials_that_are_renewed_are_taken_up() {
    let Some(world) = World::of("HIGHWATER_TEST_S3_MOTO") else { return };
    // In the environment: refused, until the environment is another one.
    land_now(&world.bucket, "old");
    world.proxy.admit("test");
    let once = |key: &str| {
        let mut command = world.lake.command(&["once", "--json"]);
        command.env("AWS_ACCESS_KEY_ID", key).output().unwrap()
    };
    out_of_reach(&once("old"), &["ExpiredToken"]);
    assert!(once("test").status.success());
    equal(&world.lake);

    // From a source that renews: `run` goes on by itself.
    let (source, token) = (Credentials::start(), world.lake.path("token"));
    fs::write(&token, "pod").unwrap();
    world.proxy.admit("renewed");
    let run = world.lake.spawn_changed("run.log", &["run", "--json"], |command| {
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            command.env_remove(name);
        }
        command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &source.address);
        command.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token);
    });
    says(&run, "ExpiredToken");
    source.good.store(true, Ordering::Relaxed);
    land_now(&world.bucket, "new");
    says(&run, "\"upserts\":1");
    run.kill();
}

/// A server of the test's own, on ports and a folder that outlive it.
struct Server {
    folder: tempfile::TempDir,
    endpoint: String,
}

impl Server {
    fn start() -> Option<Self> {
        if std::env::var("HIGHWATER_TEST_S3_SEAWEED").is_err() {
            crate::lake::left_out("HIGHWATER_TEST_S3_SEAWEED names no server, so that none is installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let endpoint = script("start.sh", &["seaweedfs", folder.path().to_str().unwrap()]);
        Some(Self { folder, endpoint })
    }

    fn kill(&self) {
        let pid = fs::read_to_string(self.folder.path().join("pid")).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    }

    fn again(&self) {
        let endpoint = script("start.sh", &["seaweedfs", self.folder.path().to_str().unwrap(), "--again"]);
        assert_eq!(endpoint, self.endpoint);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        script("stop.sh", &[self.folder.path().to_str().unwrap()]);
    }
}

fn script(name: &str, args: &[&str]) -> String {
    let path = format!("{}/../../services/s3/{name}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(path).args(args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_store_killed_and_started_again_loses_nothing() {
    let Some(server) = Server::start() else { return };
    let bucket = Bucket::at(&server.endpoint);
    let lake = bucket.lake_through(&server.endpoint, TIMEOUT);
    land_now(&bucket, "1");
    let run = lake.spawn(&["run", "--json"]);
    waits_for(&run, 1);
    server.kill();
    says(&run, "ALARM listing_failed");
    assert_eq!(lake.documents().len(), 1);
    server.again();
    land_now(&bucket, "2");
    waits_for(&run, 2);
    run.kill();
    equal(&lake);
}

/// A small disk of its own, filled up and emptied at will.
struct Disk {
    path: PathBuf,
}

impl Disk {
    fn mount(path: &Path) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"]).arg(path).output();
        if !mount.is_ok_and(|output| output.status.success()) {
            crate::lake::left_out("a disk that is full: nothing may be mounted here");
            return None;
        }
        Some(Self { path: path.to_owned() })
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.path.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.path.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// So many documents, in a few files: they are large, so that they need room, in the index as among the temporary files.
const HEAVY: usize = 240;

/// Lands them in the partition of now, as a change of `name`.
fn heavy(lake: &Lake, name: &str) {
    let folder = jiff::Timestamp::now().strftime("dt=%Y-%m-%d/hr=%H/min=%M").to_string();
    for file in 0..12 {
        let row = |n: usize| rows(&[(&format!("{name}-{file}-{n}"), &format!("{n:04}").repeat(4_000))]);
        let content: String = (0..HEAVY / 12).map(row).collect();
        lake.land(&format!("{folder}/{name}{file}.ndjson"), content);
    }
}

fn full_disk(place: &str, memory: &str) {
    let lake = Lake::items();
    set(&lake, "poll = \"50ms\"", &format!("poll = \"50ms\"\nmemory = \"{memory}\""));
    let Some(disk) = Disk::mount(&lake.path(place)) else { return };
    let shown = disk.path.to_str().unwrap();
    let temporary = if place == "tmp" { disk.path.clone() } else { std::env::temp_dir() };
    let once = || lake.command(&["once", "--json"]).env("TMPDIR", &temporary).output().unwrap();
    let folder = jiff::Timestamp::now().strftime("dt=%Y-%m-%d/hr=%H/min=%M").to_string();
    lake.land(&format!("{folder}/first.ndjson"), rows(&[("first", "a")]));
    assert!(once().status.success());
    let before = lake.dump();
    disk.fill();
    heavy(&lake, "once");
    out_of_reach(&once(), &[shown, "No space left"]);
    assert_eq!(lake.dump(), before);
    disk.empty();
    let output = once();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(lake.documents().len(), 1 + HEAVY);
    equal(&lake);

    // And `run`, which waits for room.
    disk.fill();
    let run = lake.spawn_changed("run.log", &["run", "--json"], |command| _ = command.env("TMPDIR", &temporary));
    heavy(&lake, "run");
    says(&run, shown);
    disk.empty();
    waits_for(&run, 1 + 2 * HEAVY as u64);
    run.kill();
    equal(&lake);
}

#[test]
fn a_full_disk_below_the_index_is_waited_for() {
    full_disk("index", "1GiB");
}

#[test]
fn a_full_disk_below_the_state_is_waited_for() {
    full_disk("state", "1GiB");
}

#[test]
fn a_full_disk_for_temporary_files_is_waited_for() {
    full_disk("tmp", "8MiB");
}
