//! The laws in the catalogue, by what they rule.

use tamarisk_laws::entries as laws;
use tamarisk_laws::named::{
    AdmissionEntry, BatchEntry, GlobalEntry, QualityEntry, TerminationEntry, WorkersEntry,
};
use tamarisk_laws_papers::entries as papers;
use tamarisk_laws_rivals::entries as rivals;

/// Every admission law that ships, the default first.
pub const ADMISSION: &[AdmissionEntry] = &[
    laws::PREDICT_GATE_TRIM,
    laws::WORK_LIMIT,
    laws::OPEN,
    laws::THRESHOLD,
    laws::PLAIN_QUEUE,
    laws::RATE_LIMIT,
    papers::RESPONSE_TIME,
    papers::RESPONSE_TIME_HALVING,
    papers::MULTICLASS,
    papers::P,
    papers::PI,
    papers::PD,
    papers::P_PRECOMPENSATED,
    papers::SELECTIVE_DROPPER,
    rivals::CODEL,
    rivals::SERVICE_CODEL,
    rivals::ADAPTIVE_LIFO,
    rivals::RED,
    rivals::VEGAS,
    rivals::GRADIENT2,
    rivals::MIN_RTT_GRADIENT,
    rivals::PI_SHEDDING,
    rivals::DAGOR,
    rivals::CPU_SHEDDING,
    rivals::BOUNCER,
];

/// The laws of [`ADMISSION`] that admit everything and drop from the queue: those that can
/// accompany another admission law.
pub const DROPPING: &[&str] = &["selective-dropper", "codel", "service-codel", "adaptive-lifo"];

/// Every workers law that ships.
pub const WORKERS: &[WorkersEntry] = &[
    laws::FIXED_WORKERS,
    papers::POOL_SIZING,
    laws::ELASTIC_POOL,
    papers::FAIR_P,
    papers::FAIR_PI,
    papers::FAIR_PD,
    papers::FAIR_PRECOMPENSATED,
    papers::FAIR_HEURISTIC,
    papers::FAIR_HYBRID,
];

/// Every batching law that ships.
pub const BATCHING: &[BatchEntry] = &[laws::FIXED_BATCH, papers::THROUGHPUT_BATCHING];

/// Every quality law that ships.
pub const QUALITY: &[QualityEntry] = &[laws::FULL_QUALITY, laws::DEGRADATION];

/// Every termination law that ships.
pub const TERMINATION: &[TerminationEntry] = &[laws::DEADLINE_ONLY, papers::TERMINATION_THRESHOLD];

/// Every global law that ships.
pub const GLOBAL: &[GlobalEntry] = &[papers::GLOBAL_CONTROLLER, papers::THROUGHPUT_SHARING];
