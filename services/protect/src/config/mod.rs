//! `protect` from a file: `docs/CONFIG.md` has all its keys, made of [`FILE`].
//!
//! A mistake is shown where it stands, with what was expected there; an unknown key
//! is a mistake.

mod assemble;

use std::path::Path;

use tamarisk_service::settings::Disk;
pub use tamarisk_settings::ConfigError;

pub use self::assemble::FILE;

use crate::Options;

/// Reads the options of `protect` from the file at `path`, and certificates that it names.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub fn load(path: &Path) -> Result<Options, ConfigError> {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    tamarisk_settings::load(path, |document| assemble::options(document, folder, Disk::Asked))
}

/// Reads the options of `protect` from `text`, which errors call `name`; certificates are not
/// looked for.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
pub fn parse(name: &str, text: &str) -> Result<Options, ConfigError> {
    let folder = Path::new("");
    tamarisk_settings::parse(name, text, |document| {
        assemble::options(document, folder, Disk::Unasked)
    })
}
