//! Comparison of simulated runs, as text and JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use tamarisk_control::{Class, Percentile, Ratio, Target};
use tamarisk_model::sim::{ClassReport, Estimate, Report, StageReport};
use tamarisk_plot::format;

use super::knob::{self, KNOBS};
use super::runs::{Arrangement, Results, Runs};
use crate::columns::aligned;

/// Confidence level of the intervals, as a ratio.
const CONFIDENCE: f64 = 0.95;

#[derive(Serialize)]
pub(super) struct Comparison {
    scenario: String,
    warm_up_seconds: f64,
    measured_seconds: f64,
    seeds: Vec<u64>,
    confidence: f64,
    /// The greatest stable rate of arrivals, where there is a closed form.
    capacity_per_second: Option<f64>,
    laws: Vec<LawRow>,
    /// Whether a law ends running events anywhere.
    #[serde(skip)]
    terminates: bool,
    /// Which of [`KNOBS`] a law sets anywhere.
    #[serde(skip)]
    ruled: [bool; KNOBS.len()],
}

#[derive(Serialize)]
struct LawRow {
    name: String,
    classes: Vec<ClassSummary>,
    stages: Vec<StageSummary>,
}

/// Rates are per second; shares rejected, dropped and terminated are of what was offered.
#[derive(Serialize)]
struct ClassSummary {
    name: String,
    target_seconds: f64,
    at: f64,
    offered: Measure,
    goodput: Measure,
    response_mean_seconds: Measure,
    response_at_seconds: Measure,
    share_of_time_over_target: Measure,
    share_rejected: Measure,
    share_dropped: Measure,
    share_terminated: Measure,
    /// Of the pages, where clients send several requests at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_pages_in_time: Option<Measure>,
}

/// Running, queued and what slow laws set are means over time.
#[derive(Serialize)]
struct StageSummary {
    name: String,
    law: &'static str,
    /// By what they rule.
    slow_laws: BTreeMap<&'static str, &'static str>,
    /// As the stage is built.
    workers: u32,
    running: Measure,
    queued: Measure,
    /// Those of [`KNOBS`] that a law sets.
    set: BTreeMap<&'static str, Measure>,
    /// Where a global law stands over all stages.
    share: Option<ShareSummary>,
}

/// What fell to a stage in the end, on average over the runs.
#[derive(Serialize)]
struct ShareSummary {
    /// How often a request visits it.
    visits: f64,
    /// What it has to do when the whole does as much as it can.
    throughput_per_second: f64,
    /// What it promises each class.
    target_seconds: Vec<f64>,
}

/// A mean, and half of its confidence interval if there is one.
#[derive(Serialize)]
struct Measure {
    mean: f64,
    half_width: Option<f64>,
}

impl Measure {
    /// The mean of one value from each run.
    fn across<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Self {
        let values: Vec<_> = runs.iter().map(value).collect();
        match Estimate::of(&values, CONFIDENCE) {
            Some(estimate) => estimate.into(),
            None => Self { mean: values[0], half_width: None },
        }
    }

    /// The same; of a single run, from its batches.
    fn or_batches<T>(
        runs: &[T],
        value: impl Fn(&T) -> f64,
        batches: impl Fn(&T) -> Option<Estimate>,
    ) -> Self {
        match runs {
            [only] => batches(only).map_or_else(|| Self::across(runs, value), Self::from),
            _ => Self::across(runs, value),
        }
    }

    fn shown(&self, number: fn(f64) -> String) -> String {
        match self.half_width {
            Some(half_width) => format!("{} ± {}", number(self.mean), number(half_width)),
            None => number(self.mean),
        }
    }
}

impl From<Estimate> for Measure {
    fn from(estimate: Estimate) -> Self {
        Self { mean: estimate.mean, half_width: Some(estimate.half_width) }
    }
}

impl Comparison {
    pub(super) fn new(
        scenario: String,
        runs: &Runs,
        results: &[Results],
        capacity_per_second: Option<f64>,
    ) -> Self {
        let laws = runs.arrangements.iter().zip(results).map(|(arrangement, result)| LawRow {
            name: arrangement.name.clone(),
            classes: classes(runs, &result.reports),
            stages: stages(runs, arrangement, &result.reports),
        });
        Self {
            scenario,
            warm_up_seconds: runs.scenario.warm_up.as_secs_f64(),
            measured_seconds: runs.scenario.duration.as_secs_f64(),
            seeds: runs.seeds.clone(),
            confidence: CONFIDENCE,
            capacity_per_second,
            laws: laws.collect(),
            terminates: knob::terminates(runs),
            ruled: KNOBS.each_ref().map(|knob| !knob.stages(runs).is_empty()),
        }
    }

    pub(super) fn title(&self) -> String {
        let measured = format::seconds(self.measured_seconds);
        let mut title = format!("{} · {measured} measured", self.scenario);
        if self.warm_up_seconds > 0.0 {
            title += &format!(" after {}", format::seconds(self.warm_up_seconds));
        }
        match &self.seeds[..] {
            [seed] => title += &format!(" · seed {seed}"),
            [first, .., last] => title += &format!(" · seeds {first} to {last}"),
            [] => {}
        }
        if let Some(capacity) = self.capacity_per_second {
            title += &format!(" · capacity {}/s", format::rate(capacity));
        }
        title
    }

    pub(super) fn text(&self) -> String {
        let mut lines = vec![self.title(), String::new()];
        lines.extend(aligned(&self.class_rows()));
        lines.push(String::new());
        if self.has_nothing_to_compare() {
            lines.push(
                "No law acted: no request was rejected, dropped or terminated, and all laws come to \
                 the same. Raise the load to compare them."
                    .to_owned(),
            );
            lines.push(String::new());
        }
        lines.extend(aligned(&self.stage_rows()));
        lines.push(String::new());
        let percent = self.confidence * 100.0;
        let from = "across seeds, or by the batches of a single run";
        lines.push(format!("± is half of a {percent:.0} % confidence interval: {from}."));
        lines.join("\n") + "\n"
    }

    /// Whether there are several laws and no difference between them.
    fn has_nothing_to_compare(&self) -> bool {
        let [first, others @ ..] = &self.laws[..] else { return false };
        let has_acted = |class: &ClassSummary| {
            let ClassSummary { share_rejected, share_dropped, share_terminated, .. } = class;
            [share_rejected, share_dropped, share_terminated].iter().any(|share| share.mean > 0.0)
        };
        let is_alike = |(class, other): (&ClassSummary, &ClassSummary)| {
            let came_to = |class: &ClassSummary| {
                (
                    class.goodput.mean,
                    class.response_mean_seconds.mean,
                    class.response_at_seconds.mean,
                )
            };
            !has_acted(class) && came_to(class) == came_to(other)
        };
        let all_alike = |law: &LawRow| law.classes.iter().zip(&first.classes).all(is_alike);
        !others.is_empty() && self.laws.iter().all(all_alike)
    }

    fn class_rows(&self) -> Vec<Vec<String>> {
        let mut head = vec!["law", "class", "offered/s", "in time/s"];
        head.extend(self.capacity_per_second.map(|_| "of capacity"));
        head.extend(["at percentile", "÷ target", "time over", "rejected", "dropped"]);
        head.extend(self.terminates.then_some("terminated"));
        let classes = || self.laws.iter().flat_map(|law| &law.classes);
        let has_pages = classes().any(|class| class.share_of_pages_in_time.is_some());
        head.extend(has_pages.then_some("whole pages"));
        let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        for law in &self.laws {
            for class in &law.classes {
                let mut row = vec![
                    law.name.clone(),
                    class.name.clone(),
                    format::rate(class.offered.mean),
                    class.goodput.shown(format::rate),
                ];
                row.extend(self.capacity_per_second.map(|c| percent(class.goodput.mean / c)));
                let response = &class.response_at_seconds;
                let at = Percentile(Ratio::saturating(class.at));
                row.push(format!("{at} {}", response.shown(format::seconds)));
                row.push(format!("{:.2}", response.mean / class.target_seconds));
                row.push(percent(class.share_of_time_over_target.mean));
                row.push(percent(class.share_rejected.mean));
                row.push(percent(class.share_dropped.mean));
                row.extend(self.terminates.then(|| percent(class.share_terminated.mean)));
                let pages = class.share_of_pages_in_time.as_ref();
                let pages = || pages.map_or_else(String::new, |pages| percent(pages.mean));
                row.extend(has_pages.then(pages));
                rows.push(row);
            }
        }
        rows
    }

    fn stage_rows(&self) -> Vec<Vec<String>> {
        let mut head = vec!["law", "stage", "its law", "workers", "busy", "queued"];
        // Workers have a column already.
        let more = || KNOBS.iter().zip(self.ruled).skip(1).filter(|(_, ruled)| *ruled);
        head.extend(more().map(|(knob, _)| knob.name));
        let is_shared =
            self.laws.iter().any(|law| law.stages.iter().any(|stage| stage.share.is_some()));
        if is_shared {
            head.extend(["visits", "asked of it/s", "promises"]);
        }
        let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        for law in &self.laws {
            for stage in &law.stages {
                let built = Measure { mean: f64::from(stage.workers), half_width: None };
                let workers = stage.set.get("workers").unwrap_or(&built);
                let mut row = vec![
                    law.name.clone(),
                    stage.name.clone(),
                    stage.law.to_owned(),
                    workers.shown(format::rate),
                    percent(stage.running.mean / workers.mean),
                    stage.queued.shown(format::rate),
                ];
                row.extend(more().map(|(knob, _)| {
                    stage.set.get(knob.name).map_or(String::new(), |set| set.shown(format::rate))
                }));
                if is_shared {
                    let nothing = || vec!["–".to_owned(); 3];
                    row.extend(stage.share.as_ref().map_or_else(nothing, ShareSummary::shown));
                }
                rows.push(row);
            }
        }
        rows
    }
}

impl ShareSummary {
    fn shown(&self) -> Vec<String> {
        let targets: Vec<_> =
            self.target_seconds.iter().map(|&target| format::seconds(target)).collect();
        vec![
            format!("{:.2}", self.visits),
            format::rate(self.throughput_per_second),
            targets.join(", "),
        ]
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn classes(runs: &Runs, reports: &[Report]) -> Vec<ClassSummary> {
    let seconds = runs.scenario.duration.as_secs_f64();
    let all = runs.scenario.classes.iter().enumerate();
    all.map(|(index, (_, class))| {
        let of_class: Vec<_> = reports.iter().map(|report| &report.classes[index]).collect();
        class_summary(class, &of_class, seconds)
    })
    .collect()
}

fn class_summary(class: &Class, runs: &[&ClassReport], seconds: f64) -> ClassSummary {
    let at = class.target.at().get();
    let share = |count: u64, run: &ClassReport| count as f64 / (run.counts.offered as f64).max(1.0);
    ClassSummary {
        name: class.name.clone(),
        target_seconds: class.target.response_time().as_secs_f64(),
        at,
        offered: Measure::across(runs, |run| run.counts.offered as f64 / seconds),
        goodput: Measure::or_batches(
            runs,
            |run| run.goodput(),
            |run| run.goodput_estimate(CONFIDENCE),
        ),
        response_mean_seconds: Measure::or_batches(
            runs,
            |run| run.response.mean(),
            |run| run.response.estimate(CONFIDENCE),
        ),
        response_at_seconds: Measure::across(runs, |run| run.response.quantile(at)),
        share_of_time_over_target: Measure::across(runs, |run| run.seconds_over as f64 / seconds),
        share_rejected: Measure::across(runs, |run| share(run.counts.rejected, run)),
        share_dropped: Measure::across(runs, |run| share(run.counts.dropped, run)),
        share_terminated: Measure::across(runs, |run| share(run.counts.terminated, run)),
        share_of_pages_in_time: runs
            .iter()
            .any(|run| run.pages.ended > 0)
            .then(|| Measure::across(runs, |run| run.pages.in_time_share())),
    }
}

/// What fell to a stage in those runs in which anything came there.
fn share(stage: usize, reports: &[Report]) -> Option<ShareSummary> {
    let shares = reports.iter().filter_map(|report| {
        let stage = &report.global.as_ref()?.stages[stage];
        Some((stage.share?, &stage.targets))
    });
    let shares: Vec<_> = shares.collect();
    let (_, targets) = shares.first()?;
    let count = shares.len() as f64;
    let target = |class: usize| {
        let seconds = |targets: &[Target]| targets[class].response_time().as_secs_f64();
        shares.iter().map(|(_, targets)| seconds(targets)).sum::<f64>() / count
    };
    Some(ShareSummary {
        visits: shares.iter().map(|(share, _)| share.visits).sum::<f64>() / count,
        throughput_per_second: shares.iter().map(|(share, _)| share.throughput.get()).sum::<f64>()
            / count,
        target_seconds: (0..targets.len()).map(target).collect(),
    })
}

fn stages(runs: &Runs, arrangement: &Arrangement, reports: &[Report]) -> Vec<StageSummary> {
    let all = runs.scenario.stages.iter().enumerate();
    all.map(|(index, stage)| {
        let of = |value: fn(&StageReport) -> f64| {
            Measure::across(reports, |report| value(&report.stages[index]))
        };
        let ruled = KNOBS.iter().filter(|knob| knob.is_ruled(arrangement, &stage.name));
        StageSummary {
            name: stage.name.clone(),
            law: reports[0].stages[index].law,
            slow_laws: reports[0].stages[index].slow_laws.iter().copied().collect(),
            workers: stage.workers,
            running: of(|stage| stage.running),
            queued: of(|stage| stage.queued),
            set: ruled.map(|knob| (knob.name, of(knob.mean))).collect(),
            share: share(index, reports),
        }
    })
    .collect()
}
