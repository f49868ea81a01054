//! How DataFusion is set up: what it may use of the machine, and that no setting of the machine reaches a result.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;

/// What one run may use.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Bytes of memory for the query, the tables' own rows aside.
    pub memory_bytes: u64,
    /// How many threads' worth of work the plan is cut into.
    pub target_partitions: usize,
    /// An existing folder for what does not fit into memory.
    pub temp_folder: PathBuf,
    /// A run did not fit before: begin with the frugal way.
    pub frugal: bool,
}

/// The memory of one run.
pub fn memory(resources: &Resources) -> Arc<dyn MemoryPool> {
    let bytes = usize::try_from(resources.memory_bytes).unwrap_or(usize::MAX);
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), NonZeroUsize::MIN.saturating_add(4)))
}

/// How a run trades speed for memory, from fast to frugal. Results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Hash joins, which cannot spill.
    Fast,
    /// Joins that spill.
    Spilling,
    /// One thread's worth of work, and few rows at a time: merging what was spilled needs least.
    Frugal,
}

/// Rows at a time in a frugal run, and at the most in any.
const FEW_ROWS: usize = 256;
const MANY_ROWS: usize = 8192;
/// Merging what was spilled holds a batch of each of some tens of runs: a batch of rows of a kilobyte should be a small
/// part of a partition's memory.
const BYTES_PER_ROW: u64 = 64 << 10;

fn rows_at_a_time(memory_bytes: u64, partitions: usize) -> usize {
    let rows = memory_bytes / partitions as u64 / BYTES_PER_ROW;
    usize::try_from(rows).unwrap_or(MANY_ROWS).clamp(FEW_ROWS, MANY_ROWS)
}

/// A session for running: with the memory and folder of `resources`.
pub fn running(resources: &Resources, memory: &Arc<dyn MemoryPool>, effort: Effort) -> Result<SessionState> {
    let folders = DiskManagerMode::Directories(vec![resources.temp_folder.clone()]);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(memory))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(folders))
        .build_arc()?;
    let partitions = if effort == Effort::Frugal { 1 } else { resources.target_partitions.max(1) };
    let rows = if effort == Effort::Frugal { FEW_ROWS } else { rows_at_a_time(resources.memory_bytes, partitions) };
    let mut config = config().with_target_partitions(partitions).with_batch_size(rows);
    let options = config.options_mut();
    options.optimizer.prefer_hash_join = effort == Effort::Fast;
    let share = usize::try_from(resources.memory_bytes).unwrap_or(usize::MAX) / (16 * partitions);
    options.execution.sort_spill_reservation_bytes = options.execution.sort_spill_reservation_bytes.min(share);
    options.execution.sort_in_place_threshold_bytes = options.execution.sort_in_place_threshold_bytes.min(share);
    Ok(state(config, runtime))
}

/// A session for planning alone.
pub fn planning() -> SessionState {
    state(config().with_target_partitions(1), Arc::new(RuntimeEnv::default()))
}

fn config() -> SessionConfig {
    let mut config = SessionConfig::new().with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    config
}

fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionState {
    SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features().build()
}
