//! How a request can end, as its user sees it.

use std::fmt;
use std::io;
use std::time::Duration;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A full answer with a status below 400.
    Completed,
    /// The service said no: 503 or 429.
    Rejected {
        /// When it wants to be asked again, if it says so in seconds.
        retry_after: Option<Duration>,
    },
    /// Anything else.
    Failed(ErrorKind),
}

/// Why a request failed. Ordered from the network's faults to the service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ErrorKind {
    /// Never sent: all the connections that the generator may open were in use,
    /// or it was behind its schedule when the run ended.
    NotSent,
    /// The machine of the generator has no free port or descriptor left.
    NoLocalResources,
    /// Nobody listens there.
    ConnectionRefused,
    /// Connecting failed in another way.
    ConnectFailed,
    /// The connection ended before the answer was complete.
    ConnectionClosed,
    /// The answer is not HTTP.
    MalformedAnswer,
    /// The answer is longer than an answer that a user reads may be.
    AnswerTooLong,
    /// The user cannot go on with the answer, for this reason.
    Unusable(&'static str),
    /// No full answer within the plan's timeout.
    TimedOut,
    /// A status of 400 or more that is not a rejection.
    Status(u16),
}

impl Outcome {
    /// What an answer with this status counts as, and this `Retry-After` if it has one.
    pub(crate) fn of_answer(status: u16, retry_after: Option<&[u8]>) -> Self {
        match status {
            429 | 503 => Self::Rejected { retry_after: retry_after.and_then(seconds) },
            ..400 => Self::Completed,
            _ => Self::Failed(ErrorKind::Status(status)),
        }
    }
}

impl ErrorKind {
    /// What went wrong while connecting.
    pub(crate) fn of_connecting(error: &io::Error) -> Self {
        let too_many_files =
            [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|e| e.raw_os_error());
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            io::ErrorKind::AddrNotAvailable => Self::NoLocalResources,
            _ if error.raw_os_error().is_some_and(|code| too_many_files.contains(&code)) => {
                Self::NoLocalResources
            }
            _ => Self::ConnectFailed,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent => f.write_str("not sent"),
            Self::NoLocalResources => f.write_str("no local port or descriptor"),
            Self::ConnectionRefused => f.write_str("connection refused"),
            Self::ConnectFailed => f.write_str("connect failed"),
            Self::ConnectionClosed => f.write_str("connection closed"),
            Self::MalformedAnswer => f.write_str("malformed answer"),
            Self::AnswerTooLong => f.write_str("answer too long"),
            Self::Unusable(reason) => f.write_str(reason),
            Self::TimedOut => f.write_str("timed out"),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

/// `Retry-After` in its form of whole seconds; the form with a date would need
/// clocks that agree, so it counts as absent [RFC 9110 §10.2.3].
fn seconds(retry_after: &[u8]) -> Option<Duration> {
    let seconds: u32 = std::str::from_utf8(retry_after).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(u64::from(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, retry_after: Option<&str>, expected: Outcome) {
        assert_eq!(Outcome::of_answer(status, retry_after.map(str::as_bytes)), expected);
    }

    #[test]
    fn unavailable_and_too_many_requests_are_rejections() {
        check(503, None, Outcome::Rejected { retry_after: None });
        let three = Some(Duration::from_secs(3));
        check(429, Some("3"), Outcome::Rejected { retry_after: three });
    }

    #[test]
    fn a_retry_after_that_is_no_number_of_seconds_is_passed_over() {
        for text in ["Wed, 21 Oct 2015 07:28:00 GMT", "-3", "1.5", "99999999999999"] {
            check(503, Some(text), Outcome::Rejected { retry_after: None });
        }
    }

    #[test]
    fn redirects_complete_and_other_errors_fail() {
        check(200, None, Outcome::Completed);
        check(304, None, Outcome::Completed);
        check(404, None, Outcome::Failed(ErrorKind::Status(404)));
        check(500, None, Outcome::Failed(ErrorKind::Status(500)));
    }
}
