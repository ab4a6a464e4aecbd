//! Profiles: what a model of a stage needs, measured while the stage runs.

use std::time::Duration;

use histogram::Histogram;
use tamarisk_control::{ClassId, PerSecond, Ratio, Timestamp};

/// How many events a stage works on while others wait, in the last 5 to 10 seconds: the
/// workers that a model gives it. For a stage that cannot see its workers (a gate before an upstream) this is the
/// number in progress that its law has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// How far back this and the profiles of the classes look.
    pub window: Duration,
    /// The share of that time in which a queue stood.
    pub crowded: Ratio,
    /// How many were worked on meanwhile, on average; `None` if there was no queue.
    pub in_progress: Option<f64>,
}

/// How long events of a class are worked on, in the last 5 to 10 seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceProfile {
    /// The mean, right to within 3 %.
    pub mean: Duration,
    /// The squared coefficient of variation: variance ÷ mean².
    pub variation_squared: f64,
    /// How many took less than this time and not less than that before; two steps in
    /// each power of two, empty ones left out.
    pub buckets: Vec<(Duration, u64)>,
}

impl ServiceProfile {
    /// Of times counted in units of `nanos` nanoseconds; `None` if there are none.
    pub(crate) fn of(times: &Histogram, nanos: u64) -> Option<Self> {
        let count: u64 = times.as_slice().iter().sum();
        if count == 0 {
            return None;
        }
        let middles = || {
            times.iter().map(|bucket| {
                let middle = (bucket.start() as f64 + bucket.end() as f64 + 1.0) / 2.0;
                (middle, bucket.count() as f64)
            })
        };
        let count = count as f64;
        let mean = middles().map(|(middle, times)| middle * times).sum::<f64>() / count;
        let square =
            middles().map(|(middle, times)| (middle - mean).powi(2) * times).sum::<f64>() / count;
        let coarse = times.downsample(1).ok()?;
        let buckets = coarse.iter().filter(|bucket| bucket.count() > 0).map(|bucket| {
            let end = bucket.end().saturating_add(1).saturating_mul(nanos);
            (Duration::from_nanos(end), bucket.count())
        });
        Some(Self {
            mean: Duration::from_nanos((mean * nanos as f64) as u64),
            variation_squared: square / (mean * mean),
            buckets: buckets.collect(),
        })
    }
}

/// What had arrived, and how crowded it has been, since the window before last began.
pub(crate) struct Profiler {
    windows: [Window; 2],
    /// Arrivals by class when the earlier window began, and when the later one did.
    offered: [Vec<u64>; 2],
}

#[derive(Clone, Copy)]
struct Window {
    since: Timestamp,
    /// Nanoseconds with a queue, and the area under the number in progress meanwhile.
    crowded: u64,
    area: u64,
}

impl Profiler {
    pub(crate) fn new(now: Timestamp, classes: usize) -> Self {
        let window = Window { since: now, crowded: 0, area: 0 };
        Self { windows: [window; 2], offered: [vec![0; classes], vec![0; classes]] }
    }

    /// So much time has passed in which `running` were worked on and others waited.
    #[inline]
    pub(crate) fn advance(&mut self, nanos: u64, running: u32) {
        self.windows[1].crowded += nanos;
        self.windows[1].area += nanos * u64::from(running);
    }

    /// A new window begins.
    pub(crate) fn rotate(&mut self, now: Timestamp, offered: impl Fn(ClassId) -> u64) {
        self.windows = [self.windows[1], Window { since: now, crowded: 0, area: 0 }];
        self.offered.swap(0, 1);
        for (index, count) in self.offered[1].iter_mut().enumerate() {
            *count = offered(ClassId::new(index));
        }
    }

    pub(crate) fn arrivals(&self, now: Timestamp, class: ClassId, offered: u64) -> PerSecond {
        let count = offered.saturating_sub(self.offered[0][class.index()]);
        let seconds = now.since(self.windows[0].since).as_secs_f64();
        PerSecond::new(count as f64 / seconds).unwrap_or(PerSecond::ZERO)
    }

    pub(crate) fn profile(&self, now: Timestamp) -> Profile {
        let [earlier, later] = self.windows;
        let window = now.since(earlier.since);
        let crowded = earlier.crowded + later.crowded;
        let in_progress = (earlier.area + later.area) as f64 / crowded as f64;
        Profile {
            window,
            crowded: Ratio::saturating(crowded as f64 / window.as_nanos() as f64),
            in_progress: (crowded > 0).then_some(in_progress),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn mean_and_variation_are_those_of_the_times() {
        let mut times = Histogram::new(5, 32).unwrap();
        // In milliseconds: nine of 10 and one of 90, mean 18, variance 576.
        times.add(10, 9).unwrap();
        times.add(90, 1).unwrap();
        let seen = ServiceProfile::of(&times, 1_000_000).unwrap();
        let mean = seen.mean.as_secs_f64() * 1e3;
        assert!((mean / 18.5 - 1.0).abs() < 0.01, "{mean}");
        assert!((seen.variation_squared - 576.0 / 324.0).abs() < 0.1, "{seen:?}");
        let counts: Vec<_> = seen.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [9, 1]);
        assert!(seen.buckets[0].0 > Duration::from_millis(10));
        assert_eq!(ServiceProfile::of(&Histogram::new(5, 32).unwrap(), 1), None);
    }

    #[test]
    fn workers_are_those_in_progress_while_others_wait() {
        let mut profiler = Profiler::new(at(0), 1);
        profiler.advance(200_000_000, 4);
        profiler.advance(100_000_000, 7);
        let profile = profiler.profile(at(400));
        assert_eq!(profile.crowded.get(), 0.75);
        // 200 ms of four, 100 ms of seven.
        assert_eq!(profile.in_progress, Some(5.0));
    }

    #[test]
    fn arrivals_of_the_window_before_last_do_not_count() {
        let mut profiler = Profiler::new(at(0), 1);
        let rate = |profiler: &Profiler, millis, offered| {
            profiler.arrivals(at(millis), ClassId::DEFAULT, offered).get()
        };
        assert_eq!(rate(&profiler, 500, 10), 20.0);
        profiler.rotate(at(1000), |_| 100);
        assert_eq!(rate(&profiler, 2000, 150), 75.0);
        profiler.rotate(at(2000), |_| 150);
        assert_eq!(rate(&profiler, 3000, 170), 35.0);
        assert_eq!(rate(&Profiler::new(at(0), 1), 0, 0), 0.0);
    }
}
