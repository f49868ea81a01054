//! The OpenAPI document: well-formed, complete, without dangling references.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Served;
use crate::serve::routes;

#[tokio::test]
async fn it_documents_every_route_and_no_other() {
    let document = Served::ads().await.get("/api/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    for key in ["title", "version"] {
        assert!(document["info"][key].is_string(), "{key}");
    }
    let documented: BTreeSet<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
    let served: BTreeSet<String> = routes().into_iter().map(|(path, _)| path.replace("{*", "{")).collect();
    assert_eq!(documented, served);
}

#[tokio::test]
async fn every_operation_is_whole() {
    let document = Served::ads().await.get("/api/v1/openapi.json").await.json();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert_eq!(item.as_object().unwrap().keys().collect::<Vec<_>>(), ["get"], "{path}");
        let operation = &item["get"];
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{path}");
        let parameters = operation["parameters"].as_array().unwrap();
        for parameter in parameters {
            let place = parameter["in"].as_str().unwrap();
            assert!(["path", "query"].contains(&place) && parameter["schema"].is_object(), "{path}");
            assert_eq!(place == "path", parameter["required"] == true, "{path}: {parameter}");
        }
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
        assert_eq!(in_path, path.matches('{').count(), "{path}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.contains_key("200"), "{path}");
        for response in responses.values() {
            assert!(response["description"].is_string() && response["content"].is_object(), "{path}");
        }
    }
}

#[tokio::test]
async fn every_reference_resolves_and_every_schema_is_named_well() {
    let document = Served::ads().await.get("/api/v1/openapi.json").await.json();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    for reference in &references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    assert!(references.contains("#/components/schemas/SearchReport"));
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{name}");
    }
}

#[tokio::test]
async fn answers_have_the_fields_that_their_schemas_require() {
    let served = Served::ads().await;
    let document = served.get("/api/v1/openapi.json").await.json();
    let cases = [
        ("/api/v1/pipelines", "PipelinesReport"),
        ("/api/v1/pipelines/ads/search", "SearchReport"),
        ("/api/v1/pipelines/ads/documents/1", "DocumentReport"),
        ("/api/v1/pipelines/ads/status", "StatusReport"),
        ("/api/v1/pipelines/ads/batches", "BatchesReport"),
        ("/healthz", "HealthReport"),
        ("/nothing", "ErrorReport"),
    ];
    for (path, name) in cases {
        let answer = served.get(path).await.json();
        let schema = &document["components"]["schemas"][name];
        let known = schema["properties"].as_object().unwrap();
        for key in answer.as_object().unwrap().keys() {
            assert!(known.contains_key(key), "{name} does not know {key}");
        }
        for key in schema["required"].as_array().unwrap() {
            assert!(answer.get(key.as_str().unwrap()).is_some(), "{path} lacks {key}");
        }
    }
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                references.insert(reference.clone());
            }
            map.values().for_each(|value| collect(value, references));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}
