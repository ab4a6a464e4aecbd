//! Which bytes may stand where in a head [RFC9110 §5, RFC9112 §2–5].

use std::net::Ipv6Addr;

use http::uri::Authority;

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const TARGET: u8 = 4;
const HOST: u8 = 8;

/// For each byte, the places in which it may stand.
static PLACES: [u8; 256] = places();

const fn places() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let alphanumeric = b.is_ascii_alphanumeric();
        if alphanumeric || in_set(b, b"!#$%&'*+-.^_`|~") {
            table[byte] |= TOKEN;
        }
        if b == b'\t' || (b >= b' ' && b != 0x7f) {
            table[byte] |= VALUE;
        }
        // What [RFC3986] allows, and what browsers leave unescaped all the same.
        // `#` would start a fragment, which is never sent.
        if alphanumeric || in_set(b, b"-._~:/?[]@!$&'()*+,;=%\\^{|}") {
            table[byte] |= TARGET;
        }
        if alphanumeric || in_set(b, b"-._~!$&'()*+,;=%") {
            table[byte] |= HOST;
        }
        byte += 1;
    }
    table
}

const fn in_set(byte: u8, set: &[u8]) -> bool {
    let mut index = 0;
    while index < set.len() {
        if set[index] == byte {
            return true;
        }
        index += 1;
    }
    false
}

fn all(bytes: &[u8], place: u8) -> bool {
    // They are short: a look at each costs less than a decision at each.
    bytes.iter().fold(place, |places, &byte| places & PLACES[byte as usize]) != 0
}

/// Whether `byte` may stand in a token: a method or a field name.
pub fn is_token(byte: u8) -> bool {
    PLACES[byte as usize] & TOKEN != 0
}

/// Whether `byte` may stand in a field value.
pub fn is_value(byte: u8) -> bool {
    PLACES[byte as usize] & VALUE != 0
}

/// Whether all of `bytes` may stand in a field value.
pub fn are_values(bytes: &[u8]) -> bool {
    all(bytes, VALUE)
}

/// A value of digits alone, within 64 bits.
pub fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether the comma-separated list `value` has `option` in it, in whichever case: as a
/// `Connection` names its options [RFC9110 §7.6.1].
pub fn lists(value: &[u8], option: &[u8]) -> bool {
    value.split(|&byte| byte == b',').any(|listed| listed.trim_ascii().eq_ignore_ascii_case(option))
}

/// `uri-host [ ":" port ]`, or nothing at all [RFC9110 §7.2]. Of a name the characters are
/// checked, not whether such a host could exist.
pub fn is_host(value: &[u8]) -> bool {
    let (is_host, end) = match value {
        [b'[', literal @ ..] => match literal.iter().position(|&byte| byte == b']') {
            Some(length) => (is_ipv6(&literal[..length]), length + 2),
            None => return false,
        },
        _ => {
            let end = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
            (all(&value[..end], HOST), end)
        }
    };
    is_host
        && match &value[end..] {
            [] => true,
            [b':', port @ ..] => {
                port.is_empty() || decimal(port).is_some_and(|port| port < 1 << 16)
            }
            _ => false,
        }
}

fn is_ipv6(literal: &[u8]) -> bool {
    std::str::from_utf8(literal).is_ok_and(|literal| literal.parse::<Ipv6Addr>().is_ok())
}

/// One of the four forms of a request target [RFC9112 §3.2], with an authority as in `Host`: no
/// userinfo, which has only ever served to deceive, and no port that is none.
pub fn is_target(target: &[u8], method: &[u8], is_connect: bool) -> bool {
    if is_connect {
        return is_uri_with(target, |uri| {
            uri.scheme().is_none() && uri.path() == "" && uri.port().is_some()
        });
    }
    match target {
        [b'/' | b'*', ..] => is_path(target, method),
        _ => is_uri_with(target, |uri| matches!(uri.scheme_str(), Some("http" | "https"))),
    }
}

/// A path with its query, or the asterisk that stands for the whole server.
pub fn is_path(target: &[u8], method: &[u8]) -> bool {
    match target {
        [b'/', ..] => all(target, TARGET),
        b"*" => method == b"OPTIONS",
        _ => false,
    }
}

fn is_uri_with(target: &[u8], condition: impl Fn(&http::Uri) -> bool) -> bool {
    all(target, TARGET)
        && http::Uri::try_from(target).is_ok_and(|uri| {
            let is_place = |authority: &Authority| is_host(authority.as_str().as_bytes());
            uri.authority().is_some_and(is_place) && condition(&uri)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_passes_in_a_target_is_one_that_hyper_takes() {
        for byte in 0..=255_u8 {
            for target in [[b'/', byte, b'a', b'b'], [b'/', b'?', byte, b'b']] {
                let ours = is_target(&target, b"GET", false);
                assert!(!ours || http::Uri::try_from(&target[..]).is_ok(), "{byte:#x}");
            }
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_may_have_a_port() {
        for host in ["", "a", "a.example:80", "a:", "[::1]", "[::1]:65535", "127.0.0.1:1", "a;c"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "a:80:80",
            "[::1",
            "[]",
            "[a]",
            "[::1]80",
            "[::1]:x",
            "::1",
            "a:b;c",
            "a:65536",
            "a b",
            "a@b",
            "a/b",
            "a:+1",
            "[::1%25eth0]",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn an_authority_in_a_target_is_a_host_as_in_its_field() {
        let is_target = |target: &str| is_target(target.as_bytes(), b"GET", false);
        for target in ["http://a.example:80/b?c", "https://[::1]:65535/", "http://a;c/"] {
            assert!(is_target(target), "{target}");
        }
        for target in ["http://a:b;c/", "http://a:99999/", "http://a:80:80/", "http://u@a/"] {
            assert!(!is_target(target), "{target}");
        }
    }

    #[test]
    fn options_are_found_in_a_list_and_not_in_other_words() {
        for value in ["close", "Close", "x, close", "x ,\tCLOSE , y"] {
            assert!(lists(value.as_bytes(), b"close"), "{value}");
        }
        for value in ["", "x", "closed", "x-close", "clo se"] {
            assert!(!lists(value.as_bytes(), b"close"), "{value}");
        }
    }

    #[test]
    fn a_length_is_digits_alone_and_fits_64_bits() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"+1", b"-1", b"1,1", b"0x1", b"1 1", b"18446744073709551616"] {
            assert_eq!(decimal(wrong), None, "{wrong:?}");
        }
    }
}
