//! Heads and chunks as they are sent.

use http::{HeaderName, HeaderValue, Method, StatusCode};

use crate::grammar;
use crate::head::Version;

/// What ends a chunk behind its data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// What ends a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends a head to a vector, line by line.
///
/// The types of `http` hold what may stand in a field, so what is written can be read again. Which
/// fields there are is the caller's business; those that say how long the body is above all.
#[derive(Debug)]
pub struct HeadWriter<'v>(&'v mut Vec<u8>);

impl<'v> HeadWriter<'v> {
    /// Begins the head of a request with its first line. `target` has one of the four forms
    /// [RFC9112 §3.2], which an [`http::Uri`] sees to.
    pub fn request(
        head: &'v mut Vec<u8>,
        method: &Method,
        target: &[u8],
        version: Version,
    ) -> Self {
        debug_assert!(grammar::is_target(
            target,
            method.as_str().as_bytes(),
            *method == Method::CONNECT
        ));
        for part in [method.as_str().as_bytes(), b" ", target, b" ", name(version), b"\r\n"] {
            head.extend_from_slice(part);
        }
        Self(head)
    }

    /// Begins the head of a response with its first line. A `reason` that no line could hold is
    /// left out.
    pub fn response(
        head: &'v mut Vec<u8>,
        version: Version,
        status: StatusCode,
        reason: &[u8],
    ) -> Self {
        let is_line = grammar::are_values(reason);
        let reason = if is_line { reason } else { b"" };
        for part in [name(version), b" ", status.as_str().as_bytes(), b" ", reason, b"\r\n"] {
            head.extend_from_slice(part);
        }
        Self(head)
    }

    /// Appends a field line.
    pub fn field(&mut self, name: &HeaderName, value: &HeaderValue) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }

    /// Appends the empty line.
    pub fn end(self) {
        self.0.extend_from_slice(b"\r\n");
    }
}

fn name(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
    }
}

/// Appends what stands before the data of a chunk of so many bytes. [`CHUNK_END`] stands behind it.
///
/// # Panics
/// If there are none: an empty chunk ends the body.
pub fn chunk_start(framing: &mut Vec<u8>, bytes: u64) {
    assert!(bytes > 0, "an empty chunk ends the body");
    let digits = bytes.ilog2() / 4 + 1;
    for digit in (0..digits).rev() {
        framing.push(b"0123456789abcdef"[(bytes >> (4 * digit)) as usize & 0xf]);
    }
    framing.extend_from_slice(b"\r\n");
}

/// Appends the last chunk with these trailers behind it.
pub fn last_chunk<'f>(
    framing: &mut Vec<u8>,
    trailers: impl IntoIterator<Item = (&'f HeaderName, &'f HeaderValue)>,
) {
    framing.extend_from_slice(b"0\r\n");
    let mut lines = HeadWriter(framing);
    for (name, value) in trailers {
        lines.field(name, value);
    }
    lines.end();
}
