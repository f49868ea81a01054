//! The SQL, checked and planned once: every problem at once, each with its place in the text where it is known.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use futures::FutureExt;
use highwater_core::SourceName;

use super::canonical::check_type;
use super::determinism;
use super::fields::fields;
use super::functions::{WATERMARK, watermark};
use super::lineage::origin;
use super::provider::{FILE, PARTITION, PLACE, SourceTable};
use super::session;
use super::statement::{Prepared, locate, parse};
use crate::config::{FieldHint, TableKind};
use crate::index::Field;

/// The document SQL and what it stands on.
#[derive(Clone, Debug)]
pub struct SqlSpec {
    /// Its text: one SELECT.
    pub sql: String,
    /// The column that is the document's id.
    pub id: String,
    /// Goes into every document's hash: another version writes every document anew.
    pub version: u32,
    /// The sources: name, columns, and what rows mean.
    pub tables: Vec<(SourceName, SchemaRef, TableKind)>,
    /// `[document.fields]`.
    pub hints: BTreeMap<String, FieldHint>,
}

/// Something wrong with the SQL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlProblem {
    /// One sentence, without a final stop.
    pub message: String,
    /// Line in the SQL, from 1, where known.
    pub line: Option<u64>,
    /// Column in that line, from 1.
    pub column: Option<u64>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl SqlProblem {
    /// A problem without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: None, column: None, hint: None }
    }

    pub(super) fn at(mut self, place: Option<(u64, u64)>) -> Self {
        self.line = place.map(|(line, _)| line);
        self.column = place.map(|(_, column)| column);
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The document SQL, checked and ready to run any number of times.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The documents' fields, in the SQL's order.
    pub fields: Vec<Field>,
    /// Whether the result depends on the watermark itself.
    pub reads_watermark: bool,
    /// The source column whose values are the documents' ids, unchanged; `None` if the SQL computes them.
    pub id_origin: Option<(SourceName, String)>,
    /// The sources that the SQL reads.
    pub reads: BTreeSet<SourceName>,
    pub(super) version: u32,
    /// Analysed and made deterministic; its scans have no rows.
    pub(super) plan: LogicalPlan,
    /// Place of the id among the plan's columns.
    pub(super) id: usize,
}

/// Checks the SQL and plans it; or says everything that is wrong with it.
pub fn compile(spec: &SqlSpec) -> Result<Compiled, Vec<SqlProblem>> {
    let prepared = parse(&spec.sql)?;
    fitting_tables(spec)?;
    let state = session::planning();
    known_tables(spec, &state, &prepared)?;
    let planned = plan(spec, state, &prepared).map_err(|error| vec![problem(&spec.sql, &error)])?;
    let mut problems = functions(spec, &planned);
    problems.extend(limits(spec, &planned));
    problems.extend(output(spec, &planned));
    let (plan, refused) = match determinism::rewrite(planned.clone()) {
        Ok(rewritten) => rewritten,
        Err(error) => {
            problems.push(problem(&spec.sql, &error));
            return Err(problems);
        }
    };
    let refused = refused.into_iter().map(|r| SqlProblem::new(r.message).at(locate(&spec.sql, &r.name)));
    problems.extend(refused);
    let id = planned.schema().fields().iter().position(|field| *field.name() == spec.id);
    let Some(id) = id.filter(|_| problems.is_empty()) else { return Err(problems) };
    let compiled = Compiled {
        fields: fields(planned.schema().as_arrow(), &spec.hints),
        reads_watermark: prepared.reads_watermark,
        id_origin: origin(&planned, id),
        reads: sources(&planned),
        version: spec.version,
        plan,
        id,
    };
    compiled.try_out().map_err(|error| vec![problem(&spec.sql, &error)])?;
    Ok(compiled)
}

/// No column may have a name that is taken, and an `upsert` table must have the columns that say which row stands.
fn fitting_tables(spec: &SqlSpec) -> Result<(), Vec<SqlProblem>> {
    let mut problems = Vec::new();
    for (source, schema, kind) in &spec.tables {
        for name in [PARTITION, FILE, PLACE] {
            if schema.index_of(name).is_ok() {
                problems.push(SqlProblem::new(format!("{source} has a column {name}, and that name is taken")));
            }
        }
        for (name, part) in deciding_columns(kind) {
            match schema.field_with_name(name) {
                Err(_) => problems.push(SqlProblem::new(format!("{source} has no column {name}, which is its {part}"))),
                Ok(field) if part == "deleted" && field.data_type() != &DataType::Boolean => {
                    let message = format!("{source}.{name} says which rows are deleted, and is not of type bool");
                    problems.push(SqlProblem::new(message));
                }
                Ok(_) => {}
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Each column of the key, the version, and the deleted column with what it is to be.
fn deciding_columns(kind: &TableKind) -> Vec<(&str, &'static str)> {
    let TableKind::Upsert { key, version, deleted, .. } = kind else { return Vec::new() };
    let mut columns: Vec<(&str, &str)> = key.iter().map(|name| (name.as_str(), "key")).collect();
    columns.extend(version.as_deref().map(|name| (name, "version")));
    columns.extend(deleted.as_deref().map(|name| (name, "deleted")));
    columns
}

fn known_tables(spec: &SqlSpec, state: &SessionState, prepared: &Prepared) -> Result<(), Vec<SqlProblem>> {
    let statement = DfStatement::Statement(Box::new(prepared.statement.clone()));
    let named = state.resolve_table_references(&statement).map_err(|error| vec![problem(&spec.sql, &error)])?;
    let names: Vec<&str> = spec.tables.iter().map(|(source, ..)| source.as_str()).collect();
    let mut problems = Vec::new();
    for reference in named {
        let name = reference.table();
        let bare = matches!(reference, TableReference::Bare { .. });
        if bare && names.contains(&name) || state.table_functions().contains_key(name) {
            continue;
        }
        let message = format!("there is no source {reference}; the sources are {}", names.join(", "));
        let mut problem = SqlProblem::new(message).at(locate(&spec.sql, name));
        if let Some(near) = nearest(name, &names) {
            problem = problem.hint(format!("did you mean {near}?"));
        }
        problems.push(problem);
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The name that is the fewest edits away, if few.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let (distance, near) = names
        .iter()
        .map(|other| (datafusion::common::utils::datafusion_strsim::levenshtein(name, &other.to_lowercase()), *other))
        .min()?;
    (distance <= 1 + name.len() / 3).then_some(near)
}

/// Plans over tables without rows, and lets DataFusion settle every type.
fn plan(spec: &SqlSpec, state: SessionState, prepared: &Prepared) -> Result<LogicalPlan, DataFusionError> {
    let context = SessionContext::new_with_state(state);
    context.register_udf(watermark(None));
    for (source, schema, _) in &spec.tables {
        let table = SourceTable::new(source.clone(), Arc::clone(schema), prepared.partition, prepared.file);
        context.register_table(TableReference::bare(source.as_str()), Arc::new(table))?;
    }
    let state = context.state();
    let statement = DfStatement::Statement(Box::new(prepared.statement.clone()));
    let Some(plan) = state.statement_to_plan(statement).now_or_never() else {
        return datafusion::common::internal_err!("planning waits, though every table is at hand");
    };
    state.analyzer().execute_and_check(plan?, state.config_options(), |_, _| {})
}

/// Functions whose value is not told by their arguments alone.
fn functions(spec: &SqlSpec, plan: &LogicalPlan) -> Vec<SqlProblem> {
    let mut found = BTreeSet::new();
    each_expression(plan, &mut |expr| {
        if let Expr::ScalarFunction(call) = expr
            && call.name() != WATERMARK
            && call.func.signature().volatility != Volatility::Immutable
        {
            found.insert(call.name().to_owned());
        }
    });
    let refuse = |name: String| {
        let written = [name.as_str(), "current_timestamp", "current_date", "today", "current_time", "localtimestamp"];
        let place = written.iter().find_map(|name| locate(&spec.sql, name));
        SqlProblem::new(format!("{name}() is not allowed: it gives something else in every batch"))
            .at(place)
            .hint(format!("for the time of the batch write {WATERMARK}"))
    };
    found.into_iter().map(refuse).collect()
}

/// A LIMIT takes the first rows, so that there must be an order.
fn limits(spec: &SqlSpec, plan: &LogicalPlan) -> Vec<SqlProblem> {
    let mut unordered = 0;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node
            && !ordered(&limit.input)
        {
            unordered += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if visited.is_ok() && unordered == 0 {
        return Vec::new();
    }
    let place = ["limit", "fetch", "offset"].into_iter().find_map(|word| locate(&spec.sql, word));
    vec![
        SqlProblem::new("LIMIT and OFFSET need an ORDER BY: without one any rows may be taken")
            .at(place)
            .hint("add an ORDER BY to the same SELECT"),
    ]
}

fn ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => ordered(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => ordered(&alias.input),
        LogicalPlan::Limit(limit) => ordered(&limit.input),
        _ => false,
    }
}

/// The columns of the result: named once, of types that JSON can hold, with the id among them.
fn output(spec: &SqlSpec, plan: &LogicalPlan) -> Vec<SqlProblem> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for field in plan.schema().fields() {
        let name = field.name();
        if !seen.insert(name.as_str()) {
            let message = format!("two columns are named {name}; each column of a document needs a name of its own");
            problems.push(SqlProblem::new(message).at(locate(&spec.sql, name)).hint("rename one with AS"));
        }
        if let Err(kind) = check_type(field.data_type()) {
            let message = format!("the column {name} is of type {kind}, which JSON cannot hold");
            problems.push(SqlProblem::new(message).at(locate(&spec.sql, name)).hint("cast it to a number or text"));
        }
    }
    let names: Vec<&str> = plan.schema().fields().iter().map(|field| field.name().as_str()).collect();
    match plan.schema().fields().iter().find(|field| *field.name() == spec.id) {
        None => {
            let message = format!("the SQL yields no column {}, which is to be the id", spec.id);
            let problem = SqlProblem::new(message);
            problems.push(match nearest(&spec.id, &names) {
                Some(near) => problem.hint(format!("did you mean {near}? It yields {}", names.join(", "))),
                None => problem.hint(format!("it yields {}", names.join(", "))),
            });
        }
        Some(field) if field.data_type().is_nested() => {
            let message = format!("the id column {} is of type {}, which has no text", spec.id, field.data_type());
            problems.push(SqlProblem::new(message).at(locate(&spec.sql, &spec.id)));
        }
        Some(_) => {}
    }
    for name in spec.hints.keys().filter(|name| !names.contains(&name.as_str())) {
        problems.push(SqlProblem::new(format!("document.fields names {name}, which the SQL does not yield")));
    }
    problems
}

fn sources(plan: &LogicalPlan) -> BTreeSet<SourceName> {
    let mut found = BTreeSet::new();
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = (source_as_provider(&scan.source)?.as_ref() as &dyn Any).downcast_ref::<SourceTable>()
        {
            found.insert(table.source().clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    assert!(visited.is_ok(), "every scan is of a table that was registered");
    found
}

fn each_expression(plan: &LogicalPlan, visit: &mut dyn FnMut(&Expr)) {
    let visited = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                visit(expr);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    assert!(visited.is_ok(), "a visit that never fails");
}

/// What DataFusion said, as one sentence.
fn problem(sql: &str, error: &DataFusionError) -> SqlProblem {
    let place = |span: &datafusion::common::Span| (span.start.line, span.start.column);
    let told = error.diagnostic();
    let place = told.and_then(|told| told.span.as_ref()).map(place);
    let text = error.find_root().strip_backtrace();
    let mut message = text.as_str();
    let kinds = ["Error during planning: ", "Schema error: ", "This feature is not implemented: ", "SQL error: "];
    while let Some(rest) = kinds.iter().find_map(|kind| message.strip_prefix(kind)) {
        message = rest;
    }
    let message = message.lines().next().unwrap_or_default().trim_end_matches('.');
    if message.contains("does not support logical expression") {
        let message = "a subquery that looks at the row around it cannot be run in this form";
        return SqlProblem::new(message).hint("write it as a join with a grouped subquery");
    }
    if let Some(named_twice) = named_twice(message) {
        let message = format!("two columns are named {named_twice}");
        return SqlProblem::new(message).at(locate(sql, named_twice)).hint("rename one with AS");
    }
    let (message, hint) = match message.split_once(". ") {
        Some((message, hint)) => (message, Some(hint.trim_end_matches('.').to_owned())),
        None => (message, None),
    };
    let quoted = message.split('\'').nth(1).and_then(|name| name.rsplit('.').next());
    let mut problem = SqlProblem::new(message).at(place.or_else(|| locate(sql, quoted?)));
    problem.hint = hint;
    problem
}

/// The name in DataFusion's several complaints about two equal ones.
fn named_twice(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("Schema contains ")?;
    let name = rest.trim_end_matches(" which would be ambiguous").rsplit(' ').next()?;
    name.rsplit('.').next().map(|name| name.trim_matches('"'))
}

#[cfg(test)]
mod tests;
