//! A server name with a port, as some proxies send it: `example.com:8443`.
//!
//! The name of a server in a ClientHello has no port [RFC6066 §3], and rustls rejects one that has.
//! Clients that copy it from the `Host` of a request send one nevertheless. Most servers overlook
//! it, and so do we: before rustls reads the hello, the colon becomes `_`, which rustls takes, and
//! no length changes. Whoever must know what was sent turns it back: the
//! [transcript](super::transcript) of the handshake, and the choice of a certificate.
//!
//! A name that is an IPv6 address has more colons than one and stays as it is, in brackets or
//! not. A name whose last label is longer than 63 bytes with the port is rejected by rustls.

use std::ops::Range;

/// Type of the message [RFC8446 §4].
const CLIENT_HELLO: u8 = 1;

/// Type of the extension [RFC6066 §3].
const SERVER_NAME: usize = 0;

/// Type of the name, the only one there is [RFC6066 §3].
const HOST_NAME: usize = 0;

/// Bytes of a message before its body: its type and its length [RFC8446 §4].
const MESSAGE_HEADER: usize = 4;

/// Bytes of a hello before the session id: version and random number [RFC8446 §4.1.2].
const VERSION_AND_RANDOM: usize = 2 + 32;

/// What a client sends between host and port.
pub(super) const SENT: u8 = b':';

/// What rustls sees there.
const MARK: u8 = b'_';

/// Digits of a port: of 65535 at most.
const PORT_DIGITS_MAX: usize = 5;

/// Puts the mark into `message`, if it is a whole ClientHello; whether its server name has a port.
pub(super) fn mark_port(message: &mut [u8]) -> bool {
    let colon = if is_whole(message) { separator_in(message, SENT) } else { None };
    if let Some(colon) = colon {
        message[colon] = MARK;
    }
    colon.is_some()
}

/// Where `message` has the mark, if it is a marked ClientHello, whose end may be missing.
pub(super) fn mark_in(message: &[u8]) -> Option<usize> {
    separator_in(message, MARK)
}

/// `name` without the mark and the port behind it.
pub(super) fn host(name: &str) -> &str {
    separator(name.as_bytes(), MARK).map_or(name, |mark| &name[..mark])
}

fn is_whole(message: &[u8]) -> bool {
    number::<3>(message, 1).is_some_and(|body| MESSAGE_HEADER + body <= message.len())
}

fn separator_in(message: &[u8], byte: u8) -> Option<usize> {
    let name = host_name(message)?;
    Some(name.start + separator(&message[name], byte)?)
}

/// Where `byte` stands between a host and a port.
fn separator(name: &[u8], byte: u8) -> Option<usize> {
    let at = name.iter().rposition(|other| *other == byte)?;
    let (host, port) = (&name[..at], &name[at + 1..]);
    let is_port =
        (1..=PORT_DIGITS_MAX).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    let is_host = !host.is_empty() && !host.contains(&SENT);
    (is_port && is_host).then_some(at)
}

/// Where the server name stands in `message`, if that is a ClientHello; its end may be missing.
fn host_name(message: &[u8]) -> Option<Range<usize>> {
    if *message.first()? != CLIENT_HELLO {
        return None;
    }
    let session_id = MESSAGE_HEADER + VERSION_AND_RANDOM;
    let suites = end_of::<1>(message, session_id)?;
    let compressions = end_of::<2>(message, suites)?;
    let extensions = end_of::<1>(message, compressions)?;
    let end = end_of::<2>(message, extensions)?;
    let mut extension = extensions + 2;
    while extension < end {
        let data = extension + 4;
        let next = end_of::<2>(message, extension + 2)?;
        if number::<2>(message, extension)? == SERVER_NAME {
            return first_name(message, data..next);
        }
        extension = next;
    }
    None
}

/// The first name of a list: rustls takes no second one.
fn first_name(message: &[u8], list: Range<usize>) -> Option<Range<usize>> {
    let kind = list.start + 2;
    let length = kind + 1;
    let name = length + 2..end_of::<2>(message, length)?;
    let is_whole = name.end <= list.end.min(message.len());
    (number::<1>(message, kind)? == HOST_NAME && is_whole).then_some(name)
}

/// The end of what stands at `at`, behind its length in `N` bytes.
fn end_of<const N: usize>(message: &[u8], at: usize) -> Option<usize> {
    Some(at + N + number::<N>(message, at)?)
}

/// The number in the `N` bytes at `at`.
fn number<const N: usize>(message: &[u8], at: usize) -> Option<usize> {
    let bytes = message.get(at..at + N)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A ClientHello that asks for `name` behind another extension, and has one behind it
    /// (RFC 5246, 7.4.1.2).
    pub(crate) fn hello(name: &str) -> Vec<u8> {
        let length = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
        let mut extensions = b"\0\x17\0\0\0\0".to_vec();
        extensions.extend(length(name.len() + 5));
        extensions.extend(length(name.len() + 3));
        extensions.push(0);
        extensions.extend(length(name.len()));
        extensions.extend(name.as_bytes());
        extensions.extend(b"\0\x0a\0\x04\0\x02\0\x17\0\x0d\0\x04\0\x02\x04\x03\0\x0b\0\x02\x01\0");
        let mut message = vec![1, 0, 0, 0, 3, 3];
        message.extend([7; 32]);
        message.extend(b"\x02id\0\x04\xc0\x2b\x13\x01\x01\0");
        message.extend(length(extensions.len()));
        message.extend(extensions);
        let body = length(message.len() - 4);
        message[2..4].copy_from_slice(&body);
        message
    }

    /// Turns the mark back.
    fn unmark(hello: &mut [u8]) {
        let mark = mark_in(hello).expect("it is marked");
        hello[mark] = SENT;
    }

    #[test]
    fn a_name_with_a_port_is_marked_and_turned_back() {
        for (sent, marked, told) in [
            ("example.com:8443", "example.com_8443", "example.com"),
            ("localhost:1", "localhost_1", "localhost"),
            ("web_1:65535", "web_1_65535", "web_1"),
            ("web_1.:443", "web_1._443", "web_1."),
            ("127.0.0.1:443", "127.0.0.1_443", "127.0.0.1"),
        ] {
            let mut hello = hello(sent);
            assert!(mark_port(&mut hello), "{sent}");
            assert_eq!(hello, tests::hello(marked));
            assert_eq!(host(marked), told);
            unmark(&mut hello);
            assert_eq!(hello, tests::hello(sent));
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in [
            "example.com",
            "web_1",
            "example.com:",
            "example.com:654321",
            "example.com:http",
            "example.com:80a",
            ":443",
            ":",
            "",
            "::1",
            "1::2",
            "2001:db8::1:443",
            "[2001:db8::1]:443",
        ] {
            let mut hello = hello(name);
            assert!(!mark_port(&mut hello), "{name}");
            assert_eq!(hello, tests::hello(name));
        }
        assert_eq!(host("example.com"), "example.com");
        assert_eq!(host("_443"), "_443");
    }

    #[test]
    fn a_hello_whose_end_is_missing_is_turned_back_but_not_marked() {
        let sent = hello("a:443");
        let end = sent.windows(5).position(|name| name == b"a:443").unwrap() + 5;
        let mut marked = sent.clone();
        assert!(mark_port(&mut marked));
        for length in 0..sent.len() {
            let mut hello = sent[..length].to_vec();
            assert!(!mark_port(&mut hello), "{length} bytes");
            assert_eq!(mark_in(&marked[..length]).is_some(), length >= end, "{length} bytes");
        }
    }

    #[test]
    fn what_is_no_hello_or_names_something_else_stays_as_it_is() {
        let good = hello("a:443");
        let name = good.windows(5).position(|name| name == b"a:443").unwrap();
        // The message, the type of the name, and the extension, which ends within the name.
        for (at, byte) in [(0, 2), (name - 3, 1), (name - 6, 9)] {
            let mut hello = good.clone();
            hello[at] = byte;
            assert!(!mark_port(&mut hello), "byte {byte} at {at}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn a_marked_hello_differs_in_one_byte_and_turns_back(
            name in "[a-z0-9:._]{0,12}:[0-9]{1,6}",
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            missing in 0_usize..64,
        ) {
            let mut sent = hello(&name);
            for (at, byte) in changes {
                let at = at.index(sent.len());
                sent[at] = byte;
            }
            let mut hello = sent.clone();
            let is_marked = mark_port(&mut hello);
            let differ = hello.iter().zip(&sent).filter(|(byte, other)| byte != other).count();
            prop_assert_eq!(differ, usize::from(is_marked));
            let start = &hello[..hello.len().saturating_sub(missing)];
            if is_marked {
                prop_assert!(mark_in(start).is_none_or(|mark| sent[mark] == SENT));
                unmark(&mut hello);
            }
            prop_assert_eq!(hello, sent);
        }

        #[test]
        fn any_bytes_are_read_to_their_end_at_most(mut bytes in prop::collection::vec(0_u8..4, 0..96)) {
            if let Some(first) = bytes.first_mut() {
                *first = CLIENT_HELLO;
            }
            let mark = mark_in(&bytes);
            prop_assert!(mark.is_none_or(|mark| bytes[mark] == MARK));
            mark_port(&mut bytes);
        }
    }
}
