//! Capacity planning: workers, arrival rates and targets by the queueing model.
//!
//! - How many workers hold a target at a rate? [`least_workers`], [`least_workers_of`]
//! - What rate is bearable within a target? [`greatest_rate`], [`greatest_arrivals`]
//! - Where is the bottleneck? [`Network::limit`]
//! - What does it cost to split a stage? [`Network::effect`] of a
//!   [`Pattern`](crate::network::Pattern)
//!
//! More workers never make a response slower and more arrivals never faster, so
//! that halving finds the edge. The exception is a penalty for threads: there
//! numbers of workers are tried one after the other.

use tamarisk_control::{Concurrency, PerSecond, Ratio, Target};
use tamarisk_plot::format;

use crate::network::{InvalidNetwork, Network, Overloaded};
use crate::queueing::{InvalidService, MultiServer, PhaseType, ResponseTime, rate};
use crate::seconds::Seconds;

/// Where each thread costs something, no more than this are tried at a stage.
pub const THREADS_TRIED_MAX: u32 = 1_024;

/// Rates of a network are found to this share of what it can bear.
const RATE_TOLERANCE: f64 = 1e-9;

/// Why a target cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreachable {
    /// The service is none.
    #[error(transparent)]
    Service(#[from] InvalidService),
    /// The stage is none of the network's.
    #[error(transparent)]
    Network(#[from] InvalidNetwork),
    /// Even events that hardly ever wait are too slow.
    #[error(
        "no number of workers reaches {target:#}: without any queue {} % stay within it",
        format::rate((1000.0 * within.get()).floor() / 10.0)
    )]
    TooSlow {
        /// The share of events that would stay within it.
        within: Ratio,
        /// The target.
        target: Target,
    },
    /// More workers than can be counted.
    #[error("{0} need more workers than there can be")]
    TooMany(PerSecond),
    /// A stage is overloaded however the question is turned.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
}

/// The least workers with which M/M/m answers within `target`, if each serves
/// `service` and `arrivals` come.
///
/// # Errors
/// [`Unreachable`] if no number is enough.
pub fn least_workers(
    arrivals: PerSecond,
    service: PerSecond,
    target: Target,
) -> Result<Concurrency, Unreachable> {
    never_waiting(service, target)?;
    let busy = arrivals.get() / service.get();
    if busy >= f64::from(u32::MAX) {
        return Err(Unreachable::TooMany(arrivals));
    }
    let meets = |workers| {
        let stage = MultiServer::new(service, Concurrency::new(workers));
        stage.is_ok_and(|stage| stage.at(arrivals).is_ok_and(|e| keeps(&e.response, target)))
    };
    least(busy as u32, meets).map(Concurrency::new).ok_or(Unreachable::TooMany(arrivals))
}

/// The greatest rate at which M/M/m with `workers` that each serve `service`
/// answers within `target`.
///
/// # Errors
/// [`Unreachable`] if none is low enough.
pub fn greatest_rate(
    service: PerSecond,
    workers: Concurrency,
    target: Target,
) -> Result<PerSecond, Unreachable> {
    never_waiting(service, target)?;
    let stage = MultiServer::new(service, workers)?;
    let meets = |rate| stage.at(rate).is_ok_and(|e| keeps(&e.response, target));
    Ok(greatest(stage.capacity(), 0.0, meets))
}

/// The least workers at `stage` with which `network` answers within `target`, end
/// to end, if all else stays.
///
/// # Errors
/// [`Unreachable`] if no number is enough.
pub fn least_workers_of(
    network: &Network,
    stage: &str,
    target: Target,
) -> Result<Concurrency, Unreachable> {
    let try_with = |workers| -> Result<Ratio, Unreachable> {
        let solution = network.with_workers(stage, Concurrency::new(workers))?.solve()?;
        Ok(solution.response.within(Seconds::from(target.response_time())))
    };
    let meets = |workers| try_with(workers).is_ok_and(|within| within >= target.at());
    if network.has_penalty() {
        if let Some(workers) = (1..=THREADS_TRIED_MAX).find(|&workers| meets(workers)) {
            return Ok(Concurrency::new(workers));
        }
        let tried = (1..=THREADS_TRIED_MAX).filter_map(|workers| try_with(workers).ok());
        let best = tried.max_by(|a, b| a.get().total_cmp(&b.get()));
        let within = best.map_or_else(|| try_with(THREADS_TRIED_MAX), Ok)?;
        return Err(Unreachable::TooSlow { within, target });
    }
    let within = try_with(u32::MAX)?;
    if within < target.at() {
        return Err(Unreachable::TooSlow { within, target });
    }
    least(0, meets).map(Concurrency::new).ok_or_else(|| Unreachable::TooMany(network.arrivals()))
}

/// The greatest rate from outside, spread as it is now, at which `network` answers
/// within `target`, end to end.
///
/// # Errors
/// [`Unreachable`] if none is low enough.
pub fn greatest_arrivals(network: &Network, target: Target) -> Result<PerSecond, Unreachable> {
    let limit = network.limit().arrivals;
    let within = |rate: PerSecond| -> Result<Ratio, Unreachable> {
        let solution = network.with_arrivals(rate)?.solve()?;
        Ok(solution.response.within(Seconds::from(target.response_time())))
    };
    let hardly_any = rate(limit.get() * RATE_TOLERANCE);
    if limit == PerSecond::ZERO {
        network.solve()?;
    }
    let alone = within(hardly_any)?;
    if alone < target.at() {
        return Err(Unreachable::TooSlow { within: alone, target });
    }
    let meets = |rate| within(rate).is_ok_and(|share| share >= target.at());
    Ok(greatest(limit, RATE_TOLERANCE, meets))
}

fn keeps(response: &ResponseTime, target: Target) -> bool {
    response.exceeds(Seconds::from(target.response_time())).get() <= 1.0 - target.at().get()
}

/// That the target can be kept by events that never wait.
fn never_waiting(service: PerSecond, target: Target) -> Result<(), Unreachable> {
    let late = PhaseType::exponential(service)?.exceeds(Seconds::from(target.response_time()));
    // Some wait always, so that a tie is lost.
    if late.get() < 1.0 - target.at().get() {
        return Ok(());
    }
    Err(Unreachable::TooSlow { within: Ratio::saturating(1.0 - late.get()), target })
}

/// The least number above `too_few` that `meets`, which all greater ones do too.
fn least(too_few: u32, meets: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut step) = (too_few, 1);
    let mut high = loop {
        let next = low.saturating_add(step);
        if meets(next) {
            break next;
        }
        if next == u32::MAX {
            return None;
        }
        low = next;
        step = step.saturating_mul(2);
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if meets(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// The greatest rate below `limit` that `meets`, as all lower ones do, to a share
/// of `tolerance` of the limit or to the last digit.
fn greatest(limit: PerSecond, tolerance: f64, meets: impl Fn(PerSecond) -> bool) -> PerSecond {
    let (mut low, mut high) = (PerSecond::ZERO, limit);
    while high.get() - low.get() > tolerance * limit.get() {
        let middle = rate(low.get() + (high.get() - low.get()) / 2.0);
        if middle <= low || middle >= high {
            break;
        }
        if meets(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
