use std::net::SocketAddr;
use std::num::NonZeroUsize;

use ipnet::IpNet;
use tamarisk_control::{Classes, Target};
use tamarisk_http_gate::ErrorPages;
use tamarisk_observe::access_log::LogOptions;
use tamarisk_observe::status::TokenSource;
use tamarisk_proxy::Origin;
use tamarisk_proxy::classify::{Route, Routes};
use tamarisk_server::Server;
use tamarisk_server::tls::{Handshakes, Tls};
use tamarisk_service::UpstreamOptions;
use tamarisk_stage::BuildError;

/// What to protect, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients are served; with port 0, on a free port.
    pub listen: SocketAddr,
    /// Where the status is shown, if anywhere.
    pub status: Option<SocketAddr>,
    /// Where the token stands that allows changes over the status port; without one
    /// they are refused.
    pub status_token: Option<TokenSource>,
    /// Host names under which the status is shown, besides addresses, `localhost` and the name of
    /// the machine.
    pub status_hosts: Vec<String>,
    /// How many threads serve.
    pub cores: NonZeroUsize,
    /// How connections are served.
    pub server: Server,
    /// With whose certificates; without any, in clear text.
    pub tls: Option<Tls>,
    /// What a client who asks for a TLS handshake is promised.
    pub handshake_target: Target,
    /// Which request goes where.
    pub routes: Routes,
    /// The services behind, in the order in which the routes count them.
    pub upstreams: Vec<UpstreamOptions>,
    /// Proxies in front, whose `X-Forwarded-For` is believed.
    pub trusted: Vec<IpNet>,
    /// The access log, if there is one.
    pub log: Option<LogOptions>,
    /// Pages in place of our own answers.
    pub error_pages: ErrorPages,
}

impl Options {
    /// Requests to `upstreams` as `routes` say, with the default limits, on all cores.
    pub fn new(listen: SocketAddr, routes: Routes, upstreams: Vec<UpstreamOptions>) -> Self {
        Self {
            listen,
            status: None,
            status_token: None,
            status_hosts: Vec::new(),
            cores: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            server: Server::default(),
            tls: None,
            handshake_target: Handshakes::default_target(),
            routes,
            upstreams,
            trusted: Vec::new(),
            log: None,
            error_pages: ErrorPages::default(),
        }
    }

    /// All requests to one service, with one promise.
    pub fn single(listen: SocketAddr, origin: Origin, target: Target) -> Self {
        let upstream = UpstreamOptions::new("upstream", origin, Classes::single(target));
        Self::new(listen, Routes::new(vec![Route::everything(0)]), vec![upstream])
    }
}

impl Options {
    /// The stage for handshakes, if there are to be any.
    pub(super) fn handshakes(&self) -> Result<Option<Handshakes>, BuildError> {
        let (cores, target) = (self.cores, self.handshake_target);
        self.tls.as_ref().map(|tls| Handshakes::new(tls.clone(), cores, target)).transpose()
    }
}
