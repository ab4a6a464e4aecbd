//! How long answers take, over how many were in flight when their request was sent.
//!
//! Before c workers, first come first served or all at once, an answer whose request was the
//! n-th in flight takes g(n) = max(1, n ÷ c) times as long as unhurried, on average. While the
//! number in flight varies, as from a cold start, this line tells a queue from slow service,
//! and c, without a trial.

use std::collections::VecDeque;

use super::kinds::Kinds;

/// Requests that are remembered, the latest.
const STARTS_MAX: usize = 256;
/// The answers must be so many times (its logarithm) likelier with the line than without.
const SURE: f64 = 8.0;
/// Fewer answers say nothing.
const ANSWERS_MIN: f64 = 4.0;
/// As long as those in flight have been there for so many times as long, all told, as those
/// answered have taken, the answers are the short ones.
const IMMATURE: f64 = 2.5;
/// Numbers of workers explain it nearly as well as the best if they leave this much more.
const NEARLY: f64 = 4.0;
/// Kinds that take less than this share of the one that most of the work is of are left out.
const MAIN: f64 = 0.3;
/// The numbers of workers that are tried lie so far apart, at least one.
const STEP: f64 = 1.13;

/// The latest requests, in the order of their start.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    starts: VecDeque<Start>,
    points: Vec<Point>,
    sums: Vec<Sum>,
    main: usize,
    /// Seconds of those answered, and of those in flight.
    answered: f64,
    in_flight: f64,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    at: f64,
    /// How many were in flight with it.
    in_flight: f64,
    row: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    InFlight,
    Answered(f64),
    /// It says nothing.
    Gone,
}

/// A request, as the line is drawn through it.
#[derive(Clone, Copy, Debug)]
struct Point {
    row: usize,
    weight: f64,
    took: f64,
    ln_in_flight: f64,
    ln_took: f64,
}

/// How many an upstream works at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    pub(super) likely: f64,
    /// What explains the answers nearly as well.
    pub(super) most: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight: f64,
    first: f64,
}

/// Numbers of workers below so many.
fn candidates(most: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(1.0), |busy: &f64| Some((busy * STEP).max(busy + 0.5)))
        .take_while(move |busy| *busy < most)
}

impl Curve {
    pub(super) fn new(rows: usize) -> Self {
        Self {
            starts: VecDeque::with_capacity(STARTS_MAX),
            points: Vec::with_capacity(STARTS_MAX),
            sums: vec![Sum::default(); rows],
            main: 0,
            answered: 0.0,
            in_flight: 0.0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.starts.clear();
    }

    /// A request is sent; so many are in flight with it.
    pub(super) fn on_start(&mut self, at: f64, row: usize, in_flight: u32) {
        if self.starts.len() == STARTS_MAX {
            self.starts.pop_front();
        }
        let in_flight = f64::from(in_flight.max(1));
        self.starts.push_back(Start { at, in_flight, row, state: State::InFlight });
    }

    /// What was sent at `at` has been answered after so many seconds.
    pub(super) fn on_answer(&mut self, at: f64, row: usize, took: f64) {
        self.set(at, row, State::Answered(took));
    }

    /// What was sent at `at` will say nothing.
    pub(super) fn forget(&mut self, at: f64, row: usize) {
        self.set(at, row, State::Gone);
    }

    fn set(&mut self, at: f64, row: usize, state: State) {
        /// Clocks are read one after the other.
        const SAME: f64 = 0.002;
        let middle = self.starts.partition_point(|start| start.at < at);
        let distance = |index: &usize| (self.starts[*index].at - at).abs();
        let is_same = |index: &usize| {
            let start = &self.starts[*index];
            start.row == row && start.state == State::InFlight
        };
        let is_near = |index: &usize| distance(index) < SAME;
        let before = (0..middle).rev().take_while(is_near).find(is_same);
        let after = (middle..self.starts.len()).take_while(is_near).find(is_same);
        let nearest = [before, after]
            .into_iter()
            .flatten()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        if let Some(index) = nearest {
            self.starts[index].state = state;
        }
    }

    /// How many the upstream works at, if the answers show that clearly.
    pub(super) fn busy(&mut self, now: f64, kinds: &Kinds) -> Option<Busy> {
        self.collect(now, kinds);
        let weights: f64 = self.points.iter().map(|point| point.weight).sum();
        let squares: f64 = self.points.iter().map(|point| point.weight * point.weight).sum();
        let count = weights * weights / squares.max(f64::MIN_POSITIVE);
        let most = self.points.iter().map(|point| point.ln_in_flight).fold(0.0, f64::max).exp();
        if count < ANSWERS_MIN || self.in_flight > IMMATURE * self.answered {
            return None;
        }
        let flat = self.residue(f64::INFINITY);
        let least = candidates(most).map(|busy| self.residue(busy.ln())).fold(flat, f64::min);
        let doubt = least * (1.0 + NEARLY / (count - 2.0));
        let likely = candidates(most).find(|busy| self.residue(busy.ln()) <= least)?;
        let most = candidates(most).filter(|busy| self.residue(busy.ln()) <= doubt).last()?;
        let likelier = 0.5 * count * (flat / least.max(f64::MIN_POSITIVE)).ln();
        (likelier > SURE).then_some(Busy { likely, most })
    }

    /// The row of the kind that most of the work is of.
    pub(super) fn main(&self) -> usize {
        self.main
    }

    /// What the kind in `row` takes unhurried before so many workers, and of how many answers.
    pub(super) fn unhurried(&self, row: usize, busy: f64) -> Option<(f64, f64)> {
        let waits = |point: &&Point| (point.ln_in_flight - busy.ln()).max(0.0);
        let of_kind = || self.points.iter().filter(|point| point.row == row);
        // Short work that waits for long work is not stretched as this is.
        let at_once = of_kind().filter(|point| point.weight == 0.0 && waits(point) < 1e-9);
        let (count, sum) = at_once.fold((0.0, 0.0), |(n, sum), point| (n + 1.0, sum + point.took));
        if count >= ANSWERS_MIN {
            return Some((sum / count, count));
        }
        let all = of_kind().map(|point| point.took / waits(&point).exp());
        let (count, sum) = all.fold((0.0, 0.0), |(n, sum), took| (n + 1.0, sum + took));
        (count > 0.0).then(|| (sum / count, count))
    }

    /// The answers, and those in flight that already take longer than these.
    fn collect(&mut self, now: f64, kinds: &Kinds) {
        self.points.clear();
        (self.answered, self.in_flight) = (0.0, 0.0);
        self.sums.fill(Sum::default());
        for start in &self.starts {
            match start.state {
                State::Answered(took) => self.answered += took,
                State::InFlight => self.in_flight += now - start.at,
                State::Gone => continue,
            }
            let Some(unhurried) = kinds.row(start.row).service.unhurried() else { continue };
            let took = match start.state {
                State::Answered(took) => took,
                _ if now - start.at > unhurried => now - start.at,
                _ => continue,
            };
            self.sums[start.row].weight += unhurried;
            self.points.push(Point {
                row: start.row,
                weight: unhurried,
                took,
                ln_in_flight: start.in_flight.ln(),
                ln_took: took.max(1e-6).ln(),
            });
        }
        // Short work that waits for long work takes many times as long as its own.
        let work = |row: &usize| self.sums[*row].weight;
        let rows = 0..kinds.iter().count();
        self.main = rows.max_by(|a, b| work(a).total_cmp(&work(b))).unwrap_or(0);
        let main = kinds.row(self.main).service.unhurried().unwrap_or(0.0);
        for point in &mut self.points {
            if point.weight < MAIN * main {
                point.weight = 0.0;
            }
        }
    }

    /// What varies still if so many (their logarithm) are worked at.
    fn residue(&mut self, ln_busy: f64) -> f64 {
        self.sums.fill(Sum::default());
        let mut squares = 0.0;
        for point in &self.points {
            let service = point.ln_took - (point.ln_in_flight - ln_busy).max(0.0);
            let sum = &mut self.sums[point.row];
            sum.weight += point.weight;
            sum.first += point.weight * service;
            squares += point.weight * service * service;
        }
        let explained = self.sums.iter().filter(|sum| sum.weight > 0.0);
        squares - explained.map(|sum| sum.first * sum.first / sum.weight).sum::<f64>()
    }
}
