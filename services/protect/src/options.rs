//! Options of `protect`: what to protect, and how.

use std::net::SocketAddr;

use ipnet::IpNet;
use tamarisk_control::{Classes, Target};
use tamarisk_http_gate::ErrorPages;
use tamarisk_observe::access_log::LogOptions;
use tamarisk_proxy::classify::{Route, Routes};
use tamarisk_proxy::{Origin, UNNAMED};
use tamarisk_service::{FrontOptions, UpstreamOptions};

/// What to protect, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients are served.
    pub front: FrontOptions,
    /// Which request goes where.
    pub routes: Routes,
    /// The services behind, in the order in which the routes count them.
    pub upstreams: Vec<UpstreamOptions>,
    /// Proxies in front, whose `X-Forwarded-For` is believed.
    pub trusted: Vec<IpNet>,
    /// The access log, if there is one.
    pub log: Option<LogOptions>,
    /// Configuration of custom error pages, `[errors]`.
    pub error_pages: ErrorPages,
}

impl Options {
    /// Requests that come by `front` go to `upstreams` as `routes` say.
    pub fn new(front: FrontOptions, routes: Routes, upstreams: Vec<UpstreamOptions>) -> Self {
        Self {
            front,
            routes,
            upstreams,
            trusted: Vec::new(),
            log: None,
            error_pages: ErrorPages::default(),
        }
    }

    /// All requests to one service, with one promise; the default limits, on all cores.
    pub fn single(listen: SocketAddr, origin: Origin, target: Target) -> Self {
        let upstream = UpstreamOptions::new(UNNAMED, origin, Classes::single(target));
        let routes = Routes::new(vec![Route::everything(0)]);
        Self::new(FrontOptions::new(listen), routes, vec![upstream])
    }
}
