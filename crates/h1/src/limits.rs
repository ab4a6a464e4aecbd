//! The most that a head or trailers may hold.

/// The most header fields in one head or in the trailers of one body: as many as hyper parses
/// without leaving the stack, and what nginx and Apache users know.
pub const FIELDS_MAX: u32 = 100;

/// The most bytes in one line of chunk framing: a size and its extensions. Nobody sends
/// extensions, and long ones have been used to exhaust servers.
pub(crate) const CHUNK_LINE_MAX: usize = 256;

/// The most bytes in a message, part by part. Complete by definition: these are its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in a request line or status line, without its line end.
    pub first_line_max: usize,
    /// Bytes in a head, its first line and its empty line included, and in the trailers of a body.
    pub head_max: usize,
    /// Bytes in a body, declared or received. `None`: any number.
    pub body_max: Option<u64>,
}

impl Limits {
    /// For requests: a request line of 8 KiB, a head of 32 KiB, and bodies of any length.
    pub const REQUEST: Self = Self {
        // [RFC9112 §3] asks for at least 8000 octets.
        first_line_max: 8 * 1024,
        head_max: 32 * 1024,
        // A long body costs no memory: it is streamed.
        body_max: None,
    };

    /// For responses: a head of 64 KiB, what hyper allows, and bodies of any length.
    pub const RESPONSE: Self =
        Self { first_line_max: 64 * 1024, head_max: 64 * 1024, body_max: None };
}
