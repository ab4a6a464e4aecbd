//! Places that are kept free of long work, for short work that it would make late.
//!
//! An upstream serves what it gets first come, first served. A request of 5 ms with a target of
//! 100 ms that finds all workers at reports of 400 ms is late, however short the queue. As in
//! loss networks (trunk reservation), the long kind gets fewer places than there are, until
//! the short one is in time; and one more now and then, to see whether that is still needed.

use super::kinds::{Kind, Kinds};
use super::promises::Promises;
use super::window::Window;

/// Short work that takes more than this share of its promise has to have a place kept, …
const LATE: f64 = 0.35;
/// … if that is more than so many times its unhurried service.
const HURRIED: f64 = 1.3;
/// Below this share it is well in time.
const IN_TIME: f64 = 0.25;
/// Windows in time before the long kind gets a place back, at first and at most.
const CALM: u32 = 4;
const CALM_MAX: u32 = 64;
/// If it does not, the long kind gets so much of its places.
const FEWER: f64 = 0.8;
/// So many answers of the short kind say how it fares.
const ANSWERS_MIN: f64 = 12.0;

/// How many places a kind of long work may have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    places: Option<u32>,
    settled: f64,
    calm: u32,
    calm_needed: u32,
    trying: bool,
}

impl Share {
    /// How many places it is kept to, if that is fewer than there are otherwise.
    pub(super) fn kept_to(&self, limit: u32) -> Option<u32> {
        self.places.filter(|places| places + 1 < limit)
    }

    /// The most places, of so many that there are.
    pub(super) fn places(&self, limit: u32) -> u32 {
        self.places.map_or(limit, |places| places.min(limit.saturating_sub(1)).max(1))
    }
}

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

/// How the short kind fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fares {
    InTime,
    Between,
    Late,
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

impl Share {
    fn settle(&mut self, now: f64, service: f64, limit: u32, running: u32, fares: Fares) {
        match (fares, self.places) {
            (Fares::Late, None) => {
                self.places = Some(running.min(limit.saturating_sub(1)).max(1));
                self.calm_needed = CALM;
                (self.settled, self.calm) = (now + service, 0);
            }
            (Fares::Late, Some(places)) => {
                let places = places.min(limit.saturating_sub(1));
                let fewer = (FEWER * f64::from(places)) as u32;
                self.places = Some(fewer.min(places.saturating_sub(1)).max(1));
                if std::mem::take(&mut self.trying) {
                    self.calm_needed = (2 * self.calm_needed).min(CALM_MAX);
                }
                (self.settled, self.calm) = (now + service, 0);
            }
            (Fares::InTime, Some(places)) if running >= places => {
                self.calm += 1;
                if self.calm >= self.calm_needed {
                    self.places = (places < limit).then_some(places + 1);
                    self.trying = true;
                    (self.settled, self.calm) = (now + service, 0);
                }
            }
            (Fares::InTime, _) => self.trying = false,
            (Fares::Between, _) => {}
        }
    }
}
