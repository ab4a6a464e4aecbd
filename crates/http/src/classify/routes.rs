use std::net::IpAddr;

use http::{HeaderMap, Method};
use tamarisk_control::ClassId;

use super::condition::{Condition, is_below};

/// All routes, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(Vec<Route>);

/// Where a kind of requests goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The hosts it serves; any if there is none.
    pub host: Option<HostPattern>,
    /// The path it serves, with all below it; `/` for any.
    pub path: String,
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
    /// Any name that ends in a dot and this one.
    Below(String),
}

/// What was chosen for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which upstream, by its position.
    pub upstream: usize,
    /// The class at that upstream's gate.
    pub class: ClassId,
    /// The answer comes little by little.
    pub streams: bool,
}

impl Routes {
    /// These routes, to be tried in this order.
    pub fn new(routes: Vec<Route>) -> Self {
        Self(routes)
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
        let route = self.0.iter().find(|route| route.takes(method, &host, path))?;
        Some(route.choice(path, headers, client))
    }

    /// As what a request goes that is known to be for the route of this `index`.
    pub(crate) fn choice(
        &self,
        index: usize,
        path: &str,
        headers: &HeaderMap,
        client: impl Fn() -> IpAddr,
    ) -> Choice {
        self.0[index].choice(path, headers, client)
    }
}

impl Route {
    /// The route that takes every request, to `upstream` as its first class.
    pub fn everything(upstream: usize) -> Self {
        Self {
            host: None,
            path: "/".to_owned(),
            methods: Vec::new(),
            upstream,
            classes: Vec::new(),
            otherwise: ClassId::DEFAULT,
            streams: false,
        }
    }

    fn choice(&self, path: &str, headers: &HeaderMap, client: impl Fn() -> IpAddr) -> Choice {
        let class = if self.classes.is_empty() {
            self.otherwise
        } else {
            let client = client();
            let holds = |condition: &Condition| condition.holds(path, headers, client);
            let rule = self.classes.iter().find(|rule| rule.any.iter().any(holds));
            rule.map_or(self.otherwise, |rule| rule.class)
        };
        Choice { upstream: self.upstream, class, streams: self.streams }
    }

    fn takes<'h>(&self, method: &Method, host: impl Fn() -> Option<&'h str>, path: &str) -> bool {
        let host_fits = |pattern: &HostPattern| host().is_some_and(|host| pattern.fits(host));
        (self.methods.is_empty() || self.methods.contains(method))
            && self.host.as_ref().is_none_or(host_fits)
            // The one target that is no path: `OPTIONS *`.
            && (is_below(path, &self.path) || (self.path == "/" && path == "*"))
    }
}

impl HostPattern {
    /// `host` may come with a port, in whatever case.
    fn fits(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            // The last colon of a bare IPv6 address is inside of the brackets.
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
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
    fn a_host_is_compared_without_port_and_case() {
        let exact = || HostPattern::Exactly("a.example".to_owned());
        assert!(fits(exact(), "A.Example:8080"));
        assert!(fits(exact(), "a.example"));
        assert!(!fits(exact(), "b.a.example"));
        assert!(fits(HostPattern::Exactly("[::1]".to_owned()), "[::1]:80"));
        assert!(fits(HostPattern::Exactly("[::1]".to_owned()), "[::1]"));
        let below = || HostPattern::Below("example".to_owned());
        assert!(fits(below(), "a.b.EXAMPLE:80"));
        assert!(!fits(below(), "example"));
        assert!(!fits(below(), "aexample"));
        assert!(!fits(below(), "é"));
    }

    #[test]
    fn the_first_route_and_the_first_class_that_fit_are_chosen() {
        let class = |index: usize, prefix: &str| ClassRule {
            any: vec![Condition::Path(prefix.to_owned())],
            class: ClassId::new(index),
        };
        let mut posts = Route::everything(1);
        posts.methods = vec![Method::POST];
        let mut rest = Route::everything(0);
        rest.path = "/a".to_owned();
        rest.classes = vec![class(1, "/a/b"), class(2, "/a")];
        let routes = Routes::new(vec![posts, rest]);
        let choose = |method: Method, path: &str| {
            let client = || "192.0.2.1".parse().unwrap();
            let choice = routes.choose(&method, || None, path, &HeaderMap::new(), client);
            choice.map(|choice| (choice.upstream, choice.class.index()))
        };
        assert_eq!(choose(Method::POST, "/a/b"), Some((1, 0)));
        assert_eq!(choose(Method::GET, "/a/b/c"), Some((0, 1)));
        assert_eq!(choose(Method::GET, "/a/c"), Some((0, 2)));
        assert_eq!(choose(Method::GET, "/c"), None);
    }
}
