//! Where the profile is written, how often and how much.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A line a second shows what averages over minutes hide, and is a few kilobytes.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// Of the file and of the one before it, each: half a day of ten stages at a line a second.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// Where the profile is written, how often and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// The file. What it was before its last change of size stands beside it, as `FILE.1`.
    pub file: PathBuf,
    /// Between two lines; a second by default.
    pub interval: Duration,
    /// The most that the file grows to; then it becomes `FILE.1`, and another begins. 64 MiB by
    /// default.
    pub bytes_max: u64,
}

/// Why the profile cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be opened.
    #[error("cannot write the profile to {file}")]
    File {
        /// Its path.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no thread.
    #[error("cannot start the thread that writes the profile")]
    Thread(#[source] io::Error),
}

impl ProfileOptions {
    /// To this file, a line a second.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), interval: INTERVAL, bytes_max: BYTES_MAX }
    }
}
