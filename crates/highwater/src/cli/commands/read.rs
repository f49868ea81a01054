//! `status`, `log`, `search`, `get` and `dump`: what readers ask. They claim nothing and write nothing.

use std::sync::Arc;

use futures::StreamExt;

use crate::cli::args::{Format, GetArgs, LogArgs, SearchArgs};
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::cli::text;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::engine::{Access, Pipeline, View};
use crate::index::{SearchError, SearchQuery, Searcher};
use crate::report::{self, DocumentReport, SearchReport};
use crate::serve::PipelineView as _;

fn view(config: Config) -> Result<View, CliError> {
    Ok(View::new(Arc::new(Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Read)?), None))
}

/// How fresh the index is.
pub async fn status(config: Config, format: Format, output: &Output) -> Result<Exit, CliError> {
    let report = view(config)?.status().await?;
    if format.json {
        output.json(&report)?;
    } else {
        output.result(text::status(&report))?;
    }
    Ok(Exit::Done)
}

/// The last records.
pub async fn log(config: Config, args: &LogArgs, output: &Output) -> Result<Exit, CliError> {
    let pipeline = Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Read)?;
    let loaded = pipeline.load().await?;
    let records = &loaded.recent[loaded.recent.len().saturating_sub(args.limit)..];
    for damaged in &loaded.damaged {
        output.note(format_args!("{} was stepped over: {}", damaged.object, damaged.reason));
    }
    if !args.format.json {
        output.result(text::log(records))?;
        return Ok(Exit::Done);
    }
    for record in records {
        output.json(record)?;
    }
    Ok(Exit::Done)
}

async fn searcher(config: Config) -> Result<Arc<dyn Searcher>, CliError> {
    Ok(view(config)?.searcher().await?)
}

/// Looks for documents.
pub async fn search(config: Config, args: &SearchArgs, output: &Output) -> Result<Exit, CliError> {
    let query = SearchQuery { query: args.query.clone(), limit: args.limit, offset: args.offset };
    let found = searcher(config).await?.search(&query).await?;
    let report: SearchReport = report::found(found)?;
    if args.format.json {
        output.json(&report)?;
    } else {
        output.result(text::search(&report))?;
    }
    Ok(Exit::Done)
}

/// One document.
pub async fn get(config: Config, args: &GetArgs, output: &Output) -> Result<Exit, CliError> {
    let (document, as_of) = searcher(config).await?.get(&args.id).await?;
    let Some(document) = document else {
        return Err(CliError::Failure(format!("no document {:?} as of batch #{}", args.id, as_of.stamp.sequence)));
    };
    let report: DocumentReport = report::document(document, as_of)?;
    if args.format.json {
        output.json(&report)?;
    } else {
        output.result(text::document(&report))?;
    }
    Ok(Exit::Done)
}

/// All documents, ascending by the bytes of the id.
pub async fn dump(config: Config, output: &Output) -> Result<Exit, CliError> {
    let (as_of, mut blocks) = searcher(config).await?.dump().await?;
    if as_of.is_none() {
        return Err(SearchError::Empty.into());
    }
    while let Some(block) = blocks.next().await {
        output.lines(block?.iter().map(|document| &*document.json))?;
    }
    Ok(Exit::Done)
}
