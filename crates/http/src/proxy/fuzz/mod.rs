//! The properties that look into the proxy.

pub mod answer;
pub mod forwarded;
