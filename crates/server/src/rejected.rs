//! Counts connections and requests rejected before any stage: limits, malformed, too large, too slow.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use crate::guard::Violation;

/// How many clients and requests a server has rejected before any service saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// Connections for which there was no place, or no descriptor.
    pub turned_away: u64,
    /// Connections that let the server wait, and were closed for new clients because there was no place
    /// left.
    pub gave_way: u64,
    /// Connections over HTTP/2 that were closed because of too many frames that bring nothing further.
    pub flooded: u64,
    /// Requests that were no proper HTTP, or asked for what we do not speak; over HTTP/2 also
    /// connections that were closed for that.
    pub malformed: u64,
    /// Requests whose request line, head or announced body was over its limit.
    pub too_large: u64,
    /// Requests over HTTP/1 that did not come in time.
    pub too_slow: u64,
    /// TLS handshakes that their stage rejected.
    pub handshakes_rejected: u64,
    /// TLS handshakes that failed: the client broke off, was too slow, or agrees to nothing that we
    /// speak.
    pub handshakes_failed: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    turned_away: AtomicU64,
    gave_way: AtomicU64,
    flooded: AtomicU64,
    malformed: AtomicU64,
    too_large: AtomicU64,
    too_slow: AtomicU64,
    handshakes_rejected: AtomicU64,
    handshakes_failed: AtomicU64,
}

impl Counts {
    pub(crate) fn turned_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection if it `has_given_way`.
    pub(crate) fn gave_way(&self, has_given_way: bool) {
        self.gave_way.fetch_add(u64::from(has_given_way), Ordering::Relaxed);
    }

    pub(crate) fn flooded(&self) {
        self.flooded.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts requests over HTTP/2 that the library has rejected.
    pub(crate) fn malformed(&self, requests: u64) {
        if requests > 0 {
            self.malformed.fetch_add(requests, Ordering::Relaxed);
        }
    }

    /// Counts a handshake by how it ends, or as failed if it is dropped before.
    pub(crate) async fn handshake<T>(
        &self,
        handshake: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut ended = HandshakeEnded(Some(&self.handshakes_failed));
        let result = handshake.await;
        ended.0 = match &result {
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                Some(&self.handshakes_rejected)
            }
            Err(_) => Some(&self.handshakes_failed),
        };
        result
    }

    pub(crate) fn rejected(&self, violation: Violation) {
        let count = match violation.status() {
            StatusCode::REQUEST_TIMEOUT => &self.too_slow,
            StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::URI_TOO_LONG
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => &self.too_large,
            _ => &self.malformed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Rejected {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Rejected {
            turned_away: read(&self.turned_away),
            gave_way: read(&self.gave_way),
            flooded: read(&self.flooded),
            malformed: read(&self.malformed),
            too_large: read(&self.too_large),
            too_slow: read(&self.too_slow),
            handshakes_rejected: read(&self.handshakes_rejected),
            handshakes_failed: read(&self.handshakes_failed),
        }
    }
}

/// Counts a handshake when dropped.
struct HandshakeEnded<'c>(Option<&'c AtomicU64>);

impl Drop for HandshakeEnded<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a client is told that was rejected for its framing.
pub(crate) fn rejection_text(violation: Violation) -> String {
    format!("{}: {violation}\n", violation.status().as_u16())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_handshake_is_counted_by_how_it_ends() {
        let counts = Counts::default();
        let count = || (counts.read().handshakes_rejected, counts.read().handshakes_failed);
        let ends =
            |result: io::Result<()>| counts.handshake(ready(result)).now_or_never().is_some();
        assert!(ends(Ok(())));
        assert_eq!(count(), (0, 0));
        assert!(ends(Err(io::ErrorKind::ResourceBusy.into())));
        assert_eq!(count(), (1, 0));
        assert!(ends(Err(io::ErrorKind::UnexpectedEof.into())));
        assert_eq!(count(), (1, 1));
        // Its time was over.
        drop(counts.handshake(pending::<io::Result<()>>()).now_or_never());
        assert_eq!(count(), (1, 2));
    }
}
