//! The profiler.

use std::path::Path;

use tamarisk_observe::profile::ProfileOptions;
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::values::duration;
use tamarisk_settings::{Fault, Section, Value};

use super::disk::{Disk, written_at};
use super::values::file;

static PROFILE: Table = Table {
    heading: "[profile]",
    summary: "The log of the profiler: a line of JSON about every stage in each interval. The file is \
              kept as `FILE.1` when it has grown to 64 MiB, and another begins.",
    groups: &[&[
        key("file", Form::Text("path"), "where it is written, relative to this file").required(),
        key("interval", Form::Time, "time from one line to the next").default("\"1s\""),
    ]],
};

/// Where the profiler writes.
pub(super) const PROFILE_KEY: Key =
    key("profile", Form::Table(&PROFILE), "log of every stage over time").otherwise("none");

/// The table `profile`, whose file is relative to `folder`.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub(super) fn profile(
    value: &Value<'_>,
    folder: &Path,
    disk: Disk,
) -> Result<ProfileOptions, Fault> {
    let (section, mut mistakes) = Section::collecting(value, &PROFILE)?;
    let read = |value| {
        let file = file(value, "profile.jsonl", folder)?;
        written_at(value, &file, disk)?;
        Ok(file)
    };
    let file = mistakes.note(section.require("file", "\"profile.jsonl\"", read));
    let interval = mistakes.note(section.read("interval", duration));
    mistakes.done(|| {
        let mut options = ProfileOptions::new(file?);
        options.interval = interval?.unwrap_or(options.interval);
        Some(options)
    })
}
