//! Indexes the documents of an NDJSON file with Tantivy alone, as fast as it goes, and prints the seconds that adding and
//! committing took: `tantivy-alone DOCUMENTS FOLDER`. Reading and parsing the file is not counted.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value};
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TEXT, TextFieldIndexing, TextOptions};
use tantivy::{Index, IndexWriter, TantivyDocument};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the indexing threads may buffer.
const WRITER_BYTES: usize = 512 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    // As highwater does: the same memory for both.
    _ = rustix::thread::disable_transparent_huge_pages(true);
    let mut arguments = std::env::args().skip(1);
    let (Some(documents), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tantivy-alone DOCUMENTS FOLDER".into());
    };
    let documents = read(&documents)?;
    let folder = Path::new(&folder);
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let begin = Instant::now();
    index(folder, &documents)?;
    println!("{{\"documents\": {}, \"seconds\": {:.3}}}", documents.len(), begin.elapsed().as_secs_f64());
    Ok(())
}

fn read(path: &str) -> Result<Vec<(String, Map<String, Value>)>, Box<dyn Error>> {
    let mut documents = Vec::new();
    for line in BufReader::new(std::fs::File::open(path)?).lines() {
        let line = line?;
        let Value::Object(fields) = serde_json::from_str(&line)? else { return Err("a line is no object".into()) };
        documents.push((line, fields));
    }
    Ok(documents)
}

/// The same fields as highwater keeps for the bench's document SQL.
fn index(folder: &Path, documents: &[(String, Map<String, Value>)]) -> tantivy::Result<()> {
    let mut schema = Schema::builder();
    let source = schema.add_bytes_field("_source", STORED);
    let raw = TextFieldIndexing::default().set_tokenizer("raw").set_index_option(IndexRecordOption::Basic);
    let id = schema.add_text_field("id", TextOptions::default().set_indexing_options(raw.clone()).set_fast("raw"));
    let mut fields: Vec<(&str, Field, bool)> = Vec::new();
    for name in ["title", "body"] {
        fields.push((name, schema.add_text_field(name, TEXT), true));
    }
    fields.push((
        "campaign",
        schema.add_text_field("campaign", TextOptions::default().set_indexing_options(raw).set_fast("raw")),
        true,
    ));
    for name in ["bid_micros", "budget_micros", "copurchases", "partners", "qty"] {
        fields.push((name, schema.add_i64_field(name, INDEXED | FAST), false));
    }
    let hash = [schema.add_u64_field("_hash_high", FAST), schema.add_u64_field("_hash_low", FAST)];
    let index = Index::create_in_dir(folder, schema.build())?;
    let mut writer: IndexWriter = index.writer_with_num_threads(2, WRITER_BYTES)?;
    for (n, (line, values)) in documents.iter().enumerate() {
        let mut document = TantivyDocument::new();
        document.add_bytes(source, line.as_bytes());
        document.add_text(id, values.get("id").and_then(Value::as_str).unwrap_or_default());
        for field in hash {
            document.add_u64(field, n as u64);
        }
        for (name, field, is_text) in &fields {
            match values.get(*name) {
                Some(Value::String(text)) if *is_text => document.add_text(*field, text),
                Some(Value::Number(number)) => document.add_i64(*field, number.as_i64().unwrap_or_default()),
                _ => {}
            }
        }
        writer.add_document(document)?;
    }
    writer.commit()?;
    writer.wait_merging_threads()
}
