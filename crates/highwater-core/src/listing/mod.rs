//! What to look at in a store, when, and what was seen: folder prefixes, a schedule, and the last complete listings.

mod lister;
mod prefix;
mod schedule;
mod snapshots;
mod view;

pub use lister::{Missed, SourceLister};
pub use prefix::{PrefixPlan, PrefixSpan};
pub use schedule::{Item, Schedule, Zone, settled_at};
pub use snapshots::{LISTED, Snapshot, Snapshots};
pub use view::{Ignored, Placed, View};
