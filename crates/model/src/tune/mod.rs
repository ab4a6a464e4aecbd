//! Tuning: which constants of a law are best for a workload, by search in the simulator.
//!
//! **Intuition.** Try many, each for a short while; look longer at the better half; and climb
//! from the best. What a law is worth under one seed is noise and law together, so every
//! candidate meets the *same* seeds ([common random numbers](crate::sim)), and what is
//! found is judged on seeds that the search has never seen.
//!
//! **Mechanism.** Candidates spread evenly over the ranges of the constants (a Halton
//! sequence, shifted by the seed), together with the constants to begin with and the
//! published ones. Constants that do not go together (a least value above its greatest) are left out
//! and replaced by further points. *Successive halving* [Karnin13 §3]: all under one seed, the better half
//! under two, its better half under four, until all seeds are used. Then the downhill
//! simplex of [Nelder65 p. 308], with coefficients for the number of dimensions [Gao12 §4], from
//! the best, under all seeds. Neither needs derivatives, and both compare candidates only.
//!
//! **Limits.** A search finds what is good for the workload that it is shown. Constants
//! that make no difference there come out as they happen to. Nothing is better than its
//! evidence: look at the interval of the difference, not at the best value of the search.
//! A law that is given enough freedom becomes a constant: a greatest rate at the capacity and
//! an error that is never reached are the best rate limit for one capacity, and no law. So a
//! search keeps to the range in which a law [works](tamarisk_laws::Knob::searched),
//! and what it finds is judged at other capacities too.
//!
//! # Modules, in reading order
//! `objective`: what is wanted. `space`: what may be changed. `search`: how it is found;
//! `simplex`: its last part.

mod objective;
mod search;
mod simplex;
mod space;

pub use objective::{Goal, InvalidObjective, Measure, Objective};
pub use search::{Candidate, Found, Job, Plan, search};
pub use space::{Point, Space};
