//! The JSON API: answers, bounds, errors.

use highwater_core::ports::Fault;

use super::Served;
use super::fake::{FakeIndex, FakeView};
use crate::index::SearchError;

#[tokio::test]
async fn pipelines_are_listed_with_their_readiness() {
    let served = Served::new(vec![FakeView::new("ads"), FakeView::waiting("items")]).await;
    let answer = served.get("/api/v1/pipelines").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        serde_json::json!({ "pipelines": [
            { "name": "ads", "ready": true, "writes": true },
            { "name": "items", "ready": false, "reason": "no batch was committed yet", "writes": true },
        ] })
    );
}

#[tokio::test]
async fn a_search_says_as_of_which_commit_it_answers() {
    let answer = Served::ads().await.get("/api/v1/pipelines/ads/search?q=kettle&limit=1&offset=1").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        serde_json::json!({
            "as_of": {
                "seq": 30, "watermark": "2026-05-01T12:05:00Z", "newest": { "ads": "2026-05-01T12:05:00Z" },
            },
            "total": 2,
            "hits": [{
                "id": "de/2 ü", "score": 1.5, "document": { "id": "de/2 ü", "title": "Red kettle", "tags": ["a", "b"] },
            }],
        })
    );
}

#[tokio::test]
async fn documents_are_answered_byte_for_byte() {
    let answer = Served::ads().await.get("/api/v1/pipelines/ads/search").await;
    assert_eq!(answer.json()["total"], 3, "no query means all");
    assert!(answer.text.contains(&FakeIndex::default().0[0].1), "numbers keep their digits: {}", answer.text);
}

#[tokio::test]
async fn an_id_may_hold_slashes_blanks_and_letters_of_any_script() {
    let served = Served::ads().await;
    for path in ["de/2%20%C3%BC", "de%2F2%20%C3%BC"] {
        let answer = served.get(&format!("/api/v1/pipelines/ads/documents/{path}")).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.json()["id"], "de/2 ü");
        assert_eq!(answer.json()["seq"], 9);
        assert_eq!(answer.json()["as_of"]["seq"], 30);
        assert_eq!(answer.json()["document"]["title"], "Red kettle");
    }
}

#[tokio::test]
async fn a_missing_document_says_where_it_was_looked_for() {
    let answer = Served::ads().await.get("/api/v1/pipelines/ads/documents/nobody").await;
    assert_eq!(answer.refusal(), (404, "not_found".to_owned()));
    assert_eq!(answer.json()["as_of"]["watermark"], "2026-05-01T12:05:00Z");
}

#[tokio::test]
async fn status_and_batches_are_the_reports_themselves() {
    let served = Served::ads().await;
    let status = served.get("/api/v1/pipelines/ads/status").await;
    assert_eq!(status.json(), serde_json::to_value(super::fake::status("ads")).unwrap());
    let batches = served.get("/api/v1/pipelines/ads/batches").await.json();
    assert_eq!(batches["batches"].as_array().unwrap().len(), 20);
    let batches = served.get("/api/v1/pipelines/ads/batches?limit=2").await.json();
    assert_eq!([&batches["batches"][0]["seq"], &batches["batches"][1]["seq"]], [30, 29], "newest first");
}

#[tokio::test]
async fn holes_are_those_that_are_open_and_the_last_that_ended() {
    let served = Served::new(vec![FakeView::troubled("ads")]).await;
    let answer = served.get("/api/v1/pipelines/ads/holes").await.json();
    assert_eq!(answer["complete"], serde_json::json!({"from": "2026-05-01T07:05:00Z", "to": "2026-05-01T12:05:00Z"}));
    assert_eq!(answer["holes"][0]["cause"], "passed_over");
    assert_eq!(
        (&answer["holes_closed"][0]["cause"], &answer["holes_closed"][0]["end"]),
        (&"passed_over".into(), &"left_window".into())
    );
    assert_eq!(served.get("/api/v1/pipelines/ads/holes?all=1").await.status, 400);
}

#[tokio::test]
async fn what_is_not_understood_is_refused_by_name() {
    let served = Served::ads().await;
    let long = "x".repeat(4_097);
    let cases = [
        ("search?limit=0", "limit is \"0\""),
        ("search?limit=1001", "from 1 to 1000"),
        ("search?limit=ten", "limit is \"ten\""),
        ("search?limit=-1", "limit is \"-1\""),
        ("search?limit=99999999999999999999", "from 1 to 1000"),
        ("search?limit=", "limit is \"\""),
        ("search?offset=10001", "from 0 to 10000"),
        ("search?limt=5", "unknown parameter \"limt\"; known here: q, limit, offset"),
        ("search?q=a&q=b", "\"q\" stands twice"),
        (&format!("search?q={long}"), "q is 4097 bytes long; at most 4096"),
        ("batches?limit=1001", "from 1 to 1000"),
        ("batches?q=x", "unknown parameter \"q\""),
        ("status?x=1", "unknown parameter \"x\"; known here: none"),
        ("documents/1?x=1", "unknown parameter \"x\""),
    ];
    for (path, part) in cases {
        let answer = served.get(&format!("/api/v1/pipelines/ads/{path}")).await;
        assert_eq!(answer.refusal(), (400, "bad_parameter".to_owned()), "{path}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(part), "{path}: {}", answer.text);
    }
    let most = "(".repeat(64) + &"x".repeat(4_032);
    assert_eq!(served.get(&format!("/api/v1/pipelines/ads/search?q={most}&limit=1000&offset=10000")).await.status, 200);
}

#[tokio::test]
async fn a_query_that_does_not_parse_is_the_readers_mistake() {
    let answer = Served::ads().await.get("/api/v1/pipelines/ads/search?q=%5B").await;
    assert_eq!(answer.refusal(), (400, "bad_query".to_owned()));
}

#[tokio::test]
async fn unknown_pipelines_and_paths_are_not_found() {
    let served = Served::ads().await;
    for path in ["search", "status", "batches", "documents/1"] {
        let answer = served.get(&format!("/api/v1/pipelines/adz/{path}")).await;
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{path}");
        assert!(answer.text.contains("adz"));
    }
    for path in ["/api/v1/", "/api/v1/pipelines/ads", "/favicon.ico", "/api/v1/pipelines/ads/documents/"] {
        assert_eq!(served.get(path).await.refusal(), (404, "not_found".to_owned()), "{path}");
    }
    let answer = served.get("/api/v1/pipelines/ads/documents/%FF").await;
    assert_eq!(answer.refusal(), (400, "bad_path".to_owned()));
}

#[tokio::test]
async fn before_the_first_batch_there_is_a_status_but_nothing_to_search() {
    let served = Served::new(vec![FakeView::waiting("ads")]).await;
    for path in ["search?q=x", "documents/1"] {
        let answer = served.get(&format!("/api/v1/pipelines/ads/{path}")).await;
        assert_eq!(answer.refusal(), (503, "no_batch_yet".to_owned()));
        assert_eq!(answer.headers["retry-after"], "1");
    }
    let status = served.get("/api/v1/pipelines/ads/status").await;
    assert_eq!((status.status, &status.json()["seq"]), (200, &serde_json::Value::Null));
}

#[tokio::test]
async fn faults_say_whether_to_try_again() {
    let faults = [
        (Fault::Unavailable("the bucket is out of reach".to_owned()), 503, "unavailable"),
        (Fault::Fenced("by another".to_owned()), 503, "fenced"),
        (Fault::Invalid("index.path: not a folder".to_owned()), 500, "invalid_configuration"),
        (Fault::Internal("x".to_owned()), 500, "internal"),
    ];
    for (fault, status, kind) in faults {
        let mut view = FakeView::new("ads");
        view.status = Err(fault.clone());
        view.batches = Err(fault.clone());
        view.index = Err(SearchError::Fault(fault));
        let served = Served::new(vec![view]).await;
        for path in ["search", "status", "batches", "documents/1"] {
            let answer = served.get(&format!("/api/v1/pipelines/ads/{path}")).await;
            assert_eq!(answer.refusal(), (status, kind.to_owned()), "{path}");
        }
    }
}

#[tokio::test]
async fn a_document_that_is_no_json_is_our_defect() {
    let mut view = FakeView::new("ads");
    view.index = Ok(FakeIndex(vec![("7".to_owned(), "{broken".to_owned())]).into());
    let answer = Served::new(vec![view]).await.get("/api/v1/pipelines/ads/documents/7").await;
    assert_eq!(answer.refusal(), (500, "internal".to_owned()));
}
