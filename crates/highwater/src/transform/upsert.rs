//! Which rows of an `upsert` table stand: of each key the one with the greatest (version, partition, path, row), unless
//! it says that the key is gone. One pass over the key, version and deleted columns; only keys are held.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use super::TransformError;
use crate::config::TableKind;
use crate::table::{Part, Table};

/// The standing rows of a table, one mask for each of its parts.
pub type Standing = Vec<BooleanBuffer>;

/// Passes over the keys are cut in so many at most; past it there is too little memory for even that.
const MOST_PASSES: u64 = 256;

/// Parts of a table in ascending (partition, path) order, whatever the order given.
pub fn in_order(table: &Table) -> Vec<Arc<Part>> {
    let mut parts = table.parts.clone();
    parts.sort_by(|a, b| (a.partition, &a.version.path).cmp(&(b.partition, &b.version.path)));
    parts
}

/// The standing rows of `parts`, which are in ascending order; `None` where all rows stand. When the keys do not fit the
/// memory pool at once, they are worked off in several passes, by their hash. Blocks.
pub fn standing(
    table: &Table,
    parts: &[Arc<Part>],
    pool: &Arc<dyn MemoryPool>,
) -> Result<Option<Standing>, TransformError> {
    let TableKind::Upsert { key, version, deleted, .. } = &table.kind else { return Ok(None) };
    let columns = Columns::resolve(&table.schema, key, version.as_deref(), deleted.as_deref())?;
    let hasher = RandomState::new();
    let mut passes = 1;
    loop {
        let memory = MemoryConsumer::new(format!("keys of {}", table.source)).register(pool);
        let mut masks: Vec<BooleanBufferBuilder> = parts.iter().map(|part| zeros(part.row_count as usize)).collect();
        let mut done = true;
        for pass in 0..passes {
            let mut winners = Winners::new(&hasher, pass, passes);
            if !winners.collect(&table.schema, parts, &columns, &memory)? {
                done = false;
                break;
            }
            winners.mark(&mut masks);
            memory.free();
        }
        if done {
            return Ok(Some(masks.into_iter().map(|mut mask| mask.finish()).collect()));
        }
        passes *= 4;
        if passes > MOST_PASSES {
            return Err(TransformError::Memory(format!("the keys of {} do not fit the memory budget", table.source)));
        }
    }
}

fn zeros(rows: usize) -> BooleanBufferBuilder {
    let mut mask = BooleanBufferBuilder::new(rows);
    mask.append_n(rows, false);
    mask
}

/// The columns that decide, by their place in the schema, and by their place in what is read.
struct Columns {
    read: Vec<usize>,
    keys: usize,
    version: Option<usize>,
    deleted: Option<usize>,
}

impl Columns {
    fn resolve(
        schema: &SchemaRef,
        key: &[String],
        version: Option<&str>,
        deleted: Option<&str>,
    ) -> Result<Self, TransformError> {
        let place = |name: &str| {
            schema.index_of(name).map_err(|_| TransformError::Sql(format!("the table has no column {name}")))
        };
        let mut read = key.iter().map(|name| place(name)).collect::<Result<Vec<_>, _>>()?;
        let keys = read.len();
        let mut push = |name: Option<&str>| -> Result<Option<usize>, TransformError> {
            let Some(name) = name else { return Ok(None) };
            read.push(place(name)?);
            Ok(Some(read.len() - 1))
        };
        let version = push(version)?;
        let deleted = push(deleted)?;
        if let Some(at) = deleted
            && schema.field(read[at]).data_type() != &DataType::Boolean
        {
            let name = schema.field(read[at]).name();
            return Err(TransformError::Sql(format!("the deleted column {name} must be of type bool")));
        }
        Ok(Self { read, keys, version, deleted })
    }

    fn converter(&self, schema: &SchemaRef, columns: &[usize]) -> Result<RowConverter, TransformError> {
        // Nulls first: a null version is the least.
        let options = SortOptions { descending: false, nulls_first: true };
        let fields = columns
            .iter()
            .map(|&at| SortField::new_with_options(schema.field(self.read[at]).data_type().clone(), options));
        RowConverter::new(fields.collect()).map_err(|error| TransformError::Internal(error.to_string()))
    }
}

struct Winner {
    key: (usize, usize),
    version: (usize, usize),
    part: u32,
    row: u32,
    deleted: bool,
}

/// The best row so far of each key whose hash belongs to this pass.
struct Winners<'a> {
    hasher: &'a RandomState,
    pass: u64,
    passes: u64,
    places: places::Places,
    winners: Vec<Winner>,
    keys: Vec<u8>,
    versions: Vec<u8>,
}

impl<'a> Winners<'a> {
    fn new(hasher: &'a RandomState, pass: u64, passes: u64) -> Self {
        Self {
            hasher,
            pass,
            passes,
            places: places::Places::default(),
            winners: Vec::new(),
            keys: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// False if memory ran out.
    fn collect(
        &mut self,
        schema: &SchemaRef,
        parts: &[Arc<Part>],
        columns: &Columns,
        memory: &MemoryReservation,
    ) -> Result<bool, TransformError> {
        let key_converter = columns.converter(schema, &(0..columns.keys).collect::<Vec<_>>())?;
        let version_converter = match columns.version {
            Some(at) => Some(columns.converter(schema, &[at])?),
            None => None,
        };
        for (part, rows) in parts.iter().enumerate() {
            let mut first = 0;
            for batch in rows.batches(schema, &columns.read)? {
                let batch = batch?;
                let keys = convert(&key_converter, &batch.columns()[..columns.keys])?;
                let versions = match (&version_converter, columns.version) {
                    (Some(converter), Some(at)) => Some(convert(converter, &batch.columns()[at..=at])?),
                    _ => None,
                };
                self.take(part as u32, first, &batch, columns, &keys, versions.as_ref());
                if memory.try_resize(self.bytes() + keys.size()).is_err() {
                    return Ok(false);
                }
                first += batch.num_rows() as u32;
            }
        }
        Ok(true)
    }

    fn take(
        &mut self,
        part: u32,
        first: u32,
        batch: &RecordBatch,
        columns: &Columns,
        keys: &Rows,
        versions: Option<&Rows>,
    ) {
        let deleted = columns.deleted.map(|at| batch.column(at).as_boolean());
        for row in 0..batch.num_rows() {
            let key = keys.row(row);
            let hash = self.hasher.hash_one(key.as_ref());
            if self.passes > 1 && (hash >> 32) % self.passes != self.pass {
                continue;
            }
            let gone = deleted.is_some_and(|deleted| deleted.is_valid(row) && deleted.value(row));
            let version = versions.map(|versions| versions.row(row));
            let version = version.as_ref().map_or(&[][..], AsRef::as_ref);
            self.offer(hash, key.as_ref(), version, (part, first + row as u32), gone);
        }
    }

    fn offer(&mut self, hash: u64, key: &[u8], version: &[u8], (part, row): (u32, u32), deleted: bool) {
        let (winners, keys) = (&self.winners, &self.keys);
        let found = self.places.find(hash, |at| {
            let (from, to) = winners[at].key;
            &keys[from..to] == key
        });
        let Some(at) = found else {
            let key = append(&mut self.keys, key);
            let version = append(&mut self.versions, version);
            self.places.insert(hash, self.winners.len());
            self.winners.push(Winner { key, version, part, row, deleted });
            return;
        };
        let winner = &mut self.winners[at];
        let (from, to) = winner.version;
        // Rows come in ascending order, so that an equal version wins.
        if version < &self.versions[from..to] {
            return;
        }
        if version.len() == to - from {
            self.versions[from..to].copy_from_slice(version);
        } else {
            winner.version = append(&mut self.versions, version);
        }
        (winner.part, winner.row, winner.deleted) = (part, row, deleted);
    }

    fn mark(&self, masks: &mut [BooleanBufferBuilder]) {
        for winner in &self.winners {
            if !winner.deleted {
                masks[winner.part as usize].set_bit(winner.row as usize, true);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.keys.capacity()
            + self.versions.capacity()
            + self.winners.capacity() * size_of::<Winner>()
            + self.places.bytes()
    }
}

fn append(arena: &mut Vec<u8>, bytes: &[u8]) -> (usize, usize) {
    let from = arena.len();
    arena.extend_from_slice(bytes);
    (from, arena.len())
}

fn convert(converter: &RowConverter, columns: &[arrow::array::ArrayRef]) -> Result<Rows, TransformError> {
    converter.convert_columns(columns).map_err(|error| TransformError::Internal(error.to_string()))
}

/// A hash table of places, compared by what stands there.
mod places {
    /// Open addressing with linear probing; a slot holds a place and the upper half of its hash.
    #[derive(Default)]
    pub struct Places {
        slots: Vec<Slot>,
        used: usize,
    }

    #[derive(Clone, Copy)]
    struct Slot {
        hash: u64,
        /// `usize::MAX` marks an empty slot.
        at: usize,
    }

    const EMPTY: Slot = Slot { hash: 0, at: usize::MAX };

    impl Places {
        pub fn find(&self, hash: u64, same: impl Fn(usize) -> bool) -> Option<usize> {
            if self.slots.is_empty() {
                return None;
            }
            let mask = self.slots.len() - 1;
            let mut slot = (hash as usize) & mask;
            while self.slots[slot].at != usize::MAX {
                if self.slots[slot].hash == hash && same(self.slots[slot].at) {
                    return Some(self.slots[slot].at);
                }
                slot = (slot + 1) & mask;
            }
            None
        }

        pub fn insert(&mut self, hash: u64, at: usize) {
            if self.used * 2 >= self.slots.len() {
                let larger = vec![EMPTY; (self.slots.len() * 2).max(64)];
                for slot in std::mem::replace(&mut self.slots, larger) {
                    if slot.at != usize::MAX {
                        self.place(slot);
                    }
                }
            }
            self.place(Slot { hash, at });
            self.used += 1;
        }

        pub fn bytes(&self) -> usize {
            self.slots.capacity() * size_of::<Slot>()
        }

        fn place(&mut self, new: Slot) {
            let mask = self.slots.len() - 1;
            let mut slot = (new.hash as usize) & mask;
            while self.slots[slot].at != usize::MAX {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = new;
        }
    }
}
