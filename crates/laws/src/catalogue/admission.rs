//! The admission laws.

use tamarisk_control::{AdmissionLaw, Classes, Concurrency, PerSecond, Ratio};

use super::{AdmissionEntry, Knob, knob};
use crate::fair::Form;
use crate::{
    AdaptiveLifo, Allowance, Bouncer, Codel, CpuShedding, Dagor, Gradient2, MinRttGradient,
    MovingDropper, OpaqueUpstream, Open, PiShedding, PredictGateTrim, RateLimit, Red, ResponseTime,
    SelectiveDropper, SelfTuning, ServiceCodel, Threshold, Vegas, WorkLimit,
};

type Made = Result<Box<dyn AdmissionLaw>, String>;

/// Every admission law that ships, the default first.
pub const ADMISSION: &[AdmissionEntry] = &[
    AdmissionEntry {
        name: "predict-gate-trim",
        summary: "the default: refuses what would be late, keeps no standing queue",
        knobs: &[
            knob(
                "negligible_wait_ratio",
                "a wait that counts as none, of the target",
                0.02,
                0.0,
                0.5,
            ),
            knob("standing_wait_ratio", "a wait that counts as a standing queue", 0.2, 0.02, 1.0),
            knob("shrinkage_count", "samples that a parent's estimate is worth", 5.0, 1.0, 100.0),
            knob(
                "reserve_rate_per_second",
                "of classes that are unknown or too slow",
                0.5,
                0.0,
                100.0,
            ),
        ],
        make: predict_gate_trim,
    },
    AdmissionEntry {
        name: "opaque-upstream",
        summary: "the default's form for an upstream whose workers cannot be seen",
        knobs: &[
            knob("limit_initial_count", "in flight while nothing is known", 32.0, 1.0, 32_768.0),
            knob("limit_max_count", "in flight at most", 32_768.0, 1.0, 1e6),
        ],
        make: opaque_upstream,
    },
    AdmissionEntry {
        name: "work-limit",
        summary: "the default before an upstream: limits the work in flight, by kind",
        knobs: &[
            knob("limit_initial_count", "in flight while nothing is known", 16.0, 1.0, 32_768.0),
            knob("limit_max_count", "in flight at most", 32_768.0, 1.0, 1e6),
        ],
        make: work_limit,
    },
    plain("open", "admits everything", |_, _| Ok(Box::new(Open))),
    AdmissionEntry {
        name: "threshold",
        summary: "drop-tail: a bound on the queue's length",
        knobs: &[knob("queued_count", "events in the queue at most", 100.0, 0.0, 1e6)],
        make: |_, values| Ok(Box::new(Threshold::new(values[0] as u32))),
    },
    AdmissionEntry {
        name: "rate-limit",
        summary: "a fixed rate for all events together",
        knobs: &[
            knob("rate_per_second", "events a second", 1000.0, 0.001, 1e9),
            knob("burst_count", "events at once", 100.0, 1.0, 1e6),
        ],
        make: rate_limit,
    },
    AdmissionEntry {
        name: "response-time",
        summary: "the papers' controller: a rate for each class, by its percentile [Welsh03]",
        knobs: PAPERS,
        make: |classes, values| build(papers(classes, values).build()),
    },
    AdmissionEntry {
        name: "multiclass",
        summary: "the papers' controller that refuses lower classes first [Welsh03]",
        knobs: PAPERS,
        make: |classes, values| {
            build(crate::MulticlassBuilder::new(papers(classes, values)).build())
        },
    },
    self_tuning("p", "a stage tuned by proportional control [Fair07]", |classes, values| {
        tuned(classes, Form::P, values)
    }),
    self_tuning("pi", "the same with an integral part [Fair07]", |classes, values| {
        tuned(classes, Form::Pi, values)
    }),
    self_tuning("pd", "the same with a derivative part [Fair07]", |classes, values| {
        tuned(classes, Form::Pd, values)
    }),
    self_tuning("p-precompensated", "proportional, on its target by the model [Fair07]", |c, v| {
        tuned(c, Form::PPrecompensated, v)
    }),
    AdmissionEntry {
        name: "selective-dropper",
        summary: "drops what has waited out its class's time [Fair07]",
        knobs: &[knob("wait_ratio", "the share of the target that may be waited", 0.8, 0.0, 1.0)],
        make: |classes, values| {
            let share = Ratio::saturating(values[0]);
            Ok(Box::new(SelectiveDropper::with_threshold(classes, share)))
        },
    },
    plain("moving-dropper", "the same, by departure rate and queue length", |classes, _| {
        Ok(Box::new(MovingDropper::new(classes)))
    }),
    plain("codel", "drops now and then while the least wait stays high [RFC8289]", |_, _| {
        Ok(Box::new(Codel::new()))
    }),
    plain("service-codel", "drops what waited too long while a queue stands", |_, _| {
        Ok(Box::new(ServiceCodel::new()))
    }),
    plain("adaptive-lifo", "the same, newest first", |_, _| Ok(Box::new(AdaptiveLifo::new()))),
    AdmissionEntry {
        name: "red",
        summary: "refuses a share that grows with the smoothed queue",
        knobs: &[
            knob("queue_min_count", "where refusals begin", 5.0, 0.0, 1e6),
            knob("queue_max_count", "where they are at their greatest share", 15.0, 1.0, 1e6),
            knob("weight_ratio", "of one length in the average", 0.002, 0.000_01, 1.0),
            knob("probability_max_ratio", "that greatest share", 0.02, 0.000_01, 1.0),
        ],
        make: red,
    },
    plain("vegas", "a limit in flight by best and present response time", |_, _| {
        Ok(Box::new(Vegas::new()))
    }),
    plain("gradient2", "a limit in flight by usual and present response time", |_, _| {
        Ok(Box::new(Gradient2::new()))
    }),
    plain("min-rtt-gradient", "a limit in flight by a measured least response time", |_, _| {
        Ok(Box::new(MinRttGradient::new()))
    }),
    plain("pi-shedding", "refuses the least important by a PI loop on the queue", |classes, _| {
        Ok(Box::new(PiShedding::new(classes)))
    }),
    plain("dagor", "refuses the least important while the mean wait is high", |classes, _| {
        Ok(Box::new(Dagor::new(classes)))
    }),
    plain("cpu-shedding", "a limit in flight while the CPU is busy", |_, _| {
        Ok(Box::new(CpuShedding::new()))
    }),
    plain("bouncer", "refuses what is predicted to be late, without feedback", |classes, _| {
        Ok(Box::new(Bouncer::new(classes)))
    }),
];

/// The laws of [`ADMISSION`] that let everybody in and drop from the queue: those that
/// another admission law can be given for company.
pub const DROPPING: &[&str] =
    &["selective-dropper", "moving-dropper", "codel", "service-codel", "adaptive-lifo"];

/// A law without constants that one should change.
const fn plain(
    name: &'static str,
    summary: &'static str,
    make: super::Make<dyn AdmissionLaw>,
) -> AdmissionEntry {
    AdmissionEntry { name, summary, knobs: &[], make }
}

const fn self_tuning(
    name: &'static str,
    summary: &'static str,
    make: super::Make<dyn AdmissionLaw>,
) -> AdmissionEntry {
    const KNOBS: &[Knob] = &[
        knob("aim_ratio", "the share of the target to aim at", 0.8, 0.05, 1.0),
        knob("forgetting_ratio", "λ of the identification", 0.98, 0.8, 1.0),
    ];
    AdmissionEntry { name, summary, knobs: KNOBS, make }
}

/// Symbols of [Welsh03 fig. 4].
const PAPERS: &[Knob] = &[
    knob("requests_count", "nreq: completions between two runs", 100.0, 1.0, 10_000.0),
    knob("filter_ratio", "alpha: the weight of the past", 0.7, 0.0, 0.99),
    knob("error_increase_ratio", "err_i: the rate rises below this error", -0.5, -1.0, 0.0),
    knob("error_decrease_ratio", "err_d: the rate falls above it", 0.0, 0.0, 10.0),
    knob("increase_per_second", "adj_i: what is added, for each unit of error", 2.0, 0.01, 1000.0),
    knob("decrease_ratio", "adj_d: what the rate is divided by", 1.2, 1.001, 100.0),
    knob("increase_weight_ratio", "c_i: the error at which nothing is added", -0.1, -1.0, 0.0),
    knob("rate_min_per_second", "the least rate", 0.05, 0.001, 1e6),
    knob("rate_max_per_second", "the greatest rate, and the first", 5000.0, 0.01, 1e9),
];

fn build<L: AdmissionLaw + 'static, E: ToString>(law: Result<L, E>) -> Made {
    law.map(|law| Box::new(law) as _).map_err(|error| error.to_string())
}

fn rate(value: f64) -> Result<PerSecond, String> {
    PerSecond::new(value).map_err(|error| error.to_string())
}

fn predict_gate_trim(classes: &Classes, values: &[f64]) -> Made {
    let law = PredictGateTrim::builder(classes)
        .negligible_wait(Ratio::saturating(values[0]))
        .standing_wait(Ratio::saturating(values[1]))
        .shrinkage(values[2] as u32)
        .reserve_rate(rate(values[3])?);
    build(law.build())
}

fn opaque_upstream(classes: &Classes, values: &[f64]) -> Made {
    let law = OpaqueUpstream::builder(classes)
        .limit_initial(Concurrency::new(values[0] as u32))
        .limit_max(Concurrency::new(values[1] as u32));
    build(law.build())
}

fn work_limit(classes: &Classes, values: &[f64]) -> Made {
    let law = WorkLimit::builder(classes)
        .limit_initial(Concurrency::new(values[0] as u32))
        .limit_max(Concurrency::new(values[1] as u32));
    build(law.build())
}

fn rate_limit(_: &Classes, values: &[f64]) -> Made {
    build(RateLimit::total(Allowance { rate: rate(values[0])?, burst: values[1] as u32 }))
}

fn papers<'a>(classes: &'a Classes, values: &[f64]) -> crate::ResponseTimeBuilder<'a> {
    // The ranges of the knobs are within those of a rate.
    let rate = |value| PerSecond::new(value).unwrap_or(PerSecond::ZERO);
    ResponseTime::builder(classes)
        .requests(values[0] as u32)
        .filter(Ratio::saturating(values[1]))
        .error_increase(values[2])
        .error_decrease(values[3])
        .increase(values[4])
        .decrease(values[5])
        .increase_weight(values[6])
        .rate_min(rate(values[7]))
        .rate_max(rate(values[8]))
}

fn tuned(classes: &Classes, form: Form, values: &[f64]) -> Made {
    let law = SelfTuning::builder(classes, form)
        .aim(Ratio::saturating(values[0]))
        .forgetting(Ratio::saturating(values[1]));
    build(law.build())
}

fn red(_: &Classes, values: &[f64]) -> Made {
    let law = Red::builder()
        .queue(values[0] as u32, values[1] as u32)
        .weight(Ratio::saturating(values[2]))
        .probability_max(Ratio::saturating(values[3]));
    build(law.build())
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::time::Duration;

    use tamarisk_control::Target;

    use super::*;
    use crate::RedBuilder;

    /// A constant's default stands in the law and in the list: they are the same.
    #[test]
    fn the_listed_defaults_are_those_of_the_laws() {
        let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
        let listed = |name: &str| crate::catalogue::admission(name).unwrap().named().values;
        let alike = |one: &dyn Debug, other: &dyn Debug| {
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        };
        let values = listed("predict-gate-trim");
        let law = PredictGateTrim::builder(&classes)
            .negligible_wait(Ratio::saturating(values[0]))
            .standing_wait(Ratio::saturating(values[1]))
            .shrinkage(values[2] as u32)
            .reserve_rate(PerSecond::new(values[3]).unwrap());
        alike(&law, &PredictGateTrim::builder(&classes));
        let values = listed("opaque-upstream");
        let law = OpaqueUpstream::builder(&classes)
            .limit_initial(Concurrency::new(values[0] as u32))
            .limit_max(Concurrency::new(values[1] as u32));
        alike(&law, &OpaqueUpstream::builder(&classes));
        let values = listed("work-limit");
        let law = WorkLimit::builder(&classes)
            .limit_initial(Concurrency::new(values[0] as u32))
            .limit_max(Concurrency::new(values[1] as u32));
        alike(&law, &WorkLimit::builder(&classes));
        alike(&papers(&classes, &listed("response-time")), &ResponseTime::builder(&classes));
        let values = listed("pi");
        let law = SelfTuning::builder(&classes, Form::Pi)
            .aim(Ratio::saturating(values[0]))
            .forgetting(Ratio::saturating(values[1]));
        alike(&law, &SelfTuning::builder(&classes, Form::Pi));
        let values = listed("red");
        let law: RedBuilder = Red::builder()
            .queue(values[0] as u32, values[1] as u32)
            .weight(Ratio::saturating(values[2]))
            .probability_max(Ratio::saturating(values[3]));
        alike(&law, &Red::builder());
    }
}
