//! Where a column of the SQL comes from: the one source column whose values it passes through unchanged.

use std::any::Any;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::JoinType;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use highwater_core::SourceName;

use super::provider::SourceTable;

/// The source and column that the plan's column at `index` passes through; `None` if it computes anything, or mixes
/// several.
pub fn origin(plan: &LogicalPlan, index: usize) -> Option<(SourceName, String)> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let table = (provider.as_ref() as &dyn Any).downcast_ref::<SourceTable>()?;
            let index = scan.projection.as_ref().map_or(index, |columns| columns[index]);
            let name = scan.source.schema().field(index).name().clone();
            table.is_data(index).then(|| (table.source().clone(), name))
        }
        LogicalPlan::Projection(projection) => through(&projection.expr[index], &projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            let groups = grouping_set_to_exprlist(&aggregate.group_expr).ok()?;
            through(groups.get(index)?, &aggregate.input)
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => through(&distinct.select_expr[index], &distinct.input),
        LogicalPlan::Distinct(Distinct::All(input)) => origin(input, index),
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, index),
        LogicalPlan::Filter(filter) => origin(&filter.input, index),
        LogicalPlan::Sort(sort) => origin(&sort.input, index),
        LogicalPlan::Limit(limit) => origin(&limit.input, index),
        LogicalPlan::Subquery(subquery) => origin(&subquery.subquery, index),
        LogicalPlan::Window(window) if index < window.input.schema().fields().len() => origin(&window.input, index),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => origin(&join.right, index),
                _ if index < left => origin(&join.left, index),
                JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                    origin(&join.right, index - left)
                }
                _ => None,
            }
        }
        LogicalPlan::Union(union) => {
            let mut origins = union.inputs.iter().map(|input| origin(input, index));
            let first = origins.next()??;
            origins.all(|other| other.as_ref() == Some(&first)).then_some(first)
        }
        _ => None,
    }
}

fn through(expr: &Expr, input: &LogicalPlan) -> Option<(SourceName, String)> {
    match expr {
        Expr::Alias(alias) => through(&alias.expr, input),
        Expr::Column(column) => origin(input, input.schema().maybe_index_of_column(column)?),
        _ => None,
    }
}
