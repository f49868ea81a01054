//! `holes`: what is missing in the index. Claims nothing and writes nothing.

use std::sync::Arc;

use crate::cli::args::{HolesArgs, HolesCommand};
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::cli::text;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::engine::{Access, Pipeline, View};
use crate::serve::PipelineView as _;

/// The list, or what is asked for about it.
pub async fn holes(config: Config, args: &HolesArgs, output: &Output) -> Result<Exit, CliError> {
    if let Some(HolesCommand::Retry { source, path, format }) = &args.command {
        return super::retry(config, source.as_deref(), path.as_deref(), *format, output).await;
    }
    let pipeline = Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Read)?;
    let mut report = View::new(Arc::new(pipeline), None).holes().await?;
    report.holes_closed = report.holes_closed.filter(|_| args.all);
    if args.format.json {
        output.json(&report)?;
    } else {
        output.result(text::holes(&report))?;
    }
    Ok(Exit::Done)
}
