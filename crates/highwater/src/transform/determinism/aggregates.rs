//! Aggregates: float sums made exact, collecting functions given a full order, counts beside distinct counts as sums.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, NullTreatment};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, Projection, cast, lit, when,
};

use super::{Placed, Rewriter, tie_break, unalias};
use crate::transform::exact_aggregate::Exact;

/// Aggregates whose result is made of rows in their order.
const COLLECTING: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];

/// Aggregates that round as they go, or keep a sketch that depends on the order; exact twins are not at hand.
const ORDER_DEPENDENT: [&str; 26] = [
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "var",
    "var_samp",
    "var_sample",
    "var_pop",
    "var_population",
    "corr",
    "covar",
    "covar_samp",
    "covar_pop",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "approx_median",
    "percentile_cont_approx",
    "kurtosis_pop",
    "skewness",
];

impl Rewriter {
    pub(super) fn aggregate(&mut self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
        let own = Arc::clone(input.schema());
        let calls: Vec<AggregateFunction> = aggr_expr.iter().filter_map(|expr| call(expr).cloned()).collect();
        if calls.len() != aggr_expr.len() {
            return datafusion::common::internal_err!("an aggregate is no function call");
        }
        let placed = calls.iter().any(|call| COLLECTING.contains(&call.func.name()) && !call.params.distinct);
        let input = self.node(Arc::unwrap_or_clone(input), placed, false)?;
        let distinct = calls.iter().any(|call| call.params.distinct);
        let mut written: Vec<Expr> = Vec::new();
        let mut results: Vec<(usize, bool)> = Vec::new();
        for call in calls {
            let counted = distinct && call.func.name() == "count" && !call.params.distinct;
            let call = Expr::AggregateFunction(match counted {
                true => count_as_sum(call)?,
                false => self.call(call, &input, &own)?,
            });
            // Two calls may have become the same one.
            let at = written.iter().position(|other| *other == call).unwrap_or_else(|| {
                written.push(call);
                written.len() - 1
            });
            results.push((at, counted));
        }
        let plan = Aggregate::try_new(Arc::new(input.plan), group_expr, written)?;
        named_as_before(plan, &schema, &results)
    }

    /// One call, made independent of the order of its rows.
    fn call(&mut self, call: AggregateFunction, input: &Placed, own: &DFSchema) -> Result<AggregateFunction> {
        let AggregateFunction { func, mut params } = call;
        let func = self.exact(func, &params.args, own)?;
        if COLLECTING.contains(&func.name()) {
            if params.distinct {
                if params.order_by.is_empty() {
                    params.order_by = params.args.iter().take(1).map(|arg| arg.clone().sort(true, false)).collect();
                }
            } else {
                params.order_by.push(tie_break(input, own, params.order_by.last()));
            }
        }
        Ok(AggregateFunction { func, params })
    }

    /// The function to call instead: an exact one for sums of floats. Refuses what has none.
    pub(super) fn exact(
        &mut self,
        func: Arc<AggregateUDF>,
        args: &[Expr],
        schema: &DFSchema,
    ) -> Result<Arc<AggregateUDF>> {
        let name = func.name().to_owned();
        if ORDER_DEPENDENT.contains(&name.as_str()) {
            self.refuse(&name, format!("{name} is not allowed: its result depends on the order of rows"));
            return Ok(func);
        }
        let kind = match name.as_str() {
            "sum" => Exact::Sum,
            "avg" => Exact::Avg,
            _ => return Ok(func),
        };
        let Some(arg) = args.first() else { return Ok(func) };
        if !arg.get_type(schema)?.is_floating() {
            return Ok(func);
        }
        Ok(kind.aggregate())
    }
}

fn call(expr: &Expr) -> Option<&AggregateFunction> {
    match unalias(expr) {
        Expr::AggregateFunction(call) => Some(call),
        _ => None,
    }
}

/// `count(*)` and `count(x)` as sums: beside a distinct count DataFusion then groups twice instead of keeping a set of
/// values for every group.
fn count_as_sum(call: AggregateFunction) -> Result<AggregateFunction> {
    let AggregateFunctionParams { args, filter, .. } = call.params;
    let counted = args
        .into_iter()
        .filter(|arg| !matches!(arg, Expr::Literal(value, _) if !value.is_null()))
        .map(Expr::is_not_null)
        .chain(filter.map(|filter| *filter))
        .reduce(Expr::and);
    let one = lit(ScalarValue::Int64(Some(1)));
    let term = match counted {
        Some(counted) => when(counted, one).otherwise(lit(ScalarValue::Int64(Some(0))))?,
        None => one,
    };
    Ok(AggregateFunction::new_udf(sum_udaf(), vec![term], false, None, Vec::new(), None::<NullTreatment>))
}

/// The aggregate's columns by the names and types that they had before. `results` says where each one is now, and
/// whether it is a count (0 for no rows).
fn named_as_before(plan: Aggregate, before: &DFSchema, results: &[(usize, bool)]) -> Result<LogicalPlan> {
    let groups = before.fields().len() - results.len();
    let columns = plan.schema.columns();
    let mut named: Vec<Expr> = columns[..groups].iter().cloned().map(Expr::Column).collect();
    for (n, &(at, counted)) in results.iter().enumerate() {
        let column: Column = columns[groups + at].clone();
        let kind: &DataType = before.field(groups + n).data_type();
        let mut value = Expr::Column(column);
        if value.get_type(&plan.schema)? != *kind {
            value = cast(value, kind.clone());
        }
        if counted {
            value = coalesce(vec![value, lit(ScalarValue::Int64(Some(0)))]);
        }
        named.push(value.alias(before.field(groups + n).name()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(named, Arc::new(LogicalPlan::Aggregate(plan)))?))
}
