//! One commit of an embedded index, as a reader holds it: its documents and its stamp, never of two commits. Knows
//! nothing of queries.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::tantivy::columnar::Column;
use ::tantivy::directory::error::LockError;
use ::tantivy::postings::BlockSegmentPostings;
use ::tantivy::schema::{IndexRecordOption, Term, Value};
use ::tantivy::termdict::TermMerger;
use ::tantivy::{
    Directory, DocAddress, DocId, Index, IndexReader, ReloadPolicy, Searcher, SegmentReader, TantivyDocument,
    TantivyError,
};
use futures::stream::{self, BoxStream};
use highwater_core::Sequence;
use highwater_core::ports::Fault;
use serde::{Deserialize, Serialize};

use super::convert::join;
use super::disk::Disk;
use super::schema::{HASH_HIGH, HASH_LOW, Physical, SEQUENCE};
use crate::index::{AsOf, Pair, StoredDocument};
use crate::task;

const PAIRS_A_BLOCK: usize = 8_192;
const DOCUMENTS_A_BLOCK: usize = 1_024;
/// A snapshot is retaken when a commit or merge lands in between; that often in a row means that something else is wrong.
const TRIES: usize = 100;

/// What a commit carries beside the documents.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    /// Of this structure.
    pub(super) format: u32,
    pub(super) as_of: AsOf,
}

/// The parts of the index's own commit file that tell which commit a set of open segments is.
#[derive(Deserialize)]
struct Meta {
    segments: Vec<MetaSegment>,
    payload: Option<String>,
}

#[derive(Deserialize)]
struct MetaSegment {
    segment_id: ::tantivy::index::SegmentId,
    deletes: Option<MetaDeletes>,
}

#[derive(Deserialize)]
struct MetaDeletes {
    opstamp: u64,
}

/// Takes snapshots of one index, which another process may be writing to.
pub(super) struct Snapshots {
    index: Index,
    reader: IndexReader,
    physical: Arc<Physical>,
    last: Mutex<Option<(Vec<u8>, Arc<Snapshot>)>>,
}

impl Snapshots {
    /// Over an open index, whose tokenizers are registered.
    pub(super) fn new(index: Index, physical: Arc<Physical>) -> Result<Self, TantivyError> {
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { index, reader, physical, last: Mutex::new(None) })
    }

    /// Opens an index for reading alone.
    pub(super) fn open(folder: &Path, physical: Physical) -> Result<Self, TantivyError> {
        let index = Index::open(Disk::reading(folder)?)?;
        Physical::register(&index);
        Self::new(index, Arc::new(physical))
    }

    /// The newest commit. Costs the reading of one small file where nothing was committed since the last call.
    pub(super) fn latest(&self) -> Result<Arc<Snapshot>, Fault> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failure = None;
        for _ in 0..TRIES {
            let bytes = self
                .index
                .directory()
                .atomic_read(Path::new("meta.json"))
                .map_err(|error| Fault::Unavailable(format!("the index's meta.json cannot be read: {error}")))?;
            if let Some((known, snapshot)) = &*last
                && *known == bytes
            {
                return Ok(Arc::clone(snapshot));
            }
            if let Err(error) = self.reader.reload() {
                failure = Some(error);
                continue;
            }
            if let Some(snapshot) = self.pair(&bytes)? {
                let snapshot = Arc::new(snapshot);
                *last = Some((bytes, Arc::clone(&snapshot)));
                return Ok(snapshot);
            }
        }
        Err(match failure {
            Some(error) => fault(error),
            None => Fault::Unavailable("the index changes faster than it can be opened".to_owned()),
        })
    }

    /// The open segments with the stamp of `bytes`; `None` if those are of another commit than these.
    pub(super) fn pair(&self, bytes: &[u8]) -> Result<Option<Snapshot>, Fault> {
        let meta: Meta = serde_json::from_slice(bytes)
            .map_err(|error| Fault::Internal(format!("the index's meta.json is not understood: {error}")))?;
        let searcher = self.reader.searcher();
        let open = searcher.generation().segments();
        let same = open.len() == meta.segments.len()
            && meta.segments.iter().all(|segment| {
                open.get(&segment.segment_id) == Some(&segment.deletes.as_ref().map(|deletes| deletes.opstamp))
            });
        if !same {
            return Ok(None);
        }
        let as_of = meta.payload.map(|payload| read_payload(&payload)).transpose()?;
        Ok(Some(Snapshot { searcher, physical: Arc::clone(&self.physical), as_of }))
    }
}

fn read_payload(payload: &str) -> Result<AsOf, Fault> {
    match serde_json::from_str::<Payload>(payload) {
        Ok(Payload { format: 1, as_of }) => Ok(as_of),
        Ok(Payload { format, .. }) => {
            Err(Fault::Invalid(format!("the index was written in format {format}, by a newer program: use that one")))
        }
        Err(error) => Err(Fault::Internal(format!("the stamp in the index is not understood: {error}"))),
    }
}

/// One commit.
pub(super) struct Snapshot {
    pub(super) searcher: Searcher,
    pub(super) physical: Arc<Physical>,
    /// `None` before the first batch.
    pub(super) as_of: Option<AsOf>,
}

/// A pair, and where its document lies.
type Placed = (Pair, DocAddress);

impl Snapshot {
    /// How many documents it holds.
    pub(super) fn count(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// Up to `limit` pairs with ids past `after`, ascending. Only the id's dictionaries and three columns are read.
    pub(super) fn pairs_after(&self, after: Option<&str>, limit: usize) -> Result<Vec<Placed>, TantivyError> {
        let mut segments = Vec::new();
        let mut dictionaries = Vec::new();
        for (ordinal, reader) in (0..).zip(self.searcher.segment_readers()) {
            segments.push(Segment::open(ordinal, reader)?);
            dictionaries.push(reader.inverted_index(self.physical.key)?);
        }
        let mut streams = Vec::new();
        for dictionary in &dictionaries {
            let range = dictionary.terms().range();
            streams.push(match after {
                Some(after) => range.gt(after).into_stream()?,
                None => range.into_stream()?,
            });
        }
        let mut terms = TermMerger::new(streams);
        let mut block = Vec::with_capacity(limit.min(PAIRS_A_BLOCK));
        while block.len() < limit && terms.advance() {
            for (ordinal, info) in terms.current_segment_ords_and_term_infos() {
                let (segment, dictionary) = (&mut segments[ordinal], &dictionaries[ordinal]);
                let postings = match &mut segment.postings {
                    Some(postings) => {
                        dictionary.reset_block_postings_from_terminfo(&info, postings)?;
                        postings
                    }
                    none => none.insert(dictionary.read_block_postings_from_terminfo(&info, IndexRecordOption::Basic)?),
                };
                let mut left = info.doc_freq as usize;
                while left > 0 && !postings.docs().is_empty() {
                    for doc in postings.docs() {
                        if !segment.reader.is_deleted(*doc) {
                            block.push(segment.columns.pair(terms.key(), *doc)?);
                        }
                    }
                    left = left.saturating_sub(postings.docs().len());
                    postings.advance();
                }
            }
        }
        Ok(block)
    }

    /// Every pair, in blocks.
    pub(super) fn pairs(self: Arc<Self>) -> BoxStream<'static, Result<Vec<Pair>, Fault>> {
        let blocks = stream::try_unfold(Some(None::<Box<str>>), move |state| {
            let snapshot = Arc::clone(&self);
            async move {
                let Some(after) = state else { return Ok(None) };
                let placed = task::blocking(move || snapshot.pairs_after(after.as_deref(), PAIRS_A_BLOCK))
                    .await?
                    .map_err(fault)?;
                let pairs: Vec<Pair> = placed.into_iter().map(|(pair, _)| pair).collect();
                let next = pairs.last().map(|pair| Some(pair.id.clone()));
                Ok(next.is_some().then_some((pairs, next)))
            }
        });
        Box::pin(blocks)
    }

    /// Every document ascending by id, in blocks.
    pub(super) fn documents(self: Arc<Self>) -> BoxStream<'static, Result<Vec<StoredDocument>, Fault>> {
        let blocks = stream::try_unfold(Some(None::<Box<str>>), move |state| {
            let snapshot = Arc::clone(&self);
            async move {
                let Some(after) = state else { return Ok(None) };
                let read = move || -> Result<Vec<StoredDocument>, TantivyError> {
                    snapshot.load(snapshot.pairs_after(after.as_deref(), DOCUMENTS_A_BLOCK)?)
                };
                let documents = task::blocking(read).await?.map_err(fault)?;
                let next = documents.last().map(|document| Some(document.id.clone()));
                Ok(next.is_some().then_some((documents, next)))
            }
        });
        Box::pin(blocks)
    }

    /// `limit` documents in id order, the first `offset` passed over.
    pub(super) fn page(&self, offset: usize, limit: usize) -> Result<Vec<StoredDocument>, TantivyError> {
        let mut skip = offset;
        let mut page = Vec::new();
        let mut after: Option<Box<str>> = None;
        while page.len() < limit {
            let wanted = skip.saturating_add(limit - page.len()).min(PAIRS_A_BLOCK);
            let mut block = self.pairs_after(after.as_deref(), wanted)?;
            let Some((last, _)) = block.last() else { break };
            after = Some(last.id.clone());
            let passed = skip.min(block.len());
            skip -= passed;
            page.extend(block.drain(passed..).take(limit - page.len()).collect::<Vec<_>>());
        }
        self.load(page)
    }

    /// One document.
    pub(super) fn get(&self, id: &str) -> Result<Option<StoredDocument>, TantivyError> {
        let term = Term::from_field_text(self.physical.key, id);
        for (ordinal, reader) in (0..).zip(self.searcher.segment_readers()) {
            let postings =
                reader.inverted_index(self.physical.key)?.read_block_postings(&term, IndexRecordOption::Basic)?;
            let Some(mut postings) = postings else { continue };
            while !postings.docs().is_empty() {
                if let Some(doc) = postings.docs().iter().find(|doc| !reader.is_deleted(**doc)) {
                    let address = DocAddress::new(ordinal, *doc);
                    return self.document(address).map(Some);
                }
                postings.advance();
            }
        }
        Ok(None)
    }

    /// The documents of these pairs, in their order. They are fetched in the order of the disk, where neighbours share
    /// compressed blocks.
    fn load(&self, placed: Vec<Placed>) -> Result<Vec<StoredDocument>, TantivyError> {
        let mut order: Vec<usize> = (0..placed.len()).collect();
        order.sort_by_key(|n| placed[*n].1);
        let mut documents: Vec<Option<StoredDocument>> = placed.iter().map(|_| None).collect();
        for n in order {
            let (pair, address) = &placed[n];
            let json = self.source(&self.searcher.doc(*address)?)?;
            documents[n] = Some(StoredDocument { id: pair.id.clone(), json, hash: pair.hash, sequence: pair.sequence });
        }
        Ok(documents.into_iter().flatten().collect())
    }

    /// The document at an address.
    pub(super) fn document(&self, address: DocAddress) -> Result<StoredDocument, TantivyError> {
        let reader = self.searcher.segment_reader(address.segment_ord);
        let stored: TantivyDocument = self.searcher.doc(address)?;
        let id = stored.get_first(self.physical.key).and_then(|value| value.as_str()).unwrap_or_default();
        let (pair, _) = Columns::open(address.segment_ord, reader)?.pair(id.as_bytes(), address.doc_id)?;
        Ok(StoredDocument { id: pair.id, json: self.source(&stored)?, hash: pair.hash, sequence: pair.sequence })
    }

    fn source(&self, stored: &TantivyDocument) -> Result<Box<[u8]>, TantivyError> {
        stored
            .get_first(self.physical.source)
            .and_then(|value| value.as_bytes())
            .map(Into::into)
            .ok_or_else(|| TantivyError::InternalError("an entry without its document".to_owned()))
    }
}

/// One segment, as the walk over all pairs needs it.
struct Segment<'a> {
    reader: &'a SegmentReader,
    columns: Columns,
    postings: Option<BlockSegmentPostings>,
}

impl<'a> Segment<'a> {
    fn open(ordinal: u32, reader: &'a SegmentReader) -> Result<Self, TantivyError> {
        Ok(Self { reader, columns: Columns::open(ordinal, reader)?, postings: None })
    }
}

/// The columns that make a pair.
struct Columns {
    ordinal: u32,
    high: Column<u64>,
    low: Column<u64>,
    sequence: Column<u64>,
}

impl Columns {
    fn open(ordinal: u32, reader: &SegmentReader) -> Result<Self, TantivyError> {
        let columns = reader.fast_fields();
        let (high, low, sequence) = (columns.u64(HASH_HIGH)?, columns.u64(HASH_LOW)?, columns.u64(SEQUENCE)?);
        Ok(Self { ordinal, high, low, sequence })
    }

    fn pair(&self, id: &[u8], doc: DocId) -> Result<Placed, TantivyError> {
        let (Some(high), Some(low), Some(sequence)) =
            (self.high.first(doc), self.low.first(doc), self.sequence.first(doc))
        else {
            return Err(TantivyError::InternalError("an entry without hash or number".to_owned()));
        };
        let id = std::str::from_utf8(id).map_err(|error| TantivyError::InternalError(format!("an id: {error}")))?;
        let pair = Pair { id: id.into(), hash: join(high, low), sequence: Sequence(sequence) };
        Ok((pair, DocAddress::new(self.ordinal, doc)))
    }
}

/// What an error of the index means to the caller.
pub(super) fn fault(error: TantivyError) -> Fault {
    let message = format!("index: {error}");
    match error {
        TantivyError::OpenDirectoryError(_)
        | TantivyError::OpenReadError(_)
        | TantivyError::OpenWriteError(_)
        | TantivyError::IoError(_)
        | TantivyError::ErrorInThread(_)
        | TantivyError::SystemError(_) => Fault::Unavailable(message),
        TantivyError::LockFailure(LockError::IoError(error), _) => {
            Fault::Unavailable(format!("index: a lock cannot be taken: {error}"))
        }
        TantivyError::LockFailure(..) => Fault::Fenced(message),
        _ => Fault::Internal(message),
    }
}
