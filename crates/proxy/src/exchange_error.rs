//! Why an exchange with an upstream ended without a response.

use std::io;

use tamarisk_observe::access_log::BreaksOff;
use tamarisk_server::ClientBodyError;

/// Why there is no answer, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The upstream closed the connection, or it broke.
    #[error("the upstream's connection ended")]
    Ended,
    /// What it sent is no answer.
    #[error("the upstream's answer is malformed")]
    Malformed,
    /// It speaks HTTP/2 at once, as servers of gRPC do.
    #[error("the upstream answered in HTTP/2")]
    Http2,
    /// It took too long to begin the answer, or stopped within it for too long.
    #[error("the upstream took too long")]
    Late,
    /// The client's request body broke off.
    #[error("the request body ended early")]
    Client(#[source] ClientBodyError),
    /// The file that the request body was buffered in cannot be read.
    #[error("the buffered request body cannot be read")]
    Disk(#[source] io::Error),
    /// The client did not read, and there are too many such answers.
    #[error("too many answers are waiting for their clients")]
    Unread,
}

impl BreaksOff for ExchangeError {
    fn reason(&self) -> &'static str {
        if matches!(self, Self::Late) { "silent" } else { "broken" }
    }
}

impl From<ExchangeError> for io::Error {
    fn from(error: ExchangeError) -> Self {
        let is_late = matches!(error, ExchangeError::Late);
        let kind = if is_late { io::ErrorKind::TimedOut } else { io::ErrorKind::Other };
        Self::new(kind, error)
    }
}
