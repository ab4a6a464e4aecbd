//! Configuration of a whole site: the top level of `site.toml`.

use std::collections::BTreeSet;
use std::time::Duration;

use tamarisk_control::{CLASSES_MAX, Target};
use tamarisk_service::settings;
use tamarisk_settings::table::{Form, Table, key};
use tamarisk_settings::target;
use tamarisk_settings::values::{list, size};
use tamarisk_settings::{Document, Fault, Section, Value};

use super::host::{Common, HOST, hosts};
use super::values::FileContext;
use crate::serve::Options;
use crate::site::options::{Action, HostOptions, SiteOptions};

/// The file of a site.
pub static FILE: Table = Table {
    heading: "site.toml",
    summary: "The file of `tamarisk serve`, which reads it again at SIGHUP.",
    groups: &[
        &settings::FRONT_KEYS,
        &[
            key("p90", Form::Target, "response-time target").default("\"1s\""),
            key("cache", Form::Size, "size of the page cache").default("\"64MiB\""),
            key(
                "held",
                Form::Size,
                "largest file that is kept in memory; larger ones are read while they are sent",
            )
            .default("\"1MiB\""),
            key(
                "file_threads",
                Form::Whole(1, 1024),
                "threads that find and read files, and as many that read the rest of long files",
            )
            .default("4"),
            settings::LIMITS_KEY,
            key(
                "trusted_proxies",
                Form::List(&Form::Text("address or network")),
                "addresses of reverse proxies in front, whose `X-Forwarded-For` is trusted",
            )
            .default("[]"),
            settings::LOG_KEY,
            settings::CLASSES,
            key("host", Form::List(&Form::Table(&HOST)), "what is served under which names")
                .required(),
        ],
    ],
};

/// What is promised where a file says nothing.
const DEFAULT_TARGET: Duration = Duration::from_secs(1);

pub(super) fn read(document: &Document<'_>, place: FileContext<'_>) -> Result<Options, Fault> {
    let (file, mut mistakes) = Section::of_collecting(document, &FILE);
    let front = mistakes.note(settings::front(&file, place.folder, place.disk));
    let default = || Target::p90(DEFAULT_TARGET).expect("a second is a target");
    let target = mistakes.note(target::of(&file)).flatten().unwrap_or_else(default);
    let classes = settings::classes_noted(&file, &mut mistakes);
    let common = Common { place, classes: &classes, target };
    let read = |value| hosts(value, common).and_then(|hosts| named_apart(value, hosts));
    let hosts = mistakes.note(file.require("host", "[{ root = \"public\" }]", read));
    let cache_bytes = mistakes.note(file.read("cache", size));
    let held_bytes_max = mistakes.note(file.read("held", size));
    let file_workers = mistakes.note(file.read("file_threads", file_threads));
    let networks = |value| list(value, settings::network);
    let trusted = mistakes.note(file.read("trusted_proxies", networks));
    let log = |value| settings::log(value, place.folder, place.disk);
    let log = mistakes.note(file.read("log", log));
    let server = mistakes.note(file.read("limits", settings::limits));
    let (mut options, server) = mistakes.done(|| {
        let mut site = SiteOptions::of(hosts?, target);
        site.cache_bytes = cache_bytes?.unwrap_or(site.cache_bytes);
        site.held_bytes_max = held_bytes_max?.unwrap_or(site.held_bytes_max);
        site.file_workers = file_workers?.unwrap_or(site.file_workers);
        site.trusted = trusted?.unwrap_or_default();
        site.log = log?;
        Some((Options::with_front(front?, site), server?))
    })?;
    if let Some(server) = server {
        let limits = file.value("limits").and_then(|limits| limits.get_ref().as_table());
        let is_stated = limits.is_some_and(|limits| limits.contains_key("connections"));
        let default = options.front.server.connections_limit();
        options.front.server = if is_stated { server } else { server.connections_max(default) };
    }
    Ok(options)
}

fn file_threads(value: &Value<'_>) -> Result<u32, Fault> {
    const MOST: u64 = 1024;
    let expected = "a whole number from 1 to 1024";
    let threads = tamarisk_settings::values::number(value, expected, MOST)?;
    u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or_else(|| {
        Fault::new(value.span(), "number of threads out of range", format!("expected {expected}"))
    })
}

/// That stages and classes, which are called as their routes, are unlike each other.
fn named_apart(value: &Value<'_>, hosts: Vec<HostOptions>) -> Result<Vec<HostOptions>, Fault> {
    let mut names = BTreeSet::from(["default", "files", "chunks"]);
    let mut targets = 0;
    for route in hosts.iter().flat_map(|host| &host.routes) {
        let has_target = match &route.action {
            Action::Folder(folder) => folder.target.is_some(),
            Action::Proxy(_) | Action::Redirect(_) => false,
        };
        targets += usize::from(has_target);
        if !names.insert(&route.name) {
            let message = format!("the name {:?} is already used", route.name);
            return Err(Fault::new(value.span(), message, "choose another name for the route"));
        }
    }
    if targets >= CLASSES_MAX {
        let message = format!("{targets} folders have targets of their own");
        let expected = format!("expected fewer than {CLASSES_MAX}");
        return Err(Fault::new(value.span(), message, expected));
    }
    Ok(hosts)
}
