//! Pauses of the upstream, in which nothing comes out.
//!
//! A collection of garbage, a lost network, a restart: for a while nothing comes back, and then
//! all of it late. What was in flight meanwhile says nothing of what comes after. It is told
//! from slow service by the gaps between answers and by how long they usually take.

/// Nothing for so many usual gaps is a pause, …
const GAPS: f64 = 12.0;
/// … if it is longer than an answer usually takes, and than this, in seconds.
const LENGTH_MIN: f64 = 0.03;
/// What is usual reaches back over so many answers.
const RECENT: f64 = 32.0;

/// Times are in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    last: f64,
    gap: Option<f64>,
    response: f64,
    stalled: bool,
    /// What was sent before this instant was in flight in a pause.
    until: f64,
}

impl Stall {
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// A request is sent; `alone` if nothing else is in flight.
    pub(super) fn on_start(&mut self, now: f64, alone: bool) {
        if alone {
            self.last = now;
        }
    }

    /// An answer to a request of `sent` has come. Whether it says something of the service.
    pub(super) fn on_answer(&mut self, now: f64, sent: f64) -> bool {
        let gap = now - self.last;
        if !self.stalled {
            let known = self.gap.unwrap_or(gap);
            self.gap = Some(known + (gap - known) / RECENT);
        }
        self.last = now;
        self.stalled = false;
        let tells = sent >= self.until;
        if tells {
            let took = now - sent;
            let known = if self.response == 0.0 { took } else { self.response };
            self.response = known + (took - known) / RECENT;
        }
        tells
    }

    /// Time passes with so many in flight. Whether there is a pause.
    pub(super) fn on_tick(&mut self, now: f64, in_flight: u32) -> bool {
        let Some(gap) = self.gap.filter(|_| in_flight > 0) else { return false };
        self.stalled = now - self.last > (GAPS * gap).max(self.response).max(LENGTH_MIN);
        if self.stalled {
            self.until = now;
        }
        self.stalled
    }
}
