//! M/PH/m: `m` workers with phase-type service, among them M/E_r/m, which [Welsh02 §4.4] calls a
//! stage that *combines* several steps.
//!
//! **Intuition.** It matters how regular service is: behind E_2, half as variable
//! as exponential service, the line is about three quarters as long.
//!
//! **Mechanism.** The state is how many workers are at each step. From `m` events on
//! every further one adds the same block of states, so that π(m+k) = π(m)·Rᵏ; R
//! comes from the first passage to the level below, which is found by logarithmic
//! reduction, and the finite rest by elimination from the top down
//! [Latouche99 ch. 6, 8]. What is spare enters as one number, so that a queue of a million
//! has as many right digits as one of two. The paper simulates this centre; here its
//! means are exact.
//!
//! **General service.** Of M/G/m the variability c² of service is known, and not its steps. The waiting
//! probability is that of M/M/m, and the mean wait that of M/M/m times (1 + c²) ÷ 2: the formula of
//! Allen and Cunneen for Poisson arrivals \[Allen90\], which is that of [Lee59 pp. 56–71]. It is right for
//! m = 1 (Pollaczek, Khinchine), and in the limit ρ → 1. Percentiles take service as a phase-type of the same
//! mean and, as far as its steps allow, the same variability.
//!
//! **Limits.** Beyond [`STATES_MAX`] states in a block, and where less than
//! [`SPARE_MIN`] of the capacity is spare, waits are those of general service. In either case the
//! wait of those who wait is taken as exponential, which is right far out and,
//! for regular service, too variable close by: percentiles are approximate.

use std::collections::BTreeMap;

use tamarisk_control::{Concurrency, PerSecond, Ratio};

use super::{
    Accuracy, Equilibrium, MultiServer, PhaseType, ResponseTime, Steps, Unstable, arrivals_of, rate,
};
use crate::matrix::Matrix;

/// Ways to distribute the workers over the steps, at most: a tenth of a second's work.
pub const STATES_MAX: usize = 128;

/// The least spare share of capacity at which elimination keeps its digits.
pub const SPARE_MIN: f64 = 1e-6;

/// A stage with `m` workers and a service of several steps.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseServer {
    service: PhaseType,
    workers: Concurrency,
    /// Of service of which this is known, and not its steps.
    variability: Option<f64>,
}

/// Waiting probability and mean number queued.
struct Queue {
    waiting: f64,
    queued: f64,
    accuracy: Accuracy,
}

impl PhaseServer {
    /// `workers` that each serve one event at a time.
    pub fn new(service: PhaseType, workers: Concurrency) -> Self {
        Self { service, workers, variability: None }
    }

    /// The same for service of this variability that is like `service`, and not made of its steps.
    pub fn general(service: PhaseType, variability: f64, workers: Concurrency) -> Self {
        Self { service, workers, variability: Some(variability) }
    }

    /// The maximum stable arrival rate, which itself is not stable.
    pub fn capacity(&self) -> PerSecond {
        rate(f64::from(self.workers.get()) / self.service.mean_seconds())
    }

    /// What happens in the long run.
    ///
    /// # Errors
    /// [`Unstable`] if as many arrive as can be served, or more.
    pub fn at(&self, arrivals: PerSecond) -> Result<Equilibrium, Unstable> {
        let exponential = MultiServer::of_mean(self.service.mean_seconds(), self.workers);
        let alike = exponential.at(arrivals)?;
        if self.service.steps() == 1 && self.variability.is_none() {
            return Ok(alike);
        }
        let lambda = arrivals_of(arrivals);
        let Queue { waiting, queued, accuracy } = self.queue(lambda, &alike);
        Ok(Equilibrium {
            waiting: Ratio::saturating(waiting),
            number: lambda * self.service.mean_seconds() + queued,
            queued,
            means: accuracy,
            response: self.response(waiting, queued, lambda),
            percentiles: Accuracy::Approximate,
            ..alike
        })
    }

    fn queue(&self, lambda: f64, alike: &Equilibrium) -> Queue {
        if let Some(variability) = self.variability {
            return self.by_variability(variability, alike);
        }
        let spare = 1.0 - alike.utilisation.get();
        let states = states_count(self.service.steps(), self.workers.get());
        let solved = (lambda > 0.0 && spare >= SPARE_MIN && states <= STATES_MAX)
            .then(|| Blocks::new(&self.service, self.workers.get(), lambda).solve());
        if let Some(queue) = solved.filter(|q| q.waiting.is_finite() && q.queued >= 0.0) {
            return queue;
        }
        self.by_variability(self.service.variability(), alike)
    }

    /// Allen and Cunneen's: exact for one worker.
    fn by_variability(&self, variability: f64, alike: &Equilibrium) -> Queue {
        Queue {
            waiting: alike.waiting.get(),
            queued: alike.queued * f64::midpoint(1.0, variability),
            accuracy: match self.workers {
                Concurrency::ONE => Accuracy::Exact,
                _ => Accuracy::Approximate,
            },
        }
    }

    /// With the waiting probability a wait of the right mean, and then service.
    fn response(&self, waiting: f64, queued: f64, lambda: f64) -> ResponseTime {
        if queued <= 0.0 || waiting <= 0.0 {
            return ResponseTime::phases(self.service.clone());
        }
        let steps = self.service.steps();
        let mut routes = Matrix::zeros(steps + 1, steps + 1);
        let mut entry = vec![waiting];
        let mut rates = vec![waiting * lambda / queued];
        let mut exits = vec![0.0];
        for i in 0..steps {
            routes[(0, i + 1)] = self.service.entry()[i];
            for j in 0..steps {
                routes[(i + 1, j + 1)] = self.service.routes()[(i, j)];
            }
            entry.push((1.0 - waiting) * self.service.entry()[i]);
        }
        rates.extend(self.service.rates());
        exits.extend(self.service.exits());
        ResponseTime::phases(PhaseType::from_steps(Steps { entry, rates, routes, exits }))
    }
}

/// Ways to distribute `workers` over `steps`, or many.
fn states_count(steps: usize, workers: u32) -> usize {
    let workers = workers as usize;
    // (workers + steps − 1) over (steps − 1), growing with every factor
    let mut count = 1;
    for k in 1..steps {
        count = count * (workers + k) / k;
        if count > STATES_MAX {
            return usize::MAX;
        }
    }
    count
}

/// How many workers are at each step.
type State = Vec<u32>;

/// The generator, by how many events are inside.
struct Blocks<'a> {
    service: &'a PhaseType,
    workers: u32,
    lambda: f64,
    /// The states with 0, 1, … `workers` events in service, and their places.
    levels: Vec<BTreeMap<State, usize>>,
}

impl<'a> Blocks<'a> {
    fn new(service: &'a PhaseType, workers: u32, lambda: f64) -> Self {
        let steps = service.steps();
        let mut levels = vec![BTreeMap::from([(vec![0; steps], 0)])];
        for busy in 0..workers as usize {
            let mut level = BTreeMap::new();
            for state in levels[busy].keys() {
                for step in 0..steps {
                    let place = level.len();
                    level.entry(moved(state, None, Some(step))).or_insert(place);
                }
            }
            levels.push(level);
        }
        Self { service, workers, lambda, levels }
    }

    /// Changes within a level; what leaves it is subtracted on the diagonal.
    fn within(&self, busy: u32) -> Matrix {
        let level = &self.levels[busy as usize];
        let mut block = Matrix::zeros(level.len(), level.len());
        for (state, &from) in level {
            block[(from, from)] -= self.lambda;
            for (step, rate) in self.active(state) {
                block[(from, from)] -= rate;
                for next in 0..self.service.steps() {
                    let to = level[&moved(state, Some(step), Some(next))];
                    block[(from, to)] += rate * self.service.routes()[(step, next)];
                }
            }
        }
        block
    }

    /// An event starts service: from `busy` to one more.
    fn up(&self, busy: u32) -> Matrix {
        let (level, above) = (&self.levels[busy as usize], &self.levels[busy as usize + 1]);
        let mut block = Matrix::zeros(level.len(), above.len());
        for (state, &from) in level {
            for (step, entry) in self.service.entry().iter().enumerate() {
                block[(from, above[&moved(state, None, Some(step))])] += self.lambda * entry;
            }
        }
        block
    }

    /// An event ends and none waits: from `busy` to one less.
    fn down(&self, busy: u32) -> Matrix {
        let (level, below) = (&self.levels[busy as usize], &self.levels[busy as usize - 1]);
        let mut block = Matrix::zeros(level.len(), below.len());
        for (state, &from) in level {
            for (step, rate) in self.active(state) {
                let to = below[&moved(state, Some(step), None)];
                block[(from, to)] += rate * self.service.exits()[step];
            }
        }
        block
    }

    /// An event ends and one that waited begins.
    fn replaced(&self) -> Matrix {
        let level = &self.levels[self.workers as usize];
        let mut block = Matrix::zeros(level.len(), level.len());
        for (state, &from) in level {
            for (step, rate) in self.active(state) {
                for (next, entry) in self.service.entry().iter().enumerate() {
                    let to = level[&moved(state, Some(step), Some(next))];
                    block[(from, to)] += rate * self.service.exits()[step] * entry;
                }
            }
        }
        block
    }

    /// The steps at which there are workers, and the rate at which those are left.
    fn active<'s>(&'s self, state: &'s State) -> impl Iterator<Item = (usize, f64)> + 's {
        let rates = state.iter().zip(self.service.rates());
        let active = rates.enumerate().filter(|(_, (workers, _))| **workers > 0);
        active.map(|(step, (&workers, rate))| (step, f64::from(workers) * rate))
    }

    fn solve(&self) -> Queue {
        let full = self.within(self.workers);
        let down = self.replaced();
        // G: where the first passage to the level below ends.
        let passage = first_passage(&full, &down, self.lambda);
        // N = −(A₁ + λG)⁻¹ and R = λN; the same censoring, level by level, below.
        let mut censored = vec![negative_inverse(full.clone().plus(&passage.scaled(self.lambda)))];
        for busy in (1..self.workers).rev() {
            let above = &censored[censored.len() - 1];
            let detour = self.up(busy).times(above).times(&self.down(busy + 1));
            censored.push(negative_inverse(self.within(busy).plus(&detour)));
        }
        let repeated = censored[0].clone().scaled(self.lambda);

        let mut level = vec![1.0];
        let mut not_waiting = 0.0;
        for busy in 0..self.workers {
            not_waiting += level.iter().sum::<f64>();
            let above = censored.pop().expect("one for each level above the lowest");
            level = above.after(&self.up(busy).after(&level));
        }
        let next = repeated.after(&level);
        let (waiting, queued) = self.above(&full, &down, &level, &next);
        let all = not_waiting + waiting;
        Queue { waiting: waiting / all, queued: queued / all, accuracy: Accuracy::Exact }
    }

    /// Σ π(m+k)·1 and Σ k·π(m+k)·1 from π(m), `level`, and π(m+1), `next`.
    ///
    /// With p and q for the sums, Q for the generator of the steps while all
    /// workers are busy and A₂ for `down`, the balance of all levels above m says
    /// ```text
    /// p·Q = π(m)·A₁ + (π(m) + π(m+1))·A₂       p·(A₂ − λI)·1 = π(m)·A₂·1
    /// q·Q = (p − π(m))·A₂ − λp                  q·(A₂ − λI)·1 = λp·1
    /// ```
    /// The left equations leave a multiple of β (β·Q = 0) open, which the right ones
    /// give; what is spare appears there alone, and is not the result of
    /// eliminating. (I − R)⁻² would lose twice the digits of the spare share.
    fn above(&self, full: &Matrix, down: &Matrix, level: &[f64], next: &[f64]) -> (f64, f64) {
        let lambda = self.lambda;
        let mut generator = full.clone().plus(down);
        generator.add_identity(lambda);
        let busy = Singular(generator);
        let beta = busy.solve(&vec![0.0; level.len()], 1.0);
        let spare = f64::from(self.workers).mul_add(1.0 / self.service.mean_seconds(), -lambda);
        let drift = |v: &[f64]| sum(&down.after(v)) - lambda * sum(v);

        let both = combined(level, 1.0, next, 1.0);
        let right = combined(&full.after(level), 1.0, &down.after(&both), 1.0);
        let open = busy.solve(&right, 0.0);
        let share = (sum(&down.after(level)) - drift(&open)) / spare;
        let p = combined(&open, 1.0, &beta, share);

        let beyond = down.after(&combined(&p, 1.0, level, -1.0));
        let open = busy.solve(&combined(&beyond, 1.0, &p, -lambda), 0.0);
        let queued = (lambda * sum(&p) - drift(&open)) / spare;
        (sum(&p), queued)
    }
}

/// A generator, whose rows sum to zero.
struct Singular(Matrix);

impl Singular {
    /// x with x·Q = `right` and the cells of x summing to `total`.
    fn solve(&self, right: &[f64], total: f64) -> Vec<f64> {
        // The last equation follows from the others, and makes room for the sum.
        let Self(generator) = self;
        let last = right.len() - 1;
        let mut transposed = Matrix::zeros(right.len(), right.len());
        let mut column = Matrix::zeros(right.len(), 1);
        for i in 0..right.len() {
            for j in 0..last {
                transposed[(j, i)] = generator[(i, j)];
            }
            transposed[(last, i)] = 1.0;
            column[(i, 0)] = if i < last { right[i] } else { total };
        }
        let solved = transposed.solve(column);
        (0..right.len()).map(|i| solved[(i, 0)]).collect()
    }
}

fn sum(vector: &[f64]) -> f64 {
    vector.iter().sum()
}

fn combined(a: &[f64], share_a: f64, b: &[f64], share_b: f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| share_a * a + share_b * b).collect()
}

/// `state` with one worker less at `from` and one more at `to`.
fn moved(state: &State, from: Option<usize>, to: Option<usize>) -> State {
    let mut state = state.clone();
    from.into_iter().for_each(|step| state[step] -= 1);
    to.into_iter().for_each(|step| state[step] += 1);
    state
}

/// G of a process that goes up with `lambda` everywhere, by logarithmic reduction:
/// each round looks twice as far up [Latouche99 ch. 8].
fn first_passage(within: &Matrix, down: &Matrix, lambda: f64) -> Matrix {
    /// 2⁴⁰ levels up are never needed while [`SPARE_MIN`] is spare.
    const ROUNDS: u32 = 40;
    let size = within.rows();
    let stay = negative_inverse(within.clone());
    let mut up = stay.clone().scaled(lambda);
    let mut low = stay.times(down);
    let mut passage = low.clone();
    let mut reach = up.clone();
    for _ in 0..ROUNDS {
        let mut rest = up.times(&low).plus(&low.times(&up)).scaled(-1.0);
        rest.add_identity(1.0);
        let inverse = rest.solve(Matrix::identity(size));
        up = inverse.times(&up.times(&up));
        low = inverse.times(&low.times(&low));
        passage = passage.plus(&reach.times(&low));
        reach = reach.times(&up);
        let left = (0..size).map(|i| reach.row(i).iter().sum::<f64>()).fold(0.0, f64::max);
        if left < f64::EPSILON / 16.0 {
            break;
        }
    }
    // The level below is reached for certain.
    for i in 0..size {
        let certain: f64 = passage.row(i).iter().sum();
        (0..size).for_each(|j| passage[(i, j)] /= certain);
    }
    passage
}

fn negative_inverse(matrix: Matrix) -> Matrix {
    let size = matrix.rows();
    matrix.scaled(-1.0).solve(Matrix::identity(size))
}
