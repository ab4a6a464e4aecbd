//! The fair share: the usage above which a client is rejected while others wait.
//!
//! Under overload a queue is all there is to share: who asks more often finds the
//! places in it more often. So places are given by what one has had already. Who
//! has had no more than the fair share a may use the queue to its end. Who has had
//! u > a has to leave most of it free, and may join while
//! ```text
//! wait · u ≤ short · a
//! ```
//! Of several who had too much those with the least come first, so that what the
//! modest leave over is shared evenly among them; and nobody is rejected so that a
//! worker may stand idle.
//!
//! The fair share is where all of the capacity is given away and no more: it is
//! halved while the queue stands, lowered while it is no longer short, and raised
//! while it is. This is how a router finds the fair rate of flows by its queue
//! \[Pan03 §3\].

/// Who has had too much may fill the queue to half of what is a standing one: the
/// gate never narrows because of them.
const SHORT: f64 = 0.5;

/// Like the gate, it goes down by a half where it has to be quick …
const FALL_FAST: f64 = 0.5;
/// … and otherwise about as slowly as it comes up, since it may err either way.
const FALL: f64 = 0.9;
const RISE: f64 = 1.02;

/// The fair share of one priority level.
#[derive(Clone, Debug)]
pub(crate) struct FairShare {
    /// a, in `ratio_min..=1.0`: of all that was used.
    ratio: f64,
    ratio_min: f64,
    /// A wait, in seconds, that no longer is short.
    short: f64,
    standing: f64,
}

impl FairShare {
    /// `standing` is the wait, in seconds, that makes a standing queue; a is never
    /// lowered below `ratio_min`.
    pub(crate) fn new(standing: f64, ratio_min: f64) -> Self {
        Self { ratio: 1.0, ratio_min, short: SHORT * standing, standing }
    }

    /// The same shares, of a queue that stands from another wait on, in seconds.
    pub(crate) fn set_standing(&mut self, standing: f64) {
        (self.short, self.standing) = (SHORT * standing, standing);
    }

    /// All for everybody, as at first.
    pub(crate) fn reset(&mut self) {
        self.ratio = 1.0;
    }

    /// The least wait of an interval that has ended.
    pub(crate) fn judge(&mut self, least_wait: f64) {
        let factor = if least_wait > self.standing {
            FALL_FAST
        } else if least_wait > self.short {
            FALL
        } else {
            RISE
        };
        self.ratio = (self.ratio * factor).clamp(self.ratio_min, 1.0);
    }

    /// Whether a queue that means a wait of `wait` seconds has to be left to those
    /// who have had less than `share`.
    #[inline]
    pub(crate) fn is_exceeded(&self, share: f64, wait: f64) -> bool {
        share > self.ratio && wait * share > self.short * self.ratio
    }

    /// a
    pub(crate) fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_with_all_for_everybody() {
        assert!(!FairShare::new(0.2, 0.01).is_exceeded(1.0, 1e9));
    }

    #[test]
    fn who_has_had_no_more_than_the_fair_share_may_use_the_whole_queue() {
        let mut share = FairShare::new(0.2, 0.01);
        share.judge(0.3);
        assert!(!share.is_exceeded(0.5, 1e9));
        // Above it: 0.1 · 0.5 ÷ 0.8 = 0.0625 s of a queue.
        assert!(!share.is_exceeded(0.8, 0.0624));
        assert!(share.is_exceeded(0.8, 0.0626));
    }

    #[test]
    fn it_falls_fast_while_the_queue_stands_and_comes_back_while_it_is_short() {
        let after = |waits: &[f64]| {
            let mut share = FairShare::new(0.2, 0.01);
            waits.iter().for_each(|&wait| share.judge(wait));
            share.ratio()
        };
        assert_eq!(after(&[0.3]), 0.5);
        assert_eq!(after(&[0.15]), 0.9);
        assert!((after(&[0.3, 0.05]) - 0.51).abs() < 1e-12);
        assert_eq!(after(&[0.0; 100]), 1.0);
        assert_eq!(after(&[f64::INFINITY; 100]), 0.01);
    }
}
