//! Errors of reading a request body.

use crate::guard::Violation;

/// Why there is no more of a request's body.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientBodyError {
    /// The client broke off, or what it sent over HTTP/2 is malformed.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// The client has left before the body's end, or the connection broke.
    #[error("the client closed its connection before the end of the request body")]
    Gone,
    /// What it sent breaks a rule or a limit.
    #[error(transparent)]
    Malformed(Violation),
    /// The client let us wait for longer than the [limits](crate::guard::Limits::stall_time) allow.
    #[error(transparent)]
    Slow(Violation),
}

impl ClientBodyError {
    /// What the client is rejected for, if it is not gone.
    pub fn violation(&self) -> Option<Violation> {
        match self {
            Self::Slow(violation) | Self::Malformed(violation) => Some(*violation),
            Self::Broken(_) | Self::Gone => None,
        }
    }
}
