//! What a call of the store works for: whether that is to end now, and how long is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tamarisk::{Context, Shield};

/// Asks whether the work is to end now.
pub type IsEnded = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a call of the store works for; a request's [`Context`] is one.
pub trait Work {
    /// What is asked every few milliseconds while a statement runs. If it says so, the statement is
    /// cancelled and the call returns [`StoreError::Terminated`](super::StoreError::Terminated).
    fn is_ended(&self) -> IsEnded;

    /// How long the answer is still of use.
    fn time_left(&self) -> Option<Duration>;

    /// Holds termination off while a change is being committed.
    fn shield(&self) -> Option<Shield>;

    /// Is called after the calling thread has waited for so long for another program, or for others
    /// that did.
    fn note_waited(&self, _waited: Duration) {}
}

impl Work for Context {
    fn is_ended(&self) -> IsEnded {
        let context = self.clone();
        Arc::new(move || context.checkpoint().is_err())
    }

    fn time_left(&self) -> Option<Duration> {
        Self::time_left(self)
    }

    fn shield(&self) -> Option<Shield> {
        Some(Self::shield(self))
    }
}

/// A part of other work, which may take only so long.
pub(super) struct Limited<'a> {
    work: &'a dyn Work,
    end: Instant,
}

impl<'a> Limited<'a> {
    pub(super) fn to(limit: Duration, work: &'a dyn Work) -> Self {
        Self { work, end: Instant::now() + limit }
    }
}

impl Work for Limited<'_> {
    fn is_ended(&self) -> IsEnded {
        let (is_ended, end) = (self.work.is_ended(), self.end);
        Arc::new(move || is_ended() || Instant::now() >= end)
    }

    fn time_left(&self) -> Option<Duration> {
        let left = self.end - Instant::now();
        Some(self.work.time_left().map_or(left, |whole| whole.min(left)))
    }

    fn shield(&self) -> Option<Shield> {
        self.work.shield()
    }

    fn note_waited(&self, waited: Duration) {
        self.work.note_waited(waited);
    }
}

/// Work that is never ended: imports and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untimed;

impl Work for Untimed {
    fn is_ended(&self) -> IsEnded {
        Arc::new(|| false)
    }

    fn time_left(&self) -> Option<Duration> {
        None
    }

    fn shield(&self) -> Option<Shield> {
        None
    }
}
