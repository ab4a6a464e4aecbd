//! How long work of one kind takes where nobody waits: its unhurried service.
//!
//! Responses of an upstream are service and its own queue. What they are without the queue
//! is the measure of everything else: of work, of the queue in the upstream, of what can be
//! promised. It is learned from the first answers, follows what is seen while the upstream
//! is not known to be full, and is measured anew wherever a trial shows that nobody waits.

/// The first answers are taken for unhurried until there are so many.
const FIRST: u32 = 24;
/// After so many there is something to compare others with.
const FIRST_COMPARED: u32 = 8;
/// That the first answers take longer the later they were sent is a queue, if the slope is so
/// many times its standard error, …
const SLOPE_SURE: f64 = 2.5;
/// … and makes up so much of their mean. Fewer answers say nothing of a slope.
const SLOPE_SHARE: f64 = 0.3;
const COUNT_MIN: f64 = 4.0;
/// The line is not believed to begin below this share of the very first answers.
const EARLY_SHARE: f64 = 0.8;
/// So many answers make a batch, whose mean is compared with the unhurried service …
const BATCH: f64 = 48.0;
/// … or twice as many while the upstream is full, for then few of them tell.
const BATCH_FULL: f64 = 100.0;
/// Service that has become shorter than so much of what is known is believed at once.
const SHORTER: f64 = 0.75;
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
    first: First,
    last: [f64; 4],
    mean: f64,
    square: f64,
    batch_sum: f64,
    batch_count: f64,
    measured_sum: f64,
    measured_count: f64,
}

/// A line through the first answers: how long each took, over when it was sent.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    origin: f64,
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
    /// The very first of them, added up.
    early: f64,
}

/// One answer: when it was asked for, how long it took, and how long those have been in
/// service that are still there, added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) sent: f64,
    pub(crate) took: f64,
    pub(crate) ages: f64,
    /// How many those are.
    pub(crate) running: f64,
}

impl Service {
    /// How long one takes where nobody waits, if any has come back.
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

    /// How long the recent ones took, their wait in the upstream included; 0 if none has.
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
    /// much its work varies. Whether a queue shows in the first answers already, the last of
    /// which took this long.
    pub(crate) fn learn(&mut self, answer: Answer, full: bool, spread: f64) -> Option<f64> {
        self.count = self.count.saturating_add(1);
        let count = f64::from(self.count);
        self.recent += (answer.took - self.recent) / count.min(RECENT);
        let weight = 1.0 / count.min(1000.0);
        self.mean += weight * (answer.took - self.mean);
        self.square += weight * (answer.took * answer.took - self.square);
        self.last.rotate_left(1);
        self.last[3] = answer.took;
        if self.count <= FIRST {
            return self.learn_first(answer);
        }
        self.batch_sum += answer.took;
        self.batch_count += 1.0;
        if self.batch_count >= if full { BATCH_FULL } else { BATCH } * spread {
            self.learn_batch(full);
        }
        None
    }

    fn learn_first(&mut self, answer: Answer) -> Option<f64> {
        let mean = self.first.add(answer);
        // Those that are still there count as far as they have come, or the first to come
        // back, which may be the short ones, would speak for all.
        // Where all take equally long, those are half through on average.
        let excess = (answer.ages - answer.running * mean / 2.0).max(0.0);
        self.unhurried = Some(mean + excess / self.first.count);
        let at_start = self.first.queue_grows(mean)?;
        self.unhurried = Some(at_start);
        Some(
            self.last[4 - self.count.min(4) as usize..].iter().sum::<f64>()
                / count_of_last(self.count),
        )
    }

    fn learn_batch(&mut self, full: bool) {
        let mean = self.batch_sum / self.batch_count;
        (self.batch_sum, self.batch_count) = (0.0, 0.0);
        let Some(unhurried) = &mut self.unhurried else { return };
        if mean < SHORTER * *unhurried {
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
        // One trial may be mistaken; it does not undo everything.
        let mean = mean.min(3.0 * known);
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

    /// `mean` seconds were enough, with nothing lost by it.
    pub(crate) fn at_most(&mut self, mean: f64) {
        if self.unhurried.is_some_and(|unhurried| mean < SHORTER * unhurried) {
            self.unhurried = Some(mean);
            (self.measured_sum, self.measured_count) = (0.0, 0.0);
        }
    }

    /// One that was not learned from otherwise took so long: it was parked.
    pub(crate) fn note(&mut self, took: f64) {
        let known = if self.count == 0 { took } else { self.recent };
        self.recent = known + (took - known) / RECENT;
    }
}

fn count_of_last(count: u32) -> f64 {
    f64::from(count.min(4))
}

impl First {
    /// The mean with one more.
    fn add(&mut self, Answer { sent, took, .. }: Answer) -> f64 {
        if self.count == 0.0 {
            self.origin = sent;
        }
        if self.count < COUNT_MIN {
            self.early += took;
        }
        let x = sent - self.origin;
        self.count += 1.0;
        self.x += x;
        self.y += took;
        self.xx += x * x;
        self.xy += x * took;
        self.yy += took * took;
        self.y / self.count
    }

    /// How long the very first would take, if a queue is seen to grow since.
    fn queue_grows(&self, mean: f64) -> Option<f64> {
        let n = self.count;
        if n < COUNT_MIN {
            return None;
        }
        let (x, xx) = (self.x / n, self.xx - self.x * self.x / n);
        let (xy, yy) = (self.xy - self.x * self.y / n, self.yy - self.y * self.y / n);
        if xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        let error = ((yy - slope * xy).max(0.0) / (n - 2.0) / xx).sqrt();
        let grows = slope > SLOPE_SURE * error && slope * x > SLOPE_SHARE * mean;
        grows.then(|| (mean - slope * x).max(EARLY_SHARE * self.early / COUNT_MIN))
    }
}
