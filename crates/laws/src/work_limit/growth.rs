//! The growth of the limit while the upstream is not known to be saturated.
//!
//! It only guards against a step: it leaves room above what is in flight, and is doubled when
//! it is reached while answers are unhurried, or a queue would do no harm yet.

/// Reached, the limit grows by this factor, by so many places at least, …
const FACTOR: f64 = 2.0;
const PLACES: f64 = 4.0;
/// … if so many answers to requests since it last grew …
const ANSWERS: f64 = 8.0;
/// … and as many as this share of it, for the first to come back are the short ones, …
const ANSWERS_SHARE: f64 = 0.3;
/// … of which so many are remembered, or as many as there are places, …
const ANSWERS_MAX: f64 = 32.0;
/// … took at most so many times their unhurried service, one of them counting for so much, …
const HURRY: f64 = 1.2;
const HURRY_MAX: f64 = 5.0;
/// … or less than this share of what can be promised: then a queue in the upstream does no harm.
pub(super) const HARMLESS: f64 = 0.2;
/// There is so much room above the recent most in flight, and so many places more.
const HEADROOM: f64 = 1.25;

/// Answers to requests that were sent since the limit last grew.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    since: f64,
    answers: f64,
    /// Their responses, in parts of unhurried service and of what can be promised, added up.
    hurry: f64,
    late: f64,
    most: Most,
}

impl Growth {
    pub(super) fn new() -> Self {
        Self { since: -1.0, answers: 0.0, hurry: 0.0, late: 0.0, most: Most::default() }
    }

    /// Time passes with so many in flight.
    pub(super) fn observe(&mut self, now: f64, in_flight: f64) {
        self.most.observe(now, in_flight);
    }

    /// An answer took so many times its unhurried service, and so much of its promise.
    pub(super) fn on_answer(&mut self, sent: f64, hurry: f64, late: f64, limit: f64) {
        if sent <= self.since {
            return;
        }
        self.answers += 1.0;
        self.hurry += hurry.min(HURRY_MAX);
        self.late += late;
        if self.answers >= ANSWERS_MAX.max(limit) {
            self.answers /= 2.0;
            self.hurry /= 2.0;
            self.late /= 2.0;
        }
    }

    /// The limit after it has been reached, if nothing speaks for a queue.
    pub(super) fn grown(&self, limit: f64) -> Option<f64> {
        let enough = self.answers >= ANSWERS.max(ANSWERS_SHARE * limit);
        let harmless = self.hurry < HURRY * self.answers || self.late < HARMLESS * self.answers;
        (enough && harmless).then(|| (FACTOR * limit).max(limit + PLACES))
    }

    /// Counts answers anew.
    pub(super) fn restart(&mut self, now: f64) {
        (self.since, self.answers, self.hurry, self.late) = (now, 0.0, 0.0, 0.0);
    }

    /// A limit that leaves enough room.
    pub(super) fn room(&self) -> f64 {
        HEADROOM * self.most.get() + PLACES
    }
}

/// The most in flight in the last ten seconds.
#[derive(Clone, Debug, Default)]
struct Most {
    seconds: [f64; 10],
    at: u64,
}

impl Most {
    fn observe(&mut self, now: f64, in_flight: f64) {
        let second = now as u64;
        let passed = second.saturating_sub(self.at).min(10);
        for step in 0..passed {
            self.seconds[((second - step) % 10) as usize] = 0.0;
        }
        self.at = self.at.max(second);
        let most = &mut self.seconds[(self.at % 10) as usize];
        *most = most.max(in_flight);
    }

    fn get(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}
