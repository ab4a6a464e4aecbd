//! CPU shedding: while the processors are busy, limits concurrency to the best throughput times the
//! best response time.
//!
//! **Intuition.** While there is processor time to spare nothing need be rejected,
//! whatever the numbers say. Once there is none, the most that are ever of use
//! inside are, by Little's law, the best throughput times the best response time, as
//! BBR finds for a network path.
//!
//! **Mechanism** (kratos' `bbr`). The share of CPU in use is averaged, with 0.95 of the past
//! each 500 ms. Of the last 10 s, in 100 buckets without the present one, the bucket with
//! most completions and the one with the least mean response time give
//! ```text
//! L = ⌊most ÷ 100 ms · least⌋
//! ```
//! An arrival is rejected if more than L, and more than one, are inside, while the CPU is
//! at 80 % or was within the second after the first rejection.
//!
//! **Source.** \[Kratos\], `ratelimit/bbr` of its library aegis, with its defaults. go-zero's `adaptiveshedder`
//! is a sister: 5 s in 50 buckets, 90 %, a smoothed number inside, and L scaled down as
//! the CPU nears 100 %. The original rounds L by adding a half *after* the floor, which
//! rounds nothing; so it is done here.
//!
//! **What we chose.** Response times are not cut to whole milliseconds one by one; their
//! mean is rounded up to one, as there. Without a finished bucket nothing is rejected
//! (there L is zero then). Events that failed are not counted.
//!
//! **Limits.** The average needs 12 s to go from 30 % to 80 % even if the CPU is all busy
//! from one instant to the next. By then the ten seconds hold nothing but overload: the
//! *least* response time is the queue's, L comes out at what is inside, and nothing is
//! ever rejected. A load that grows over half a minute it meets well. It does
//! nothing for a service that waits for others, whose processors are never busy. It
//! needs someone to tell it the CPU, [`AdmissionLaw::on_cpu`]; untold, it admits all.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Decision, Ending, Finished, Ratio, Reading, Reason, Rejection,
    Timestamp,
};

use tamarisk_laws::limit_range::inside;

/// `CPUThreshold`: 800 of 1000.
const BUSY_MAX: f64 = 0.8;

/// `decay`, for each period of 500 ms.
const DECAY: f64 = 0.95;
const DECAY_PERIOD: Duration = Duration::from_millis(500);

/// `Window` ÷ `Bucket`, and their number.
const BUCKET: Duration = Duration::from_millis(100);
const BUCKETS: usize = 100;

/// How long after the first rejection an idle CPU does not end it.
const COOL_OFF: Duration = Duration::from_secs(1);

/// While the CPU is busy, limits how many are inside.
#[derive(Clone, Debug)]
pub struct CpuShedding {
    busy_max: f64,
    busy: f64,
    told: Option<Timestamp>,
    window: LastSeconds,
    first_rejection: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    completed: u32,
    response_seconds: f64,
}

/// The last ten seconds.
#[derive(Clone, Debug)]
struct LastSeconds {
    buckets: Box<[Bucket]>,
    /// Which tenth of a second this is.
    present: u64,
    /// L, of the buckets before the present one.
    limit: Option<u32>,
}

impl LastSeconds {
    fn new() -> Self {
        Self { buckets: vec![Bucket::default(); BUCKETS].into(), present: 0, limit: None }
    }

    fn pass_time(&mut self, now: Timestamp) {
        let number = now.as_nanos() / BUCKET.as_nanos() as u64;
        if number <= self.present {
            return;
        }
        let skipped = number.saturating_sub(self.present).min(BUCKETS as u64);
        for passed in 0..skipped {
            self.buckets[Self::index(number - passed)] = Bucket::default();
        }
        self.present = number;
        self.limit = self.best();
    }

    #[cold]
    fn best(&self) -> Option<u32> {
        let present = Self::index(self.present);
        let (mut most, mut least) = (0, f64::INFINITY);
        for (index, bucket) in self.buckets.iter().enumerate() {
            if index != present && bucket.completed > 0 {
                most = most.max(bucket.completed);
                least = least.min(bucket.response_seconds / f64::from(bucket.completed));
            }
        }
        let least_millis = (least * 1000.0).ceil().max(1.0);
        let per_bucket = least_millis / (BUCKET.as_secs_f64() * 1000.0);
        (most > 0).then(|| (f64::from(most) * per_bucket).floor() as u32)
    }

    fn record(&mut self, response: Duration) {
        let bucket = &mut self.buckets[Self::index(self.present)];
        bucket.completed = bucket.completed.saturating_add(1);
        bucket.response_seconds += response.as_secs_f64();
    }

    fn index(number: u64) -> usize {
        (number % BUCKETS as u64) as usize
    }
}

impl CpuShedding {
    /// With the published constants.
    pub fn new() -> Self {
        Self::above(Ratio::saturating(BUSY_MAX))
    }

    /// With another share of the CPU in use from which on events may be rejected.
    pub fn above(busy: Ratio) -> Self {
        Self {
            busy_max: busy.get(),
            busy: 0.0,
            told: None,
            window: LastSeconds::new(),
            first_rejection: None,
        }
    }

    /// Whether the number inside matters now.
    fn is_pressed(&mut self, now: Timestamp) -> bool {
        if self.busy >= self.busy_max {
            return true;
        }
        let Some(first) = self.first_rejection else { return false };
        if now.since(first) <= COOL_OFF {
            return true;
        }
        self.first_rejection = None;
        false
    }
}

impl Default for CpuShedding {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for CpuShedding {
    fn name(&self) -> &'static str {
        "cpu-shedding"
    }

    fn on_arrival(&mut self, now: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.window.pass_time(now);
        let inside = inside(backlog);
        let too_many = inside > 1 && self.window.limit.is_some_and(|limit| inside > limit);
        if !(self.is_pressed(now) && too_many) {
            return Decision::Admit;
        }
        self.first_rejection.get_or_insert(now);
        Decision::Reject(Rejection::new(Reason::ConcurrencyLimit))
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        self.window.pass_time(now);
        if finished.ending == Ending::Completed {
            self.window.record(finished.response);
        }
    }

    fn on_tick(&mut self, now: Timestamp, _: &Backlog<'_>) {
        self.window.pass_time(now);
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        let passed = self.told.map_or(DECAY_PERIOD, |told| now.since(told));
        self.told = Some(now);
        let past = DECAY.powf(passed.as_secs_f64() / DECAY_PERIOD.as_secs_f64());
        self.busy = past * self.busy + (1.0 - past) * busy.get();
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("cpu_busy_ratio", self.busy);
        show("inside_max_count", f64::from(self.window.limit.unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{arrival, at, backlog, ended, finished_in};

    const IDLE: fn() -> Backlog<'static> = || backlog(&[0], &[0]);

    /// A law that has seen a second of 20 answers of 50 ms each 100 ms, L = 10, and
    /// is told that the CPU is `busy`.
    fn law(busy: f64) -> CpuShedding {
        let mut law = CpuShedding::new();
        for tenth in 0..10 {
            for _ in 0..20 {
                law.on_finish(at(1000 + 100 * tenth), &finished_in(50), &IDLE());
            }
        }
        law.busy = busy;
        law
    }

    fn admits(law: &mut CpuShedding, now_ms: u64, inside: u32) -> bool {
        let inside = [inside];
        law.on_arrival(at(now_ms), &arrival(0), &backlog(&[0], &inside)) == Decision::Admit
    }

    #[test]
    fn a_busy_cpu_limits_what_is_inside_to_throughput_times_response() {
        // 20 ÷ 100 ms · 50 ms = 10.
        assert!(admits(&mut law(0.8), 2000, 10));
        assert!(!admits(&mut law(0.8), 2000, 11));
    }

    #[test]
    fn an_idle_cpu_limits_nothing() {
        assert!(admits(&mut law(0.79), 2000, 1000));
    }

    #[test]
    fn for_a_second_after_the_first_rejection_the_limit_holds() {
        let mut law = law(0.8);
        assert!(!admits(&mut law, 2000, 11));
        law.busy = 0.1;
        assert!(!admits(&mut law, 3000, 11));
        assert!(admits(&mut law, 3001, 11));
        assert!(admits(&mut law, 2500, 11));
    }

    #[test]
    fn the_cpu_is_averaged_with_19_twentieths_of_the_past_each_half_second() {
        let mut law = CpuShedding::new();
        law.on_cpu(at(0), Ratio::ONE);
        assert!((law.busy - 0.05).abs() < 1e-12);
        (1..=5).for_each(|tick| law.on_cpu(at(100 * tick), Ratio::ONE));
        assert!((law.busy - (1.0 - 0.95 * 0.95)).abs() < 1e-12);
        // From nothing to 80 %: 0.95ⁿ = 0.2, n = 31.4 half seconds.
        let reached = (6..).find(|&tick| {
            law.on_cpu(at(100 * tick), Ratio::ONE);
            law.busy >= 0.8
        });
        assert!((150..160).contains(&reached.unwrap()), "{reached:?}");
    }

    #[test]
    fn ten_seconds_later_all_is_forgotten() {
        let mut law = law(1.0);
        assert!(!admits(&mut law, 11_899, 11));
        assert!(admits(&mut law, 11_900, 1000));
        assert_eq!(law.window.limit, None);
    }

    #[test]
    fn the_present_bucket_does_not_count() {
        let mut law = CpuShedding::above(Ratio::ZERO);
        law.on_finish(at(1000), &finished_in(50), &IDLE());
        assert!(admits(&mut law, 1099, 1000));
        // One in 100 ms of 50 ms: L = ⌊0.5⌋ = 0, and two are more than one.
        assert!(!admits(&mut law, 1100, 2));
        assert!(admits(&mut law, 1100, 1));
    }

    #[test]
    fn failures_do_not_count() {
        let mut law = law(1.0);
        (0..1000).for_each(|_| law.on_finish(at(2000), &ended(1, Ending::Failed), &IDLE()));
        assert!(!admits(&mut law, 2100, 11));
    }
}
