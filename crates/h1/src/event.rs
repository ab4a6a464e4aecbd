//! What a reader says of the bytes that it was shown.

/// What the first of the bytes are that a reader was shown. Complete by definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many bytes are a head, complete and well-formed; the reader has what it says.
    Head(usize),
    /// So many bytes are data of the body.
    Data(usize),
    /// So many bytes of chunk framing came between the data.
    Framing(usize),
    /// So many bytes are all the trailers of a body, with the empty line that ends them: for
    /// [`trailer_fields`](crate::trailer_fields).
    Trailers(usize),
    /// The message is complete. No bytes stand for that.
    End,
}

impl Event {
    /// The bytes that stand for it, and are not to be shown again.
    #[expect(clippy::len_without_is_empty, reason = "it is no container")]
    #[inline]
    pub fn len(self) -> usize {
        match self {
            Self::Head(bytes)
            | Self::Data(bytes)
            | Self::Framing(bytes)
            | Self::Trailers(bytes) => bytes,
            Self::End => 0,
        }
    }
}
