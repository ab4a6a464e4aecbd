//! The framing watch: what it releases, what it refuses, however the bytes are cut.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use proptest::prelude::*;
use tamarisk_server::guard::{Limits, Violation, Watch};

/// Shows `bytes` to a watch in the pieces that `cuts` make of them; what it
/// released, and the violation if it came to one.
fn show(bytes: &[u8], cuts: &[usize], limits: Limits) -> (Vec<u8>, Option<Violation>, Watch) {
    let mut watch = Watch::new(limits);
    let mut released = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    for end in ends {
        held.extend_from_slice(&bytes[start..end]);
        start = end;
        loop {
            match watch.scan(&held) {
                Ok(0) => break,
                Ok(count) => released.extend(held.drain(..count)),
                Err(violation) => return (released, Some(violation), watch),
            }
        }
    }
    (released, None, watch)
}

fn limits() -> Limits {
    Limits::default().request_line(256).head(1024).body(Some(1000))
}

fn refuses(expected: Violation, bytes: &str) {
    let (released, violation, _) = show(bytes.as_bytes(), &[], limits());
    assert_eq!(violation, Some(expected), "{bytes:?}");
    assert_eq!(released, b"", "{bytes:?}");
}

fn passes(bytes: &str) {
    let (released, violation, watch) = show(bytes.as_bytes(), &[], limits());
    assert_eq!(violation, None, "{bytes:?}");
    assert_eq!(String::from_utf8_lossy(&released), bytes);
    assert!(watch.is_between_requests());
}

#[test]
fn well_formed_requests_pass_untouched() {
    passes("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    passes("GET / HTTP/1.0\r\n\r\n");
    passes("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    passes("GET http://a.example/x?y HTTP/1.1\r\nHost: other\r\n\r\n");
    passes("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    passes("get /%20?q={}|\\^[] HTTP/1.1\r\nhost:\t[::1]:80 \r\nx-empty:\r\nx-obs: \u{e9}\r\n\r\n");
    passes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    passes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
    passes(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost:\r\n\r\n",
    );
}

#[test]
fn malformed_request_lines_are_refused() {
    for line in [
        "GET /",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "G<T / HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1.1a",
        "GET / HTTP/11",
        "GET",
        "\u{16}\u{3}\u{1}",
        "\r\n\r\nGET / HTTP/1.1",
    ] {
        refuses(Violation::RequestLine, &format!("{line}\r\nHost: a\r\n\r\n"));
    }
    for line in ["INVALID CONNECTION PREFACE", "SSH-2.0-OpenSSH_10.0", "get / http/1.1", "a"] {
        refuses(Violation::NotHttp, &format!("{line}\r\n\r\n"));
    }
    for line in ["GET / HTP/1.1", "PATCH", "FETCH HTTP/1.1", "a\tHTTP/2"] {
        refuses(Violation::RequestLine, &format!("{line}\r\n\r\n"));
    }
    refuses(Violation::Version, "GET / HTTP/1.2\r\nHost: a\r\n\r\n");
    refuses(Violation::Version, "GET / HTTP/2.0\r\nHost: a\r\n\r\n");
    for target in [
        "",
        "a",
        "*",
        "/#a",
        "/\u{e9}",
        "/\0",
        "ftp://a/",
        "http:///",
        "http://u@a/",
        "/<",
        "/\u{7f}",
    ] {
        refuses(Violation::Target, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for target in ["/", "a", "u@a:1", "http://a:1/"] {
        refuses(Violation::Target, &format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
}

#[test]
fn bare_line_ends_and_folding_are_refused() {
    refuses(Violation::LineEnd, "GET / HTTP/1.1\nHost: a\r\n\r\n");
    refuses(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\n\r\n");
    refuses(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\r\n\n");
    refuses(Violation::LineEnd, "GET / HTTP/1.1\rHost: a\r\n\r\n");
    refuses(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n");
    refuses(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n");
    refuses(Violation::LineEnd, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    refuses(Violation::Folding, "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n");
    refuses(Violation::Folding, "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n");
    refuses(Violation::Folding, "GET / HTTP/1.1\r\n Host: a\r\n\r\n");
}

#[test]
fn malformed_fields_are_refused() {
    for field in
        ["Name : b", "Na me: b", "Name\t: b", ": b", "Name", "N\0me: b", "N(me: b", "\u{e9}: b"]
    {
        refuses(Violation::FieldName, &format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
    }
    for value in ["\0", "a\0b", "\u{1b}", "\u{7f}"] {
        refuses(Violation::FieldValue, &format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n"));
    }
    for host in ["", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: u@a\r\n"] {
        refuses(Violation::Host, &format!("GET / HTTP/1.1\r\n{host}\r\n"));
    }
    refuses(Violation::Host, "GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n");
}

#[test]
fn ambiguous_lengths_are_refused() {
    for length in
        ["", "+1", "-1", "1,1", "1, 1", "0x1", "1 1", "1;", "18446744073709551616", "1\u{b2}"]
    {
        refuses(
            Violation::ContentLength,
            &format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"),
        );
    }
    for second in ["1", "2"] {
        refuses(
            Violation::ContentLength,
            &format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: {second}\r\n\r\n"
            ),
        );
    }
    for coding in [
        "",
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "chunked, chunked",
        "xchunked",
        "chunked;q=1",
        "identity",
        "\"chunked\"",
        "chunked\u{b}",
    ] {
        let expected = if coding.contains('\u{b}') {
            Violation::FieldValue
        } else {
            Violation::TransferEncoding
        };
        refuses(
            expected,
            &format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n"),
        );
    }
    let te = "Transfer-Encoding: chunked\r\n";
    refuses(Violation::TransferEncoding, &format!("POST / HTTP/1.1\r\nHost: a\r\n{te}{te}\r\n"));
    refuses(Violation::TransferEncoding, &format!("POST / HTTP/1.0\r\nHost: a\r\n{te}\r\n"));
    for fields in [format!("Content-Length: 5\r\n{te}"), format!("{te}Content-Length: 5\r\n")] {
        refuses(Violation::AmbiguousLength, &format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    }
}

#[test]
fn everything_has_a_limit() {
    let line = |size: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(size - 14));
    passes(&line(256));
    refuses(Violation::RequestLineTooLong, &line(257));
    refuses(Violation::RequestLineTooLong, &"x".repeat(258));
    // 23 bytes of request line and Host, 3 of name and colon and space, 4 of line ends.
    let head =
        |size: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(size - 32));
    passes(&head(1024));
    refuses(Violation::HeadTooLarge, &head(1025));
    refuses(Violation::HeadTooLarge, &head(2000)[..1025]);
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a:b\r\n".repeat(count));
    passes(&fields(99));
    refuses(Violation::TooManyFields, &fields(100));
    refuses(Violation::BodyTooLarge, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
}

#[test]
fn a_bad_request_behind_good_ones_costs_them_nothing() {
    let good = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nokGET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
    let bytes = format!("{good}GET / HTTP/1.1\r\nHost : b\r\n\r\n");
    let (released, violation, watch) = show(bytes.as_bytes(), &[], limits());
    assert_eq!(String::from_utf8_lossy(&released), good);
    assert_eq!(violation, Some(Violation::FieldName));
    assert_eq!(watch.requests(), 2);
    assert!(!watch.is_within_body());
}

#[test]
fn a_bad_chunk_is_known_to_be_within_a_body() {
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx";
    let (_, violation, watch) = show(bytes, &[], limits());
    assert_eq!(violation, Some(Violation::Chunk));
    assert!(watch.is_within_body());
}

#[test]
fn what_follows_a_request_to_upgrade_is_held_until_it_is_answered() {
    let ask = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut watch = Watch::new(limits());
    assert_eq!(watch.scan(&[&ask[..], b"\x81\x00"].concat()), Ok(ask.len()));
    assert!(watch.asks_upgrade());
    assert_eq!(watch.scan(b"\x81\x00"), Ok(0));
    watch.tunnel();
    assert_eq!(watch.scan(b"\x81\x00"), Ok(2));

    let mut watch = Watch::new(limits());
    assert_eq!(watch.scan(ask), Ok(ask.len()));
    assert_eq!(watch.scan(b"GET\n"), Ok(0));
    watch.resume();
    assert_eq!(watch.scan(b"GET\n"), Err(Violation::LineEnd));
}

/// A connection's bytes: requests of which most are well-formed.
fn connection() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        12 => "[A-Za-z-]{1,12}:[ -~]{0,20}\r\n",
        4 => Just("Content-Length: 5\r\n".to_owned()),
        4 => Just("Transfer-Encoding: chunked\r\n".to_owned()),
        1 => Just("Upgrade: x\r\n".to_owned()),
        1 => "[ \t\r\n:a\0]{1,6}\r\n",
    ];
    let body = prop_oneof![
        4 => Just(String::new()),
        2 => Just("hello".to_owned()),
        2 => Just("5\r\nhello\r\n0\r\n\r\n".to_owned()),
        1 => Just("0\r\nX: y\r\n\r\n".to_owned()),
        1 => "[0-9a-f\r\n;:]{0,12}",
    ];
    let request = (
        "(GET|POST|P T) /[a-z?%{}]{0,8} HTTP/1\\.[0-2]\r\n",
        prop::collection::vec(field, 0..5),
        body,
    )
        .prop_map(|(line, fields, body)| format!("{line}Host: a\r\n{}\r\n{body}", fields.concat()));
    prop::collection::vec(request, 1..4).prop_map(|requests| requests.concat().into_bytes())
}

proptest! {
    #[test]
    fn where_the_network_cuts_the_bytes_makes_no_difference(
        bytes in connection(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (whole, violation, watch) = show(&bytes, &[], limits());
        let (pieces, violation_in_pieces, watch_of_pieces) = show(&bytes, &cuts, limits());
        prop_assert_eq!(violation, violation_in_pieces);
        prop_assert_eq!(watch.requests(), watch_of_pieces.requests());
        // Of a body that turns out bad, more or less may have gone on.
        if watch.is_within_body() && violation.is_some() {
            prop_assert!(bytes.starts_with(&pieces));
        } else {
            prop_assert_eq!(whole, pieces);
        }
    }

    #[test]
    fn a_head_that_passes_is_read_by_hypers_parser_to_the_same_end(bytes in connection()) {
        let mut watch = Watch::new(limits());
        let mut rest = &bytes[..];
        while watch.is_between_requests() && !rest.is_empty() {
            let before = watch.requests();
            let Ok(released) = watch.scan(&rest[..head_end(rest)]) else { break };
            if watch.requests() == before {
                break;
            }
            let mut fields = [httparse::EMPTY_HEADER; 100];
            let mut request = httparse::Request::new(&mut fields);
            prop_assert_eq!(request.parse(rest), Ok(httparse::Status::Complete(released)));
            prop_assert!(request.path.unwrap().parse::<http::Uri>().is_ok());
            let named = |name: &str| request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).count();
            prop_assert!(named("content-length") + named("transfer-encoding") <= 1);
            prop_assert!(named("host") == 1 || request.version == Some(0));
            rest = &rest[released..];
        }
    }

    #[test]
    fn bytes_of_any_kind_are_judged_the_same_however_they_are_cut(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b' ')], 0..600),
        cut in any::<usize>(),
    ) {
        prop_assert_eq!(show(&bytes, &[], limits()).1, show(&bytes, &[cut], limits()).1);
    }
}

/// The index after the first empty line, or the length.
fn head_end(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4)
}
