//! Observation window: the counts of a stage or an upstream over a window of time, and the rates
//! and times that follow from them.

use tamarisk_control::Timestamp;

/// Counts over a window of time, and what Little's law makes of them.
///
/// Averaging the response times of those who have come back forgets those who
/// have not: just after a start, or after a change, it hears the quick ones only.
/// In flight × time counts everybody; divided by the completions it is the mean
/// response time, and it is right even early on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ObservationWindow {
    began: Timestamp,
    observed: Timestamp,
    completions: u32,
    /// Completions before which somebody found every place taken.
    pressed: u32,
    in_flight_seconds: f64,
    service_seconds: f64,
    /// Every place is taken at present.
    is_full: bool,
    full: Throughput,
}

/// So many completions in so many seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Throughput {
    pub(crate) completions: u32,
    pub(crate) seconds: f64,
}

impl Throughput {
    /// Completions a second.
    pub(crate) fn rate(self) -> f64 {
        // A window of no length, with the clock standing still, is one nanosecond.
        f64::from(self.completions) / self.seconds.max(1e-9)
    }
}

impl ObservationWindow {
    pub(crate) fn beginning(now: Timestamp) -> Self {
        Self { began: now, observed: now, ..Self::default() }
    }

    /// `in_flight` of at most `limit` have been in flight since the last observation.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, in_flight: u32, limit: u32) {
        let seconds = now.since(self.observed).as_secs_f64();
        self.in_flight_seconds += seconds * f64::from(in_flight);
        self.observed = self.observed.max(now);
        self.is_full = in_flight >= limit;
        if self.is_full {
            self.full.seconds += seconds;
        }
    }

    /// An event has come back after `service` seconds; `pressed` if since the one
    /// before somebody found every place taken.
    #[inline]
    pub(crate) fn complete(&mut self, service: f64, pressed: bool) {
        self.completions = self.completions.saturating_add(1);
        self.pressed = self.pressed.saturating_add(u32::from(pressed));
        self.full.completions = self.full.completions.saturating_add(u32::from(self.is_full));
        self.service_seconds += service;
    }

    pub(crate) fn completions(&self) -> u32 {
        self.completions
    }

    /// In seconds, to the last observation.
    pub(crate) fn length(&self) -> f64 {
        self.observed.since(self.began).as_secs_f64()
    }

    /// In seconds, on average, by Little's law; that of no completions is what one
    /// would make.
    pub(crate) fn response(&self) -> f64 {
        self.in_flight_seconds / f64::from(self.completions.max(1))
    }

    /// In seconds, on average of those who have come back.
    pub(crate) fn service(&self) -> f64 {
        self.service_seconds / f64::from(self.completions.max(1))
    }

    /// At half of the completions or more somebody had found every place taken.
    pub(crate) fn is_pressed(&self) -> bool {
        u64::from(self.pressed) * 2 >= u64::from(self.completions)
    }

    /// At seven of eight completions or more somebody had.
    pub(crate) fn is_mostly_pressed(&self) -> bool {
        u64::from(self.pressed) * 8 >= u64::from(self.completions) * 7
    }

    /// At less than a quarter of the completions somebody had.
    pub(crate) fn is_slack(&self) -> bool {
        u64::from(self.pressed) * 4 < u64::from(self.completions)
    }

    /// At no completion had anybody.
    #[inline]
    pub(crate) fn is_unpressed(&self) -> bool {
        self.pressed == 0
    }

    /// Over the whole window.
    pub(crate) fn throughput(&self) -> Throughput {
        Throughput { completions: self.completions, seconds: self.length() }
    }

    /// While every place was taken: with one place in flight the upstream idles
    /// until the next request comes, and that is not its fault. Where completions
    /// come in bursts they find few places taken, and the whole window says more.
    pub(crate) fn full_throughput(&self) -> Throughput {
        let whole = self.throughput();
        if self.full.rate() > whole.rate() { self.full } else { whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn littles_law_counts_those_who_have_not_come_back() {
        let mut window = ObservationWindow::beginning(at(0));
        window.observe(at(100), 32, 32);
        window.complete(0.1, true);
        window.observe(at(400), 31, 32);
        window.complete(0.3, true);
        // (0.1 s · 32 + 0.3 s · 31) ÷ 2, while the two themselves took 0.2 s
        assert!((window.response() - 6.25).abs() < 1e-9);
        assert!((window.service() - 0.2).abs() < 1e-9);
        assert!((window.throughput().rate() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn only_the_time_with_every_place_taken_tells_the_capacity() {
        let mut window = ObservationWindow::beginning(at(0));
        for second in 1..=10 {
            // Idle for 900 ms, then busy for 100 ms.
            window.observe(at(second * 1000 - 100), 0, 1);
            window.observe(at(second * 1000), 1, 1);
            window.complete(0.1, true);
        }
        assert!((window.full_throughput().rate() - 10.0).abs() < 1e-6);
        assert!((window.throughput().rate() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_clock_that_steps_back_adds_nothing() {
        let mut window = ObservationWindow::beginning(at(100));
        window.observe(at(200), 10, 10);
        window.observe(at(50), 10, 10);
        assert!((window.response() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_stretch_of_no_length_is_finite() {
        let mut window = ObservationWindow::beginning(at(0));
        window.complete(0.0, false);
        assert!(window.throughput().rate().is_finite() && window.response() == 0.0);
    }

    #[test]
    fn it_is_pressed_from_half_on_and_slack_below_a_quarter() {
        let pressed = |count: u32| {
            let mut window = ObservationWindow::default();
            (0..100).for_each(|index| window.complete(0.1, index < count));
            (window.is_unpressed(), window.is_slack(), window.is_pressed())
        };
        assert_eq!(pressed(0), (true, true, false));
        assert_eq!(pressed(24), (false, true, false));
        assert_eq!(pressed(49), (false, false, false));
        assert_eq!(pressed(50), (false, false, true));
    }
}
