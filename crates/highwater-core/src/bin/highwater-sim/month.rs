//! `highwater-sim month`: one line a virtual day, then the verdict; a table and a plot for the docs.

mod plot;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use highwater_core::sim::month::{Day, Gauge, Options, Trend, run, trends};

/// Runs a month as the arguments say. Exit code 1 if something grows.
pub fn main(arguments: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let asked = Asked::parse(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let gauge = Process::new();
    tell(&heading(&asked.options));
    let days = runtime
        .block_on(run(&asked.options, &gauge, |day| tell(&line(day))))
        .map_err(|fault| format!("the month ended early: {fault}"))?;
    let trends = trends(&days);
    if let Some(path) = &asked.table {
        save(path, &table(&days))?;
    }
    if let Some(path) = &asked.plot {
        save(path, &plot::svg(&days))?;
    }
    tell(&verdict(&trends));
    tell(&format!("took {:.0} s", gauge.elapsed().as_secs_f64()));
    Ok(if trends.iter().all(Trend::is_flat) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Default)]
struct Asked {
    options: Options,
    table: Option<PathBuf>,
    plot: Option<PathBuf>,
}

impl Asked {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self::default();
        while let Some(flag) = arguments.next() {
            if flag == "--forever" {
                asked.options.forever = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{flag} wants a value"))?;
            let wrong = |error: &dyn std::fmt::Display| format!("{flag} {value}: {error}");
            match flag.as_str() {
                "--files" => asked.options.files = value.parse().map_err(|error| wrong(&error))?,
                "--days" => asked.options.days = value.parse().map_err(|error| wrong(&error))?,
                "--seed" => asked.options.seed = value.parse().map_err(|error| wrong(&error))?,
                "--poll" => asked.options.poll = Duration::from_secs(value.parse().map_err(|error| wrong(&error))?),
                "--out" => asked.table = Some(value.into()),
                "--svg" => asked.plot = Some(value.into()),
                other => return Err(format!("no such option: {other}")),
            }
        }
        Ok(asked)
    }
}

/// Stopwatch and memory of this process.
struct Process {
    began: Instant,
}

impl Process {
    #[expect(clippy::disallowed_methods, reason = "the stopwatch of the simulation's own cost; no decision reads it")]
    fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Gauge for Process {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// From `/proc/self/statm`, in pages of 4 KiB.
    fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
        pages * 4_096
    }
}

fn heading(options: &Options) -> String {
    let poll = options.poll.as_secs();
    let kind = if options.forever { ", rows stay for ever" } else { "" };
    format!(
        "{} files over {} days, {} sources, poll {poll} s, seed {}{kind}\n\
         day  landed replaced removed   live quar holes   ticks failed batches advances  lists a source a day \
         log objects    KiB  snapshot KiB  state KiB  RSS MiB  tick p50 µs  p99 µs  all s",
        options.files,
        options.days,
        options.sources.len(),
        options.seed,
    )
}

fn line(day: &Day) -> String {
    let most = &day.most;
    let lists: Vec<String> = day.lists.values().map(u64::to_string).collect();
    format!(
        "{:>3} {:>7} {:>8} {:>7} {:>6} {:>4} {:>5} {:>7} {:>6} {:>7} {:>8}  {:>20} {:>11} {:>6} {:>13} {:>10} {:>8.1} {:>12.1} {:>7.0} {:>6.1}",
        day.number,
        day.landed,
        day.replaced,
        day.removed,
        most.live_files,
        most.quarantined,
        most.holes,
        day.ticks,
        day.failed_ticks,
        day.batches,
        day.advances,
        lists.join("/"),
        most.log_objects,
        most.log_bytes / 1_024,
        most.snapshot_bytes / 1_024,
        most.state_bytes / 1_024,
        most.resident_bytes as f64 / 1_048_576.0,
        day.tick_p50_ns as f64 / 1_000.0,
        day.tick_p99_ns as f64 / 1_000.0,
        day.ticks_ms as f64 / 1_000.0,
    )
}

fn table(days: &[Day]) -> String {
    let mut table = String::from(
        "day,landed,replaced,removed,live_files,quarantined,holes,closed_holes,ticks,failed_ticks,batches,advances,\
         lists,log_objects,log_bytes,snapshot_bytes,state_bytes,resident_bytes,tick_p50_us,tick_p99_us,ticks_ms\n",
    );
    for day in days {
        let most = &day.most;
        let numbers = [
            u64::from(day.number),
            day.landed,
            day.replaced,
            day.removed,
            most.live_files,
            most.quarantined,
            most.holes,
            most.closed_holes,
            day.ticks,
            day.failed_ticks,
            day.batches,
            day.advances,
            day.lists.values().sum(),
            most.log_objects,
            most.log_bytes,
            most.snapshot_bytes,
            most.state_bytes,
            most.resident_bytes,
            day.tick_p50_ns / 1_000,
            day.tick_p99_ns / 1_000,
            day.ticks_ms,
        ];
        table += &numbers.map(|number| number.to_string()).join(",");
        table.push('\n');
    }
    table
}

fn verdict(trends: &[Trend]) -> String {
    let mut text = String::new();
    for Trend { measure, median, growth, allowed } in trends {
        let word = if growth <= allowed { "flat" } else { "GROWS" };
        text += &format!(
            "{measure:<15} median {median:>12.0}  from the second day to the last {:+.2} % (up to {:.0} % is flat): {word}\n",
            growth * 100.0,
            allowed * 100.0,
        );
    }
    let flat = trends.iter().all(Trend::is_flat);
    text + if flat { "flat after the first window" } else { "NOT flat after the first window" }
}

fn save(path: &PathBuf, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn tell(line: &str) {
    _ = writeln!(std::io::stdout(), "{line}");
}
