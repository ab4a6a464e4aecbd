//! The differences between two configurations of a site, for messages.

use crate::site::host::HostName;
use crate::site::options::{HostOptions, SiteOptions};

/// What of a site changes from `now` to `new`.
pub(crate) fn of_site(now: &SiteOptions, new: &SiteOptions) -> Vec<String> {
    let same = [
        ("p90", now.target == new.target),
        ("cache", now.cache_bytes == new.cache_bytes),
        ("held", now.held_bytes_max == new.held_bytes_max),
        ("trusted_proxies", now.trusted == new.trusted),
        ("log", now.log == new.log),
    ];
    let keys = same.into_iter().filter(|(_, same)| !same).map(|(key, _)| key.to_owned());
    let mut changes: Vec<String> = keys.collect();
    let known =
        |host: &HostOptions, of: &SiteOptions| of.hosts.iter().any(|o| o.names == host.names);
    for host in &new.hosts {
        match now.hosts.iter().find(|other| other.names == host.names) {
            Some(before) => of_host(before, host, &mut changes),
            None => changes.push(format!("the host {:?} (new)", label(host))),
        }
    }
    let gone = now.hosts.iter().filter(|host| !known(host, new));
    changes.extend(gone.map(|host| format!("the host {:?} (removed)", label(host))));
    changes
}

fn of_host(now: &HostOptions, new: &HostOptions, changes: &mut Vec<String>) {
    let host = label(new);
    for route in &new.routes {
        let path = &route.path;
        match now.routes.iter().find(|other| other.path == *path) {
            Some(before) if before == route => {}
            Some(_) => changes.push(format!("the route {path:?} of {host:?}")),
            None => changes.push(format!("the route {path:?} of {host:?} (new)")),
        }
    }
    for route in &now.routes {
        let path = &route.path;
        if !new.routes.iter().any(|other| other.path == *path) {
            changes.push(format!("the route {path:?} of {host:?} (removed)"));
        }
    }
    if now.errors != new.errors {
        changes.push(format!("the error pages of {host:?}"));
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
