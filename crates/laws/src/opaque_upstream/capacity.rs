//! Estimates the capacity of an upstream from its throughput while saturated.

use crate::observation_window::Throughput;

/// The rate is that of the last so many windows: 128 completions and more, so
/// that exponential service leaves an error of a tenth.
const WINDOWS_KEPT: usize = 2;

/// Fewer completions than these say too little to be a reference for later.
const COMPLETIONS_MIN: f64 = 32.0;

/// The reference falls by 3 % with each window, so that one lucky measurement, or
/// the capacity of an hour ago, is not held against the upstream for long.
const BEST_KEPT: f64 = 0.97;

/// Completions a second while every place was taken: the present rate, and the
/// recent best to compare it with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capacity {
    windows: [Throughput; WINDOWS_KEPT],
    added: usize,
    rate: f64,
    best: f64,
}

impl Capacity {
    /// Of one window alone.
    pub(crate) fn of(window: Throughput) -> Self {
        let mut capacity = Self::default();
        capacity.add(window);
        capacity
    }

    /// The same rate, and no better one to compare it with.
    pub(crate) fn accepted(rate: f64) -> Self {
        Self { rate, best: rate, ..Self::default() }
    }

    pub(crate) fn add(&mut self, window: Throughput) {
        if window.completions == 0 {
            return;
        }
        self.windows[self.added % WINDOWS_KEPT] = window;
        self.added = self.added.wrapping_add(1);
        let completions: f64 = self.windows.iter().map(|each| f64::from(each.completions)).sum();
        let seconds: f64 = self.windows.iter().map(|each| each.seconds).sum();
        self.rate = completions / seconds.max(1e-9);
        if completions >= COMPLETIONS_MIN {
            self.best = self.rate.max(BEST_KEPT * self.best);
        }
    }

    /// Completions a second; zero while nothing has been measured.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// The best recent rate.
    pub(crate) fn best(&self) -> f64 {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throughput(completions: u32, seconds: f64) -> Throughput {
        Throughput { completions, seconds }
    }

    #[test]
    fn the_last_two_stretches_make_the_rate() {
        let mut capacity = Capacity::of(throughput(500, 1.0));
        capacity.add(throughput(100, 1.0));
        capacity.add(throughput(100, 3.0));
        // (100 + 100) ÷ (1 + 3) s
        assert_eq!(capacity.rate(), 50.0);
        // 500, then 0.97 · 500 > 300, then 0.97² · 500 > 50
        assert!((capacity.best() - 0.97 * 0.97 * 500.0).abs() < 1e-9);
    }

    #[test]
    fn a_few_completions_are_no_reference() {
        let capacity = Capacity::of(throughput(31, 0.1));
        assert_eq!((capacity.rate().round(), capacity.best()), (310.0, 0.0));
    }

    #[test]
    fn a_stretch_without_completions_changes_nothing() {
        let mut capacity = Capacity::accepted(20.0);
        capacity.add(throughput(0, 9.0));
        assert_eq!((capacity.rate(), capacity.best()), (20.0, 20.0));
    }
}
