//! Time as sources see it: which stretch of time a partition is, and which path renders it. Knows no file and no store.

mod calendar;
mod folder;
mod layout;
mod template;

pub use calendar::{Calendar, CalendarError, Partition};
pub(crate) use layout::finest;
pub use layout::{Layout, LayoutError, Located, Misplaced};
