//! Admission control against early termination: [SERT06 figs 2, 5 and 9–18].

#![allow(dead_code, reason = "shared by a test and an example")]

use std::time::Duration;

use tamarisk_catalogue::ByName;
use tamarisk_catalogue::papers::TerminationThreshold;
use tamarisk_control::{
    Activity, Backlog, ClassId, Classes, Concurrency, Leeway, Target, TerminationLaw, Timestamp,
};
use tamarisk_laws::Laws;
use tamarisk_model::scenario::File;
use tamarisk_model::sim::{Distribution, Load, Profile, Step};
use tamarisk_plot::Unit;

use super::chart::{Chart, Curve, Curves};
use super::course::{Course, Part, read, run_with, with_laws};

/// Percent of the capacity that are offered [SERT06 figs 11 to 18].
pub(crate) const LOADS: [f64; 8] = [60.0, 80.0, 100.0, 120.0, 140.0, 160.0, 180.0, 200.0];

/// One of the two services of [SERT06 table 2].
#[derive(Clone, Copy)]
pub(crate) struct Service {
    file: &'static str,
    /// The file's rate: admission control alone loses one in twenty at it, as the paper measures a
    /// capacity [SERT06 §5.1].
    capacity: f64,
    lower: f64,
    upper: f64,
    /// Fixed thresholds that the paper compares with.
    fixed: [f64; 3],
}

pub(crate) const RANKING: Service =
    Service { file: "ranking", capacity: 21.3, lower: 0.5, upper: 15.0, fixed: [0.5, 3.0, 15.0] };
pub(crate) const INDEX: Service =
    Service { file: "index", capacity: 82.0, lower: 1.5, upper: 8.0, fixed: [1.5, 3.0, 15.0] };

/// How overdue requests are treated.
#[derive(Clone, Copy)]
pub(crate) enum Policy {
    /// Admission control alone.
    Admission,
    /// Between the service's bounds, with the paper's watermarks.
    Adaptive,
    /// So many seconds, whatever is lost.
    Fixed(f64),
    /// Adaptive, with a low and a high watermark.
    Watermarks(f64, f64),
}

impl Service {
    fn laws(&self, policy: Policy) -> Laws {
        let laws = Laws::new().admission("threshold", &[("queued_count", 15.0)]);
        let laws = laws.expect("the law is in the catalogue");
        let (lower, upper, low, high) = match policy {
            Policy::Admission => return laws,
            Policy::Adaptive => (self.lower, self.upper, 0.05, 0.15),
            Policy::Fixed(limit) => (limit, limit, 0.05, 0.15),
            Policy::Watermarks(low, high) => (self.lower, self.upper, low, high),
        };
        // The target of both files is UB.
        let knobs = [
            ("lower_targets_ratio", lower / self.upper),
            ("upper_targets_ratio", upper / self.upper),
            ("low_watermark_ratio", low),
            ("high_watermark_ratio", high),
        ];
        laws.termination("termination-threshold", &knobs).expect("the law is in the catalogue")
    }

    /// What is lost in percent, and the mean response time, at `load` percent of the capacity.
    pub(crate) fn at(&self, load: f64, policy: Policy, seed: u64) -> (f64, f64) {
        let mut file = read(self.file);
        let rate = Profile::constant(self.capacity * load / 100.0);
        file.scenario.clients[0].load = Load::poisson(rate);
        let (warm_up, duration) = (file.scenario.warm_up, file.scenario.duration);
        let course = run_under(&file, &self.laws(policy), seed);
        let measured = course.between(warm_up.as_secs_f64(), (warm_up + duration).as_secs_f64());
        (100.0 * measured.lost(), measured.mean())
    }

    fn by_load(&self, name: impl Into<String>, policy: Policy) -> [Curve; 2] {
        let points: Vec<_> = LOADS.iter().map(|load| (*load, self.at(*load, policy, 1))).collect();
        let name = name.into();
        let curve = |of: fn((f64, f64)) -> f64| {
            let points = points.iter().map(|(load, at)| (*load, Some(of(*at))));
            Curve::new(name.clone(), points.collect())
        };
        [curve(|(lost, _)| lost), curve(|(_, mean)| mean)]
    }

    fn chart(
        &self,
        name: &'static str,
        title: &'static str,
        policies: &[(String, Policy)],
    ) -> Chart {
        let (lost, means) = policies
            .iter()
            .map(|(name, policy)| self.by_load(name.clone(), *policy).into())
            .unzip::<_, _, Vec<_>, Vec<_>>();
        Chart {
            name,
            title,
            x: "load in percent of the capacity",
            from: LOADS[0],
            to: LOADS[LOADS.len() - 1],
            panels: vec![
                Curves::new("Lost, in percent", Unit::Count, lost),
                Curves::new("Mean response time", Unit::Seconds, means),
            ],
        }
    }

    /// Admission control alone beside early termination [SERT06 figs 11 and 12, 13 and 14].
    pub(crate) fn beside_admission(&self) -> Chart {
        let (name, title) = match self.file {
            "ranking" => ("sert06-11", "Ranking: admission control and early termination"),
            _ => ("sert06-13", "Index matching: admission control and early termination"),
        };
        let policies = [("AC", Policy::Admission), ("SERT", Policy::Adaptive)];
        self.chart(name, title, &policies.map(|(name, policy)| (name.to_owned(), policy)))
    }

    /// Fixed thresholds beside the adaptive one [SERT06 figs 15 and 16].
    pub(crate) fn beside_fixed(&self) -> Chart {
        let (name, title) = match self.file {
            "ranking" => ("sert06-15", "Ranking: fixed and adaptive thresholds"),
            _ => ("sert06-16", "Index matching: fixed and adaptive thresholds"),
        };
        let fixed = self.fixed.map(|limit| (format!("{limit} s"), Policy::Fixed(limit)));
        let adaptive = [("adaptive".to_owned(), Policy::Adaptive)];
        self.chart(name, title, &[&fixed[..], &adaptive[..]].concat())
    }

    /// Other watermarks [SERT06 figs 17 and 18].
    pub(crate) fn watermarks(&self) -> Chart {
        let (name, title) = match self.file {
            "ranking" => ("sert06-17", "Ranking: watermarks of the throughput loss"),
            _ => ("sert06-18", "Index matching: watermarks of the throughput loss"),
        };
        let lows = [0.01, 0.03, 0.05, 0.07].map(|low| (low, 0.15));
        let highs = [0.10, 0.20, 0.25].map(|high| (0.05, high));
        let policies = [&lows[..], &highs[..]].concat().into_iter().map(|(low, high)| {
            let name = format!("LW {:.0} %, HW {:.0} %", 100.0 * low, 100.0 * high);
            (name, Policy::Watermarks(low, high))
        });
        self.chart(name, title, &policies.collect::<Vec<_>>())
    }
}

fn run_under(file: &File, laws: &Laws, seed: u64) -> Course {
    let stage = &file.scenario.stages[0].name;
    run_with(file, seed, |run| with_laws(run, stage, laws))
}

/// A few long requests halve the throughput of a server with admission control [SERT06 fig. 2].
pub(crate) fn long_requests() -> Chart {
    let shares = [0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let at = |percent: f64| {
        let mut file = read("spinning");
        let long = percent / 100.0;
        let constant = |millis| Distribution::Constant(Duration::from_millis(millis));
        let service = Distribution::Mixture(vec![(1.0 - long, constant(5)), (long, constant(500))]);
        file.scenario.stages[0].service = vec![Step::own(service)];
        let laws = file.laws[0].1.clone();
        run_under(&file, &laws, 1).between(20.0, 620.0)
    };
    let parts = shares.map(|share| (share, at(share)));
    let curve = |name: &str, of: fn(&Part) -> f64| {
        let points = parts.iter().map(|(share, part)| (*share, Some(of(part))));
        vec![Curve::new(name, points.collect())]
    };
    Chart {
        name: "sert06-2",
        title: "A share of requests that take a hundred times as long",
        x: "long requests in percent",
        from: 0.0,
        to: 10.0,
        panels: vec![
            Curves::new("Answers a second", Unit::Count, curve("AC", Part::throughput)),
            Curves::new("Mean response time", Unit::Seconds, curve("AC", Part::mean)),
        ],
    }
}

/// The threshold over the loss, for several α [SERT06 fig. 5].
pub(crate) fn threshold_function() -> Chart {
    let curve = |alpha: f64| {
        let points = (0..=40).map(|half| {
            let percent = f64::from(half) / 2.0;
            (percent, Some(threshold_at(percent / 100.0, alpha).as_secs_f64()))
        });
        Curve::new(format!("α = {alpha}"), points.collect())
    };
    Chart {
        name: "sert06-5",
        title: "The termination threshold over the throughput loss",
        x: "throughput loss in percent",
        from: 0.0,
        to: 20.0,
        panels: vec![Curves::new(
            "Threshold between LB = 0.5 s and UB = 15 s",
            Unit::Seconds,
            [0.0, 1.0, 4.0, 100.0].map(curve).into(),
        )],
    }
}

/// What the law allows a request to take after an interval in which the share `loss` was lost.
fn threshold_at(loss: f64, alpha: f64) -> Duration {
    let target = Target::p90(Duration::from_secs(15)).expect("15 s can be promised");
    let classes = Classes::single(target);
    let bounds = Duration::from_millis(500)..=Duration::from_secs(15);
    let law =
        TerminationThreshold::builder(&classes).bounds(ClassId::DEFAULT, bounds).scaling(alpha);
    let mut law = law.build().expect("the constants go together");
    let activity = |offered, lost| Activity {
        backlog: Backlog {
            queued: &[0],
            running: &[0],
            queued_total: 0,
            running_total: 0,
            workers: Concurrency::ONE,
        },
        offered,
        lost,
        completed: offered - lost,
        workers_idle: 0,
    };
    law.on_tick(Timestamp::ZERO, &activity(0, 0), Leeway::Either);
    let lost = (loss * 1e6).round() as u64;
    let interval = Timestamp::ZERO + Duration::from_secs(10);
    law.on_tick(interval, &activity(1_000_000, lost), Leeway::Either);
    law.limit(ClassId::DEFAULT).expect("the law has a limit")
}

/// A shift towards heavy requests, with and without termination.
pub(crate) struct Shift {
    pub(crate) admission: Course,
    pub(crate) sert: Course,
}

/// When the shift begins and ends, in seconds.
pub(crate) const SHIFT: (f64, f64) = (30.0, 155.0);

impl Shift {
    pub(crate) fn new(seed: u64) -> Self {
        let file = read("index-shift");
        let laws = file.laws[0].1.clone();
        let admission = Laws { termination: None, ..laws.clone() };
        Self { admission: run_under(&file, &admission, seed), sert: run_under(&file, &laws, seed) }
    }

    /// Both while the shift lasts: admission control alone, and with termination.
    pub(crate) fn during(&self) -> [Part; 2] {
        let (from, until) = SHIFT;
        [&self.admission, &self.sert].map(|course| course.between(from, until))
    }

    /// Throughput and response times over time [SERT06 fig. 9].
    pub(crate) fn over_time(&self) -> Chart {
        let curves = |of: fn(&Part) -> Option<f64>| {
            let named = [("AC", &self.admission), ("SERT", &self.sert)];
            named.map(|(name, course)| Curve::new(name, course.over_time(5.0, of))).into()
        };
        Chart {
            name: "sert06-9",
            title: "Index matching while a tenth of the requests is heavy, from 30 to 155 s",
            x: "seconds",
            from: 0.0,
            to: 200.0,
            panels: vec![
                Curves::new(
                    "Answers a second",
                    Unit::Count,
                    curves(|part| Some(part.throughput())),
                ),
                Curves::new("Mean response time", Unit::Seconds, curves(|part| Some(part.mean()))),
            ],
        }
    }

    /// The distribution of response times during the shift [SERT06 fig. 10].
    pub(crate) fn distribution(&self) -> Chart {
        let named = ["AC", "SERT"].into_iter().zip(self.during());
        let curves = named.map(|(name, part)| {
            let points = (0..=80).map(|tenth| {
                let seconds = f64::from(tenth) / 10.0;
                (seconds, Some(100.0 * part.within(seconds)))
            });
            Curve::new(name, points.collect())
        });
        Chart {
            name: "sert06-10",
            title: "Response times of index matching during the shift",
            x: "response time in seconds",
            from: 0.0,
            to: 8.0,
            panels: vec![Curves::new(
                "Answered within it, in percent",
                Unit::Count,
                curves.collect(),
            )],
        }
    }
}
