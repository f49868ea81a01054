//! Health and readiness.

use std::time::Duration;

use super::Served;
use super::fake::{FakeView, at};

#[tokio::test]
async fn a_loop_is_alive_while_it_gives_signs() {
    let served = Served::ads().await;
    assert_eq!(served.get("/healthz").await.status, 200);
    served.clock.set("2026-05-01T12:07:30Z");
    assert_eq!(served.get("/healthz").await.status, 200, "three times the expected pause is patience enough");
    served.clock.set("2026-05-01T12:07:31Z");
    let answer = served.get("/healthz").await;
    assert_eq!(answer.status, 503);
    let told = &answer.json()["pipelines"][0];
    assert_eq!((&told["name"], &told["ok"]), (&"ads".into(), &false.into()));
    assert_eq!(told["reason"], "the loop gave no sign of life for 31 s; one is expected every 10 s");
    served.clock.set("2026-05-01T11:00:00Z");
    assert_eq!(served.get("/healthz").await.status, 200, "a clock that was set back is no standstill");
}

#[tokio::test]
async fn a_loop_that_never_ticked_is_measured_from_the_start() {
    let mut view = FakeView::waiting("ads");
    view.progress.last_tick = None;
    let served = Served::new(vec![view]).await;
    assert_eq!(served.get("/healthz").await.status, 200);
    served.clock.set("2026-05-01T12:10:00Z");
    assert_eq!(served.get("/healthz").await.status, 503);
}

#[tokio::test]
async fn a_reader_has_no_loop_to_watch() {
    let mut view = FakeView::new("ads");
    view.progress.loop_runs_here = false;
    view.progress.last_tick = Some(at("2020-01-01T00:00:00Z"));
    view.progress.expected_every = Duration::ZERO;
    let served = Served::new(vec![view]).await;
    served.clock.set("2026-05-02T00:00:00Z");
    assert_eq!(served.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn one_pipeline_that_is_not_ready_makes_all_not_ready() {
    let served = Served::new(vec![FakeView::new("ads"), FakeView::troubled("items")]).await;
    let answer = served.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.json(),
        serde_json::json!({ "ok": false, "pipelines": [
            { "name": "ads", "ok": true },
            { "name": "items", "ok": false, "reason": "the watermark is 420 s behind" },
        ] })
    );
    assert_eq!(Served::ads().await.get("/readyz").await.status, 200);
}
