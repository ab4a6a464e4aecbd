//! The profiler: what every stage does over time, as a [log](ProfileLog), and which stage sends to
//! which, as a [graph](diagram) [Welsh02 §5.3.5].

mod graph;
mod log;
mod options;
mod rotating_file;
mod sample;

pub use graph::diagram;
pub use log::ProfileLog;
pub use options::{ProfileError, ProfileOptions};
