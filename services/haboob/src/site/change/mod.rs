//! The differences between two configurations of a site, for messages.

mod route;
mod service;

use std::collections::BTreeSet;

use tamarisk_observe::access_log::{LogFormat, LogOptions, LogTarget};

use crate::disk::path::SitePath;
use crate::site::host::HostName;
use crate::site::options::{HostOptions, SiteOptions};

/// Longer values are not told: a message has all changes on one line.
const VALUE_BYTES_MAX: usize = 120;

/// What of a site changes from `now` to `new`.
pub(crate) fn of_site(now: &SiteOptions, new: &SiteOptions) -> Vec<String> {
    let mut changes = Changes::default();
    changes.compare("the target", [&now.target, &new.target], ToString::to_string);
    changes.compare("cache", [&now.cache_bytes, &new.cache_bytes], size);
    changes.compare("held", [&now.held_bytes_max, &new.held_bytes_max], size);
    changes.compare("trusted_proxies", [&now.trusted, &new.trusted], |networks| {
        let networks: Vec<_> = networks.iter().map(ToString::to_string).collect();
        if networks.is_empty() { none() } else { networks.join(" and ") }
    });
    changes.compare("log", [&now.log, &new.log], |log| log.as_ref().map_or_else(none, log_text));
    for host in &new.hosts {
        match now.hosts.iter().find(|other| other.names == host.names) {
            Some(before) => of_host(before, host, &mut changes),
            None => changes.add(format!("the host {:?} (new)", label(host))),
        }
    }
    let known = |host: &&HostOptions| new.hosts.iter().any(|other| other.names == host.names);
    for host in now.hosts.iter().filter(|host| !known(host)) {
        changes.add(format!("the host {:?} (removed)", label(host)));
    }
    changes.0
}

fn of_host(now: &HostOptions, new: &HostOptions, changes: &mut Changes) {
    let host = label(new);
    for route in &new.routes {
        let what = format!("the route {:?} of {host:?}", route.path);
        match now.routes.iter().find(|other| other.path == route.path) {
            Some(before) if before == route => {}
            Some(before) => changes.add_all(what, &route::of_route(before, route)),
            None => changes.add(format!("{what} (new)")),
        }
    }
    for route in &now.routes {
        let path = &route.path;
        if !new.routes.iter().any(|other| other.path == *path) {
            changes.add(format!("the route {path:?} of {host:?} (removed)"));
        }
    }
    if now.errors != new.errors {
        changes.add_all(format!("the error pages of {host:?}"), &of_errors(now, new));
    }
}

fn of_errors(now: &HostOptions, new: &HostOptions) -> Changes {
    let mut changes = Changes::default();
    let shown = |page: &Option<&SitePath>| page.map_or_else(none, page_text);
    let statuses: BTreeSet<_> = now.errors.keys().chain(new.errors.keys()).collect();
    for status in statuses {
        let [before, after] = [now, new].map(|host| host.errors.get(status));
        changes.compare(status.as_str(), [&before, &after], shown);
    }
    changes
}

/// What changes, in words.
#[derive(Default)]
struct Changes(Vec<String>);

impl Changes {
    fn add(&mut self, change: String) {
        self.0.push(change);
    }

    /// `what`, and in brackets its `parts` that change.
    fn add_all(&mut self, what: String, parts: &Self) {
        self.add(match parts.0.as_slice() {
            [] => what,
            parts => format!("{what} ({})", parts.join(", ")),
        });
    }

    /// `key from A to B`; the key alone if one of these is long, or if both are alike.
    fn add_values(&mut self, key: &str, now: &str, new: &str) {
        let are_shown = now != new && now.len().max(new.len()) <= VALUE_BYTES_MAX;
        self.add(if are_shown { format!("{key}: {now} → {new}") } else { key.to_owned() });
    }

    /// The same, if these values differ.
    fn compare<T: PartialEq>(
        &mut self,
        key: &str,
        [now, new]: [&T; 2],
        show: impl Fn(&T) -> String,
    ) {
        if now != new {
            self.add_values(key, &show(now), &show(new));
        }
    }
}

/// The name that a host is known by.
fn label(host: &HostOptions) -> String {
    match host.names.first() {
        Some(HostName::Exactly(name)) => name.clone(),
        Some(HostName::Below(domain)) => format!("*.{domain}"),
        None => "default".to_owned(),
    }
}

fn none() -> String {
    "none".to_owned()
}

/// A number of bytes as a file says it.
fn size(bytes: &u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| *bytes > 0 && bytes.trailing_zeros() >= *bits) {
        Some((unit, bits)) => format!("{}{unit}", bytes >> bits),
        None => format!("{bytes}B"),
    }
}

fn log_text(log: &LogOptions) -> String {
    let format = match log.format {
        LogFormat::Combined => "combined",
        LogFormat::Json => "json",
    };
    match &log.to {
        LogTarget::File(path) => format!("{} ({format})", path.display()),
        LogTarget::Stdout => format!("standard output ({format})"),
    }
}

fn page_text(page: &SitePath) -> String {
    page.as_path().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_as_a_file_says_them() {
        let sizes = [0, 1, 1500, 1536, 64 << 20, 3 << 30].map(|bytes| size(&bytes));
        assert_eq!(sizes, ["0B", "1B", "1500B", "1536B", "64MiB", "3GiB"]);
        assert_eq!(size(&(3 << 10)), "3KiB");
    }

    #[test]
    fn a_long_value_is_not_told() {
        let mut changes = Changes::default();
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        changes.compare("short", [&long[1..].to_owned(), &String::new()], String::clone);
        changes.compare("long", [&long, &String::new()], String::clone);
        changes.compare("same", [&long, &long], String::clone);
        let short = format!("short: {} → ", &long[1..]);
        assert_eq!(changes.0, [short.as_str(), "long"]);
    }
}
