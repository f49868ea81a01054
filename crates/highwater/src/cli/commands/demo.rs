//! `demo`: a pipeline over a lake that feeds itself, with its page, and a summary at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use highwater_core::driver::TickReport;
use highwater_core::lease::Patience;
use highwater_core::log::{Body, Claimed};
use highwater_core::ports::{Clock, Fault};
use jiff::SignedDuration;
use serde::Serialize;
use tokio::sync::watch;

use super::run::{Site, served};
use crate::cli::args::DemoArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::Output;
use crate::cli::signals::{Stop, asked};
use crate::cli::text;
use crate::clock::SystemClock;
use crate::config::{Config, check_layout, load};
use crate::demo::{Feed, write_pipeline};
use crate::engine::{Access, Audience, Pipeline, Reports, percentiles};
use crate::report::{BatchReport, Percentiles};

/// Where the page is, unless `--listen` says otherwise; any free port if it is taken.
const LISTEN: &str = "127.0.0.1:8642";
/// How much of the past the lake begins with.
const PAST: SignedDuration = SignedDuration::from_secs(120);

/// How a demo ended.
#[derive(Debug, Serialize)]
struct Summary {
    batches: u64,
    documents: u64,
    upserts: u64,
    deletes: u64,
    files_landed: u64,
    /// Milliseconds from a file's landing to its being searchable.
    freshness_ms: Option<Percentiles<u64>>,
}

/// Runs until stopped, or for so many batches.
pub async fn demo(args: &DemoArgs, signals: Stop, output: &Output) -> Result<Exit, CliError> {
    let (folder, _temporary) = folder(args)?;
    let config = write_pipeline(&folder, None).map_err(failed)?;
    let mut feed = Feed::new(&folder, SystemClock.now().as_millisecond().unsigned_abs());
    feed.past(SystemClock.now(), PAST).map_err(failed)?;
    let config: Config = load(&config, &|_| None, &check_layout)?;
    let pipeline = Arc::new(Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Write)?);

    let (finish, finished) = watch::channel(false);
    let stop = either(signals.clone(), finished.clone());
    let site = Site::new(pipeline.clone(), true);
    let bound = match args.listen {
        Some(listen) => site.listen(listen, stop.clone(), output).await?,
        None => site.listen_near(LISTEN.parse().map_err(|_| internal())?, stop.clone(), output).await?,
    };
    introduce(&folder, &bound.addr.to_string(), args, output);
    let feeding = crate::task::spawn(feed_until(feed, stop.clone()));
    let mut watched = Watch { output, args, site: &site, finish, total: Totals::default() };
    let mut hold = pipeline.hold(Patience::Refuse)?;
    let ended = pipeline.run(&mut hold, &mut watched, Audience::none(), asked(stop)).await;
    let totals = watched.total;
    drop(watched.finish);
    ended?;
    bound.stopped().await.map_err(served)?;
    let files_landed = feeding.await.map_err(|_| internal())?.map_err(failed)?;
    let Totals { batches, documents, upserts, deletes, lags_ms, .. } = totals;
    let freshness_ms = percentiles(lags_ms);
    let summary = Summary { batches, documents, upserts, deletes, files_landed, freshness_ms };
    if args.format.json {
        output.json(&summary)?;
    } else {
        output.result(words(&summary))?;
    }
    Ok(Exit::Done)
}

fn folder(args: &DemoArgs) -> Result<(PathBuf, Option<tempfile::TempDir>), CliError> {
    match &args.dir {
        Some(folder) => {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| CliError::Failure(format!("cannot make {}: {error}", folder.display())))?;
            if folder.join("highwater.toml").exists() {
                let text =
                    format!("{} holds a highwater.toml already: give the demo a folder of its own", folder.display());
                return Err(CliError::Usage(text));
            }
            Ok((folder.clone(), None))
        }
        None => {
            let temporary = tempfile::Builder::new().prefix("highwater-demo-").tempdir();
            let temporary =
                temporary.map_err(|error| CliError::Failure(format!("cannot make a temporary folder: {error}")))?;
            Ok((temporary.path().to_owned(), Some(temporary)))
        }
    }
}

fn introduce(folder: &std::path::Path, address: &str, args: &DemoArgs, output: &Output) {
    let file = folder.join("highwater.toml");
    let kept = if args.dir.is_some() { "kept" } else { "removed at the end" };
    let ends = match args.batches {
        Some(batches) => format!("ends after {batches} batches"),
        None => "ends at ctrl-C".to_owned(),
    };
    output.note(format_args!(
        "\nFiles of ads, campaigns and co-purchases land in {folder} every second ({kept}); {ends}.\n\
         Try, while it runs:\n\
         \x20 open http://{address}/\n\
         \x20 curl 'http://{address}/api/v1/pipelines/demo/search?q=amber&limit=3'\n\
         \x20 highwater -c {file} search 'title:harbor AND bid_micros:[4000000 TO *]'\n\
         \x20 highwater -c {file} status\n\
         \x20 highwater -c {file} verify\n",
        folder = folder.display(),
        file = file.display(),
    ));
}

/// Lands files each second, on the second; answers how many.
async fn feed_until(mut feed: Feed, stop: watch::Receiver<bool>) -> Result<u64, crate::demo::FeedError> {
    let clock = SystemClock;
    let mut files = 0;
    while !*stop.borrow() {
        let past = clock.now().subsec_millisecond().rem_euclid(1000).unsigned_abs();
        let stop = stop.clone();
        tokio::select! {
            () = clock.sleep(Duration::from_millis(1000 - u64::from(past))) => {}
            () = asked(stop) => break,
        }
        files = feed.second(clock.now())?;
    }
    Ok(files)
}

/// True once either is.
fn either(mut a: watch::Receiver<bool>, mut b: watch::Receiver<bool>) -> watch::Receiver<bool> {
    let (tell, told) = watch::channel(false);
    crate::task::spawn(async move {
        tokio::select! {
            _ = a.wait_for(|asked| *asked) => {}
            _ = b.wait_for(|asked| *asked) => {}
        }
        _ = tell.send(true);
    });
    told
}

#[derive(Default)]
struct Totals {
    batches: u64,
    documents: u64,
    upserts: u64,
    deletes: u64,
    lags_ms: Vec<u64>,
}

struct Watch<'a> {
    output: &'a Output,
    args: &'a DemoArgs,
    site: &'a Site,
    finish: watch::Sender<bool>,
    total: Totals,
}

impl Reports for Watch<'_> {
    fn begin(&mut self, claimed: &Claimed) {
        self.site.begin(claimed);
    }

    fn tick(&mut self, report: &BatchReport, tick: &TickReport, _changed: bool) {
        self.site.ticked(report, tick);
        let Some(Body::Batch(batch)) = tick.record.as_ref().map(|record| &record.body) else { return };
        self.total.batches += 1;
        self.total.documents = report.documents;
        self.total.upserts += report.upserts;
        self.total.deletes += report.deletes;
        self.total.lags_ms.extend_from_slice(&batch.freshness_ms);
        if !self.args.format.json {
            _ = self.output.result(text::batch(report));
        }
        if self.args.batches.is_some_and(|limit| self.total.batches >= limit) {
            _ = self.finish.send(true);
        }
    }

    fn failed(&mut self, fault: &Fault) {
        self.site.failed(fault);
        self.output.note(format_args!("trying again: {fault}"));
    }
}

fn words(summary: &Summary) -> String {
    let Summary { batches, documents, upserts, deletes, files_landed, freshness_ms } = summary;
    let freshness = freshness_ms.as_ref().map_or_else(
        || "freshness: too few batches to tell".to_owned(),
        |ms| {
            let seconds = |ms: u64| ms as f64 / 1000.0;
            format!("freshness, file landed to searchable: p50 {:.2} s, p99 {:.2} s", seconds(ms.p50), seconds(ms.p99))
        },
    );
    let [batches, documents, upserts, deletes, files] =
        [batches, documents, upserts, deletes, files_landed].map(|n| text::count(*n));
    format!(
        "\n{batches} batches, {documents} documents ({upserts} written, {deletes} deleted), {files} files landed\n{freshness}"
    )
}

fn failed(error: crate::demo::FeedError) -> CliError {
    CliError::Failure(format!("the demo's lake cannot be fed: {error}"))
}

fn internal() -> CliError {
    CliError::Fault(Fault::Internal("the demo lost a part of itself".into()))
}
