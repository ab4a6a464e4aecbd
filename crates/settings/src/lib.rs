//! TOML configuration files, with errors shown at their line and column.
//!
//! A reader walks the [`Section`]s of a document, each declared as a [`Table`](table::Table), and
//! takes what it knows with the readers of [`values`]; what is wrong becomes a [`Fault`] with its place, what was
//! expected there and, for a misspelt name, the one that was probably meant. An
//! unknown key is a mistake. [`Mistakes`] collects several. [`load`] and [`parse`] make a [`ConfigError`] of it,
//! which a [`miette::Report`] shows with the line of the file.
//!
//! # Examples
//! ```
//! use tamarisk_settings::table::{Form, Table, key};
//! use tamarisk_settings::{Section, parse, values};
//!
//! static FILE: Table = Table {
//!     heading: "pause.toml",
//!     summary: "When to go on.",
//!     groups: &[&[key("pause", Form::Time, "how long to wait").required()]],
//! };
//! let pause = |text| {
//!     parse("pause.toml", text, |document| {
//!         let file = Section::of(document, &FILE)?;
//!         file.require("pause", "\"1s\"", values::duration)
//!     })
//! };
//! assert_eq!(pause("pause = \"20ms\"")?.as_millis(), 20);
//! assert_eq!(pause("pose = \"20ms\"").unwrap_err().to_string(), "unknown key \"pose\"");
//! # Ok::<(), tamarisk_settings::ConfigError>(())
//! ```

mod error;
pub mod laws;
mod mask;
mod mistakes;
mod percentile;
mod section;
pub mod table;
pub mod target;
pub mod values;

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

pub use error::{ConfigError, Invalid};
pub use mistakes::{Mistakes, Several, all};
pub use section::{Fault, Section, Value, nearest, wrong_type};

/// A whole file.
pub type Document<'a> = Spanned<DeTable<'a>>;

/// What `read` makes of the file at `path`.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub fn load<T>(
    path: &Path,
    read: impl FnOnce(&Document<'_>) -> Result<T, Fault>,
) -> Result<T, ConfigError> {
    let (name, text) = self::read(path)?;
    parse(&name, &text, read)
}

/// The name and the text of the file at `path`.
///
/// # Errors
/// [`ConfigError::Unreadable`].
pub fn read(path: &Path) -> Result<(String, String), ConfigError> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { file: name.clone(), source })?;
    Ok((name, text))
}

/// What `read` makes of `text`, which errors call `name`.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
pub fn parse<T>(
    name: &str,
    text: &str,
    read: impl FnOnce(&Document<'_>) -> Result<T, Fault>,
) -> Result<T, ConfigError> {
    let made = match DeTable::parse(text) {
        Ok(document) => read(&document),
        Err(error) => Err(Fault::of_syntax(&error)),
    };
    made.map_err(|fault| ConfigError::invalid(name, text, fault))
}
