//! Intervals of time: pauses and outages.

/// Intervals of time, in order, with time between them.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Intervals(Box<[(u64, u64)]>);

impl Intervals {
    /// `None` if they are empty, or out of order.
    pub(in crate::sim) fn new(intervals: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let intervals: Box<[_]> = intervals.into_iter().collect();
        let ordered = intervals.windows(2).all(|pair| pair[0].1 < pair[1].0);
        (ordered && intervals.iter().all(|interval| interval.0 < interval.1))
            .then_some(Self(intervals))
    }

    pub(in crate::sim) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::sim) fn contain(&self, at: u64) -> bool {
        self.0.iter().any(|&(from, until)| from <= at && at < until)
    }

    /// When, from `at` on, so much time has passed that is in none of them.
    #[inline]
    pub(in crate::sim) fn after(&self, at: u64, time: u64) -> u64 {
        let mut end = at.saturating_add(time);
        for &(from, until) in &self.0 {
            if until > at && from <= end {
                end = end.saturating_add(until - from.max(at));
            }
        }
        end
    }

    /// How much of the time from `from` until `until` is in none of them.
    #[inline]
    pub(in crate::sim) fn outside(&self, from: u64, until: u64) -> u64 {
        let within = self
            .0
            .iter()
            .map(|interval| interval.1.min(until).saturating_sub(interval.0.max(from)));
        until - from - within.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stands_still_in_a_pause_and_goes_on_after() {
        let pauses = Intervals::new([(10, 20), (30, 35)]).unwrap();
        for (at, time, end) in
            [(0, 9, 9), (0, 11, 21), (5, 5, 20), (12, 3, 23), (0, 25, 40), (20, 5, 25), (40, 7, 47)]
        {
            assert_eq!(pauses.after(at, time), end, "{time} from {at}");
            assert_eq!(pauses.outside(at, end), time, "from {at} to {end}");
        }
    }

    #[test]
    fn intervals_that_touch_or_end_before_they_begin_are_rejected() {
        assert!(Intervals::new([(10, 20), (20, 30)]).is_none());
        assert!(Intervals::new([(10, 10)]).is_none());
        assert!(Intervals::new([(10, 20), (5, 6)]).is_none());
        assert!(Intervals::new([]).is_some_and(|intervals| intervals.is_empty()));
    }
}
