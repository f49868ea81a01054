//! Files to parts: fetches and decodes the versions that a batch pins and the cache lacks. Knows nothing of SQL or sinks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use futures::StreamExt;
use highwater_core::file::below_base;
use highwater_core::partition::{Calendar, Layout};
use highwater_core::ports::Fault;
use highwater_core::receipt::RejectedRow;
use highwater_core::{FileVersion, SourceName, Timestamp};

use super::spec::Learnt;
use crate::config::{Config, SourceConfig, TableKind};
use crate::format::{self, DecodeRequest, FileSchema};
use crate::store::{Content, FetchError, Stores};
use crate::table::Part;
use crate::task;

/// How one source's files become parts.
#[derive(Debug)]
struct SourceReader {
    config: SourceConfig,
    layout: Option<(Layout, Calendar)>,
    /// Of base snapshots, with the places of the source's captures among its own.
    base: Option<(Layout, Calendar, Vec<usize>)>,
    required: Vec<String>,
    max_memory_bytes: u64,
}

/// Reads files, a few at a time, through the stores.
pub struct Reader {
    stores: Arc<Stores>,
    sources: BTreeMap<SourceName, Arc<SourceReader>>,
    cores: usize,
    fetched: Mutex<Fetched>,
}

/// Contents that a first look at the files' columns read already.
#[derive(Default)]
struct Fetched {
    contents: BTreeMap<(SourceName, FileVersion), Content>,
    bytes: u64,
}

/// Contents of a first batch that are kept in memory between learning and decoding; past it they are fetched again.
const KEPT_BYTES: u64 = 256 << 20;

/// What one file taught of its columns.
enum Look {
    Columns(FileSchema),
    Moved(Arc<str>),
    Unreadable(String),
}

/// What became of one file version.
pub enum Read {
    /// Its rows, and those of its rows that were refused.
    Part(Box<Part>, Vec<RejectedRow>, u64),
    /// It is not what was listed.
    Moved(String),
    /// It cannot be read, for this reason.
    Broken(String),
}

impl Reader {
    /// Reads the sources of a configuration.
    pub fn new(config: &Config, stores: Arc<Stores>, cores: usize) -> Result<Self, Fault> {
        let mut sources = BTreeMap::new();
        for (name, source) in &config.sources {
            let required = match &source.kind {
                TableKind::Upsert { key, .. } => key.clone(),
                TableKind::Append | TableKind::Reference => Vec::new(),
            };
            let layout = source.time().map_err(Fault::Invalid)?;
            let max_memory_bytes = config.pipeline.memory_bytes;
            let base = base_of(source, layout.as_ref().map(|(layout, _)| layout)).map_err(Fault::Invalid)?;
            let reader = SourceReader { config: source.clone(), layout, base, required, max_memory_bytes };
            sources.insert(name.clone(), Arc::new(reader));
        }
        Ok(Self { stores, sources, cores, fetched: Mutex::default() })
    }

    /// Reads so many files at once from now on.
    pub fn resize(&mut self, cores: usize) {
        self.cores = cores;
    }

    /// Learns the columns of one source's files. Files that cannot be read teach nothing, and are named; those that are
    /// not what was listed are the answer.
    pub async fn learn(
        &self,
        source: &SourceName,
        files: &[FileVersion],
        learnt: &mut Learnt,
    ) -> Result<Vec<Arc<str>>, Fault> {
        let reader = self.source(source)?;
        let mut moved = Vec::new();
        let mut looks = Vec::with_capacity(files.len());
        for version in files {
            looks.push(self.learn_one(reader.clone(), version.clone()));
        }
        let mut looks = futures::stream::iter(looks).buffered(self.cores);
        while let Some(look) = looks.next().await {
            match look? {
                Look::Columns(schema) => {
                    let schema = match learnt.schemas.remove(source) {
                        None => schema,
                        Some(before) => format::merge(&before, &schema),
                    };
                    learnt.schemas.insert(source.clone(), schema);
                }
                Look::Moved(path) => moved.push(path),
                Look::Unreadable(why) => learnt.unreadable.entry(source.clone()).or_default().push(why),
            }
        }
        Ok(moved)
    }

    async fn learn_one(&self, reader: Arc<SourceReader>, version: FileVersion) -> Result<Look, Fault> {
        let content = match self.stores.fetch(&reader.config.name, &version).await {
            Ok(content) => content,
            Err(FetchError::Unavailable(why)) => return Err(Fault::Unavailable(why)),
            Err(FetchError::Moved(_)) => return Ok(Look::Moved(version.path)),
            Err(FetchError::Unreadable(why)) => return Ok(Look::Unreadable(format!("{}: {why}", version.path))),
        };
        let (name, path) = (reader.config.name.clone(), version.path.clone());
        let (learnt, content) = task::blocking(move || {
            let learnt = format::learn(&path, &content, &reader.config.spec());
            (learnt, content)
        })
        .await?;
        let look = match learnt {
            Ok(schema) => Look::Columns(schema),
            Err(error) => Look::Unreadable(format!("{}: {error}", version.path)),
        };
        self.keep(name, version, content);
        Ok(look)
    }

    fn keep(&self, source: SourceName, version: FileVersion, content: Content) {
        let Ok(mut fetched) = self.fetched.lock() else { return };
        if fetched.bytes + version.size <= KEPT_BYTES {
            fetched.bytes += version.size;
            fetched.contents.insert((source, version), content);
        }
    }

    /// Forgets contents kept from learning.
    pub fn forget(&self) {
        if let Ok(mut fetched) = self.fetched.lock() {
            *fetched = Fetched::default();
        }
    }

    fn kept(&self, source: &SourceName, version: &FileVersion) -> Option<Content> {
        let mut fetched = self.fetched.lock().ok()?;
        let content = fetched.contents.remove(&(source.clone(), version.clone()))?;
        fetched.bytes -= version.size;
        Some(content)
    }

    /// Reads and decodes versions of one source, a few at a time, in order.
    pub async fn read(
        &self,
        source: &SourceName,
        schemas: (SchemaRef, SchemaRef),
        versions: &[FileVersion],
    ) -> Result<Vec<(FileVersion, Read)>, Fault> {
        let reader = self.source(source)?;
        let mut reads = Vec::with_capacity(versions.len());
        for version in versions {
            reads.push(self.read_one(reader.clone(), schemas.clone(), version.clone()));
        }
        let mut reads = futures::stream::iter(reads).buffered(self.cores);
        let mut all = Vec::with_capacity(versions.len());
        while let Some(read) = reads.next().await {
            all.push(read?);
        }
        Ok(all)
    }

    async fn read_one(
        &self,
        reader: Arc<SourceReader>,
        (files, table): (SchemaRef, SchemaRef),
        version: FileVersion,
    ) -> Result<(FileVersion, Read), Fault> {
        let content = match self.kept(&reader.config.name, &version) {
            Some(content) => content,
            None => match self.stores.fetch(&reader.config.name, &version).await {
                Ok(content) => content,
                Err(FetchError::Unavailable(why)) => return Err(Fault::Unavailable(why)),
                Err(FetchError::Moved(why)) => return Ok((version, Read::Moved(why))),
                Err(FetchError::Unreadable(why)) => return Ok((version, Read::Broken(why))),
            },
        };
        let read = task::blocking({
            let version = version.clone();
            move || reader.decode(&files, &table, version, &content)
        })
        .await?;
        Ok((version, read))
    }

    fn source(&self, name: &SourceName) -> Result<Arc<SourceReader>, Fault> {
        let known = self.sources.get(name).cloned();
        known.ok_or_else(|| Fault::Internal(format!("source {name} is not in the configuration")))
    }
}

impl SourceReader {
    fn decode(&self, files: &SchemaRef, table: &SchemaRef, version: FileVersion, content: &Content) -> Read {
        let request = DecodeRequest {
            path: version.path.to_string(),
            spec: self.config.spec(),
            schema: files.clone(),
            required: self.required.clone(),
            max_rejects: self.config.max_rejects,
            max_memory_bytes: self.max_memory_bytes,
        };
        let decoded = match format::decode(&request, content) {
            Ok(decoded) => decoded,
            Err(error) => return Read::Broken(error.to_string()),
        };
        let (partition, captures) = match self.place(&version.path) {
            Ok(place) => place,
            Err(why) => return Read::Broken(why),
        };
        let mut batches = Vec::with_capacity(decoded.batches.len());
        for batch in decoded.batches {
            match with_captures(&batch, table, &captures) {
                Ok(batch) => batches.push(batch),
                Err(error) => return Read::Broken(error.to_string()),
            }
        }
        let mut rejected = Vec::with_capacity(decoded.rejected.len());
        for format::Rejected { row, reason } in decoded.rejected {
            let source = Some(self.config.name.clone());
            rejected.push(RejectedRow { source, path: version.path.clone(), row, reason });
        }
        let places = decoded.row_numbers.map(|places| UInt64Array::from_iter_values(places.into_iter().map(|n| n + 1)));
        let part = Part::new(version, partition, batches, places);
        Read::Part(Box::new(part), rejected, decoded.rejected_count)
    }

    /// The partition of a file, or the time of the snapshot that it belongs to, and the columns captured from its path.
    fn place(&self, path: &str) -> Result<(Option<Timestamp>, Vec<Option<String>>), String> {
        if let (Some((layout, calendar, order)), Some(below)) = (&self.base, below_base(path)) {
            let located = layout.locate(below).map_err(|misplaced| misplaced.to_string())?;
            let captures = order.iter().map(|place| located.captures[*place].clone()).collect();
            return Ok((Some(calendar.holding_civil(located.civil).start), captures));
        }
        let Some((layout, calendar)) = &self.layout else { return Ok((None, Vec::new())) };
        let located = layout.locate(path).map_err(|misplaced| misplaced.to_string())?;
        Ok((Some(calendar.holding_civil(located.civil).start), located.captures))
    }
}

fn base_of(source: &SourceConfig, own: Option<&Layout>) -> Result<Option<(Layout, Calendar, Vec<usize>)>, String> {
    let (Some(base), Some(own)) = (source.base(), own) else { return Ok(None) };
    let (layout, calendar) = base.time(&source.time_zone)?;
    let place = |name: &String| {
        let found = layout.captures().iter().position(|capture| capture == name);
        found.ok_or_else(|| format!("base layout \"{}\" does not capture `{name}`", base.layout))
    };
    let order = own.captures().iter().map(place).collect::<Result<_, _>>()?;
    Ok(Some((layout, calendar, order)))
}

fn with_captures(
    batch: &RecordBatch,
    table: &SchemaRef,
    captures: &[Option<String>],
) -> Result<RecordBatch, arrow::error::ArrowError> {
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    for capture in captures {
        columns.push(match capture {
            Some(value) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, batch.num_rows()))),
            None => new_null_array(&DataType::Utf8, batch.num_rows()),
        });
    }
    RecordBatch::try_new(table.clone(), columns)
}
