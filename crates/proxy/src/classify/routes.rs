//! Which route, class and client a request belongs to.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Method};
use tamarisk_control::ClassId;

use super::condition::Condition;
use super::kind::kind_of;
use super::path::{PathPrefix, Reading, has_dot_segments, with_slashes};

/// All routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    routes: Vec<Route>,
    /// Their positions, those that are for the fewest requests first.
    order: Vec<usize>,
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
}

/// When a request of a route is of a class: when any of the conditions holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRule {
    /// One of them must hold.
    pub any: Vec<Condition>,
    /// The class at the upstream's gate.
    pub class: ClassId,
}

/// A host name, or all names below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This name alone.
    Exactly(String),
    /// Any name that ends in a dot and this one, with however many labels before.
    Below(String),
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
    /// The path has a name that is only dots, or may lead to another route or class where slashes
    /// are escaped: it is not passed on.
    pub is_ambiguous: bool,
    /// What kind of work it is: requests of one kind take about as long. Never 0.
    pub kind: u64,
}

impl Routes {
    /// These routes. Of those that are for the same requests, the first one takes them.
    pub fn new(routes: Vec<Route>) -> Self {
        let mut order: Vec<_> = (0..routes.len()).collect();
        order.sort_by_key(|&index| Reverse(routes[index].depth()));
        Self { routes, order }
    }

    /// Where a request goes and as what; `None` if no route takes it.
    ///
    /// `host` and `client`, its client's address, are asked for only if needed.
    pub fn choose<'h>(
        &self,
        method: &Method,
        host: impl Fn() -> Option<&'h str>,
        path: &str,
        headers: &HeaderMap,
        client: impl Fn() -> IpAddr,
    ) -> Option<Choice> {
        let index = self.taker(method, &host, Reading::Sent(path))?;
        let choice = self.choice(index, method, path, headers, client);
        let is_another = with_slashes(path)
            .is_some_and(|path| self.taker(method, &host, Reading::Slashed(&path)) != Some(index));
        Some(Choice { is_ambiguous: choice.is_ambiguous || is_another, ..choice })
    }

    /// The route that takes a request, by its position.
    fn taker<'h>(
        &self,
        method: &Method,
        host: impl Fn() -> Option<&'h str>,
        path: Reading<'_>,
    ) -> Option<usize> {
        let takes = |index: &&usize| self.routes[**index].takes(method, &host, path);
        self.order.iter().find(takes).copied()
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
        let route = &self.routes[index];
        let class = route.class(Reading::Sent(path), headers, &client);
        let is_another = !route.classes.is_empty()
            && with_slashes(path).is_some_and(|path| {
                route.class(Reading::Slashed(&path), headers, &client) != class
            });
        let is_ambiguous = has_dot_segments(path) || is_another;
        let &Route { upstream, streams, .. } = route;
        let kind = kind_of(method, path);
        Choice { route: index, upstream, class, streams, is_ambiguous, kind }
    }

    /// What the operator calls the route of this `index`.
    pub(crate) fn name(&self, index: usize) -> &Arc<str> {
        &self.routes[index].name
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

    /// The greater, the fewer requests it is for.
    fn depth(&self) -> (usize, usize, bool) {
        (
            self.host.as_ref().map_or(0, HostPattern::depth),
            self.path.depth(),
            !self.methods.is_empty(),
        )
    }

    fn takes<'h>(
        &self,
        method: &Method,
        host: impl Fn() -> Option<&'h str>,
        path: Reading<'_>,
    ) -> bool {
        let host_fits = |pattern: &HostPattern| host().is_some_and(|host| pattern.fits(host));
        (self.methods.is_empty() || self.methods.contains(method))
            && self.host.as_ref().is_none_or(host_fits)
            && path.is_below(&self.path)
    }
}

impl HostPattern {
    /// The greater, the fewer hosts it is for.
    fn depth(&self) -> usize {
        match self {
            Self::Exactly(_) => usize::MAX,
            Self::Below(domain) => domain.len(),
        }
    }

    /// `host` may come with a port, in whatever case, and with the dot of the root at its end.
    fn fits(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            // The last colon of a bare IPv6 address is inside of the brackets.
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        match self {
            Self::Exactly(expected) => name.eq_ignore_ascii_case(expected),
            Self::Below(domain) => {
                let split = name.len().checked_sub(domain.len() + 1);
                split.and_then(|at| name.split_at_checked(at)).is_some_and(|(_, end)| {
                    end.starts_with('.') && end[1..].eq_ignore_ascii_case(domain)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: HostPattern, host: &str) -> bool {
        pattern.fits(host)
    }

    #[test]
    fn a_host_is_compared_without_port_case_and_last_dot() {
        let exact = || HostPattern::Exactly("a.example".to_owned());
        assert!(fits(exact(), "A.Example:8080"));
        assert!(fits(exact(), "a.example"));
        assert!(fits(exact(), "a.example.") && fits(exact(), "a.example.:80"));
        assert!(!fits(exact(), "b.a.example") && !fits(exact(), "a.example.."));
        assert!(fits(HostPattern::Exactly("[::1]".to_owned()), "[::1]:80"));
        assert!(fits(HostPattern::Exactly("[::1]".to_owned()), "[::1]"));
        let below = || HostPattern::Below("example".to_owned());
        assert!(fits(below(), "a.b.EXAMPLE:80") && fits(below(), "a.example.:80"));
        assert!(!fits(below(), "example"));
        assert!(!fits(below(), "aexample"));
        assert!(!fits(below(), "é"));
    }

    fn class(index: usize, prefix: &str) -> ClassRule {
        let any = vec![Condition::Path(PathPrefix::new(prefix))];
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
}
