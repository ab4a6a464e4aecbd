//! Client patience: how long clients wait before they leave, learned from those that left.
//!
//! What one client does says nothing of the others. So each of the last clients that left is
//! known by itself, and in what is known of all each of them counts once.

use std::collections::VecDeque;

/// How long clients wait is learned over so many departures.
const COUNT_MAX: f64 = 16.0;
/// A client that waits for this share of it might have left as well, …
const NEAR: f64 = 0.8;
/// … and it counts if more than this share of those did.
const LEAVING_MOST: f64 = 0.5;
/// What is known is forgotten from tick to tick; this share is kept, so half after a minute.
const KEPT: f64 = 0.999;
/// The last clients that left: each is known by itself. A client that makes way for others and
/// leaves again counts again among all: then it is one of many.
const CLIENTS_MAX: usize = 64;

/// The patience of clients.
#[derive(Clone, Debug)]
pub(super) struct ClientPatience {
    all: Departures,
    /// Those that left, the latest last. Clients that are not known have no row.
    clients: VecDeque<(u64, Departures)>,
}

/// The departures of one client, or of all.
#[derive(Clone, Copy, Debug)]
struct Departures {
    /// How long before it leaves, in seconds, and how often that was seen.
    seconds: f64,
    count: f64,
    /// When it waited nearly so long, the share in which it left.
    leaving: f64,
}

impl Default for ClientPatience {
    fn default() -> Self {
        Self { all: Departures::UNKNOWN, clients: VecDeque::with_capacity(CLIENTS_MAX) }
    }
}

impl ClientPatience {
    /// The client of `flow` has left after so many seconds.
    pub(super) fn left(&mut self, flow: u64, waited: f64) {
        if let Some(own) = self.client_mut(flow) {
            return own.left(waited);
        }
        self.all.left(waited);
        if flow == 0 {
            return;
        }
        if self.clients.len() == CLIENTS_MAX {
            self.clients.pop_front();
        }
        let mut own = Departures::UNKNOWN;
        own.left(waited);
        self.clients.push_back((flow, own));
    }

    /// The client of `flow` has waited so long and is served.
    pub(super) fn stayed(&mut self, flow: u64, waited: f64) {
        self.all.stayed(waited);
        if let Some(own) = self.client_mut(flow) {
            own.stayed(waited);
        }
    }

    /// How long an answer is of use to the client of `flow`, in seconds: as long as it waits
    /// itself, or most clients do. One that has left a few times is not known to be patient.
    pub(super) fn of_use(&self, flow: u64) -> f64 {
        let own = self.clients.iter().find(|(other, _)| *other == flow);
        own.map_or(f64::INFINITY, |(_, own)| own.of_use()).min(self.all.of_use())
    }

    /// Forgets, from tick to tick, patience that nobody loses any more.
    pub(super) fn on_tick(&mut self) {
        self.all.forget();
        self.clients.iter_mut().for_each(|(_, own)| own.forget());
        self.clients.retain(|(_, own)| own.count > 0.0);
    }

    /// How long clients wait, in seconds, if that is known.
    pub(super) fn known(&self) -> Option<f64> {
        self.all.seconds.is_finite().then_some(self.all.seconds)
    }

    fn client_mut(&mut self, flow: u64) -> Option<&mut Departures> {
        let own = self.clients.iter_mut().find(|(other, _)| *other == flow);
        own.map(|(_, own)| own)
    }
}

impl Departures {
    const UNKNOWN: Self = Self { seconds: f64::INFINITY, count: 0.0, leaving: 0.0 };

    fn left(&mut self, waited: f64) {
        self.count = (self.count + 1.0).min(COUNT_MAX);
        let known = if self.seconds.is_finite() { self.seconds } else { waited };
        self.seconds = known + (waited - known) / self.count;
        self.leaving += (1.0 - self.leaving) / COUNT_MAX;
    }

    fn stayed(&mut self, waited: f64) {
        if waited >= NEAR * self.seconds {
            self.leaving -= self.leaving / COUNT_MAX;
        }
    }

    /// Infinite unless most leave. That a few leave early says nothing of the others.
    fn of_use(&self) -> f64 {
        if self.leaving > LEAVING_MOST { self.seconds } else { f64::INFINITY }
    }

    fn forget(&mut self) {
        self.count *= KEPT;
        if self.count < 0.5 {
            *self = Self::UNKNOWN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_leaves_long_after_others_says_nothing_of_all() {
        let mut patience = ClientPatience::default();
        (0..40).for_each(|_| patience.left(0, 0.3));
        assert_eq!(patience.of_use(0), 0.3);
        while patience.known().is_some() {
            patience.on_tick();
        }
        patience.left(0, 0.008);
        assert_eq!(patience.of_use(0), f64::INFINITY);
    }

    #[test]
    fn a_client_that_leaves_at_once_again_and_again_says_nothing_of_the_others() {
        let mut patience = ClientPatience::default();
        (0..400).for_each(|_| patience.left(7, 0.01));
        assert_eq!(patience.of_use(7), 0.01);
        assert_eq!(patience.of_use(8), f64::INFINITY);
    }

    #[test]
    fn clients_that_leave_once_each_speak_for_all() {
        let mut patience = ClientPatience::default();
        (1..400).for_each(|flow| patience.left(flow, 0.3));
        assert!((patience.of_use(1000) - 0.3).abs() < 1e-9);
        assert!((patience.of_use(399) - 0.3).abs() < 1e-9, "it left once, as all did");
    }
}
