//! The queue before a stage: the ways in, the order of service, what waits too long.

mod deadlines;
mod disciplines;
mod partitions;
mod reserve;
mod sinks;
