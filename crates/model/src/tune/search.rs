//! The search for the best constants.

use super::simplex::climb;
use super::space::Point;

/// How a search goes about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How many numbers a candidate is.
    pub dimensions: usize,
    /// Candidates that are looked at in any case, under all seeds.
    pub given: Vec<Point>,
    /// Under how many seeds the best are compared.
    pub seeds: usize,
    /// How many runs there may be in all.
    pub budget: usize,
    /// Where the even spread of candidates begins.
    pub seed: u64,
}

/// A run that is wanted: this candidate, under the seed of this number.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The candidate.
    pub point: Point,
    /// From zero, below the number of seeds.
    pub seed: usize,
}

/// A candidate that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The constants, each from 0 to 1.
    pub point: Point,
    /// What it came to under each seed, from the first on.
    pub values: Vec<f64>,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best of those that were tried under the most seeds; `None` if not one run came
    /// to its end.
    pub best: Option<Candidate>,
    /// All, in the order in which they were first tried.
    pub tried: Vec<Candidate>,
    /// How many runs there were.
    pub runs: usize,
    /// Whether it was ended early.
    pub interrupted: bool,
}

impl Candidate {
    /// What it is worth, by what is known.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }
}

/// This share of the runs looks for a good region, the rest climbs in it.
const EXPLORING: f64 = 0.6;

/// For each candidate of the even spread so many points are looked at, if few are possible: of
/// four constants that have to rise, one of 24 is.
const DRAWS_MAX: usize = 100;

/// Looks for the point whose value is greatest on average over the seeds, among those that
/// `is_possible` allows. `run` does the jobs, which do not depend on each other, and gives their
/// values in order; or `None` to end the search early.
///
/// The same plan and values give the same search.
pub fn search(
    plan: &Plan,
    is_possible: &dyn Fn(&Point) -> bool,
    run: &mut dyn FnMut(&[Job]) -> Option<Vec<f64>>,
) -> Found {
    let (seeds, left) = (plan.seeds.max(1), plan.budget);
    let mut trial = Trial { is_possible, run, seeds, left, tried: Vec::new() };
    let finished = trial.explore(plan).and_then(|()| trial.exploit());
    // Running out of budget is no interruption: then nothing more could be run.
    let interrupted = finished.is_none() && trial.left >= trial.seeds;
    let most = trial.tried.iter().map(|candidate| candidate.values.len()).max().unwrap_or(0);
    let known = trial.tried.iter().filter(|candidate| most > 0 && candidate.values.len() == most);
    Found {
        best: best_of(known).cloned(),
        runs: plan.budget - trial.left,
        interrupted,
        tried: trial.tried,
    }
}

/// Of equals the first: the given ones are as good as any.
fn best_of<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Option<&'a Candidate> {
    candidates.reduce(|best, next| if next.mean() > best.mean() { next } else { best })
}

struct Trial<'a> {
    is_possible: &'a dyn Fn(&Point) -> bool,
    run: &'a mut dyn FnMut(&[Job]) -> Option<Vec<f64>>,
    seeds: usize,
    left: usize,
    tried: Vec<Candidate>,
}

impl Trial<'_> {
    /// Successive halving [Karnin13 §3]; the given candidates are never left behind.
    fn explore(&mut self, plan: &Plan) -> Option<()> {
        let is_possible = self.is_possible;
        let points: Vec<_> = plan.given.iter().filter(|it| is_possible(it)).cloned().collect();
        let given = points.len();
        let rungs = self.seeds.next_power_of_two().trailing_zeros() as f64;
        // The first rung takes one run of each, every further one half of that.
        let spent = (plan.budget as f64 * EXPLORING) - (given * self.seeds) as f64;
        let count = (spent / (1.0 + 0.5 * rungs)).max(0.0) as usize;
        let draws = 1..=(count * DRAWS_MAX) as u64;
        let spread = draws.map(|index| halton(index, plan.dimensions, plan.seed));
        let points = points.into_iter().chain(spread.filter(is_possible).take(count));
        self.tried.extend(points.map(|point| Candidate { point, values: Vec::new() }));
        self.extend(&(0..given).collect::<Vec<_>>(), self.seeds)?;

        let mut alive: Vec<usize> = (given..self.tried.len()).collect();
        let mut seeds = 1;
        loop {
            self.extend(&alive, seeds)?;
            if seeds == self.seeds || alive.is_empty() {
                return Some(());
            }
            let worth = |index: &usize| self.tried[*index].mean();
            alive.sort_by(|one, other| worth(other).total_cmp(&worth(one)));
            alive.truncate(alive.len().div_ceil(2));
            seeds = (2 * seeds).min(self.seeds);
        }
    }

    /// Climbs from the best until the runs are used up.
    fn exploit(&mut self) -> Option<()> {
        let known = |candidate: &&Candidate| candidate.values.len() == self.seeds;
        let best = best_of(self.tried.iter().filter(known))?;
        let (start, value) = (best.point.clone(), best.mean());
        climb(&start, value, &mut |point| {
            if !(self.is_possible)(point) {
                return Some(f64::NEG_INFINITY);
            }
            self.tried.push(Candidate { point: point.clone(), values: Vec::new() });
            let index = self.tried.len() - 1;
            self.extend(&[index], self.seeds)?;
            Some(self.tried[index].mean())
        })
    }

    /// Runs these candidates under so many seeds, as far as they were not yet.
    fn extend(&mut self, candidates: &[usize], seeds: usize) -> Option<()> {
        let mut wanted = Vec::new();
        for &index in candidates {
            let Candidate { point, values } = &self.tried[index];
            let more =
                (values.len()..seeds).map(|seed| (index, Job { point: point.clone(), seed }));
            wanted.extend(more);
        }
        if wanted.len() > self.left {
            return None;
        }
        let jobs: Vec<_> = wanted.iter().map(|(_, job)| job.clone()).collect();
        let values = (self.run)(&jobs)?;
        self.left -= jobs.len();
        for ((index, _), value) in wanted.into_iter().zip(values) {
            // What is no number is worth nothing.
            let value = if value.is_nan() { f64::NEG_INFINITY } else { value };
            self.tried[index].values.push(value);
        }
        Some(())
    }
}

/// The point number `index` of a Halton sequence, shifted by the seed and wrapped around.
fn halton(index: u64, dimensions: usize, seed: u64) -> Point {
    const PRIMES: [u64; 16] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53];
    let inverse = |base: u64| {
        let (mut left, mut step, mut value) = (index, 1.0, 0.0);
        while left > 0 {
            step /= base as f64;
            value += step * (left % base) as f64;
            left /= base;
        }
        value
    };
    let shift = |axis: usize| {
        // Of the golden ratio's multiples: far apart for seeds that are near.
        (seed as f64 * 0.618_033_988_749_895 + axis as f64 * 0.754_877_666_246_693).fract()
    };
    let bases = PRIMES.into_iter().cycle().take(dimensions).enumerate();
    bases.map(|(axis, base)| (inverse(base) + shift(axis)).fract()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curved ridge with its top at (0.7, 0.49), and noise that depends on the seed alone.
    fn worth(job: &Job) -> f64 {
        let [x, y] = job.point[..] else { panic!("two dimensions") };
        let noise = [0.3, -0.2, 0.1, -0.4][job.seed];
        noise * (1.0 + x) - (x - 0.7).powi(2) - 20.0 * (y - x * x).powi(2)
    }

    fn plan(budget: usize) -> Plan {
        Plan { dimensions: 2, given: vec![vec![0.1, 0.9]], seeds: 4, budget, seed: 1 }
    }

    fn found(budget: usize) -> Found {
        search(&plan(budget), &|_| true, &mut |jobs| Some(jobs.iter().map(worth).collect()))
    }

    #[test]
    fn the_top_of_a_curved_ridge_is_found_in_noise() {
        let found = found(600);
        let best = found.best.unwrap();
        // The noise is −0.05·(1 + x) on average, which moves the top to x = 0.675.
        assert!((best.point[0] - 0.675).abs() < 0.02, "{best:?}");
        assert!((best.point[1] - best.point[0].powi(2)).abs() < 0.02, "{best:?}");
        assert!(found.runs <= 600 && !found.interrupted);
    }

    #[test]
    fn the_same_plan_gives_the_same_search() {
        assert_eq!(found(200), found(200));
        let other = Plan { seed: 2, ..plan(200) };
        let other = search(&other, &|_| true, &mut |jobs| Some(jobs.iter().map(worth).collect()));
        assert_ne!(other, found(200));
    }

    #[test]
    fn an_early_end_keeps_the_best_so_far() {
        let mut batches = 0;
        let found = search(&plan(600), &|_| true, &mut |jobs| {
            batches += 1;
            (batches < 6).then(|| jobs.iter().map(worth).collect())
        });
        assert!(found.interrupted && found.runs < 600);
        assert!(found.best.unwrap().mean() > worth(&Job { point: vec![0.1, 0.9], seed: 0 }));
    }

    #[test]
    fn a_small_budget_judges_what_was_given() {
        let found = found(4);
        assert_eq!(found.best.unwrap().point, [0.1, 0.9]);
        assert_eq!((found.runs, found.interrupted), (4, false));
        assert_eq!(super::tests::found(3).best, None);
    }

    #[test]
    fn what_is_no_number_never_wins() {
        let nan = |job: &Job| if job.point[0] > 0.5 { f64::NAN } else { job.point[0] };
        let found = search(&plan(200), &|_| true, &mut |jobs| Some(jobs.iter().map(nan).collect()));
        assert!(found.best.unwrap().mean() > 0.4);
    }

    #[test]
    fn only_what_is_possible_is_run_and_the_spread_is_as_large_as_ever() {
        let rising = |point: &Point| point[0] <= point[1];
        let found = search(&plan(600), &rising, &mut |jobs| {
            assert!(jobs.iter().all(|job| rising(&job.point)), "{jobs:?}");
            Some(jobs.iter().map(worth).collect())
        });
        // Of 600 runs 360 explore: 4 of the given one, the others by halves under 4 seeds.
        let alone = found.tried.iter().filter(|tried| tried.values.len() == 1).count();
        assert_eq!(alone, 89, "one half of 178");
        assert!(rising(&found.best.unwrap().point));
    }

    #[test]
    fn of_equals_the_climb_starts_at_what_was_given() {
        let found = search(&plan(100), &|_| true, &mut |jobs| Some(vec![0.0; jobs.len()]));
        assert_eq!(found.best.unwrap().point, [0.1, 0.9]);
        // The spread is of 28: of 60 runs 4 are the given one's, and every rung takes half of the
        // rest. The second corner of the climb is straight below its first.
        let corner = &found.tried[1 + 28 + 1].point;
        assert!(corner[0] == 0.1 && (corner[1] - 0.78).abs() < 1e-9, "{corner:?}");
    }

    #[test]
    fn nothing_possible_is_nothing_found() {
        let found = search(&plan(100), &|_| false, &mut |jobs| Some(vec![0.0; jobs.len()]));
        assert_eq!((found.best, found.runs), (None, 0));
    }
}
