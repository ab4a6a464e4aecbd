//! What the tests of the proxy share.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

#[path = "../../../../server/tests/it/support/mod.rs"]
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Concurrency, Decision, PlaceLimits, Timestamp,
};
use tamarisk_http_gate::ErrorPages;
use tamarisk_observe::status::Rejections;
use tamarisk_proxy::classify::{Route, Routes};
use tamarisk_proxy::{Budget, Instance, Proxy, RequestBuffering, Scheme, Site, Upstream};
use tamarisk_server::{DrainTrigger, Server};
use tamarisk_stage::Gate;
use tokio::net::TcpListener;

pub(crate) use self::server::*;

/// Admits everyone, one at a time.
pub(crate) struct OneByOne;

impl AdmissionLaw for OneByOne {
    fn name(&self) -> &'static str {
        "one-by-one"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }
}

impl PlaceLimits for OneByOne {
    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::ONE)
    }
}

/// A proxy with a gate of one's own, on the test's runtime.
pub(crate) async fn proxy(upstream: SocketAddr, gate: &Gate) -> (SocketAddr, DrainTrigger) {
    let origin = format!("http://{upstream}").parse().unwrap();
    proxy_to(Upstream::new(&origin, gate.clone()), Budget::default()).await
}

/// The same, where request bodies are passed on as they come.
pub(crate) async fn streaming_proxy(
    upstream: SocketAddr,
    gate: &Gate,
) -> (SocketAddr, DrainTrigger) {
    let origin = format!("http://{upstream}").parse().unwrap();
    let upstream = Upstream::new(&origin, gate.clone()).request_buffering(RequestBuffering::Off);
    proxy_to(upstream, Budget::default()).await
}

/// A proxy for one upstream, on the test's runtime.
pub(crate) async fn proxy_to(upstream: Upstream, budget: Budget) -> (SocketAddr, DrainTrigger) {
    let site = Site {
        routes: Routes::new(vec![Route::everything(0)]),
        upstreams: vec![Arc::new(upstream)],
        trusted: Vec::new(),
        scheme: Scheme::Http,
        instance: Instance::default(),
        budget,
        error_pages: ErrorPages::default(),
        rejections: Rejections::default(),
        log: None,
    };
    let proxy = Proxy::start(&site);
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (trigger, drain) = DrainTrigger::new();
    tokio::spawn(async move {
        Server::default().serve(listener, |peer| proxy.connect(peer), drain).await
    });
    (address, trigger)
}
