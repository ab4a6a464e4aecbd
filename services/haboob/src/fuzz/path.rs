//! Paths of requests: which file, and which route.

use std::os::unix::ffi::OsStrExt;
use std::path::Component;

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use tamarisk_proxy::classify::PathPrefix;

use crate::disk::path::{HiddenFiles, SitePath};
use crate::site::route::Redirect;

/// A path in `input` names a file beneath its folder or none; it names the same one when it is
/// written in another way, and when a route takes some of it away.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for hidden in [HiddenFiles::Hidden, HiddenFiles::Served] {
        if let Ok(path) = SitePath::of(text, hidden) {
            stays_beneath(&path, hidden);
            is_the_same_escaped(&path, hidden);
            is_the_same_behind_a_route(text, &path, hidden);
        }
    }
    stays_on_the_host(text);
}

fn stays_beneath(path: &SitePath, hidden: HiddenFiles) {
    for (index, component) in path.as_path().components().enumerate() {
        let Component::Normal(name) = component else { panic!("{component:?} in {path:?}") };
        let name = name.as_bytes();
        assert!(!name.is_empty() && !name.contains(&0) && !name.contains(&b'/'), "{path:?}");
        let is_known = index == 0 && name == b".well-known";
        let is_seen = hidden == HiddenFiles::Served || is_known || !name.starts_with(b".");
        assert!(is_seen, "{path:?}");
    }
}

fn is_the_same_escaped(path: &SitePath, hidden: HiddenFiles) {
    let names = path.as_path().iter();
    let mut escaped: String = names
        .map(|name| format!("/{}", percent_encode(name.as_bytes(), NON_ALPHANUMERIC)))
        .collect();
    if path.is_folder() {
        escaped.push('/');
    }
    assert!(
        escaped.len() > 4096 || SitePath::of(&escaped, hidden).as_ref() == Ok(path),
        "{escaped}"
    );
}

/// A route at the first name leaves the others to its folder.
fn is_the_same_behind_a_route(text: &str, path: &SitePath, hidden: HiddenFiles) {
    let Some(first) = path.as_path().iter().next() else { return };
    let escaped = format!("/{}", percent_encode(first.as_bytes(), NON_ALPHANUMERIC));
    let rest = PathPrefix::new(&escaped).rest(text).expect("the path is below its first name");
    if !rest.is_empty() {
        let rest = SitePath::of(rest, HiddenFiles::Served).expect("a part of it is a path too");
        assert_eq!(path.as_path().strip_prefix(first), Ok(rest.as_path()), "{text:?}");
        assert_eq!(path.is_folder(), rest.is_folder(), "{text:?}");
    }
    let other = format!("{escaped}x");
    assert_eq!(PathPrefix::new(&other).rest(text), None, "{text:?} is not below {other:?}");
    assert_eq!(PathPrefix::new("/").rest(text), Some(text), "{hidden:?}");
}

/// Whatever a client adds to a redirect, it leads to the same host.
fn stays_on_the_host(text: &str) {
    for to in ["/", "/new/"] {
        let redirect = Redirect { to: to.to_owned(), status: StatusCode::FOUND };
        if let Some(location) = redirect.location(text, Some(text)) {
            let location = location.as_bytes();
            assert!(location.starts_with(to.as_bytes()), "{location:?}");
            assert!(!matches!(location, [b'/', b'/' | b'\\', ..]), "{location:?}");
            assert!(!location.contains(&b'\n') && !location.contains(&b'\r'), "{location:?}");
        }
    }
}
