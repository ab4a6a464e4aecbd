//! The part of a report that tells classes of users and types of request apart.

use std::time::Duration;

use serde::Serialize;

use super::{Percentiles, Summary};
use crate::plan::Plan;
use crate::recorder::{GroupTally, PhaseTally};
use crate::tally::Tally;

/// What became of the requests of one type, of one class, or of one type of one class.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupSummary {
    /// Which class of users; all of them if absent.
    pub class: Option<String>,
    /// Which type of request; all of them if absent.
    pub request_type: Option<String>,
    /// Answers within this latency are good ones. Absent where types with targets of their own
    /// are taken together, or where all answers are good.
    pub target_seconds: Option<f64>,
    /// What became of them.
    #[serde(flatten)]
    pub summary: Summary,
}

/// What one class of users saw in an interval of the time series.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ClassInterval {
    /// Which class.
    pub class: String,
    /// Requests started in it.
    pub offered: u64,
    /// Requests completed in it.
    pub completed: u64,
    /// Requests completed in it within their targets.
    pub good: u64,
    /// Requests rejected in it.
    pub rejected: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Latency of the requests completed in it.
    pub latency: Percentiles,
}

/// The types; then, if there are several classes, each of them, and the types of each.
pub(super) fn summaries(plan: &Plan, phase: &PhaseTally, time: Duration) -> Vec<GroupSummary> {
    let (classes, types) = (plan.groups().classes(), plan.groups().types());
    if phase.groups.is_empty() {
        return vec![];
    }
    let sum = |is_in: &dyn Fn(usize, usize) -> bool| {
        let mut sum = GroupTally::default();
        for (index, group) in phase.groups.iter().enumerate() {
            if is_in(index / types.len(), index % types.len()) {
                sum.add(group);
            }
        }
        sum
    };
    let summary = |class: Option<usize>, request_type: Option<usize>| {
        let tally = sum(&|in_class, of_type| {
            class.is_none_or(|class| class == in_class)
                && request_type.is_none_or(|request_type| request_type == of_type)
        });
        // The target is that of the type, whatever the class.
        let target = request_type.and_then(|request_type| plan.target_of(Some(request_type)));
        GroupSummary {
            class: class.map(|class| classes[class].clone()),
            request_type: request_type.map(|index| types[index].name.clone()),
            target_seconds: target.map(|target| target.as_secs_f64()),
            summary: Summary::new(&tally.tally, tally.flow, time),
        }
    };
    let each_type = |class| (0..types.len()).map(move |index| (class, Some(index)));
    let each_class = (0..classes.len()).filter(|_| classes.len() > 1);
    let of_class = |class| std::iter::once((Some(class), None)).chain(each_type(Some(class)));
    let rows = each_type(None).chain(each_class.flat_map(of_class));
    rows.map(|(class, request_type)| summary(class, request_type)).collect()
}

/// The classes of users in one interval.
pub(super) fn intervals(plan: &Plan, classes: &[Tally]) -> Vec<ClassInterval> {
    let interval = |(name, tally): (&String, &Tally)| ClassInterval {
        class: name.clone(),
        offered: tally.offered,
        completed: tally.completed,
        good: tally.good,
        rejected: tally.rejected,
        failed: tally.failed(),
        latency: Percentiles::of(&tally.latency),
    };
    plan.groups().classes().iter().zip(classes).map(interval).collect()
}
