//! Strict HTTP/1 framing, checked before hyper sees a byte.
//!
//! Request smuggling lives off two readers that find different requests in the
//! same bytes. A parser that forgives (a lone LF, a space before a colon, two
//! lengths that agree today) is therefore not enough for a proxy, and hyper's is
//! made for clients and servers. So a [`Watch`] reads along in front of hyper:
//! a state machine without I/O that knows where each request ends and lets
//! nothing pass but what RFC 9112 says plainly. [`Guarded`] puts it around a
//! socket. A head goes to hyper whole and checked, or not at all.
//!
//! A refused request is answered in its turn, behind the requests before it, with
//! the status of its [`Violation`] and `Connection: close`. Only who begins with something that
//! is no HTTP at all gets no answer, which would not be understood: an HTTP/2 client whose
//! preface is wrong, say.
//!
//! HTTP/2 needs no watch: its frames say how long they are. Of its heads is asked what is asked of
//! those of HTTP/1.

mod head;
mod head_http2;
mod limits;
mod patience;
mod sideband;
mod stream;
mod watch;

pub(crate) use head_http2::check_head;
pub use limits::Limits;
pub(crate) use patience::Patience;
pub(crate) use sideband::{Notice, Sideband, Verdict};
pub use stream::{Guarded, Protocol};
pub use watch::Watch;

pub use tamarisk_h1::Violation;
