//! Equation (1) of the thesis: one throughput target, shared among the stages of a graph.
//!
//! **Intuition.** A stage in a line has to be as fast as the whole; stages side by
//! side share the work as they are used. Ask more of one, and it works for a queue
//! elsewhere; ask less, and it is the queue.
//!
//! **Mechanism** [Fair07 §4.2.1, eq. 1]. With `T` the target of the whole:
//! ```text
//! T_serial = T_A + T_B + … + T_N     T_A = α₁·T_serial, …     Σ α = 1      (1)
//! ```
//! The shares α are not set but measured: from the flow on each edge and the
//! events that each stage has processed follows how often an event that leaves `i`
//! goes on to `j`, and from that how often one request visits each stage:
//! ```text
//! v_j = entry_j + Σ v_i · flow_ij ÷ processed_i          T_j = v_j · T
//! ```
//! For stages in series and in parallel this is (1). It also holds where (1) does
//! not: with loops (retries), with events that end early (a cache that answers; Σ α < 1)
//! and with events that become several (Σ α > 1). Flows are smoothed with the
//! weight that (3) uses.
//!
//! The *bottleneck* is the stage whose capacity is the least multiple of its visits, and
//! that multiple is the most that the whole can be asked for.
//!
//! **When flows give no answer.** Around a cycle that multiplies events (each round
//! yields at least as many as went in) no finite share exists: [`EndlessCycle`]. A stage
//! that has processed nothing sends nothing on; before anything has entered, all
//! targets are zero.
//!
//! **Limits.** Shares are those of the past. While queues grow, less is processed
//! than enters, and the shares are those of what did get through.

use tamarisk_control::PerSecond;
use tamarisk_control::global::InvalidStageCount;
#[cfg(doc)]
use tamarisk_control::global::STAGES_MAX;

/// W, as in (3) [Fair07 §5.3].
const WEIGHT: f64 = 0.5;

/// Shares a throughput target over the stages of a graph.
#[derive(Clone, Debug)]
pub struct StageShares {
    stages: usize,
    /// Smoothed, events per sample.
    entered: Box<[f64]>,
    processed: Box<[f64]>,
    /// From row to column.
    flows: Box<[f64]>,
    /// Room for the equations, a row of `stages + 1` for each stage.
    equations: Box<[f64]>,
    visits: Box<[f64]>,
    observed: bool,
}

/// Why observed flows are not taken.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidFlows {
    /// A stage that does not exist.
    #[error("there is no stage {0}")]
    Stage(usize),
    /// As many counts as stages are needed.
    #[error("{0} counts do not fit the stages")]
    Counts(usize),
    /// A count that is negative or not finite.
    #[error("{0} is not a number of events")]
    Count(f64),
}

/// A cycle of stages that yields at least as many events as go round it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cycle of routes has no exit, so no finite throughput suffices; lower a probability on the cycle"
)]
pub struct EndlessCycle;

/// What one sample showed, in events.
#[derive(Clone, Copy, Debug)]
pub struct Flows<'a> {
    /// For each stage, how many came from outside the graph.
    pub entered: &'a [f64],
    /// For each stage, how many it finished.
    pub processed: &'a [f64],
    /// From which stage to which, and how many; two entries of one edge add up.
    pub edges: &'a [(usize, usize, f64)],
}

/// The stage that limits the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Which one.
    pub stage: usize,
    /// The throughput of the whole at which that stage is at its capacity.
    pub throughput: PerSecond,
}

impl StageShares {
    /// For a graph of this number of stages, known by their position.
    ///
    /// # Errors
    /// [`InvalidStageCount`] if there are none, or more than [`STAGES_MAX`].
    pub fn new(stages: usize) -> Result<Self, InvalidStageCount> {
        InvalidStageCount::check(stages)?;
        let zeros = |count: usize| vec![0.0; count].into_boxed_slice();
        Ok(Self {
            stages,
            entered: zeros(stages),
            processed: zeros(stages),
            flows: zeros(stages * stages),
            equations: zeros(stages * (stages + 1)),
            visits: zeros(stages),
            observed: false,
        })
    }

    /// A sample has ended.
    ///
    /// # Errors
    /// [`InvalidFlows`] if it makes no sense; nothing is taken of it then.
    pub fn observe(&mut self, flows: &Flows<'_>) -> Result<(), InvalidFlows> {
        self.check(flows)?;
        // The first sample is taken as it is, not averaged with an initial zero.
        let past = if self.observed { WEIGHT } else { 0.0 };
        self.observed = true;
        let smooth = |kept: &mut [f64], counts: &[f64]| {
            for (kept, count) in kept.iter_mut().zip(counts) {
                *kept = past * *kept + (1.0 - past) * count;
            }
        };
        smooth(&mut self.entered, flows.entered);
        smooth(&mut self.processed, flows.processed);
        self.flows.iter_mut().for_each(|flow| *flow *= past);
        for &(from, to, count) in flows.edges {
            self.flows[from * self.stages + to] += (1.0 - past) * count;
        }
        Ok(())
    }

    /// T_j of each stage for the target `whole`, in the order of the stages.
    ///
    /// # Errors
    /// [`EndlessCycle`] if there are no finite ones.
    pub fn targets(
        &mut self,
        whole: PerSecond,
    ) -> Result<impl Iterator<Item = PerSecond> + '_, EndlessCycle> {
        let target = move |visits: &f64| {
            PerSecond::new((visits * whole.get()).min(f64::MAX)).unwrap_or(PerSecond::ZERO)
        };
        Ok(self.visits()?.iter().map(target))
    }

    /// v_j: how often one request visits each stage, in the order of the stages.
    ///
    /// # Errors
    /// [`EndlessCycle`] if that is not finite.
    pub fn visits(&mut self) -> Result<&[f64], EndlessCycle> {
        self.solve()?;
        Ok(&self.visits)
    }

    /// The stage that limits the whole, given what each can do; `None` if no stage
    /// is visited.
    ///
    /// # Errors
    /// [`EndlessCycle`] if the flows give no finite shares.
    pub fn bottleneck(
        &mut self,
        capacities: &[PerSecond],
    ) -> Result<Option<Bottleneck>, EndlessCycle> {
        let limits = self.visits()?.iter().zip(capacities).enumerate().filter_map(
            |(stage, (&visits, capacity))| {
                let throughput = PerSecond::new(capacity.get() / visits).ok()?;
                Some(Bottleneck { stage, throughput })
            },
        );
        Ok(limits.min_by(|a, b| a.throughput.get().total_cmp(&b.throughput.get())))
    }

    fn check(&self, flows: &Flows<'_>) -> Result<(), InvalidFlows> {
        let check_count = |count: f64| {
            if (0.0..=1e15).contains(&count) { Ok(()) } else { Err(InvalidFlows::Count(count)) }
        };
        for counts in [flows.entered, flows.processed] {
            if counts.len() != self.stages {
                return Err(InvalidFlows::Counts(counts.len()));
            }
            counts.iter().try_for_each(|&count| check_count(count))?;
        }
        for &(from, to, count) in flows.edges {
            if from.max(to) >= self.stages {
                return Err(InvalidFlows::Stage(from.max(to)));
            }
            check_count(count)?;
        }
        Ok(())
    }

    /// How often `from` sends an event on to `to`, for each that it finishes.
    fn share(&self, from: usize, to: usize) -> f64 {
        let processed = self.processed[from];
        if processed > 0.0 { self.flows[from * self.stages + to] / processed } else { 0.0 }
    }

    /// Solves (I − Pᵀ)·v = entry by elimination with row exchange.
    fn solve(&mut self) -> Result<(), EndlessCycle> {
        let (stages, width) = (self.stages, self.stages + 1);
        let entered: f64 = self.entered.iter().sum();
        for to in 0..stages {
            for from in 0..stages {
                let identity = if from == to { 1.0 } else { 0.0 };
                self.equations[to * width + from] = identity - self.share(from, to);
            }
            let entry = if entered > 0.0 { self.entered[to] / entered } else { 0.0 };
            self.equations[to * width + stages] = entry;
        }
        eliminate(&mut self.equations, stages)?;
        for stage in 0..stages {
            let visits = self.equations[stage * width + stages];
            // A cycle that multiplies events has a solution on paper, below zero.
            let is_possible = visits.is_finite() && visits >= -1e-9;
            if !is_possible {
                return Err(EndlessCycle);
            }
            self.visits[stage] = visits.max(0.0);
        }
        Ok(())
    }
}

/// Gauss–Jordan: leaves the solution in the last column.
fn eliminate(equations: &mut [f64], size: usize) -> Result<(), EndlessCycle> {
    let width = size + 1;
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|&a, &b| {
                let at = |row: usize| equations[row * width + column].abs();
                at(a).total_cmp(&at(b))
            })
            .unwrap_or(column);
        let pivot_value = equations[pivot * width + column];
        let is_regular = pivot_value.is_finite() && pivot_value.abs() > 1e-9;
        if !is_regular {
            return Err(EndlessCycle);
        }
        for at in 0..width {
            equations.swap(pivot * width + at, column * width + at);
            equations[column * width + at] /= pivot_value;
        }
        for row in (0..size).filter(|&row| row != column) {
            let factor = equations[row * width + column];
            for at in 0..width {
                equations[row * width + at] -= factor * equations[column * width + at];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(per_second: f64) -> PerSecond {
        PerSecond::new(per_second).unwrap()
    }

    fn shares(entered: &[f64], processed: &[f64], edges: &[(usize, usize, f64)]) -> StageShares {
        let mut shares = StageShares::new(entered.len()).unwrap();
        shares.observe(&Flows { entered, processed, edges }).unwrap();
        shares
    }

    fn check(mut shares: StageShares, whole: f64, expected: &[f64]) {
        let targets: Vec<f64> = shares.targets(rate(whole)).unwrap().map(PerSecond::get).collect();
        let close = targets.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close && targets.len() == expected.len(), "{targets:?} for {expected:?}");
    }

    /// [Fair07 fig. 4-1]: A, then B or C, then D.
    fn diamond() -> StageShares {
        let edges = [(0, 1, 70.0), (0, 2, 30.0), (1, 3, 70.0), (2, 3, 30.0)];
        shares(&[100.0, 0.0, 0.0, 0.0], &[100.0, 70.0, 30.0, 100.0], &edges)
    }

    #[test]
    fn stages_in_line_have_the_whole_and_those_side_by_side_share_it() {
        check(diamond(), 500.0, &[500.0, 350.0, 150.0, 500.0]);
    }

    #[test]
    fn shares_do_not_depend_on_how_much_was_observed() {
        let mut shares = diamond();
        let (entered, processed) = ([7.0, 0.0, 0.0, 0.0], [10.0, 7.0, 3.0, 10.0]);
        let edges = [(0, 1, 7.0), (0, 2, 3.0), (1, 3, 7.0), (2, 3, 3.0)];
        shares.observe(&Flows { entered: &entered, processed: &processed, edges: &edges }).unwrap();
        check(shares, 500.0, &[500.0, 350.0, 150.0, 500.0]);
    }

    #[test]
    fn a_cache_that_answers_leaves_less_for_the_next_stage() {
        check(shares(&[100.0, 0.0], &[100.0, 20.0], &[(0, 1, 20.0)]), 50.0, &[50.0, 10.0]);
    }

    #[test]
    fn an_event_that_becomes_three_triples_the_next_target() {
        check(shares(&[10.0, 0.0], &[10.0, 30.0], &[(0, 1, 30.0)]), 50.0, &[50.0, 150.0]);
    }

    #[test]
    fn a_retry_in_five_makes_a_stage_visited_one_and_a_quarter_times() {
        check(shares(&[80.0], &[100.0], &[(0, 0, 20.0)]), 100.0, &[125.0]);
    }

    #[test]
    fn a_cycle_that_loses_nothing_has_no_target() {
        let edges = [(0, 1, 10.0), (1, 0, 10.0)];
        let mut endless = shares(&[1.0, 0.0], &[10.0, 10.0], &edges);
        assert_eq!(endless.targets(rate(1.0)).map(|_| ()), Err(EndlessCycle));
        let mut growing = shares(&[1.0], &[10.0], &[(0, 0, 15.0)]);
        assert_eq!(growing.targets(rate(1.0)).map(|_| ()), Err(EndlessCycle));
        assert_eq!(growing.bottleneck(&[rate(1.0)]), Err(EndlessCycle));
    }

    #[test]
    fn the_bottleneck_is_the_stage_that_is_slowest_for_its_share() {
        let capacities = [rate(1000.0), rate(420.0), rate(300.0), rate(800.0)];
        let bottleneck = diamond().bottleneck(&capacities).unwrap().unwrap();
        assert_eq!(bottleneck.stage, 1);
        assert!((bottleneck.throughput.get() - 600.0).abs() < 1e-9);
    }

    #[test]
    fn before_anything_entered_nothing_is_asked() {
        let mut fresh = StageShares::new(2).unwrap();
        assert_eq!(fresh.bottleneck(&[rate(1.0), rate(1.0)]), Ok(None));
        check(fresh, 100.0, &[0.0, 0.0]);
    }

    #[test]
    fn old_flows_count_half() {
        let mut shares = shares(&[10.0, 0.0], &[10.0, 10.0], &[(0, 1, 10.0)]);
        let flows = Flows { entered: &[10.0, 0.0], processed: &[10.0, 0.0], edges: &[] };
        shares.observe(&flows).unwrap();
        check(shares, 100.0, &[100.0, 50.0]);
    }

    #[test]
    fn flows_without_sense_are_rejected_and_change_nothing() {
        let mut shares = diamond();
        let flows = |entered, edges| Flows { entered, processed: &[1.0; 4], edges };
        assert_eq!(shares.observe(&flows(&[1.0; 3], &[])), Err(InvalidFlows::Counts(3)));
        let edge = [(0, 4, 1.0)];
        assert_eq!(shares.observe(&flows(&[1.0; 4], &edge)), Err(InvalidFlows::Stage(4)));
        let edge = [(0, 1, -1.0)];
        assert_eq!(shares.observe(&flows(&[1.0; 4], &edge)), Err(InvalidFlows::Count(-1.0)));
        assert!(shares.observe(&flows(&[f64::NAN; 4], &[])).is_err());
        check(shares, 500.0, &[500.0, 350.0, 150.0, 500.0]);
        assert!(StageShares::new(0).is_err() && StageShares::new(65).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn whatever_flows_targets_are_finite_or_an_error(
            entered in prop::collection::vec(0.0..1e6_f64, 5),
            processed in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e6_f64], 5),
            edges in prop::collection::vec((0..5_usize, 0..5_usize, 0.0..1e6_f64), 0..12),
            whole in 0.0..=f64::MAX,
        ) {
            let mut shares = shares(&entered, &processed, &edges);
            if let Ok(targets) = shares.targets(rate(whole)) {
                prop_assert!(targets.into_iter().all(|target| target.get().is_finite()));
            }
        }
    }
}
