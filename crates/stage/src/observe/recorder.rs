//! Records the times of events and how busy the workers are, under the stage's lock.

use std::time::Duration;

use tamarisk_control::{ClassId, Classes, Ratio, Timestamp};

use super::profile::Profiler;
use super::windows::Windowed;
use super::{Accounts, ClassObservation, Profile, TimeHistogram};

/// How far back percentiles and the busy share look: at least one window, at
/// most two.
const WINDOW: Duration = Duration::from_secs(5);

/// Times of events, kept under the stage's lock: recording one is an array index and an
/// addition.
pub(crate) struct Observer {
    service: Vec<Windowed>,
    response: Vec<Windowed>,
    since_start: Vec<Cumulative>,
    /// The instant up to which time has been recorded.
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
        // Long after the last tick the times in the current window are old as well. Rates and shares
        // are averages over all of the time since.
        let both_are_over = now >= self.rotate_at + WINDOW;
        self.rotate_at = now + WINDOW;
        self.busy.rotate(now);
        self.profiler.rotate(now, offered);
        for windowed in self.service.iter_mut().chain(&mut self.response) {
            windowed.rotate();
            if both_are_over {
                windowed.rotate();
            }
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
