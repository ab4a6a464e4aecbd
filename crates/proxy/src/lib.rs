//! The proxy: every request through a gate, then to its upstream.
//!
//! A place in the gate stands for the upstream's work. So a request's body is read before the
//! request asks for its place, unless it is configured to stream; and the answer is read until
//! it counts as ready, whether the client takes it or not. A client that leaves does not take
//! its place with it: that is free when the upstream has answered, or closed its connection.
//!
//! One [`Proxy`] serves one core: its connections to the upstreams are its own. The
//! gates are shared by all cores.

mod abandoned;
mod answer;
mod blocking;
mod budget;
pub mod classify;
mod error;
mod exchange_error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod hop_by_hop;
mod instance;
mod overflow;
mod passage;
mod peer;
mod proxy;
mod request;
mod request_buffering;
mod upstream;

pub use answer::proxy_body::ProxyBody;
pub use budget::held::Held;
pub use budget::unread::Answers;
pub use budget::{Bounds, Budget};
pub use exchange_error::ExchangeError;
pub use instance::Instance;
pub use peer::{Peer, Scheme};
pub use proxy::{Proxy, ProxyService, Site};
pub use request::host_header::HostHeader;
pub use request_buffering::RequestBuffering;
pub use upstream::kind_times::KindTime;
pub use upstream::{InvalidUpstream, Origin, UNNAMED, Upstream, host_and_port};
