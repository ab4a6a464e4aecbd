//! Who was refused before there was a request, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use crate::guard::Violation;

/// How many clients and requests a server has refused before any service saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Connections for which there was no place, or no descriptor.
    pub turned_away: u64,
    /// Requests over HTTP/1 that were no proper HTTP, or asked for what we do not speak.
    pub malformed: u64,
    /// Requests over HTTP/1 whose request line, head or announced body was over its limit.
    pub too_large: u64,
    /// Requests over HTTP/1 that did not come in time.
    pub too_slow: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    turned_away: AtomicU64,
    malformed: AtomicU64,
    too_large: AtomicU64,
    too_slow: AtomicU64,
}

impl Counts {
    pub(super) fn turned_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, violation: Violation) {
        let count = match violation.status() {
            StatusCode::REQUEST_TIMEOUT => &self.too_slow,
            StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::URI_TOO_LONG
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => &self.too_large,
            _ => &self.malformed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Refused {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Refused {
            turned_away: read(&self.turned_away),
            malformed: read(&self.malformed),
            too_large: read(&self.too_large),
            too_slow: read(&self.too_slow),
        }
    }
}
