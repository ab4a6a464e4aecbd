//! Requests as a server reads them.

use crate::body::Body;
use crate::event::Event;
use crate::grammar;
use crate::head::{Field, FirstLine, Framing, HeadScan, Span, Version};
use crate::limits::Limits;
use crate::violation::Violation;

/// The methods of HTTP [RFC9110 §9.1], and PATCH [RFC5789 §2].
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

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
                self.place = if self.asks_upgrade() { Place::Undecided } else { Place::Head };
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
        let Some((len, version)) = self.scan.advance(&mut self.line, held, &self.limits)? else {
            return Ok(None);
        };
        if version == Version::Http11 && !self.line.host {
            return Err(Violation::Host);
        }
        self.framing = self.scan.framing(&self.limits)?.unwrap_or(Framing::Empty);
        self.line.is_read_before = true;
        self.place = Place::Body(Body::new(self.framing));
        Ok(Some(Event::Head(len)))
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

#[derive(Debug)]
struct RequestLine {
    method: Span,
    target: Span,
    version: Version,
    is_connect: bool,
    host: bool,
    expects_continue: bool,
    /// The head that it belongs to is complete.
    is_read_before: bool,
}

impl Default for RequestLine {
    fn default() -> Self {
        Self {
            method: Span::default(),
            target: Span::default(),
            version: Version::Http11,
            is_connect: false,
            host: false,
            expects_continue: false,
            is_read_before: false,
        }
    }
}

impl FirstLine for RequestLine {
    const LONE_LF: bool = false;
    const EMPTY_BEFORE: bool = true;
    const SAME_LENGTHS: bool = false;

    fn check_start(&self, line: &[u8], limits: &Limits) -> Result<(), Violation> {
        match line.first() {
            // No line end need ever come from what does not speak HTTP (TLS, say).
            Some(&first) if first != b'\r' && !grammar::is_token(first) => {
                Err(Violation::RequestLine)
            }
            // Its CR may be among the bytes.
            _ if line.len() > limits.first_line_max + 1 => Err(Violation::RequestLineTooLong),
            _ => Ok(()),
        }
    }

    /// `method SP request-target SP HTTP-version` [RFC9112 §3].
    fn read(&mut self, line: &[u8], at: usize) -> Result<Version, Violation> {
        let (method, target, version) = match split(line) {
            Err(_) if !is_http(line) => return Err(Violation::NotHttp),
            split => split?,
        };
        self.is_connect = method == b"CONNECT";
        if !grammar::is_target(target, method, self.is_connect) {
            return Err(Violation::Target);
        }
        self.method = Span::new(at, method);
        self.target = Span::new(at + method.len() + 1, target);
        self.version = version;
        Ok(version)
    }

    fn field(&mut self, name: &[u8], value: &[u8], version: Version) -> Result<(), Violation> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                if self.host || !grammar::is_host(value) {
                    return Err(Violation::Host);
                }
                self.host = true;
            }
            // One of HTTP/1.0 waits for nothing [RFC9110 §10.1.1].
            6 if name.eq_ignore_ascii_case(b"expect") => {
                let is_known = value.eq_ignore_ascii_case(b"100-continue");
                self.expects_continue |= is_known && version == Version::Http11;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether a line that is no request line was meant as one: it begins with a method, or has a
/// version, or nothing at all.
fn is_http(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
    let method = words.clone().next().unwrap_or_default();
    line.is_empty() || METHODS.contains(&method) || words.any(|word| word.starts_with(b"HTTP/"))
}

/// The method, the target, and the version.
fn split(line: &[u8]) -> Result<(&[u8], &[u8], Version), Violation> {
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(if line.contains(&b'\r') {
            Violation::LineEnd
        } else {
            Violation::RequestLine
        });
    };
    if method.is_empty() || !method.iter().all(|&byte| grammar::is_token(byte)) {
        return Err(Violation::RequestLine);
    }
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(Violation::Version);
        }
        _ if version.contains(&b'\r') => return Err(Violation::LineEnd),
        _ => return Err(Violation::RequestLine),
    };
    Ok((method, target, version))
}
