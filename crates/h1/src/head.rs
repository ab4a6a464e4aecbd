//! Heads: found to their last byte, checked line by line, and kept as places in the bytes.

use std::ops::Range;

use http::StatusCode;
use memchr::memchr;

use crate::grammar;
use crate::limits::{FIELDS_MAX, Limits};
use crate::violation::Violation;

/// How many fields there is room for at once: most heads have no more.
const FIELDS_USUAL: usize = 16;

/// Where a part of a head stands, counted from the head's first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The part itself. `head` holds the head from its first byte on.
    ///
    /// # Panics
    /// If `head` is shorter than that.
    #[inline]
    pub fn of(self, head: &[u8]) -> &[u8] {
        &head[self.range()]
    }

    /// The same as indices.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The place of `part`, which begins `start` bytes into the head.
    pub(crate) fn new(start: usize, part: &[u8]) -> Self {
        let place =
            |index: usize| u32::try_from(index).expect("the limits of heads are below 4 GiB");
        Self { start: place(start), end: place(start + part.len()) }
    }
}

/// One field line of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// The name, in the case in which it was sent.
    pub name: Span,
    /// The value, without the white space around it.
    pub value: Span,
}

/// The versions of HTTP that this crate reads. Complete by definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no chunks, no requests to change the protocol, and a connection for each request
    /// unless both sides say otherwise.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of a body is found [RFC9112 §6.3]. Complete by definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// By counting, this many bytes (not zero).
    Length(u64),
    /// By chunk framing.
    Chunked,
    /// By the end of the connection; of responses only.
    UntilClose,
}

/// What the first line of a head is to be.
pub(crate) trait FirstLine {
    /// Whether a LF without a CR before it ends a line [RFC9112 §2.2].
    const LONE_LF: bool;
    /// Whether one empty line before the first is ignored [RFC9112 §2.2].
    const EMPTY_BEFORE: bool;
    /// Whether a length may be repeated if it is the same each time.
    const SAME_LENGTHS: bool;

    /// Whether `line`, the beginning of a first line, can become one.
    fn check_start(&self, line: &[u8], limits: &Limits) -> Result<(), Violation>;

    /// Reads the whole of it, which begins `at` bytes into the head.
    fn read(&mut self, line: &[u8], at: usize) -> Result<Version, Violation>;

    /// Looks at a field that does not concern the framing.
    fn field(&mut self, name: &[u8], value: &[u8], version: Version) -> Result<(), Violation>;
}

/// What a head comes to that is complete.
pub(crate) struct CompleteHead {
    pub(crate) len: usize,
    pub(crate) version: Version,
    /// What its fields say about the end of its body; `None` if they do not.
    pub(crate) framing: Result<Option<Framing>, Violation>,
}

/// A search for the end of a head, which goes on where it stopped: each byte is looked at a bounded
/// number of times, however it drips in. What it finds on its way is kept.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    line_start: usize,
    searched: usize,
    version: Option<Version>,
    pub(crate) fields: Vec<Field>,
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
}

impl HeadScan {
    /// Begins with the next head, in the memory of the last one.
    pub(crate) fn restart(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }

    /// Whether nothing of a head has been seen.
    pub(crate) fn is_at_start(&self) -> bool {
        self.searched == 0
    }

    /// Looks at `held`, a head's first bytes: those seen before and new ones after them. What the
    /// head comes to, once it is complete.
    pub(crate) fn advance<F: FirstLine>(
        &mut self,
        first: &mut F,
        held: &[u8],
        limits: &Limits,
    ) -> Result<Option<CompleteHead>, Violation> {
        while let Some(found) = memchr(b'\n', &held[self.searched..]) {
            let end = self.searched + found;
            let next = end + 1;
            let line = &held[self.line_start..end];
            self.check_start(first, line, next, limits)?;
            let line = match line.split_last() {
                Some((b'\r', line)) => line,
                _ if F::LONE_LF => line,
                _ => return Err(Violation::LineEnd),
            };
            let at = self.line_start;
            (self.searched, self.line_start) = (next, next);
            match self.version {
                None if F::EMPTY_BEFORE && line.is_empty() && next == 2 => {}
                None => self.version = Some(first.read(line, at)?),
                Some(version) if line.is_empty() => {
                    let framing = self.framing(limits);
                    return Ok(Some(CompleteHead { len: next, version, framing }));
                }
                Some(version) => self.field(first, line, at, version)?,
            }
        }
        self.searched = held.len();
        self.check_start(first, &held[self.line_start..], held.len(), limits).map(|()| None)
    }

    /// Whether the start of a line, or all of it up to its LF, breaks a rule already; the head has
    /// come to `len` bytes with it. What is rejected here is rejected however much of the line has
    /// come.
    fn check_start<F: FirstLine>(
        &self,
        first: &F,
        line: &[u8],
        len: usize,
        limits: &Limits,
    ) -> Result<(), Violation> {
        if self.version.is_none() {
            // Of what is within the head's bound: which bound is broken first does not depend on how
            // much of the line has come.
            let room = limits.head_max.saturating_sub(self.line_start);
            first.check_start(&line[..line.len().min(room)], limits)?;
        }
        if len > limits.head_max { Err(Violation::HeadTooLarge) } else { Ok(()) }
    }

    fn field<F: FirstLine>(
        &mut self,
        first: &mut F,
        line: &[u8],
        at: usize,
        version: Version,
    ) -> Result<(), Violation> {
        if self.fields.is_empty() {
            self.fields.reserve(FIELDS_USUAL);
        }
        if self.fields.len() >= FIELDS_MAX as usize {
            return Err(Violation::TooManyFields);
        }
        let (name, value) = field_line(line)?;
        // How far the value is into the line.
        let value_at = value.as_ptr().addr() - line.as_ptr().addr();
        let spans = Field { name: Span::new(at, name), value: Span::new(at + value_at, value) };
        self.fields.push(spans);
        match name.len() {
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.upgrade = version == Version::Http11;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = grammar::decimal(value).ok_or(Violation::ContentLength)?;
                let is_same = F::SAME_LENGTHS && self.length == Some(length);
                if self.length.is_some() && !is_same {
                    return Err(Violation::ContentLength);
                }
                self.length = Some(length);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                // An HTTP/1.0 sender knows no chunks [RFC9112 §6.1].
                let is_known = value.eq_ignore_ascii_case(b"chunked") && version == Version::Http11;
                if self.chunked || !is_known {
                    return Err(Violation::TransferEncoding);
                }
                self.chunked = true;
            }
            _ => first.field(name, value, version)?,
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        self.close |= grammar::lists(value, b"close");
        self.keep_alive |= grammar::lists(value, b"keep-alive");
    }

    /// What the head's fields say about the end of its body; `None` if they do not.
    fn framing(&self, limits: &Limits) -> Result<Option<Framing>, Violation> {
        match (self.length, self.chunked) {
            (Some(_), true) => Err(Violation::AmbiguousLength),
            (None, true) => Ok(Some(Framing::Chunked)),
            (Some(length), false) if limits.body_max.is_some_and(|max| length > max) => {
                Err(Violation::BodyTooLarge)
            }
            (Some(0), false) => Ok(Some(Framing::Empty)),
            (Some(length), false) => Ok(Some(Framing::Length(length))),
            (None, false) => Ok(None),
        }
    }

    /// Whether the sender wants to go on with the connection [RFC9112 §9.3].
    pub(crate) fn keeps(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}

/// The name and the value, without the white space around it, of a field line, which is given
/// without its line end.
///
/// # Errors
/// The [`Violation`] if it is not a field line.
pub(crate) fn field_line(line: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    let name_len = line.iter().position(|&byte| !grammar::is_token(byte)).unwrap_or(line.len());
    match line.get(name_len) {
        Some(b' ' | b'\t') if name_len == 0 => return Err(Violation::Folding),
        Some(b':') if name_len > 0 => {}
        Some(b'\r') => return Err(Violation::LineEnd),
        _ => return Err(Violation::FieldName),
    }
    let value = &line[name_len + 1..];
    if !grammar::are_values(value) {
        return Err(if value.contains(&b'\r') {
            Violation::LineEnd
        } else {
            Violation::FieldValue
        });
    }
    Ok((&line[..name_len], trim(value)))
}

fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    &value[start..end]
}

/// The methods of HTTP [RFC9110 §9.1], and PATCH [RFC5789 §2].
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

/// The first line of a request, and what is found in its fields besides.
#[derive(Debug)]
pub(crate) struct RequestLine {
    pub(crate) method: Span,
    pub(crate) target: Span,
    pub(crate) version: Version,
    pub(crate) is_connect: bool,
    pub(crate) host: bool,
    pub(crate) expects_continue: bool,
    /// The head that it belongs to is complete.
    pub(crate) is_read_before: bool,
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

/// The first line of a response.
#[derive(Debug)]
pub(crate) struct StatusLine {
    pub(crate) version: Version,
    pub(crate) status: StatusCode,
    pub(crate) reason: Span,
    /// The head that it belongs to is complete.
    pub(crate) is_read_before: bool,
}

impl Default for StatusLine {
    fn default() -> Self {
        let (status, reason) = (StatusCode::OK, Span::default());
        Self { version: Version::Http11, status, reason, is_read_before: false }
    }
}

impl FirstLine for StatusLine {
    const LONE_LF: bool = true;
    const EMPTY_BEFORE: bool = false;
    const SAME_LENGTHS: bool = true;

    fn check_start(&self, line: &[u8], limits: &Limits) -> Result<(), Violation> {
        let start = b"HTTP/1.";
        let known = line.len().min(start.len());
        // What speaks no HTTP need not be waited for.
        if line[..known] != start[..known] {
            return Err(Violation::NotHttp);
        }
        if line.len() > limits.first_line_max { Err(Violation::HeadTooLarge) } else { Ok(()) }
    }

    /// `HTTP-version SP status-code SP [ reason-phrase ]` [RFC9112 §4]. The second space is often
    /// left out where there is no reason.
    fn read(&mut self, line: &[u8], at: usize) -> Result<Version, Violation> {
        self.version = match line.get(..9) {
            Some(b"HTTP/1.1 ") => Version::Http11,
            Some(b"HTTP/1.0 ") => Version::Http10,
            _ => return Err(Violation::StatusLine),
        };
        let code = line.get(9..12).and_then(|code| StatusCode::from_bytes(code).ok());
        self.status = code.ok_or(Violation::StatusLine)?;
        let reason = match &line[12..] {
            [] => &line[12..],
            [b' ', reason @ ..] if grammar::are_values(reason) => reason,
            _ => return Err(Violation::StatusLine),
        };
        self.reason = Span::new(at + line.len() - reason.len(), reason);
        Ok(self.version)
    }

    fn field(&mut self, _: &[u8], _: &[u8], _: Version) -> Result<(), Violation> {
        Ok(())
    }
}
