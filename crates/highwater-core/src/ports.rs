//! What the core asks of the world: a clock, a store to list, an executor of batches. The log's port stands in [`crate::log`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use thiserror::Error;

use crate::file::{FileVersion, SeenFile, SourceName};
use crate::generation::GenerationName;
use crate::lease::Lease;
use crate::log::Sequence;
use crate::receipt::{Quarantined, Receipt, Requests};

/// What went wrong outside the core, told by what to do about it.
#[derive(Clone, Debug, Error)]
pub enum Fault {
    /// Another writer has the pipeline: stop, touch nothing.
    #[error("fenced: {0}")]
    Fenced(String),
    /// A store, index or network is out of reach: try again later.
    #[error("{0}")]
    Unavailable(String),
    /// The configuration cannot work as it stands: fix it.
    #[error("{0}")]
    Invalid(String),
    /// The lag policy stopped the pipeline: an operator decides.
    #[error("{0}")]
    Halted(String),
    /// The data does not allow a batch: mend it, or wait for better data; `run` tries again.
    #[error("{0}")]
    Data(String),
    /// Our own defect: report it.
    #[error("internal error: {0}")]
    Internal(String),
}

/// The last cause of an error: the outer messages of clients repeat the URL, the retries and how long it all took, which
/// differs each time.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The clock, so that it can be fixed and simulated.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now. May step backwards; the driver copes.
    fn now(&self) -> Timestamp;
    /// Time since some moment of this process. Never steps: leases run by it.
    fn monotonic(&self) -> std::time::Duration;
    /// Waits that long by this clock.
    async fn sleep(&self, length: std::time::Duration);
}

/// Looks at one store. Implementers retry passing faults by themselves and count requests.
#[async_trait]
pub trait Store: Send + Sync {
    /// Every file of the source below `prefix` (relative to its location, `""` or ending in `/`), at any depth, in any
    /// order. Complete or an error, never a part of the truth. Paths are relative to the source's location.
    async fn files(&self, source: &SourceName, prefix: &str) -> Result<Vec<SeenFile>, Fault>;
    /// The names (without `/`) of the folders directly below `prefix`, in any order. Complete or an error.
    async fn folders(&self, source: &SourceName, prefix: &str) -> Result<Vec<String>, Fault>;
    /// Names that the last listings of a source met and cannot give as paths (not UTF-8, links that lead nowhere), with a
    /// word on each.
    fn skipped(&self, source: &SourceName) -> Vec<String>;
    /// Every request made so far, by listings and by whoever reads the files.
    fn requests(&self) -> Requests;
}

/// The file versions of one source that a batch pins, and how they differ from the batch before.
#[derive(Clone, Debug, Default)]
pub struct SourceInput {
    /// Every file version of the table, by path, the changes of this batch included.
    pub live: Arc<BTreeMap<Arc<str>, FileVersion>>,
    /// Versions that this batch brings in, in `live` too.
    pub added: Vec<FileVersion>,
    /// Versions that were in the batch before and are no more: removed, evicted, or replaced by one in `added`.
    pub dropped: Vec<FileVersion>,
    /// End of the newest partition in which data was ever seen; `None` for a reference source.
    pub newest_end: Option<Timestamp>,
    /// Paths in `live` whose pinned version no complete listing shows any more, and which stay all the same: rows that
    /// are not at hand may be had from the store or not, and nothing has moved if they are not there.
    pub withheld: BTreeSet<Arc<str>>,
}

/// One try at one batch.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The number that the batch will have in the log, and its documents in the sink.
    pub sequence: Sequence,
    /// The batch's one reading of the clock.
    pub clock: Timestamp,
    /// The watermark that the batch commits.
    pub watermark: Timestamp,
    /// Inputs by source; every source of the pipeline is here.
    pub sources: BTreeMap<SourceName, SourceInput>,
    /// True when the sink and the log may disagree: trust nothing but the sink's own (id, hash) pairs.
    pub compare_all: bool,
    /// What could not be listed while the sink may hold documents of files that no record pins, as `source: prefix`. Such a
    /// document looks deleted, so that nothing may be changed or deleted where this is not empty.
    pub unseen: Vec<String>,
    /// Recent numbers that are no committed batch: what the sink holds under one of them is to be repaired.
    pub void: Vec<Sequence>,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum Executed {
    /// The sink committed. Files that the receipt names as unreadable were pinned already, and stay pinned.
    Committed(Box<Committed>),
    /// Nothing was written: these of the added files cannot be read. Plan again without them.
    Unreadable(Vec<Quarantined>),
    /// Nothing was written: these files are not what the listing said. List them again, plan again.
    Moved(Vec<(SourceName, Arc<str>)>),
}

/// A batch that the sink committed.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// What it did.
    pub receipt: Receipt,
    /// The generation's spec (schemas learnt, fields, SQL): opaque here, stored with the log. `None`: unchanged.
    pub spec: Option<serde_json::Value>,
    /// What the configuration asks for that this generation cannot hold, in words: another one has to be built.
    pub outgrown: Option<String>,
}

/// Executes batches against one sink: read, tables, documents, difference, apply, commit.
#[async_trait]
pub trait Executor: Send {
    /// Runs one attempt to the sink's commit, stamped with `(sequence, watermark)`. On `Err` nothing of the attempt is
    /// visible in the sink, or all of it is: [`Executor::stamp`] tells which. A sink without rollback may show a part,
    /// unstamped, which [`Executor::traces`] tells. `give_up` holds files that moved too often: they are unreadable, not
    /// moved. No request that writes to the sink is begun while `lease` does not hold.
    async fn execute(
        &mut self,
        attempt: &Attempt,
        give_up: &[(SourceName, Arc<str>)],
        lease: &dyn Lease,
    ) -> Result<Executed, Fault>;
    /// True if the sink holds documents or tombstones that were written under one of these numbers, which are no
    /// committed batches. A sink whose commits are all or nothing has none but those that its stamp tells of.
    async fn traces(&mut self, void: &[Sequence]) -> Result<bool, Fault>;
    /// The last committed batch stands in the log: its spec is the generation's now.
    fn recorded(&mut self);
    /// The sink's last committed stamp, read from the sink.
    async fn stamp(&mut self) -> Result<Option<Stamp>, Fault>;
    /// False if documents are computed by another definition (SQL, keys, columns) than those that the sink holds: every
    /// document has to be compared, though no file changed.
    fn is_current(&self) -> bool;
    /// True if the result depends on the watermark itself, so that moving it alone needs a batch.
    fn reads_watermark(&self) -> bool;
}

/// What an operator asks of whoever writes the pipeline. One given twice, or to a pipeline that has no use for it, does
/// no harm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Take away what is withheld since `at` or longer.
    AcceptRemovals {
        /// Of this source; `None`: of all.
        source: Option<SourceName>,
        /// What the operator saw.
        at: Timestamp,
    },
    /// Try files in quarantine again now.
    Retry {
        /// Of this source; `None`: of all.
        source: Option<SourceName>,
        /// This one; `None`: all.
        path: Option<Arc<str>>,
    },
    /// Read the files in holes of tables that keep their rows.
    Backfill {
        /// Of this source; `None`: of all.
        source: Option<SourceName>,
    },
    /// Build a candidate of the pipeline's present definition, from the files that are pinned.
    Rebuild {
        /// Its own: an order that the log knows is not carried out again.
        id: String,
        /// Why, for the log.
        reason: String,
        /// Promote it by itself once its gates pass.
        promote: bool,
    },
    /// Make the candidate live, if its gates pass.
    Promote {
        /// As above.
        id: String,
        /// The candidate that is meant: another one is not promoted in its place.
        to: GenerationName,
        /// Why it is done though a gate fails.
        force: Option<String>,
    },
    /// Make the former generation live again.
    Rollback {
        /// As above.
        id: String,
        /// The former generation that is meant.
        to: GenerationName,
        /// Why, for the log.
        reason: String,
    },
    /// Take a generation away that nobody needs: a candidate, or an index that the log does not name.
    Drop {
        /// As above.
        id: String,
        /// Which.
        name: GenerationName,
        /// Why, for the log.
        reason: String,
    },
}

impl Order {
    /// The name by which the log knows that it was carried out; `None` where doing it twice is doing it once.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Rebuild { id, .. } | Self::Promote { id, .. } | Self::Rollback { id, .. } | Self::Drop { id, .. } => {
                Some(id)
            }
            Self::AcceptRemovals { .. } | Self::Retry { .. } | Self::Backfill { .. } => None,
        }
    }
}

/// Where operators leave their orders, and the writer finds them. It looks only while one could matter: files are
/// withheld or in quarantine.
#[async_trait]
pub trait Orders: Send + Sync {
    /// The orders that wait, in any order.
    async fn waiting(&self) -> Result<Vec<Order>, Fault>;
    /// These were carried out, and the log says so: they are to be found no more. A failure costs another look.
    async fn done(&self, orders: &[Order]) -> Result<(), Fault>;
}

/// Nobody orders anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOrders;

#[async_trait]
impl Orders for NoOrders {
    async fn waiting(&self) -> Result<Vec<Order>, Fault> {
        Ok(Vec::new())
    }

    async fn done(&self, _orders: &[Order]) -> Result<(), Fault> {
        Ok(())
    }
}

/// What a commit in the sink carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    /// The batch.
    pub sequence: Sequence,
    /// Its watermark.
    pub watermark: Timestamp,
}
