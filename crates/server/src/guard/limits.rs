//! Size limits and timeouts for clients.

use std::num::NonZeroU32;
use std::time::Duration;

use tamarisk_http_gate::{HEAD_TIME, PatienceLimits};

/// What a client may send, and how long it may take over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(crate) bytes: tamarisk_h1::Limits,
    pub(crate) head_time: Duration,
    /// How long a client may let us wait.
    pub(crate) patience: PatienceLimits,
}

impl Default for Limits {
    /// A request line of 8 KiB, a head of 32 KiB and 10 s, bodies of any
    /// length and answers that never stand still for 60 s, and move 500 bytes a second.
    fn default() -> Self {
        Self {
            bytes: tamarisk_h1::Limits::REQUEST,
            head_time: HEAD_TIME,
            patience: PatienceLimits::default(),
        }
    }
}

impl Limits {
    /// The longest body that is taken, in bytes, if that is bounded.
    pub fn body_limit(&self) -> Option<u64> {
        self.bytes.body_max
    }

    /// The most bytes in a request line; a longer one is answered with 414.
    #[must_use]
    pub fn request_line(mut self, bytes: usize) -> Self {
        self.bytes.first_line_max = bytes;
        self
    }

    /// The most bytes in a head, its request line included, and in the
    /// trailers of a body; more are answered with 431. At most 48 KiB, all of which is held until
    /// the head is complete.
    #[must_use]
    pub fn head(mut self, bytes: usize) -> Self {
        self.bytes.head_max = bytes.min(48 * 1024);
        self
    }

    /// The most bytes in a body; more are answered with 413. `None`: any number.
    #[must_use]
    pub fn body(mut self, bytes: Option<u64>) -> Self {
        self.bytes.body_max = bytes;
        self
    }

    /// The longest time from a head's first byte to its last; more is answered
    /// with 408.
    #[must_use]
    pub fn head_time(mut self, time: Duration) -> Self {
        self.head_time = time;
        self
    }

    /// The longest time without a byte while we wait for one: of a body that the
    /// client owes us, or of an answer that it does not take. Bytes win it back, at
    /// the [least rate](Self::rate_min).
    #[must_use]
    pub fn stall_time(mut self, time: Duration) -> Self {
        self.patience.stall_time = time;
        self
    }

    /// The least bytes a second, over a [`stall_time`](Self::stall_time) or more in which we do
    /// nothing but wait for the client.
    #[must_use]
    pub fn rate_min(mut self, bytes_per_second: NonZeroU32) -> Self {
        self.patience.rate_min = bytes_per_second;
        self
    }
}
