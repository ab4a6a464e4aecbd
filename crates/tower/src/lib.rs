//! Tower layers that put a service behind a gate: [`StageLayer`] for HTTP and gRPC (of axum,
//! tonic, hyper), [`GateLayer`] for any other protocol.
//!
//! Features: `axum` and `tonic` read the client's address that these servers tell, for
//! [`StageLayer`] to share by.
//!
//! What this crate does not do: it accepts no connections, forwards nothing and reads no
//! configuration.

mod any;
mod client;
mod layer;

use std::time::Duration;

pub use any::{GateLayer, GateService};
pub use layer::{StageBody, StageLayer, StageService};
pub use tamarisk_http_gate::ClientAddress;

/// `None` if the time was over first.
async fn in_time<F: Future>(work: F, time: Option<Duration>) -> Option<F::Output> {
    match time {
        Some(time) => tokio::time::timeout(time, work).await.ok(),
        None => Some(work.await),
    }
}
