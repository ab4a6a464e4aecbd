//! A tower layer that puts any HTTP service (of axum, tonic, hyper) behind a gate.
//!
//! What this crate does not do: it accepts no connections, forwards nothing and reads no
//! configuration. [`StageLayer`] is all there is to use.

mod layer;

pub use layer::{StageBody, StageLayer, StageService};
