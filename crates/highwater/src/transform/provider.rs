//! Tables as DataFusion scans them: data columns, and on request `_partition`, `_file` and a hidden place that orders all
//! rows of a source. Rows are handed out batch by batch, only the columns that are asked for.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringViewBuilder, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use highwater_core::SourceName;

use super::upsert::Standing;
use crate::table::{Part, PartRows};

/// Start of the row's partition; null in a reference source.
pub const PARTITION: &str = "_partition";
/// Path of the row's file.
pub const FILE: &str = "_file";
/// The row's place among all rows of its source, in ascending (partition, path, row).
pub const PLACE: &str = "__place";

/// What a batch gives a source.
#[derive(Debug)]
pub struct Rows {
    /// In ascending (partition, path) order.
    pub parts: Vec<Arc<Part>>,
    /// Which rows stand; all of them if absent.
    pub standing: Option<Standing>,
}

impl Rows {
    fn count(&self) -> usize {
        match &self.standing {
            Some(masks) => masks.iter().map(|mask| mask.count_set_bits()).sum(),
            None => self.parts.iter().map(|part| part.row_count as usize).sum(),
        }
    }
}

/// One source as a table of the SQL: without rows for planning, with them for a batch.
#[derive(Clone, Debug)]
pub struct SourceTable {
    source: SourceName,
    /// Columns of the parts.
    data: SchemaRef,
    columns: Vec<Column>,
    schema: SchemaRef,
    rows: Option<Arc<Rows>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Data(usize),
    Partition,
    File,
    Place,
}

impl Column {
    fn field(self, data: &Schema) -> Arc<Field> {
        match self {
            Self::Data(at) => Arc::clone(&data.fields()[at]),
            Self::Partition => Arc::new(Field::new(PARTITION, instant(), true)),
            Self::File => Arc::new(Field::new(FILE, DataType::Utf8View, false)),
            Self::Place => Arc::new(Field::new(PLACE, DataType::UInt64, false)),
        }
    }
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

impl SourceTable {
    /// A table without rows. `partition` and `file` tell whether the SQL sees these columns.
    pub fn new(source: SourceName, data: SchemaRef, partition: bool, file: bool) -> Self {
        let mut columns: Vec<Column> = (0..data.fields().len()).map(Column::Data).collect();
        if partition {
            columns.push(Column::Partition);
        }
        if file {
            columns.push(Column::File);
        }
        Self::of(source, data, columns, None)
    }

    /// The same table with the hidden place as its last column.
    pub fn with_place(&self) -> Self {
        let mut columns = self.columns.clone();
        columns.push(Column::Place);
        Self::of(self.source.clone(), Arc::clone(&self.data), columns, self.rows.clone())
    }

    /// The same table with rows.
    pub fn with_rows(&self, rows: Arc<Rows>) -> Self {
        Self { rows: Some(rows), ..self.clone() }
    }

    /// Whose table it is.
    pub fn source(&self) -> &SourceName {
        &self.source
    }

    /// True if the column at `index` holds data of the source, rather than where it came from.
    pub fn is_data(&self, index: usize) -> bool {
        matches!(self.columns[index], Column::Data(_))
    }

    fn of(source: SourceName, data: SchemaRef, columns: Vec<Column>, rows: Option<Arc<Rows>>) -> Self {
        let schema = Arc::new(Schema::new(columns.iter().map(|column| column.field(&data)).collect::<Vec<_>>()));
        Self { source, data, columns, schema, rows }
    }
}

#[async_trait]
impl TableProvider for SourceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(rows) = &self.rows else { return internal_err!("{} has no rows yet", self.source) };
        let columns = match projection {
            Some(places) => places.iter().map(|&at| self.columns[at]).collect(),
            None => self.columns.clone(),
        };
        let table = Self::of(self.source.clone(), Arc::clone(&self.data), columns, Some(Arc::clone(rows)));
        Ok(Arc::new(PartsExec::new(table, Arc::clone(rows), state.config().target_partitions())))
    }
}

/// The scan: parts are dealt out to partitions by their rows.
#[derive(Debug)]
struct PartsExec {
    table: SourceTable,
    rows: Arc<Rows>,
    /// For each partition the parts that it reads, as ranges of their batches would be too fine.
    shares: Vec<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl PartsExec {
    fn new(table: SourceTable, rows: Arc<Rows>, partitions: usize) -> Self {
        let shares = shares(&rows.parts, partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&table.schema)),
            Partitioning::UnknownPartitioning(shares.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { table, rows, shares, properties: Arc::new(properties) }
    }
}

/// Runs of neighbouring parts with about the same number of rows each; at least one, which may be empty.
fn shares(parts: &[Arc<Part>], partitions: usize) -> Vec<Vec<usize>> {
    let total: u64 = parts.iter().map(|part| part.row_count).sum();
    let share = total.div_ceil(partitions.max(1) as u64).max(1);
    let mut shares = vec![Vec::new()];
    let mut filled = 0;
    for (at, part) in parts.iter().enumerate() {
        if filled >= share && shares.len() < partitions {
            shares.push(Vec::new());
            filled = 0;
        }
        if let Some(last) = shares.last_mut() {
            last.push(at);
        }
        filled += part.row_count;
    }
    shares
}

impl DisplayAs for PartsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self.table.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "PartsExec: source={}, columns=[{}]", self.table.source, columns.join(", "))
    }
}

impl ExecutionPlan for PartsExec {
    fn name(&self) -> &'static str {
        "PartsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.table.schema);
        if args.partition().is_none() {
            statistics.num_rows = Precision::Exact(self.rows.count());
        }
        Ok(Arc::new(statistics))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = Scan {
            rows: Arc::clone(&self.rows),
            data: Arc::clone(&self.table.data),
            columns: self.table.columns.clone(),
            schema: Arc::clone(&self.table.schema),
        };
        let share = self.shares[partition].clone();
        let on_disk = share.iter().any(|&at| matches!(self.rows.parts[at].rows, PartRows::Disk(_)));
        if !on_disk {
            return Ok(scan.in_memory(share));
        }
        let mut stream = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.table.schema), 2);
        let sender = stream.tx();
        stream.spawn_blocking(move || {
            for part in share {
                for batch in scan.part(part)? {
                    if sender.blocking_send(batch).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        Ok(stream.build())
    }
}

/// Reads parts as batches of the scan's columns.
#[derive(Clone)]
struct Scan {
    rows: Arc<Rows>,
    data: SchemaRef,
    columns: Vec<Column>,
    schema: SchemaRef,
}

impl Scan {
    fn in_memory(self, share: Vec<usize>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let batches = share.into_iter().flat_map(move |part| match self.part(part) {
            Ok(batches) => batches.collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        });
        Box::pin(datafusion::physical_plan::stream::RecordBatchStreamAdapter::new(
            schema,
            futures::stream::iter(batches),
        ))
    }

    fn part(&self, at: usize) -> Result<impl Iterator<Item = Result<RecordBatch>> + '_> {
        let part = &self.rows.parts[at];
        let read: Vec<usize> = self
            .columns
            .iter()
            .filter_map(|column| match column {
                Column::Data(index) => Some(*index),
                _ => None,
            })
            .collect();
        let mut first = 0;
        let batches = part.batches(&self.data, &read).map_err(external)?;
        Ok(batches.filter_map(move |batch| match batch {
            Ok(batch) => {
                let from = first;
                first += batch.num_rows();
                self.standing(at, from, &batch).transpose()
            }
            Err(error) => Some(Err(external(error))),
        }))
    }

    /// The standing rows of one batch; `None` if none of them stands.
    fn standing(&self, part: usize, first: usize, data: &RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = data.num_rows();
        let mask = self.rows.standing.as_ref().map(|masks| masks[part].slice(first, rows));
        let stand = mask.as_ref().map_or(rows, |mask| mask.count_set_bits());
        if stand == 0 {
            return Ok(None);
        }
        let mut data_columns = data.columns().iter();
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            values.push(match column {
                Column::Data(_) => match data_columns.next() {
                    Some(values) => Arc::clone(values),
                    None => return internal_err!("a part lacks a column"),
                },
                Column::Partition => self.partition(part, rows),
                Column::File => file(&self.rows.parts[part], rows)?,
                Column::Place => places(part, first, rows),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options)?;
        match mask {
            Some(mask) if stand < rows => Ok(Some(filter_record_batch(&batch, &BooleanArray::new(mask, None))?)),
            _ => Ok(Some(batch)),
        }
    }

    fn partition(&self, part: usize, rows: usize) -> ArrayRef {
        let start = self.rows.parts[part].partition.map(|start| start.as_microsecond());
        Arc::new(TimestampMicrosecondArray::from(vec![start; rows]).with_timezone("UTC"))
    }
}

fn file(part: &Part, rows: usize) -> Result<ArrayRef> {
    let path = part.version.path.as_bytes();
    let mut values = StringViewBuilder::with_capacity(rows);
    let block = values.append_block(path.to_vec().into());
    for _ in 0..rows {
        values.try_append_view(block, 0, path.len() as u32)?;
    }
    Ok(Arc::new(values.finish()))
}

fn places(part: usize, first: usize, rows: usize) -> ArrayRef {
    let start = ((part as u64) << 32) | first as u64;
    Arc::new(UInt64Array::from_iter_values(start..start + rows as u64))
}

fn external(error: crate::table::TableError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
