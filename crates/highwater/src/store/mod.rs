//! Where files are: a local folder or S3, listed and fetched with every request counted. Knows nothing of what is in them.

use std::fs::File;

use bytes::Bytes;
use thiserror::Error;

/// The whole content of one file version: in memory, or spooled to an unnamed temporary file when large.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Bytes(Bytes),
    /// On the local disk, at offset 0.
    Spooled {
        /// Open for reading.
        file: File,
        /// Its length.
        len: u64,
    },
}

/// Why a file version could not be fetched.
#[derive(Clone, Debug, Error)]
pub enum FetchError {
    /// The file is not (any more) the version that was listed: gone, or replaced. List again.
    #[error("{0}")]
    Moved(String),
    /// The store is out of reach, after retries.
    #[error("{0}")]
    Unavailable(String),
    /// This file alone cannot be read (denied, ghost): quarantine it.
    #[error("{0}")]
    Unreadable(String),
}
