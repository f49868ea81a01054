use highwater_core::log::{Writer, WriterId, claim};
use highwater_core::ports::Stamp;

use super::*;
use crate::clock::FixedClock;
use crate::config::{check_layout, load};
use crate::engine::Access;

const CONFIG: &str = r#"
[pipeline]
name = "p"
state = "./state"
step = "1m"
window = "1h"
poll = "1s"
[source.s]
location = "./lake"
layout = "dt=%Y-%m-%d/hr=%H/min=%M"
format = "ndjson"
kind = "append"
columns = { id = "string" }
[document]
sql = "document.sql"
id = "id"
[index]
kind = "tantivy"
path = "./index"
"#;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A view of a loop in this process, at noon.
fn world() -> (tempfile::TempDir, View, Arc<LiveState>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("lake")).unwrap();
    std::fs::write(dir.path().join("document.sql"), "SELECT id FROM s").unwrap();
    let file = dir.path().join("highwater.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let config = load(&file, &|_| None, &check_layout).unwrap();
    let clock = Arc::new(FixedClock(at("2026-05-01T12:00:00Z")));
    let pipeline = Pipeline::open(Arc::new(config), clock, Access::Write).unwrap();
    let live = Arc::new(LiveState::default());
    (dir, View::new(Arc::new(pipeline), Some(live.clone())), live)
}

fn tick(alarms: Vec<Alarm>) -> TickReport {
    TickReport {
        between: Vec::new(),
        record: None,
        last: Sequence(1),
        clock: at("2026-05-01T12:00:00Z"),
        watermark: None,
        documents: 0,
        alarms,
        requests: Requests::default(),
        listed: BTreeMap::new(),
        behind: false,
    }
}

fn begun(live: &LiveState) {
    let stamp = Stamp { sequence: Sequence(1), watermark: at("2026-05-01T11:59:00Z") };
    live.begin(PipelineState { stamp: Some(stamp), ..PipelineState::default() }, Vec::new());
}

fn alarm(kind: &str) -> Alarm {
    let source = Some(highwater_core::SourceName::new("s"));
    Alarm { kind: kind.to_owned(), source, since: at("2026-05-01T11:00:00Z"), detail: "waits for dt=1".to_owned() }
}

#[tokio::test]
async fn a_source_that_cannot_be_listed_is_not_ready() {
    let (_dir, view, live) = world();
    let noon = at("2026-05-01T12:00:00Z");
    assert_eq!(view.ready(), Err("the loop has not begun".to_owned()));
    begun(&live);
    assert_eq!(view.ready(), Err("no tick was completed yet".to_owned()));
    live.ticked(&tick(vec![alarm("source_silent")]), noon);
    assert_eq!(view.ready(), Ok(()));
    live.ticked(&tick(vec![alarm("source_silent"), alarm("listing_failed")]), noon);
    assert_eq!(view.ready(), Err("source s: waits for dt=1".to_owned()));
    live.ticked(&tick(Vec::new()), noon);
    assert_eq!(view.ready(), Ok(()));
    live.ticked(&tick(Vec::new()), at("2026-05-01T11:50:00Z"));
    assert!(view.ready().unwrap_err().contains("last tick"));
}

#[tokio::test]
async fn a_loop_that_fails_moves_and_hides_nothing() {
    let (_dir, view, live) = world();
    let writer = Writer { id: WriterId("w".into()), holder: "host:17".into(), version: "1".into() };
    claim(&view.pipeline.log, at("2026-05-01T11:00:00Z"), &writer).await.unwrap();
    let noon = at("2026-05-01T12:00:00Z");
    live.failed(&Fault::Unavailable("no store".into()), noon);
    assert_eq!(view.progress().last_tick, Some(noon), "a sign of life");
    assert!(view.ready().unwrap_err().contains("no store"));
    assert_eq!(view.status().await.unwrap().writer.map(|writer| writer.holder), Some("host:17".to_owned()));

    begun(&live);
    live.ticked(&tick(vec![alarm("source_silent")]), noon);
    live.failed(&Fault::Unavailable("no store".into()), noon);
    begun(&live);
    assert!(view.ready().unwrap_err().contains("no store"), "until a tick goes well");
    assert_eq!(view.status().await.unwrap().alarms.len(), 1, "what stood before the session broke");
    let later = at("2026-05-01T12:30:00Z");
    live.moved(later);
    assert_eq!(view.progress().last_tick, Some(later), "a long batch is a sign of life");
}

#[tokio::test]
async fn readers_share_what_is_known() {
    let (_dir, view, live) = world();
    begun(&live);
    let (first, second) = (view.known().await.unwrap(), view.known().await.unwrap());
    assert!(Arc::ptr_eq(&first, &second));
    live.ticked(&tick(vec![alarm("source_silent")]), at("2026-05-01T12:00:00Z"));
    assert!(first.alarms.is_empty(), "an answer in hand stays one");
    assert_eq!(view.known().await.unwrap().alarms.len(), 1);
}
