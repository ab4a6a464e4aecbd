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
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod hop_by_hop;
mod instance;
mod overflow;
mod passage;
mod peer;
mod proxy;
mod request;
mod upstream;

pub use answer::proxy_body::ProxyBody;
pub use answer::unread::Answers;
pub use budget::{Bounds, Budget};
pub use instance::Instance;
pub use peer::{Peer, Scheme};
pub use proxy::{Proxy, ProxyService, Site};
pub use request::held::Held;
pub use request::intake::RequestBuffering;
pub use upstream::exchange_error::ExchangeError;
pub use upstream::kind_times::KindTime;
pub use upstream::{HostHeader, InvalidUpstream, Origin, UNNAMED, Upstream, host_and_port};
