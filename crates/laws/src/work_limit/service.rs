//! The base service time of one kind of work: how long it takes without queueing.
//!
//! Responses of an upstream are service and its own queue. What they are without the queue
//! is the measure of everything else: of work, of the queue in the upstream, of what can be
//! promised. It is learned from the first answers, follows what is seen while the upstream
//! is not known to be full, and is measured anew wherever a trial shows that nobody waits.

/// The first answers are taken for unhurried until there are so many.
const FIRST: u32 = 24;
/// After so many there is something to compare others with.
const FIRST_COMPARED: u32 = 8;
/// So many answers make a batch, whose mean is compared with the unhurried service …
const BATCH: f64 = 48.0;
/// … or twice as many while the upstream is full, for then few of them tell.
const BATCH_FULL: f64 = 100.0;
/// It takes as long as so many of them: those that come back first are the short ones.
const BATCH_SERVICES: f64 = 3.0;
/// Service that has become shorter by so many standard errors is believed at once.
const SHORTER: f64 = 3.5;
/// Service that grew by more may be a queue, and is not learned from.
const LONGER: f64 = 1.35;
/// A batch moves the estimate by so much of the difference.
const STEP: f64 = 0.2;
/// Measurements in which nobody waited are worth so many answers together.
const MEASURED_MAX: f64 = 600.0;
/// The recent mean reaches back over so many answers.
const RECENT: f64 = 24.0;

/// What is known of one kind of work. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    unhurried: Option<f64>,
    recent: f64,
    count: u32,
    mean: f64,
    square: f64,
    batch_sum: f64,
    batch_count: f64,
    batch_began: f64,
    measured_sum: f64,
    measured_count: f64,
}

/// One answer: when it came, how long it took, and how long those have been in service that are still
/// there, added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) at: f64,
    pub(crate) took: f64,
    pub(crate) ages: f64,
    /// How many those are.
    pub(crate) running: f64,
}

/// Answers in a batch of work that varies as exponential service does.
fn batch_least(full: bool) -> f64 {
    if full { BATCH_FULL } else { BATCH }
}

impl Service {
    /// How long one takes where nobody waits, if that was learned from any.
    pub(crate) fn unhurried(&self) -> Option<f64> {
        self.unhurried
    }

    /// The same, once there are enough answers to rely on it.
    pub(crate) fn known(&self) -> Option<f64> {
        self.unhurried.filter(|_| self.count >= FIRST)
    }

    /// Whether there were answers before the latest that it can be compared with.
    pub(crate) fn is_compared(&self) -> bool {
        self.count > FIRST_COMPARED
    }

    /// How long the recent ones took, their wait in the upstream included; 0 if none was learned from.
    pub(crate) fn recent(&self) -> f64 {
        self.recent
    }

    /// The square of the coefficient of variation, once there are enough to tell.
    pub(crate) fn spread(&self) -> Option<f64> {
        const COUNT_MIN: u32 = 50;
        let spread = self.square / (self.mean * self.mean).max(f64::MIN_POSITIVE) - 1.0;
        (self.count >= COUNT_MIN).then_some(spread)
    }

    /// Learns from an answer; `full` says that the upstream is known to be full, `spread` how
    /// much its work varies.
    pub(crate) fn learn(&mut self, answer: Answer, full: bool, spread: f64) {
        self.count = self.count.saturating_add(1);
        let count = f64::from(self.count);
        self.recent += (answer.took - self.recent) / count.min(RECENT);
        let weight = 1.0 / count.min(1000.0);
        self.mean += weight * (answer.took - self.mean);
        self.square += weight * (answer.took * answer.took - self.square);
        if self.count <= FIRST && self.measured_count == 0.0 {
            // Those that are still there count as far as they have come, or the first to come
            // back, which may be the short ones, would speak for all. Where all take equally
            // long, those are half through on average.
            let excess = (answer.ages - answer.running * self.mean / 2.0).max(0.0);
            self.unhurried = Some(self.mean + excess / count);
            return;
        }
        if self.batch_count == 0.0 {
            self.batch_began = answer.at;
        }
        self.batch_sum += answer.took;
        self.batch_count += 1.0;
        let length = answer.at - self.batch_began;
        let is_long = length >= BATCH_SERVICES * self.unhurried.unwrap_or(0.0);
        if is_long && self.batch_count >= batch_least(full) * spread {
            self.learn_batch(full);
        }
    }

    /// Whether one more answer may end a batch, if the work varies as little as can be.
    pub(crate) fn may_end_batch(&self, full: bool) -> bool {
        self.batch_count + 1.0 >= batch_least(full)
    }

    fn learn_batch(&mut self, full: bool) {
        let count = self.batch_count;
        let mean = self.batch_sum / count;
        (self.batch_sum, self.batch_count) = (0.0, 0.0);
        let shorter = self.shorter(count);
        let Some(unhurried) = &mut self.unhurried else { return };
        if mean < shorter * *unhurried {
            *unhurried = mean;
            self.measured_count = 0.0;
            self.measured_sum = 0.0;
        } else if !full && mean < LONGER * *unhurried {
            *unhurried += STEP * (mean - *unhurried);
        }
    }

    /// A trial has shown that nobody waited when `count` of them took `mean` seconds.
    /// `anew` says that what was measured before is not to be trusted.
    pub(crate) fn measured(&mut self, mean: f64, count: f64, anew: bool) {
        let known = self.unhurried.unwrap_or(mean);
        if anew || !(0.65..1.5).contains(&(mean / known)) {
            (self.measured_sum, self.measured_count) = (0.0, 0.0);
        }
        self.measured_sum += mean * count;
        self.measured_count += count;
        if self.measured_count > MEASURED_MAX {
            self.measured_sum *= MEASURED_MAX / self.measured_count;
            self.measured_count = MEASURED_MAX;
        }
        self.unhurried = Some(self.measured_sum / self.measured_count);
        (self.batch_sum, self.batch_count) = (0.0, 0.0);
    }

    /// Whether nothing is known of it but a few first answers, as they came.
    pub(crate) fn is_new(&self) -> bool {
        self.count < FIRST && self.measured_count == 0.0
    }

    /// Begins anew with `count` of them, which took `mean` seconds where nobody waited.
    pub(crate) fn restart(&mut self, mean: f64, count: f64) {
        *self = Self {
            unhurried: Some(mean),
            recent: mean,
            count: count as u32,
            mean,
            // As of exponential service.
            square: 2.0 * mean * mean,
            ..Self::default()
        };
    }

    /// `count` of them took `mean` seconds, whether somebody waited or not.
    pub(crate) fn at_most(&mut self, mean: f64, count: f64) {
        let most = self.shorter(count) * self.unhurried.unwrap_or(0.0);
        if mean < most {
            self.unhurried = Some(mean);
            (self.measured_sum, self.measured_count) = (0.0, 0.0);
        }
    }

    /// One that was not learned from otherwise took so long: it was parked.
    pub(crate) fn note(&mut self, took: f64) {
        let known = if self.count == 0 { took } else { self.recent };
        self.recent = known + (took - known) / RECENT;
    }

    /// A mean of so many that is below this share of what was thought is no chance.
    fn shorter(&self, count: f64) -> f64 {
        /// Heavier tails are told from exponential ones only by thousands of answers.
        const SPREAD_MAX: f64 = 16.0;
        let spread = self.spread().unwrap_or(1.0).clamp(1.0, SPREAD_MAX);
        1.0 - SHORTER * (spread / count).sqrt()
    }
}
