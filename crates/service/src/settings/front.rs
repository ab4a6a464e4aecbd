//! Configuration of the front: `listen`, `status`, `cores`, `tls`.

use std::path::Path;

use tamarisk_settings::table::{Form, Key, key};
use tamarisk_settings::values::{count, list};
use tamarisk_settings::{Fault, Mistakes, Section};

use super::disk::Disk;
use super::profile::{PROFILE_KEY, profile};
use super::tls::{TLS, tls};
use super::token::{self, TOKEN};
use super::values;
use crate::front::{FrontOptions, ensure_apart};

/// Where a service is served.
#[rustfmt::skip]
pub static FRONT_KEYS: [Key; 7] = [
    key("listen", Form::Text("address and port"), "where clients are served; `\":8080\"` is on all interfaces").required(),
    key("status", Form::Text("address and port"), "where the status page and the metrics are served"),
    key("status_token", Form::Table(&TOKEN), "token that allows changes on the status page").otherwise("no changes"),
    key("status_hosts", Form::List(&Form::Text("host name")), "host names that the status page answers to, in addition to `localhost` and addresses").default("[]"),
    PROFILE_KEY,
    key("cores", Form::Whole(1, 1_000_000_000), "threads that serve").otherwise("one for each core"),
    key("tls", Form::List(&Form::Table(&TLS)), "certificates; with at least one, clients are served over TLS only").otherwise("clear text"),
];

/// Where a service is served, as `file` says by [`FRONT_KEYS`], whose paths are relative to
/// `folder`. `limits` are the service's to read: it knows how many connections it can take.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn front(file: &Section<'_>, folder: &Path, disk: Disk) -> Result<FrontOptions, Fault> {
    let mut mistakes = Mistakes::default();
    let listen = file.require("listen", "\"127.0.0.1:8080\"", values::address);
    let listen = mistakes.note(listen);
    let status = mistakes.note(file.read("status", |value| {
        let status = values::address(value)?;
        let apart = listen.map_or(Ok(()), |listen| ensure_apart(listen, status));
        apart.map_err(|error| {
            Fault::new(value.span(), error.to_string(), "the same address as `listen`")
        })?;
        Ok(status)
    }));
    let token = |value| token::source(value, folder);
    let status_token = mistakes.note(file.read("status_token", token));
    let hosts = |value| list(value, values::host_name);
    let status_hosts = mistakes.note(file.read("status_hosts", hosts));
    let profile = mistakes.note(file.read("profile", |value| profile(value, folder, disk)));
    let cores = mistakes.note(file.read("cores", count));
    let tls = mistakes.note(file.read("tls", |value| tls(value, folder, disk)));
    mistakes.done(|| {
        let mut front = FrontOptions::new(listen?);
        front.status = status?;
        front.status_token = status_token?;
        front.status_hosts = status_hosts?.unwrap_or_default();
        front.profile = profile?;
        front.cores = cores?.unwrap_or(front.cores);
        front.tls = tls?.flatten();
        Some(front)
    })
}
