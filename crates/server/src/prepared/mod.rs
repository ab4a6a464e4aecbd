//! Prepared responses, written without a task.
//!
//! Most requests to a web server are for what it has in memory. Their answer is a few pieces of
//! bytes, made long before; maps of fields, a body to be polled and a new head for each answer would
//! cost more than all the rest. So a [connection](crate::h1) shows the head of each plain request to
//! the service first. What the service answers then is written as it is; for all other requests it
//! is called.

pub(crate) mod outgoing;
pub(crate) mod sent_file;

use bytes::Bytes;
use hyper::service::Service;
use tamarisk_h1::{Field, RequestHead, Span};

use crate::guard::Violation;
use crate::prepared::outgoing::{Reply, Sent};
use crate::prepared::sent_file::FileBody;

/// A service as the connection knows it that its requests come from: it has some responses
/// prepared, and is told of what was not asked of it.
pub trait FastPath {
    /// Whether there ever are any: if not, no request is looked at for them.
    const ENABLED: bool = true;

    /// Sends the answer to an HTTP/1.1 request without a body by `reply`, if it can be given on
    /// the spot; if not, that request is the next one that the service is called with, unless the
    /// connection ends before.
    fn fast_response(&self, asked: &PlainRequest<'_>, reply: Reply<'_, '_>) -> FastResponse;

    /// A client was rejected for `violation` before there was a request, with so many bytes of
    /// body; without any, the connection was closed instead.
    fn rejected(&self, violation: Violation, body_length: usize) {
        let _ = (violation, body_length);
    }
}

/// What the fast path has for a request.
pub enum FastResponse {
    /// The answer, which is on its way.
    Answered(Sent),
    /// Nothing; the next answer may be there.
    Unavailable,
    /// Nothing, as for all requests of this kind.
    NeverAvailable,
}

/// A service that prepares no response.
#[derive(Clone, Copy, Debug)]
pub struct WithoutFastPath<S>(pub S);

impl<S> FastPath for WithoutFastPath<S> {
    const ENABLED: bool = false;

    fn fast_response(&self, _: &PlainRequest<'_>, _: Reply<'_, '_>) -> FastResponse {
        FastResponse::NeverAvailable
    }
}

impl<S: Service<R>, R> Service<R> for WithoutFastPath<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn call(&self, request: R) -> S::Future {
        self.0.call(request)
    }
}

/// What a client asks for.
#[derive(Debug)]
pub struct PlainRequest<'h> {
    method: &'h str,
    target: &'h str,
    head: &'h [u8],
    fields: &'h [Field],
}

impl<'h> PlainRequest<'h> {
    /// What the codec has `said` of a `head`.
    pub(crate) fn of(head: &'h [u8], said: &RequestHead<'h>) -> Self {
        let text =
            |span: Span| str::from_utf8(span.of(head)).expect("the codec passes ASCII alone");
        Self { method: text(said.method), target: text(said.target), head, fields: said.fields }
    }

    /// The method, as it was sent.
    pub fn method(&self) -> &'h str {
        self.method
    }

    /// The request target, in whichever form it has [RFC9112 §3.2].
    pub fn target(&self) -> &'h str {
        self.target
    }

    /// The names of the header fields, in the case in which they were sent, and their values.
    pub fn fields(&self) -> impl Iterator<Item = (&'h [u8], &'h [u8])> + use<'h> {
        let head = self.head;
        self.fields.iter().map(move |field| (field.name.of(head), field.value.of(head)))
    }
}

/// An answer as it is sent, but for the fields that say when and on which connection.
pub struct PreparedResponse<'p> {
    /// The status line and the fields that say how long the body is and what it is; each line
    /// with its end.
    pub head: &'p [u8],
    /// Further field lines.
    pub fields: &'p [u8],
    /// The body.
    pub body: PreparedBody<'p>,
    /// Whether it says no, as a [`Rejection`](crate::Rejection) does.
    pub is_rejection: bool,
    /// Is told in the end how many bytes of the body were written.
    pub account: Option<OnWritten>,
}

/// What is told how many bytes of an answer's body were written.
pub type OnWritten = Box<dyn FnOnce(u64) + Send>;

/// A body that is there.
pub enum PreparedBody<'p> {
    /// None, or none is asked for.
    Nothing,
    /// These bytes.
    Bytes(&'p Bytes),
    /// Those of a file.
    File(FileBody),
}
