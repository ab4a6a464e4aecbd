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
    let short: Vec<_> =
        kinds.iter().filter_map(|(row, kind)| Short::new(row, kind, window)).collect();
    for row in 0..kinds.iter().count() {
        // Who sends nothing is not late: the places come back one by one.
        let fares = fares_worst(row, kinds, &short, promises).unwrap_or(Fares::InTime);
        let kind = kinds.row_mut(row);
        let service = kind.service.unhurried().unwrap_or(0.0);
        if now >= kind.share.settled {
            kind.share.settle(now, service, limit, kind.running, fares);
        }
    }
}

/// A kind of which enough was seen to say how it fares.
struct Short {
    row: usize,
    unhurried: f64,
    /// How long its recent ones took, on average.
    mean: f64,
}

impl Short {
    fn new(row: usize, kind: &Kind, window: &Window) -> Option<Self> {
        let mean = window.of(row).mean(ANSWERS_MIN)?;
        Some(Self { row, unhurried: kind.service.unhurried()?, mean })
    }
}

/// How the kind fares that the one in `row` hurts most; `None` if none is seen that it can hurt.
fn fares_worst(row: usize, kinds: &Kinds, seen: &[Short], promises: &Promises) -> Option<Fares> {
    let long = kinds.row(row).service.unhurried()?;
    let priority = promises.priority(kinds.row(row));
    let suffers = |short: &Kind, unhurried: f64| {
        promises.priority(short) <= priority
            && promises.target(short) < 2.0 * long
            && long > 1.5 * unhurried
    };
    let fares = seen.iter().filter(|other| other.row != row).filter_map(|other| {
        let &Short { row, unhurried, mean } = other;
        let short = kinds.row(row);
        if !suffers(short, unhurried) {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{ClassId, Classes, Target, Timestamp};

    use super::super::window::History;
    use super::*;

    #[test]
    fn long_work_gets_its_places_back_when_the_short_work_has_left() {
        const LIMIT: u32 = 8;
        let classes = Classes::single(Target::p90(Duration::from_secs(2)).unwrap());
        let (mut kinds, promises) = (Kinds::new(&classes), Promises::new(&classes));
        let row = kinds.arrive(Timestamp::ZERO, ClassId::DEFAULT, 0);
        kinds.row_mut(row).service.measured(0.4, 1.0, true);
        kinds.row_mut(row).share.settle(0.0, 0.4, LIMIT, 0, Fares::Late);
        assert_eq!(kinds.row(row).share.places(LIMIT), 1);
        let window = History::new().spare();
        for second in 1..100 {
            let kind = kinds.row_mut(row);
            while kind.running < kind.share.places(LIMIT) {
                kind.start(f64::from(second));
            }
            adjust(f64::from(second), LIMIT, &mut kinds, &window, &promises);
        }
        assert_eq!(kinds.row(row).share.kept_to(LIMIT), None);
    }
}
