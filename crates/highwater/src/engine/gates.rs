//! The gates of a candidate: what is compared with the live generation before readers see it. Decides nothing but pass or
//! fail.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use highwater_core::generation::GenerationName;
use highwater_core::ports::{Fault, Stamp};
use serde::{Deserialize, Serialize};

use super::pipeline::Pipeline;
use crate::config::GatesConfig;
use crate::index::{AsOf, SearchQuery, Searcher};

/// Fill rates are taken of so many documents at most, the first by id.
const FILLED_OF: u64 = 200_000;

/// What one gate said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GateReport {
    /// `batch`, `documents`, `fill` or `queries`.
    pub gate: String,
    /// It lets the candidate through.
    pub passed: bool,
    /// Figures, in words.
    pub detail: String,
}

/// What all gates said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verdict(pub Vec<GateReport>);

impl Verdict {
    /// True if all of them let it through.
    pub fn passed(&self) -> bool {
        self.0.iter().all(|gate| gate.passed)
    }
}

/// Judges `candidate` against `live`; `stamp` is the batch that it was brought to.
pub(super) async fn judge(
    pipeline: &Pipeline,
    live: &GenerationName,
    candidate: &GenerationName,
    stamp: Stamp,
) -> Result<Verdict, Fault> {
    let gates = &pipeline.config().generations.gates;
    let (live, candidate) = (pipeline.home.searcher(live).await?, pipeline.home.searcher(candidate).await?);
    let (old, new) = (live.as_of().await?, candidate.as_of().await?);
    let mut reports = vec![batch(new.as_ref(), stamp)];
    let count = |found: &Option<(AsOf, u64)>| found.as_ref().map_or(0, |(_, documents)| *documents);
    reports.push(documents(gates, count(&old), count(&new)));
    reports.push(fill(gates, &Filled::of(&*live).await?, &Filled::of(&*candidate).await?));
    if !gates.queries.is_empty() {
        reports.push(queries(gates, &*live, &*candidate).await?);
    }
    Ok(Verdict(reports))
}

/// The index itself says that it holds the batch, or a later one.
fn batch(new: Option<&(AsOf, u64)>, stamp: Stamp) -> GateReport {
    let found = new.map(|(as_of, _)| as_of.stamp);
    let passed = found.is_some_and(|found| found.sequence >= stamp.sequence && found.watermark >= stamp.watermark);
    let detail = match found {
        Some(found) => format!("it holds batch {} with the watermark {}", found.sequence, found.watermark),
        None => "it holds no batch".to_owned(),
    };
    GateReport { gate: "batch".into(), passed, detail }
}

fn documents(gates: &GatesConfig, old: u64, new: u64) -> GateReport {
    // In whole numbers, so that the edge of the band is exact.
    let within = u128::from(old.abs_diff(new)) * 100 <= u128::from(old) * u128::from(gates.documents_percent);
    let passed = old == 0 || (new > 0 && within);
    let detail = match new {
        0 if old > 0 => format!("0 documents, {old} in the live one; an empty one is never let through"),
        _ => {
            format!("{new} documents, {old} in the live one; up to {} % apart is let through", gates.documents_percent)
        }
    };
    GateReport { gate: "documents".into(), passed, detail }
}

/// In how many documents which field has a value.
#[derive(Debug, Default)]
struct Filled {
    of: u64,
    fields: BTreeMap<String, u64>,
}

impl Filled {
    async fn of(searcher: &dyn Searcher) -> Result<Self, Fault> {
        let (_, mut dump) = searcher.dump().await?;
        let mut filled = Self::default();
        while let Some(block) = dump.next().await {
            for document in block? {
                filled.add(&document.json);
                if filled.of >= FILLED_OF {
                    return Ok(filled);
                }
            }
        }
        Ok(filled)
    }

    fn add(&mut self, json: &[u8]) {
        self.of += 1;
        let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(json) else { return };
        for (name, value) in fields {
            let empty = match &value {
                serde_json::Value::Null => true,
                serde_json::Value::String(text) => text.is_empty(),
                serde_json::Value::Array(items) => items.is_empty(),
                _ => false,
            };
            *self.fields.entry(name).or_default() += u64::from(!empty);
        }
    }

    /// Tenths of a percent.
    fn rate(&self, field: &str) -> Option<u64> {
        let filled = self.fields.get(field)?;
        (self.of > 0).then(|| filled * 1000 / self.of)
    }
}

/// Fields that both have must not lose values. One that is new, or gone by the definition, is no loss.
fn fill(gates: &GatesConfig, old: &Filled, new: &Filled) -> GateReport {
    let allowed = u64::from(gates.fill_percent) * 10;
    let mut losses = Vec::new();
    for field in old.fields.keys() {
        let (Some(before), Some(now)) = (old.rate(field), new.rate(field)) else { continue };
        if before.saturating_sub(now) > allowed {
            let percent = |tenths: u64| format!("{}.{} %", tenths / 10, tenths % 10);
            losses.push(format!("{field}: {} instead of {}", percent(now), percent(before)));
        }
    }
    let detail = match losses.is_empty() {
        true => format!("no field lost more than {} points of its values", gates.fill_percent),
        false => format!("filled in fewer documents: {}", losses.join(", ")),
    };
    GateReport { gate: "fill".into(), passed: losses.is_empty(), detail }
}

/// Queries that are known must find mostly the same.
async fn queries(gates: &GatesConfig, live: &dyn Searcher, candidate: &dyn Searcher) -> Result<GateReport, Fault> {
    let mut poor = Vec::new();
    for query in &gates.queries {
        let (old, new) = (found(live, query, gates.queries_at).await, found(candidate, query, gates.queries_at).await);
        let (old, new) = match (old, new) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(why), _) | (_, Err(why)) => {
                poor.push(format!("{query:?}: {why}"));
                continue;
            }
        };
        let common = old.intersection(&new).count();
        if common * 100 < old.len() * usize::from(gates.overlap_percent) {
            poor.push(format!("{query:?} finds {common} of {} again", old.len()));
        }
    }
    let detail = match poor.is_empty() {
        true => format!(
            "{} queries find at least {} % of their first {} again",
            gates.queries.len(),
            gates.overlap_percent,
            gates.queries_at
        ),
        false => poor.join("; "),
    };
    Ok(GateReport { gate: "queries".into(), passed: poor.is_empty(), detail })
}

async fn found(searcher: &dyn Searcher, query: &str, limit: usize) -> Result<BTreeSet<Box<str>>, String> {
    let found = searcher.search(&SearchQuery { query: query.to_owned(), limit, offset: 0 }).await;
    let hits = found.map_err(|error| error.to_string())?.hits;
    Ok(hits.into_iter().map(|hit| hit.document.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(documents: &[&str]) -> Filled {
        let mut filled = Filled::default();
        documents.iter().for_each(|json| filled.add(json.as_bytes()));
        filled
    }

    #[test]
    fn a_band_of_documents() {
        let gates = GatesConfig { documents_percent: 10, ..GatesConfig::default() };
        for (old, new, passed) in
            [(100, 90, true), (100, 110, true), (100, 89, false), (100, 111, false), (0, 5, true), (5, 0, false)]
        {
            assert_eq!(documents(&gates, old, new).passed, passed, "{old} {new}");
        }
        let all = GatesConfig { documents_percent: 100, ..GatesConfig::default() };
        for (old, new, passed) in [(100, 1, true), (100, 0, false), (0, 0, true)] {
            assert_eq!(documents(&all, old, new).passed, passed, "{old} {new}");
        }
    }

    #[test]
    fn fields_must_not_lose_values() {
        let gates = GatesConfig { fill_percent: 5, ..GatesConfig::default() };
        let old = filled(&[r#"{"a":1,"b":"x","gone":1}"#; 20]);
        let mut documents = vec![r#"{"a":1,"b":"x","new":null}"#; 19];
        documents.push(r#"{"a":1,"b":""}"#);
        assert!(fill(&gates, &old, &filled(&documents)).passed, "5 points are let through");
        documents.push(r#"{"a":1,"b":null}"#);
        let report = fill(&gates, &old, &filled(&documents));
        assert_eq!(
            (report.passed, &*report.detail),
            (false, "filled in fewer documents: b: 90.4 % instead of 100.0 %")
        );
    }
}
