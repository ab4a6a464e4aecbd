//! Request heads: found to their last byte, and checked line by line.

use memchr::memchr;
use tamarisk_h1::{FIELDS_MAX, Limits, Violation, grammar};

/// The methods of HTTP [RFC9110 §9.1], and PATCH [RFC5789 §2].
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

/// A head that is complete and well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes, the empty line included.
    pub(super) len: usize,
    /// What follows it.
    pub(super) body: Framing,
    /// It asks to speak another protocol after this request.
    pub(super) upgrade: bool,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    Empty,
    /// By counting, this many bytes (not zero).
    Length(u64),
    /// By chunk framing.
    Chunked,
}

/// A search for the end of a head, which goes on where it stopped: each byte
/// is looked at a bounded number of times, however it drips in.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    line_start: usize,
    searched: usize,
    request_line: Option<RequestLine>,
    fields: u32,
    host: bool,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
}

#[derive(Clone, Copy, Debug)]
struct RequestLine {
    is_http_11: bool,
    is_connect: bool,
}

impl HeadScan {
    /// Looks at `held`, a head's first bytes: those seen before and new ones
    /// after them. `None` asks for more.
    pub(super) fn advance(
        &mut self,
        held: &[u8],
        limits: &Limits,
    ) -> Result<Option<Head>, Violation> {
        while let Some(found) = memchr(b'\n', &held[self.searched..]) {
            let end = self.searched + found;
            let next = end + 1;
            let line = &held[self.line_start..end];
            self.check_start(line, next, limits)?;
            let Some((b'\r', line)) = line.split_last() else {
                return Err(Violation::LineEnd);
            };
            (self.searched, self.line_start) = (next, next);
            match self.request_line {
                // One empty line before the request line is forgiven [RFC9112 §2.2].
                None if line.is_empty() && next == 2 => {}
                None => match request_line(line) {
                    Err(_) if !is_http(line) => return Err(Violation::NotHttp),
                    read => self.request_line = Some(read?),
                },
                Some(request_line) if line.is_empty() => {
                    return self.finish(next, request_line, limits).map(Some);
                }
                Some(request_line) => self.field(line, request_line)?,
            }
        }
        self.searched = held.len();
        self.check_start(&held[self.line_start..], held.len(), limits).map(|()| None)
    }

    /// Whether the start of a line, or all of it up to its LF, breaks a rule
    /// already; the head has come to `len` bytes with it. What is refused here
    /// is refused however much of the line has come.
    fn check_start(&self, line: &[u8], len: usize, limits: &Limits) -> Result<(), Violation> {
        if self.request_line.is_some() {
            return if len > limits.head_max { Err(Violation::HeadTooLarge) } else { Ok(()) };
        }
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

    fn field(&mut self, line: &[u8], request_line: RequestLine) -> Result<(), Violation> {
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            return Err(Violation::TooManyFields);
        }
        let (name, value) = grammar::field_line(line)?;
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                if self.host || !grammar::is_host(value) {
                    return Err(Violation::Host);
                }
                self.host = true;
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.upgrade = request_line.is_http_11;
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if self.length.is_some() {
                    return Err(Violation::ContentLength);
                }
                self.length = Some(grammar::decimal(value).ok_or(Violation::ContentLength)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                // An HTTP/1.0 sender knows no chunks [RFC9112 §6.1].
                let known = value.eq_ignore_ascii_case(b"chunked") && request_line.is_http_11;
                if self.chunked || !known {
                    return Err(Violation::TransferEncoding);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(
        &self,
        len: usize,
        request_line: RequestLine,
        limits: &Limits,
    ) -> Result<Head, Violation> {
        if request_line.is_http_11 && !self.host {
            return Err(Violation::Host);
        }
        let body = match (self.length, self.chunked) {
            (Some(_), true) => return Err(Violation::AmbiguousLength),
            (None, true) => Framing::Chunked,
            (Some(length), false) if limits.body_max.is_some_and(|max| length > max) => {
                return Err(Violation::BodyTooLarge);
            }
            (None | Some(0), false) => Framing::Empty,
            (Some(length), false) => Framing::Length(length),
        };
        Ok(Head { len, body, upgrade: self.upgrade || request_line.is_connect })
    }
}

/// Whether a line that is no request line was meant as one: it begins with a method, or has a
/// version, or nothing at all.
fn is_http(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
    let method = words.clone().next().unwrap_or_default();
    line.is_empty() || METHODS.contains(&method) || words.any(|word| word.starts_with(b"HTTP/"))
}

/// `method SP request-target SP HTTP-version` [RFC9112 §3].
fn request_line(line: &[u8]) -> Result<RequestLine, Violation> {
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
    let is_http_11 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(Violation::Version);
        }
        _ if version.contains(&b'\r') => return Err(Violation::LineEnd),
        _ => return Err(Violation::RequestLine),
    };
    let is_connect = method == b"CONNECT";
    if !grammar::is_target(target, method, is_connect) {
        return Err(Violation::Target);
    }
    Ok(RequestLine { is_http_11, is_connect })
}
