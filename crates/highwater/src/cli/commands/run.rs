//! `run` and `serve`: for as long as the process lives.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use highwater_core::SourceName;
use highwater_core::driver::TickReport;
use highwater_core::lease::{Patience, Wait};
use highwater_core::log::Claimed;
use highwater_core::ports::{Clock, Fault};
use highwater_core::receipt::Alarm;

use crate::cli::args::{RunArgs, ServeArgs};
use crate::cli::exit::{CliError, Exit};
use crate::cli::output::{Latest, Output};
use crate::cli::signals::{Stop, asked};
use crate::cli::text;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::engine::{Access, Audience, LiveState, Pipeline, Progress, Reports, Silent, View};
use crate::report::BatchReport;
use crate::serve::{self, Bound, Metrics, ServeError};

/// Keeps the index fresh until stopped.
pub async fn run(config: Config, args: RunArgs, stop: Stop, output: &Output) -> Result<Exit, CliError> {
    let listen = config.serve.as_ref().map(|serve| serve.listen);
    let pipeline = Arc::new(Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Write)?);
    let site = Site::new(pipeline.clone(), true);
    let mut reports = Lines::new(output, args.format.json, &site);
    let patience = if args.standby { Patience::Wait } else { Patience::Refuse };
    let mut hold = pipeline.hold(patience)?;
    if !args.standby {
        // Before the port: who holds the pipeline holds its port too, and is the better reason. A state out of reach is
        // the loop's to wait for.
        let mut tell = |wait: &Wait| reports.waits(wait);
        let free = tokio::select! {
            free = hold.free(&mut tell) => free,
            () = asked(stop.clone()) => return Ok(Exit::Done),
        };
        match free {
            Ok(()) | Err(Fault::Unavailable(_)) => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    let bound = match listen {
        Some(listen) => Some(site.listen(listen, stop.clone(), output).await?),
        None => None,
    };
    // What goes on beside the live one's batches is no sign that those go on.
    let audience = Audience { live: site.progress(output), followers: Arc::new(Silent) };
    let ended = pipeline.run(&mut hold, &mut reports, audience, asked(stop.clone())).await;
    if ended.is_ok()
        && *stop.borrow()
        && let Some(bound) = bound
    {
        bound.stopped().await.map_err(served)?;
    }
    ended?;
    Ok(Exit::Done)
}

/// Serves HTTP from the index without writing to it.
pub async fn serve(config: Config, args: &ServeArgs, stop: Stop, output: &Output) -> Result<Exit, CliError> {
    let Some(listen) = args.listen.or(config.serve.as_ref().map(|serve| serve.listen)) else {
        return Err(CliError::Usage("nowhere to listen: add [serve] with listen, or give --listen ADDRESS".into()));
    };
    let pipeline = Arc::new(Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Write)?);
    let bound = Site::new(pipeline, false).listen(listen, stop, output).await?;
    bound.stopped().await.map_err(served)?;
    Ok(Exit::Done)
}

/// What this process serves of one pipeline.
pub struct Site {
    pipeline: Arc<Pipeline>,
    /// What the loop last knew, where it runs here.
    pub live: Option<Arc<LiveState>>,
    metrics: Arc<Metrics>,
}

impl Site {
    /// `runs`: the loop runs in this process.
    pub fn new(pipeline: Arc<Pipeline>, runs: bool) -> Self {
        let live = runs.then(|| Arc::new(LiveState::default()));
        Self { pipeline, live, metrics: Arc::new(Metrics::new()) }
    }

    /// Listens until `stop`, and says where.
    pub async fn listen(&self, listen: SocketAddr, stop: Stop, output: &Output) -> Result<Bound, CliError> {
        let view = Arc::new(View::new(self.pipeline.clone(), self.live.clone()));
        let router = serve::router(vec![view], Arc::new(SystemClock), self.metrics.clone());
        let bound = serve::listen(listen, router, asked(stop)).await.map_err(served)?;
        output.note(format_args!("serving http://{}/", bound.addr));
        Ok(bound)
    }

    /// The same, on any free port if this one is taken.
    pub async fn listen_near(&self, listen: SocketAddr, stop: Stop, output: &Output) -> Result<Bound, CliError> {
        match self.listen(listen, stop.clone(), output).await {
            Err(CliError::Usage(_)) => self.listen(SocketAddr::new(listen.ip(), 0), stop, output).await,
            bound => bound,
        }
    }

    /// The loop waits until the pipeline is its own.
    pub fn waits(&self, reason: String) {
        if let Some(live) = &self.live {
            live.waits(reason, SystemClock.now());
        }
    }

    /// A session began.
    pub fn begin(&self, claimed: &Claimed) {
        if let Some(live) = &self.live {
            live.begin(claimed.state.clone(), claimed.recent.clone());
        }
    }

    /// A tick ended.
    pub fn ticked(&self, report: &BatchReport, tick: &TickReport) {
        if let Some(live) = &self.live {
            live.ticked(tick, SystemClock.now());
        }
        self.metrics.observe(report, &self.pipeline.config().pipeline.name);
    }

    /// A tick failed.
    pub fn failed(&self, fault: &Fault) {
        if let Some(live) = &self.live {
            live.failed(fault, SystemClock.now());
        }
    }

    /// The progress of a batch, which is a sign of life too: a first batch may take long.
    pub fn progress(&self, output: &Output) -> Arc<dyn Progress> {
        Arc::new(Moves { shown: output.batch_progress(), live: self.live.clone() })
    }
}

/// Progress that is shown, and noted as a sign of life.
struct Moves {
    shown: Arc<dyn Progress>,
    live: Option<Arc<LiveState>>,
}

impl Moves {
    fn note(&self) {
        if let Some(live) = &self.live {
            live.moved(SystemClock.now());
        }
    }
}

impl Progress for Moves {
    fn begin(&self, phase: &str, total: u64) {
        self.note();
        self.shown.begin(phase, total);
    }

    fn advance(&self, by: u64) {
        self.note();
        self.shown.advance(by);
    }

    fn end(&self) {
        self.note();
        self.shown.end();
    }
}

/// A readable line a batch, or a JSON line.
struct Lines<'a> {
    output: &'a Output,
    json: bool,
    site: &'a Site,
    /// What was last complained of: a fault that stands is told once.
    failing: Latest,
    /// Alarms that stand, and were told.
    standing: BTreeMap<(String, Option<SourceName>), Alarm>,
    /// What is waited for, and was told.
    waiting: Latest,
}

impl<'a> Lines<'a> {
    fn new(output: &'a Output, json: bool, site: &'a Site) -> Self {
        Self { output, json, site, failing: Latest::default(), standing: BTreeMap::new(), waiting: Latest::default() }
    }

    /// Tells an alarm once when it arises, and once when it is over.
    fn alarms(&mut self, alarms: &[Alarm]) {
        let key = |alarm: &Alarm| (alarm.kind.clone(), alarm.source.clone());
        let now: BTreeMap<_, _> = alarms.iter().map(|alarm| (key(alarm), alarm.clone())).collect();
        for alarm in now.iter().filter(|(key, _)| !self.standing.contains_key(*key)).map(|(_, alarm)| alarm) {
            self.output.note(text::alarm(alarm));
        }
        for alarm in self.standing.iter().filter(|(key, _)| !now.contains_key(*key)).map(|(_, alarm)| alarm) {
            self.output.note(text::alarm_over(alarm));
        }
        self.standing = now;
    }
}

impl Reports for Lines<'_> {
    fn waits(&mut self, wait: &Wait) {
        let text = wait.to_string();
        self.site.waits(text.clone());
        if self.waiting.is_news(&text) {
            self.output.note(&text);
        }
    }

    fn retires(&mut self, restarts: bool) {
        self.output.note(if restarts { "max_uptime is over: beginning anew" } else { "max_uptime is over" });
    }

    fn begin(&mut self, claimed: &Claimed) {
        self.site.begin(claimed);
        if self.waiting.ends() {
            self.output.note("the pipeline is ours now");
        }
    }

    fn tick(&mut self, report: &BatchReport, tick: &TickReport, changed: bool) {
        self.site.ticked(report, tick);
        if self.failing.ends() {
            self.output.note("back again");
        }
        self.alarms(&report.alarms);
        if !changed {
            return;
        }
        // A reader that left does not end the pipeline: the index is what it keeps.
        _ = if self.json { self.output.json(report) } else { self.output.result(text::batch_line(report)) };
    }

    fn failed(&mut self, fault: &Fault) {
        self.site.failed(fault);
        let text = fault.to_string();
        if self.failing.is_news(&text) {
            self.output.note(format_args!("trying again: {text}"));
        }
    }
}

/// A server's error as a command's.
pub fn served(error: ServeError) -> CliError {
    match error {
        ServeError::InUse(_) | ServeError::Bind { .. } => CliError::Usage(error.to_string()),
        ServeError::Stopped(_) => CliError::Failure(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
