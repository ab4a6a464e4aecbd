//! The hosts of requests, as routes name them, and an index by host.

use std::borrow::Cow;
use std::collections::HashMap;

/// A host name, or all names below one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This name alone.
    Exactly(String),
    /// Any name that ends in a dot and this one, with however many labels before.
    Below(String),
}

/// The name in `authority`: without a port, and without the dot of the root at its end.
pub fn host_name(authority: &str) -> &str {
    let name = match authority.rsplit_once(':') {
        // The last colon of a bare IPv6 address is inside of the brackets.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// `name` in lower case.
pub fn lower_case(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => name.to_ascii_lowercase().into(),
        false => name.into(),
    }
}

/// What belongs to host patterns, by the names of hosts: a lookup costs what the name costs,
/// however many patterns there are.
#[derive(Clone, Debug, Default)]
pub(super) struct HostIndex<T> {
    exactly: HashMap<String, T>,
    below: HashMap<String, T>,
    /// Length of the longest name of `below`.
    below_max: usize,
    any: T,
}

impl<T: Default> HostIndex<T> {
    /// What belongs to `pattern`, or to all hosts.
    pub(super) fn entry(&mut self, pattern: Option<&HostPattern>) -> &mut T {
        let (map, name) = match pattern {
            None => return &mut self.any,
            Some(HostPattern::Exactly(name)) => (&mut self.exactly, name),
            Some(HostPattern::Below(domain)) => {
                self.below_max = self.below_max.max(domain.len());
                (&mut self.below, domain)
            }
        };
        map.entry(name.to_ascii_lowercase()).or_default()
    }

    /// With another in place of each.
    pub(super) fn map<U>(self, map: impl Fn(T) -> U) -> HostIndex<U> {
        let each = |of: HashMap<String, T>| of.into_iter().map(|(k, v)| (k, map(v))).collect();
        let (exactly, below, any) = (each(self.exactly), each(self.below), map(self.any));
        HostIndex { exactly, below, below_max: self.below_max, any }
    }

    /// Whether it has a pattern, so that it matters which host a request is for.
    pub(super) fn tells_hosts_apart(&self) -> bool {
        !self.exactly.is_empty() || !self.below.is_empty()
    }

    /// The first that is found in what belongs to the patterns that fit the host of this `name`,
    /// which is in lower case: the most exact pattern first, all hosts last.
    pub(super) fn find_map<U>(
        &self,
        name: Option<&str>,
        find: impl Fn(&T) -> Option<U>,
    ) -> Option<U> {
        let exactly = name.and_then(|name| self.exactly.get(name));
        let below = name.into_iter().flat_map(|name| self.below(name));
        exactly.into_iter().chain(below).chain([&self.any]).find_map(find)
    }

    /// What belongs to the patterns that this `name` is below, the longest first.
    fn below<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a T> {
        // What is longer than all of them is not looked for: hosts may be sent with many labels.
        let from = match self.below.is_empty() {
            true => name.len(),
            false => name.len().saturating_sub(self.below_max + 1),
        };
        let dots = name.as_bytes()[from..].iter().enumerate().filter(|(_, byte)| **byte == b'.');
        dots.filter_map(move |(at, _)| self.below.get(&name[from + at + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: HostPattern, host: &str) -> bool {
        let mut index = HostIndex::<bool>::default();
        *index.entry(Some(&pattern)) = true;
        index.find_map(Some(&lower_case(host_name(host))), |fits| fits.then_some(())).is_some()
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
        assert!(!fits(below(), "é") && !fits(below(), "éxxxxxx.é"));
    }
}
