//! What goes on, for people and programs: the [status port](status) with its page, its JSON and
//! its metrics for Prometheus, the [access log](access_log), the [profiler](profile), [panics], and
//! when a log tells of an [incident].
//!
//! What this crate does not do: it changes nothing that it shows, but for the targets of gates,
//! for holders of the token.

#[cfg(feature = "server")]
pub mod access_log;
pub mod date;
pub mod incident;
pub mod panics;
mod process;
pub mod profile;
mod promise;
mod request_id;
pub mod status;

pub use request_id::{RequestId, RequestIds};
