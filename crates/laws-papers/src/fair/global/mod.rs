//! The global controller: one response-time target for a whole graph, kept by all of its stages.
//!
//! **Intuition.** Stages that each keep a promise of their own reject in the middle of
//! the way what others have worked for, and their waits add up to more than anyone was
//! promised. So let nothing in at the front that the slowest stage could not do, and
//! give each stage that part of the promised time that it needs.
//!
//! **Mechanism** [Fair07 §4.2.1, §4.3.1]. After each sample:
//! ```text
//! v_j    how often a request visits stage j, of the flows on the edges            (1)
//! T  = min_j workers_j ÷ (s_j · v_j)    what the slowest stage can do;  T_j = v_j · T
//! R% = Σ v_j·R̃_j + √(Σ v_j·(R%_j − R̃_j)²)      of the whole way, stages being independent
//! α ← W·α + (1 − W)·Σ v_j·R̃_j ÷ R%                                           (2), (3)
//! N* = α · aim · R · T                  how many may be inside                (4), (5)
//! R_j = p_j + (κ·R − Σ v_i·p_i) · w_j   what stage j promises     Σ v_j·R_j = κ·R
//! w_j = u_j ÷ Σ v_i·u_i                 u_j = v_j·s_j ÷ workers_j
//! κ ← W·κ + (1 − W)·Σ v_j·R%_j ÷ R%     the slow ones of all stages do not meet
//! ```
//! with `s_j` the mean and `p_j` the percentile of a stage's service. Everyone is given
//! what service itself takes, and what is left of the promise goes to where queues
//! stand: to each stage as it is used. Where nothing is left, all share alike.
//!
//! At the entry, requests come in while fewer than `N*` are inside: as many as the last
//! tick saw, and those admitted since, less `T` for the time passed. *Rejections come from
//! the first stage alone* [Fair07 §5.4], before anything was spent on them.
//!
//! That is for overload, which would fill any room. After a sample in which fewer asked than
//! the whole can do, `N* = R · T`: nobody enters who would on average be late, and what chance
//! heaps up is served.
//!
//! While more than `N*` are inside on average, the slowest stage is busy for certain, and what it
//! then does is what it can do: the measured throughput counts if it is below `T`.
//!
//! **What the thesis leaves open, and we chose.** It adds threads until each stage does
//! its `T_j`; here workers are given, as in [`SelfTuning`](crate::SelfTuning), and (5) is read
//! for `N` instead. It shares throughput alone, and knows the percentile of the whole way; the
//! split of the response time is ours, and so is that percentile made of those of the stages,
//! which is all that can be measured where requests split up. Before any sample has ended all may enter. Targets of stages move only if
//! they are a twentieth off.
//!
//! **Limits.** The entry does not tell classes apart, and the strictest promise rules
//! there; the laws of the stages do. A stage that waits for the answer of another counts
//! the other's time as its own, so both get less of the promise than they could. Around a
//! cycle that multiplies events there is no share; then, and after a sample in which nothing
//! came, all stays as it was.

mod division;
mod entry;
mod known;
mod shares;
pub(super) mod whole;

use std::time::Duration;

use tamarisk_control::global::{GlobalLaw, GraphSample, Share};
use tamarisk_control::{ClassId, Classes, Decision, PerSecond, Ratio, Reading, Target, Timestamp};

use self::division::Division;
use self::entry::{Entry, Limit, Seen};
use self::known::Known;
use super::PercentileMapping;
use tamarisk_laws::constants::constants;

pub use shares::{Bottleneck, EndlessCycle, Flows, InvalidFlows, StageShares};

/// W, as in (3) [Fair07 §5.3].
const WEIGHT: f64 = 0.5;
/// The percentiles of `n` stages add up to at most √n times that of the whole, more or less;
/// more is not believed.
const LEEWAY_MAX: f64 = 2.0;

constants! {
    /// Of [`GlobalController`].
    pub(crate) struct GlobalControllerConstants {
        // As the thesis [Fair07 §5.3].
        /// the share of the promise to aim at
        aim_ratio: Ratio = 0.8 in 0.05..=1.0,
        /// the length of a sample
        period_seconds: Duration = 1.0 in 0.1..=60.0,
    }
}

/// One promise for a whole graph of stages.
///
/// # Examples
/// Two stages in a line, the second of which can do 100 a second:
/// ```
/// use std::time::Duration;
/// use tamarisk_laws_papers::fair::GlobalController;
/// use tamarisk_control::global::{GlobalLaw, GraphSample, StageSample, Times};
/// use tamarisk_control::*;
/// use tamarisk_laws_papers::*;
///
/// let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
/// let mut law = GlobalController::new(&classes);
/// let stage = |entered, millis| {
///     let times = Duration::from_millis(millis);
///     let times = Some(Times { mean: times, percentile: times });
///     let workers = Concurrency::new(1);
///     StageSample { entered, processed: 80, workers, service: times, response: times }
/// };
/// let (stages, edges) = ([stage(80, 2), stage(0, 10)], [(0, 1, 80.0)]);
/// let lasted = Duration::from_secs(1);
/// law.on_sample(&GraphSample { lasted, stages: &stages, edges: &edges });
///
/// let parts = [0, 1].map(|stage| law.target(stage, ClassId::DEFAULT).unwrap().response_time());
/// assert_eq!(parts[0] + parts[1], Duration::from_millis(200));
/// assert!(parts[1] > 4 * parts[0]);
/// assert_eq!(law.share(1).unwrap().throughput.get(), 100.0);
/// # Ok::<(), InvalidTarget>(())
/// ```
#[derive(Clone, Debug)]
pub struct GlobalController {
    targets: Box<[Target]>,
    aim: Ratio,
    period: Duration,
    mapping: PercentileMapping,
    /// Of as many stages as the last sample had.
    shares: Option<StageShares>,
    stages: Vec<Known>,
    division: Division,
    /// κ.
    leeway: f64,
    limit: Option<Limit>,
    entry: Entry,
}

impl GlobalController {
    /// For what `classes` are promised, with samples of a second, and 0.8 of the promise
    /// aimed at as the thesis does [Fair07 §5.3].
    pub fn new(classes: &Classes) -> Self {
        let GlobalControllerConstants { aim_ratio, period_seconds } = Default::default();
        Self::with(classes, period_seconds, aim_ratio)
    }

    /// With samples of this length, and this share of the promise aimed at.
    pub fn with(classes: &Classes, period: Duration, aim: Ratio) -> Self {
        let targets: Box<[Target]> = classes.iter().map(|(_, class)| class.target).collect();
        Self {
            mapping: PercentileMapping::new(strictest(&targets).at()),
            targets,
            aim,
            period,
            shares: None,
            stages: Vec::new(),
            division: Division::default(),
            leeway: 1.0,
            limit: None,
            entry: Entry::default(),
        }
    }

    /// How often a request visits each stage; `false` if the flows do not tell.
    fn visit(&mut self, sample: &GraphSample<'_>) -> bool {
        if self.stages.len() != sample.stages.len() {
            self.stages = vec![Known::default(); sample.stages.len()];
            self.division = Division::of(sample.stages.len());
            self.shares = StageShares::new(sample.stages.len()).ok();
        }
        let Some(shares) = &mut self.shares else { return false };
        let observed = whole::observe_flows(shares, sample);
        let Ok(visits) = shares.visits() else { return false };
        for (stage, &visits) in self.stages.iter_mut().zip(visits) {
            stage.visits = visits;
        }
        observed
    }

    /// α and κ, from the stages that have answered.
    fn map(&mut self, sample: &GraphSample<'_>) {
        let response = whole::response(self.stages.iter().map(|known| known.visits), sample);
        let percentiles = self.stages.iter().zip(sample.stages).map(|(known, stage)| {
            known.visits * stage.response.unwrap_or_default().percentile.as_secs_f64()
        });
        let entered: u64 = sample.stages.iter().map(|stage| stage.entered).sum();
        let arrivals = PerSecond::new(entered as f64 / sample.lasted.as_secs_f64());
        if let Some(whole) = response {
            let leeway = percentiles.sum::<f64>() / whole.percentile.as_secs_f64();
            let leeway = leeway.clamp(1.0, LEEWAY_MAX);
            self.leeway = WEIGHT * self.leeway + (1.0 - WEIGHT) * leeway;
        }
        self.mapping.observe(arrivals.unwrap_or(PerSecond::ZERO), response);
    }

    /// T and N*.
    fn find_limit(&self, sample: &GraphSample<'_>, seen: &Seen) -> Option<Limit> {
        let known = self.stages.iter().zip(sample.stages).filter(|(known, _)| known.is_used());
        let (slowest, stage) =
            known.min_by(|(a, _), (b, _)| a.capacity().total_cmp(&b.capacity()))?;
        let possible = slowest.capacity();
        let measured = stage.processed as f64 / (slowest.visits * sample.lasted.as_secs_f64());
        let crowded = self.limit.filter(|limit| seen.population() > limit.population);
        let crowded = crowded.map(|limit| {
            let before = limit.crowded.unwrap_or(possible);
            WEIGHT * before + (1.0 - WEIGHT) * measured
        });
        let throughput = crowded.map_or(possible, |done| done.min(possible));
        let overloaded = seen.asked > throughput * sample.lasted.as_secs_f64();
        let promise = strictest(&self.targets).response_time();
        let population = if overloaded {
            let aim = scaled(promise, self.aim.get());
            self.mapping.population(PerSecond::new(throughput).ok()?, aim)
        } else {
            throughput * promise.as_secs_f64()
        };
        // Fewer than keep the slowest stage busy would be a loss for nothing.
        let busy = slowest.workers / slowest.visits.max(1.0);
        Some(Limit { throughput, population: population.max(busy).max(1.0), crowded })
    }
}

impl GlobalLaw for GlobalController {
    fn name(&self) -> &'static str {
        "global-controller"
    }

    fn on_entry(&mut self, now: Timestamp) -> Decision {
        self.entry.ask(now, self.limit)
    }

    fn on_tick(&mut self, now: Timestamp, inside: u64) {
        self.entry.tick(now, inside);
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn on_sample(&mut self, sample: &GraphSample<'_>) {
        let seen = self.entry.take_seen();
        let is_empty = sample.stages.iter().all(|stage| stage.entered == 0);
        if is_empty || sample.lasted.is_zero() || !self.visit(sample) {
            return;
        }
        for (known, stage) in self.stages.iter_mut().zip(sample.stages) {
            known.observe(stage);
        }
        self.map(sample);
        self.limit = self.find_limit(sample, &seen);
        self.division.follow(&self.stages, self.leeway);
    }

    fn stages_changed(&mut self) {
        self.stages.clear();
        self.division = Division::default();
        self.shares = None;
    }

    fn share(&self, stage: usize) -> Option<Share> {
        let (limit, spare) = (self.limit?, self.division.spare(stage)?);
        let stage = &self.stages[stage];
        stage.is_used().then_some(Share {
            visits: stage.visits,
            throughput: PerSecond::new(stage.visits * limit.throughput).ok()?,
            spare,
        })
    }

    fn target(&self, stage: usize, class: ClassId) -> Option<Target> {
        let promise = *self.targets.get(class.index())?;
        let seconds = self.division.target(stage, promise.response_time().as_secs_f64())?;
        Target::percentile(promise.at(), Duration::try_from_secs_f64(seconds).ok()?).ok()
    }

    fn set_targets(&mut self, classes: &Classes) {
        let before = strictest(&self.targets).at();
        self.targets = classes.iter().map(|(_, class)| class.target).collect();
        let at = strictest(&self.targets).at();
        if at != before {
            self.mapping = PercentileMapping::new(at);
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("mean_per_percentile_ratio", self.mapping.alpha());
        show("leeway_ratio", self.leeway);
        if let Some(Limit { throughput, population, .. }) = self.limit {
            show("throughput_possible_per_second", throughput);
            show("population_wanted_count", population);
        }
    }
}

fn strictest(targets: &[Target]) -> Target {
    let strictest = targets.iter().min_by_key(|target| target.response_time());
    *strictest.expect("there is at least one class")
}

fn scaled(time: Duration, times: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * times).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
