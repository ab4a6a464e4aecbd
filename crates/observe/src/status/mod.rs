//! What every stage is doing, on a port of its own: a page for people, JSON for
//! programs, text for Prometheus.
//!
//! | path | content |
//! | --- | --- |
//! | `/` | a page that refreshes itself |
//! | `/status` | JSON |
//! | `/history` | the last ten minutes of each stage as JSON, a sample a second |
//! | `/graph.svg`, `/graph.dot` | the stages and what crosses between them, drawn or for Graphviz |
//! | `/profile` | the log of the profiler as JSON: where it is, and whether it is on; PUT switches it |
//! | `/rejections` | the last hundred rejections as JSON |
//! | `/metrics` | Prometheus text |
//! | `/targets` | the targets as JSON; PUT and PATCH change them |
//! | `/health` | `ok`, or 503 while draining |
//!
//! A change needs the [`Token`] of the board, as
//! `Authorization: Bearer TOKEN`; a board without one changes nothing.

mod board;
mod change;
mod history;
mod host;
mod json;
mod port;
mod prometheus;
mod rejections;
mod response;
#[cfg(feature = "server")]
mod served;
mod targets;
mod token;
mod verdict;

pub use board::Board;
#[cfg(feature = "server")]
pub use port::serve;
pub use port::{CONNECTIONS_MAX, StatusPort};
pub use rejections::{Rejection, Rejections};
pub use token::{InvalidToken, Token, TokenSource};
