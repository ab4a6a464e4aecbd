//! Why a site cannot be served.

use std::io;
use std::path::PathBuf;

use tamarisk_control::InvalidClasses;
use tamarisk_observe::access_log::LogError;
use tamarisk_stage::BuildError;

/// Why a site cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// Its folder is none, or not ours to enter.
    #[error("cannot serve the folder {}", root.display())]
    Root {
        /// The folder.
        root: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log cannot be written to.
    #[error(transparent)]
    Log(#[from] LogError),
    /// More folders with targets of their own than a stage can have classes.
    #[error(transparent)]
    Classes(#[from] InvalidClasses),
    /// A stage cannot be had.
    #[error(transparent)]
    Stage(#[from] BuildError),
}
