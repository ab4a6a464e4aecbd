//! Requests: what is read, and what is rejected with which violation.
use tamarisk_h1::{Event, Limits, RequestReader, Violation};

const LIMITS: Limits = Limits { first_line_max: 256, head_max: 1024, body_max: Some(1000) };

/// How many bytes of `bytes` were read as whole events, the violation if it came to one, and the
/// reader as it then is.
fn show(bytes: &[u8]) -> (usize, Option<Violation>, RequestReader) {
    let (mut reader, mut used) = (RequestReader::new(LIMITS), 0);
    loop {
        match reader.next(&bytes[used..]) {
            Ok(Some(event)) => used += event.len(),
            Ok(None) => return (used, None, reader),
            Err(violation) => return (used, Some(violation), reader),
        }
    }
}

fn rejects(expected: Violation, bytes: &str) {
    let (used, violation, _) = show(bytes.as_bytes());
    assert_eq!((used, violation), (0, Some(expected)), "{bytes:?}");
}

fn passes(bytes: &str) {
    let (used, violation, reader) = show(bytes.as_bytes());
    assert_eq!((used, violation), (bytes.len(), None), "{bytes:?}");
    assert!(reader.is_between_requests());
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
fn malformed_request_lines_are_rejected() {
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
        rejects(Violation::RequestLine, &format!("{line}\r\nHost: a\r\n\r\n"));
    }
    for line in ["INVALID CONNECTION PREFACE", "SSH-2.0-OpenSSH_10.0", "get / http/1.1", "a"] {
        rejects(Violation::NotHttp, &format!("{line}\r\n\r\n"));
    }
    for line in ["GET / HTP/1.1", "PATCH", "FETCH HTTP/1.1", "a\tHTTP/2"] {
        rejects(Violation::RequestLine, &format!("{line}\r\n\r\n"));
    }
    rejects(Violation::Version, "GET / HTTP/1.2\r\nHost: a\r\n\r\n");
    rejects(Violation::Version, "GET / HTTP/2.0\r\nHost: a\r\n\r\n");
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
        "http://a:b;c/",
        "http://a:99999/",
        "/<",
        "/\u{7f}",
    ] {
        rejects(Violation::Target, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for target in ["/", "a", "u@a:1", "http://a:1/"] {
        rejects(Violation::Target, &format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
}

#[test]
fn bare_line_ends_and_folding_are_rejected() {
    rejects(Violation::LineEnd, "GET / HTTP/1.1\nHost: a\r\n\r\n");
    rejects(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\n\r\n");
    rejects(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\r\n\n");
    rejects(Violation::LineEnd, "GET / HTTP/1.1\rHost: a\r\n\r\n");
    rejects(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n");
    rejects(Violation::LineEnd, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n");
    rejects(Violation::LineEnd, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    rejects(Violation::Folding, "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n");
    rejects(Violation::Folding, "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n");
    rejects(Violation::Folding, "GET / HTTP/1.1\r\n Host: a\r\n\r\n");
}

#[test]
fn malformed_fields_are_rejected() {
    for field in
        ["Name : b", "Na me: b", "Name\t: b", ": b", "Name", "N\0me: b", "N(me: b", "\u{e9}: b"]
    {
        rejects(Violation::FieldName, &format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
    }
    for value in ["\0", "a\0b", "\u{1b}", "\u{7f}"] {
        rejects(Violation::FieldValue, &format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n"));
    }
    for host in ["", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: u@a\r\n"] {
        rejects(Violation::Host, &format!("GET / HTTP/1.1\r\n{host}\r\n"));
    }
    rejects(Violation::Host, "GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n");
}

#[test]
fn ambiguous_lengths_are_rejected() {
    for length in
        ["", "+1", "-1", "1,1", "1, 1", "0x1", "1 1", "1;", "18446744073709551616", "1\u{b2}"]
    {
        rejects(
            Violation::ContentLength,
            &format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"),
        );
    }
    for second in ["1", "2"] {
        rejects(
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
        rejects(
            expected,
            &format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n"),
        );
    }
    let te = "Transfer-Encoding: chunked\r\n";
    rejects(Violation::TransferEncoding, &format!("POST / HTTP/1.1\r\nHost: a\r\n{te}{te}\r\n"));
    rejects(Violation::TransferEncoding, &format!("POST / HTTP/1.0\r\nHost: a\r\n{te}\r\n"));
    for fields in [format!("Content-Length: 5\r\n{te}"), format!("{te}Content-Length: 5\r\n")] {
        rejects(Violation::AmbiguousLength, &format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    }
}

#[test]
fn everything_has_a_limit() {
    let line = |size: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(size - 14));
    passes(&line(256));
    rejects(Violation::RequestLineTooLong, &line(257));
    rejects(Violation::RequestLineTooLong, &"x".repeat(258));
    // 23 bytes of request line and Host, 3 of name and colon and space, 4 of line ends.
    let head =
        |size: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(size - 32));
    passes(&head(1024));
    rejects(Violation::HeadTooLarge, &head(1025));
    rejects(Violation::HeadTooLarge, &head(2000)[..1025]);
    // The first line is a part of the head, complete or not.
    let limits = Limits { head_max: 100, ..LIMITS };
    let first = |size: usize| RequestReader::new(limits).next(&line(256).as_bytes()[..size]);
    assert_eq!(first(100), Ok(None));
    for size in [101, 200, 256, 258, 267] {
        assert_eq!(first(size), Err(Violation::HeadTooLarge), "{size}");
    }
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a:b\r\n".repeat(count));
    passes(&fields(99));
    rejects(Violation::TooManyFields, &fields(100));
    rejects(Violation::BodyTooLarge, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
}

#[test]
fn a_bad_request_behind_good_ones_costs_them_nothing() {
    let good = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nokGET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
    let (used, violation, reader) =
        show(format!("{good}GET / HTTP/1.1\r\nHost : b\r\n\r\n").as_bytes());
    assert_eq!((used, violation), (good.len(), Some(Violation::FieldName)));
    assert!(!reader.is_within_body());
}

#[test]
fn a_bad_chunk_is_known_to_be_within_a_body() {
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx";
    let (_, violation, reader) = show(bytes);
    assert_eq!(violation, Some(Violation::Chunk));
    assert!(reader.is_within_body());
}

#[test]
fn what_follows_a_request_to_upgrade_is_held_until_it_is_answered() {
    for ask in [
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let (used, violation, mut reader) = show(format!("{ask}GET\n").as_bytes());
        assert_eq!((used, violation), (ask.len(), None));
        assert!(reader.is_undecided() && reader.head().upgrade);
        reader.resume();
        assert_eq!(reader.next(b"GET\n"), Err(Violation::LineEnd));
    }
    let old = "GET / HTTP/1.0\r\nUpgrade: x\r\n\r\n";
    assert!(!show(old.as_bytes()).2.is_undecided());
    let mut reader = RequestReader::new(LIMITS);
    assert_eq!(reader.next(old.as_bytes()), Ok(Some(Event::Head(old.len()))));
}
