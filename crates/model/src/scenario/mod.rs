//! Scenarios from TOML files, for the simulator and for the closed forms: `docs/CONFIG.md` has all
//! their keys, made of [`FILE`].
//!
//! Mistakes are shown where they stand. So is a stage that cannot keep up, when the
//! closed form is asked for: see [`File::network`].
//!
//! # Modules, in reading order
//! `read` the whole file; `stages`, `clients`, `distributions`, `laws` its parts; `files`
//! what it takes from others; `places` where what the simulator finds wrong stands; `closed_form` the same
//! stages as a network.

mod clients;
mod closed_form;
mod distributions;
mod files;
mod laws;
mod places;
mod read;
mod stages;

use std::path::Path;

use tamarisk_laws::Laws;
use tamarisk_settings::{ConfigError, Document};

use self::files::Files;
use self::places::Places;
pub use self::read::FILE;
use crate::sim::Scenario;

/// A scenario file that was read and found sound.
#[derive(Debug)]
pub struct File {
    /// What it describes.
    pub scenario: Scenario,
    /// The stages that name laws, and these.
    pub laws: Vec<(String, Laws)>,
    name: String,
    text: String,
    places: Places,
}

/// Reads the scenario in the file at `path`.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub fn load(path: &Path) -> Result<File, ConfigError> {
    let (name, text) = tamarisk_settings::read(path)?;
    parse(&name, &text)
}

/// Reads the scenario in `text`, which errors call `name`. Files that it names stand beside
/// a file of that name.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
pub fn parse(name: &str, text: &str) -> Result<File, ConfigError> {
    let files = Files::beside(Path::new(name));
    let read = |document: &Document<'_>| read::file(document, files);
    let (scenario, laws, places) = tamarisk_settings::parse(name, text, read)?;
    Ok(File { scenario, laws, name: name.to_owned(), text: text.to_owned(), places })
}
