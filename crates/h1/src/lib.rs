//! HTTP/1.1 as a strict codec without I/O: bytes in, events out.
//!
//! A [`RequestReader`] reads what a client sends to a server, a [`ResponseReader`] what a server
//! sends to a client. Each is shown the bytes that have come, cut wherever the network cut them, and
//! says what the first of them are: an [`Event`]. [`encode`] writes heads and chunks.
//!
//! What this crate does not do: it has no socket, no clock and no task, and it keeps no bytes.
//! Whoever reads the socket keeps those that no event stood for; the [`Limits`] bound how many that
//! can be. It knows no fields but those that say where a message ends and whether another one may
//! follow.
//!
//! # Examples
//!
//! ```
//! use tamarisk_h1::{Event, Limits, RequestReader};
//!
//! # fn main() -> Result<(), tamarisk_h1::Violation> {
//! let mut reader = RequestReader::new(Limits::REQUEST);
//! let mut held = b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nokGET".to_vec();
//! let mut events = Vec::new();
//! while let Some(event) = reader.next(&held)? {
//!     if let Event::Head(_) = event {
//!         assert_eq!(reader.head().target.of(&held), b"/a");
//!     }
//!     held.drain(..event.len());
//!     events.push(event);
//! }
//! assert_eq!(events, [Event::Head(48), Event::Data(2), Event::End]);
//! assert_eq!(held, b"GET");
//! # Ok(())
//! # }
//! ```
//!
//! # How strict it is
//!
//! Request smuggling lives off two readers that find different requests in the same bytes. So a
//! request is read as RFC 9112 says plainly, or not at all:
//!
//! - Lines end with CR LF. A lone CR or LF is a violation, in requests, chunk framing and trailers.
//! - One empty line before a request line is ignored, and no other.
//! - No white space before a colon, and no folded line.
//! - One `Content-Length` of digits alone; one `Transfer-Encoding`, which is `chunked`, and only in
//!   HTTP/1.1; never both.
//! - One well-formed `Host`, in HTTP/1.1 always.
//! - Chunk sizes are digits alone; extensions are read over, and are short.
//!
//! Responses come from servers that somebody has chosen, some of them old. They are read in the same
//! way but for two liberties: a lone LF may end a line of a head [RFC9112 §2.2], and a length may be
//! repeated if it is the same each time [RFC9110 §8.6].
//!
//! Heads are split here and not by `httparse`, which would read a head again from its first byte
//! whenever more of it has come, and calls what is wrong by fewer names. The tests hold that it
//! finds the same parts in every head that passes.

mod body;
mod chunked;
pub mod encode;
mod event;
pub mod grammar;
mod head;
mod limits;
mod request;
mod response;
mod violation;

pub use body::trailer_fields;
pub use event::Event;
pub use head::{Field, Framing, Span, Version};
pub use limits::{FIELDS_MAX, Limits};
pub use request::{RequestHead, RequestReader};
pub use response::{Asked, ResponseHead, ResponseReader};
pub use violation::Violation;
