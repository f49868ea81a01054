//! One pipeline, put together: opens its rooms from a configuration, and runs the core's driver over them.

mod budget;
mod difference;
mod examine;
mod executor;
mod hold;
mod orders;
mod pipeline;
mod progress;
mod reading;
mod spec;
mod verify;
mod view;

pub use budget::Budget;
pub use examine::{Examined, Found, Place};
pub use executor::Engine;
pub use hold::Hold;
pub use pipeline::{Access, LookAhead, Pipeline, Reports};
pub use progress::{Progress, Silent};
pub use spec::{Ready, SpecError};
pub use view::{LiveState, View, batch_report, percentiles};
