//! The profiler.

use std::path::Path;

use tamarisk_observe::profile::ProfileOptions;
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::values::duration;
use tamarisk_settings::{Fault, Section, Value};

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
pub(super) fn profile(value: &Value<'_>, folder: &Path) -> Result<ProfileOptions, Fault> {
    let section = Section::new(value, &PROFILE)?;
    let read = |value| file(value, "profile.jsonl", folder);
    let mut options = ProfileOptions::new(section.require("file", "\"profile.jsonl\"", read)?);
    options.interval = section.read("interval", duration)?.unwrap_or(options.interval);
    Ok(options)
}
