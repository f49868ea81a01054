//! One pipeline, put together: opens its rooms from a configuration, and runs the core's driver over them.

mod attend;
mod budget;
mod difference;
mod examine;
mod executor;
mod follow;
mod gates;
mod hold;
mod orders;
mod pipeline;
mod progress;
mod reading;
mod spec;
mod verify;
mod view;
mod wishes;

pub use budget::Budget;
pub use examine::{Examined, Found, Place};
pub use executor::Engine;
pub use gates::GateReport;
pub use hold::Hold;
pub use pipeline::{Access, LookAhead, Pipeline, Reports};
pub use progress::{Audience, Progress, Silent};
pub use spec::{Ready, SpecError};
pub use view::{LiveState, View, batch_report, percentiles};
