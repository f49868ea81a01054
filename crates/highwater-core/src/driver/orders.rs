//! What operators ordered: which orders a tick looks for, what they mean for its plan, and when they are done.

use jiff::Timestamp;

use super::Driver;
use crate::file::SourceName;
use crate::log::PipelineState;
use crate::ports::{Order, Orders};
use crate::receipt::Quarantined;

impl Driver {
    /// True while an order could matter, as far as the log tells: something is withheld or in quarantine.
    pub(super) fn has_use_for_orders(&self) -> bool {
        let mut known = self.state().sources.values();
        known.any(|source| !(source.withheld.paths.is_empty() && source.quarantined.is_empty()))
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
            Order::AcceptRemovals { source, .. } => !self
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

/// What the orders asked for stands in the log.
pub(super) async fn carried_out(orders: &dyn Orders, done: Option<Vec<Order>>) {
    let done = done.unwrap_or_default();
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
