//! Client patience: how long clients wait before they leave, learned from those that left.

/// How long clients wait is learned over so many of those that left.
const LEAVERS: f64 = 16.0;
/// Whoever waits for this share of it might have left as well, …
const PATIENCE_NEAR: f64 = 0.8;
/// … and it counts if more than this share of those did.
const LEAVING_MOST: f64 = 0.5;
/// Of the clients seen to leave, so many are remembered from tick to tick.
const KEPT: f64 = 0.999;

/// The patience of the clients of all kinds.
#[derive(Clone, Debug)]
pub(super) struct ClientPatience {
    /// How long clients wait before they leave, in seconds, and how many have been seen to.
    seconds: f64,
    leavers: f64,
    /// Of those that waited nearly so long, the share that left.
    leaving: f64,
}

impl Default for ClientPatience {
    fn default() -> Self {
        Self { seconds: f64::INFINITY, leavers: 0.0, leaving: 0.0 }
    }
}

impl ClientPatience {
    /// A client has left after so many seconds.
    pub(super) fn left(&mut self, waited: f64) {
        self.leavers = (self.leavers + 1.0).min(LEAVERS);
        let known = if self.seconds.is_finite() { self.seconds } else { waited };
        self.seconds = known + (waited - known) / self.leavers;
        self.leaving += (1.0 - self.leaving) / LEAVERS;
    }

    /// A client has waited so long and is served.
    pub(super) fn stayed(&mut self, waited: f64) {
        if waited >= PATIENCE_NEAR * self.seconds {
            self.leaving -= self.leaving / LEAVERS;
        }
    }

    /// How long an answer is of use, in seconds: as long as most clients wait. That a few leave
    /// early says nothing of the others.
    pub(super) fn of_use(&self) -> f64 {
        if self.leaving > LEAVING_MOST { self.seconds } else { f64::INFINITY }
    }

    /// Forgets, from tick to tick, patience that nobody loses any more.
    pub(super) fn on_tick(&mut self) {
        self.leavers *= KEPT;
        if self.leavers < 0.5 {
            *self = Self::default();
        }
    }

    /// How long clients wait, in seconds, if that is known.
    pub(super) fn known(&self) -> Option<f64> {
        self.seconds.is_finite().then_some(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_long_after_others_says_nothing_of_all() {
        let mut patience = ClientPatience::default();
        (0..40).for_each(|_| patience.left(0.3));
        assert_eq!(patience.of_use(), 0.3);
        while patience.known().is_some() {
            patience.on_tick();
        }
        patience.left(0.008);
        assert_eq!(patience.of_use(), f64::INFINITY);
    }
}
