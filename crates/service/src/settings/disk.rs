//! Files and folders that a configuration names.

use std::path::Path;

use tamarisk_settings::{Fault, Value};

/// Whether the files and folders that a configuration names are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// They must be there, and are read.
    Asked,
    /// They are not looked at.
    Unasked,
}

/// That a file at `path` can be made, or is there: its folder is one.
pub(super) fn written_at(value: &Value<'_>, path: &Path, disk: Disk) -> Result<(), Fault> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Ok(()),
    };
    if disk == Disk::Unasked || folder.is_dir() {
        return Ok(());
    }
    let message = format!("cannot write {}: {} is no folder", path.display(), folder.display());
    let fault = Fault::new(value.span(), message, "expected a file in a folder that is there");
    Err(fault.help("make the folder; a path is relative to the folder of this file"))
}
