//! What operators ordered: which orders a tick looks for, what they mean for its plan, and when they are done.

use jiff::Timestamp;

use super::Driver;
use crate::file::SourceName;
use crate::listing::SourceLister;
use crate::log::PipelineState;
use crate::plan::{Plan, fillable};
use crate::ports::{Order, Orders};
use crate::receipt::Quarantined;

/// What an order to fill holes reads with one batch: a budget of its own, so that a long hole does not become one batch.
const ORDERED_BYTES: u64 = 1 << 30;

impl Driver {
    /// True while an order could matter, as far as the log tells: something is withheld or in quarantine, or a hole could
    /// be filled.
    pub(super) fn has_use_for_orders(&self) -> bool {
        let mut known = self.state().sources.values();
        known.any(|source| !(source.withheld.paths.is_empty() && source.quarantined.is_empty()))
            || self
                .listers
                .values()
                .map(SourceLister::policy)
                .any(|policy| policy.keeps_rows() && fillable(&policy.name, &self.state().holes).next().is_some())
    }

    /// The orders that this tick can carry out. Removals wait while a look at their source has failed: what was
    /// withheld may have returned where nobody could see it.
    pub(super) async fn waiting_orders(&self, orders: &dyn Orders) -> Vec<Order> {
        let mut waiting = match orders.waiting().await {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!(%error, "cannot look for orders; the next tick looks again");
                return Vec::new();
            }
        };
        waiting.retain(|order| match order {
            Order::AcceptRemovals { source, .. } | Order::Backfill { source } => !self
                .listers
                .iter()
                .any(|(name, lister)| is_meant(source.as_ref(), name) && lister.view().failures().next().is_some()),
            Order::Retry { .. } => true,
            // Whoever attends to the generations finds these by itself.
            Order::Rebuild { .. } | Order::Promote { .. } | Order::Rollback { .. } | Order::Drop { .. } => false,
        });
        waiting
    }
}

/// Removals of the source that are withheld since then or longer are accepted.
pub(super) fn accepted(orders: &[Order], name: &SourceName) -> Option<Timestamp> {
    let until = |order: &Order| match order {
        Order::AcceptRemovals { source, at } => is_meant(source.as_ref(), name).then_some(*at),
        _ => None,
    };
    orders.iter().filter_map(until).max()
}

/// How many bytes of files in holes an operator asks for with each batch.
pub(super) fn backfill(orders: &[Order], name: &SourceName) -> Option<u64> {
    let asks = |order: &Order| matches!(order, Order::Backfill { source } if is_meant(source.as_ref(), name));
    orders.iter().any(asks).then_some(ORDERED_BYTES)
}

/// Makes versions in quarantine due, as if they had never been tried; but not those that this tick has tried already.
pub(super) fn retry(orders: &[Order], tried: &[Quarantined], state: &mut PipelineState) {
    for order in orders {
        let Order::Retry { source, path } = order else { continue };
        for (name, known) in &mut state.sources {
            if !is_meant(source.as_ref(), name) {
                continue;
            }
            for (at, entry) in &mut known.quarantined {
                let is_tried = tried.iter().any(|tried| tried.source == *name && tried.version.path == *at);
                if path.as_ref().is_none_or(|path| path == at) && !is_tried {
                    entry.attempts = 0;
                }
            }
        }
    }
}

/// The orders that a plan leaves nothing of to do. Holes are filled a piece a batch: the order for it stands until all is.
pub(super) fn done_with(orders: Option<Vec<Order>>, plan: &Plan) -> Vec<Order> {
    let mut done = orders.unwrap_or_default();
    let unfilled = |source: Option<&SourceName>| {
        plan.sources.iter().any(|(name, planned)| planned.unfilled && is_meant(source, name))
    };
    done.retain(|order| !matches!(order, Order::Backfill { source } if unfilled(source.as_ref())));
    done
}

/// What the orders asked for stands in the log.
pub(super) async fn carried_out(orders: &dyn Orders, done: Vec<Order>) {
    if done.is_empty() {
        return;
    }
    if let Err(error) = orders.done(&done).await {
        tracing::warn!(%error, "orders that were carried out could not be deleted; they do no harm");
    }
}

fn is_meant(source: Option<&SourceName>, name: &SourceName) -> bool {
    source.is_none_or(|source| source == name)
}
