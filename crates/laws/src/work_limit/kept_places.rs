//! Places reserved for short work, which long work would delay.
//!
//! An upstream serves what it gets first come, first served. A request of 5 ms with a target of
//! 100 ms that finds all workers at reports of 400 ms is late, however short the queue. As in
//! loss networks (trunk reservation), the long kind gets fewer places than there are, until
//! the short one is in time; and one more now and then, to see whether that is still needed.

use super::kinds::{Kind, Kinds};
use super::place_share::Fares;
use super::promises::Promises;
use super::window::Window;

/// Short work that takes more than this share of its promise has to have a place kept, …
const LATE: f64 = 0.35;
/// … if that is more than so many times its unhurried service.
const HURRIED: f64 = 1.3;
/// Below this share it is well in time.
const IN_TIME: f64 = 0.25;
/// So many answers of the short kind say how it fares.
const ANSWERS_MIN: f64 = 12.0;

/// Gives and takes places after a window, the limit being as it is.
pub(super) fn adjust(
    now: f64,
    limit: u32,
    kinds: &mut Kinds,
    window: &Window,
    promises: &Promises,
) {
    for row in 0..kinds.iter().count() {
        let Some(fares) = fares_worst(row, kinds, window, promises) else { continue };
        let kind = kinds.row_mut(row);
        let service = kind.service.unhurried().unwrap_or(0.0);
        if now >= kind.share.settled {
            kind.share.settle(now, service, limit, kind.running, fares);
        }
    }
}

/// How the kind fares that the one in `row` hurts most; `None` if it can hurt none.
fn fares_worst(row: usize, kinds: &Kinds, window: &Window, promises: &Promises) -> Option<Fares> {
    let long = kinds.row(row).service.unhurried()?;
    let priority = promises.priority(kinds.row(row));
    let suffers = |short: &Kind, unhurried: f64| {
        promises.priority(short) <= priority
            && promises.target(short) < 2.0 * long
            && long > 1.5 * unhurried
    };
    let fares = kinds.iter().filter(|(other, _)| *other != row).filter_map(|(other, short)| {
        let unhurried = short.service.unhurried()?;
        let answers = window.answers[other];
        let mean = answers.mean(ANSWERS_MIN).filter(|_| suffers(short, unhurried))?;
        let target = promises.target(short);
        let share = (mean + short.waited) / target;
        // What it takes may never have been seen without the long work.
        let hurried = mean + short.waited > HURRIED * unhurried || unhurried > target / 2.0;
        Some(if share > LATE && hurried {
            Fares::Late
        } else if share < IN_TIME {
            Fares::InTime
        } else {
            Fares::Between
        })
    });
    fares.max()
}
