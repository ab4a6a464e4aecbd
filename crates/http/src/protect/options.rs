use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;
use tamarisk_control::catalogue::{Laws, admission};
use tamarisk_control::{Classes, Target};
use tamarisk_stage::BuildError;
use tamarisk_trace::Recorder;

use crate::access_log::LogOptions;
use crate::classify::{Client, Route, Routes};
use crate::error_pages::ErrorPages;
use crate::proxy::{HostHeader, Origin, RequestBuffering};
use crate::server::Server;
use crate::status::TokenSource;
use crate::tls::{Handshakes, Tls};

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

/// A service behind the proxy.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// What the operator calls it.
    pub name: String,
    /// Where it listens.
    pub origin: Origin,
    /// The kinds of requests to it, and what each is promised.
    pub classes: Classes,
    /// Which `Host` it is told.
    pub host_header: HostHeader,
    /// The longest wait for a connection.
    pub connect_time: Duration,
    /// The longest wait for the head of an answer.
    pub answer_time: Duration,
    /// Whether request bodies are read before their requests are let in.
    pub request_buffering: RequestBuffering,
    /// How its clients are told apart.
    pub client: Client,
    /// Who records what its law is told and decides, if anybody does.
    pub recorder: Option<Recorder>,
    /// The laws before it; where none is chosen for admission, `work-limit`.
    pub laws: Laws,
}

/// An upstream's host has no address.
#[derive(Debug, thiserror::Error)]
#[error("cannot find the address of {host:?}, the host of the upstream {name:?}")]
pub struct UnknownHost {
    /// What the operator calls the upstream.
    pub name: String,
    /// Its host.
    pub host: String,
    /// What the system said.
    pub source: io::Error,
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

impl UpstreamOptions {
    /// A service with the default times: 5 s to connect, 60 s to answer.
    pub fn new(name: impl Into<String>, origin: Origin, classes: Classes) -> Self {
        Self {
            name: name.into(),
            origin,
            classes,
            host_header: HostHeader::default(),
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(60),
            request_buffering: RequestBuffering::default(),
            client: Client::default(),
            recorder: None,
            laws: Laws::new(),
        }
    }

    /// Looks for the address of its host.
    ///
    /// # Errors
    /// [`UnknownHost`] if there is none at present.
    pub async fn resolve(&self) -> Result<(), UnknownHost> {
        let Self { name, origin, .. } = self;
        origin.resolve().await.map_err(|source| UnknownHost {
            name: name.clone(),
            host: origin.host().to_owned(),
            source,
        })
    }

    /// Whether a service that was started with these options is that of `other`, once its classes
    /// have other targets perhaps.
    pub fn is_like(&self, other: &Self) -> bool {
        let mut classes = self.classes.clone();
        for (id, class) in other.classes.iter() {
            classes.set_target(id, class.target);
        }
        let times = |options: &Self| (options.connect_time, options.answer_time);
        (&self.name, &self.origin, &self.host_header)
            == (&other.name, &other.origin, &other.host_header)
            && (self.request_buffering, &self.client) == (other.request_buffering, &other.client)
            && times(self) == times(other)
            && self.laws == other.laws
            && classes == other.classes
    }

    /// The laws before it, that for admission among them.
    pub(super) fn ruling(&self) -> Laws {
        let mut laws = self.laws.clone();
        let default = || admission("work-limit").expect("it is listed").named();
        laws.admission.get_or_insert_with(default);
        laws
    }
}
