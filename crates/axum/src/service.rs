//! A router and its stages, served until the process is told to stop.

use std::io;
use std::net::IpAddr;
#[cfg(feature = "status")]
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "status")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use tamarisk_http_gate::TrustedProxies;
use tamarisk_stage::{AnyStage, DrainReport, Gate, Graph, Stage, StageObservation};
use tokio::net::TcpListener;
#[cfg(feature = "status")]
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::serving::{self, Limits};

/// How long requests that are under way have, after the process was told to stop.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// Serves a router and shows, and at the end drains, the stages behind it.
#[must_use = "a service serves nothing until `serve` is called"]
#[derive(Default)]
pub struct Service {
    parts: Vec<Box<dyn Part>>,
    proxies: TrustedProxies,
    #[cfg(feature = "status")]
    status: Option<StatusPort>,
    #[cfg(feature = "status")]
    profile: Option<PathBuf>,
}

/// Stages, gates and graphs of stages, as a [`Service`] sees them.
pub trait Part: Send + Sync {
    /// The stages that it has now.
    fn stages(&self) -> Vec<AnyStage>;

    /// The same as they are at this instant.
    fn observe(&self) -> Vec<StageObservation> {
        self.stages().iter().map(AnyStage::observe).collect()
    }

    /// Admits nothing more and waits until nothing is inside, at most `time`.
    fn drain(&self, time: Duration) -> Drained<'_>;

    /// The same part, to be held elsewhere.
    fn share(&self) -> Box<dyn Part>;
}

/// What the drain of each stage left, once it is done.
pub type Drained<'p> = Pin<Box<dyn Future<Output = Vec<DrainReport>> + Send + 'p>>;

impl<E: Send + 'static> Part for Stage<E> {
    fn stages(&self) -> Vec<AnyStage> {
        vec![self.into()]
    }

    fn drain(&self, time: Duration) -> Drained<'_> {
        Box::pin(async move { vec![Self::drain(self, time).await] })
    }

    fn share(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}

impl Part for Gate {
    fn stages(&self) -> Vec<AnyStage> {
        vec![self.into()]
    }

    fn drain(&self, time: Duration) -> Drained<'_> {
        Box::pin(async move { vec![Self::drain(self, time).await] })
    }

    fn share(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}

impl Part for Arc<Graph> {
    fn stages(&self) -> Vec<AnyStage> {
        Graph::stages(self)
    }

    fn drain(&self, time: Duration) -> Drained<'_> {
        Box::pin(Graph::drain(self, time))
    }

    fn share(&self) -> Box<dyn Part> {
        Box::new(Self::clone(self))
    }
}

/// Where the stages are shown.
#[cfg(feature = "status")]
enum StatusPort {
    At(String),
    On(TcpListener),
}

/// Why a service could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nothing can listen there: another process does, or the address is not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The profile cannot be written.
    #[cfg(feature = "status")]
    #[error(transparent)]
    Profile(#[from] tamarisk_observe::profile::ProfileError),
}

impl Service {
    /// No stages yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this stage or gate, or the stages that a graph has at each instant; and with all to which
    /// their events go on, from the first such event on (see [`AnyStage::with_receivers`]). A gate
    /// that a handler enters is not known by that and has to be stated, after the stage of that
    /// handler: senders are drained before those that they send to, so that what is under way can
    /// be finished, and otherwise in the order in which they are stated.
    pub fn stage(mut self, part: &impl Part) -> Self {
        self.parts.push(part.share());
        self
    }

    /// Believes peers at these addresses about whose requests they pass on: of theirs the client, with
    /// whom others share, is the last address in `X-Forwarded-For` that is not one of these. Without
    /// this a proxy in front of the service is one client.
    ///
    /// # Examples
    /// ```
    /// let service = tamarisk_axum::Service::new().trusted_proxies(|peer| peer.is_loopback());
    /// ```
    pub fn trusted_proxies(
        mut self,
        is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.proxies = TrustedProxies::new(is_trusted);
        self
    }

    /// Shows all stages on a port of its own: a page for people at `/`, JSON at `/status`,
    /// Prometheus text at `/metrics`, what crosses between the stages at `/graph.svg`.
    #[cfg(feature = "status")]
    pub fn status(mut self, address: impl Into<String>) -> Self {
        self.status = Some(StatusPort::At(address.into()));
        self
    }

    /// The same on a listener that is there already, whose address is known.
    #[cfg(feature = "status")]
    pub fn status_on(mut self, listener: TcpListener) -> Self {
        self.status = Some(StatusPort::On(listener));
        self
    }

    /// Logs all stages over time to this file, a line of JSON a second. The file is bounded: at
    /// 64 MiB it is kept as `FILE.1`, and another begins.
    #[cfg(feature = "status")]
    pub fn profile(mut self, file: impl Into<PathBuf>) -> Self {
        self.profile = Some(file.into());
        self
    }

    /// Serves `router` on `address` until the process gets SIGINT or SIGTERM, then finishes
    /// what is under way, for up to ten seconds. Returns what the drain of each stage left.
    ///
    /// Handlers can extract the other end of a connection as axum's `ConnectInfo<SocketAddr>`; the
    /// extension [`ClientAddress`](crate::ClientAddress) is the client's own address.
    ///
    /// Connections and the time of slow clients are limited, with the numbers of `tamarisk protect`:
    /// - Half as many connections as the process may have open files (`ulimit -n`). When there are
    ///   as many, the one that has been idle for longest is closed for a new one. When none is
    ///   idle, one is closed that waits for its client (to send a body, to take an answer, to say
    ///   anything over HTTP/2 or after an upgrade), of the client address that has most. When all
    ///   wait for the service, the new one is answered with 503 and closed.
    /// - 10 s until the first byte of a connection, and for each head, of 32 KiB at most; 75 s
    ///   between requests.
    /// - 60 s that a client is waited for while it sends the body of a request (408 then) or takes
    ///   the answer (the connection is cut then); each 500 bytes win back a second.
    ///
    /// An upgraded connection (a WebSocket) counts, but its time is the handler's to limit.
    ///
    /// With feature `http2` HTTP/2 in clear text is served too, with 100 streams a connection.
    /// hyper leaves pseudo-header fields out of the trailers of a request, which ought to be rejected,
    /// and may do so with fields that make a head in several frames malformed.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn serve(
        self,
        address: &str,
        router: Router,
    ) -> Result<Vec<DrainReport>, ServeError> {
        let listener = listen(address).await?;
        self.serve_until(listener, router, told_to_stop()).await
    }

    /// The same on a listener that is there already, until `stop` is done: for tests, and for
    /// processes that have other reasons to stop.
    ///
    /// # Errors
    /// [`ServeError`], where the status port or the profile cannot be opened.
    pub async fn serve_until(
        self,
        listener: TcpListener,
        router: Router,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Vec<DrainReport>, ServeError> {
        #[cfg(feature = "status")]
        let profile = self.log_profile()?;
        #[cfg(feature = "status")]
        let is_open = Arc::new(AtomicBool::new(true));
        #[cfg(feature = "status")]
        let _status = show(self.status, &self.parts, profile.as_ref(), &is_open).await?;
        let (stopped, stopping) = tokio::sync::watch::channel(None);
        let stop = async move {
            stop.await;
            // Balancers look elsewhere from now on.
            #[cfg(feature = "status")]
            is_open.store(false, Ordering::Relaxed);
            stopped.send_replace(Some(Instant::now()));
        };
        let mut asked = stopping.clone();
        let site = serving::Site { router, proxies: self.proxies };
        let serving = serving::serve(listener, site, Limits::default(), stop);
        let too_late = async {
            // It changes once.
            let _ = asked.changed().await;
            tokio::time::sleep(DRAIN_TIME).await;
        };
        tokio::select! {
            () = serving => {}
            () = too_late => {}
        }
        let until = (*stopping.borrow()).unwrap_or_else(Instant::now) + DRAIN_TIME;
        Ok(drain(self.parts, until).await)
    }

    /// Starts the log of the profiler, if there is to be one; it ends with what this returns.
    #[cfg(feature = "status")]
    fn log_profile(&self) -> Result<Option<tamarisk_observe::profile::ProfileLog>, ServeError> {
        use tamarisk_observe::profile::{ProfileLog, ProfileOptions};

        let Some(file) = &self.profile else { return Ok(None) };
        let log = ProfileLog::open(ProfileOptions::new(file))?;
        let parts = share(&self.parts);
        log.start(move || observe(&parts))?;
        Ok(Some(log))
    }
}

/// The same parts, to be held elsewhere.
#[cfg(feature = "status")]
fn share(parts: &[Box<dyn Part>]) -> Vec<Box<dyn Part>> {
    parts.iter().map(|part| part.share()).collect()
}

/// All stages of these parts and those behind them, at this instant.
#[cfg(feature = "status")]
fn observe(parts: &[Box<dyn Part>]) -> Vec<StageObservation> {
    let stages = AnyStage::with_receivers(parts.iter().flat_map(|part| part.stages()));
    stages.iter().map(AnyStage::observe).collect()
}

/// Drains these parts, each as a whole, and the stages behind them, until then at most.
async fn drain(parts: Vec<Box<dyn Part>>, until: Instant) -> Vec<DrainReport> {
    let stages: Vec<_> = parts.iter().flat_map(|part| part.stages()).collect();
    let (mut reports, mut drained) = (Vec::new(), Vec::new());
    // What is under way may go on to a stage for the first time now.
    let next = |drained: &[AnyStage]| {
        let all = AnyStage::with_receivers(stages.iter().cloned());
        all.into_iter().find(|stage| !drained.contains(stage))
    };
    while let Some(stage) = next(&drained) {
        let left = until.saturating_duration_since(Instant::now());
        match parts.iter().find(|part| part.stages().contains(&stage)) {
            Some(part) => {
                drained.extend(part.stages());
                reports.extend(part.drain(left).await);
            }
            None => reports.push(stage.drain(left).await),
        }
        drained.push(stage);
    }
    reports
}

/// Opens the status port, if there is to be one. It tells whether the service `is_open`, and is open
/// itself until what this returns is dropped.
#[cfg(feature = "status")]
async fn show(
    port: Option<StatusPort>,
    parts: &[Box<dyn Part>],
    profile: Option<&tamarisk_observe::profile::ProfileLog>,
    is_open: &Arc<AtomicBool>,
) -> Result<JoinSet<()>, ServeError> {
    use tamarisk_observe::status::{self, Board, CONNECTIONS_MAX};

    let mut serving = JoinSet::new();
    let listener = match port {
        None => return Ok(serving),
        Some(StatusPort::At(address)) => listen(&address).await?,
        Some(StatusPort::On(listener)) => listener,
    };
    let is_open = Arc::clone(is_open);
    let board = Board::new().open_while(move || is_open.load(Ordering::Relaxed));
    let board = profile.into_iter().fold(board, Board::profile_log);
    let parts = share(parts);
    let board = Arc::new(board.stages(move || observe(&parts)));
    let port = Arc::new(status::StatusPort::new(move || Arc::clone(&board)));
    let answers = Arc::clone(&port);
    let router = Router::new().fallback(move |request: axum::extract::Request| {
        let answers = Arc::clone(&answers);
        async move { answers.answer(request).await.map(axum::body::Body::new) }
    });
    let site = serving::Site { router, proxies: TrustedProxies::default() };
    let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
    serving.spawn(serving::serve(listener, site, limits, std::future::pending()));
    serving.spawn(async move { port.sample().await });
    Ok(serving)
}

async fn listen(address: &str) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen { address: address.to_owned(), source })
}

/// SIGINT or SIGTERM.
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};

    let interrupt = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
        }
        // Where the one cannot be listened for, the other still can.
        Err(_) => drop(interrupt.await),
    }
}
