//! The admission laws in the catalogue.

use super::{AdmissionEntry, entry};
use crate::fair::{Form, SelectiveDropperConstants, SelfTuningConstants};
use crate::plain_queue::PlainQueueConstants;
use crate::practice::{
    DagorConstants, Gradient2Constants, MinRttGradientConstants, QueueDelayConstants, RedConstants,
    VegasConstants,
};
use crate::predict_gate_trim::PredictGateTrimConstants;
use crate::rate_limit::RateLimitConstants;
use crate::response_time::{HalvingConstants, ResponseTimeConstants};
use crate::threshold::ThresholdConstants;
use crate::work_limit::WorkLimitConstants;
use crate::{
    AdaptiveLifo, Allowance, Bouncer, Codel, CpuShedding, Dagor, Gradient2, MinRttGradient,
    MulticlassBuilder, Open, PiShedding, PlainQueue, PredictGateTrim, QueueDelay, RateLimit, Red,
    ResponseTime, SelectiveDropper, SelfTuning, ServiceCodel, Threshold, Vegas, WorkLimit,
};

/// Every admission law that ships, the default first.
pub const ADMISSION: &[AdmissionEntry] = &[
    entry!(
        "predict-gate-trim",
        "the default of stages: rejects what would be late, keeps no standing queue",
        |classes, its: PredictGateTrimConstants| {
            PredictGateTrim::builder(classes).constants(its).build()?
        }
    ),
    entry!(
        "work-limit",
        "the default of protect and proxied routes: limits the work in flight, by kind",
        |classes, its: WorkLimitConstants| WorkLimit::builder(classes).constants(its).build()?
    ),
    entry!("open", "admits everything", |_| Open),
    entry!(
        "threshold",
        "drop-tail: a bound on the queue's length",
        |_, its: ThresholdConstants| Threshold::new(its.queued_count)
    ),
    entry!(
        "plain-queue",
        "a bound on the queue by the target and the mean service, and late ones are dropped",
        |classes, its: PlainQueueConstants| PlainQueue::with(classes, its.wait_ratio)
    ),
    entry!("rate-limit", "a fixed rate for all events together", |_, its: RateLimitConstants| {
        RateLimit::total(Allowance { rate: its.rate_per_second, burst: its.burst_count })?
    }),
    entry!(
        "response-time",
        "the papers' controller: a rate for each class, by its percentile [Welsh03]",
        |classes, its: ResponseTimeConstants| {
            ResponseTime::builder(classes).constants(its).build()?
        }
    ),
    entry!(
        "response-time-halving",
        "the same, halved a tenth above its target, as in the position paper [Welsh01]",
        |classes, its: HalvingConstants| {
            ResponseTime::builder(classes).halving_constants(&its).build()?
        }
    ),
    entry!(
        "multiclass",
        "the papers' controller that rejects lower classes first [Welsh03]",
        |classes, its: ResponseTimeConstants| {
            MulticlassBuilder::new(ResponseTime::builder(classes).constants(its)).build()?
        }
    ),
    entry!(
        "p",
        "a stage tuned by proportional control [Fair07]",
        |classes, its: SelfTuningConstants| {
            SelfTuning::builder(classes, Form::P).constants(its).build()?
        }
    ),
    entry!("pi", "the same with an integral part [Fair07]", |classes, its: SelfTuningConstants| {
        SelfTuning::builder(classes, Form::Pi).constants(its).build()?
    }),
    entry!(
        "pd",
        "the same with a derivative part [Fair07]",
        |classes, its: SelfTuningConstants| {
            SelfTuning::builder(classes, Form::Pd).constants(its).build()?
        }
    ),
    entry!(
        "p-precompensated",
        "proportional, on its target by the model [Fair07]",
        |classes, its: SelfTuningConstants| {
            SelfTuning::builder(classes, Form::PPrecompensated).constants(its).build()?
        }
    ),
    entry!(
        "selective-dropper",
        "drops what has waited out its class's time [Fair07]",
        |classes, its: SelectiveDropperConstants| {
            SelectiveDropper::with_threshold(classes, its.wait_ratio)
        }
    ),
    entry!(
        "codel",
        "drops now and then while the least wait stays high [RFC8289]",
        |_, its: QueueDelayConstants| Codel::with(QueueDelay::of(&its)?)
    ),
    entry!(
        "service-codel",
        "drops what waited too long while a queue stands",
        |_, its: QueueDelayConstants| ServiceCodel::with(QueueDelay::of(&its)?)
    ),
    entry!("adaptive-lifo", "the same, newest first", |_, its: QueueDelayConstants| {
        AdaptiveLifo::with(QueueDelay::of(&its)?)
    }),
    entry!("red", "rejects a share that grows with the smoothed queue", |_, its: RedConstants| {
        Red::builder().constants(its).build()?
    }),
    entry!(
        "vegas",
        "a limit in flight by best and present response time",
        |_, its: VegasConstants| Vegas::of(&its)?
    ),
    entry!(
        "gradient2",
        "a limit in flight by usual and present response time",
        |_, its: Gradient2Constants| Gradient2::of(&its)?
    ),
    entry!(
        "min-rtt-gradient",
        "a limit in flight by a measured least response time",
        |_, its: MinRttGradientConstants| MinRttGradient::of(&its)?
    ),
    entry!("pi-shedding", "rejects the least important by a PI loop on the queue", |classes| {
        PiShedding::new(classes)
    }),
    entry!(
        "dagor",
        "rejects the least important while the mean wait is high",
        |classes, its: DagorConstants| Dagor::with(classes, its.wait_max_seconds, 0)
    ),
    entry!("cpu-shedding", "a limit in flight while the CPU is busy", |_| CpuShedding::new()),
    entry!("bouncer", "rejects what is predicted to be late, without feedback", |classes| {
        Bouncer::new(classes)
    }),
];

/// The laws of [`ADMISSION`] that admit everything and drop from the queue: those that can
/// accompany another admission law.
pub const DROPPING: &[&str] = &["selective-dropper", "codel", "service-codel", "adaptive-lifo"];
