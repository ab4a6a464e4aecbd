//! Requests as a server reads them.

use crate::body::Body;
use crate::event::Event;
use crate::head::{Field, Framing, HeadScan, RequestLine, Span, Version};
use crate::limits::Limits;
use crate::violation::Violation;

/// What the head of a request says. Its spans count from the first byte that the reader was shown
/// of it.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    /// The method.
    pub method: Span,
    /// The request target, in whichever form it has [RFC9112 §3.2].
    pub target: Span,
    /// The version.
    pub version: Version,
    /// All field lines, in their order.
    pub fields: &'r [Field],
    /// How the body ends.
    pub framing: Framing,
    /// How many bytes behind the head are the whole body, if it was shown with the head.
    pub whole: Option<usize>,
    /// Whether another request may follow.
    pub keep: bool,
    /// Whether it asks to speak another protocol afterwards: by `Upgrade` or `CONNECT`.
    pub upgrade: bool,
    /// Whether the body comes once the client has been told to continue.
    pub expects_continue: bool,
}

/// Reads the requests of one connection, one after the other.
///
/// It is shown the bytes that have come and were not used, in order, cut wherever the network cut
/// them, and says what the first of them are.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    place: Place,
    line: RequestLine,
    scan: HeadScan,
    framing: Framing,
    whole: Option<usize>,
}

#[derive(Debug)]
enum Place {
    Head,
    Body(Body),
    /// After a request to change the protocol, until its response.
    Undecided,
    Failed {
        violation: Violation,
        within_body: bool,
    },
}

impl RequestReader {
    /// For a connection that begins with a request.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            place: Place::Head,
            line: RequestLine::default(),
            scan: HeadScan::default(),
            framing: Framing::Empty,
            whole: None,
        }
    }

    /// What the first of `held` are: the bytes that the last event did not stand for, followed by
    /// what has come since. `None` asks for more bytes; after a request to change the protocol, for
    /// [`resume`](Self::resume).
    ///
    /// # Errors
    /// The [`Violation`] that ends the connection, again at each later call.
    pub fn next(&mut self, held: &[u8]) -> Result<Option<Event>, Violation> {
        let read = match &mut self.place {
            Place::Head => self.head_next(held),
            Place::Body(body) => body.next(held, &self.limits),
            Place::Undecided => return Ok(None),
            Place::Failed { violation, .. } => return Err(*violation),
        };
        match read {
            Ok(Some(Event::End)) => {
                self.complete();
                // What the head said can be asked for until the next one begins.
                Ok(Some(Event::End))
            }
            Err(violation) => {
                let within_body = matches!(self.place, Place::Body(_));
                self.place = Place::Failed { violation, within_body };
                Err(violation)
            }
            read => read,
        }
    }

    fn head_next(&mut self, held: &[u8]) -> Result<Option<Event>, Violation> {
        if held.is_empty() {
            return Ok(None);
        }
        if self.line.is_read_before {
            self.scan.restart();
            self.line = RequestLine::default();
        }
        let Some(head) = self.scan.advance(&mut self.line, held, &self.limits)? else {
            return Ok(None);
        };
        if head.version == Version::Http11 && !self.line.host {
            return Err(Violation::Host);
        }
        self.framing = head.framing?.unwrap_or(Framing::Empty);
        self.line.is_read_before = true;
        let body = Body::new(self.framing);
        let length = body.left().and_then(|length| usize::try_from(length).ok());
        self.whole = length.filter(|&length| length <= held.len() - head.len);
        self.place = Place::Body(body);
        Ok(Some(Event::Head(head.len)))
    }

    fn complete(&mut self) {
        self.place = if self.asks_upgrade() { Place::Undecided } else { Place::Head };
    }

    /// The rest of a body of [known length](Self::left) has been taken, all of it, without being
    /// shown: the request is complete.
    pub fn skip_body(&mut self) {
        if matches!(&self.place, Place::Body(body) if body.left().is_some()) {
            self.complete();
        }
    }

    /// What the head of the last [`Event::Head`] says, until the next one begins.
    pub fn head(&self) -> RequestHead<'_> {
        let version = self.line.version;
        RequestHead {
            method: self.line.method,
            target: self.line.target,
            version,
            fields: &self.scan.fields,
            framing: self.framing,
            whole: self.whole,
            keep: self.scan.keeps(version),
            upgrade: self.asks_upgrade(),
            expects_continue: self.line.expects_continue,
        }
    }

    fn asks_upgrade(&self) -> bool {
        self.scan.upgrade || self.line.is_connect
    }

    /// Whether nothing has been shown of a request that is not complete.
    pub fn is_between_requests(&self) -> bool {
        matches!(self.place, Place::Head) && (self.line.is_read_before || self.scan.is_at_start())
    }

    /// Whether the last head's body has not come to its end; true as well if it broke a rule
    /// midway.
    pub fn is_within_body(&self) -> bool {
        match &self.place {
            Place::Body(_) => true,
            Place::Failed { within_body, .. } => *within_body,
            Place::Head | Place::Undecided => false,
        }
    }

    /// Whether the last request asked to change the protocol, and that has not been decided.
    pub fn is_undecided(&self) -> bool {
        matches!(self.place, Place::Undecided)
    }

    /// The protocol has not changed: the next request follows.
    pub fn resume(&mut self) {
        if self.is_undecided() {
            self.place = Place::Head;
        }
    }

    /// How many bytes of the body are still to come, if that is known.
    pub fn left(&self) -> Option<u64> {
        match &self.place {
            Place::Body(body) => body.left(),
            Place::Head | Place::Undecided => Some(0),
            Place::Failed { .. } => None,
        }
    }

    /// Lets go of memory that only the reading of a head needs. What the last one said is gone.
    pub fn release(&mut self) {
        if self.is_between_requests() {
            (self.line, self.scan) = Default::default();
        }
    }
}
