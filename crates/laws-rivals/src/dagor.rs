//! DAGOR: rejects events below a priority level that follows the queueing time.
//!
//! **Intuition.** A service called many times for one user request helps nobody by
//! failing a tenth of the calls at random: with ten calls nearly two in three
//! requests fail. It must fail all calls of *some* requests. So order all
//! requests, by what they are for and then by who asks, the same everywhere, and
//! under overload move one level through that order.
//!
//! **Mechanism** [DAGOR18 §4]. A window ends after 1 s or 2000 arrivals. It was
//! overloaded if its events had queued for more than 20 ms on the mean. With
//! N arrivals in it, of which N_adm were let in, the next level is the least
//! important that still lets in
//! ```text
//! overloaded:  (1 − α)·N_adm          else:  N_adm + β·N          α = 5 %, β = 1 %
//! ```
//! by the histogram of their levels. A level is the class's priority (the paper's
//! business priority) and one of 128 of the client (its user priority), drawn
//! anew by a hash every hour, so that nobody is always among the last.
//!
//! **Source.** \[DAGOR18\], algorithms 1 and 2. That queueing time is judged, and 20 ms,
//! are well attested; α, β and the window's 1 s and 2000 are also those that
//! \[Breakwater20\]'s authors compare with (`dg_config.h`, at a thousandth of the times).
//!
//! **What we chose.** Queueing time is what is left of the response without the
//! service, so it is known when an event ends, a service time later than in the
//! paper. A window without endings moves nothing. Events of no flow get a user
//! level by a sequence with a seed.
//!
//! **Limits.** Five per cent a second: from 10 times the capacity the level needs some
//! 45 windows, and what piled up meanwhile is not dropped but worked off, too late;
//! up again it goes by a hundredth of what comes. If the lowest level that lets anybody in would
//! let in too many, nobody is let in, and since nothing ends then, nothing changes before other
//! clients or classes come. (If such windows counted as not overloaded, *spike* would be worse in
//! the steady state, 0.06 instead of 0.46.) Twenty
//! milliseconds are wrong for any service whose work takes as long; its own critics
//! had to set it for each. Within an hour those in the last cohorts get nothing
//! while the first get everything. What makes it strong between services, telling the
//! level upstream with each answer, is not the business of a law.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Decision, Ending, Finished, Reading, Reason,
    Rejection, Timestamp,
};

use crate::cohorts::Cohorts;
use tamarisk_laws::constants::constants;

constants! {
    /// Of [`Dagor`] [DAGOR18 §4.1].
    pub(crate) struct DagorConstants {
        /// a period with a longer mean wait is overloaded
        wait_max_seconds: Duration = 0.02 in 0.000_001..=3600.0,
    }
}

/// When a window ends [DAGOR18 §4.2].
const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_ARRIVALS: u32 = 2000;

/// α and β [DAGOR18 §4.2].
const DECREASE: f64 = 0.05;
const INCREASE: f64 = 0.01;

/// How long a client keeps its level [DAGOR18 §4.2].
const EPOCH: Duration = Duration::from_secs(3600);

/// Lets in what is important enough for the time that events queue.
#[derive(Clone, Debug)]
pub struct Dagor {
    delay_max: f64,
    cohorts: Cohorts,
    /// The least important level that is let in.
    level: usize,
    window: Window,
    overloaded: bool,
}

#[derive(Clone, Debug)]
struct Window {
    opened: Option<Timestamp>,
    /// Arrivals of each level.
    histogram: Box<[u32]>,
    arrived: u32,
    admitted: u32,
    waited: f64,
    ended: u32,
}

impl Window {
    fn new(levels: usize) -> Self {
        let histogram = vec![0; levels].into();
        Self { opened: None, histogram, arrived: 0, admitted: 0, waited: 0.0, ended: 0 }
    }

    fn open(&mut self, now: Timestamp) {
        self.histogram.fill(0);
        self.opened = Some(now);
        (self.arrived, self.admitted) = (0, 0);
        (self.waited, self.ended) = (0.0, 0);
    }

    /// The least important level up to which no more than `count` arrived; the most
    /// important one is always let in.
    fn level_for(&self, count: f64) -> usize {
        let mut arrived = 0.0;
        let too_many = |&of_level: &u32| {
            arrived += f64::from(of_level);
            arrived > count
        };
        let first_out = self.histogram.iter().position(too_many);
        first_out.unwrap_or(self.histogram.len()).max(1) - 1
    }
}

impl Dagor {
    /// With the published constants.
    pub fn new(classes: &Classes) -> Self {
        Self::with(classes, DagorConstants::default().wait_max_seconds, 0)
    }

    /// With another mean wait from which on the service is overloaded, and another
    /// seed for the levels of events of no flow.
    pub fn with(classes: &Classes, delay_max: Duration, seed: u64) -> Self {
        let cohorts = Cohorts::new(classes, seed);
        let levels = cohorts.levels();
        Self {
            delay_max: delay_max.as_secs_f64(),
            cohorts,
            level: levels - 1,
            window: Window::new(levels),
            overloaded: false,
        }
    }

    fn pass_time(&mut self, now: Timestamp) {
        let opened = *self.window.opened.get_or_insert(now);
        if now.since(opened) >= WINDOW || self.window.arrived >= WINDOW_ARRIVALS {
            self.judge();
            self.window.open(now);
        }
    }

    #[cold]
    fn judge(&mut self) {
        if self.window.ended == 0 || self.window.arrived == 0 {
            return;
        }
        self.overloaded = self.window.waited / f64::from(self.window.ended) > self.delay_max;
        let (arrived, admitted) = (f64::from(self.window.arrived), f64::from(self.window.admitted));
        let expected = if self.overloaded {
            (1.0 - DECREASE) * admitted
        } else {
            admitted + INCREASE * arrived
        };
        self.level = self.window.level_for(expected);
    }
}

impl AdmissionLaw for Dagor {
    fn name(&self) -> &'static str {
        "dagor"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        self.pass_time(now);
        let hour = now.as_nanos() / EPOCH.as_nanos() as u64;
        let level = self.cohorts.level(arrival, hour);
        self.window.arrived += 1;
        self.window.histogram[level] += 1;
        if level > self.level {
            return Decision::Reject(Rejection::new(Reason::PriorityCutoff).retry_after(WINDOW));
        }
        self.window.admitted += 1;
        Decision::Admit
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        if finished.ending != Ending::Untimed {
            self.window.waited += finished.response.saturating_sub(finished.service).as_secs_f64();
            self.window.ended = self.window.ended.saturating_add(1);
        }
        self.pass_time(now);
    }

    fn on_tick(&mut self, now: Timestamp, _: &Backlog<'_>) {
        self.pass_time(now);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("level_count", self.level as f64);
        show("overloaded_ratio", f64::from(u8::from(self.overloaded)));
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{ClassId, Concurrency, Together};

    use super::*;
    use crate::test_bench::{arrival, at, backlog, classes};

    const NOBODY: Backlog<'static> = Backlog {
        queued: &[0],
        running: &[0],
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::ONE,
    };

    /// A second of `count` arrivals of users 1, 2, …, whose events wait for `wait_ms`.
    /// Returns how many were let in.
    fn second(law: &mut Dagor, second: u64, count: u64, wait_ms: u64) -> usize {
        let now = at(1000 * second);
        let service = Duration::from_millis(5);
        let finished = Finished {
            kind: 0,
            class: ClassId::DEFAULT,
            service,
            response: service + Duration::from_millis(wait_ms),
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        law.on_tick(now, &NOBODY);
        law.on_finish(now, &finished, &NOBODY);
        (1..=count)
            .filter(|&flow| {
                law.on_arrival(now, &Arrival { flow, ..arrival(0) }, &NOBODY) == Decision::Admit
            })
            .count()
    }

    #[test]
    fn a_mean_wait_of_20_ms_is_none_too_long() {
        let mut law = Dagor::new(&classes(&[0]));
        (0..100).for_each(|number| assert_eq!(second(&mut law, number, 1000, 20), 1000));
    }

    #[test]
    fn an_overloaded_second_takes_a_twentieth_off() {
        let mut law = Dagor::new(&classes(&[0]));
        let admitted: Vec<_> = (0..4).map(|number| second(&mut law, number, 1900, 21)).collect();
        assert_eq!(admitted[0], 1900);
        // 0.95·1900 = 1805, less one cohort of some 15 at most that does not fit.
        for pair in admitted.windows(2) {
            let most = 0.95 * pair[0] as f64;
            assert!((most - 40.0..=most).contains(&(pair[1] as f64)), "{admitted:?}");
        }
    }

    #[test]
    fn at_ease_a_hundredth_of_what_comes_is_added() {
        let mut law = Dagor::new(&classes(&[0]));
        law.level = 63;
        let admitted: Vec<_> = (0..5).map(|number| second(&mut law, number, 1900, 1)).collect();
        for pair in admitted.windows(2) {
            let (least, most) = (pair[0], pair[0] + 19);
            assert!((least..=most).contains(&pair[1]), "{admitted:?}");
        }
        assert!(admitted[4] > admitted[0], "{admitted:?}");
    }

    #[test]
    fn two_thousand_arrivals_end_a_window_early() {
        let mut law = Dagor::new(&classes(&[0]));
        second(&mut law, 0, 2000, 100);
        assert_eq!(law.level, 127);
        law.on_arrival(at(1), &arrival(0), &NOBODY);
        assert!(law.level < 127);
    }

    #[test]
    fn an_important_class_is_cut_last() {
        let mut law = Dagor::new(&classes(&[0, 1]));
        law.level = 127;
        for flow in 0..1000 {
            let of_class = |class| Arrival { flow, ..arrival(class) };
            assert_eq!(law.on_arrival(at(0), &of_class(0), &NOBODY), Decision::Admit);
            assert_ne!(law.on_arrival(at(0), &of_class(1), &NOBODY), Decision::Admit);
        }
    }

    #[test]
    fn a_user_is_let_in_or_not_for_an_hour() {
        let mut law = Dagor::new(&classes(&[0]));
        law.level = 63;
        let hours: Vec<Vec<bool>> = (0..8)
            .map(|hour| {
                let at_minute = |minute: u64| at((hour * 60 + minute) * 60_000);
                law.window.open(at_minute(0));
                (0..60)
                    .map(|minute| {
                        law.window.ended = 0;
                        let arrival = Arrival { flow: 7, ..arrival(0) };
                        law.on_arrival(at_minute(minute), &arrival, &NOBODY) == Decision::Admit
                    })
                    .collect()
            })
            .collect();
        assert!(hours.iter().all(|hour| hour.iter().all(|&in_| in_ == hour[0])));
        assert!(hours.iter().any(|hour| hour[0]) && hours.iter().any(|hour| !hour[0]));
    }

    #[test]
    fn a_silent_window_moves_nothing() {
        let mut law = Dagor::new(&classes(&[0]));
        law.level = 63;
        (0..100).for_each(|number| law.on_tick(at(1000 * number), &backlog(&[0], &[0])));
        assert_eq!(law.level, 63);
    }
}
