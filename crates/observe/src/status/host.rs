//! Host names that the status port accepts.
//!
//! A page of another site can have its name resolve to this machine (DNS rebinding); the browser then
//! lets the page read what it finds here. The name in its requests is still the one of that site.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use http::Request;
use http::header::HOST;
use http::uri::Authority;
use rustix::system::uname;

/// The name of this machine.
static MACHINE: LazyLock<String> =
    LazyLock::new(|| uname().nodename().to_string_lossy().into_owned());

/// Whether `request` is for an address, `localhost`, this machine's name or one of `names`; or names
/// no host, as no browser does.
pub(super) fn is_known<B>(request: &Request<B>, names: &[String]) -> bool {
    let field = || request.headers().get(HOST).map(|value| value.to_str().unwrap_or_default());
    match request.uri().authority().map(Authority::as_str).or_else(field) {
        Some(authority) => is_known_name(authority, &MACHINE, names),
        None => true,
    }
}

fn is_known_name(authority: &str, machine: &str, names: &[String]) -> bool {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(ip, _)| ip.parse::<Ipv6Addr>().is_ok());
    }
    let name = authority.split_once(':').map_or(authority, |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    name.parse::<IpAddr>().is_ok()
        || is("localhost")
        || (!machine.is_empty() && is(machine))
        || names.iter().any(|known| is(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(authority: &str, expected: bool) {
        let names = ["status.example".to_owned()];
        assert_eq!(is_known_name(authority, "build-7", &names), expected, "{authority}");
    }

    #[test]
    fn addresses_and_names_of_this_machine_are_known() {
        check("127.0.0.1:9090", true);
        check("10.1.2.3", true);
        check("[::1]:9090", true);
        check("[fd00::7]", true);
        check("localhost:9090", true);
        check("LocalHost.", true);
        check("build-7:9090", true);
    }

    #[test]
    fn a_name_that_was_added_is_known() {
        check("Status.Example:9090", true);
        check("status.example.", true);
    }

    #[test]
    fn any_other_name_is_not() {
        check("evil.example:9090", false);
        check("localhost.evil.example", false);
        check("127.0.0.1.evil.example", false);
        check("x.status.example", false);
        check("[evil.example]", false);
        check("", false);
    }

    #[test]
    fn a_request_without_a_host_is_answered() {
        assert!(is_known(&Request::new(()), &[]));
        let request = |name| Request::builder().uri("/").header("host", name).body(()).unwrap();
        assert!(is_known(&request("localhost"), &[]));
        assert!(!is_known(&request("evil.example"), &[]));
        let of_http2 = Request::builder().uri("http://evil.example/").body(()).unwrap();
        assert!(!is_known(&of_http2, &[]));
    }
}
