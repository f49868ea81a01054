//! What the program tells: the stable shapes behind every `--json` and the HTTP API. Units stand in names, times are
//! RFC 3339 in UTC.

use std::collections::BTreeMap;

use highwater_core::generation::GenerationName;
use highwater_core::holes::{ClosedHole, Hole, HoleCause};
use highwater_core::ports::Fault;
use highwater_core::receipt::{Alarm, Mode, Quarantined, RejectedRow, Requests};
use highwater_core::{Sequence, SourceName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::engine::GateReport;
use crate::index::{AsOf, Found, StoredDocument};

/// `once --json`, a line of `run --json`, and an entry of `batches`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BatchReport {
    /// The number of the tick's record; of the last record, where the tick wrote none.
    pub seq: Sequence,
    /// The batch's clock.
    #[schemars(with = "String")]
    pub clock: Timestamp,
    /// The watermark after it; `null` before the first batch.
    #[schemars(with = "Option<String>")]
    pub watermark: Option<Timestamp>,
    /// How documents were computed; `none`: the tick found no change.
    pub mode: Mode,
    /// File versions read.
    pub files_read: u64,
    /// File versions that left the tables.
    pub files_dropped: u64,
    /// Documents written.
    pub upserts: u64,
    /// Documents deleted.
    pub deletes: u64,
    /// Documents computed and found as they were.
    pub unchanged: u64,
    /// Documents in the index.
    pub documents: u64,
    /// Rows of files and documents refused.
    pub rejected_rows: u64,
    /// The first refused rows, by name.
    pub rejected: Vec<RejectedRow>,
    /// Rows of the SQL that lost to another row with the same id.
    pub duplicate_ids: u64,
    /// Files that could not be read in this batch.
    pub quarantined: Vec<Quarantined>,
    /// True while rows of a pinned version are not at hand: ids were only added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub add_only: bool,
    /// Holes that this batch wrote down.
    pub holes: Vec<Hole>,
    /// Holes that ended with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes_closed: Vec<ClosedHole>,
    /// Alarms that stand.
    pub alarms: Vec<Alarm>,
    /// Requests to the stores of the sources.
    pub requests: Requests,
    /// Milliseconds from a new file's own time to the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freshness_ms: Option<Percentiles<u64>>,
    /// Milliseconds by phase.
    pub ms: BTreeMap<String, u64>,
}

/// Median and 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles<T> {
    /// Median.
    pub p50: T,
    /// 99th percentile.
    pub p99: T,
}

/// `status --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatusReport {
    /// The pipeline's name.
    pub pipeline: String,
    /// The last batch record, as stamped in the index; `null` before the first.
    pub seq: Option<Sequence>,
    /// The watermark.
    #[schemars(with = "Option<String>")]
    pub watermark: Option<Timestamp>,
    /// Where the watermark would stand if nothing were behind: end of the newest settled partition.
    #[schemars(with = "String")]
    pub frontier: Timestamp,
    /// Frontier less watermark, seconds.
    pub processing_lag_s: Option<f64>,
    /// Now less the end of the newest partition with data (of the source that is furthest behind), seconds.
    pub data_age_s: Option<f64>,
    /// End of the newest partition with data, by source.
    #[schemars(with = "BTreeMap<String, String>")]
    pub newest: BTreeMap<SourceName, Timestamp>,
    /// Live files, by source.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub files: BTreeMap<SourceName, u64>,
    /// Documents in the index.
    pub documents: u64,
    /// The generation that readers see.
    pub generation: String,
    /// Seconds from a file's own time to its being searchable, over the recent batches.
    pub freshness_s: Option<Percentiles<f64>>,
    /// What the index holds all files of, save the holes; `null` where there is no such time (yet).
    #[serde(default)]
    pub complete: Option<Complete>,
    /// Holes that are open.
    pub holes: Vec<Hole>,
    /// Files in quarantine.
    pub quarantined: Vec<Quarantined>,
    /// Alarms of the last tick.
    pub alarms: Vec<Alarm>,
    /// The last refused rows, by name.
    pub rejected: Vec<RejectedRow>,
    /// Who writes: holder, and since when, as the newest claim says.
    pub writer: Option<WriterReport>,
}

/// A stretch of time, `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Complete {
    /// The latest eviction bound of the sources that have time: each is complete from there on.
    #[schemars(with = "String")]
    pub from: Timestamp,
    /// The watermark.
    #[schemars(with = "String")]
    pub to: Timestamp,
}

impl Complete {
    /// The open holes that lie in it; those of sources without time always do.
    pub fn except<'h>(&self, holes: &'h [Hole]) -> Vec<&'h Hole> {
        holes.iter().filter(|hole| hole.touches(self.from, self.to)).collect()
    }
}

/// `holes --json`, and `/api/v1/pipelines/{name}/holes`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HolesReport {
    /// The pipeline's name.
    pub pipeline: String,
    /// As in the status.
    pub complete: Option<Complete>,
    /// Holes that are open, oldest first.
    pub holes: Vec<Hole>,
    /// The last holes that ended, newest last; left out by `holes` without `--all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holes_closed: Option<Vec<ClosedHole>>,
}

/// What an operator does about a hole.
pub fn what_to_do(cause: HoleCause) -> &'static str {
    match cause {
        HoleCause::PassedOver => {
            "The pipeline was away for longer than its window. A longer window covers longer absences; `on_lag = \
             \"catch_up\"` passes nothing over. Where rows stay for ever it is filled piece by piece, or at once by \
             `highwater backfill`."
        }
        HoleCause::LateFile => {
            "Where rows stay for ever the file is read piece by piece with the next batches, or by `highwater backfill`. \
             Else it is not read any more: if its rows matter, land them in a newer partition, or make the window \
             longer for the next ones; remove the file, and the entry ends."
        }
        HoleCause::Quarantined => {
            "Replace or remove the file: a new version is read as soon as it is seen. `highwater holes retry` tries the \
             same one again."
        }
        HoleCause::UnderFilled => {
            "See whether the job that writes this source lost files. What comes late fills it by itself; where every \
             partition does, `settle` is too short."
        }
    }
}

/// Who holds the pipeline.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WriterReport {
    /// Host and process id.
    pub holder: String,
    /// When it started.
    #[schemars(with = "String")]
    pub since: Timestamp,
}

/// `generations --json`, and what `rebuild`, `promote` and `rollback` report.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GenerationsReport {
    /// The one that batches are committed to, and readers see.
    pub live: GenerationName,
    /// Documents in it.
    pub documents: u64,
    /// All of them, the live one first, then from new to old.
    pub generations: Vec<GenerationReport>,
}

/// One generation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GenerationReport {
    /// Its name.
    pub name: GenerationName,
    /// `live`, `candidate` or `former`.
    pub role: String,
    /// Since when it has that role; `null` for the first one.
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Why it was begun, or left.
    pub reason: String,
    /// What its gates said last.
    pub judgement: Option<JudgementReport>,
}

/// What gates said.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JudgementReport {
    /// By the writer's clock.
    #[schemars(with = "String")]
    pub clock: Timestamp,
    /// All of them passed.
    pub passed: bool,
    /// One by one.
    pub gates: Vec<GateReport>,
}

/// `accept-removals --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AcceptReport {
    /// The order that was left for the writer; `null`: nothing is withheld.
    pub order: Option<String>,
    /// What it accepts, by source.
    #[schemars(with = "BTreeMap<String, WithheldReport>")]
    pub withheld: BTreeMap<SourceName, WithheldReport>,
    /// Base snapshots that were not taken, by source, with the reason: they are accepted too.
    #[schemars(with = "BTreeMap<String, String>")]
    pub bases: BTreeMap<SourceName, String>,
    /// Who wrote last, as the newest claim says.
    pub writer: Option<WriterReport>,
}

/// Withheld removals of one source.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WithheldReport {
    /// How many files are gone and stay in the table.
    pub files: u64,
    /// How many files the table has.
    pub of: u64,
    /// When the first of them was seen gone.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The first ten paths.
    pub paths: Vec<String>,
}

/// `holes retry --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RetryReport {
    /// The order that was left for the writer; `null`: no such file is in quarantine.
    pub order: Option<String>,
    /// The files that it has tried again.
    pub quarantined: Vec<Quarantined>,
    /// Who wrote last, as the newest claim says.
    pub writer: Option<WriterReport>,
}

/// `backfill --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BackfillReport {
    /// The order that was left for the writer; `null`: there is nothing to fill.
    pub order: Option<String>,
    /// The holes whose files it reads.
    pub holes: Vec<Hole>,
    /// Who wrote last, as the newest claim says.
    pub writer: Option<WriterReport>,
}

/// `as_of` in every answer of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsOfReport {
    /// The batch that was searched.
    pub seq: Sequence,
    /// The watermark.
    #[schemars(with = "String")]
    pub watermark: Timestamp,
    /// End of the newest partition with data, by source.
    #[schemars(with = "BTreeMap<String, String>")]
    pub newest: BTreeMap<SourceName, Timestamp>,
}

/// `search --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SearchReport {
    /// How fresh the answer is.
    pub as_of: AsOfReport,
    /// How many documents match.
    pub total: u64,
    /// The best ones.
    pub hits: Vec<HitReport>,
}

/// One hit of a search.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HitReport {
    /// The document's id.
    pub id: String,
    /// How well it matches.
    pub score: f32,
    /// The document.
    pub document: Box<RawValue>,
}

/// `get --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DocumentReport {
    /// How fresh the answer is.
    pub as_of: AsOfReport,
    /// The document's id.
    pub id: String,
    /// The batch that wrote it.
    pub seq: Sequence,
    /// The document.
    pub document: Box<RawValue>,
}

impl From<AsOf> for AsOfReport {
    fn from(as_of: AsOf) -> Self {
        Self { seq: as_of.stamp.sequence, watermark: as_of.stamp.watermark, newest: as_of.newest }
    }
}

fn raw(document: &StoredDocument) -> Result<Box<RawValue>, Fault> {
    serde_json::from_slice(&document.json)
        .map_err(|error| Fault::Internal(format!("document {:?} in the index is not JSON: {error}", document.id)))
}

/// What was found, as a report.
pub fn found(found: Found) -> Result<SearchReport, Fault> {
    let mut hits = Vec::with_capacity(found.hits.len());
    for hit in found.hits {
        let document = raw(&hit.document)?;
        hits.push(HitReport { id: hit.document.id.into(), score: hit.score, document });
    }
    Ok(SearchReport { as_of: found.as_of.into(), total: found.total, hits })
}

/// A document, as a report.
pub fn document(stored: StoredDocument, as_of: AsOf) -> Result<DocumentReport, Fault> {
    let document = raw(&stored)?;
    Ok(DocumentReport { as_of: as_of.into(), id: stored.id.into(), seq: stored.sequence, document })
}

/// `verify --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReport {
    /// The index equation holds; `null`: cannot be told, pinned versions are gone.
    pub equal: Option<bool>,
    /// Documents that the SQL yields.
    pub documents: u64,
    /// Ids that the index lacks (the first 1,000).
    pub missing: Vec<String>,
    /// Ids that the index has and the SQL does not yield (the first 1,000).
    pub extra: Vec<String>,
    /// Ids whose documents differ (the first 1,000).
    pub different: Vec<String>,
    /// Pinned file versions that are no longer in the store, as `source: path`.
    pub gone: Vec<String>,
}
