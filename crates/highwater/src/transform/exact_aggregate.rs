//! `sum` and `avg` of floats as aggregates whose result no order of rows can change: they stand in for DataFusion's own.

use std::collections::HashSet;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::exact::ExactSum;

/// What is made of the exact sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exact {
    /// The sum.
    Sum,
    /// The sum, divided by the number of terms.
    Avg,
}

impl Exact {
    /// The aggregate over one column of `Float64`.
    pub fn aggregate(self) -> Arc<AggregateUDF> {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        Arc::new(AggregateUDF::from(ExactAggregate { kind: self, signature }))
    }

    fn finish(self, sum: &ExactSum) -> Option<f64> {
        let total = sum.sum()?;
        Some(match self {
            Self::Sum => total,
            Self::Avg => total / sum.count() as f64,
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactAggregate {
    kind: Exact,
    signature: Signature,
}

impl AggregateUDFImpl for ExactAggregate {
    fn name(&self) -> &str {
        match self.kind {
            Exact::Sum => "exact_sum",
            Exact::Avg => "exact_avg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "exact"), DataType::Binary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Ok(Box::new(Distinct { kind: self.kind, values: HashSet::new() }));
        }
        Ok(Box::new(One { kind: self.kind, sum: ExactSum::default() }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups { kind: self.kind, sums: Vec::new() }))
    }
}

#[derive(Debug)]
struct One {
    kind: Exact,
    sum: ExactSum,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|value| self.sum.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|value| self.sum.retract(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_binary::<i32>().iter().flatten().try_for_each(|state| {
            self.sum.merge(&read(state)?);
            Ok(())
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.kind.finish(&self.sum)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut bytes = Vec::new();
        self.sum.write(&mut bytes);
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// Each value once. Its bits are kept, with one zero and one NaN.
#[derive(Debug)]
struct Distinct {
    kind: Exact,
    values: HashSet<u64>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
            self.values.insert(value.to_bits());
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            let (words, []) = state.as_chunks::<8>() else {
                return exec_err!("the state of a distinct sum is damaged");
            };
            self.values.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = ExactSum::default();
        self.values.iter().for_each(|bits| sum.add(f64::from_bits(*bits)));
        Ok(ScalarValue::Float64(self.kind.finish(&sum)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let bytes = self.values.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<u64>()
    }
}

struct Groups {
    kind: Exact,
    sums: Vec<ExactSum>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize_with(total, ExactSum::default);
        let values = values[0].as_primitive::<Float64Type>();
        for (row, &group) in groups.iter().enumerate() {
            if values.is_valid(row) && passes(filter, row) {
                self.sums[group].add(values.value(row));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.sums.resize_with(total, ExactSum::default);
        let states = states[0].as_binary::<i32>();
        for (row, &group) in groups.iter().enumerate() {
            if states.is_valid(row) {
                self.sums[group].merge(&read(states.value(row))?);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        Ok(Arc::new(sums.iter().map(|sum| self.kind.finish(sum)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        Ok(vec![Arc::new(states(sums.iter()))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Float64Type>();
        let sums: Vec<ExactSum> = (0..values.len())
            .map(|row| {
                let mut sum = ExactSum::default();
                if values.is_valid(row) && passes(filter, row) {
                    sum.add(values.value(row));
                }
                sum
            })
            .collect();
        Ok(vec![Arc::new(states(sums.iter()))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<ExactSum>()
    }
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

fn states<'a>(sums: impl Iterator<Item = &'a ExactSum>) -> BinaryArray {
    let mut out = BinaryBuilder::new();
    let mut bytes = Vec::new();
    for sum in sums {
        bytes.clear();
        sum.write(&mut bytes);
        out.append_value(&bytes);
    }
    out.finish()
}

fn read(state: &[u8]) -> Result<ExactSum> {
    match ExactSum::read(state) {
        Some(sum) => Ok(sum),
        None => exec_err!("the state of an exact sum is damaged"),
    }
}
