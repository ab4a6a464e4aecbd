//! The head of an upstream's answer, read as the client is to get it.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderName, VIA};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::ext::ReasonPhrase;
use memchr::memchr;
use tamarisk_h1::grammar::decimal;

use crate::hop_by_hop::{Named, is_of_connection};

/// The longest head that is read; what hyper allows on either side.
const HEAD_MAX: usize = 64 * 1024;

/// The most fields in one.
const FIELDS_MAX: usize = 100;

/// A head that is complete.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    /// Its reason, if it is not the usual one for the status.
    pub(crate) reason: Option<ReasonPhrase>,
    /// The fields that go on to the client, `Via` with us added.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Framing,
    /// Whether the connection can take another request afterwards.
    pub(crate) keep: bool,
    /// The protocols that it changes to.
    pub(crate) upgrade: Option<HeaderValue>,
}

impl AnswerHead {
    /// Whether another head follows, because this one only says how it goes.
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    Empty,
    /// By counting (not zero).
    Length(u64),
    /// By chunk framing.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// What came is no answer, or one that two readers could read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A search for the end of a head, which goes on where it stopped.
#[derive(Debug, Default)]
pub(crate) struct AnswerScan {
    searched: usize,
}

impl AnswerScan {
    /// Takes a head off `input` if it is complete. `to_head` says that the request
    /// was a `HEAD`, whose answer has no body. The fields go into `spare`, an
    /// empty map whose memory is there already.
    pub(crate) fn advance(
        &mut self,
        input: &mut BytesMut,
        to_head: bool,
        spare: &mut HeaderMap,
    ) -> Result<Option<AnswerHead>, Malformed> {
        let end = self.end(input);
        if !may_begin_head(&input[..end.unwrap_or(input.len())]) {
            return Err(Malformed);
        }
        let Some(end) = end else { return Ok(None) };
        self.searched = 0;
        read(&input.split_to(end).freeze(), to_head, std::mem::take(spare)).map(Some)
    }

    /// The index behind the first empty line.
    fn end(&mut self, input: &[u8]) -> Option<usize> {
        while let Some(found) = memchr(b'\n', &input[self.searched..]) {
            let next = self.searched + found + 1;
            match input[next..] {
                [b'\n', ..] => return Some(next + 1),
                [b'\r', b'\n', ..] => return Some(next + 2),
                // What follows this line end has not all come: look at it again.
                [] | [b'\r'] => return None,
                _ => self.searched = next,
            }
        }
        self.searched = input.len();
        None
    }
}

/// Whether `bytes` are a head so far, or all of one: what speaks no HTTP need not be
/// waited for, and a head is too long however much of it has come.
fn may_begin_head(bytes: &[u8]) -> bool {
    let start = b"HTTP/1.";
    let known = bytes.len().min(start.len());
    bytes.len() <= HEAD_MAX && bytes[..known] == start[..known]
}

fn read(head: &Bytes, to_head: bool, mut headers: HeaderMap) -> Result<AnswerHead, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let complete = config.parse_response_with_uninit_headers(&mut parsed, head, &mut fields);
    let (Ok(httparse::Status::Complete(_)), Some(code), Some(minor)) =
        (complete, parsed.code, parsed.version)
    else {
        return Err(Malformed);
    };
    let status = StatusCode::from_u16(code).map_err(|_| Malformed)?;

    let mut named = Named::default();
    let connections = |field: &&httparse::Header<'_>| {
        field.name.len() == 10 && field.name.eq_ignore_ascii_case("connection")
    };
    parsed.headers.iter().filter(connections).for_each(|field| named.read(field.value));
    let mut length = None;
    let mut chunked = false;
    let mut upgrade = None;
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed)?;
        match name.as_str() {
            "content-length" => {
                let number = decimal(field.value).ok_or(Malformed)?;
                if length.replace(number).is_some_and(|before| before != number) {
                    return Err(Malformed);
                }
                // A second line that says the same is not passed on.
                headers.remove(&name);
            }
            // A coding that we never said we could read.
            "transfer-encoding" if !field.value.eq_ignore_ascii_case(b"chunked") => {
                return Err(Malformed);
            }
            "transfer-encoding" => chunked = true,
            "upgrade" => upgrade = HeaderValue::from_bytes(field.value).ok(),
            _ => {}
        }
        if is_of_connection(name.as_str()) || named.contains(name.as_str()) {
            continue;
        }
        let value = HeaderValue::from_maybe_shared(head.slice_ref(field.value));
        headers.append(name, value.map_err(|_| Malformed)?);
    }
    let is_http_11 = minor == 1;
    if chunked && (length.is_some() || !is_http_11) {
        return Err(Malformed);
    }
    let us = if is_http_11 { "1.1 tamarisk" } else { "1.0 tamarisk" };
    headers.append(VIA, HeaderValue::from_static(us));

    let has_body = !(to_head || status.is_informational() || matches!(code, 204 | 304));
    let body = match (has_body, chunked, length) {
        (false, ..) | (true, false, Some(0)) => Framing::Empty,
        (true, true, _) => Framing::Chunked,
        (true, false, Some(length)) => Framing::Length(length),
        (true, false, None) => Framing::UntilClose,
    };
    Ok(AnswerHead {
        status,
        reason: own_reason(status, parsed.reason),
        headers,
        body,
        keep: body != Framing::UntilClose && !named.close && (is_http_11 || named.keep_alive),
        upgrade,
    })
}

fn own_reason(status: StatusCode, reason: Option<&str>) -> Option<ReasonPhrase> {
    let reason =
        reason.filter(|reason| !reason.is_empty() && status.canonical_reason() != Some(reason))?;
    ReasonPhrase::try_from(reason.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AnswerHead, Malformed> {
        let mut input = BytesMut::from(text);
        let head = AnswerScan::default().advance(&mut input, false, &mut HeaderMap::new())?;
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
        let mut input = BytesMut::from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        let head = AnswerScan::default().advance(&mut input, true, &mut HeaderMap::new());
        assert_eq!(head.unwrap().unwrap().body, Framing::Empty);
    }

    #[test]
    fn a_head_is_found_however_it_is_cut() {
        let text = "HTTP/1.1 200 OK\r\nServer: a\r\nX-Hop: b\r\nConnection: x-hop\r\n\r\nbody";
        for cut in 0..text.len() {
            let mut input = BytesMut::new();
            let mut scan = AnswerScan::default();
            let mut found = None;
            for part in [&text[..cut], &text[cut..]] {
                input.extend_from_slice(part.as_bytes());
                if found.is_none() {
                    found = scan.advance(&mut input, false, &mut HeaderMap::new()).unwrap();
                }
            }
            let head = found.unwrap();
            assert_eq!(head.headers.len(), 2, "{:?}", head.headers);
            assert_eq!(
                (&head.headers["server"], &head.headers["via"]),
                (&"a".parse().unwrap(), &"1.1 tamarisk".parse().unwrap())
            );
            assert_eq!(&input[..], b"body");
        }
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
                let mut input = BytesMut::from(&*format!("{text}{end}"));
                let scanned =
                    AnswerScan::default().advance(&mut input, false, &mut HeaderMap::new());
                assert_eq!(scanned.unwrap_err(), Malformed, "{:?}", &input[..16.min(input.len())]);
            }
        }
    }
}
