//! Which route, class and client a request belongs to.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Method};
use tamarisk_control::ClassId;

use super::condition::Condition;
use super::hosts::{HostIndex, HostPattern, host_name, lower_case};
use super::kind::kind_of;
use super::path::{PathPrefix, Reading, has_dot_segments, with_slashes};
use super::path_tree::PathTree;
use crate::request_buffering::RequestBuffering;

/// All routes; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Routes(Arc<Index>);

/// Routes, by host and path.
#[derive(Debug, Default)]
struct Index {
    routes: Vec<Route>,
    hosts: HostIndex<RoutesOfHost>,
}

/// The routes that name the same host, or none.
#[derive(Debug, Default)]
struct RoutesOfHost {
    /// Their positions among all, those that are for the fewest requests first.
    order: Vec<usize>,
    /// Their paths, in this order.
    paths: PathTree,
}

/// Where a kind of requests goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What the operator calls it.
    pub name: Arc<str>,
    /// The hosts it serves; any if there is none.
    pub host: Option<HostPattern>,
    /// The path it serves, with all below it; `/` for any.
    pub path: PathPrefix,
    /// The methods it serves; any if there is none.
    pub methods: Vec<Method>,
    /// Which upstream, by its position.
    pub upstream: usize,
    /// The classes of its requests, in the order in which they are tried.
    pub classes: Vec<ClassRule>,
    /// The class of those that fit none of them.
    pub otherwise: ClassId,
    /// Its answers come little by little, whatever their type says.
    pub streams: bool,
    /// Whether the bodies of its requests are read before their requests are let in; `None` as its
    /// upstream says.
    pub request_buffering: Option<RequestBuffering>,
}

/// When a request of a route is of a class: when any of the conditions holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRule {
    /// One of them must hold.
    pub any: Arc<[Condition]>,
    /// The class at the upstream's gate.
    pub class: ClassId,
}

/// What was chosen for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which route, by its position.
    pub route: usize,
    /// Which upstream, by its position.
    pub upstream: usize,
    /// The class at that upstream's gate.
    pub class: ClassId,
    /// The answer comes little by little.
    pub streams: bool,
    /// What the route says of its requests' bodies.
    pub request_buffering: Option<RequestBuffering>,
    /// The path has a name that is only dots, or may lead to another route or class where slashes
    /// are escaped: it is not passed on.
    pub is_ambiguous: bool,
    /// What kind of work it is: requests of one kind take about as long. Never 0.
    pub kind: u64,
}

impl Routes {
    /// These routes. Of those that are for the same requests, the first one takes them.
    pub fn new(routes: Vec<Route>) -> Self {
        let mut hosts = HostIndex::<Vec<usize>>::default();
        for (index, route) in routes.iter().enumerate() {
            hosts.entry(route.host.as_ref()).push(index);
        }
        let hosts = hosts.map(|order| RoutesOfHost::new(order, &routes));
        Self(Arc::new(Index { routes, hosts }))
    }

    /// Where a request goes and as what; `None` if no route takes it.
    ///
    /// `host` and `client`, its client's address, are asked for only if needed.
    pub fn choose<'h>(
        &self,
        method: &Method,
        host: impl FnOnce() -> Option<&'h str>,
        path: &str,
        headers: &HeaderMap,
        client: impl Fn() -> IpAddr,
    ) -> Option<Choice> {
        let host = if self.0.hosts.tells_hosts_apart() { host() } else { None };
        let host = host.map(|host| lower_case(host_name(host)));
        let index = self.taker(method, host.as_deref(), Reading::Sent(path))?;
        let choice = self.choice(index, method, path, headers, client);
        let is_another = with_slashes(path).is_some_and(|path| {
            self.taker(method, host.as_deref(), Reading::Slashed(&path)) != Some(index)
        });
        Some(Choice { is_ambiguous: choice.is_ambiguous || is_another, ..choice })
    }

    /// The route that takes a request, by its position.
    fn taker(&self, method: &Method, host: Option<&str>, path: Reading<'_>) -> Option<usize> {
        let Index { routes, hosts } = &*self.0;
        hosts.find_map(host, |RoutesOfHost { order, paths }| {
            let takes_method = |place: usize| routes[order[place]].takes_method(method);
            let place = match path {
                Reading::Sent(path) => paths.first(path, takes_method).map(|(place, _)| place),
                Reading::Slashed(path) => paths.first_slashed(path, takes_method),
            };
            place.map(|place| order[place])
        })
    }

    /// As what a request goes that is known to be for the route of this `index`.
    pub(crate) fn choice(
        &self,
        index: usize,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        client: impl Fn() -> IpAddr,
    ) -> Choice {
        let route = &self.0.routes[index];
        let class = route.class(Reading::Sent(path), headers, &client);
        let is_another = !route.classes.is_empty()
            && with_slashes(path).is_some_and(|path| {
                route.class(Reading::Slashed(&path), headers, &client) != class
            });
        let is_ambiguous = has_dot_segments(path) || is_another;
        let &Route { upstream, streams, request_buffering, .. } = route;
        let kind = kind_of(method, path);
        Choice { route: index, upstream, class, streams, request_buffering, is_ambiguous, kind }
    }

    /// What the operator calls the route of this `index`.
    pub(crate) fn name(&self, index: usize) -> &Arc<str> {
        &self.0.routes[index].name
    }
}

impl PartialEq for Routes {
    fn eq(&self, other: &Self) -> bool {
        self.0.routes == other.0.routes
    }
}

impl Eq for Routes {}

impl RoutesOfHost {
    fn new(mut order: Vec<usize>, routes: &[Route]) -> Self {
        order.sort_by_key(|&index| {
            let route = &routes[index];
            Reverse((route.path.depth(), !route.methods.is_empty()))
        });
        let paths = PathTree::new(order.iter().map(|&index| &routes[index].path));
        Self { order, paths }
    }
}

impl Route {
    /// The route that takes every request, to `upstream` as its first class.
    pub fn everything(upstream: usize) -> Self {
        Self {
            name: "/".into(),
            host: None,
            path: PathPrefix::default(),
            methods: Vec::new(),
            upstream,
            classes: Vec::new(),
            otherwise: ClassId::DEFAULT,
            streams: false,
            request_buffering: None,
        }
    }

    fn class(
        &self,
        path: Reading<'_>,
        headers: &HeaderMap,
        client: impl Fn() -> IpAddr,
    ) -> ClassId {
        if self.classes.is_empty() {
            return self.otherwise;
        }
        let client = client();
        let holds = |condition: &Condition| condition.holds(path, headers, client);
        let rule = self.classes.iter().find(|rule| rule.any.iter().any(holds));
        rule.map_or(self.otherwise, |rule| rule.class)
    }

    fn takes_method(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn class(index: usize, prefix: &str) -> ClassRule {
        let any = [Condition::Path(PathPrefix::new(prefix))].into();
        ClassRule { any, class: ClassId::new(index) }
    }

    fn choice(routes: &Routes, method: Method, url: &str) -> Option<Choice> {
        let (host, path) = url.split_at(url.find('/').unwrap());
        let client = || "192.0.2.1".parse().unwrap();
        let host = || (!host.is_empty()).then_some(host);
        routes.choose(&method, host, path, &HeaderMap::new(), client)
    }

    /// The upstream and the class of a request.
    fn choose(routes: &Routes, method: Method, url: &str) -> Option<(usize, usize)> {
        choice(routes, method, url).map(|choice| (choice.upstream, choice.class.index()))
    }

    #[test]
    fn the_longest_route_and_the_first_class_that_fit_are_chosen() {
        let mut rest = Route::everything(0);
        rest.path = PathPrefix::new("/a");
        rest.classes = vec![class(1, "/a/b"), class(2, "/a")];
        let mut longer = Route::everything(1);
        longer.path = PathPrefix::new("/a/b/c");
        let mut posts = Route::everything(2);
        posts.path = PathPrefix::new("/a");
        posts.methods = vec![Method::POST];
        let routes = Routes::new(vec![rest, longer, posts]);
        assert_eq!(choose(&routes, Method::GET, "/a/b/d"), Some((0, 1)));
        assert_eq!(choose(&routes, Method::GET, "/a/c"), Some((0, 2)));
        assert_eq!(choose(&routes, Method::GET, "/a/%62/c"), Some((1, 0)));
        assert_eq!(choose(&routes, Method::POST, "/a/b/c/d"), Some((1, 0)));
        assert_eq!(choose(&routes, Method::POST, "/a/b"), Some((2, 0)));
        assert_eq!(choose(&routes, Method::GET, "/c"), None);
    }

    #[test]
    fn a_path_is_not_passed_on_that_has_another_route_or_class_with_slashes() {
        let route = |upstream, path, classes| {
            let path = PathPrefix::new(path);
            Route { path, classes, ..Route::everything(upstream) }
        };
        let routes = Routes::new(vec![
            route(0, "/", vec![class(1, "/a/b"), class(2, "/c%2fd")]),
            route(1, "/search", Vec::new()),
            route(2, "/projects%2fX", Vec::new()),
            route(3, "/projects", Vec::new()),
        ]);
        let passes = |path: &str| !choice(&routes, Method::GET, path).unwrap().is_ambiguous;
        for path in [
            "/search%2fx",
            "/search%2F",
            "/search%5Cx",
            "/search%5c",
            "/search\\x",
            "/projects/X%2Fy",
            "/a%2Fb",
            "/a\\b/x",
            "/a/b%2Fc",
            "/;%2fa/b",
            "/%61%2f%62",
            "/c/d%2fe",
            "/a%00",
            "/..%00/",
        ] {
            assert!(!passes(path), "{path}");
        }
        for path in [
            "/search/a%2fb",
            "/a/b/c%2Fd",
            "/a/b/c\\d",
            "/c%2Fd/e",
            "/api/v4/projects/a%2Fb",
            "/projects%2FX/y",
            "/projects/a%5Cb",
            "/search%252fx",
            "/b%C3%BC",
        ] {
            assert!(passes(path), "{path}");
        }
    }

    #[test]
    fn a_host_goes_before_a_pattern_and_either_before_a_path() {
        let hosts = ["*", "*.example", "*.b.example", "a.b.example"];
        let routes = hosts.iter().enumerate().map(|(upstream, host)| {
            let mut route = Route::everything(upstream);
            route.host = match host.strip_prefix("*.") {
                Some(domain) => Some(HostPattern::Below(domain.to_owned())),
                None if *host == "*" => None,
                None => Some(HostPattern::Exactly((*host).to_owned())),
            };
            if route.host.is_none() {
                route.path = PathPrefix::new("/a/b/c");
            }
            route
        });
        let routes = Routes::new(routes.collect());
        for (url, upstream) in [
            ("a.b.example/a/b/c", 3),
            ("c.b.example/a/b/c", 2),
            ("c.example/a/b/c", 1),
            ("b.example/a/b/c", 1),
            ("example/a/b/c", 0),
            ("/a/b/c", 0),
        ] {
            assert_eq!(choose(&routes, Method::GET, url), Some((upstream, 0)), "{url}");
        }
    }

    /// The plain rule: each route is tried in turn, those that are for the fewest requests first.
    fn one_by_one(routes: &[Route], method: &Method, host: &str, path: &str) -> Option<usize> {
        let name = host_name(host);
        let fits = |pattern: &HostPattern| match pattern {
            HostPattern::Exactly(expected) => name.eq_ignore_ascii_case(expected),
            HostPattern::Below(domain) => {
                let name = name.to_ascii_lowercase();
                name.ends_with(&format!(".{}", domain.to_ascii_lowercase()))
            }
        };
        let host_depth = |route: &Route| match &route.host {
            None => 0,
            Some(HostPattern::Below(domain)) => 1 + domain.len(),
            Some(HostPattern::Exactly(_)) => usize::MAX,
        };
        let depth =
            |route: &Route| (host_depth(route), route.path.depth(), !route.methods.is_empty());
        let takes = |route: &Route| {
            (route.methods.is_empty() || route.methods.contains(method))
                && route.host.as_ref().is_none_or(fits)
                && route.path.takes(path)
        };
        let mut order: Vec<_> = (0..routes.len()).collect();
        order.sort_by_key(|&index| Reverse(depth(&routes[index])));
        order.into_iter().find(|&index| takes(&routes[index]))
    }

    fn host() -> impl Strategy<Value = String> {
        let label = select(vec!["a", "B", "bb", "", "[::1]"]);
        let host = vec(label, 1..5).prop_map(|labels| labels.join("."));
        (host, select(vec!["", ":80", ".", ":", ":x"])).prop_map(|(host, end)| host + end)
    }

    fn path() -> impl Strategy<Value = String> {
        let name = select(vec!["a", "b", "%61", "a;x", ";x", "b%2Fa", "", "c"]);
        vec(name, 0..4).prop_map(|names| format!("/{}", names.join("/")))
    }

    fn method() -> impl Strategy<Value = Method> {
        select(vec![Method::GET, Method::POST, Method::PUT])
    }

    fn route() -> impl Strategy<Value = Route> {
        let pattern = (host(), any::<bool>()).prop_map(|(host, exactly)| match exactly {
            true => HostPattern::Exactly(host),
            false => HostPattern::Below(host),
        });
        (option::of(pattern), path(), vec(method(), 0..2)).prop_map(|(host, path, methods)| {
            let path = PathPrefix::new(&path);
            Route { host, path, methods, ..Route::everything(0) }
        })
    }

    proptest! {
        #[test]
        fn a_request_goes_where_trying_one_route_after_the_other_sends_it(
            routes in vec(route(), 0..20),
            requests in vec((method(), host(), path()), 1..10),
        ) {
            let index = Routes::new(routes.clone());
            for (method, host, path) in requests {
                let client = || "192.0.2.1".parse().unwrap();
                let choice =
                    index.choose(&method, || Some(&*host), &path, &HeaderMap::new(), client);
                let expected = one_by_one(&routes, &method, &host, &path);
                prop_assert_eq!(choice.map(|it| it.route), expected, "{} {}", host, path);
            }
        }
    }
}
