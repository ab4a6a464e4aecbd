//! The access log.

use std::path::Path;

use tamarisk_observe::access_log::{LogFormat, LogOptions, LogTarget};
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::values::{one_of, parsed};
use tamarisk_settings::{Fault, Section, Value};

use super::disk::{Disk, written_at};
use super::values::file_at;

static LOG: Table = Table {
    heading: "[log]",
    summary: "The access log.",
    groups: &[&[
        key(
            "file",
            Form::Text("path, or `\"-\"` for standard output"),
            "where it is written, relative to this file",
        )
        .required(),
        key("format", Form::OneOf(&["combined", "json"]), "form of its lines")
            .default("\"combined\""),
    ]],
};

/// Where requests are written down.
pub const LOG_KEY: Key = key("log", Form::Table(&LOG), "access log");

/// The table `log`, whose file is relative to `folder`; `-` is the standard output.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn log(value: &Value<'_>, folder: &Path, disk: Disk) -> Result<LogOptions, Fault> {
    let (section, mut mistakes) = Section::collecting(value, &LOG)?;
    let target = |text: &str| match text {
        "-" => Some(LogTarget::Stdout),
        text => file_at(text, folder).map(LogTarget::File),
    };
    let expected = "a file such as \"access.log\", or \"-\" for standard output";
    let to = mistakes.note(section.require("file", "\"access.log\"", |value| {
        let to = parsed(value, expected, target)?;
        if let LogTarget::File(file) = &to {
            written_at(value, file, disk)?;
        }
        Ok(to)
    }));
    let format = mistakes.note(section.read("format", format));
    mistakes.done(|| Some(LogOptions { to: to?, format: format?.unwrap_or_default() }))
}

fn format(value: &Value<'_>) -> Result<LogFormat, Fault> {
    let formats = [("combined", LogFormat::Combined), ("json", LogFormat::Json)];
    Ok(formats[one_of(value, "format", &formats.map(|(name, _)| name))?].1)
}
