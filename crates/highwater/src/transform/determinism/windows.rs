//! Window functions: those that look at single rows get a full order, those that look at peers keep theirs.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::logical_plan::builder::LogicalPlanBuilder;
use datafusion::logical_expr::{
    Expr, LogicalPlan, Projection, Window, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};

use super::{Placed, Rewriter, tie_break, unalias};

/// What a window function makes of the rows that its ordering leaves equal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    /// They are treated alike (`rank`, sums over RANGE frames): the ordering must stay.
    Peers,
    /// They are told apart, whatever the frame: `row_number`, `lag`.
    Rows,
    /// They are told apart within the frame.
    Frame,
    /// They are told apart, and the frame ends among them.
    Refused,
}

impl Rewriter {
    pub(super) fn window(&mut self, window: Window, want: bool) -> Result<Placed> {
        let Window { input, window_expr, schema, .. } = window;
        let own = Arc::clone(input.schema());
        let mut calls = Vec::with_capacity(window_expr.len());
        for expr in &window_expr {
            let Expr::WindowFunction(call) = unalias(expr) else {
                return datafusion::common::internal_err!("a window expression is no function call");
            };
            calls.push((**call).clone());
        }
        let placed = calls.iter().any(|call| ties(call) != Ties::Peers);
        let input = self.node(Arc::unwrap_or_clone(input), want || placed, false)?;
        let mut written = Vec::with_capacity(calls.len());
        for call in calls {
            written.push(self.window_call(call, &input, &own)?);
        }
        // Functions whose orderings now differ can no longer stand in one node.
        let mut unique: Vec<Expr> = Vec::new();
        for call in &written {
            if !unique.contains(call) {
                unique.push(call.clone());
            }
        }
        let place = input.place.clone().filter(|_| want);
        let plan = LogicalPlanBuilder::window_plan(input.plan, unique)?;
        let mut columns: Vec<Expr> = own.columns().into_iter().map(Expr::Column).collect();
        for (n, call) in written.iter().enumerate() {
            let name = call.schema_name().to_string();
            let before = schema.field(own.fields().len() + n).name();
            columns.push(Expr::Column(datafusion::common::Column::new_unqualified(name)).alias(before));
        }
        columns.extend(place.clone().map(Expr::Column));
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        Ok(Placed { plan, place })
    }

    fn window_call(&mut self, call: WindowFunction, input: &Placed, own: &DFSchema) -> Result<Expr> {
        let ties = ties(&call);
        let WindowFunction { fun, mut params } = call;
        let fun = match fun {
            WindowFunctionDefinition::AggregateUDF(func) => {
                WindowFunctionDefinition::AggregateUDF(self.exact(func, &params.args, own)?)
            }
            other => other,
        };
        match ties {
            Ties::Peers => {}
            Ties::Rows => {
                params.window_frame = WindowFrame::new(Some(true));
                params.order_by.push(tie_break(input, own, params.order_by.last()));
            }
            Ties::Frame => {
                params.window_frame = by_rows(fun.name(), &params.window_frame);
                params.order_by.push(tie_break(input, own, params.order_by.last()));
            }
            Ties::Refused => {
                let message = format!(
                    "{} over a frame that ends among equal rows is not allowed: its result depends on the order of \
                     rows; state a frame with ROWS BETWEEN",
                    fun.name()
                );
                self.refuse(fun.name(), message);
            }
        }
        Ok(Expr::WindowFunction(Box::new(WindowFunction { fun, params })))
    }
}

fn ties(call: &WindowFunction) -> Ties {
    let WindowFunctionParams { window_frame: frame, .. } = &call.params;
    match call.fun.name() {
        "rank" | "dense_rank" | "percent_rank" | "cume_dist" => Ties::Peers,
        "row_number" | "ntile" | "lag" | "lead" => Ties::Rows,
        "first_value" if frame.units == WindowFrameUnits::Rows || starts_open(frame) => Ties::Frame,
        "last_value" if frame.units == WindowFrameUnits::Rows || ends_open(frame) => Ties::Frame,
        "first_value" | "last_value" | "nth_value" | "array_agg" | "string_agg" => {
            let whole = starts_open(frame) && ends_open(frame);
            if frame.units == WindowFrameUnits::Rows || whole { Ties::Frame } else { Ties::Refused }
        }
        // Other aggregates see a set of rows; only a frame counted in rows cuts it among equal ones.
        _ if frame.units == WindowFrameUnits::Rows && !(starts_open(frame) && ends_open(frame)) => Ties::Frame,
        _ => Ties::Peers,
    }
}

/// The frame counted in rows, where the function cannot tell the difference.
fn by_rows(name: &str, frame: &WindowFrame) -> WindowFrame {
    if frame.units == WindowFrameUnits::Rows {
        return frame.clone();
    }
    let open = || ScalarValue::UInt64(None);
    let (start, end) = match name {
        "first_value" => (WindowFrameBound::Preceding(open()), WindowFrameBound::CurrentRow),
        "last_value" => (WindowFrameBound::CurrentRow, WindowFrameBound::Following(open())),
        _ => (WindowFrameBound::Preceding(open()), WindowFrameBound::Following(open())),
    };
    WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end)
}

fn starts_open(frame: &WindowFrame) -> bool {
    matches!(&frame.start_bound, WindowFrameBound::Preceding(value) if value.is_null())
}

fn ends_open(frame: &WindowFrame) -> bool {
    matches!(&frame.end_bound, WindowFrameBound::Following(value) if value.is_null())
}
