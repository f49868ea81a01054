//! The OpenAPI 3.1 document, made from the types that are answered: it cannot say other fields than the answers have.

use axum::Json;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::api::{DEFAULT_BATCHES, DEFAULT_HITS};
use super::{
    BatchesReport, ErrorReport, HealthReport, MAX_LIMIT, MAX_OFFSET, MAX_QUERY_BYTES, MAX_QUERY_NESTING,
    PipelinesReport,
};
use crate::report::{DocumentReport, HolesReport, SearchReport, StatusReport};

pub(super) async fn show() -> Json<Value> {
    Json(document())
}

/// The whole document.
fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let paths = paths(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "highwater",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Searches over indexes that say how fresh they are. Reading only.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas.take_definitions(true) },
    })
}

fn paths(schemas: &mut SchemaGenerator) -> Value {
    let name = path_parameter("name", "The pipeline's name.");
    let id = path_parameter("id", "The document's id, percent-encoded; it may contain slashes.");
    let q = json!({
        "name": "q", "in": "query",
        "description": format!(
            "In the index's own query language; empty or `*`: all. At most {MAX_QUERY_BYTES} bytes and \
             {MAX_QUERY_NESTING} `(` or `NOT`."
        ),
        "schema": { "type": "string", "maxLength": MAX_QUERY_BYTES },
    });
    let hits = number("limit", "How many hits at most.", 1, MAX_LIMIT, DEFAULT_HITS);
    let offset = number("offset", "How many hits to pass over.", 0, MAX_OFFSET, 0);
    let batches = number("limit", "How many batches at most.", 1, MAX_LIMIT, DEFAULT_BATCHES);

    let list = answer::<PipelinesReport>(schemas, "The pipelines that are served here.");
    let search = answer::<SearchReport>(schemas, "The best hits, and the commit that was searched.");
    let get = answer::<DocumentReport>(schemas, "The document, and the commit that it was read from.");
    let status = answer::<StatusReport>(schemas, "How the pipeline stands now.");
    let holes = answer::<HolesReport>(schemas, "Holes that are open, and the last that ended.");
    let last = answer::<BatchesReport>(schemas, "The last batches, newest first.");
    let well = answer::<HealthReport>(schemas, "Every pipeline is well.");
    let unwell = answer::<HealthReport>(schemas, "A pipeline is not, for the reason given.");
    let health = [("200", well), ("503", unwell)];

    let of_one = ["400", "404", "500", "503"];
    let search = errors(schemas, search, &of_one);
    let get = errors(schemas, get, &of_one);
    let status = errors(schemas, status, &of_one);
    let holes = errors(schemas, holes, &of_one);
    let last = errors(schemas, last, &of_one);
    let list = errors(schemas, list, &["400"]);
    let openapi = vec![("200", plain("An OpenAPI document.", "application/json"))];
    let metrics = vec![("200", plain("OpenMetrics text.", "application/openmetrics-text"))];
    let page = vec![("200", plain("A page.", "text/html"))];

    json!({
        "/": get_of("page", "The operator's page", &[], page),
        "/api/v1/pipelines": get_of("pipelines", "List the pipelines", &[], list),
        "/api/v1/pipelines/{name}/search": get_of("search", "Search", &[&name, &q, &hits, &offset], search),
        "/api/v1/pipelines/{name}/documents/{id}": get_of("document", "Get a document", &[&name, &id], get),
        "/api/v1/pipelines/{name}/status": get_of("status", "Tell how a pipeline stands", &[&name], status),
        "/api/v1/pipelines/{name}/holes": get_of("holes", "List the holes", &[&name], holes),
        "/api/v1/pipelines/{name}/batches": get_of("batches", "List the last batches", &[&name, &batches], last),
        "/api/v1/openapi.json": get_of("openapi", "This document", &[], openapi),
        "/metrics": get_of("metrics", "Metrics", &[], metrics),
        "/healthz": get_of("alive", "Tell whether the loops make progress", &[], health.to_vec()),
        "/readyz": get_of("ready", "Tell whether the indexes are fresh within their objectives", &[], health.to_vec()),
    })
}

fn get_of(id: &str, summary: &str, parameters: &[&Value], responses: Vec<(&str, Value)>) -> Value {
    let responses: Map<String, Value> = responses.into_iter().map(|(code, body)| (code.to_owned(), body)).collect();
    json!({ "get": { "operationId": id, "summary": summary, "parameters": parameters, "responses": responses } })
}

fn errors<'a>(schemas: &mut SchemaGenerator, answer: Value, codes: &[&'a str]) -> Vec<(&'a str, Value)> {
    let mut responses = vec![("200", answer)];
    for code in codes {
        let why = match *code {
            "400" => "A parameter or the query is not understood.",
            "404" => "No such pipeline or document.",
            "500" => "A defect, or a configuration that cannot work.",
            _ => "No batch was committed yet, or the index is out of reach: try again later.",
        };
        responses.push((*code, self::answer::<ErrorReport>(schemas, why)));
    }
    responses
}

fn answer<T: JsonSchema>(schemas: &mut SchemaGenerator, description: &str) -> Value {
    let schema: Schema = schemas.subschema_for::<T>();
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn plain(description: &str, media: &str) -> Value {
    json!({ "description": description, "content": { media: {} } })
}

fn path_parameter(name: &str, description: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": { "type": "string" } })
}

fn number(name: &str, description: &str, least: usize, most: usize, default: usize) -> Value {
    json!({
        "name": name, "in": "query", "description": description,
        "schema": { "type": "integer", "minimum": least, "maximum": most, "default": default },
    })
}
