//! Encoded requests.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Method, header};
use tamarisk_h1::grammar::lists;

use crate::url::WeightedUrl;

/// All of a run's requests but for their paths.
#[derive(Clone, Debug)]
pub(crate) struct RequestForm {
    method: Method,
    /// The field lines, but for `Connection`.
    fields: Vec<u8>,
    /// The lines of a `Connection` of the user's own.
    connection: Vec<u8>,
    /// Whether those end the connection.
    closes: bool,
    /// The body, with its chunk framing if it has one.
    body: Bytes,
}

/// What becomes of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// Another may follow.
    Keep,
    /// This one was the last, and says so to the server.
    Close,
}

impl RequestForm {
    /// Requests of `method` with `headers` and `body` to the server of `url`. How long the
    /// body is, is not taken from the headers; a `Transfer-Encoding` sends it as one chunk.
    pub(crate) fn new(url: &WeightedUrl, method: Method, headers: &HeaderMap, body: Bytes) -> Self {
        let mut fields = Vec::new();
        // First, as it should be [RFC9110 §7.2].
        let of_url = || url.authority().as_str().as_bytes();
        let host = headers.get(header::HOST).map_or_else(of_url, |host| host.as_bytes());
        push_field(&mut fields, &header::HOST, host);
        let mut connection = Vec::new();
        for (name, value) in headers {
            match *name {
                header::HOST | header::CONTENT_LENGTH => {}
                header::CONNECTION => push_field(&mut connection, name, value.as_bytes()),
                _ => push_field(&mut fields, name, value.as_bytes()),
            }
        }
        let mut connections = headers.get_all(header::CONNECTION).iter();
        let closes = connections.any(|value| lists(value.as_bytes(), b"close"));
        let body = if headers.contains_key(header::TRANSFER_ENCODING) {
            one_chunk(&body)
        } else {
            // Said of no bytes too where some would mean something [RFC9110 §8.6].
            if !body.is_empty() || [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
                let length = body.len().to_string();
                push_field(&mut fields, &header::CONTENT_LENGTH, length.as_bytes());
            }
            body
        };
        Self { method, fields, connection, closes, body }
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// Whether every request is the last of its connection.
    pub(crate) fn closes(&self) -> bool {
        self.closes
    }

    /// What follows the head.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Puts the head of a request for `path` in the place of what is in `head`.
    pub(crate) fn write_head(&self, head: &mut Vec<u8>, path: &PathAndQuery, after: Afterwards) {
        head.clear();
        head.extend_from_slice(self.method.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(path.as_str().as_bytes());
        head.extend_from_slice(b" HTTP/1.1\r\n");
        head.extend_from_slice(&self.fields);
        head.extend_from_slice(match after {
            Afterwards::Keep => &self.connection,
            Afterwards::Close => b"connection: close\r\n",
        });
        head.extend_from_slice(b"\r\n");
    }
}

fn push_field(lines: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

/// `body` in chunk framing [RFC9112 §7.1].
fn one_chunk(body: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(body.len() + 32);
    if !body.is_empty() {
        framed.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
        framed.extend_from_slice(body);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    framed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(method: Method, headers: &[(HeaderName, &str)], body: &'static str) -> RequestForm {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        let url = "http://h:81/".parse().unwrap();
        RequestForm::new(&url, method, &headers.collect(), body.into())
    }

    fn text(form: &RequestForm, after: Afterwards) -> String {
        let mut head = b"of the request before".to_vec();
        form.write_head(&mut head, &PathAndQuery::from_static("/a?b"), after);
        let text = [head.as_slice(), form.body()].concat();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_plain_request_has_a_host_and_no_more() {
        let get = form(Method::GET, &[], "");
        assert_eq!(text(&get, Afterwards::Keep), "GET /a?b HTTP/1.1\r\nhost: h:81\r\n\r\n");
        assert!(!get.closes());
    }

    #[test]
    fn a_host_header_of_the_users_own_wins() {
        let get = form(Method::GET, &[(header::ACCEPT, "*/*"), (header::HOST, "shop.example")], "");
        let expected = "GET /a?b HTTP/1.1\r\nhost: shop.example\r\naccept: */*\r\n\r\n";
        assert_eq!(text(&get, Afterwards::Keep), expected);
    }

    #[test]
    fn the_last_request_says_close_and_nothing_else_of_the_connection() {
        let get = form(Method::GET, &[(header::CONNECTION, "x-hop")], "");
        let of_connection = |after| {
            let text = text(&get, after);
            text.lines().filter(|line| line.starts_with("connection")).map(str::to_owned).collect()
        };
        let (kept, last): (Vec<_>, Vec<_>) =
            (of_connection(Afterwards::Keep), of_connection(Afterwards::Close));
        assert_eq!(
            (kept, last),
            (vec!["connection: x-hop".into()], vec!["connection: close".into()])
        );
        assert!(form(Method::GET, &[(header::CONNECTION, "x-hop, Close")], "").closes());
    }

    #[test]
    fn a_body_has_its_own_length_whatever_the_headers_say() {
        let expected = "POST /a?b HTTP/1.1\r\nhost: h:81\r\ncontent-length: 5\r\n\r\nhello";
        for headers in [&[][..], &[(header::CONTENT_LENGTH, "9")]] {
            let post = form(Method::POST, headers, "hello");
            assert_eq!(text(&post, Afterwards::Keep), expected);
        }
        let empty = form(Method::POST, &[], "");
        assert!(text(&empty, Afterwards::Keep).ends_with("content-length: 0\r\n\r\n"));
    }

    #[test]
    fn a_transfer_encoding_sends_the_body_as_a_chunk() {
        let chunked = &[(header::TRANSFER_ENCODING, "chunked"), (header::CONTENT_LENGTH, "9")];
        let head = "POST /a?b HTTP/1.1\r\nhost: h:81\r\ntransfer-encoding: chunked\r\n\r\n";
        for (body, framed) in
            [("hello, world", "c\r\nhello, world\r\n0\r\n\r\n"), ("", "0\r\n\r\n")]
        {
            let post = form(Method::POST, chunked, body);
            assert_eq!(text(&post, Afterwards::Keep), format!("{head}{framed}"));
        }
    }
}
