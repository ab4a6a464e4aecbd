//! A site from a file: `docs/CONFIG.md` has all its keys, made of [`FILE`].
//!
//! A mistake is shown where it stands, with what was expected there; an unknown key is a
//! mistake, and so is a folder that is none. SIGHUP makes `tamarisk serve` read all of it again; see
//! [`Running::reload`](crate::Running::reload).

mod action;
mod host;
mod options;
mod values;

use std::path::Path;

pub use tamarisk_settings::ConfigError;

pub use self::options::FILE;

use tamarisk_service::settings::Disk;

use self::values::FileContext;
use crate::serve::Options;

/// Reads the file at `path`; folders and pages that it names must be there.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub fn load(path: &Path) -> Result<Options, ConfigError> {
    let place =
        FileContext { folder: path.parent().unwrap_or_else(|| Path::new("")), disk: Disk::Asked };
    tamarisk_settings::load(path, |document| options::read(document, place))
}

/// Reads `text`, which errors call `name`; paths are relative to `folder`, and whether
/// anything is there is not looked at.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Options, ConfigError> {
    let place = FileContext { folder, disk: Disk::Unasked };
    tamarisk_settings::parse(name, text, |document| options::read(document, place))
}
