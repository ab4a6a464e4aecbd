//! The keys of a file about where a service is served.

use std::path::Path;

use tamarisk_settings::values::{count, list};
use tamarisk_settings::{Fault, Section};

use super::tls::{Disk, tls};
use super::{token, values};
use crate::FrontOptions;

/// Where a service is served, as `file` says by `listen`, `status`, `status_token`,
/// `status_hosts`, `cores` and `tls`, whose paths are relative to `folder`. `limits` are the
/// service's to read: it knows how many connections it can take.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn front(file: &Section<'_>, folder: &Path, disk: Disk) -> Result<FrontOptions, Fault> {
    let listen = file.require("listen", "\"127.0.0.1:8080\"", values::address)?;
    let mut front = FrontOptions::new(listen);
    front.status = file.read("status", values::address)?;
    front.status_token = file.read("status_token", token::source)?;
    let hosts = |value| list(value, values::host_name);
    front.status_hosts = file.read("status_hosts", hosts)?.unwrap_or_default();
    if let Some(cores) = file.read("cores", count)? {
        front.cores = cores;
    }
    front.tls = file.read("tls", |value| tls(value, folder, disk))?.flatten();
    Ok(front)
}
