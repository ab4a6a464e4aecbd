//! What a stage shows of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use histogram::Histogram;
use tamarisk_control::{ClassId, Classes, PerSecond, Ratio, Reason, Timestamp};

use super::{Accounts, Profile, Profiler, ServiceProfile, TimeHistogram};

/// How far back percentiles and the busy share look: at least one window, at
/// most two.
pub(crate) const WINDOW: Duration = Duration::from_secs(5);

/// The resolution of recorded times: an inline stage's are of that order.
const QUARTER_MICROSECOND_NANOS: u64 = 250;

/// A stage at one instant. All numbers are of the same instant, and the
/// [`Accounts`] balance.
#[derive(Clone, Debug)]
pub struct StageObservation {
    /// The stage's name.
    pub name: String,
    /// Where its handler runs: `inline`, `gate`, `tasks` or `threads`.
    pub runs: &'static str,
    /// `open`, `draining` or `closed`.
    pub phase: Phase,
    /// How many events may be worked on at once.
    pub workers: u32,
    /// The share of its workers' time that was spent on events, of late.
    pub busy: Ratio,
    /// How well events are to be served: 1 in full, less where a law has degraded
    /// the stage. Handlers read it as [`Context::quality`](crate::Context::quality).
    pub quality: Ratio,
    /// What a model has to know of it.
    pub profile: Profile,
    /// Bound on the queue, in events.
    pub queue_capacity: usize,
    /// Each class, in the stage's order.
    pub classes: Vec<ClassObservation>,
    /// Rejections so far, by the rule that said no.
    pub rejections: BTreeMap<Reason, u64>,
    /// How many events a worker takes at once at most, where a law has a say in it.
    pub batch: Option<u32>,
    /// Name of the admission law.
    pub law: &'static str,
    /// The laws that rule the stage, the admission law first.
    pub laws: Vec<LawObservation>,
    /// The law's knobs and estimates.
    pub readings: Vec<LawReading>,
    /// What the latest failed event failed of, cut to 200 characters.
    pub last_failure: Option<String>,
}

/// One class of a stage at one instant.
#[derive(Clone, Debug)]
pub struct ClassObservation {
    /// The class's name.
    pub name: String,
    /// The promised response time.
    pub target: Duration,
    /// At which percentile it is promised, as a ratio.
    pub percentile: Ratio,
    /// How long an event may run, where a law has a say in it.
    pub run_limit: Option<Duration>,
    /// Arrivals and outcomes since the stage was made, and who is inside.
    pub accounts: Accounts,
    /// How many arrive, of late.
    pub arrivals: PerSecond,
    /// From leaving the queue to the end, of late.
    pub service: Option<Percentiles>,
    /// From entering the stage to the end, of late.
    pub response: Option<Percentiles>,
    /// The response time at the promised percentile, in the last 5 to 10 seconds.
    pub response_at_percentile: Option<Duration>,
    /// Time from entering the stage to the start, since the stage was made. As the other two,
    /// of the completed events whose times count; an inline stage times one in 64.
    pub queue_times: TimeHistogram,
    /// Time from the start to the end without suspensions, since the stage was made.
    pub service_times: TimeHistogram,
    /// Time from entering the stage to the end without suspensions, since the stage was made.
    pub response_times: TimeHistogram,
    /// What a model has to know of its service.
    pub profile: Option<ServiceProfile>,
}

/// A law that rules a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct LawObservation {
    /// What it rules: `admission`, `dropping`, `workers`, `batching`, `quality` or
    /// `termination`.
    pub rules: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its constants, in the units that their names end in, if it was chosen by name.
    pub knobs: Vec<(&'static str, f64)>,
}

/// A knob or estimate of an admission law.
#[derive(Clone, Debug, PartialEq)]
pub struct LawReading {
    /// Snake case, unit last.
    pub name: String,
    /// Of which class, where the law keeps one for each.
    pub class: Option<String>,
    /// In the unit that the name ends in.
    pub value: f64,
}

/// A distribution of times, each right to within 3 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// How many events the others speak of.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// Half of the events took at most this long.
    pub p50: Duration,
    /// Nine tenths did.
    pub p90: Duration,
    /// All but one in a hundred did.
    pub p99: Duration,
    /// The slowest.
    pub max: Duration,
}

/// Whether a stage takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It does.
    Open,
    /// It takes no new ones and finishes what is inside.
    Draining,
    /// It has been destroyed.
    Closed,
}

impl Phase {
    /// Lower case, for status pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining => "draining",
            Self::Closed => "closed",
        }
    }
}

impl StageObservation {
    /// The accounts of all classes together.
    pub fn total(&self) -> Accounts {
        let mut total = Accounts::default();
        for class in &self.classes {
            total += class.accounts;
        }
        total
    }
}

/// Times of late, kept under the stage's lock: recording one is an array index
/// and an addition.
pub(crate) struct Observer {
    service: Vec<Windowed>,
    response: Vec<Windowed>,
    since_start: Vec<Cumulative>,
    /// Until when the time is accounted for.
    seen: Timestamp,
    busy: Busy,
    profiler: Profiler,
    rotate_at: Timestamp,
}

impl Observer {
    pub(crate) fn new(now: Timestamp, classes: usize) -> Self {
        let windowed = || std::iter::repeat_with(Windowed::new).take(classes).collect();
        Self {
            service: windowed(),
            response: windowed(),
            since_start: vec![Cumulative::default(); classes],
            seen: now,
            busy: Busy::new(now),
            profiler: Profiler::new(now, classes),
            rotate_at: now + WINDOW,
        }
    }

    /// Time has passed in which `running` were worked on, and others waited or not.
    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp, running: u32, is_crowded: bool) {
        let nanos = now.nanos_since(self.seen);
        self.seen = self.seen.max(now);
        self.busy.advance(nanos, running);
        if is_crowded {
            self.profiler.advance(nanos, running);
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, class: ClassId, nanos: EventNanos, count: u32) {
        let EventNanos { queue, service, response } = nanos;
        self.service[class.index()].record(service, count);
        self.response[class.index()].record(response, count);
        let since_start = &mut self.since_start[class.index()];
        since_start.queue.record(queue, count);
        since_start.service.record(service, count);
        since_start.response.record(response, count);
    }

    /// Begins a new window if it is time; what has passed is accounted for.
    pub(crate) fn tick(&mut self, now: Timestamp, offered: impl Fn(ClassId) -> u64) {
        if now < self.rotate_at {
            return;
        }
        self.rotate_at = now + WINDOW;
        self.busy.rotate(now);
        self.profiler.rotate(now, offered);
        for windowed in self.service.iter_mut().chain(&mut self.response) {
            windowed.rotate();
        }
    }

    pub(crate) fn busy(&self, workers: u32) -> Ratio {
        self.busy.share(self.seen, workers)
    }

    pub(crate) fn profile(&self, now: Timestamp) -> Profile {
        self.profiler.profile(now)
    }

    pub(crate) fn class(
        &self,
        now: Timestamp,
        id: ClassId,
        classes: &Classes,
        accounts: Accounts,
    ) -> ClassObservation {
        let class = classes.at(id);
        let Cumulative { queue, service, response } = self.since_start[id.index()].clone();
        ClassObservation {
            name: class.name.clone(),
            target: class.target.response_time(),
            percentile: class.target.at(),
            arrivals: self.profiler.arrivals(now, id, accounts.offered),
            run_limit: None,
            accounts,
            service: self.service[id.index()].percentiles(),
            response: self.response[id.index()].percentiles(),
            response_at_percentile: self.response[id.index()].at(class.target.at()),
            queue_times: queue,
            service_times: service,
            response_times: response,
            profile: self.service[id.index()].profile(),
        }
    }
}

/// How long an event took, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventNanos {
    /// From entering to the start.
    pub(crate) queue: u64,
    /// From the start to the end.
    pub(crate) service: u64,
    /// From entering to the end, or to the first data.
    pub(crate) response: u64,
}

/// The times of a class since the stage was made.
#[derive(Clone)]
struct Cumulative {
    queue: TimeHistogram,
    service: TimeHistogram,
    response: TimeHistogram,
}

impl Default for Cumulative {
    fn default() -> Self {
        let [queue, service, response] = [const { TimeHistogram::new() }; 3];
        Self { queue, service, response }
    }
}

/// The current window and the one before it.
pub(crate) struct Windowed {
    current: Histogram,
    previous: Histogram,
}

impl Windowed {
    /// Quarter microseconds up to 2^32 of them (18 minutes) in 32 steps a power
    /// of two: 3 % apart, 7 KB each.
    pub(crate) fn new() -> Self {
        let histogram = || Histogram::new(5, 32).expect("5 < 32 ≤ 64");
        Self { current: histogram(), previous: histogram() }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanos: u64, count: u32) {
        let capped = (nanos / QUARTER_MICROSECOND_NANOS).min(u32::MAX.into());
        self.current.add(capped, u64::from(count)).expect("capped to the histogram's range");
    }

    pub(crate) fn rotate(&mut self) {
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.as_mut_slice().fill(0);
    }

    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        let both = self.current.checked_add(&self.previous).ok()?;
        let count: u64 = both.as_slice().iter().sum();
        if count == 0 {
            return None;
        }
        let at = |quantile: f64| {
            let bucket = both.quantile_bucket(quantile).ok().flatten();
            let quarters = bucket.map_or(0, |bucket| bucket.end());
            Duration::from_nanos(quarters * QUARTER_MICROSECOND_NANOS)
        };
        let middles = both.iter().map(|bucket| {
            u128::from(u64::midpoint(bucket.start(), bucket.end())) * u128::from(bucket.count())
        });
        let quarters = middles.sum::<u128>() / u128::from(count);
        let mean = Duration::from_nanos(quarters as u64 * QUARTER_MICROSECOND_NANOS);
        Some(Percentiles { count, mean, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) })
    }

    /// The time that so large a share of the events did not exceed.
    pub(crate) fn at(&self, percentile: Ratio) -> Option<Duration> {
        let both = self.current.checked_add(&self.previous).ok()?;
        let bucket = both.quantile_bucket(percentile.get()).ok().flatten()?;
        Some(Duration::from_nanos(bucket.end() * QUARTER_MICROSECOND_NANOS))
    }

    pub(crate) fn profile(&self) -> Option<ServiceProfile> {
        let both = self.current.checked_add(&self.previous).ok()?;
        ServiceProfile::of(&both, QUARTER_MICROSECOND_NANOS)
    }
}

/// Worker time spent on events: the area under the number of running events.
struct Busy {
    since: Timestamp,
    /// Worker-nanoseconds since `since`.
    area: u64,
    previous: (u64, Duration),
}

impl Busy {
    fn new(now: Timestamp) -> Self {
        Self { since: now, area: 0, previous: (0, Duration::ZERO) }
    }

    #[inline]
    fn advance(&mut self, nanos: u64, running: u32) {
        self.area += nanos * u64::from(running);
    }

    fn rotate(&mut self, now: Timestamp) {
        self.previous = (self.area, now.since(self.since));
        self.since = now;
        self.area = 0;
    }

    fn share(&self, now: Timestamp, workers: u32) -> Ratio {
        let passed = now.since(self.since) + self.previous.1;
        let capacity = passed.as_nanos() as f64 * f64::from(workers);
        Ratio::saturating((self.area + self.previous.0) as f64 / capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_within_three_percent() {
        let mut windowed = Windowed::new();
        for millis in 1..=1000 {
            windowed.record(millis * 1_000_000, 1);
        }
        let seen = windowed.percentiles().unwrap();
        let within = |seen: Duration, expected: f64| {
            let ratio = seen.as_secs_f64() / expected;
            assert!((1.0..1.04).contains(&ratio), "{seen:?} for {expected} s");
        };
        assert_eq!(seen.count, 1000);
        let mean = seen.mean.as_secs_f64() / 0.5005;
        assert!((0.98..1.02).contains(&mean), "{seen:?}");
        within(seen.p50, 0.5);
        within(seen.p90, 0.9);
        within(seen.p99, 0.99);
        within(seen.max, 1.0);
        within(windowed.at(Ratio::saturating(0.95)).unwrap(), 0.95);
        assert_eq!(Windowed::new().at(Ratio::saturating(0.95)), None);
    }

    #[test]
    fn samples_leave_after_the_second_window() {
        let mut windowed = Windowed::new();
        windowed.record(1_000_000, 1);
        windowed.rotate();
        assert_eq!(windowed.percentiles().unwrap().count, 1);
        windowed.rotate();
        assert_eq!(windowed.percentiles(), None);
    }

    #[test]
    fn a_time_beyond_the_range_is_counted_as_the_longest() {
        let mut windowed = Windowed::new();
        windowed.record(1_000_000_000_000_000, 1);
        assert_eq!(windowed.percentiles().unwrap().count, 1);
    }

    #[test]
    fn the_busy_share_is_the_area_under_the_running_events() {
        let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        let mut observer = Observer::new(at(0), 1);
        observer.advance(at(100), 0, false); // 100 ms idle,
        observer.advance(at(200), 4, true); // 100 ms of four workers,
        observer.advance(at(400), 1, false); // 200 ms of one.
        // (400 + 200) worker-ms of 4 × 400.
        assert_eq!(observer.busy(4).get(), 600.0 / 1600.0);
    }
}
