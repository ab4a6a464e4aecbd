//! Estimates the number of an upstream's workers from service times at each concurrency.
//!
//! Before c workers, first come first served, the service of a request that found n in flight,
//! itself included, begins when it is sent if n ≤ c, else at the (n − c)-th end after that. So
//! each c implies a service for each answer. With the right c these vary least, and no request
//! ends before its service begins. The likelihood of the ends, given what was in flight
//! (`service_fit.rs`), compares all c with each other, with none, where nobody waits, and with an
//! upstream that serves in another order: of that nothing is read.
//!
//! The same tells how many there are at least: until that is many, only so much long work is
//! sent as these get done in time (`cautious`).

use std::collections::VecDeque;

use super::kinds::Kinds;
use super::promises::Promises;
use super::service_fit::ServiceFit;

/// Requests that are remembered, the latest.
const STARTS_MAX: usize = 512;
/// The answers must be so many times (its logarithm) likelier with a number of workers than without.
const SURE: f64 = 4.5;
/// Fewer answers say nothing.
const ANSWERS_MIN: f64 = 4.0;
/// As long as those in flight have been there for so many times as long, all told, as those
/// answered have taken, the answers are the short ones.
const IMMATURE: f64 = 2.5;
/// Numbers of workers explain it nearly as well as the best if they are so much less likely (its
/// logarithm).
const NEARLY: f64 = 2.0;
/// Nothing is read from a request if more than this share of those in flight with it is forgotten.
const FORGOTTEN: f64 = 0.1;
/// Kinds that take less than this share of the one that most of the work is of are left out.
const MAIN: f64 = 0.3;
/// A service that is implied to be shorter than this share of the usual one counts as so long:
/// clocks are read one after the other.
const LEAST: f64 = 0.02;
/// An answer that came before its service would have begun has a likelihood of e to the minus this,
/// divided by the usual length. Not none: an upstream may have a cache, or another order.
const OVERTAKEN: f64 = 4.4;
/// Responses must grow with the number in flight at least with this exponent: before few workers
/// it is 1. Requests that come evenly to an upstream that has room end as evenly, one by one.
const SLOPE_MIN: f64 = 0.3;
/// Numbers of workers are ruled out that are so much less likely (its logarithm).
const DISPROVED: f64 = 2.0;
/// A cautious number of places fills this share of what can be promised. Work that takes more than
/// this share of it unhurried is sent: a short wait here would make it late, and the upstream may
/// have room.
const CAUTIOUS: f64 = 0.7;
/// It is at least so many times the number of workers. If no more than few workers can do is sent,
/// the answers never show that there are more.
const CAUTIOUS_MIN: f64 = 2.0;
/// Answers hardly waited that take less than so many times their service. So many show it, if
/// every number of workers that they would have waited for is so much less likely (its logarithm).
const HARDLY: f64 = 1.15;
const HARDLY_ANSWERS: f64 = 16.0;
const HARDLY_SURE: f64 = 1.0;
/// The numbers of workers that are tried lie so far apart, at least one.
const STEP: f64 = 1.13;

/// The latest requests, in the order of their start.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    starts: VecDeque<Start>,
    /// Requests whose state was set so far: it spreads the choice among equals.
    set_count: f64,
    points: Vec<Point>,
    /// When requests ended, in this order.
    ends: Vec<f64>,
    /// Work answered, by row.
    work: Vec<f64>,
    fit: ServiceFit,
    /// As many answers of equal work would tell as much.
    count: f64,
    main: usize,
    /// Seconds of those answered, and of those in flight.
    answered: f64,
    in_flight: f64,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    /// When it came, …
    entered: f64,
    /// … and when it was sent.
    at: f64,
    /// How many were in flight with it.
    in_flight: usize,
    row: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    InFlight,
    Answered(f64),
    /// It says nothing, but that it left after so many seconds.
    Gone(f64),
}

/// A request, as it is looked at.
#[derive(Clone, Copy, Debug)]
struct Point {
    row: usize,
    weight: f64,
    sent: f64,
    end: f64,
    answered: bool,
    unhurried: f64,
    in_flight: usize,
    /// So many that are remembered were sent before, …
    sent_before: usize,
    /// … and so many of them had ended by then.
    before: usize,
}

impl Point {
    fn took(&self) -> f64 {
        (self.end - self.sent).max(LEAST * self.unhurried)
    }

    /// Of so many workers that serve all at once, how many requests had each.
    fn shared_by(&self, busy: usize) -> f64 {
        (self.in_flight as f64 / busy as f64).max(1.0)
    }

    /// How many were in flight that had been sent before it, and are forgotten.
    fn forgotten(&self) -> usize {
        (self.in_flight + self.before).saturating_sub(self.sent_before + 1)
    }

    /// Whether it is known whose end it waited for.
    fn is_complete(&self) -> bool {
        self.forgotten() as f64 <= FORGOTTEN * self.in_flight as f64
    }
}

/// In which order an upstream serves.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// First come, first served.
    Arrival,
    /// Any, or all at once: of n in flight each takes n ÷ c times as long as its service.
    Any,
}

/// How many an upstream works at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    pub(super) likely: f64,
    /// What explains the answers nearly as well.
    pub(super) most: f64,
}

/// How many of the kind in a row may be in flight at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cautious {
    pub(super) row: usize,
    pub(super) places: f64,
}

/// Numbers of workers below so many.
fn candidates(most: usize) -> impl Iterator<Item = usize> {
    let next = |busy: &usize| Some(((*busy as f64 * STEP) as usize).max(busy + 1));
    std::iter::successors(Some(1), next).take_while(move |busy| *busy < most)
}

impl Curve {
    pub(super) fn new() -> Self {
        Self {
            starts: VecDeque::with_capacity(STARTS_MAX),
            set_count: 0.0,
            points: Vec::with_capacity(STARTS_MAX),
            ends: Vec::with_capacity(STARTS_MAX),
            work: Vec::new(),
            fit: ServiceFit::default(),
            count: 0.0,
            main: 0,
            answered: 0.0,
            in_flight: 0.0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.starts.clear();
    }

    /// A request that came at `entered` is sent; so many are in flight with it.
    pub(super) fn on_start(&mut self, entered: f64, at: f64, row: usize, in_flight: u32) {
        if self.starts.len() == STARTS_MAX {
            self.starts.pop_front();
        }
        let in_flight = in_flight.max(1) as usize;
        self.starts.push_back(Start { entered, at, in_flight, row, state: State::InFlight });
    }

    /// What was sent at `at` has been answered after so many seconds; when it came, if that is
    /// known.
    pub(super) fn on_answer(&mut self, entered: Option<f64>, at: f64, row: usize, took: f64) {
        self.set(entered, at, row, State::Answered(took));
    }

    /// What was sent at `at` will say nothing; it has left after so many seconds.
    pub(super) fn forget(&mut self, entered: Option<f64>, at: f64, row: usize, took: f64) {
        self.set(entered, at, row, State::Gone(took));
    }

    /// What is in flight of the kind in `row` will say nothing, and has left.
    pub(super) fn forget_row(&mut self, now: f64, row: usize) {
        let in_flight = |start: &&mut Start| start.row == row && start.state == State::InFlight;
        for start in self.starts.iter_mut().filter(in_flight) {
            start.state = State::Gone(now - start.at);
        }
    }

    /// Sets the state of the request that was sent at `at`: a higher limit sends many at once, and
    /// of those it is the one that came at `entered`.
    fn set(&mut self, entered: Option<f64>, at: f64, row: usize, state: State) {
        /// Clocks are read one after the other.
        const SAME: f64 = 0.002;
        /// Seconds are rounded.
        const ROUNDED: f64 = 1e-6;
        /// The fractions of its multiples are spread evenly.
        const GOLDEN: f64 = 0.618_033_988_749_895;
        let may_be = |start: &&Start| start.row == row && start.state == State::InFlight;
        let sent_apart = |start: &Start| (start.at - at).abs();
        let middle = self.starts.partition_point(|start| start.at < at);
        let within = |most: f64| move |start: &&Start| (start.at - at).abs() < most;
        let later = self.starts.range(middle..).take_while(within(SAME)).find(may_be);
        let later = later.map_or(SAME, sent_apart);
        let earlier = self.starts.range(..middle).rev().take_while(within(later)).find(may_be);
        let sent_least = earlier.map_or(later, sent_apart) + ROUNDED;
        let from = self.starts.partition_point(|start| at - start.at > sent_least);
        let until = self.starts.partition_point(|start| start.at - at <= sent_least);
        let near = || {
            let near = self.starts.range(from..until).zip(from..);
            near.filter(|(start, _)| may_be(start))
        };
        let came_apart =
            |start: &Start| entered.map_or(0.0, |entered| (start.entered - entered).abs());
        let came = near().map(|(start, _)| came_apart(start));
        let came_least = came.fold(f64::INFINITY, f64::min) + ROUNDED;
        let alike = || near().filter(|(start, _)| came_apart(start) <= came_least);
        // Requests that came at once, too, cannot be told apart. To take them in their order would
        // look like a queue.
        let count = alike().count();
        let any = (self.set_count * GOLDEN).fract() * count as f64;
        if let Some((_, index)) = alike().nth(any as usize) {
            self.starts[index].state = state;
            self.set_count += 1.0;
        }
    }

    /// How many the upstream works at, if the answers show that clearly; `exhausted` says that
    /// places have run out.
    pub(super) fn busy(&mut self, now: f64, exhausted: bool, kinds: &Kinds) -> Option<Busy> {
        self.collect(now, kinds);
        let is_early = self.count < ANSWERS_MIN || self.in_flight > IMMATURE * self.answered;
        if is_early || (!exhausted && self.slope() < SLOPE_MIN) {
            return None;
        }
        let most = self.most_in_flight();
        let parallel = self.likelihood(usize::MAX, Order::Arrival);
        let (mut likely, mut best) = (1, f64::NEG_INFINITY);
        for busy in candidates(most) {
            let likelihood = self.likelihood(busy, Order::Arrival);
            if likelihood > best {
                (likely, best) = (busy, likelihood);
            }
        }
        let shared = candidates(most).map(|busy| self.likelihood(busy, Order::Any));
        let shared = shared.fold(f64::NEG_INFINITY, f64::max);
        if best - parallel <= SURE || shared > best {
            return None;
        }
        let most = candidates(most)
            .filter(|busy| self.likelihood(*busy, Order::Arrival) >= best - NEARLY)
            .last()?;
        Some(Busy { likely: likely as f64, most: most as f64 })
    }

    /// How many of the kind that most of the work is of may be in flight, if there are as few
    /// workers as the answers allow; `None` if service is too long for that to matter.
    pub(super) fn cautious(
        &mut self,
        now: f64,
        kinds: &Kinds,
        promises: &Promises,
    ) -> Option<Cautious> {
        self.collect(now, kinds);
        let most = self.most_in_flight();
        let parallel = self.likelihood(usize::MAX, Order::Arrival);
        let best = candidates(most)
            .map(|busy| self.likelihood(busy, Order::Arrival))
            .fold(parallel, f64::max);
        let fewest = candidates(most)
            .find(|busy| self.likelihood(*busy, Order::Arrival) >= best - DISPROVED)?;
        let (unhurried, _) = self.unhurried(self.main, fewest as f64)?;
        let kept = CAUTIOUS * promises.kept(kinds.row(self.main));
        let places = (kept / unhurried).max(CAUTIOUS_MIN) * fewest as f64;
        (unhurried < kept).then_some(Cautious { row: self.main, places })
    }

    /// Whether the answers are likelier with so many workers that they hardly waited.
    pub(super) fn hardly_waited(&mut self, now: f64, kinds: &Kinds) -> bool {
        self.collect(now, kinds);
        if self.count < HARDLY_ANSWERS {
            return false;
        }
        let parallel = self.likelihood(usize::MAX, Order::Arrival);
        let (mut hardly, mut waited) = (parallel, f64::NEG_INFINITY);
        for busy in candidates(self.most_in_flight()) {
            for order in [Order::Arrival, Order::Any] {
                let likelihood = self.likelihood(busy, order);
                let likeliest =
                    if self.hurry(busy, order) < HARDLY { &mut hardly } else { &mut waited };
                *likeliest = likeliest.max(likelihood);
            }
        }
        hardly - waited > HARDLY_SURE
    }

    /// How many times as long as their service the answers took before so many workers.
    fn hurry(&self, busy: usize, order: Order) -> f64 {
        let (mut took, mut services) = (0.0, 0.0);
        for point in self.points.iter().filter(|point| point.weight > 0.0) {
            let service = match order {
                Order::Arrival => self.service(point, busy).unwrap_or(0.0),
                Order::Any => point.took() / point.shared_by(busy),
            };
            took += point.weight * point.took();
            services += point.weight * service;
        }
        took / services.max(f64::MIN_POSITIVE)
    }

    /// The row of the kind that most of the work is of.
    pub(super) fn main(&self) -> usize {
        self.main
    }

    /// The rows of the kinds that were looked at.
    pub(super) fn rows(&self) -> Vec<usize> {
        let mut rows: Vec<_> = self.points.iter().map(|point| point.row).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// What the kind in `row` takes unhurried before so many workers, and of how many answers.
    pub(super) fn unhurried(&self, row: usize, busy: f64) -> Option<(f64, f64)> {
        let of_kind = self.points.iter().filter(|point| point.row == row);
        let services = of_kind.filter_map(|point| self.service(point, busy.round() as usize));
        let (count, sum) = services.fold((0.0, 0.0), |(n, sum), service| (n + 1.0, sum + service));
        (count > 0.0).then(|| (sum / count, count))
    }

    fn most_in_flight(&self) -> usize {
        self.points.iter().map(|point| point.in_flight).max().unwrap_or(0)
    }

    /// Looks at all that is remembered.
    fn collect(&mut self, now: f64, kinds: &Kinds) {
        self.points.clear();
        self.ends.clear();
        (self.answered, self.in_flight) = (0.0, 0.0);
        self.work.clear();
        self.work.resize(kinds.iter().count(), 0.0);
        for (sent_before, start) in self.starts.iter().enumerate() {
            let (end, state) = match start.state {
                State::Answered(took) => (start.at + took, start.state),
                State::Gone(took) => (start.at + took, start.state),
                State::InFlight => (now, start.state),
            };
            match state {
                State::Answered(took) => self.answered += took,
                State::InFlight => self.in_flight += now - start.at,
                State::Gone(_) => {}
            }
            if state != State::InFlight {
                self.ends.push(end);
            }
            if let State::Gone(_) = state {
                continue;
            }
            let Some(unhurried) = kinds.row(start.row).service.unhurried() else { continue };
            let answered = state != State::InFlight;
            self.points.push(Point {
                row: start.row,
                weight: unhurried,
                sent: start.at,
                end,
                in_flight: start.in_flight,
                answered,
                unhurried,
                sent_before,
                before: 0,
            });
        }
        self.ends.sort_unstable_by(f64::total_cmp);
        for point in &mut self.points {
            point.before = self.ends.partition_point(|end| *end <= point.sent);
        }
        self.points.retain(Point::is_complete);
        for point in self.points.iter().filter(|point| point.answered) {
            self.work[point.row] += point.unhurried;
        }
        let rows = 0..kinds.iter().count();
        self.main = rows.max_by(|a, b| self.work[*a].total_cmp(&self.work[*b])).unwrap_or(0);
        let main = kinds.row(self.main).service.unhurried().unwrap_or(0.0);
        for point in &mut self.points {
            // Short work that waits for long work says little of its own.
            if point.weight < MAIN * main || !point.answered {
                point.weight = 0.0;
            }
        }
        let weights: f64 = self.points.iter().map(|point| point.weight).sum();
        let squares: f64 = self.points.iter().map(|point| point.weight * point.weight).sum();
        // As many answers of equal work would tell as much; together they weigh so much.
        self.count = weights * weights / squares.max(f64::MIN_POSITIVE);
        let scale = self.count / weights.max(f64::MIN_POSITIVE);
        for point in &mut self.points {
            point.weight *= scale;
        }
    }

    /// When the service of a request began before so many workers, first come first served.
    fn began(&self, point: &Point, busy: usize) -> Option<f64> {
        match point.in_flight.saturating_sub(busy) {
            0 => Some(point.sent),
            ahead => self.ends.get(point.before + ahead - 1).copied(),
        }
    }

    /// How long it took then; `None` if it was answered before.
    fn service(&self, point: &Point, busy: usize) -> Option<f64> {
        let service = point.end - self.began(point, busy)?;
        (point.answered && service > 0.0).then_some(service)
    }

    /// The exponent with which responses grow with the number in flight that they found.
    fn slope(&self) -> f64 {
        let mean = |of: &dyn Fn(&Point) -> f64| {
            self.points.iter().map(|point| point.weight * of(point)).sum::<f64>() / self.count
        };
        let found = |point: &Point| (point.in_flight as f64).ln();
        let took = |point: &Point| point.took().ln();
        let (mean_found, mean_took) = (mean(&found), mean(&took));
        let square = mean(&|point| (found(point) - mean_found).powi(2));
        let product = mean(&|point| (found(point) - mean_found) * (took(point) - mean_took));
        if square > 0.0 { product / square } else { 0.0 }
    }

    /// How likely the answers are if so many are worked at (its logarithm).
    fn likelihood(&mut self, busy: usize, order: Order) -> f64 {
        let mut fit = std::mem::take(&mut self.fit);
        fit.clear();
        let mut units = 0.0;
        for point in self.points.iter().filter(|point| point.weight > 0.0) {
            let took = point.took();
            match order {
                Order::Arrival => match self.service(point, busy) {
                    Some(service) => {
                        fit.add(point.row, point.weight, service.max(LEAST * point.unhurried));
                    }
                    None => units += point.weight * (took.max(point.unhurried).ln() + OVERTAKEN),
                },
                Order::Any => {
                    let shared = point.shared_by(busy);
                    fit.add(point.row, point.weight, took / shared);
                    units += point.weight * shared.ln();
                }
            }
        }
        let likelihood = fit.likelihood() - units;
        self.fit = fit;
        likelihood
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{ClassId, Classes, Target, Timestamp};

    use super::*;

    /// What is read from two requests a second before so many workers of 1 s each.
    fn read(workers: usize, requests: usize) -> Option<Busy> {
        let sent = (0..requests).map(|request| 0.5 * request as f64);
        read_at(0.5 * requests as f64, workers, sent, false)
    }

    /// What is read at `now` from requests sent at these times before so many workers of 1 s each.
    fn read_at(
        now: f64,
        workers: usize,
        sent: impl Iterator<Item = f64>,
        exhausted: bool,
    ) -> Option<Busy> {
        let (mut curve, kinds) = seen(now, workers, sent);
        curve.busy(now, exhausted, &kinds)
    }

    fn seen(now: f64, workers: usize, sent: impl Iterator<Item = f64>) -> (Curve, Kinds) {
        let classes = Classes::single(Target::p90(Duration::from_secs(3)).unwrap());
        let mut kinds = Kinds::new(&classes);
        let row = kinds.arrive(Timestamp::ZERO, ClassId::DEFAULT, 0);
        kinds.row_mut(row).service.measured(1.0, 1.0, true);
        let mut curve = Curve::new();
        let mut ends: Vec<f64> = Vec::new();
        let sent: Vec<f64> = sent.collect();
        for (request, at) in sent.iter().enumerate() {
            let free = request.checked_sub(workers).map_or(*at, |before| ends[before].max(*at));
            ends.push(free + 1.0);
            let in_flight = ends.iter().filter(|end| **end > *at).count();
            curve.on_start(*at, *at, row, in_flight as u32);
        }
        for (at, end) in sent.iter().zip(&ends).filter(|(_, end)| **end <= now) {
            curve.on_answer(Some(*at), *at, row, end - at);
        }
        (curve, kinds)
    }

    #[test]
    fn streams_in_flight_are_forgotten_when_they_are_known_to_be_streams() {
        let (mut curve, mut kinds) = seen(8.0, 1, (0..16).map(|request| 0.5 * request as f64));
        let streams = kinds.arrive(Timestamp::ZERO, ClassId::DEFAULT, 7);
        kinds.row_mut(streams).service.measured(1.0, 1.0, true);
        for _ in 0..64 {
            curve.on_start(7.9, 7.9, streams, 80);
        }
        let busy = |curve: &mut Curve| curve.busy(8.5, false, &kinds).map(|busy| busy.likely);
        assert_eq!(busy(&mut curve), None);
        curve.forget_row(8.0, streams);
        assert_eq!(busy(&mut curve), Some(1.0));
    }

    #[test]
    fn a_single_worker_is_read_from_eight_answers() {
        assert_eq!(read(1, 16).map(|busy| busy.likely), Some(1.0));
    }

    #[test]
    fn nothing_is_read_where_nobody_waits() {
        for requests in [8, 16, 64, 200] {
            assert!(read(100, requests).is_none(), "{requests} requests");
        }
    }

    /// Of requests at once to an upstream that has room the first takes as long as all the others.
    #[test]
    fn nothing_is_read_from_equal_responses_though_places_run_out() {
        let sent = (0..16).map(|request| 0.025 * f64::from(request));
        assert!(read_at(1.5, 100, sent, true).is_none());
    }

    /// What is read of requests that were all sent at 0, which came and ended at these times.
    fn read_of_sent_at_once(came: &[f64], ends: &[f64]) -> Option<Busy> {
        let (mut curve, kinds) = seen(0.0, 1, std::iter::empty());
        for (request, entered) in came.iter().enumerate() {
            curve.on_start(*entered, 0.0, 0, request as u32 + 1);
        }
        let mut order: Vec<_> = came.iter().zip(ends).collect();
        order.sort_by(|(_, end), (_, other)| end.total_cmp(other));
        order.iter().for_each(|(entered, end)| curve.on_answer(Some(**entered), 0.0, 0, **end));
        curve.busy(20.0, true, &kinds)
    }

    #[test]
    fn requests_that_are_sent_at_once_are_told_apart_by_when_they_came() {
        let came: Vec<_> = (0..16).map(|request| f64::from(request) - 16.0).collect();
        // Before two workers of 1 s.
        let ends: Vec<_> = (0..16).map(|request| 1.0 + f64::from(request / 2)).collect();
        assert_eq!(read_of_sent_at_once(&came, &ends).map(|busy| busy.likely), Some(2.0));
    }

    #[test]
    fn what_comes_at_once_does_not_look_like_a_queue_though_its_answers_have_an_order() {
        for many in [5, 16, 48] {
            let came = vec![0.0; many];
            let ends: Vec<_> = (0..many).map(|k| 0.3 + 1.4 * k as f64 / many as f64).collect();
            assert!(read_of_sent_at_once(&came, &ends).is_none(), "{many} at once");
        }
    }

    #[test]
    fn it_shows_whether_answers_waited() {
        for workers in [1, 8, 100] {
            let sent = (0..64).map(|request| f64::from(request) / 16.0);
            let (mut curve, kinds) = seen(20.0, workers, sent);
            assert_eq!(curve.hardly_waited(20.0, &kinds), workers == 100, "{workers} workers");
        }
    }

    #[test]
    fn nothing_is_read_once_those_that_a_request_waited_for_are_forgotten() {
        // So many at once, and one more for each that ends, before eight workers.
        let mut readings = 0;
        for many in [320, 400] {
            for seconds in 2..64 {
                let now = f64::from(seconds);
                let first = (0..many).map(|request| f64::from(request) / 1000.0);
                let more = (0..8 * seconds)
                    .map(|end| 1.0 + f64::from(end / 8) + f64::from(end % 8) / 1000.0);
                let busy = read_at(now, 8, first.chain(more).filter(|at| *at <= now), true);
                readings += usize::from(busy.is_some());
                // As many workers too many may be read as requests are forgotten.
                let most = 8.0 + FORGOTTEN * f64::from(many);
                let is_right = busy.is_none_or(|busy| (7.0..=most).contains(&busy.likely));
                assert!(is_right, "{busy:?} after {seconds} s with {many} in flight");
            }
        }
        assert!(readings > 0);
    }
}
