//! Rewrites an analysed plan so that its rows depend on nothing but the tables' rows: ties in every ordering end in the
//! row's place (over one source) or in its canonical bytes (elsewhere), float sums become exact, and counts beside
//! distinct counts become sums. Names and types of every node's columns stay. Knows nothing of documents.

mod aggregates;
mod windows;

use std::sync::Arc;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::logical_plan::builder::LogicalPlanBuilder;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, Filter, LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias, TableScan,
};

use super::functions::canonical_row;
use super::provider::{PLACE, SourceTable};

/// Something that cannot be made independent of the order of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The function or clause, as the SQL names it.
    pub name: String,
    /// Why, and what to do instead.
    pub message: String,
}

/// The plan, rewritten; or everything in it that is refused.
pub fn rewrite(plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Refusal>)> {
    let mut rewriter = Rewriter { refused: Vec::new() };
    let plan = rewriter.plain(plan)?;
    Ok((plan, rewriter.refused))
}

struct Rewriter {
    refused: Vec<Refusal>,
}

/// A plan whose rows may carry their place in one more column, the last.
struct Placed {
    plan: LogicalPlan,
    place: Option<Column>,
}

impl Rewriter {
    /// Rewrites a plan of which only its own columns are wanted.
    fn plain(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Ok(self.node(plan, false, false)?.plan)
    }

    /// Rewrites a plan; with `want`, its rows carry their place where they come from one source. `limited`: a LIMIT
    /// above takes the first rows. Without `want` there is no place column.
    fn node(&mut self, plan: LogicalPlan, want: bool, limited: bool) -> Result<Placed> {
        let plan = self.subqueries(plan)?;
        match plan {
            LogicalPlan::TableScan(scan) => scan_with_place(scan, want),
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.node(Arc::unwrap_or_clone(alias.input), want, limited)?;
                let place = input.place.map(|_| Column::new(Some(alias.alias.clone()), PLACE));
                let plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input.plan), alias.alias)?);
                Ok(Placed { plan, place })
            }
            LogicalPlan::Projection(projection) => {
                let input = self.node(Arc::unwrap_or_clone(projection.input), want, limited)?;
                let mut columns = projection.expr;
                columns.extend(input.place.clone().map(Expr::Column));
                let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input.plan))?);
                Ok(Placed { plan, place: input.place })
            }
            LogicalPlan::Filter(filter) => {
                let input = self.node(Arc::unwrap_or_clone(filter.input), want, false)?;
                let plan = LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input.plan))?);
                Ok(Placed { plan, place: input.place })
            }
            LogicalPlan::Limit(mut limit) => {
                let input = self.node(Arc::unwrap_or_clone(limit.input), want, true)?;
                limit.input = Arc::new(input.plan);
                Ok(Placed { plan: LogicalPlan::Limit(limit), place: input.place })
            }
            LogicalPlan::Sort(sort) => self.sort(sort, want, limited),
            LogicalPlan::Window(window) => self.window(window, want),
            LogicalPlan::Aggregate(aggregate) => Ok(unplaced(self.aggregate(aggregate)?)),
            LogicalPlan::Distinct(Distinct::On(distinct)) => Ok(unplaced(self.distinct_on(distinct)?)),
            other => {
                let other = other.map_children(|child| Ok(Transformed::yes(self.plain(child)?)))?;
                Ok(unplaced(other.data.recompute_schema()?))
            }
        }
    }

    fn subqueries(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Ok(plan.map_subqueries(|subquery| Ok(Transformed::yes(self.plain(subquery)?)))?.data)
    }

    /// An ordering matters to a LIMIT only; any other is dropped.
    fn sort(&mut self, sort: Sort, want: bool, limited: bool) -> Result<Placed> {
        let input = Arc::unwrap_or_clone(sort.input);
        if !limited && sort.fetch.is_none() {
            return self.node(input, want, false);
        }
        let schema = Arc::clone(input.schema());
        let input = self.node(input, true, false)?;
        let mut keys = sort.expr;
        keys.push(tie_break(&input, &schema, keys.last()));
        let place = input.place.clone();
        let plan = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(input.plan), fetch: sort.fetch });
        if want { Ok(Placed { plan, place }) } else { Ok(unplaced(only(plan, &schema)?)) }
    }

    /// `DISTINCT ON` takes the first row of each group.
    fn distinct_on(&mut self, distinct: DistinctOn) -> Result<LogicalPlan> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = distinct;
        let schema = Arc::clone(input.schema());
        let input = self.node(Arc::unwrap_or_clone(input), true, false)?;
        let mut keys = sort_expr.unwrap_or_else(|| on_expr.iter().map(|on| on.clone().sort(true, false)).collect());
        keys.push(tie_break(&input, &schema, keys.last()));
        let distinct = DistinctOn::try_new(on_expr, select_expr, Some(keys), Arc::new(input.plan))?;
        Ok(LogicalPlan::Distinct(Distinct::On(distinct)))
    }

    fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.refused.push(Refusal { name: name.to_owned(), message: message.into() });
    }
}

fn unplaced(plan: LogicalPlan) -> Placed {
    Placed { plan, place: None }
}

fn scan_with_place(scan: TableScan, want: bool) -> Result<Placed> {
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<SourceTable>() else {
        return Ok(unplaced(LogicalPlan::TableScan(scan)));
    };
    if !want {
        return Ok(unplaced(LogicalPlan::TableScan(scan)));
    }
    let place = Column::new(Some(scan.table_name.clone()), PLACE);
    let source = provider_as_source(Arc::new(table.with_place()));
    let plan = LogicalPlanBuilder::scan(scan.table_name, source, None)?.build()?;
    Ok(Placed { plan, place: Some(place) })
}

/// The last sort key of an ordering over `input`, whose own columns are `schema`: in the direction of the key before it.
fn tie_break(input: &Placed, schema: &DFSchema, last: Option<&SortExpr>) -> SortExpr {
    let ascending = last.is_none_or(|key| key.asc);
    let key = match &input.place {
        Some(place) => Expr::Column(place.clone()),
        None => canonical_row(named_columns(schema), None),
    };
    key.sort(ascending, !ascending)
}

/// Columns by a name that no other has.
fn named_columns(schema: &DFSchema) -> Vec<(String, Expr)> {
    let columns = schema.columns();
    let alone = |name: &str| columns.iter().filter(|column| column.name == name).count() == 1;
    let named = columns.iter().map(|column| {
        let name = if alone(&column.name) { column.name.clone() } else { column.flat_name() };
        (name, Expr::Column(column.clone()))
    });
    named.collect()
}

/// The columns of `schema` alone, by their own names.
fn only(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unalias(&alias.expr),
        other => other,
    }
}
