//! The composition of admission, workers, batching, quality and termination on one stage: which
//! acts first, and when each gives back.
//!
//! [Welsh02 §8.2.1] names it: admission keeps the queue short that pool sizing needs to
//! be long. It suggests to disable admission until the pool has its greatest size,
//! "though a more general approach to controller composition is needed".
//!
//! **Intuition.** The admission law keeps the queue short, so the slow laws cannot act on the
//! queue. They act on the *share of events that is rejected*. While it is high: first add
//! workers, then enlarge batches, then lower the quality, then terminate overdue events; one
//! step at a time, the next law only when the one before has nothing left to give. When
//! nothing is rejected any more, undo the steps in the opposite order.
//!
//! **Why the obvious way fails.** Laws that are put side by side answer the same
//! symptom, or hide it from each other.
//! - A good admission law keeps the queue short and answers in time. So pool sizing
//!   never sees its hundred waiting, degradation never sees a late answer: a stage
//!   that could do ten times the work rejects nine tenths of it, and every
//!   law is content.
//! - Without admission they do see it, all at once: quality falls to its least while
//!   workers are added that alone would have been enough; and both move the
//!   throughput by which the other judges itself. Quality that comes back reads as
//!   thrashing, and workers are taken away just when they are needed.
//!
//! **Mechanism.**
//! 1. *The fast loop always acts.* It answers for each event, and protects the target
//!    while the slow ones take their time.
//! 2. *What it rejects is the slow loops' measure*, or what the stage itself rejects and drops (a full
//!    queue, a scarce resource, a deadline) if that is more and the queue stands. The stage is overloaded
//!    when more than 1 % of a period's arrivals were rejected or dropped, calm when at most 0.1 %
//!    were; between, nobody moves. To the workers law the queue of an overloaded
//!    stage is shown as endless, as without admission control it would be. To the quality law
//!    each rejected event is told as one that came late.
//! 3. *One at a time.* In each period (a second, or the least target if that is
//!    longer: no effect shows sooner) one law may move.
//!    ```text
//!    overloaded:  the first that can press, of  workers  batching  quality  termination
//!    calm:        the last that can ease, of    workers            quality  termination
//!    ```
//!    A law at its bound rests there, and so does not swing about it.
//! 4. *A law that gets its turn begins afresh*: throughput from when others
//!    moved is not compared with what it does. When all are spent, and quality
//!    has moved since the best batch was found, it is looked for again: what an
//!    event costs has changed, what a batch costs has not.
//! 5. *Patience*, of each law. An easing waits for 8 periods of calm (that of
//!    termination, which takes longer to take back, for 32). If overload follows,
//!    the law that eased takes its step back before anybody else moves, and the
//!    next time waits for twice as many, up to 256; otherwise for one less. So a law
//!    at the border of what is needed looks beyond it rarely, instead of swinging
//!    about it. A stage of which half the workers had nothing to do in a whole
//!    period is far from the border, and need not wait.
//!
//! A workers law that grows when an event needs one ([`ElasticPool`](crate::ElasticPool)) takes no turns. It is
//! asked whenever no worker is idle, before the admission law, which counts on the workers that come; others
//! press in periods in which it has not moved.
//!
//! A law that is asked to press and has not moved in 12 periods, or for longer than its sample
//! lasts if that is more, is passed over: it sees no cause. If all are spent or passed over and still too many are rejected, then the
//! load is beyond the stage, and rejecting is right. After 30 such periods all look
//! again, in case what they learned was luck or has ceased to be true; then after
//! 60, and so on up to 480.
//!
//! **Source.** Our own. The order is that of what it costs those who are served:
//! nothing, latency, quality, an answer. Measuring demand at admission follows from
//! the position that overload has to be visible to be managed \[Welsh01\]; separation of
//! time scales and the rule against wind-up are common practice of control.
//!
//! **Limits.** Rejections have to mean overload: a fast loop that rejects by contract
//! ([`RateLimit`](crate::RateLimit)) belongs before the composition, not into it.
//! Workers come one a period, so that it takes a minute or so until all have found
//! their place; until then, and in a spike, the fast loop rejects. A workers law that
//! mistakes luck for thrashing stops too early, until all look again.

mod demand;
#[cfg(test)]
mod tests;

use std::time::Duration;

use demand::Demand;

use tamarisk_control::{
    Activity, AdmissionLaw, Arrival, Backlog, BatchLaw, BatchSize, ClassId, Classes, Concurrency,
    Decision, Dequeue, Ending, Finished, Leeway, Moved, PerSecond, PlaceLimits, QualityLaw,
    QueueOrder, Ratio, Reading, Strain, TerminationLaw, Timestamp, Waiting, WorkersLaw,
};

use super::{DeadlineOnly, FixedBatch, FixedWorkers, FullQuality};

/// More rejected than this share: overloaded. A hundredth of requests is what an
/// operator would notice.
const OVERLOADED: f64 = 0.01;

/// At most this share rejected: calm. A stage with heavy-tailed work rejects less at
/// 80 % load.
const CALM: f64 = 0.001;

/// The least period: the laws that take turns sample once a second.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// The most periods of calm that an easing waits for. Taking back one that was wrong
/// lasts ten periods where the termination law is concerned: 4 % of the time.
const PATIENCE_MAX: u32 = 256;

/// The first patience, in periods, by [`EASING`]: three times what it takes to take
/// an easing back. A termination law that looks every ten seconds takes ten.
const PATIENCE: [u32; 3] = [8, 8, 32];

/// Periods without a move until a law is passed over: longer than any law's sample lasts by default.
const UNMOVED_MAX: u32 = 12;

/// Periods in which nobody can press, until all look again: at first, and at most.
/// The workers' attempt costs a tenth of the throughput for some ten seconds.
const LOOK_AGAIN: u32 = 30;
const LOOK_AGAIN_MAX: u32 = 480;

/// Calm periods after which an overload is a new one.
const CALM_AGAIN: u32 = 8;

/// What the slow loops have decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// How many workers there are.
    pub workers: Concurrency,
    /// How many events a worker takes at once, at most.
    pub batch: BatchSize,
    /// How well events are served.
    pub quality: Ratio,
}

/// An admission law and slow laws that take turns.
///
/// It is itself an [`AdmissionLaw`]; whoever ticks it as one also asks
/// [`govern`](Self::govern) for the knobs.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # use tamarisk_control::*;
/// # use tamarisk_laws::*;
/// let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
/// let knobs = Knobs {
///     workers: Concurrency::new(4),
///     batch: BatchSize::ONE,
///     quality: Ratio::ONE,
/// };
/// let range = Concurrency::new(4)..=Concurrency::new(64);
/// let law = Composition::new(&classes, Box::new(PredictGateTrim::new(&classes)), knobs)
///     .workers(Box::new(ElasticPool::new(range, 2.0, classes.longest())))
///     .quality(Box::new(Degradation::new(&classes, Ratio::saturating(0.25))));
/// assert_eq!(law.knobs(), knobs);
/// # Ok::<(), InvalidTarget>(())
/// ```
pub struct Composition {
    fast: Box<dyn AdmissionLaw>,
    workers: Box<dyn WorkersLaw>,
    batch: Box<dyn BatchLaw>,
    quality: Box<dyn QualityLaw>,
    termination: Box<dyn TerminationLaw>,
    knobs: Knobs,
    period: Duration,
    period_began: Option<Timestamp>,
    demand: Demand,
    /// The least `workers_idle` since the period began.
    workers_idle: u32,
    /// Who moved, or might have moved, in the last period.
    turn: Option<Turn>,
    /// Of those that can ease.
    patience: [Patience; 3],
    /// Calm periods since the last easing or rejection.
    calm_periods: u32,
    /// Whose easing was the last move.
    eased: Option<usize>,
    /// Whose easing was followed by overload, and is not taken back yet.
    blamed: Option<usize>,
    /// A workers law that takes no turns has changed their number in this period.
    workers_moved: bool,
    /// Quality has moved since the batch law last looked.
    batch_is_stale: bool,
    /// Periods in a row in which the law whose turn it is did not move.
    unmoved: u32,
    /// Whom to pass over under overload, by [`PRESSING`].
    passed_over: [bool; 4],
    /// Periods in which nobody could press, and how many of them are enough.
    stuck: u32,
    look_again_after: u32,
}

/// Who may move in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Workers,
    Batch,
    Quality,
    Termination,
}

/// Who goes first under overload.
const PRESSING: [Turn; 4] = [Turn::Workers, Turn::Batch, Turn::Quality, Turn::Termination];

/// Who has something to give back; the last goes first.
const EASING: [Turn; 3] = [Turn::Workers, Turn::Quality, Turn::Termination];

/// How many periods it has to be calm before a law gives something back.
#[derive(Clone, Copy, Debug)]
struct Patience(u32);

impl Composition {
    /// `fast` alone, on a stage whose knobs stay as they are.
    pub fn new(classes: &Classes, fast: Box<dyn AdmissionLaw>, knobs: Knobs) -> Self {
        Self {
            fast,
            workers: Box::new(FixedWorkers(knobs.workers)),
            batch: Box::new(FixedBatch(knobs.batch)),
            quality: Box::new(FullQuality),
            termination: Box::new(DeadlineOnly),
            knobs,
            period: period(classes),
            period_began: None,
            demand: Demand::new(classes),
            workers_idle: u32::MAX,
            turn: None,
            patience: PATIENCE.map(Patience),
            calm_periods: 0,
            eased: None,
            blamed: None,
            workers_moved: false,
            batch_is_stale: false,
            unmoved: 0,
            passed_over: [false; 4],
            stuck: 0,
            look_again_after: LOOK_AGAIN,
        }
    }

    /// With `law` for the number of workers.
    #[must_use]
    pub fn workers(mut self, law: Box<dyn WorkersLaw>) -> Self {
        self.workers = law;
        self
    }

    /// With `law` for the size of batches.
    #[must_use]
    pub fn batch(mut self, law: Box<dyn BatchLaw>) -> Self {
        self.batch = law;
        self
    }

    /// With `law` for the quality.
    #[must_use]
    pub fn quality(mut self, law: Box<dyn QualityLaw>) -> Self {
        self.quality = law;
        self
    }

    /// With `law` for how long events may run.
    #[must_use]
    pub fn termination(mut self, law: Box<dyn TerminationLaw>) -> Self {
        self.termination = law;
        self
    }

    /// A tick: the knobs from now on.
    pub fn govern(&mut self, now: Timestamp, activity: &Activity<'_>) -> Knobs {
        self.demand.tell(now, &mut *self.quality);
        self.demand.on_tick(activity);
        self.workers_idle = self.workers_idle.min(activity.workers_idle);
        if self.workers.is_self_paced() {
            let workers = self.workers.on_tick(now, activity, Leeway::Either);
            self.move_workers(workers);
        }
        let began = *self.period_began.get_or_insert(now);
        if now.since(began) >= self.period {
            self.period_began = Some(now);
            let idle = std::mem::replace(&mut self.workers_idle, u32::MAX);
            let activity = Activity { workers_idle: idle, ..*activity };
            let share = self.demand.take_rejected_share(&activity);
            let workers_moved = std::mem::take(&mut self.workers_moved);
            if share > OVERLOADED && workers_moved {
                // The turn was that of the workers.
                self.calm_periods = 0;
            } else if share > OVERLOADED {
                self.press(now, &activity);
            } else {
                self.rest(now, &activity, share <= CALM);
            }
        }
        self.knobs
    }

    /// An event has come for which none of the workers is idle: how many there are from now on.
    pub(super) fn on_shortage(&mut self, now: Timestamp, backlog: &Backlog<'_>) -> Concurrency {
        let (wanted, workers) = (wanted(backlog, self.knobs.batch), backlog.workers);
        if wanted <= workers {
            return workers;
        }
        let workers = self.workers.on_shortage(now, wanted, workers);
        self.move_workers(workers);
        workers
    }

    fn move_workers(&mut self, workers: Concurrency) {
        self.workers_moved |= workers != self.knobs.workers;
        self.knobs.workers = workers;
    }

    /// How many workers there are, where a law outside of this composition says so.
    pub(super) fn note_workers(&mut self, workers: Concurrency) {
        self.knobs.workers = workers;
    }

    /// What they have decided last.
    pub fn knobs(&self) -> Knobs {
        self.knobs
    }

    /// The names of the laws for workers, batches, quality and termination.
    pub fn names(&self) -> [&'static str; 4] {
        let (batch, quality) = (self.batch.name(), self.quality.name());
        [self.workers.name(), batch, quality, self.termination.name()]
    }

    /// How long an event of `class` may run. None if only its deadline ends it.
    pub fn limit(&self, class: ClassId) -> Option<Duration> {
        self.termination.limit(class)
    }

    /// A law over the whole graph wants so many events a second completed.
    pub fn set_throughput(&mut self, target: PerSecond) {
        self.workers.set_throughput(target);
    }

    /// Overloaded: the first law that has something left acts.
    fn press(&mut self, now: Timestamp, activity: &Activity<'_>) {
        self.calm_periods = 0;
        if let Some(law) = self.eased.take() {
            self.patience[law].double();
            self.blamed = Some(law);
        }
        if let Some(law) = self.blamed {
            let turn = EASING[law];
            if self.strain(turn).can_press() {
                let moved = self.press_turn(turn, now, activity);
                if moved || self.unmoved >= self.unmoved_max(turn) {
                    self.blamed = None;
                }
                return;
            }
            self.blamed = None;
        }
        let mut pressing = PRESSING.into_iter().zip(self.passed_over).enumerate();
        let next = pressing.find(|&(_, (turn, over))| !over && self.strain(turn).can_press());
        match next {
            Some((index, (turn, _))) => {
                self.press_turn(turn, now, activity);
                self.passed_over[index] = self.unmoved >= self.unmoved_max(turn);
            }
            None => self.look_again(now, activity),
        }
    }

    /// Asks the law whose turn it is to press: whether it moved.
    fn press_turn(&mut self, turn: Turn, now: Timestamp, activity: &Activity<'_>) -> bool {
        let is_new = self.turn != Some(turn);
        let moved = self.act(turn, now, activity, Leeway::Press);
        self.unmoved = if moved || is_new { 0 } else { self.unmoved + 1 };
        moved
    }

    /// After how many periods without a move a law is passed over: not before it has had a sample,
    /// which begins with the first of them.
    fn unmoved_max(&self, turn: Turn) -> u32 {
        let interval = match turn {
            Turn::Workers => self.workers.interval(),
            Turn::Termination => self.termination.interval(),
            Turn::Batch | Turn::Quality => Duration::ZERO,
        };
        let periods = (interval.as_secs_f64() / self.period.as_secs_f64()).ceil() as u32;
        UNMOVED_MAX.max(periods.saturating_add(2))
    }

    /// Asks them all again, each for as long as before it was passed over.
    fn pass_over_nobody(&mut self) {
        self.passed_over = [false; 4];
        self.unmoved = 0;
    }

    /// Nobody can press: what they learned may not be true.
    fn look_again(&mut self, now: Timestamp, activity: &Activity<'_>) {
        self.stuck += 1;
        let is_time = self.stuck >= self.look_again_after;
        if is_time {
            self.stuck = 0;
            self.look_again_after = (2 * self.look_again_after).min(LOOK_AGAIN_MAX);
            self.pass_over_nobody();
            self.workers.on_shift(now, activity);
        }
        if std::mem::take(&mut self.batch_is_stale) || is_time {
            self.passed_over[1] = false;
            self.batch.on_shift(now, activity);
        }
    }

    /// Not overloaded: after enough calm, the last law that has taken something
    /// gives some of it back.
    fn rest(&mut self, now: Timestamp, activity: &Activity<'_>, is_calm: bool) {
        self.calm_periods = if is_calm { self.calm_periods + 1 } else { 0 };
        if self.calm_periods >= CALM_AGAIN {
            self.pass_over_nobody();
            self.stuck = 0;
            self.look_again_after = LOOK_AGAIN;
        }
        let Some(law) = EASING.iter().rposition(|&turn| self.strain(turn).can_ease()) else {
            return;
        };
        let is_half_idle = activity.workers_idle > self.knobs.workers.get() / 2;
        let waited = self.calm_periods >= self.patience[law].0;
        if is_calm && (waited || is_half_idle) {
            self.calm_periods = 0;
            let moved = self.act(EASING[law], now, activity, Leeway::Ease);
            if moved && self.eased.replace(law) == Some(law) {
                self.patience[law].shorten();
            }
        }
    }

    fn strain(&self, turn: Turn) -> Strain {
        match turn {
            Turn::Workers if self.workers.is_self_paced() => Strain::Fixed,
            Turn::Workers => self.workers.strain(),
            Turn::Batch => self.batch.strain(),
            Turn::Quality => self.quality.strain(),
            Turn::Termination => self.termination.strain(),
        }
    }

    /// Asks the law whose turn it is: whether it moved.
    fn act(&mut self, turn: Turn, now: Timestamp, activity: &Activity<'_>, leeway: Leeway) -> bool {
        let is_new = self.turn.replace(turn) != Some(turn);
        let before = (self.knobs, self.limits_total());
        match turn {
            Turn::Workers => {
                let shown = Activity { backlog: shown_to_workers(activity, leeway), ..*activity };
                if is_new {
                    self.workers.on_shift(now, &shown);
                }
                self.knobs.workers = self.workers.on_tick(now, &shown, leeway);
            }
            Turn::Batch => {
                if is_new {
                    self.batch.on_shift(now, activity);
                }
                self.knobs.batch = self.batch.on_tick(now, activity);
            }
            Turn::Quality => {
                self.knobs.quality = self.quality.on_tick(now, activity, leeway);
                self.batch_is_stale = true;
            }
            Turn::Termination => self.termination.on_tick(now, activity, leeway),
        }
        before != (self.knobs, self.limits_total())
    }

    /// Differs when the limit of any class does, as all move the same way.
    fn limits_total(&self) -> Duration {
        let limits = (0..self.demand.classes.len()).filter_map(|i| self.limit(ClassId::new(i)));
        limits.fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// The backlog that there would be if the fast loop let everybody in.
fn shown_to_workers<'a>(activity: &Activity<'a>, leeway: Leeway) -> Backlog<'a> {
    match leeway {
        Leeway::Press => Backlog { queued_total: u32::MAX, ..activity.backlog },
        Leeway::Ease | Leeway::Either => activity.backlog,
    }
}

/// How many workers there would have to be for one more event not to wait.
pub(super) fn wanted(backlog: &Backlog<'_>, batch: BatchSize) -> Concurrency {
    let inside = backlog.queued_total.saturating_add(backlog.running_total);
    Concurrency::new(inside.saturating_add(1).div_ceil(batch.get()))
}

/// The backlog as an arrival may count on it: with the workers that `law` is about to start, once all
/// that there are have an event.
pub(super) fn within_reach<'a>(backlog: &Backlog<'a>, law: &dyn WorkersLaw) -> Backlog<'a> {
    let workers = backlog.workers;
    if backlog.running_total < workers.get() {
        return *backlog;
    }
    Backlog { workers: law.reach(workers), ..*backlog }
}

/// No effect shows sooner than the least target.
fn period(classes: &Classes) -> Duration {
    classes.strictest().max(PERIOD_MIN)
}

impl Patience {
    fn double(&mut self) {
        self.0 = (self.0 * 2).min(PATIENCE_MAX);
    }

    fn shorten(&mut self) {
        self.0 = (self.0 - 1).max(1);
    }
}

impl AdmissionLaw for Composition {
    /// The fast loop's name.
    fn name(&self) -> &'static str {
        self.fast.name()
    }

    #[inline]
    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let backlog = within_reach(backlog, &*self.workers);
        let decision = self.fast.on_arrival(now, arrival, &backlog);
        self.demand.offered += 1;
        if matches!(decision, Decision::Reject(_)) {
            self.demand.reject(arrival.class);
        }
        decision
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let verdict = self.fast.on_dequeue(now, waiting, backlog);
        if verdict == Dequeue::Drop {
            self.demand.reject(waiting.class);
        }
        verdict
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let verdict = self.fast.on_sweep(now, waiting, backlog);
        if verdict == Dequeue::Drop {
            self.demand.reject(waiting.class);
        }
        verdict
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.fast.on_finish(now, finished, backlog);
        self.demand.terminated += u64::from(finished.ending == Ending::Terminated);
        self.workers.on_finish(now, finished);
        self.quality.on_finish(now, finished);
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        self.fast.on_move(now, moved, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.fast.on_tick(now, backlog);
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        self.fast.on_cpu(now, busy);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.fast.set_targets(classes);
        self.workers.set_targets(classes);
        self.quality.set_targets(classes);
        self.termination.set_targets(classes);
        self.demand.set_targets(classes);
        self.period = period(classes);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.fast.readings(visit);
        self.workers.readings(visit);
        self.batch.readings(visit);
        self.quality.readings(visit);
        self.termination.readings(visit);
        let longest = self.patience.iter().map(|patience| patience.0).max().unwrap_or(1);
        let value = f64::from(longest);
        visit(Reading { name: "patience_periods_count", class: None, value });
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        self.fast.queue_order()
    }
}

impl PlaceLimits for Composition {
    fn park_after(&self, class: ClassId, kind: u64) -> Option<Duration> {
        self.fast.park_after(class, kind)
    }

    fn may_start(&self, class: ClassId, kind: u64, backlog: &Backlog<'_>) -> bool {
        self.fast.may_start(class, kind, backlog)
    }

    fn concurrency(&self) -> Option<Concurrency> {
        self.fast.place_limits()?.concurrency()
    }

    /// As the fast loop has it, unless another law changes how many workers there are or
    /// what an event costs: of two that try things out at once each would mistake the other's
    /// doing for its own.
    fn useful_workers(&self) -> Option<Concurrency> {
        let others = || [self.workers.strain(), self.batch.strain(), self.quality.strain()];
        self.fast
            .place_limits()?
            .useful_workers()
            .filter(|_| others().iter().all(|&it| it == Strain::Fixed))
    }
}
