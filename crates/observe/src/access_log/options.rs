//! Options of the access log: target and format.

use std::io;
use std::path::PathBuf;

/// Options of the access log: target and format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Where.
    pub to: LogTarget,
    /// How a line looks.
    pub format: LogFormat,
}

/// Where requests are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// At the end of this file.
    File(PathBuf),
    /// On standard output.
    Stdout,
}

/// How a request is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The combined format of Apache and nginx.
    #[default]
    Combined,
    /// An object a line.
    Json,
}

/// The log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the access log {to}")]
pub struct LogError {
    /// Where it was to be written.
    pub to: LogTarget,
    /// What the system said.
    pub source: io::Error,
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdout => f.write_str("on standard output"),
        }
    }
}
