//! What a run amounted to: the columns of the table.

use tamarisk_control::{ClassId, Classes};

use super::{Outcome, Record};

/// Sums over the requests that ended within a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Requests that came in it.
    pub offered: f64,
    /// Answers, a second.
    pub completed: f64,
    /// Answers within their target, a second.
    pub goodput: f64,
    /// The work in those answers, in workers kept busy.
    pub good_work: f64,
    /// The work in answers that came too late, in workers kept busy.
    pub late_work: f64,
    /// The 90th percentile of response time ÷ target over all answers.
    pub p90: f64,
    /// Rejected ÷ offered.
    pub rejected: f64,
    /// Dropped from the queue ÷ offered.
    pub dropped: f64,
    /// Terminated ÷ offered.
    pub terminated: f64,
}

impl Summary {
    /// The share of those offered that were rejected or dropped.
    pub fn turned_away(&self) -> f64 {
        self.rejected + self.dropped
    }
}

/// Sums up what ended in `[from, to)` seconds, of one class or of all.
pub fn summarise(
    records: &[Record],
    classes: &Classes,
    only: Option<ClassId>,
    from: f64,
    to: f64,
) -> Summary {
    let span = from..to;
    let of_class = |record: &&Record| only.is_none_or(|class| class == record.class);
    let offered =
        records.iter().filter(of_class).filter(|record| span.contains(&record.arrived)).count()
            as f64;
    let (mut good, mut good_work, mut late_work) = (0.0, 0.0, 0.0);
    let (mut rejected, mut dropped, mut terminated) = (0.0, 0.0, 0.0);
    let mut ratios = Vec::new();
    for record in records.iter().filter(of_class).filter(|record| span.contains(&record.ended)) {
        match record.outcome {
            Outcome::Completed => {
                let target = classes.at(record.class).target.response_time().as_secs_f64();
                let ratio = record.response() / target;
                ratios.push(ratio);
                if ratio <= 1.0 {
                    good += 1.0;
                    good_work += record.work;
                } else {
                    late_work += record.work;
                }
            }
            Outcome::Rejected(_) => rejected += 1.0,
            Outcome::Dropped => dropped += 1.0,
            Outcome::Terminated => terminated += 1.0,
            Outcome::Inside => {}
        }
    }
    Summary {
        offered,
        completed: ratios.len() as f64 / (to - from),
        goodput: good / (to - from),
        good_work: good_work / (to - from),
        late_work: late_work / (to - from),
        p90: quantile(&mut ratios, 0.9),
        rejected: rejected / offered.max(1.0),
        dropped: dropped / offered.max(1.0),
        terminated: terminated / offered.max(1.0),
    }
}

/// Seconds from `step` until the stage has settled: from then until `to` at
/// least 95 % of the half-seconds have answers, with a p90 within the target.
/// Infinite if it never does.
pub fn settling_time(records: &[Record], classes: &Classes, step: f64, to: f64) -> f64 {
    const WINDOW: f64 = 0.5;
    let count = ((to - step) / WINDOW) as usize;
    let good: Vec<bool> = (0..count)
        .map(|index| {
            let from = step + index as f64 * WINDOW;
            let window = summarise(records, classes, None, from, from + WINDOW);
            window.goodput > 0.0 && window.p90 <= 1.0
        })
        .collect();
    (0..count)
        .find(|&from| {
            let rest = &good[from..];
            rest[0] && rest.iter().filter(|&&good| good).count() * 20 >= rest.len() * 19
        })
        .map_or(f64::INFINITY, |index| index as f64 * WINDOW)
}

/// The nearest-rank quantile; zero of nothing.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}
