//! What became of each request, and sums over those of a window of time.

use tamarisk_control::{ClassId, Classes, Timestamp};
use tamarisk_laws::Knobs;
use tamarisk_model::sim::{Outcome, Seen, Watch, What};

/// One request; times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) class: ClassId,
    pub(crate) flow: u32,
    pub(crate) arrived: f64,
    pub(crate) ended: f64,
    /// `None` if it was still inside when the run ended.
    pub(crate) outcome: Option<Outcome>,
}

impl Record {
    pub(crate) fn response(&self) -> f64 {
        self.ended - self.arrived
    }
}

/// Writes down every request, and what slow laws set.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) of_requests: Vec<Record>,
    /// From which second on.
    pub(crate) knobs: Vec<(f64, Knobs)>,
}

impl Watch for Records {
    fn see(&mut self, seen: &Seen) {
        let at = seconds(seen.at);
        match seen.what {
            What::Offered => self.of_requests.push(Record {
                class: seen.class,
                flow: seen.flow,
                arrived: at,
                ended: at,
                outcome: None,
            }),
            What::Left(outcome) => {
                let record = &mut self.of_requests[seen.number as usize - 1];
                (record.ended, record.outcome) = (at, Some(outcome));
            }
            _ => {}
        }
    }

    fn set(&mut self, at: Timestamp, _: u32, knobs: &Knobs) {
        self.knobs.push((seconds(at), *knobs));
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::ZERO).as_secs_f64()
}

/// Sums over the requests that ended within a window of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Requests that came in it.
    pub(crate) offered: f64,
    /// Answers, a second.
    pub(crate) completed: f64,
    /// Answers within their target, a second.
    pub(crate) goodput: f64,
    /// The 90th percentile of response time ÷ target over all answers.
    pub(crate) p90: f64,
    /// Rejected ÷ offered.
    pub(crate) rejected: f64,
    /// Dropped from the queue ÷ offered.
    pub(crate) dropped: f64,
    /// Terminated ÷ offered.
    pub(crate) terminated: f64,
}

impl Summary {
    /// The share of those offered that were rejected or dropped.
    pub(crate) fn turned_away(&self) -> f64 {
        self.rejected + self.dropped
    }
}

/// Sums up what ended in `[from, to)` seconds, of one class or of all.
pub(crate) fn summarise(
    records: &[Record],
    classes: &Classes,
    only: Option<ClassId>,
    (from, to): (f64, f64),
) -> Summary {
    let span = from..to;
    let of_class = |record: &&Record| only.is_none_or(|class| class == record.class);
    let records = || records.iter().filter(of_class);
    let offered = records().filter(|record| span.contains(&record.arrived)).count() as f64;
    let (mut good, mut rejected, mut dropped, mut terminated) = (0.0, 0.0, 0.0, 0.0);
    let mut ratios = Vec::new();
    for record in records().filter(|record| span.contains(&record.ended)) {
        match record.outcome {
            Some(Outcome::Completed) => {
                let target = classes.at(record.class).target.response_time().as_secs_f64();
                let ratio = record.response() / target;
                ratios.push(ratio);
                good += f64::from(u8::from(ratio <= 1.0));
            }
            Some(Outcome::Rejected(_)) => rejected += 1.0,
            Some(Outcome::Dropped) => dropped += 1.0,
            Some(Outcome::Terminated) => terminated += 1.0,
            Some(Outcome::Failed) | None => {}
        }
    }
    Summary {
        offered,
        completed: ratios.len() as f64 / (to - from),
        goodput: good / (to - from),
        p90: quantile(&mut ratios, 0.9),
        rejected: rejected / offered.max(1.0),
        dropped: dropped / offered.max(1.0),
        terminated: terminated / offered.max(1.0),
    }
}

/// Seconds from the beginning of a window until the stage has settled: from then until its end
/// at least 95 % of the half-seconds have answers, with a p90 within the target. Infinite if it
/// never does.
pub(crate) fn settling_time(records: &[Record], classes: &Classes, (step, to): (f64, f64)) -> f64 {
    const WINDOW: f64 = 0.5;
    let count = ((to - step) / WINDOW) as usize;
    let good: Vec<bool> = (0..count)
        .map(|index| {
            let from = step + index as f64 * WINDOW;
            let window = summarise(records, classes, None, (from, from + WINDOW));
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
