//! The access log.

use std::path::Path;

use tamarisk_observe::access_log::{LogFormat, LogOptions, LogTarget};
use tamarisk_settings::values::{one_of, parsed};
use tamarisk_settings::{Fault, Section, Value};

const LOG: &[&str] = &["file", "format"];

/// The table `log`, whose file is relative to `folder`; `-` is the standard output.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn log(value: &Value<'_>, folder: &Path) -> Result<LogOptions, Fault> {
    let section = Section::new(value, LOG, |_| false)?;
    let target = |text: &str| match text {
        "-" => Some(LogTarget::Stdout),
        text if text.is_empty() || text.contains('\0') => None,
        text => Some(LogTarget::File(folder.join(text))),
    };
    let expected = "a file such as \"access.log\", or \"-\" for standard output";
    Ok(LogOptions {
        to: section.require("file", "\"access.log\"", |value| parsed(value, expected, target))?,
        format: section.read("format", format)?.unwrap_or_default(),
    })
}

fn format(value: &Value<'_>) -> Result<LogFormat, Fault> {
    let formats = [("combined", LogFormat::Combined), ("json", LogFormat::Json)];
    Ok(formats[one_of(value, "format", &formats.map(|(name, _)| name))?].1)
}
