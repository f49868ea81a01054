//! Reports as people read them. Pure: reports in, text out.

use std::fmt::Write as _;

use highwater_core::Timestamp;
use highwater_core::holes::{ClosedHole, Hole, HoleCause};
use highwater_core::log::{Body, Record};
use highwater_core::receipt::{Alarm, Mode, Quarantined, RejectedRow};
use jiff::tz::TimeZone;

use super::table::table;
use crate::report::{
    AsOfReport, BatchReport, DocumentReport, HolesReport, SearchReport, StatusReport, VerifyReport, what_to_do,
};

/// How many ids, rows or files a list names before it counts the rest.
const NAMED: usize = 5;

/// One line a batch for `once`, and a line for each thing that is wrong.
pub fn batch(report: &BatchReport) -> String {
    let mut text = batch_line(report);
    for alarm in &report.alarms {
        _ = writeln!(text, "  {}", self::alarm(alarm));
    }
    text
}

/// The same for `run`, which tells alarms by themselves.
pub fn batch_line(report: &BatchReport) -> String {
    let clock = report.clock.strftime("%H:%M:%SZ");
    let watermark = report.watermark.map_or("-".into(), |at| near(at, report.clock));
    let mut line = format!("#{}  {clock}  W {watermark}", report.seq);
    if report.mode == Mode::None && report.files_read + report.files_dropped == 0 {
        line += "  no change";
    } else {
        _ = write!(
            line,
            "  {}  {} up  {} del",
            files(report.files_read, report.files_dropped),
            count(report.upserts),
            count(report.deletes)
        );
    }
    _ = write!(line, "  {} docs", count(report.documents));
    if let Some(freshness) = report.freshness_ms {
        _ = write!(line, "  fresh p99 {}", seconds(freshness.p99 as f64 / 1000.0));
    }
    if let Some(total) = report.ms.get("total") {
        _ = write!(line, "  {}", seconds(*total as f64 / 1000.0));
    }
    line.push('\n');
    rejected(&mut line, report.rejected_rows, &report.rejected);
    if report.duplicate_ids > 0 {
        _ = writeln!(line, "  {} lost to another row with the same id", several(report.duplicate_ids, "row"));
    }
    if report.add_only {
        line.push_str("  nothing was deleted: rows of files that the last batch read are not at hand\n");
    }
    troubles(&mut line, &report.quarantined, &report.holes);
    for ended in report.holes_closed.iter().take(NAMED) {
        _ = writeln!(line, "  {} {}", ended.end.as_str().replace('_', " "), hole(&ended.hole));
    }
    more(&mut line, report.holes_closed.len(), "ended hole");
    line
}

/// `status`.
pub fn status(report: &StatusReport) -> String {
    let mut rows = vec![("pipeline", report.pipeline.clone())];
    rows.push(("batch", report.seq.map_or("none yet".into(), |seq| format!("#{seq}"))));
    rows.push(("watermark", report.watermark.map_or("none yet".into(), instant)));
    if let Some(complete) = complete(report) {
        rows.push(("complete", complete));
    }
    rows.push(("frontier", instant(report.frontier)));
    if let Some(lag) = report.processing_lag_s {
        rows.push(("behind", seconds(lag)));
    }
    if let Some(age) = report.data_age_s {
        rows.push(("data age", seconds(age)));
    }
    if let Some(fresh) = report.freshness_s {
        rows.push(("freshness", format!("p50 {}, p99 {}", seconds(fresh.p50), seconds(fresh.p99))));
    }
    rows.push(("documents", count(report.documents)));
    rows.push(("generation", report.generation.clone()));
    if let Some(writer) = &report.writer {
        rows.push(("writer", format!("{} since {}", writer.holder, instant(writer.since))));
    }
    let mut text = String::new();
    for (name, value) in rows {
        _ = writeln!(text, "{name:<11} {value}");
    }
    for (source, files) in &report.files {
        let newest =
            report.newest.get(source).map_or("no data yet".into(), |at| format!("data until {}", instant(*at)));
        _ = writeln!(text, "{:<11} {source}: {}, {newest}", "source", several(*files, "file"));
    }
    rejected(&mut text, report.rejected.len() as u64, &report.rejected);
    troubles(&mut text, &report.quarantined, &report.holes);
    for alarm in &report.alarms {
        _ = writeln!(text, "  {}", self::alarm(alarm));
    }
    text
}

/// The honest line: from when to when everything is in the index, and what is not.
fn complete(report: &StatusReport) -> Option<String> {
    let Some(complete) = report.complete else {
        let waits = report.watermark.is_some() && !report.newest.is_empty();
        return waits.then(|| "at no time yet: the watermark is not past the begin of the live range".to_owned());
    };
    let mut line = format!("from {} to {}", instant(complete.from), instant(complete.to));
    let except = complete.except(&report.holes);
    if !except.is_empty() {
        let named: Vec<String> = except.iter().take(3).map(|hole| self::hole(hole)).collect();
        let rest = if except.len() > named.len() { "; …" } else { "" };
        _ = write!(line, " except {}: {}{rest}", several(except.len() as u64, "hole"), named.join("; "));
    }
    line += "; newer files are searchable as they land";
    Some(line)
}

/// `holes`: a table of those that are open, what to do about each cause, and, if asked for, how the last ones ended.
pub fn holes(report: &HolesReport) -> String {
    let row = |hole: &Hole| {
        vec![
            hole.source.to_string(),
            hole.cause.as_str().to_owned(),
            instant(hole.from),
            instant(hole.to),
            what(hole),
            instant(hole.since),
        ]
    };
    let mut text = if report.holes.is_empty() {
        "no hole is open\n".to_owned()
    } else {
        let rows: Vec<Vec<String>> = report.holes.iter().map(row).collect();
        table(&["source", "cause", "from", "to", "what", "since"], &[], &rows)
    };
    for cause in HoleCause::ALL.into_iter().filter(|cause| report.holes.iter().any(|hole| hole.cause == *cause)) {
        _ = writeln!(text, "{}: {}", cause.as_str(), what_to_do(cause));
    }
    if let Some(closed) = report.holes_closed.as_ref().filter(|closed| !closed.is_empty()) {
        let ended = |ended: &ClosedHole| {
            let how = [ended.end.as_str().to_owned(), instant(ended.closed)];
            [row(&ended.hole), how.to_vec()].concat()
        };
        let rows: Vec<Vec<String>> = closed.iter().map(ended).collect();
        text += "\nended\n";
        text += &table(&["source", "cause", "from", "to", "what", "since", "how", "when"], &[], &rows);
    }
    text
}

/// The file, or what is the matter.
fn what(hole: &Hole) -> String {
    let parts = [hole.path.clone(), hole.detail.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// `log`: one line a record, in the order given.
pub fn log(records: &[Record]) -> String {
    let mut rows = Vec::new();
    for record in records {
        let (kind, watermark, what) = match &record.body {
            Body::Generation { change } => ("generation", None, change.describe()),
            Body::Claim { holder, version } => ("claim", None, format!("{holder}, version {version}")),
            Body::Advance { watermark, .. } => ("advance", Some(*watermark), String::new()),
            Body::Batch(batch) => {
                let receipt = &batch.receipt;
                let mode = match receipt.mode {
                    Mode::Full => "full",
                    Mode::Incremental => "incremental",
                    Mode::None => "none",
                };
                let mut what = format!(
                    "{mode}: {}; {} up, {} del, {} docs",
                    files(receipt.files_read, receipt.files_dropped),
                    count(receipt.upserts),
                    count(receipt.deletes),
                    count(receipt.documents)
                );
                let wrong = [
                    (receipt.rejected_rows, "rejected row"),
                    (receipt.quarantined.len() as u64, "quarantined file"),
                    (batch.holes.len() as u64, "hole"),
                    (batch.alarms.len() as u64, "alarm"),
                ];
                for (n, name) in wrong.iter().filter(|(n, _)| *n > 0) {
                    _ = write!(what, ", {}", several(*n, name));
                }
                ("batch", Some(batch.watermark), what)
            }
        };
        let watermark = watermark.map_or(String::new(), instant);
        rows.push(vec![record.seq.to_string(), instant(record.clock), kind.into(), watermark, what]);
    }
    table(&["seq", "clock", "kind", "watermark", "what"], &["seq"], &rows)
}

/// `search`: the best hits, and how fresh they are.
pub fn search(report: &SearchReport) -> String {
    let mut text = String::new();
    for hit in &report.hits {
        _ = writeln!(text, "{:>8.3}  {}\n          {}", hit.score, hit.id, hit.document.get());
    }
    _ = writeln!(text, "{} of {} documents, {}", report.hits.len(), count(report.total), as_of(&report.as_of));
    text
}

/// `get`: the document alone, so that it can be piped.
pub fn document(report: &DocumentReport) -> String {
    format!("{}\n", report.document.get())
}

/// `verify`.
pub fn verify(report: &VerifyReport) -> String {
    let documents = count(report.documents);
    let mut text = match report.equal {
        Some(true) => format!("equal: the index holds exactly the {documents} documents that the SQL yields\n"),
        Some(false) => format!("different: the SQL yields {documents} documents, and the index is not these\n"),
        None => {
            "cannot be told: files that the last batch read are gone, or the index is not at the log's last batch\n"
                .to_owned()
        }
    };
    for (what, ids) in [
        ("missing in the index", &report.missing),
        ("not yielded by the SQL", &report.extra),
        ("different", &report.different),
        ("see", &report.gone),
    ] {
        if !ids.is_empty() {
            let more = ids.len().saturating_sub(NAMED);
            let rest = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
            let named: Vec<&str> = ids.iter().take(NAMED).map(String::as_str).collect();
            _ = writeln!(text, "  {what}: {}{rest}", named.join(", "));
        }
    }
    text
}

/// How fresh an answer is, on one line.
pub fn as_of(report: &AsOfReport) -> String {
    format!("as of batch #{}, W {}", report.seq, instant(report.watermark))
}

fn rejected(text: &mut String, total: u64, rows: &[RejectedRow]) {
    if total == 0 {
        return;
    }
    _ = writeln!(text, "  rejected {}", several(total, "row"));
    for row in rows.iter().take(NAMED) {
        match &row.source {
            Some(source) => _ = writeln!(text, "    {source}: {}:{}: {}", row.path, row.row, row.reason),
            None => _ = writeln!(text, "    document: {}", row.reason),
        }
    }
}

fn troubles(text: &mut String, quarantined: &[Quarantined], holes: &[Hole]) {
    for file in quarantined {
        _ = writeln!(text, "  quarantined {}: {}: {}", file.source, file.version.path, file.reason);
    }
    for hole in holes.iter().take(NAMED) {
        _ = writeln!(text, "  hole {}", self::hole(hole));
    }
    more(text, holes.len(), "hole");
}

fn more(text: &mut String, all: usize, thing: &str) {
    if all > NAMED {
        _ = writeln!(text, "  and {} more: see highwater holes --all", several((all - NAMED) as u64, thing));
    }
}

fn hole(hole: &Hole) -> String {
    let path = || hole.path.as_deref().or(hole.detail.as_deref()).unwrap_or("?");
    let cause = match hole.cause {
        HoleCause::PassedOver => "passed over".to_owned(),
        HoleCause::LateFile => format!("late file {}", path()),
        HoleCause::Quarantined => format!("unreadable file {}", path()),
        HoleCause::UnderFilled => format!("under-filled ({})", path()),
    };
    format!("{}: {} to {}, {cause}", hole.source, instant(hole.from), instant(hole.to))
}

/// One alarm that stands.
pub fn alarm(alarm: &Alarm) -> String {
    format!("ALARM {}: {} (since {})", named(alarm), alarm.detail, instant(alarm.since))
}

/// The same one, once its cause is gone.
pub fn alarm_over(alarm: &Alarm) -> String {
    format!("over: {} (since {})", named(alarm), instant(alarm.since))
}

fn named(alarm: &Alarm) -> String {
    match &alarm.source {
        Some(source) => format!("{} {source}", alarm.kind),
        None => alarm.kind.clone(),
    }
}

fn files(read: u64, dropped: u64) -> String {
    match dropped {
        0 => format!("+{}", several(read, "file")),
        dropped => format!("+{} −{}", count(read), several(dropped, "file")),
    }
}

fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The time alone, where the day is the same.
fn near(at: Timestamp, clock: Timestamp) -> String {
    let day = |t: Timestamp| t.to_zoned(TimeZone::UTC).date();
    let format = if day(at) == day(clock) { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    at.strftime(format).to_string()
}

/// Seconds with the digits that matter; minutes and hours past two minutes.
pub fn seconds(s: f64) -> String {
    match s {
        0.0 => "0 s".to_owned(),
        s if s < 1.0 => format!("{s:.2} s"),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// So many of a thing.
fn several(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A number with thousands apart.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
