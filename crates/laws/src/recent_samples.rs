//! A sliding window over the last samples of a quantity, with exact mean and quantiles. For laws of
//! one's own, too.
//!
//! A histogram is smaller and an exponential average is cheaper, but both blur:
//! a law that compares a quantile with a target wants the quantile itself. A few
//! hundred samples kept both in order of arrival and in order of size give it
//! exactly: a new sample moves part of a short sorted array, and reading is a load.

use crate::period_samples::nearest_rank;

/// A window over the most recent samples; all of them finite and not negative.
#[derive(Clone, Debug)]
pub struct RecentSamples {
    /// In order of arrival; `oldest` is the next to be replaced once all are filled.
    arrived: Box<[f64]>,
    /// The same values, ascending, in the first `len` places.
    sorted: Box<[f64]>,
    len: usize,
    oldest: usize,
    sum: f64,
}

impl RecentSamples {
    /// An empty window over the last `capacity` samples, at least one.
    pub fn new(capacity: usize) -> Self {
        let zeros = vec![0.0; capacity.max(1)].into_boxed_slice();
        Self { arrived: zeros.clone(), sorted: zeros, len: 0, oldest: 0, sum: 0.0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether each further sample takes the place of the oldest.
    pub fn is_full(&self) -> bool {
        self.len == self.arrived.len()
    }

    /// Adds `sample`, in place of the oldest one if the window is full.
    pub fn push(&mut self, sample: f64) {
        debug_assert!(sample.is_finite() && sample >= 0.0, "not a sample: {sample}");
        if self.is_full() {
            let leaving = std::mem::replace(&mut self.arrived[self.oldest], sample);
            self.replace_sorted(leaving, sample);
            self.sum += sample - leaving;
        } else {
            self.arrived[self.len] = sample;
            let at = self.rank(sample);
            self.sorted.copy_within(at..self.len, at + 1);
            self.sorted[at] = sample;
            self.len += 1;
            self.sum += sample;
        }
        self.oldest += 1;
        if self.oldest == self.arrived.len() {
            self.oldest = 0;
            // Summing afresh once a round keeps rounding errors from piling up.
            self.sum = self.arrived.iter().sum();
        }
    }

    /// The arithmetic mean; zero of no samples.
    pub fn mean(&self) -> f64 {
        if self.len == 0 { 0.0 } else { (self.sum / self.len as f64).max(0.0) }
    }

    /// The least sample that at least `share` of all samples do not exceed
    /// (the nearest-rank quantile); zero of no samples.
    pub fn quantile(&self, share: f64) -> f64 {
        if self.len == 0 {
            return 0.0;
        }
        self.sorted[nearest_rank(share, self.len)]
    }

    /// How many samples are less than `sample`.
    fn rank(&self, sample: f64) -> usize {
        self.sorted[..self.len].partition_point(|&kept| kept < sample)
    }

    /// Puts `entering` in the place of `leaving`, moving only what lies between.
    fn replace_sorted(&mut self, leaving: f64, entering: f64) {
        let from = self.rank(leaving);
        let to = self.rank(entering);
        if from < to {
            self.sorted.copy_within(from + 1..to, from);
            self.sorted[to - 1] = entering;
        } else {
            self.sorted.copy_within(to..from, to + 1);
            self.sorted[to] = entering;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(capacity: usize, samples: &[f64]) -> RecentSamples {
        let mut window = RecentSamples::new(capacity);
        for &sample in samples {
            window.push(sample);
        }
        window
    }

    #[test]
    fn no_samples_have_mean_and_quantile_zero() {
        let empty = RecentSamples::new(4);
        assert_eq!((empty.mean(), empty.quantile(0.9)), (0.0, 0.0));
    }

    #[test]
    fn one_sample_is_every_quantile() {
        let one = window(4, &[7.0]);
        assert_eq!((one.quantile(0.0), one.quantile(0.5), one.quantile(1.0)), (7.0, 7.0, 7.0));
    }

    #[test]
    fn the_p90_of_a_hundred_samples_is_the_ninetieth() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(window(100, &samples).quantile(0.9), 90.0);
    }

    #[test]
    fn a_full_window_forgets_the_oldest() {
        let kept = window(3, &[100.0, 1.0, 2.0, 3.0]);
        assert_eq!((kept.len(), kept.mean(), kept.quantile(1.0)), (3, 2.0, 3.0));
    }

    #[test]
    fn an_outlier_leaves_no_trace_in_the_mean() {
        let kept = window(3, &[1e15, 1e-3, 2e-3, 3e-3, 1e-3, 2e-3, 3e-3]);
        assert!((kept.mean() - 2e-3).abs() < 1e-12);
    }

    #[test]
    fn the_sorted_copy_stays_sorted_whatever_comes() {
        let mut kept = RecentSamples::new(7);
        let mut state = 12345_u64;
        for step in 0..500 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            kept.push((state >> 60) as f64);
            let mut expected: Vec<f64> = kept.arrived[..kept.len].to_vec();
            expected.sort_by(f64::total_cmp);
            assert_eq!(kept.sorted[..kept.len], expected[..], "after step {step}");
        }
    }
}
