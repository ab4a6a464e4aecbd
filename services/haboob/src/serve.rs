//! A site on a port.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use tamarisk_control::Target;
use tamarisk_observe::status::InvalidToken;
use tamarisk_proxy::Scheme;
use tamarisk_server::tls::{Handshakes, Tls};
use tamarisk_server::{Beside, Cores, DrainTrigger, ListenError, Listeners, Server};
use tamarisk_service::{Reloaded, UnknownHost};
use tamarisk_stage::{BuildError, StageObservation};
use tokio::task::JoinHandle;

use crate::site::options::SiteOptions;
use crate::site::{Site, SiteError};
use crate::status::{Shown, StatusOptions, StatusPort};

/// Files of a site that may be open beside the connections: one for each thread that
/// reads, and some that are sent as they are read.
const FILES_RESERVED: usize = 1024;

/// What is served, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address for clients.
    pub listen: SocketAddr,
    /// How many threads serve them.
    pub cores: NonZeroUsize,
    /// How connections are served.
    pub server: Server,
    /// With whose certificates; without any, in clear text.
    pub tls: Option<Tls>,
    /// What a client who asks for a TLS handshake is promised.
    pub handshake_target: Target,
    /// The files.
    pub site: SiteOptions,
    /// Where the status is shown, if anywhere.
    pub status: Option<StatusOptions>,
}

impl Options {
    /// One thread for each core, and nearly as many connections as there may be open files, or
    /// half as many if each may need another one to a service behind; in clear text.
    pub fn new(listen: SocketAddr, site: SiteOptions) -> Self {
        let server = Server::default();
        let share = if site.has_proxies() { 1 } else { 2 };
        let connections = (share * server.connections_limit()).saturating_sub(FILES_RESERVED);
        Self {
            listen,
            cores: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            server: server.connections_max(connections.max(64)),
            tls: None,
            handshake_target: Handshakes::default_target(),
            site,
            status: None,
        }
    }

    /// How clients come here.
    fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// The site, whose services are told that clients come in this way.
    fn site_reached_as(&self, scheme: Scheme) -> SiteOptions {
        SiteOptions { scheme, ..self.site.clone() }
    }

    /// What differs in `new` and cannot change on the way.
    fn needs_restart(&self, new: &Self) -> Vec<String> {
        let same = [
            ("listen", self.listen == new.listen),
            ("status", self.status == new.status),
            ("cores", self.cores == new.cores),
            ("limits", self.server.is_like(&new.server)),
            ("file_threads", self.site.file_workers == new.site.file_workers),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(key, _)| key.to_owned()).collect()
    }
}

/// Why serving could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system gives no sockets or threads to serve with.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The stage for handshakes cannot be had.
    #[error(transparent)]
    Handshakes(#[from] BuildError),
    /// Changes cannot be allowed to whoever has the token.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// Nobody knows the address of a service behind.
    #[error(transparent)]
    Unknown(#[from] UnknownHost),
    /// The site cannot be served.
    #[error(transparent)]
    Site(#[from] SiteError),
}

/// A site that is being served.
pub struct Running {
    local_addr: SocketAddr,
    /// What it was started with; what of it cannot change on the way has not.
    options: Options,
    /// For a process that is to take over.
    kept: Vec<TcpListener>,
    site: Site,
    handshakes: Option<Handshakes>,
    drain: DrainTrigger,
    served: JoinHandle<usize>,
    status: Option<Shown>,
}

/// Serves a site on threads of its own; its stages are governed on the runtime that this
/// is called on.
///
/// # Errors
/// [`StartError`], before anything serves.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let listeners = Listeners::bind(options.listen, options.cores)?;
    begin(listeners, options, Beside::Nobody).await
}

/// The same on `listeners` that there are already, whatever the options say of an address.
///
/// # Errors
/// [`StartError`], before anything serves.
pub async fn start_on(listeners: Listeners, options: Options) -> Result<Running, StartError> {
    begin(listeners, options, Beside::Predecessor).await
}

async fn begin(
    listeners: Listeners,
    options: Options,
    beside: Beside,
) -> Result<Running, StartError> {
    let local_addr = listeners.local_addr();
    let kept = listeners.to_pass_on().map_err(ListenError::Inherited)?;
    for service in options.site.services() {
        service.resolve().await?;
    }
    let status = options.status.as_ref();
    let status = status.map(|status| StatusPort::bind(status, beside)).transpose()?;
    let site = Site::open(options.site_reached_as(options.scheme()))?;
    let shaking = |tls: &Tls| Handshakes::new(tls.clone(), options.cores, options.handshake_target);
    let handshakes = options.tls.as_ref().map(shaking).transpose()?;
    let server = handshakes.iter().cloned().fold(options.server.clone(), Server::tls);
    let (trigger, drain) = DrainTrigger::new();
    let status = status.map(|port| port.show(&site, &server, handshakes.as_ref(), &drain));
    let served = site.clone();
    let serving = async move |listener| {
        let site = served.on_core();
        server.serve(listener, |client| site.connect(client), drain).await
    };
    let cores = Cores::start(listeners, serving)?;
    let served = tokio::task::spawn_blocking(move || cores.join().into_iter().sum());
    Ok(Running { local_addr, options, kept, site, handshakes, drain: trigger, served, status })
}

impl Running {
    /// Where clients are served.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The sockets that listen, for another process to [inherit](Listeners::inherited): who has
    /// connected and was not accepted here is accepted there.
    pub fn sockets(&self) -> &[TcpListener] {
        &self.kept
    }

    /// The stage for TLS handshakes at this instant, if there is one.
    pub fn handshakes(&self) -> Option<StageObservation> {
        self.handshakes.as_ref().map(Handshakes::observe)
    }

    /// Takes over what can change on the way: the [site](Site::reload) and certificates. Everything
    /// else that differs is named, and stays as it was. No request and no connection is lost.
    ///
    /// # Errors
    /// [`SiteError`]; then nothing has changed.
    pub fn reload(&self, options: &Options) -> Result<Reloaded, SiteError> {
        let changed = self.site.reload(options.site_reached_as(self.options.scheme()))?;
        let needs_restart = self.options.needs_restart(options);
        let mut reloaded = Reloaded { changed, needs_restart, ..Reloaded::default() };
        reloaded.certificates(self.options.tls.as_ref(), options.tls.as_ref());
        self.status.iter().for_each(Shown::renew);
        Ok(reloaded)
    }

    /// All stages at this instant.
    pub fn observe(&self) -> Vec<StageObservation> {
        let gates = self.site.gates().map(|gate| gate.observe());
        self.site.observe().into_iter().chain(gates).chain(self.handshakes()).collect()
    }

    /// How many clients may be connected at once.
    pub fn connections_limit(&self) -> usize {
        self.options.server.connections_limit()
    }

    /// Where the status is shown.
    pub fn status_addr(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(|shown| shown.address)
    }

    /// The site.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Takes no new connections, lets requests finish within `timeout`, and ends; how many
    /// connections were still busy then.
    pub async fn shutdown(self, timeout: Duration) -> usize {
        drop(self.kept);
        self.drain.drain(timeout);
        let cut = self.served.await.expect("a core's task does not panic");
        self.site.close();
        cut
    }
}
