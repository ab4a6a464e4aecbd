//! The watch over a connection's bytes: where each request ends and the next begins.

use tamarisk_h1::{Chunked, Part, Violation};

use super::head::{Framing, Head, HeadScan};
use super::limits::Limits;

/// Reads along a client's bytes and says which of them may go on.
///
/// It does no I/O: it is shown the bytes that are held back, in order and cut
/// wherever the network cut them, and answers how many of them to release. The
/// bytes of a head are released together, once all of it is well-formed; those
/// of a body as they come.
#[derive(Debug)]
pub struct Watch {
    limits: Limits,
    place: Place,
    /// How many heads were released.
    requests: u64,
}

#[derive(Debug)]
enum Place {
    Head(HeadScan),
    Length {
        left: u64,
        then: After,
    },
    Chunked {
        reader: Chunked,
        then: After,
    },
    /// After a request to change the protocol, until its answer.
    Undecided,
    Tunnel,
    Refused {
        violation: Violation,
        within_body: bool,
    },
}

/// What follows a request.
#[derive(Clone, Copy, Debug)]
enum After {
    Request,
    Upgrade,
}

impl After {
    fn place(self) -> Place {
        match self {
            Self::Request => Place::Head(HeadScan::default()),
            Self::Upgrade => Place::Undecided,
        }
    }
}

impl Watch {
    /// A watch over a connection that starts with a request head.
    pub fn new(limits: Limits) -> Self {
        Self { limits, place: Place::Head(HeadScan::default()), requests: 0 }
    }

    /// Shows `held`: what the last call did not release, followed by what has
    /// come since. The answer is how many of its first bytes may go on; the
    /// others stay held.
    ///
    /// # Errors
    /// The [`Violation`] that ends the connection. It is told once all that
    /// stood before it has been released, and again at each later call.
    pub fn scan(&mut self, held: &[u8]) -> Result<usize, Violation> {
        let mut released = 0;
        while released < held.len() {
            match self.step(&held[released..]) {
                Ok(0) => break,
                Ok(bytes) => released += bytes,
                Err(violation) => {
                    let within_body = self.is_within_body();
                    self.place = Place::Refused { violation, within_body };
                    return if released > 0 { Ok(released) } else { Err(violation) };
                }
            }
        }
        Ok(released)
    }

    /// How many heads have been released.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether nothing has been shown of a request that is not complete.
    pub fn is_between_requests(&self) -> bool {
        matches!(&self.place, Place::Head(_))
    }

    /// Whether the last head's body has not come to its end; true as well if it
    /// was refused midway.
    pub fn is_within_body(&self) -> bool {
        match self.place {
            Place::Length { .. } | Place::Chunked { .. } => true,
            Place::Refused { within_body, .. } => within_body,
            Place::Head(_) | Place::Undecided | Place::Tunnel => false,
        }
    }

    /// Whether the last head released asked to change the protocol, and that
    /// has not been decided.
    pub fn asks_upgrade(&self) -> bool {
        matches!(
            self.place,
            Place::Undecided
                | Place::Length { then: After::Upgrade, .. }
                | Place::Chunked { then: After::Upgrade, .. }
        )
    }

    /// Whether everything is held until [`Watch::tunnel`] or [`Watch::resume`],
    /// because the last request asked to change the protocol.
    pub fn is_undecided(&self) -> bool {
        matches!(self.place, Place::Undecided)
    }

    /// The protocol has changed: all that follows is released unread.
    pub fn tunnel(&mut self) {
        self.place = Place::Tunnel;
    }

    /// The protocol has not changed: the next request follows.
    pub fn resume(&mut self) {
        self.place = Place::Head(HeadScan::default());
    }

    fn step(&mut self, held: &[u8]) -> Result<usize, Violation> {
        match &mut self.place {
            Place::Head(scan) => {
                let Some(head) = scan.advance(held, &self.limits.bytes)? else { return Ok(0) };
                self.requests += 1;
                self.place = after_head(head);
                Ok(head.len)
            }
            Place::Length { left, then } => {
                let bytes = held.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes as u64;
                if *left == 0 {
                    self.place = then.place();
                }
                Ok(bytes)
            }
            Place::Chunked { reader, then } => {
                let (bytes, part) = reader.next(held, &self.limits.bytes)?;
                if part == Part::End {
                    self.place = then.place();
                }
                Ok(bytes)
            }
            Place::Undecided => Ok(0),
            Place::Tunnel => Ok(held.len()),
            Place::Refused { violation, .. } => Err(*violation),
        }
    }
}

fn after_head(head: Head) -> Place {
    let then = if head.upgrade { After::Upgrade } else { After::Request };
    match head.body {
        Framing::Empty => then.place(),
        Framing::Length(left) => Place::Length { left, then },
        Framing::Chunked => Place::Chunked { reader: Chunked::default(), then },
    }
}
