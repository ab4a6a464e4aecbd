//! What is wrong with a message, by name.

use http::StatusCode;

/// What is wrong with a message, or with the time that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A first line with neither a method that is known nor a version: another protocol.
    #[error("not HTTP")]
    NotHttp,
    /// The request line is not `method SP target SP version`.
    #[error("malformed request line")]
    RequestLine,
    /// The status line is not `version SP status SP reason`.
    #[error("malformed status line")]
    StatusLine,
    /// The request target has a byte or a form that it must not have.
    #[error("malformed request target")]
    Target,
    /// A version of HTTP/1 that is neither 1.0 nor 1.1.
    #[error("HTTP version not supported")]
    Version,
    /// A line ends without CR, or a CR stands alone.
    #[error("bare CR or LF in a head")]
    LineEnd,
    /// A field line starts with a space or tab [RFC9112 §5.2].
    #[error("obsolete line folding")]
    Folding,
    /// A field name with a byte that is no token character: a space before the
    /// colon above all.
    #[error("malformed header field name")]
    FieldName,
    /// A control character in a field value, NUL included.
    #[error("control character in a header field")]
    FieldValue,
    /// An HTTP/1.1 request with no `Host`, more than one, or one that is no host.
    #[error("missing, repeated or malformed Host")]
    Host,
    /// A `Content-Length` that is not one plain number.
    #[error("malformed or repeated Content-Length")]
    ContentLength,
    /// A `Transfer-Encoding` that is not exactly `chunked`, or in HTTP/1.0.
    #[error("unsupported Transfer-Encoding")]
    TransferEncoding,
    /// Both `Content-Length` and `Transfer-Encoding`: two readers could see
    /// two different requests.
    #[error("both Content-Length and Transfer-Encoding")]
    AmbiguousLength,
    /// Chunk framing that is not what [RFC9112 §7.1] says.
    #[error("malformed chunk")]
    Chunk,
    /// A request line over its limit.
    #[error("request line too long")]
    RequestLineTooLong,
    /// A head or trailers over their limit.
    #[error("header too large")]
    HeadTooLarge,
    /// More header fields than the limit.
    #[error("too many header fields")]
    TooManyFields,
    /// A body over its limit, declared or sent.
    #[error("body too large")]
    BodyTooLarge,
    /// The connection ended within a message.
    #[error("the connection ended within a message")]
    Incomplete,
    /// The rest of a head did not come in time.
    #[error("the request head took too long")]
    HeadTooSlow,
    /// A body stood still for too long.
    #[error("the request body took too long")]
    BodyTooSlow,
}

impl Violation {
    /// The status that tells the client, whose request or upstream it was.
    pub fn status(self) -> StatusCode {
        match self {
            Self::NotHttp
            | Self::RequestLine
            | Self::Target
            | Self::LineEnd
            | Self::Folding
            | Self::FieldName
            | Self::FieldValue
            | Self::Host
            | Self::ContentLength
            | Self::TransferEncoding
            | Self::AmbiguousLength
            | Self::Chunk
            | Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::StatusLine => StatusCode::BAD_GATEWAY,
            Self::HeadTooSlow | Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RequestLineTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge | Self::TooManyFields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        }
    }
}
