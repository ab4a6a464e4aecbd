//! From the tables of a file to options that hold together.

use std::path::Path;

use tamarisk_service::settings::{self, Disk};
use tamarisk_settings::target::is_percentile;
use tamarisk_settings::values::list;
use tamarisk_settings::{Document, Fault, Section};

use crate::Options;

#[rustfmt::skip]
const FILE: &[&str] = &[
    "listen", "status", "status_token", "status_hosts", "cores", "trusted_proxies", "p90", "limits", "upstreams",
    "stage", "classes", "routes", "tls", "log", "errors",
];

pub(super) fn options(
    document: &Document<'_>,
    folder: &Path,
    disk: Disk,
) -> Result<Options, Fault> {
    let file = Section::of(document.get_ref(), 0..0, FILE, is_percentile)?;
    let mut front = settings::front(&file, folder, disk)?;
    front.server = file.read("limits", settings::limits)?.unwrap_or_default();
    let (routes, upstreams) = settings::forwarding(&file)?;

    let mut options = Options::new(front, routes, upstreams);
    let networks = |value| list(value, settings::network);
    options.trusted = file.read("trusted_proxies", networks)?.unwrap_or_default();
    options.log = file.read("log", |value| settings::log(value, folder))?;
    let pages = |value| settings::error_pages(value, folder, disk);
    options.error_pages = file.read("errors", pages)?.unwrap_or_default();
    Ok(options)
}
