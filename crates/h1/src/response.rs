//! Responses as a client reads them.

use http::{Method, StatusCode};

use crate::body::Body;
use crate::event::Event;
use crate::head::{Field, Framing, HeadScan, Span, StatusLine, Version};
use crate::limits::Limits;
use crate::violation::Violation;

/// What of a request bears on how its response is read. Complete by definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A `HEAD`, whose response has no body whatever it says.
    Head,
    /// A `CONNECT`, which ends HTTP/1.1 on the connection if it succeeds.
    Connect,
    /// Any other method.
    Ordinary,
}

impl From<&Method> for Asked {
    fn from(method: &Method) -> Self {
        match *method {
            Method::HEAD => Self::Head,
            Method::CONNECT => Self::Connect,
            _ => Self::Ordinary,
        }
    }
}

/// What the head of a response says. Its spans count from the first byte that the reader was shown
/// of it.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'r> {
    /// The version.
    pub version: Version,
    /// The status.
    pub status: StatusCode,
    /// Its reason, as it was sent; it may be empty.
    pub reason: Span,
    /// All field lines, in their order.
    pub fields: &'r [Field],
    /// How the body ends.
    pub framing: Framing,
    /// Whether the connection can carry another request afterwards.
    pub keep: bool,
    /// Whether what follows on the connection is no longer HTTP/1.1.
    pub switches: bool,
}

impl ResponseHead<'_> {
    /// Whether another head follows, because this one only says how the request fares.
    pub fn is_interim(&self) -> bool {
        is_interim(self.status)
    }
}

fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// Reads the responses of one connection, each after it was [asked](Self::begin) for.
#[derive(Debug)]
pub struct ResponseReader {
    limits: Limits,
    asked: Asked,
    place: Place,
    line: StatusLine,
    scan: HeadScan,
    framing: Framing,
}

#[derive(Debug)]
enum Place {
    /// Nothing was asked.
    Idle,
    Head,
    Body(Body),
    Failed(Violation),
}

impl ResponseReader {
    /// For a connection on which nothing was asked yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            asked: Asked::Ordinary,
            place: Place::Idle,
            line: StatusLine::default(),
            scan: HeadScan::default(),
            framing: Framing::Empty,
        }
    }

    /// A request has been sent, and its response comes next.
    pub fn begin(&mut self, asked: Asked) {
        self.asked = asked;
        self.place = Place::Head;
        self.restart();
    }

    fn restart(&mut self) {
        self.scan.restart();
        self.line = StatusLine::default();
    }

    /// What the first of `held` are: the bytes that the last event did not stand for, followed by
    /// what has come since. `None` asks for more bytes; when nothing is asked, for
    /// [`begin`](Self::begin).
    ///
    /// An interim response is an [`Event::Head`] alone, and is followed by another one.
    ///
    /// # Errors
    /// The [`Violation`] that ends the connection, again at each later call.
    pub fn next(&mut self, held: &[u8]) -> Result<Option<Event>, Violation> {
        let read = match &mut self.place {
            Place::Head => self.head_next(held),
            Place::Body(body) => body.next(held, &self.limits),
            Place::Idle => return Ok(None),
            Place::Failed(violation) => return Err(*violation),
        };
        match read {
            Ok(Some(Event::End)) => self.place = Place::Idle,
            Err(violation) => self.place = Place::Failed(violation),
            Ok(_) => {}
        }
        read
    }

    fn head_next(&mut self, held: &[u8]) -> Result<Option<Event>, Violation> {
        if held.is_empty() {
            return Ok(None);
        }
        if self.line.is_read_before {
            self.restart();
        }
        let Some(head) = self.scan.advance(&mut self.line, held, &self.limits)? else {
            return Ok(None);
        };
        self.line.is_read_before = true;
        self.framing = match head.framing {
            Ok(_) | Err(Violation::BodyTooLarge) if !self.has_body() => Framing::Empty,
            said => said?.unwrap_or(Framing::UntilClose),
        };
        if !is_interim(self.line.status) {
            self.place = Place::Body(Body::new(self.framing));
        }
        Ok(Some(Event::Head(head.len)))
    }

    /// Whether a response to what was asked has a body, whatever its fields say [RFC9112 §6.3].
    fn has_body(&self) -> bool {
        let status = self.line.status;
        let is_without = status.is_informational() || matches!(status.as_u16(), 204 | 304);
        !is_without && self.asked != Asked::Head && !self.switches()
    }

    fn switches(&self) -> bool {
        let status = self.line.status;
        status == StatusCode::SWITCHING_PROTOCOLS
            || (self.asked == Asked::Connect && status.is_success())
    }

    /// The connection has ended, and all that came on it has been shown.
    ///
    /// # Errors
    /// [`Violation::Incomplete`] if the response has not ended with it.
    pub fn end(&mut self) -> Result<(), Violation> {
        match &self.place {
            Place::Body(Body::UntilClose(_) | Body::Over) | Place::Idle => {
                self.place = Place::Idle;
                Ok(())
            }
            Place::Failed(violation) => Err(*violation),
            Place::Head | Place::Body(_) => Err(Violation::Incomplete),
        }
    }

    /// What the head of the last [`Event::Head`] says, until the next one begins.
    pub fn head(&self) -> ResponseHead<'_> {
        let StatusLine { version, status, reason, .. } = self.line;
        let (framing, switches) = (self.framing, self.switches());
        let keep = framing != Framing::UntilClose && !switches && self.scan.keeps(version);
        ResponseHead { version, status, reason, fields: &self.scan.fields, framing, keep, switches }
    }

    /// Whether the last response is complete, or none was asked for.
    pub fn is_idle(&self) -> bool {
        matches!(self.place, Place::Idle)
    }

    /// Whether a head has come whose body has not come to its end.
    pub fn is_within_body(&self) -> bool {
        matches!(self.place, Place::Body(_))
    }

    /// The rest of a body of [known length](Self::left) has been taken, all of it, without being
    /// shown: the response is complete.
    pub fn skip_body(&mut self) {
        if matches!(&self.place, Place::Body(body) if body.left().is_some()) {
            self.place = Place::Idle;
        }
    }

    /// What was asked last.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// How many bytes of the body are still to come, if that is known.
    pub fn left(&self) -> Option<u64> {
        match &self.place {
            Place::Body(body) => body.left(),
            Place::Idle => Some(0),
            Place::Head | Place::Failed(_) => None,
        }
    }

    /// How many bytes of data come next at least. [`next`](Self::next) does not look at so many:
    /// others of the same number will do in their place.
    pub fn data_next(&self) -> u64 {
        match &self.place {
            Place::Body(body) => body.data_next(),
            Place::Idle | Place::Head | Place::Failed(_) => 0,
        }
    }
}
