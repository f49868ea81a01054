//! Whether a store keeps its word: what a claim needs of it is create-if-absent.

use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode};

use super::unavailable;
use crate::log::WriterId;
use crate::ports::{Fault, root_cause};

/// The folder of the objects that are created to see what happens.
const PROBE: &str = "probe";

/// Creates one object twice and takes it away again: three or four requests. [`Fault::Invalid`] where two creates win, or
/// the store knows no such thing: two writers could not be told apart there. A first refusal proves nothing (the reply to
/// an earlier try may have been lost, and some stores refuse now and then with nothing written), so that it is not held
/// against the store that the next create wins.
pub async fn probe(store: &dyn ObjectStore, root: &Path, writer: &WriterId) -> Result<(), Fault> {
    let place = root.clone().join(PROBE).join(writer.0.as_ref());
    let mut verdict = create(store, &place, "first").await?;
    let mut done = false;
    for body in ["second", "third"] {
        done |= matches!(verdict, Create::Done);
        verdict = match verdict {
            Create::Unknown => break,
            Create::Done | Create::Exists => create(store, &place, body).await?,
        };
        if done || matches!(verdict, Create::Exists) {
            break;
        }
    }
    let removed = store.delete(&place).await;
    let why = match verdict {
        Create::Exists => {
            if let Err(error) = removed {
                tracing::warn!(object = %place, error = root_cause(&error), "a probe was left behind");
            }
            return Ok(());
        }
        Create::Done => "creates an object a second time as if it were absent",
        Create::Unknown => "does not know how to create an object only if it is absent",
    };
    Err(Fault::Invalid(format!(
        "the store of the state ({store}) {why}, so that two writers could both hold the pipeline; keep the state on \
         another store or in a local folder, or set `single_writer = true` in [pipeline] and see to it that only one \
         process writes"
    )))
}

enum Create {
    Done,
    Exists,
    Unknown,
}

async fn create(store: &dyn ObjectStore, place: &Path, body: &'static str) -> Result<Create, Fault> {
    match store.put_opts(place, body.into(), PutMode::Create.into()).await {
        Ok(_) => Ok(Create::Done),
        Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(Create::Exists),
        Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => Ok(Create::Unknown),
        Err(error) => Err(unavailable(place, &error)),
    }
}
