//! Runs the compiled SQL over a batch's tables: documents in ascending order of their ids, whatever the number of
//! threads and whether or not they fit into memory.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::logical_plan::builder::LogicalPlanBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, col};
use datafusion::physical_plan::execute_stream;
use futures::future::try_join_all;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use highwater_core::receipt::RejectedRow;
use highwater_core::{SourceName, Timestamp};

use super::compile::Compiled;
use super::functions::{WATERMARK, canonical_row, id_text, texts, watermark};
use super::provider::{Rows, SourceTable};
use super::session::{self, Effort, Resources};
use super::upsert::{in_order, standing};
use super::{Document, DocumentHash, TransformError};
use crate::table::{Table, TableError};
use crate::task;

/// No sink takes a longer id.
pub const MAX_ID_BYTES: usize = 32_766;

const ID: &str = "__id";
const JSON: &str = "__json";

/// A run of documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentBlock {
    /// Ascending by the bytes of the id, over all blocks of a run; each id once.
    pub documents: Vec<Document>,
    /// Rows of the SQL whose id cannot be one, by name.
    pub rejected: Vec<RejectedRow>,
    /// Rows that lost to another row with the same id.
    pub duplicate_ids: u64,
}

type Sources = BTreeMap<SourceName, Arc<Rows>>;

impl Compiled {
    /// The documents that the SQL yields over `tables` (one for each source that it reads, at least), with `watermark`
    /// for `$watermark`.
    ///
    /// The run starts when the stream is polled. It joins by hashing at first; when that does not fit the memory, it
    /// starts anew with joins that spill, before any block is given.
    pub fn documents(
        &self,
        tables: Vec<Table>,
        watermark: Timestamp,
        resources: &Resources,
    ) -> BoxStream<'static, Result<DocumentBlock, TransformError>> {
        let (compiled, resources) = (self.clone(), resources.clone());
        let run = async move {
            let sources = compiled.sources(tables, &resources).await?;
            let plan = compiled.bound(&sources, watermark).map_err(failed)?;
            let begin = if resources.frugal { Effort::Frugal } else { Effort::Fast };
            let mut first = start(&plan, &resources, begin).await;
            for effort in [Effort::Spilling, Effort::Frugal] {
                if first.as_ref().err().is_some_and(out_of_memory) {
                    first = start(&plan, &resources, effort).await;
                }
            }
            let batches = first.map_err(failed)?;
            let blocks = Blocks { batches, pending: None, done: false };
            Ok::<_, TransformError>(stream::try_unfold(blocks, |mut blocks| async move {
                Ok(blocks.next().await?.map(|block| (block, blocks)))
            }))
        };
        stream::once(run).try_flatten().boxed()
    }

    /// Plans the SQL to the end over no rows, so that what DataFusion cannot run is told before a batch.
    pub(super) fn try_out(&self) -> DfResult<()> {
        let none = || Arc::new(Rows { parts: Vec::new(), standing: None });
        let sources = self.reads.iter().map(|source| (source.clone(), none())).collect();
        let plan = self.bound(&sources, Timestamp::UNIX_EPOCH)?;
        // Within a task of the runtime, a part of the planner that has used up the task's budget would be woken for ever
        // and never go on: nothing else may run meanwhile, so it has no budget.
        let state = session::planning();
        futures::executor::block_on(tokio::task::unconstrained(state.create_physical_plan(&plan)))?;
        Ok(())
    }

    /// Every id with a row, live or deleted, in the tables: the distinct texts of the id's source column, ascending.
    /// `None` if the SQL computes its ids. Blocks.
    pub fn owned_ids(&self, tables: &[Table]) -> Result<Option<Vec<Box<str>>>, TransformError> {
        let Some((source, column)) = &self.id_origin else { return Ok(None) };
        let mut owned: HashSet<Box<str>> = HashSet::new();
        for table in tables.iter().filter(|table| table.source == *source) {
            let place = table.schema.index_of(column).map_err(|error| TransformError::Internal(error.to_string()))?;
            for part in &table.parts {
                for batch in part.batches(&table.schema, &[place])? {
                    let ids = texts(batch?.column(0)).map_err(failed)?;
                    for id in ids.as_string_view().iter().flatten() {
                        if !id.is_empty() && !owned.contains(id) {
                            owned.insert(id.into());
                        }
                    }
                }
            }
        }
        let mut owned: Vec<Box<str>> = owned.into_iter().collect();
        owned.sort_unstable();
        Ok(Some(owned))
    }

    /// Each source's rows, the standing ones found.
    pub(super) async fn sources(&self, tables: Vec<Table>, resources: &Resources) -> Result<Sources, TransformError> {
        let pool = session::memory(resources);
        let wanted = tables.into_iter().filter(|table| self.reads.contains(&table.source));
        let found = try_join_all(wanted.map(|table| {
            let pool = Arc::clone(&pool);
            async move {
                let rows = task::blocking(move || {
                    let parts = in_order(&table);
                    let standing = standing(&table, &parts, &pool)?;
                    Ok::<_, TransformError>((table.source, Arc::new(Rows { parts, standing })))
                });
                rows.await.map_err(|fault| TransformError::Internal(fault.to_string()))?
            }
        }));
        Ok(found.await?.into_iter().collect())
    }

    /// The plan over a batch's rows: two columns, id and canonical bytes, sorted by id.
    pub(super) fn bound(&self, sources: &Sources, at: Timestamp) -> DfResult<LogicalPlan> {
        let value = Arc::new(watermark(Some(at.as_microsecond())));
        let plan = self.plan.clone().transform_up_with_subqueries(|node| {
            let node = node.map_expressions(|expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarFunction(mut call) if call.name() == WATERMARK => {
                        call.func = Arc::clone(&value);
                        Ok(Transformed::yes(Expr::ScalarFunction(call)))
                    }
                    other => Ok(Transformed::no(other)),
                })
            })?;
            node.transform_data(|node| with_rows(node, sources))
        })?;
        let plan = plan.data;
        let schema = Arc::clone(plan.schema());
        let columns = schema.columns();
        let named = columns.iter().map(|column| (column.name.clone(), Expr::Column(column.clone()))).collect();
        let id = Expr::Column(columns[self.id].clone());
        let id = match schema.field(self.id).data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => id,
            _ => id_text(id),
        };
        LogicalPlanBuilder::from(plan)
            .project([id.alias(ID), canonical_row(named, Some(self.version)).alias(JSON)])?
            .sort([col(ID).sort(true, true)])?
            .build()
    }
}

fn with_rows(node: LogicalPlan, sources: &Sources) -> DfResult<Transformed<LogicalPlan>> {
    let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = (provider.as_ref() as &dyn Any).downcast_ref::<SourceTable>() else {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    };
    let Some(rows) = sources.get(table.source()) else {
        return datafusion::common::internal_err!("the batch has no table {}", table.source());
    };
    scan.source = provider_as_source(Arc::new(table.with_rows(Arc::clone(rows))));
    Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
}

/// Starts the plan and waits for its first rows, which come when all input has been read.
pub(super) async fn start(
    plan: &LogicalPlan,
    resources: &Resources,
    effort: Effort,
) -> DfResult<SendableRecordBatchStream> {
    let memory = session::memory(resources);
    let state = session::running(resources, &memory, effort)?;
    let plan = state.create_physical_plan(plan).await?;
    let schema = plan.schema();
    let mut batches = execute_stream(plan, state.task_ctx())?;
    let first = batches.next().await.transpose()?;
    let all = stream::iter(first.map(Ok)).chain(batches);
    Ok(Box::pin(datafusion::physical_plan::stream::RecordBatchStreamAdapter::new(schema, all)))
}

/// Sorted rows to blocks; the last row waits for the next batch, which may begin with the same id.
struct Blocks {
    batches: SendableRecordBatchStream,
    pending: Option<Document>,
    done: bool,
}

impl Blocks {
    async fn next(&mut self) -> Result<Option<DocumentBlock>, TransformError> {
        if self.done {
            return Ok(None);
        }
        let mut block = DocumentBlock::default();
        match self.batches.next().await {
            Some(batch) => self.take(&batch.map_err(failed)?, &mut block)?,
            None => {
                self.done = true;
                block.documents.extend(self.pending.take());
            }
        }
        Ok(Some(block))
    }

    fn take(&mut self, batch: &RecordBatch, block: &mut DocumentBlock) -> Result<(), TransformError> {
        let ids = texts(batch.column(0)).map_err(failed)?;
        let ids = ids.as_string_view();
        let rows = batch.column(1).as_binary::<i64>();
        block.documents.reserve(batch.num_rows());
        for row in 0..batch.num_rows() {
            let Some((json, hash)) = rows.value(row).split_last_chunk::<16>() else {
                return Err(TransformError::Internal("a row has no hash".to_owned()));
            };
            let id = if ids.is_null(row) { None } else { Some(ids.value(row)) };
            match id {
                Some(id) if !id.is_empty() && id.len() <= MAX_ID_BYTES => self.offer(id, json, hash, block),
                refused => block.rejected.push(rejected(refused, json)),
            }
        }
        Ok(())
    }

    fn offer(&mut self, id: &str, json: &[u8], hash: &DocumentHash, block: &mut DocumentBlock) {
        let document = || Document { id: id.into(), json: json.into(), hash: *hash };
        match &mut self.pending {
            Some(pending) if *pending.id == *id => {
                block.duplicate_ids += 1;
                if json > &*pending.json {
                    *pending = document();
                }
            }
            pending => block.documents.extend(pending.replace(document())),
        }
    }
}

fn rejected(id: Option<&str>, json: &[u8]) -> RejectedRow {
    let reason = match id {
        None => format!("the id is null in {}", beginning(&String::from_utf8_lossy(json))),
        Some("") => format!("the id is empty in {}", beginning(&String::from_utf8_lossy(json))),
        Some(id) => format!("the id {} has {} bytes, more than {MAX_ID_BYTES}", beginning(id), id.len()),
    };
    RejectedRow { source: None, path: "".into(), row: 0, reason }
}

fn beginning(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

fn failed(error: DataFusionError) -> TransformError {
    let root = error.find_root();
    let text = root.strip_backtrace();
    match root {
        DataFusionError::ResourcesExhausted(message) => TransformError::Memory(message.clone()),
        DataFusionError::IoError(_) => on_disk(&text),
        // What a spill meets comes wrapped as an error of its columns.
        DataFusionError::ArrowError(inner, _) if matches!(**inner, ArrowError::IoError(..)) => on_disk(&text),
        DataFusionError::External(inner) => match inner.downcast_ref::<TableError>() {
            Some(TableError::Disk { path, reason }) => {
                TransformError::Table(TableError::Disk { path: Arc::clone(path), reason: reason.clone() })
            }
            None => TransformError::Sql(text),
        },
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => TransformError::Sql(text),
        _ => TransformError::Internal(text),
    }
}

fn on_disk(text: &str) -> TransformError {
    TransformError::Disk(format!("{}: {text} (TMPDIR names another folder)", std::env::temp_dir().display()))
}

/// The optimised plan over no rows, as text.
#[cfg(test)]
pub fn optimised(compiled: &Compiled) -> String {
    let sources =
        compiled.reads.iter().map(|source| (source.clone(), Arc::new(Rows { parts: Vec::new(), standing: None })));
    let plan = compiled.bound(&sources.collect(), Timestamp::UNIX_EPOCH).unwrap();
    session::planning().optimize(&plan).unwrap().display_indent().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spill_that_finds_no_room_is_the_disks_fault_and_not_the_sqls() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let wrapped = ArrowError::IoError("no room".into(), full());
        for error in [DataFusionError::IoError(full()), DataFusionError::ArrowError(Box::new(wrapped), None)] {
            let error = failed(error);
            assert!(matches!(&error, TransformError::Disk(why) if why.contains("TMPDIR")), "{error}");
        }
    }
}
