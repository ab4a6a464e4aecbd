//! The head of an upstream's answer, read as the client is to get it.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, UPGRADE, VIA};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::ext::ReasonPhrase;
use tamarisk_h1::{ResponseHead, Version, Violation};

use crate::hop_by_hop::{Named, is_of_connection};

/// A head that is complete.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    /// Its reason, if it is not the usual one for the status.
    pub(crate) reason: Option<ReasonPhrase>,
    /// The fields that go on to the client, `Via` with us added.
    pub(crate) headers: HeaderMap,
    #[cfg(any(test, fuzzing))]
    pub(crate) body: tamarisk_h1::Framing,
    /// Whether the connection can take another request afterwards.
    pub(crate) keep: bool,
    /// The protocols that it changes to.
    pub(crate) upgrade: Option<HeaderValue>,
}

impl AnswerHead {
    /// What the codec has `said` of a `head`. The fields go into `spare`, an empty map whose memory
    /// is there already.
    pub(crate) fn read(
        head: &Bytes,
        said: &ResponseHead<'_>,
        spare: &mut HeaderMap,
    ) -> Result<Self, Malformed> {
        let mut named = Named::default();
        for field in said.fields {
            if field.name.of(head).eq_ignore_ascii_case(b"connection") {
                named.read(field.value.of(head));
            }
        }
        let mut headers = std::mem::take(spare);
        let mut upgrade = None;
        for field in said.fields {
            let name = HeaderName::from_bytes(field.name.of(head)).map_err(|_| Malformed)?;
            let value = HeaderValue::from_maybe_shared(head.slice(field.value.range()));
            let value = value.map_err(|_| Malformed)?;
            match name {
                // A second line that says the same is not passed on.
                CONTENT_LENGTH => drop(headers.insert(name, value)),
                UPGRADE => upgrade = Some(value),
                name if is_of_connection(name.as_str()) || named.contains(name.as_str()) => {}
                name => drop(headers.append(name, value)),
            }
        }
        let us = match said.version {
            Version::Http11 => "1.1 tamarisk",
            Version::Http10 => "1.0 tamarisk",
        };
        headers.append(VIA, HeaderValue::from_static(us));
        let (status, reason) = (said.status, own_reason(said.status, said.reason.of(head)));
        Ok(Self {
            status,
            reason,
            headers,
            #[cfg(any(test, fuzzing))]
            body: said.framing,
            keep: said.keep,
            upgrade,
        })
    }

    /// Whether another head follows, because this one only says how it goes.
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// What came is no answer, or one that two readers could read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Violation> for Malformed {
    fn from(_: Violation) -> Self {
        Self
    }
}

fn own_reason(status: StatusCode, reason: &[u8]) -> Option<ReasonPhrase> {
    let usual = status.canonical_reason().map(str::as_bytes);
    let is_own = !reason.is_empty() && usual != Some(reason);
    is_own.then(|| ReasonPhrase::try_from(reason).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use tamarisk_h1::Framing;

    use super::*;
    use crate::answer::reader::AnswerReader;

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
}
