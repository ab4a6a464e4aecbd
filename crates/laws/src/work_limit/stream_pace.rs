//! How fast the streams of one kind send, by how many of them flow.
//!
//! An upstream that shares its time among all streams has no places: none of them waits for its
//! first data. If twice as many streams bring out no more, each of them is half as fast, and those
//! that come on top are of no use. That shows long before they end.

/// So many streams speak for a level.
const COUNT_MIN: f64 = 8.0;
/// A level is that of so many recent streams.
const RECENT: f64 = 64.0;
/// Two to the power of this are always let through.
const LEVEL_MIN: usize = 5;
const LEVELS: usize = 16;
/// What is out is taken to follow the number of streams if it grows by more than its power of this, …
const FOLLOWS: f64 = 0.25;
/// … and by less than its power of this beyond chance if it does not.
const FOLLOWS_HARDLY: f64 = 0.5;
/// Means of how many flowed whose logarithms differ by less are taken to differ by so much.
const MORE: f64 = 0.4;
/// Seconds after which it is tried whether more streams bring out more.
const KEPT: f64 = 300.0;

/// The streams that sent while from half of a power of two to that power flowed.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    count: f64,
    /// The mean of the logarithm of how many flowed.
    flowing: f64,
    /// The mean of the logarithm of how long equal parts took, and of its square.
    time: f64,
    square: f64,
    at: f64,
}

/// What is known of the pace of a kind. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamPace {
    levels: Box<[Level]>,
    /// No more are of use, until then.
    most: Option<(u32, f64)>,
}

impl StreamPace {
    /// How many streams are of use.
    pub(super) fn most(&self, now: f64) -> u32 {
        self.most.filter(|(_, until)| now < *until).map_or(u32::MAX, |(most, _)| most)
    }

    /// A stream has sent as much as others were measured by, in `took` seconds, while so many flowed.
    pub(super) fn learn(&mut self, now: f64, took: f64, flowing: u32) {
        let index = flowing.max(1).next_power_of_two().trailing_zeros() as usize;
        if index >= LEVELS || took <= 0.0 {
            return;
        }
        if self.levels.is_empty() {
            self.levels = vec![Level::default(); LEVELS].into();
        }
        let level = &mut self.levels[index];
        if now - level.at > KEPT {
            *level = Level::default();
        }
        level.learn(now, took, flowing);
        let (lower, higher) = self.levels.split_at(index);
        let is_known = |it: &&Level| it.count >= COUNT_MIN && now - it.at < KEPT;
        let lower = lower.iter().rev().find(is_known);
        if index > LEVEL_MIN && lower.is_some_and(|lower| higher[0].is_of_no_use(lower)) {
            let most = self.most(now).min(1 << (index - 1));
            self.most = Some((most, now + KEPT));
        }
    }
}

impl Level {
    fn learn(&mut self, now: f64, took: f64, flowing: u32) {
        self.at = now;
        self.count += 1.0;
        let weight = 1.0 / self.count.min(RECENT);
        self.flowing += weight * (f64::from(flowing).ln() - self.flowing);
        self.time += weight * (took.ln() - self.time);
        self.square += weight * (took.ln().powi(2) - self.square);
    }

    /// The square of the standard error of the time.
    fn error(&self) -> f64 {
        (self.square - self.time * self.time).max(0.0) / self.count.min(RECENT)
    }

    /// Whether all bring out no more than at the `lower` level.
    fn is_of_no_use(&self, lower: &Self) -> bool {
        if self.count < COUNT_MIN {
            return false;
        }
        let more = (self.flowing - lower.flowing).max(MORE);
        let follows = 1.0 - (self.time - lower.time) / more;
        let error = (self.error() + lower.error()).sqrt() / more;
        follows < FOLLOWS && follows + 2.0 * error < FOLLOWS_HARDLY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known once up to so many have flowed, each of which takes as long as this says.
    fn known(flowing_max: u32, took: impl Fn(u32) -> f64) -> StreamPace {
        let mut pace = StreamPace::default();
        for index in 0..8 * flowing_max {
            let flowing = 1 + index / 8;
            // Half of them take less, half of them more.
            let times = if index % 2 == 0 { 0.8 } else { 1.25 };
            pace.learn(f64::from(index) / 10.0, times * took(flowing), flowing);
        }
        pace
    }

    #[test]
    fn no_more_are_of_use_than_bring_out_more() {
        let shared = |places: f64| move |flowing| f64::from(flowing).max(places) / places;
        assert_eq!(known(128, shared(40.0)).most(103.0), 64);
        assert_eq!(known(128, shared(1.0)).most(103.0), 32, "so many are always let through");
        assert_eq!(known(128, shared(1000.0)).most(103.0), u32::MAX);
        let slower = |flowing| f64::from(flowing).sqrt();
        assert_eq!(known(128, slower).most(103.0), u32::MAX, "all bring out more than half would");
    }

    #[test]
    fn what_was_seen_long_ago_is_no_measure() {
        let mut pace = StreamPace::default();
        (0..99).for_each(|index| pace.learn(f64::from(index), 1.0, 32));
        (0..99).for_each(|index| pace.learn(1000.0 + f64::from(index), 2.0, 64));
        assert_eq!(pace.most(1100.0), u32::MAX, "the upstream may have become slower");
    }

    #[test]
    fn it_is_tried_anew_whether_more_are_of_use() {
        let pace = known(128, f64::from);
        assert_eq!(pace.most(103.0), 32);
        assert_eq!(pace.most(403.0), u32::MAX);
    }
}
