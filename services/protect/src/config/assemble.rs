//! Builds the options of `protect` from its configuration file.

use std::path::Path;

use tamarisk_service::settings::{self, Disk};
use tamarisk_settings::table::{Form, Table, key};
use tamarisk_settings::values::list;
use tamarisk_settings::{Document, Fault, Section};

use crate::Options;

/// The file of `protect`.
pub static FILE: Table = Table {
    heading: "protect.toml",
    summary: "The file of `tamarisk protect --config`.\n\nA route's own target comes before its classes' targets, and those before the file's. With a quality law each request carries its factor to the upstream, as `X-Quality: 0.42`; at 1 everything is wanted.",
    groups: &[
        &settings::FRONT_KEYS,
        &settings::FORWARDING_KEYS,
        &[
            settings::LIMITS_KEY,
            key(
                "trusted_proxies",
                Form::List(&Form::Text("address or network")),
                "addresses of reverse proxies in front, whose `X-Forwarded-For` is trusted",
            )
            .default("[]"),
            settings::LOG_KEY,
            key(
                "errors",
                Form::Map("status from 400 to 599", &Form::Text("path")),
                "error pages instead of the built-in ones, relative to this file; `{{status}}`, `{{reason}}`, `{{request_id}}` and `{{retry_after}}` in them are replaced by their values",
            ),
        ],
    ],
};

pub(super) fn options(
    document: &Document<'_>,
    folder: &Path,
    disk: Disk,
) -> Result<Options, Fault> {
    let (file, mut mistakes) = Section::of_collecting(document, &FILE);
    let front = mistakes.note(settings::front(&file, folder, disk));
    let server = mistakes.note(file.read("limits", settings::limits));
    let forwarding = mistakes.note(settings::forwarding(&file));
    let networks = |value| list(value, settings::network);
    let trusted = mistakes.note(file.read("trusted_proxies", networks));
    let log = mistakes.note(file.read("log", |value| settings::log(value, folder, disk)));
    let pages = |value| settings::error_pages(value, folder, disk);
    let error_pages = mistakes.note(file.read("errors", pages));
    mistakes.done(|| {
        let (mut front, (routes, upstreams)) = (front?, forwarding?);
        front.server = server?.unwrap_or_default();
        let mut options = Options::new(front, routes, upstreams);
        options.trusted = trusted?.unwrap_or_default();
        options.log = log?;
        options.error_pages = error_pages?.unwrap_or_default();
        Some(options)
    })
}
