//! What the guard below hyper and the service above it tell each other past it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_h1::Violation;

/// At most one request of a connection is out of the ordinary at a time,
/// because nothing after it is released before it is settled. It is known by
/// its number, which both sides count for themselves: hyper keeps the order.
#[derive(Debug, Default)]
pub(crate) struct Sideband {
    /// The number of that request, from 1; 0 while there is none.
    number: AtomicU64,
    /// How long to rest before the next request is read, in milliseconds.
    pause: AtomicU32,
    /// How many requests hyper has been given, and how many of them are answered.
    given: AtomicU64,
    answered: AtomicU64,
    /// hyper has all that may go on, to the end of a request, and asks for the next one.
    asks: AtomicBool,
    /// The client has yet to take what has been written.
    unsent: AtomicBool,
    matter: Mutex<Option<Matter>>,
}

#[derive(Debug)]
enum Matter {
    /// A stand-in for a request that was refused.
    Refused(Violation),
    /// It asks to change the protocol.
    Upgrade { verdict: Option<Verdict>, reader: Option<std::task::Waker> },
}

/// What became of a request to change the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was granted: no more HTTP/1 follows.
    Tunnel,
    /// It was ignored or denied: the next request follows.
    Resume,
}

/// What the service is to do about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Serve it.
    Ordinary,
    /// Serve it, then say whether the protocol changed.
    Upgrade,
    /// Answer with the violation's status and close.
    Refused(Violation),
}

impl Sideband {
    pub(super) fn refuse(&self, number: u64, violation: Violation) {
        *self.matter.lock() = Some(Matter::Refused(violation));
        self.number.store(number, Ordering::Release);
    }

    pub(super) fn ask_upgrade(&self, number: u64) {
        *self.matter.lock() = Some(Matter::Upgrade { verdict: None, reader: None });
        self.number.store(number, Ordering::Release);
    }

    pub(super) fn poll_verdict(&self, cx: &Context<'_>) -> Poll<Verdict> {
        match &mut *self.matter.lock() {
            Some(Matter::Upgrade { verdict: Some(verdict), .. }) => Poll::Ready(*verdict),
            Some(Matter::Upgrade { reader, .. }) => {
                *reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(Matter::Refused(_)) | None => Poll::Ready(Verdict::Resume),
        }
    }

    /// hyper is given bytes, and has been given this many requests in all.
    #[inline]
    pub(super) fn give(&self, requests: u64) {
        self.given.store(requests, Ordering::Relaxed);
        self.set_asks(false);
    }

    #[inline]
    pub(super) fn set_asks(&self, asks: bool) {
        self.asks.store(asks, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn set_unsent(&self, unsent: bool) {
        self.unsent.store(unsent, Ordering::Relaxed);
    }

    /// Whether the client's socket takes no more at present.
    pub(crate) fn is_unsent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed)
    }

    /// The last word of an answer is written.
    #[inline]
    pub(crate) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether hyper has nothing to do: all that it was given is answered and sent, and it asks
    /// for more. To be asked when it has been polled.
    ///
    /// An answer alone does not say so: the request's body may be on its way, or lie unread.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        let [given, answered] =
            [&self.given, &self.answered].map(|count| count.load(Ordering::Relaxed));
        let [asks, unsent] = [&self.asks, &self.unsent].map(|flag| flag.load(Ordering::Relaxed));
        given == answered && asks && !unsent
    }

    /// Lets the connection rest before its next request is read, if there is any `time` for it.
    #[inline]
    pub(crate) fn pause(&self, time: Duration) {
        if !time.is_zero() {
            self.pause.store(time.as_millis() as u32, Ordering::Relaxed);
        }
    }

    /// The rest that was asked for since the last call.
    pub(super) fn take_pause(&self) -> Option<Duration> {
        if self.pause.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let millis = self.pause.swap(0, Ordering::Relaxed);
        Some(Duration::from_millis(u64::from(millis)))
    }

    /// What there is to know about request `number`.
    #[inline]
    pub(crate) fn notice(&self, number: u64) -> Notice {
        if self.number.load(Ordering::Acquire) != number {
            return Notice::Ordinary;
        }
        match *self.matter.lock() {
            Some(Matter::Refused(violation)) => Notice::Refused(violation),
            Some(Matter::Upgrade { .. }) => Notice::Upgrade,
            None => Notice::Ordinary,
        }
    }

    /// Settles the request to change the protocol.
    pub(crate) fn decide(&self, outcome: Verdict) {
        let waiting = match &mut *self.matter.lock() {
            Some(Matter::Upgrade { verdict, reader }) => {
                *verdict = Some(outcome);
                reader.take()
            }
            Some(Matter::Refused(_)) | None => None,
        };
        if let Some(reader) = waiting {
            reader.wake();
        }
    }
}
