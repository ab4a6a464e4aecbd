//! The reader of files that describe a site.

use std::collections::BTreeSet;
use std::path::Path;

use tamarisk_proxy::classify::PathPrefix;

use crate::config::parse;
use crate::site::options::{Action, HostOptions, SiteOptions};

#[path = "../../../../fuzz/shown.rs"]
mod shown;

/// What `input` says makes a site that holds together, or a mistake that is shown at a
/// place in it.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match parse("site.toml", text, Path::new("/srv")) {
        Ok(options) => holds_together(&options.site),
        Err(mistake) => shown::is_shown(&mistake, text),
    }
}

fn holds_together(site: &SiteOptions) {
    assert!(!site.hosts.is_empty() && site.file_workers > 0);
    let mut names = BTreeSet::new();
    let mut hosts = BTreeSet::new();
    for host in &site.hosts {
        assert!(!host.routes.is_empty());
        assert!(!host.names.is_empty() || hosts.insert("none".to_owned()), "two without names");
        let is_new = |name| hosts.insert(format!("{name:?}"));
        assert!(host.names.iter().all(is_new), "{:?}", host.names);
        assert!(host.routes.iter().all(|route| names.insert(&route.name)), "{names:?}");
        routes_are_apart(host);
    }
}

fn routes_are_apart(host: &HostOptions) {
    let mut has_root = false;
    for (index, route) in host.routes.iter().enumerate() {
        let prefix = PathPrefix::new(&route.path);
        let others = &host.routes[index + 1..];
        assert!(
            others.iter().all(|other| PathPrefix::new(&other.path) != prefix),
            "{}",
            route.path
        );
        assert!(prefix.rest(&route.path).is_some_and(|rest| rest.trim_matches('/').is_empty()));
        match &route.action {
            Action::Folder(folder) => {
                has_root |= prefix.depth() == 0;
                assert!(folder.root.starts_with("/"), "{:?}", folder.root);
            }
            Action::Proxy(proxy) => {
                let origin = &proxy.upstream.origin;
                assert_eq!(origin.to_string().parse().as_ref(), Ok(origin));
            }
            Action::Redirect(redirect) => {
                assert!(redirect.status.is_redirection());
                assert!(redirect.location("/a", Some("b")).is_some(), "{redirect:?}");
            }
        }
    }
    assert!(host.errors.is_empty() || has_root, "pages of no folder");
    assert!(host.errors.values().all(|page| !page.is_folder() && page.as_path().is_relative()));
}
