//! Credentials that are asked for anew once a store has refused them, though by their own word their time is not over: a
//! session that was revoked, a role's file that was written again. Knows nothing of requests to a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use highwater_core::ports::root_cause;
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AwsCredential, AwsCredentialProvider};

use crate::clock::Stopwatch;

/// In place of a store's name in errors of whoever gives credentials.
pub(super) const CREDENTIALS: &str = "credentials";

/// A source of credentials is not asked again sooner.
const PAUSE: Duration = Duration::from_secs(1);

/// The credentials that a client's builder stands for.
#[derive(Debug)]
pub(super) struct Renewing {
    builder: AmazonS3Builder,
    /// Set by whoever sees a store's answers.
    refused: Arc<AtomicBool>,
    current: Mutex<(AwsCredentialProvider, Stopwatch)>,
}

impl Renewing {
    pub(super) fn new(builder: AmazonS3Builder, refused: Arc<AtomicBool>) -> object_store::Result<Self> {
        let current = Mutex::new((provider(&builder)?, Stopwatch::start()));
        Ok(Self { builder, refused, current })
    }

    fn current(&self) -> object_store::Result<AwsCredentialProvider> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.1.elapsed() >= PAUSE && self.refused.swap(false, Ordering::Relaxed) {
            *current = (provider(&self.builder)?, Stopwatch::start());
        }
        Ok(Arc::clone(&current.0))
    }
}

#[async_trait]
impl CredentialProvider for Renewing {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let asked = self.current()?.get_credential().await;
        asked.map_err(|error| object_store::Error::Generic { store: CREDENTIALS, source: root_of(&error).into() })
    }
}

/// Where they were asked for, and why in vain; not for how long, so that the same failure reads the same.
fn root_of(error: &object_store::Error) -> String {
    let text = error.to_string();
    let place = text.split_whitespace().find(|word| word.starts_with("http")).unwrap_or_default();
    format!("{place}: {}", root_cause(error))
}

/// A provider that has asked for nothing yet; a client of its own asks, so that its requests do not count as a store's.
fn provider(builder: &AmazonS3Builder) -> object_store::Result<AwsCredentialProvider> {
    Ok(Arc::clone(builder.clone().build()?.credentials()))
}
