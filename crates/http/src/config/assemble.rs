//! From the tables of a file to options that hold together.

use std::path::Path;

use tamarisk_settings::target::{self, is_percentile};
use tamarisk_settings::{Document, Fault, Section};

use super::classes::classes;
use super::limits::limits;
use super::parts::Disk;
use super::routes::{join, only_route, routes};
use super::upstreams::{Upstream, stages, upstreams};
use super::{errors, log, tls, token, values};
use crate::classify::Routes;
use crate::protect::Options;

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
    let listen = file.require("listen", "\"127.0.0.1:8080\"", values::address)?;
    let target = target::of(&file)?;
    let classes = file.read("classes", classes)?.unwrap_or_default();
    let stages = file.read("stage", stages)?.unwrap_or_default();
    let read = |value| upstreams(value, &stages);
    let mut upstreams = file.require("upstreams", "{ app = { url = \"http://…\" } }", read)?;
    let routes = match file.read("routes", |value| routes(value, &upstreams, &classes))? {
        Some(routes) => routes,
        None => vec![only_route(&upstreams)?],
    };
    let routes = routes
        .into_iter()
        .map(|route| join(route, &mut upstreams, &classes, target))
        .collect::<Result<_, _>>()?;
    let upstreams = upstreams.into_iter().map(Upstream::finish).collect::<Result<_, _>>()?;

    let mut options = Options::new(listen, Routes::new(routes), upstreams);
    options.status = file.read("status", values::address)?;
    options.status_token = file.read("status_token", token::source)?;
    let hosts = |value| values::list(value, values::host_name);
    options.status_hosts = file.read("status_hosts", hosts)?.unwrap_or_default();
    if let Some(cores) = file.read("cores", values::count)? {
        options.cores = cores;
    }
    let networks = |value| values::list(value, values::network);
    options.trusted = file.read("trusted_proxies", networks)?.unwrap_or_default();
    options.server = file.read("limits", limits)?.unwrap_or_default();
    options.tls = file.read("tls", |value| tls::tls(value, folder, disk))?.flatten();
    options.log = file.read("log", |value| log::log(value, folder))?;
    let pages = |value| errors::pages(value, folder, disk);
    options.error_pages = file.read("errors", pages)?.unwrap_or_default();
    Ok(options)
}
