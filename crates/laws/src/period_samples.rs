//! The samples of one period and their quantile. For laws of one's own, too.

/// A bounded collection of samples, all of them finite and not negative.
#[derive(Clone, Debug)]
pub struct PeriodSamples {
    values: Box<[f64]>,
    len: usize,
}

impl PeriodSamples {
    /// Room for `capacity` samples, at least one.
    pub fn new(capacity: usize) -> Self {
        Self { values: vec![0.0; capacity.max(1)].into(), len: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is room for none more.
    pub fn is_full(&self) -> bool {
        self.len == self.values.len()
    }

    /// Adds a sample, if there is room.
    #[inline]
    pub fn push(&mut self, sample: f64) {
        debug_assert!(sample.is_finite() && sample >= 0.0, "not a sample: {sample}");
        if let Some(free) = self.values.get_mut(self.len) {
            *free = sample;
            self.len += 1;
        }
    }

    /// Ends the period: the samples are forgotten.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The least sample that at least `share` of all do not exceed (the
    /// nearest-rank quantile); zero of no samples. Ends the period: the samples
    /// are forgotten.
    pub fn take_quantile(&mut self, share: f64) -> f64 {
        let samples = &mut self.values[..self.len];
        self.len = 0;
        if samples.is_empty() {
            return 0.0;
        }
        let index = nearest_rank(share, samples.len());
        let (_, quantile, _) = samples.select_nth_unstable_by(index, f64::total_cmp);
        *quantile
    }
}

/// Where the nearest-rank quantile stands in `count` sorted samples, at least one.
pub fn nearest_rank(share: f64, count: usize) -> usize {
    // Nine tenths of a hundred are ninety, whatever binary fractions make of it.
    let rank = (share * count as f64 - 1e-9).ceil() as usize;
    rank.clamp(1, count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(capacity: usize, samples: impl IntoIterator<Item = f64>) -> PeriodSamples {
        let mut period = PeriodSamples::new(capacity);
        samples.into_iter().for_each(|sample| period.push(sample));
        period
    }

    #[test]
    fn the_p90_of_a_hundred_samples_is_the_ninetieth() {
        assert_eq!(period(100, (1..=100).rev().map(f64::from)).take_quantile(0.9), 90.0);
    }

    #[test]
    fn an_empty_period_has_quantile_zero() {
        assert_eq!(period(4, []).take_quantile(0.9), 0.0);
    }

    #[test]
    fn a_sample_too_many_is_not_taken() {
        let mut full = period(2, [1.0, 2.0, 9.0]);
        assert!(full.is_full());
        assert_eq!(full.take_quantile(1.0), 2.0);
    }

    #[test]
    fn the_next_period_starts_empty() {
        let mut period = period(4, [5.0, 6.0]);
        period.take_quantile(0.5);
        assert_eq!((period.len(), period.take_quantile(0.5)), (0, 0.0));
    }
}
