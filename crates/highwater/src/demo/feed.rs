//! Makes ads, campaigns and co-purchases, and lands them as files: each second one file a source, in the partition of its
//! time, written aside and renamed so that a reader sees it whole.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use highwater_core::Timestamp;
use jiff::SignedDuration;
use parquet::arrow::ArrowWriter;
use thiserror::Error;

const WORDS: [&str; 48] = [
    "amber", "atlas", "basil", "birch", "cedar", "cobalt", "coral", "crimson", "delta", "ember", "fable", "fern",
    "flint", "garnet", "harbor", "hazel", "indigo", "ivory", "jade", "juniper", "karma", "lapis", "linen", "lotus",
    "maple", "marble", "mesa", "mint", "nectar", "noble", "oasis", "onyx", "opal", "orchid", "pearl", "pine", "plaza",
    "quartz", "quill", "raven", "river", "saffron", "sierra", "slate", "summit", "topaz", "velvet", "willow",
];
/// How many different ads and campaigns there are.
const ADS: u64 = 5000;
const CAMPAIGNS: u64 = 100;
/// How many rows a second brings.
const ADS_A_SECOND: usize = 60;
const CAMPAIGNS_A_SECOND: usize = 5;
const PURCHASES_A_SECOND: usize = 200;

/// Why a file could not be landed.
#[derive(Debug, Error)]
pub enum FeedError {
    /// The folder cannot be written.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A batch of rows could not be made.
    #[error(transparent)]
    Rows(#[from] ArrowError),
    /// A Parquet file could not be written.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// The lake, and the dice that fill it.
#[derive(Debug)]
pub struct Feed {
    lake: PathBuf,
    dice: u64,
    files: u64,
}

/// Writes the demo's configuration and SQL into `folder`; answers the configuration's path.
pub fn write_pipeline(folder: &Path, listen: Option<&str>) -> Result<PathBuf, FeedError> {
    let mut text = include_str!("pipeline.toml").to_owned();
    if let Some(listen) = listen {
        let _ = write!(text, "\n[serve]\nlisten = \"{listen}\"\n");
    }
    let file = folder.join("highwater.toml");
    write(&file, text.as_bytes())?;
    write(&folder.join("document.sql"), include_bytes!("document.sql"))?;
    for table in ["ads", "campaigns", "copurchase"] {
        let path = folder.join("lake").join(table);
        fs::create_dir_all(&path).map_err(|error| FeedError::Io { path, error })?;
    }
    Ok(file)
}

impl Feed {
    /// Feeds `folder/lake`; equal seeds make equal rows.
    pub fn new(folder: &Path, seed: u64) -> Self {
        Self { lake: folder.join("lake"), dice: seed | 1, files: 0 }
    }

    /// Lands one file a source for the second before `now`. Answers how many files were landed so far.
    pub fn second(&mut self, now: Timestamp) -> Result<u64, FeedError> {
        let ads = self.ads(now)?;
        let campaigns = self.campaigns(now);
        let purchases = self.purchases();
        self.land("ads", "parquet", now, &ads)?;
        self.land("campaigns", "ndjson", now, campaigns.as_bytes())?;
        self.land("copurchase", "csv", now, purchases.as_bytes())?;
        Ok(self.files)
    }

    /// Lands the files of the time before `now`, one a source for every five seconds.
    pub fn past(&mut self, now: Timestamp, length: SignedDuration) -> Result<u64, FeedError> {
        let mut at = now - length;
        while at < now {
            self.second(at)?;
            at += SignedDuration::from_secs(5);
        }
        Ok(self.files)
    }

    fn ads(&mut self, now: Timestamp) -> Result<Vec<u8>, FeedError> {
        let ids: Vec<u64> = (0..ADS_A_SECOND).map(|_| self.roll(ADS)).collect();
        let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
        columns.push(("ad_id", Arc::new(StringArray::from_iter_values(ids.iter().map(|id| format!("ad-{id:05}"))))));
        let campaigns = ids.iter().map(|id| format!("c-{:03}", id % CAMPAIGNS));
        columns.push(("campaign_id", Arc::new(StringArray::from_iter_values(campaigns))));
        let titles: Vec<String> = ids.iter().map(|_| self.words(4)).collect();
        columns.push(("title", Arc::new(StringArray::from(titles))));
        let bodies: Vec<String> = ids.iter().map(|_| self.words(24)).collect();
        columns.push(("body", Arc::new(StringArray::from(bodies))));
        let bids: Vec<i64> = ids.iter().map(|_| 10_000 + self.roll(5_000_000).cast_signed()).collect();
        columns.push(("bid_micros", Arc::new(Int64Array::from(bids))));
        let deleted: Vec<bool> = ids.iter().map(|_| self.roll(50) == 0).collect();
        columns.push(("deleted", Arc::new(BooleanArray::from(deleted))));
        let times: Vec<i64> = ids.iter().map(|_| self.moment(now).as_microsecond()).collect();
        columns.push(("updated_at", Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC"))));
        let batch = RecordBatch::try_from_iter(columns)?;
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(bytes)
    }

    fn campaigns(&mut self, now: Timestamp) -> String {
        let mut lines = String::new();
        for _ in 0..CAMPAIGNS_A_SECOND {
            let (id, name) = (self.roll(CAMPAIGNS), self.words(2));
            let (budget, at) = (1_000_000 + self.roll(900_000_000), self.moment(now));
            let _ = writeln!(
                lines,
                r#"{{"campaign_id":"c-{id:03}","name":"{name}","budget_micros":{budget},"updated_at":"{at}"}}"#
            );
        }
        lines
    }

    fn purchases(&mut self) -> String {
        let mut lines = String::from("ad_id,other_id,qty\n");
        for _ in 0..PURCHASES_A_SECOND {
            let (ad, other, qty) = (self.roll(ADS), self.roll(ADS), 1 + self.roll(4));
            let _ = writeln!(lines, "ad-{ad:05},ad-{other:05},{qty}");
        }
        lines
    }

    fn land(&mut self, table: &str, extension: &str, now: Timestamp, bytes: &[u8]) -> Result<(), FeedError> {
        let second = now.as_second();
        let partition = Timestamp::from_second(second - second.rem_euclid(5)).unwrap_or(now);
        let folder = self.lake.join(table).join(partition.strftime("dt=%Y-%m-%d/hr=%H/mi=%M/ss=%S").to_string());
        fs::create_dir_all(&folder).map_err(|error| FeedError::Io { path: folder.clone(), error })?;
        let name = format!("part-{:02}-{:06}.{extension}", second.rem_euclid(60), self.files);
        let aside = folder.join(format!(".{name}"));
        write(&aside, bytes)?;
        fs::rename(&aside, folder.join(name)).map_err(|error| FeedError::Io { path: aside, error })?;
        self.files += 1;
        Ok(())
    }

    fn moment(&mut self, now: Timestamp) -> Timestamp {
        now - SignedDuration::from_micros(self.roll(1_000_000).cast_signed())
    }

    fn words(&mut self, count: usize) -> String {
        let picked: Vec<&str> = (0..count).map(|_| WORDS[self.roll(WORDS.len() as u64) as usize]).collect();
        picked.join(" ")
    }

    /// xorshift64: plain dice, for rows that only have to look alive.
    fn roll(&mut self, below: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % below
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FeedError> {
    fs::write(path, bytes).map_err(|error| FeedError::Io { path: path.to_owned(), error })
}
