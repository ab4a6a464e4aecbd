//! Fair service by control theory: the thesis `Fair07`, ch. 4, as parts and as laws.
//!
//! **Intuition.** Instead of turning a knob and watching, measure what the stage does
//! with what it is given, make a model of it, and compute the gains that bring it
//! to its target in a time and with an overshoot that were asked for.
//!
//! # The parts, in reading order
//! - [`PercentileMapping`]: a promise about the percentile as a throughput or a
//!   population (eq. 2–5).
//! - [`Arx`]: the model of a stage; [`fit`] and [`OnLineFit`] find it (eq. 6–19).
//! - [`closed_loop`]: what is asked of a controller ([`Demands`]), and whether it does it.
//! - [`P`] with its pre-compensator, [`Pi`], [`Pd`]: gains by pole placement (eq. 20–54).
//!   Each says what is right and what is wrong in the printed derivation.
//! - [`StageShares`]: one target, shared over the stages of a graph (eq. 1).
//!
//! # The laws
//! - [`SelfTuning`]: the parts as one admission law, in four forms: `p`, `pi`, `pd` and
//!   `p-precompensated`.
//! - [`DepartureRate`]: the thesis's own actuator, the number of workers, in six forms:
//!   `fair-p`, `fair-pi`, `fair-pd`, `fair-precompensated`, `fair-heuristic`, `fair-hybrid`.
//! - [`SelectiveDropper`], which drops at dequeue.
//! - [`GlobalController`] and [`ThroughputSharing`], laws over a whole graph.

mod arx;
pub mod closed_loop;
mod departure_rate;
mod global;
mod least_squares;
mod percentile_mapping;
mod proportional;
mod proportional_derivative;
mod proportional_integral;
mod selective_dropper;
mod self_tuning;
mod throughput_sharing;
mod throughput_target;
mod tuned;

pub use arx::{Arx, InvalidArx};
pub use closed_loop::{
    Controller, Demands, Design, InfeasibleDesign, InvalidDemands, step_response,
};
pub(crate) use departure_rate::DepartureRateConstants;
pub use departure_rate::{DepartureControl, DepartureRate, InvalidDepartureRate};
pub(crate) use global::GlobalControllerConstants;
pub use global::{Bottleneck, EndlessCycle, Flows, GlobalController, InvalidFlows, StageShares};
pub use least_squares::{Fit, InvalidForgetting, OnLineFit, Unidentifiable, fit};
pub use percentile_mapping::{Load, PercentileMapping, ResponseSample};
pub use proportional::P;
pub use proportional_derivative::Pd;
pub use proportional_integral::Pi;
pub use selective_dropper::SelectiveDropper;
pub(crate) use selective_dropper::SelectiveDropperConstants;
pub(crate) use self_tuning::SelfTuningConstants;
pub use self_tuning::{Form, InvalidSelfTuning, SelfTuning, SelfTuningBuilder};
pub use throughput_sharing::ThroughputSharing;
pub(crate) use throughput_sharing::ThroughputSharingConstants;
