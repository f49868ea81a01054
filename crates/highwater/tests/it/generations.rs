//! Rebuild, gates, promotion, rollback and changes of shape, with the real binary on a local lake.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::bucket::Bucket;
use crate::lake::{Background, ITEMS, Lake, eventually, rows, text};
use crate::proxy::{Fault, Kind, Proxy};

const LIMIT: Duration = Duration::from_secs(120);

fn now_path(name: &str) -> String {
    jiff::Timestamp::now().strftime(&format!("dt=%Y-%m-%d/hr=%H/min=%M/{name}.ndjson")).to_string()
}

/// So many documents, indexed.
fn filled(toml: &str, documents: u64) -> Lake {
    let lake = Lake::new(toml, "SELECT id, v FROM items");
    let lines: String = (0..documents).map(|n| rows(&[(&format!("d{n:04}"), "red shoes")])).collect();
    lake.land(&now_path("first"), lines);
    assert_eq!(lake.json(&["once", "--json"])["documents"], documents);
    lake
}

/// `name role` of each generation.
fn roles(report: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let generations = report["generations"].as_array().unwrap().iter();
    generations.map(|generation| format!("{} {}", word(&generation["name"]), word(&generation["role"]))).collect()
}

fn current(lake: &Lake) -> String {
    fs::read_to_string(lake.path("index/current")).unwrap().trim().to_owned()
}

fn kinds(status: &Value) -> Vec<String> {
    let alarms = status["alarms"].as_array().unwrap().iter();
    alarms.map(|alarm| alarm["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn where_nobody_writes_the_commands_rebuild_promote_and_roll_back_by_themselves() {
    let lake = filled(ITEMS, 200);
    let report = lake.json(&["rebuild", "--reason", "a test", "--json"]);
    assert_eq!((roles(&report), report["live"].as_str()), (vec!["g1 live".into(), "g2 candidate".into()], Some("g1")));
    let gates = report["generations"][1]["judgement"]["gates"].as_array().unwrap();
    assert!(gates.len() == 3 && gates.iter().all(|gate| gate["passed"] == true), "{report}");
    assert_eq!(current(&lake), "g1");
    let report = lake.json(&["promote", "--json"]);
    assert_eq!((roles(&report), current(&lake)), (vec!["g2 live".into(), "g1 former".into()], "g2".into()));
    assert_eq!(lake.json(&["status", "--json"])["generation"], "g2");
    lake.verify_equal();
    // The new one goes on from where the old one stood.
    lake.land(&now_path("second"), rows(&[("new", "blue socks")]));
    let batch = lake.json(&["once", "--json"]);
    assert_eq!((&batch["upserts"], &batch["documents"]), (&1.into(), &201.into()), "{batch}");
    let report = lake.json(&["rollback", "--json"]);
    assert_eq!((roles(&report), current(&lake)), (vec!["g1 live".into(), "g2 former".into()], "g1".into()));
    assert_eq!(lake.documents().len(), 201, "what it went back to has what came since");
    lake.verify_equal();
    let log = text(&lake.run(&["log"]));
    for told in [
        "g2 begun: a test",
        "g2 passed its gates",
        "promoting g2 in place of g1",
        "back to g1 in place of g2: asked for",
        "g1 is live",
    ] {
        assert!(log.contains(told), "{told} is not in\n{log}");
    }
}

#[test]
fn a_rebuild_beside_a_running_writer_is_promoted_while_readers_ask_all_the_time() {
    let lake = Arc::new(filled(ITEMS, 2_000));
    let run = lake.spawn(&["run", "--json"]);
    let count = Arc::new(AtomicU64::new(0));
    let (feed, landed) = (lake.clone(), count.clone());
    let mut feeder = Background::start(move || {
        let n = landed.fetch_add(1, Ordering::Relaxed);
        feed.land(&now_path(&format!("n{n}")), rows(&[(&format!("n{n:05}"), "x")]));
        std::thread::sleep(Duration::from_millis(100));
    });
    // Before that a command could be the faster writer, and `run` be refused.
    eventually("the writer to be at work", LIMIT, || (lake.documents().len() > 2_000).then_some(()));
    let (asked, answers) = (lake.clone(), Arc::new(AtomicU64::new(0)));
    let (seen, mut least) = (answers.clone(), 0);
    let mut reader = Background::start(move || {
        let found = asked.json(&["search", "*", "--json", "--limit", "1"]);
        let (total, seq) = (found["total"].as_u64().unwrap(), found["as_of"]["seq"].as_u64().unwrap());
        assert!(total >= 2_000, "a part of the documents only: {found}");
        assert!(seq >= least, "the answers went back in time: {found}");
        least = seq;
        seen.fetch_add(1, Ordering::Relaxed);
    });
    for (name, live) in [("rebuild", "g2"), ("rebuild", "g3")] {
        let report = lake.json(&[name, "--promote", "--json"]);
        assert_eq!((report["live"].as_str().unwrap(), current(&lake)), (live, live.to_owned()));
    }
    let report = lake.json(&["rollback", "--json"]);
    assert_eq!(report["live"], "g2");
    let before = answers.load(Ordering::Relaxed);
    eventually("answers after the switches", LIMIT, || (answers.load(Ordering::Relaxed) > before + 3).then_some(()));
    feeder.halt();
    reader.halt();
    eventually("the last file in the index", LIMIT, || {
        assert!(run.is_alive(), "{}", run.log());
        let landed = count.load(Ordering::Relaxed);
        (lake.documents().len() as u64 == 2_000 + landed).then_some(())
    });
    lake.verify_equal();
    run.kill();
}

#[test]
fn a_gate_that_fails_leaves_the_live_index_alone_and_can_be_overruled_with_a_reason() {
    let lake =
        filled(&ITEMS.replace("[index]", "[gates]\ndocuments = \"20%\"\nqueries = [\"v:shoes\"]\n\n[index]"), 100);
    fs::write(lake.path("document.sql"), "SELECT id, v, 'x' AS w FROM items WHERE id >= 'd0050'").unwrap();
    let output = lake.run(&["rebuild", "--promote"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let told = text(&output);
    assert!(
        told.contains("documents: 50 documents, 100 in the live one") && told.contains("promote --force"),
        "{told}"
    );
    assert!(told.contains("queries: \"v:shoes\" finds 0 of 10 again"), "{told}");
    assert_eq!((current(&lake), lake.documents().len()), ("g1".into(), 100));
    assert_eq!(roles(&lake.json(&["generations", "--json"])), ["g1 live", "g2 candidate"]);
    assert_eq!(lake.run(&["promote"]).status.code(), Some(1), "without a reason it stays as it is");
    let report = lake.json(&["promote", "--force", "half of them ended", "--json"]);
    assert_eq!((report["live"].as_str(), lake.documents().len()), (Some("g2"), 50));
    assert!(text(&lake.run(&["log"])).contains("forced: half of them ended"));
    lake.verify_equal();
}

#[test]
fn a_changed_shape_is_kept_out_until_a_rebuild_and_then_comes_with_it() {
    let lake = filled(ITEMS, 50);
    fs::write(lake.path("document.sql"), "SELECT id, v, length(v) AS n FROM items").unwrap();
    let run = lake.spawn(&["run", "--json"]);
    eventually("an alarm", LIMIT, || {
        kinds(&lake.json(&["status", "--json"])).contains(&"rebuild_due".into()).then_some(())
    });
    lake.land(&now_path("second"), rows(&[("new", "ab")]));
    eventually("the old shape to go on", LIMIT, || (lake.documents().len() == 51).then_some(()));
    assert_eq!(lake.documents()["new"], serde_json::json!({"id": "new", "v": "ab"}));
    lake.json(&["rebuild", "--promote", "--json"]);
    assert_eq!(lake.documents()["new"], serde_json::json!({"id": "new", "v": "ab", "n": 2}));
    eventually("no alarm", LIMIT, || kinds(&lake.json(&["status", "--json"])).is_empty().then_some(()));
    lake.verify_equal();
    run.kill();
}

#[test]
fn rebuilds_by_themselves_on_a_change_and_former_indexes_leave() {
    let toml = ITEMS.replace("[index]", "[generations]\nkeep_hot = \"1s\"\nrebuild_on_change = true\n\n[index]");
    let lake = filled(&toml, 50);
    fs::write(lake.path("document.sql"), "SELECT id, v, length(v) AS n FROM items").unwrap();
    let run = lake.spawn(&["run", "--json"]);
    eventually("the new shape", LIMIT, || (lake.documents()["d0001"]["n"] == 9).then_some(()));
    eventually("the former index to be gone", LIMIT, || {
        let alone = roles(&lake.json(&["generations", "--json"])) == ["g2 live"];
        (alone && !lake.path("index/generations/g1").exists()).then_some(())
    });
    assert!(lake.path("index/generations/g2").exists());
    lake.verify_equal();
    run.kill();
}

#[test]
fn a_period_after_the_start_a_rebuild_is_promoted_by_itself() {
    let toml = ITEMS.replace("[index]", "[generations]\nrebuild_every = \"1m\"\n\n[index]");
    let lake = filled(&toml, 50);
    let run = lake.spawn(&["run", "--json"]);
    eventually("another index", LIMIT, || (current(&lake) == "g2").then_some(()));
    let report = lake.json(&["generations", "--json"]);
    assert_eq!(report["generations"][0]["judgement"]["passed"], true, "{report}");
    run.kill();
    lake.verify_equal();
}

#[test]
fn what_cannot_be_done_is_told_and_changes_nothing() {
    let lake = Lake::items();
    for (args, told) in [
        (&["rebuild"][..], "no batch was committed yet"),
        (&["promote"], "there is no candidate to promote"),
        (&["rollback"], "no former generation is kept"),
    ] {
        let output = lake.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(text(&output).contains(told), "{args:?}: {}", text(&output));
    }
    let lake = filled(ITEMS, 5);
    fs::write(lake.path("document.sql"), "SELECT id, missing FROM items").unwrap();
    let run = lake.spawn(&["run", "--json"]);
    let output = lake.run(&["rebuild"]);
    assert!(!output.status.success());
    assert_eq!((current(&lake), lake.documents().len()), ("g1".into(), 5));
    drop(run);
}

/// The process dies before and after each record that it writes from the order on, deltas coming in; the one after it ends
/// what was begun. At every moment the index that readers see is whole.
#[test]
fn killed_before_and_after_every_record_of_a_rebuild_it_ends_alike() {
    let Some(bucket) = Bucket::of("HIGHWATER_TEST_S3_MOTO") else { return };
    let mut stopped = 0;
    for step in 0..40 {
        let reached = [Fault::Hang, Fault::LostHang].map(|fault| dies_at(&bucket, step, fault));
        if !reached.iter().any(|reached| *reached) {
            break;
        }
        stopped = step + 1;
    }
    // A claim, the candidate begun, its judgement, the intent and the end of the switch, at the least.
    assert!((5..40).contains(&stopped), "{stopped} records");
}

/// True if the process came as far as that record.
fn dies_at(bucket: &Bucket, step: u64, fault: Fault) -> bool {
    let bucket = Bucket::at(&bucket.endpoint);
    let proxy = Proxy::start(&bucket.endpoint);
    let lake = bucket.lake_through(&proxy.endpoint(), "timeout = \"30s\"");
    let file = lake.path("highwater.toml");
    let toml = fs::read_to_string(&file).unwrap().replace("poll = \"100ms\"", "poll = \"50ms\"\nlease = \"1s\"");
    fs::write(&file, toml).unwrap();
    let land = |id: &str| {
        let now = jiff::Timestamp::now().strftime("lake/region=eu/dt=%Y-%m-%d/hr=%H/min=%M");
        bucket.put(&format!("{now}/{id}.ndjson"), rows(&[(id, "x")]));
    };
    (0..20).for_each(|n| land(&format!("d{n:02}")));
    lake.json(&["once", "--json"]);
    proxy.stop_after(Kind::Create, "/log/", step, fault);
    let mut rebuild = lake.spawn(&["rebuild", "--promote"]);
    // What readers see, all the time.
    let whole = |what: &str| {
        let found = lake.json(&["search", "*", "--json", "--limit", "0"]);
        assert!(found["total"].as_u64().unwrap() >= 20, "{what}, step {step}, {fault:?}: {found}");
    };
    let mut landed = 0;
    let came = eventually("the record, or the end", LIMIT, || {
        if landed < 3 {
            land(&format!("n{landed}"));
            landed += 1;
        }
        whole("before");
        if proxy.faults().contains_key(&fault.name()) {
            return Some(true);
        }
        (!rebuild.is_alive()).then_some(false)
    });
    if came {
        rebuild.kill();
    } else {
        assert!(rebuild.wait(LIMIT).success(), "{}", rebuild.log());
    }
    whole("after the kill");
    proxy.heal();
    let run = lake.spawn(&["run", "--json"]);
    // A rebuild that was not begun when its process died is an order still: whoever comes next carries it out.
    eventually(&format!("g2 to be live, step {step}, {fault:?}:\n{}", run.log()), LIMIT, || {
        whole("while it goes on");
        let report = lake.json(&["generations", "--json"]);
        (report["live"] == "g2" && current(&lake) == "g2").then_some(())
    });
    land("last");
    eventually("the last file", LIMIT, || (lake.documents().len() == 21 + landed).then_some(()));
    lake.verify_equal();
    run.kill();
    came
}

/// The log is out of reach between the intent and its end: the session that comes next ends the switch, and goes on with
/// the generation that is live then.
#[test]
fn a_switch_that_fails_once_is_ended_by_the_next_session_of_the_same_process() {
    let Some(bucket) = Bucket::of("HIGHWATER_TEST_S3_MOTO") else { return };
    let proxy = Proxy::start(&bucket.endpoint);
    let lake = bucket.lake_through(&proxy.endpoint(), "timeout = \"1s\"");
    let land = |id: &str| {
        let now = jiff::Timestamp::now().strftime("lake/region=eu/dt=%Y-%m-%d/hr=%H/min=%M");
        bucket.put(&format!("{now}/{id}.ndjson"), rows(&[(id, "x")]));
    };
    land("a");
    let run = lake.spawn(&["run", "--json"]);
    eventually("a batch", LIMIT, || current_of(&lake).filter(|name| name == "g1"));
    eventually("a document", LIMIT, || (lake.documents().len() == 1).then_some(()));
    lake.json(&["rebuild", "--json"]);
    // A batch of this very session, so that its engine has the old index open.
    land("b");
    eventually("the second document", LIMIT, || (lake.documents().len() == 2).then_some(()));
    proxy.stop_after(Kind::Create, "/log/", 1, Fault::Hang);
    let mut promote = lake.spawn_to("promote.log", &["promote"]);
    eventually("the record that ends the switch", LIMIT, || proxy.faults().contains_key("hang").then_some(()));
    proxy.heal();
    assert!(promote.wait(LIMIT).success(), "{}", promote.log());
    assert_eq!(current(&lake), "g2");
    land("c");
    eventually(&format!("what came after the switch:\n{}", run.log()), LIMIT, || {
        (lake.documents().len() == 3).then_some(())
    });
    run.kill();
    lake.verify_equal();
}

fn current_of(lake: &Lake) -> Option<String> {
    Some(fs::read_to_string(lake.path("index/current")).ok()?.trim().to_owned())
}

#[test]
fn readers_are_pointed_at_what_the_log_calls_live() {
    let lake = filled(ITEMS, 20);
    lake.json(&["rebuild", "--promote", "--json"]);
    for other in ["g1", "g9"] {
        fs::write(lake.path("index/current"), other).unwrap();
        let told = text(&lake.run(&["once"]));
        assert!(told.contains("pointed at"), "{told}");
        assert_eq!((current(&lake), lake.documents().len()), ("g2".into(), 20));
    }
    // A candidate is shown to nobody, though the index is gone.
    lake.json(&["rebuild", "--json"]);
    fs::remove_dir_all(lake.path("index")).unwrap();
    lake.json(&["once", "--json"]);
    assert_eq!((current(&lake), lake.documents().len()), ("g2".into(), 20));
    lake.verify_equal();
}

#[test]
fn orders_that_nobody_waits_for_are_taken_back_and_a_rollback_stays() {
    let toml = ITEMS.replace("[index]", "[generations]\nrebuild_on_change = true\n\n[index]");
    let lake = filled(&toml, 20);
    fs::write(lake.path("document.sql"), "SELECT id, missing FROM items").unwrap();
    assert!(!lake.run(&["rebuild", "--promote"]).status.success());
    let orders = || fs::read_dir(lake.path("state/items/orders")).map_or(0, Iterator::count);
    assert_eq!(orders(), 0, "the next writer would be surprised by it");
    fs::write(lake.path("document.sql"), "SELECT id, v, length(v) AS n FROM items").unwrap();
    let run = lake.spawn(&["run", "--json"]);
    // Readers see it a moment before the log says so, and only then is there a former one.
    eventually("the new shape", LIMIT, || {
        (roles(&lake.json(&["generations", "--json"])) == ["g2 live", "g1 former"]).then_some(())
    });
    assert_eq!(current(&lake), "g2");
    let report = lake.json(&["rollback", "--reason", "all are bad", "--json"]);
    assert_eq!(report["live"], "g1");
    lake.land(&now_path("later"), rows(&[("later", "x")]));
    eventually("a batch after it", LIMIT, || (lake.documents().len() == 21).then_some(()));
    let report = lake.json(&["generations", "--json"]);
    assert_eq!(roles(&report), ["g1 live", "g2 former"], "no rebuild begins by itself after a rollback");
    assert_eq!(lake.json(&["rebuild", "--promote", "--json"])["live"], "g3", "but it does when it is ordered");
    run.kill();
    lake.verify_equal();
}

/// What `generations --drop` says when it is refused.
fn refused(lake: &Lake, name: &str) -> String {
    let output = lake.run(&["generations", "--drop", name]);
    assert!(!output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn a_candidate_is_dropped_where_nobody_writes_and_its_disk_is_free() {
    let lake = filled(ITEMS, 20);
    lake.json(&["rebuild", "--json"]);
    assert!(lake.path("index/generations/g2").exists());
    let report = lake.json(&["generations", "--drop", "g2", "--reason", "the wrong words", "--json"]);
    assert_eq!((roles(&report), current(&lake)), (vec!["g1 live".into()], "g1".into()));
    assert!(!lake.path("index/generations/g2").exists());
    assert!(text(&lake.run(&["log"])).contains("g2 dropped: the wrong words"));
    assert_eq!(lake.run(&["promote"]).status.code(), Some(1), "there is no candidate any more");
    assert_eq!(lake.json(&["rebuild", "--promote", "--json"])["live"], "g3", "its name is not given again");
    lake.verify_equal();
}

#[test]
fn a_running_writer_drops_a_candidate_and_goes_on() {
    let lake = filled(ITEMS, 20);
    let run = lake.spawn(&["run", "--json"]);
    run.watches_signals();
    lake.json(&["rebuild", "--json"]);
    let report = lake.json(&["generations", "--drop", "g2", "--json"]);
    assert_eq!(roles(&report), ["g1 live"]);
    assert!(!lake.path("index/generations/g2").exists());
    lake.land(&now_path("later"), rows(&[("later", "x")]));
    eventually("a batch after it", LIMIT, || (lake.documents().len() == 21).then_some(()));
    assert_eq!(kinds(&lake.json(&["status", "--json"])), Vec::<String>::new());
    lake.verify_equal();
    run.kill();
}

#[test]
fn what_is_live_or_kept_for_a_rollback_is_not_dropped_and_what_no_name_points_at_is() {
    let lake = filled(ITEMS, 20);
    assert!(refused(&lake, "g1").contains("g1 is live"));
    assert!(refused(&lake, "g2").contains("there is no generation g2"));
    assert!(refused(&lake, "../state").contains("no generation's name"));
    lake.json(&["rebuild", "--promote", "--json"]);
    assert!(refused(&lake, "g1").contains("keep_hot"));
    assert_eq!(roles(&lake.json(&["generations", "--json"])), ["g2 live", "g1 former"]);
    // An index of a state that was lost: greater than any that this log knows.
    fs::create_dir_all(lake.path("index/generations/g7/index")).unwrap();
    fs::write(lake.path("index/generations/g7/index/left"), "x").unwrap();
    lake.json(&["generations", "--drop", "g7", "--json"]);
    assert!(!lake.path("index/generations/g7").exists());
    assert_eq!((current(&lake), lake.documents().len()), ("g2".into(), 20));
    assert_eq!(lake.json(&["rebuild", "--promote", "--json"])["live"], "g8");
    lake.verify_equal();
}

/// How many documents an index's own commit file tells of, and whether with a stamp.
fn committed(lake: &Lake, name: &str) -> Option<(u64, bool)> {
    let meta = fs::read(lake.path(&format!("index/generations/{name}/index/meta.json"))).ok()?;
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    let segments = meta["segments"].as_array().unwrap().iter();
    Some((segments.map(|segment| segment["max_doc"].as_u64().unwrap()).sum(), meta["payload"].is_string()))
}

#[test]
fn a_fill_that_was_killed_goes_on_from_its_last_checkpoint_and_is_no_generation_before_it_is_whole() {
    const DOCUMENTS: u64 = 70_000;
    // Whatever else the machine does comes before a fill.
    let limit = 5 * LIMIT;
    let lake = filled(ITEMS, DOCUMENTS);
    for name in ["g2", "g3", "g4", "g5", "g6"] {
        let rebuild = lake.spawn_to("rebuild.log", &["rebuild"]);
        eventually(&format!("a checkpoint of {name}:\n{}", rebuild.log()), limit, || {
            committed(&lake, name).filter(|(documents, _)| *documents > 0)
        });
        rebuild.kill();
        let (kept, is_whole) = committed(&lake, name).unwrap();
        if is_whole {
            // The machine was too slow to kill it in time.
            continue;
        }
        assert!(0 < kept && kept < DOCUMENTS, "{kept}");
        let report = lake.json(&["generations", "--json"]);
        assert_eq!(roles(&report), ["g1 live".to_owned(), format!("{name} candidate")]);
        assert_eq!(report["generations"][1]["judgement"], Value::Null, "nobody takes a part for the whole");
        let run = lake.spawn_with("run.log", &["run", "--json"], &[("HIGHWATER_LOG", "info,tantivy=error")]);
        let told = eventually(&format!("the rest:\n{}", run.log()), limit, || {
            let follows = |line: &&str| line.contains("a generation follows") && line.contains(name);
            run.log().lines().find(follows).map(str::to_owned)
        });
        let wanted = format!("upserts={} deletes=0 unchanged={kept}", DOCUMENTS - kept);
        assert!(told.contains(&wanted), "{told}: {wanted}");
        assert_eq!(lake.json(&["promote", "--json"])["live"], name);
        lake.verify_equal();
        run.kill();
        return;
    }
    panic!("five rebuilds ended before they could be killed");
}

/// How much nicer than their process the threads are by which it writes indexes.
#[cfg(target_os = "linux")]
fn index_threads(process: u32) -> Vec<i32> {
    let nice = |stat: &str| -> i32 { stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap() };
    let own = nice(&fs::read_to_string(format!("/proc/{process}/stat")).unwrap());
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.filter(|stat| stat.contains("(thrd-tantivy-in")).map(|stat| nice(&stat) - own).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_promoted_has_the_machine_and_what_was_live_gives_way_to_it() {
    let lake = filled(ITEMS, 20);
    let run = lake.spawn(&["run", "--json"]);
    run.watches_signals();
    let cores = std::thread::available_parallelism().unwrap().get().min(8);
    for (live, documents) in [("g2", 21), ("g3", 22)] {
        assert_eq!(lake.json(&["rebuild", "--promote", "--json"])["live"], live);
        lake.land(&now_path(live), rows(&[(live, "x")]));
        eventually("a batch", LIMIT, || (lake.documents().len() == documents).then_some(()));
        eventually("the threads of both", LIMIT, || {
            let seen = index_threads(run.id());
            (seen.iter().filter(|nicer| **nicer == 0).count() == cores && seen.iter().any(|nicer| *nicer > 0))
                .then_some(())
        });
    }
    run.kill();
    lake.verify_equal();
}
