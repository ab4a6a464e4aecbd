//! Throughput at a number of workers, and the comparison of two of them.

/// Events done, of average length, in so many seconds of full work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Output {
    pub(super) events: f64,
    pub(super) seconds: f64,
}

impl Output {
    /// Events a second.
    pub(super) fn rate(self) -> f64 {
        // With the clock standing still it took a nanosecond.
        self.events / self.seconds.max(1e-9)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { events: self.events + other.events, seconds: self.seconds + other.seconds }
    }

    /// The same rate, counted as at most so many events.
    pub(super) fn as_at_most(self, events: f64) -> Self {
        let share = (events / self.events.max(1.0)).min(1.0);
        Self { events: self.events * share, seconds: self.seconds * share }
    }

    /// How strongly this, of fewer workers, and the output of `more` speak for the latter
    /// doing `low` times as much in the same time, against `high` times: the logarithm
    /// of the ratio of likelihoods, if events come out at random. What is not known, the
    /// rate itself, drops out: of all events that are done, each was done by the many or by
    /// the few, and it is their shares that the two hypotheses tell apart.
    pub(super) fn evidence(self, more: Self, low: f64, high: f64) -> f64 {
        let (few, many) = (self.seconds.max(1e-9), more.seconds.max(1e-9));
        let by_few = |factor: f64| few / (few + factor * many);
        let (if_low, if_high) = (by_few(low), by_few(high));
        self.events * (if_low / if_high).ln()
            + more.events * ((1.0 - if_low) / (1.0 - if_high)).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn output(events: f64, seconds: f64) -> Output {
        Output { events, seconds }
    }

    #[test]
    fn equal_rates_speak_for_no_growth() {
        let evidence = output(200.0, 2.0).evidence(output(200.0, 2.0), 1.0, 1.4);
        // 200·ln(0.5 ÷ (1 ÷ 2.4)) + 200·ln(0.5 ÷ (1.4 ÷ 2.4))
        assert!((evidence - 200.0 * (0.25_f64 / (1.4 / 5.76)).ln()).abs() < 1e-9, "{evidence}");
        assert!(evidence > 5.0);
    }

    #[test]
    fn a_rate_that_grew_speaks_for_growth() {
        assert!(output(100.0, 1.0).evidence(output(140.0, 1.0), 1.0, 1.4) < -3.0);
    }

    #[test]
    fn a_rate_halfway_speaks_for_neither() {
        let halfway = output(100.0, 1.0).evidence(output(118.3, 1.0), 1.0, 1.4);
        assert!(halfway.abs() < 0.1, "{halfway}");
    }

    #[test]
    fn few_events_say_little() {
        assert!(output(10.0, 1.0).evidence(output(14.0, 1.0), 1.0, 1.4).abs() < 0.5);
    }

    #[test]
    fn no_time_and_no_events_are_finite() {
        let evidence = Output::default().evidence(Output::default(), 1.0, 1.4);
        assert!(evidence.is_finite() && Output::default().rate() == 0.0);
    }

    #[test]
    fn what_counts_less_has_the_same_rate() {
        let (all, less) = (output(900.0, 3.0), output(900.0, 3.0).as_at_most(300.0));
        assert!((less.events - 300.0).abs() < 1e-9 && (less.rate() - all.rate()).abs() < 1e-9);
        assert_eq!(output(5.0, 1.0).as_at_most(300.0), output(5.0, 1.0));
    }
}
