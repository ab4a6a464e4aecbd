//! Requests as a service is given them.

use std::cell::Cell;

use bytes::Bytes;
use http::header::TE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use tamarisk_h1::grammar::lists;
use tamarisk_h1::{Framing, RequestHead, Version};

/// What of a request bears on its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFacts {
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    pub(super) is_http10: bool,
    /// Whether the client may send another request.
    pub(super) keep: bool,
    /// It asks to change the protocol.
    pub(super) upgrade: bool,
    /// Its body comes once the client has been told to continue.
    pub(super) expects_continue: bool,
    pub(super) takes_trailers: bool,
    pub(super) framing: Framing,
}

/// More than this is not kept for the next request.
const SPARE_MAX: usize = 128;

thread_local! {
    /// The memory of a map whose fields have been written, for those of the next request.
    static SPARE_FIELDS: Cell<HeaderMap> = Cell::new(HeaderMap::new());
}

/// Keeps the memory of fields that are written.
pub(super) fn keep_spare_fields(mut fields: HeaderMap) {
    if fields.capacity() <= SPARE_MAX {
        fields.clear();
        // When the thread ends, nobody needs it.
        let _ = SPARE_FIELDS.try_with(|spare| spare.set(fields));
    }
}

/// The parts of a request with this head, of which the codec has said so much; `None` if its target
/// is no URI.
pub(super) fn read(head: &Bytes, said: &RequestHead<'_>) -> Option<(Parts, RequestFacts)> {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(said.method.of(head)).ok()?;
    parts.uri = Uri::from_maybe_shared(head.slice(said.target.range())).ok()?;
    let is_http10 = said.version == Version::Http10;
    parts.version = if is_http10 { http::Version::HTTP_10 } else { http::Version::HTTP_11 };
    let mut headers = SPARE_FIELDS.take();
    headers.reserve(said.fields.len());
    for field in said.fields {
        let name = HeaderName::from_bytes(field.name.of(head)).ok()?;
        let value = HeaderValue::from_maybe_shared(head.slice(field.value.range())).ok()?;
        headers.append(name, value);
    }
    let takes_trailers =
        headers.get_all(TE).iter().any(|value| lists(value.as_bytes(), b"trailers"));
    parts.headers = headers;
    let asked = RequestFacts {
        is_head: parts.method == Method::HEAD,
        is_connect: parts.method == Method::CONNECT,
        is_http10,
        keep: said.keep,
        upgrade: said.upgrade,
        expects_continue: said.expects_continue,
        takes_trailers,
        framing: said.framing,
    };
    Some((parts, asked))
}
