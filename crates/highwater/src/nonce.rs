//! Randomness: the one place that draws any, for the nonces of writers and temporary names.
#![allow(clippy::disallowed_methods)]

/// A fresh nonce, as text.
pub fn nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
