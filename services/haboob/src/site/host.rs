//! Routing: finds the host and the route of a request.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use tamarisk_observe::access_log::Names;
use tamarisk_proxy::classify::{PathPrefix, PathTree, host_name, lower_case, with_slashes};

use crate::cache::pages::PageSource;
use crate::disk::path::{HiddenFiles, SitePath};
use crate::site::route::Redirect;

/// A name that requests are for: a host, or all hosts one level below one.
///
/// # Examples
/// ```
/// use tamarisk_haboob::HostName;
///
/// assert_eq!(HostName::of("Example.org"), Some(HostName::Exactly("example.org".to_owned())));
/// assert_eq!(HostName::of("*.example.org"), Some(HostName::Below("example.org".to_owned())));
/// assert_eq!(HostName::of("example.org:80"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostName {
    /// This one alone, in lower case.
    Exactly(String),
    /// Any that is one name, a dot and this one, as in certificates [RFC6125 §6.4.3].
    Below(String),
}

impl HostName {
    /// `example.org` or `*.example.org`, in whatever case; `None` if `text` is neither.
    pub fn of(text: &str) -> Option<Self> {
        let name = |text: &str| {
            let is_name = tamarisk_service::settings::is_host_name(text) && !text.ends_with('.');
            is_name.then(|| text.to_ascii_lowercase())
        };
        match text.strip_prefix("*.") {
            Some(domain) => name(domain).map(Self::Below),
            None => name(text).map(Self::Exactly),
        }
    }
}

/// What is served for whom.
#[derive(Debug)]
pub(crate) struct Hosts<T> {
    exactly: HashMap<String, T>,
    below: HashMap<String, T>,
    default: Option<T>,
}

impl<T: Clone> Hosts<T> {
    /// Whatever has no names is for all whose name nothing else has. Of two with the same
    /// name the first one has it.
    pub(crate) fn new<'a>(hosts: impl IntoIterator<Item = (&'a [HostName], T)>) -> Self {
        let mut all = Self { exactly: HashMap::new(), below: HashMap::new(), default: None };
        for (names, host) in hosts {
            if names.is_empty() {
                all.default.get_or_insert_with(|| host.clone());
            }
            for name in names {
                let (map, name) = match name {
                    HostName::Exactly(name) => (&mut all.exactly, name),
                    HostName::Below(domain) => (&mut all.below, domain),
                };
                map.entry(name.clone()).or_insert_with(|| host.clone());
            }
        }
        all
    }

    /// What is served at `authority`, which may have a port and is in whatever case; a
    /// name of its own goes before a pattern.
    pub(crate) fn find(&self, authority: Option<&str>) -> Option<&T> {
        if self.exactly.is_empty() && self.below.is_empty() {
            return self.default.as_ref();
        }
        let named = authority.and_then(|authority| self.named(&lower_case(host_name(authority))));
        named.or(self.default.as_ref())
    }

    fn named(&self, name: &str) -> Option<&T> {
        let below = || {
            let (first, domain) = name.split_once('.')?;
            if first.is_empty() { None } else { self.below.get(domain) }
        };
        self.exactly.get(name).or_else(below)
    }
}

/// What is served under some names.
pub(crate) struct Host {
    /// The most specific path first.
    targets: Vec<RouteTarget>,
    /// Their paths, in this order.
    paths: PathTree,
    errors: Vec<(StatusCode, PageSource, SitePath)>,
}

/// What becomes of requests.
pub(crate) enum RouteTarget {
    Folder(ServedFolder),
    /// The route of this number leads to a service.
    Proxy(usize),
    Redirect(Redirect),
}

/// A folder, as its requests see it.
pub(crate) struct ServedFolder {
    pub(crate) source: PageSource,
    pub(crate) hidden: HiddenFiles,
    pub(crate) cache_control: Option<HeaderValue>,
    /// The same as it is sent over HTTP/1.1.
    pub(crate) cache_control_line: Vec<u8>,
    /// As what its files are asked for.
    pub(crate) names: Names,
}

impl Host {
    /// A host with these routes, and with these pages for answers with these statuses.
    pub(crate) fn new(
        mut routes: Vec<(PathPrefix, RouteTarget)>,
        errors: Vec<(StatusCode, PageSource, SitePath)>,
    ) -> Self {
        routes.sort_by_key(|(prefix, _)| Reverse(prefix.depth()));
        let paths = PathTree::new(routes.iter().map(|(prefix, _)| prefix));
        let targets = routes.into_iter().map(|(_, target)| target).collect();
        Self { targets, paths, errors }
    }

    /// The page that stands for answers with this status.
    pub(crate) fn error_page(&self, status: StatusCode) -> Option<(&PageSource, &SitePath)> {
        let page = self.errors.iter().find(|(of, ..)| *of == status);
        page.map(|(_, source, path)| (source, path))
    }

    /// What becomes of `path`: nothing if a service would get it that has another route where
    /// slashes are escaped, for many services take these for slashes.
    fn target<'p>(&self, path: &'p str) -> PathTarget<'_, 'p> {
        let (index, rest) = self.paths.first(path, |_| true)?;
        let target = &self.targets[index];
        let is_served = match target {
            RouteTarget::Proxy(route) => {
                with_slashes(path).is_none_or(|path| self.is_for(*route, &path))
            }
            RouteTarget::Folder(_) | RouteTarget::Redirect(_) => true,
        };
        is_served.then_some((target, rest))
    }

    /// Whether `path`, [with slashes](with_slashes), is for the service of this route.
    fn is_for(&self, route: usize, path: &str) -> bool {
        let taker = self.paths.first_slashed(path, |_| true).map(|index| &self.targets[index]);
        matches!(taker, Some(RouteTarget::Proxy(other)) if *other == route)
    }
}

/// What becomes of a path, if a route takes it, and what of the path is below the route's.
type PathTarget<'h, 'p> = Option<(&'h RouteTarget, &'p str)>;

impl Hosts<Arc<Host>> {
    /// Which host a request at `authority` is for, and what becomes of its `path` there. No other
    /// host has it if this one has not, not even the one without names.
    pub(crate) fn target<'p>(
        &self,
        authority: Option<&str>,
        path: &'p str,
    ) -> Option<(&Arc<Host>, PathTarget<'_, 'p>)> {
        let host = self.find(authority)?;
        Some((host, host.target(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<HostName> {
        names.iter().map(|name| HostName::of(name).unwrap()).collect()
    }

    fn check(hosts: &Hosts<char>, authority: &str, expected: Option<char>) {
        assert_eq!(hosts.find(Some(authority)).copied(), expected, "{authority}");
    }

    #[test]
    fn a_name_is_compared_without_port_and_case() {
        let (a, b) = (names(&["a.example", "[::1]"]), names(&["*.a.example", "x.a.example"]));
        let hosts = Hosts::new([(&a[..], 'a'), (&b[..], 'b')]);
        for name in ["a.example", "A.Example:8080", "a.example.", "a.example.:80", "[::1]:80"] {
            check(&hosts, name, Some('a'));
        }
        for name in ["b.a.example", "B.A.EXAMPLE:1", "x.a.example"] {
            check(&hosts, name, Some('b'));
        }
        for name in ["c.b.a.example", ".a.example", "example", "", "a.example:x", "[::2]"] {
            check(&hosts, name, None);
        }
        assert_eq!(hosts.find(None), None);
    }

    #[test]
    fn a_name_goes_before_a_pattern_and_either_before_the_default() {
        let (own, all) = (names(&["a.example"]), names(&["*.example"]));
        let hosts = Hosts::new([(&[][..], 'd'), (&all[..], 'p'), (&own[..], 'o')]);
        check(&hosts, "a.example", Some('o'));
        check(&hosts, "b.example", Some('p'));
        check(&hosts, "b.org", Some('d'));
        assert_eq!(hosts.find(None), Some(&'d'));
    }

    #[test]
    fn a_service_gets_no_path_that_is_for_another_route_with_slashes() {
        let redirect = Redirect { to: "/".to_owned(), status: StatusCode::FOUND };
        let routes = [
            ("/api/v2", RouteTarget::Proxy(1)),
            ("/api", RouteTarget::Proxy(0)),
            ("/old", RouteTarget::Redirect(redirect)),
            ("/", RouteTarget::Proxy(2)),
        ];
        let routes = routes.into_iter().map(|(path, target)| (PathPrefix::new(path), target));
        let host = Arc::new(Host::new(routes.collect(), Vec::new()));
        let hosts = Hosts::new([(&[][..], host)]);
        let service = |path| match hosts.target(None, path).unwrap().1 {
            Some((RouteTarget::Proxy(route), _)) => Some(*route),
            _ => None,
        };
        for (path, expected) in [
            ("/api/a%2Fb", Some(0)),
            ("/api/v2/a\\b", Some(1)),
            ("/a%2fb", Some(2)),
            ("/api/v3%2Fb", Some(0)),
            ("/api%2Fx", None),
            ("/api%2f..%2fx", None),
            ("/api\\x", None),
            ("/api/v2%5cx", None),
            ("/old%2Fx", None),
        ] {
            assert_eq!(service(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_host_has_no_name() {
        for text in ["", "*", "*.", "a b", "a.example:80", "a/b", "*.*.a", "a.example."] {
            assert_eq!(HostName::of(text), None, "{text}");
        }
    }
}
