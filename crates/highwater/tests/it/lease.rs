//! One writer a pipeline: leases, standbys, stops and restarts of the real binary, on real S3 servers and on folders.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bucket::{Bucket, both};
use crate::lake::{Dice, Lake, Running, eventually, rows, text};

const LIMIT: Duration = Duration::from_secs(60);
/// How long a stop may take: 5 s, and what a loaded machine adds.
const STOP: Duration = Duration::from_secs(8);

/// Two pipelines' folders over one bucket and, as on one machine, one index.
fn pair(bucket: &Bucket, lease: &str) -> (Lake, Lake) {
    let (one, two) = (bucket.lake(), bucket.lake());
    for lake in [&one, &two] {
        let index = format!("path = {:?}", one.path("index"));
        change(lake, "path = \"./index\"", &index);
        change(lake, "poll = \"100ms\"", &format!("poll = \"100ms\"\nlease = \"{lease}\""));
    }
    (one, two)
}

fn change(lake: &Lake, from: &str, to: &str) {
    let file = lake.path("highwater.toml");
    let toml = std::fs::read_to_string(&file).unwrap();
    assert!(toml.contains(from), "{toml}");
    std::fs::write(file, toml.replace(from, to)).unwrap();
}

fn now_path(name: &str) -> String {
    let now = jiff::Timestamp::now();
    now.strftime(&format!("lake/region=eu/dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string()
}

fn documents(run: &Running, count: u64) {
    eventually(&format!("{count} documents:\n{}", run.log()), LIMIT, || {
        let log = run.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().any(|line| line["documents"] == count).then_some(())
    });
}

fn says(run: &Running, words: &str) {
    eventually(&format!("`{words}` in:\n{}", run.log()), LIMIT, || run.log().contains(words).then_some(()));
}

#[test]
fn a_second_writer_is_refused_and_a_standby_takes_over_when_the_first_is_killed() {
    both(|bucket| {
        let (one, two) = pair(&bucket, "3s");
        bucket.put(&now_path("a"), rows(&[("1", "a")]));
        let first = one.spawn(&["run", "--json"]);
        documents(&first, 1);
        for command in ["run", "once"] {
            let second = two.run(&[command]);
            assert_eq!(second.status.code(), Some(4), "{}", text(&second));
            assert!(text(&second).contains("waiting up to 4 s for the lease of the last writer (held by host"));
            assert!(text(&second).contains("the pipeline is held by host"), "{}", text(&second));
        }
        let standby = two.spawn(&["run", "--json", "--standby"]);
        says(&standby, "standby: the pipeline is held by host");
        bucket.put(&now_path("b"), rows(&[("2", "b")]));
        documents(&first, 2);
        first.kill();
        let killed = Instant::now();
        bucket.put(&now_path("c"), rows(&[("3", "c")]));
        documents(&standby, 3);
        assert!(killed.elapsed() > Duration::from_secs(2), "the lease was not waited out");
        assert!(killed.elapsed() < Duration::from_secs(3 + 12), "{:?}", killed.elapsed());
        says(&standby, "the pipeline is ours now");
        two.verify_equal();
        standby.kill();
    });
}

#[test]
fn after_a_clean_stop_nobody_waits() {
    both(|bucket| {
        let (one, two) = pair(&bucket, "60s");
        bucket.put(&now_path("a"), rows(&[("1", "a")]));
        let mut first = one.spawn(&["run", "--json"]);
        documents(&first, 1);
        let mut standby = two.spawn(&["run", "--json", "--standby"]);
        says(&standby, "standby: ");
        first.signal("TERM");
        assert_eq!(first.wait(STOP).code(), Some(0), "{}", first.log());
        bucket.put(&now_path("b"), rows(&[("2", "b")]));
        documents(&standby, 2);
        standby.signal("TERM");
        assert_eq!(standby.wait(STOP).code(), Some(0), "{}", standby.log());
        // `once` waits for nobody either, and leaves nobody waiting.
        for _ in 0..2 {
            let begin = Instant::now();
            one.json(&["once", "--json"]);
            assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
        }
        one.verify_equal();
    });
}

/// The writer stands still for longer than its lease, comes back, and must not write any more.
#[test]
fn a_writer_that_slept_through_its_lease_writes_nothing_more() {
    both(|bucket| {
        let (one, two) = pair(&bucket, "2s");
        bucket.put(&now_path("a"), rows(&[("1", "a")]));
        let mut first = one.spawn(&["run", "--json"]);
        documents(&first, 1);
        let standby = two.spawn(&["run", "--json", "--standby"]);
        says(&standby, "standby: ");
        first.signal("STOP");
        bucket.put(&now_path("b"), rows(&[("2", "b")]));
        says(&standby, "the pipeline is ours now");
        // Its index lies in the same folder here, and the sleeper still has that open.
        says(&standby, "trying again: the index is held by another process");
        let before = first.log();
        first.signal("CONT");
        assert_eq!(first.wait(LIMIT).code(), Some(4), "{}", first.log());
        let since = first.log()[before.len()..].to_owned();
        assert!(!since.contains("\"seq\""), "it wrote: {since}");
        documents(&standby, 2);
        says(&standby, "back again");
        two.verify_equal();
        standby.kill();
    });
}

#[test]
fn a_standby_on_a_folder_waits_for_the_lock() {
    let lake = Lake::items();
    let first = lake.spawn(&["run", "--json"]);
    eventually("the first writer", LIMIT, || lake.json(&["status", "--json"])["writer"].is_object().then_some(()));
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let own = std::fs::read_to_string(lake.path("highwater.toml")).unwrap();
    std::fs::write(lake.path("standby.toml"), format!("{own}\n[serve]\nlisten = \"{address}\"\n")).unwrap();
    let mut standby = lake.spawn_to("standby.log", &["-c", "standby.toml", "run", "--json", "--standby"]);
    says(&standby, "standby: the pipeline is held by host");
    let ready = eventually("an answer", LIMIT, || get(address, "/readyz"));
    assert!(ready.contains("503") && ready.contains("standby: the pipeline is held by host"), "{ready}");
    assert!(get(address, "/api/v1/pipelines/items/status").unwrap().contains("\"pipeline\":\"items\""));
    first.kill();
    says(&standby, "the pipeline is ours now");
    standby.signal("INT");
    assert_eq!(standby.wait(STOP).code(), Some(0), "{}", standby.log());
}

fn get(address: std::net::SocketAddr, path: &str) -> Option<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn an_index_that_two_pipelines_name_is_the_firsts() {
    let (one, two) = (Lake::items(), Lake::items());
    change(&two, "path = \"./index\"", &format!("path = {:?}", one.path("index")));
    let path = |lake: &Lake, id: &str| {
        let at = jiff::Timestamp::now().strftime("dt=%Y-%m-%d/hr=%H/min=%M").to_string();
        lake.land(&format!("{at}/{id}.ndjson"), rows(&[(id, "x")]));
    };
    path(&one, "1");
    path(&two, "2");
    let mut first = one.spawn(&["run", "--json"]);
    documents(&first, 1);
    let second = two.run(&["once"]);
    assert_eq!(second.status.code(), Some(5), "{}", text(&second));
    assert!(text(&second).contains("another pipeline names the same [index] path"), "{}", text(&second));
    let waiting = two.spawn(&["run", "--json"]);
    says(&waiting, "trying again: the index is held by another process");
    path(&one, "3");
    documents(&first, 2);
    assert_eq!(one.ids(), "1 3");
    waiting.kill();
    first.signal("TERM");
    assert_eq!(first.wait(STOP).code(), Some(0), "{}", first.log());
    one.verify_equal();
}

/// A stop may come at any moment of a start, a batch, or between two: it ends within 5 s, with 0, and the next start
/// converges.
#[test]
fn signals_at_random_moments() {
    let lake = Lake::items();
    let mut dice = Dice(23);
    let now = jiff::Timestamp::now();
    let mut expected = 0;
    for round in 0..16u64 {
        for n in 0..20 {
            let at = now - jiff::SignedDuration::from_secs(60 * n);
            let path = at.strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/f{round}.ndjson")).to_string();
            let ids: Vec<String> = (0..100).map(|id| format!("{round}-{n}-{id}")).collect();
            let content: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "x")).collect();
            lake.land(&path, rows(&content));
            expected += 100;
        }
        let mut run = lake.spawn(&["run", "--json"]);
        run.watches_signals();
        std::thread::sleep(Duration::from_millis(dice.roll(1_500)));
        run.signal(if round % 2 == 0 { "TERM" } else { "INT" });
        assert_eq!(run.wait(STOP).code(), Some(0), "round {round}:\n{}", run.log());
    }
    let report = lake.json(&["once", "--json"]);
    assert_eq!(report["documents"], expected, "{report}");
    lake.verify_equal();
}

/// A server that takes connections and never answers.
fn silent_server() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            open.push(stream);
        }
    });
    address
}

fn silent_s3(lake: &Lake, what: &str) {
    let (from, to) = match what {
        "state" => ("state = \"./state\"", "state = \"s3://nowhere/state\""),
        _ => ("location = \"./lake\"", "location = \"s3://nowhere/lake\""),
    };
    change(lake, from, to);
    let file = lake.path("highwater.toml");
    let toml = std::fs::read_to_string(&file).unwrap();
    let store = format!("[store.\"s3://nowhere\"]\nendpoint = \"http://{}\"\nallow_http = true\n", silent_server());
    std::fs::write(file, format!("{toml}\n{store}")).unwrap();
}

fn spawn_with_keys(lake: &Lake, args: &[&str]) -> Running {
    let keys = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "testtest"), ("AWS_REGION", "us-east-1")];
    lake.spawn_with("run.log", args, &keys)
}

#[test]
fn a_stop_does_not_wait_for_a_store_that_never_answers() {
    for (what, command, code) in [("state", "run", 0), ("source", "run", 0), ("source", "once", 1)] {
        let lake = Lake::items();
        silent_s3(&lake, what);
        let mut run = spawn_with_keys(&lake, &[command]);
        run.watches_signals();
        std::thread::sleep(Duration::from_millis(1_500));
        run.signal("TERM");
        assert_eq!(run.wait(STOP).code(), Some(code), "{what} {command}:\n{}", run.log());
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let lake = Lake::items();
    silent_s3(&lake, "source");
    let mut run = spawn_with_keys(&lake, &["run"]);
    run.watches_signals();
    std::thread::sleep(Duration::from_millis(1_500));
    run.signal("TERM");
    std::thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    run.signal("TERM");
    assert_eq!(run.wait(STOP).code(), Some(1), "{}", run.log());
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn max_uptime_ends_a_run_or_begins_it_anew() {
    let lake = Lake::items();
    change(&lake, "poll = \"50ms\"", "poll = \"50ms\"\nmax_uptime = \"1s\"");
    let begin = Instant::now();
    let mut run = lake.spawn(&["run", "--json"]);
    assert_eq!(run.wait(LIMIT).code(), Some(0), "{}", run.log());
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert!(run.log().contains("max_uptime is over"), "{}", run.log());

    change(&lake, "max_uptime = \"1s\"", "max_uptime = \"1s\"\non_max_uptime = \"restart\"");
    let at = jiff::Timestamp::now().strftime("dt=%Y-%m-%d/hr=%H/min=%M/a.ndjson").to_string();
    lake.land(&at, rows(&[("1", "x")]));
    let mut run = lake.spawn_to("restarts.log", &["run", "--json"]);
    eventually("two restarts", LIMIT, || (run.log().matches("beginning anew").count() >= 2).then_some(()));
    run.signal("TERM");
    assert_eq!(run.wait(STOP).code(), Some(0), "{}", run.log());
    lake.verify_equal();
}

#[test]
fn one_writer_by_promise_needs_no_heartbeat() {
    let Some(bucket) = Bucket::of("HIGHWATER_TEST_S3_MOTO") else { return };
    let lake = bucket.lake();
    change(&lake, "poll = \"100ms\"", "poll = \"100ms\"\nsingle_writer = true");
    bucket.put(&now_path("a"), rows(&[("1", "a")]));
    assert_eq!(lake.json(&["once", "--json"])["documents"], 1);
    assert_eq!(bucket.names("state/items"), ["log"]);
    let standby = lake.run(&["run", "--standby"]);
    assert_eq!(standby.status.code(), Some(2), "{}", text(&standby));
    change(&lake, "single_writer = true\n", "");
    lake.json(&["once", "--json"]);
    assert_eq!(bucket.names("state/items"), ["heartbeat.json", "log"], "the probe is gone again");
}
