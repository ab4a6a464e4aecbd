//! The reader of answers: framings, their ends, and what is malformed.

use tamarisk_h1::Framing;

use super::*;

const LENGTH: &str = "Content-Length: 5\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// The data and the trailers of a body behind a head with these fields that comes in `parts`,
/// and what is left over.
fn read(fields: &str, parts: &[&str]) -> Result<(String, usize, String), Malformed> {
    let mut reader = AnswerReader::new();
    reader.begin(false);
    reader.room().extend_from_slice(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes());
    assert!(reader.head(&mut HeaderMap::new()).unwrap().is_some());
    let (mut data, mut trailers) = (String::new(), 0);
    for part in parts {
        reader.room().extend_from_slice(part.as_bytes());
        while let Some(frame) = reader.frame()? {
            match frame.into_data() {
                Ok(bytes) => data += std::str::from_utf8(&bytes).unwrap(),
                Err(frame) => trailers += frame.into_trailers().unwrap().len(),
            }
        }
    }
    reader.end()?;
    Ok((data, trailers, String::from_utf8(reader.into_rest().to_vec()).unwrap()))
}

#[test]
fn every_framing_finds_its_end() {
    let whole = |data: &str, trailers, rest: &str| Ok((data.to_owned(), trailers, rest.to_owned()));
    assert_eq!(read("Content-Length: 0\r\n", &["next"]), whole("", 0, "next"));
    assert_eq!(read(LENGTH, &["he", "llonext"]), whole("hello", 0, "next"));
    assert_eq!(read("", &["he", "llo"]), whole("hello", 0, ""));
    let chunks = ["5\r\nhe", "llo\r", "\n1\r\n!\r\n0\r\n", "A: b\r\n", "c: d\r\n\r\nnext"];
    assert_eq!(read(CHUNKED, &chunks), whole("hello!", 2, "next"));
}

#[test]
fn a_body_that_breaks_off_is_noticed() {
    assert_eq!(read(LENGTH, &["hell"]), Err(Malformed));
    assert_eq!(read(CHUNKED, &["5\r\nhello\r\n"]), Err(Malformed));
    assert_eq!(read(CHUNKED, &["5\nhello\r\n0\r\n\r\n"]), Err(Malformed));
}

fn parse(text: &str) -> Result<AnswerHead, Malformed> {
    let mut reader = AnswerReader::new();
    reader.begin(false);
    reader.room().extend_from_slice(text.as_bytes());
    let head = reader.head(&mut HeaderMap::new())?;
    Ok(head.unwrap_or_else(|| panic!("incomplete: {text:?}")))
}

fn framing(fields: &str) -> Result<(Framing, bool), Malformed> {
    parse(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).map(|head| (head.body, head.keep))
}

#[test]
fn the_framing_is_the_one_that_every_reader_would_see() {
    assert_eq!(framing("Content-Length: 5\r\n"), Ok((Framing::Length(5), true)));
    assert_eq!(
        framing("Content-Length: 5\r\ncontent-length: 5\r\n"),
        Ok((Framing::Length(5), true))
    );
    assert_eq!(framing("Content-Length: 0\r\n"), Ok((Framing::Empty, true)));
    assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok((Framing::Chunked, true)));
    assert_eq!(
        framing("Transfer-Encoding: chunked\r\nConnection: close\r\n"),
        Ok((Framing::Chunked, false))
    );
    assert_eq!(framing(""), Ok((Framing::UntilClose, false)));
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Field : value\r\n",
        "Field: a\r\n folded\r\n",
        "Field: a\0b\r\n",
    ] {
        assert_eq!(framing(fields), Err(Malformed), "{fields:?}");
    }
}

#[test]
fn old_servers_keep_a_connection_only_if_they_say_so() {
    let keep = |connection: &str| {
        parse(&format!("HTTP/1.0 200 OK\nContent-Length: 1\n{connection}\n")).unwrap().keep
    };
    assert!(!keep(""));
    assert!(keep("Connection: Keep-Alive\n"));
    assert_eq!(
        parse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap_err(),
        Malformed
    );
}

#[test]
fn some_answers_never_have_a_body() {
    for status in ["204 No Content", "304 Not Modified", "101 Switching Protocols"] {
        let head = parse(&format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n")).unwrap();
        assert_eq!(head.body, Framing::Empty);
        assert_eq!(head.headers["content-length"], "5");
    }
    let mut reader = AnswerReader::new();
    reader.begin(true);
    reader.room().extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let head = reader.head(&mut HeaderMap::new());
    assert_eq!(head.unwrap().unwrap().body, Framing::Empty);
}

#[test]
fn a_head_is_found_however_it_is_cut() {
    let text = "HTTP/1.1 200 OK\r\nServer: a\r\nX-Hop: b\r\nConnection: x-hop\r\n\r\nbody";
    for cut in 0..text.len() {
        let mut reader = AnswerReader::new();
        reader.begin(false);
        let mut found = None;
        for part in [&text[..cut], &text[cut..]] {
            reader.room().extend_from_slice(part.as_bytes());
            if found.is_none() {
                found = reader.head(&mut HeaderMap::new()).unwrap();
            }
        }
        let head = found.unwrap();
        assert_eq!(head.headers.len(), 2, "{:?}", head.headers);
        assert_eq!(
            (&head.headers["server"], &head.headers["via"]),
            (&"a".parse().unwrap(), &"1.1 tamarisk".parse().unwrap())
        );
        assert_eq!(&reader.into_rest()[..], b"body");
    }
}

#[test]
fn a_short_body_that_has_come_with_its_head_is_taken_with_it() {
    let whole = |text: &str| {
        let mut reader = AnswerReader::new();
        reader.begin(false);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let text = format!("HTTP/1.1 {text}");
        let head = reader.poll_head(&mut text.as_bytes(), &mut HeaderMap::new(), &mut cx);
        let Poll::Ready(Ok(head)) = head else { panic!("incomplete: {text:?}") };
        let rest = reader.into_rest();
        (head.whole.map(|whole| whole.len()), rest.len())
    };
    assert_eq!(whole("200 OK\r\nContent-Length: 5\r\n\r\nhellonext"), (Some(5), 4));
    assert_eq!(whole("200 OK\r\nContent-Length: 0\r\n\r\nnext"), (Some(0), 4));
    assert_eq!(whole("204 No Content\r\n\r\nnext"), (Some(0), 4));
    assert_eq!(whole("200 OK\r\nContent-Length: 5\r\n\r\nhell"), (None, 4));
    assert_eq!(whole("200 OK\r\n\r\nhello"), (None, 5));
    assert_eq!(whole("100 Continue\r\n\r\nHTTP"), (None, 4));
    let chunks = "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(whole(chunks), (None, 5));
}

#[test]
fn a_reason_of_its_own_is_kept() {
    let reason = |line: &str| parse(&format!("HTTP/1.1 {line}\r\n\r\n")).unwrap().reason;
    assert_eq!(reason("200 OK"), None);
    assert_eq!(reason("200 "), None);
    assert_eq!(reason("299 Fine").unwrap().as_bytes(), b"Fine");
}

#[test]
fn what_will_never_be_a_head_is_given_up_whether_or_not_its_end_has_come() {
    let long = format!("HTTP/1.1 200 {}", "x".repeat(64 * 1024));
    for text in ["SSH-2.0", "\r\nHTTP/1.1 200 OK", &long] {
        for end in ["", "\r\n\r\n"] {
            let parsed = parse(&format!("{text}{end}"));
            assert_eq!(parsed.unwrap_err(), Malformed, "{:?}", text.get(..16));
        }
    }
}
