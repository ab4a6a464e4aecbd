//! The server, the gates and the proxy put together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tamarisk_observe::access_log::{Log, LogError};
use tamarisk_observe::status::{Board, Rejections};
use tamarisk_proxy::{Bounds, Budget, Instance, Proxy, Site, Upstream};
use tamarisk_server::{Capacity, Listeners};
use tamarisk_service::{
    Front, FrontError, LeadsBack, PreparedFront, RunningFront, UnknownHost, UpstreamOptions,
};
use tamarisk_settings::{Mistakes, Several};
use tamarisk_stage::{BuildError, Gate, StageObservation};

use crate::options::Options;

/// A disk that hangs does not hold the end up for longer.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Why protection could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Clients cannot be served.
    #[error(transparent)]
    Front(#[from] FrontError),
    /// An upstream's host has no address.
    #[error(transparent)]
    Unknown(#[from] UnknownHost),
    /// An upstream is where clients are served.
    #[error(transparent)]
    LeadsBack(#[from] LeadsBack),
    /// The access log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A stage could not be made of its options.
    #[error(transparent)]
    Gate(#[from] BuildError),
    /// Several of these.
    #[error("{}, and {} more", .0[0], .0.len() - 1)]
    Several(Vec<Self>),
}

impl Several for StartError {
    fn several(reasons: Vec<Self>) -> Self {
        Self::Several(reasons)
    }
}

impl StartError {
    /// Each reason by itself.
    pub fn reasons(self) -> Vec<Self> {
        match self {
            Self::Several(reasons) => reasons,
            reason => vec![reason],
        }
    }
}

/// Protection that is running.
pub struct Running {
    log: Option<Log>,
    /// What it was started with, and has been changed to since.
    pub(crate) options: Options,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) front: RunningFront,
}

/// Starts to protect the upstreams of `options`, on threads of its own; the
/// gates are governed on the runtime that it is called on.
///
/// # Errors
/// [`StartError`], before anything serves.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let prepared = Prepared::new(&options, None).await?;
    prepared.serve(PreparedFront::bind, options)
}

/// The same on `listeners` that a process has passed on which this one takes over from, whatever
/// the options say of an address.
///
/// # Errors
/// [`StartError`], before anything serves.
pub async fn start_on(listeners: Listeners, options: Options) -> Result<Running, StartError> {
    let prepared = Prepared::new(&options, Some(listeners.local_addr())).await?;
    prepared.serve(|front| front.inherit(listeners), options)
}

/// Whether [`start`] would start with these options, as far as can be known without listening: another process
/// may serve with them. Files that are written are made if they are not there.
///
/// # Errors
/// [`StartError`], with all reasons that are found.
pub async fn check(options: &Options) -> Result<(), StartError> {
    Prepared::new(options, None).await.map(Prepared::end)
}

/// All that serves, before anything listens.
struct Prepared {
    front: PreparedFront,
    upstreams: Vec<Arc<Upstream>>,
    log: Option<Log>,
}

impl Prepared {
    /// What `options` say, for clients who come by sockets that were `inherited`, if any were.
    async fn new(options: &Options, inherited: Option<SocketAddr>) -> Result<Self, StartError> {
        let mut mistakes = Mistakes::<StartError>::default();
        let front = PreparedFront::new(&options.front, inherited, &mut mistakes);
        let listening = options.front.listening(inherited);
        UpstreamOptions::reach_all(&options.upstreams, &listening, &mut mistakes).await;
        let upstreams = options.upstreams.iter().filter_map(|each| mistakes.note(each.start()));
        let upstreams = upstreams.collect();
        let log = mistakes.note(options.log.as_ref().map(Log::start).transpose());
        mistakes.done(|| Some(Self { front: front?, upstreams, log: log? }))
    }

    fn serve(
        self,
        listen: impl FnOnce(PreparedFront) -> Result<Front, FrontError>,
        options: Options,
    ) -> Result<Running, StartError> {
        let Self { front, upstreams, log } = self;
        let front = listen(front)?;
        let rejections = Rejections::default();
        let site = Site {
            routes: options.routes.clone(),
            upstreams: upstreams.clone(),
            trusted: options.trusted.clone(),
            scheme: options.front.scheme(),
            instance: Instance::default(),
            budget: Budget::new(Bounds::of(
                options.front.server.limits_of_clients(),
                Capacity::of_process(),
            )),
            error_pages: options.error_pages.clone(),
            rejections: rejections.clone(),
            log: log.clone(),
        };
        let show = {
            let (upstreams, log) = (upstreams.clone(), log.clone());
            move |board: Board| {
                let board = log.iter().fold(board.rejections(&rejections), Board::log);
                gates(&upstreams).iter().fold(board, Board::gate)
            }
        };
        let front = front.serve(show, async move |server, listener, drain| {
            let proxy = Proxy::start(&site);
            server.serve(listener, |peer| proxy.connect(peer), drain).await
        })?;
        Ok(Running { log, options, upstreams, front })
    }

    fn end(self) {
        close(&gates(&self.upstreams), self.log.as_ref());
    }
}

/// Admits nothing more, and writes the last lines of the log.
fn close(gates: &[Gate], log: Option<&Log>) {
    gates.iter().for_each(Gate::close);
    log.into_iter().for_each(|log| log.close(LOG_PATIENCE));
}

/// The gates of upstreams, and of the overflows that they have now.
fn gates(upstreams: &[Arc<Upstream>]) -> Vec<Gate> {
    upstreams.iter().flat_map(|upstream| upstream.gates()).collect()
}

impl Running {
    /// The sockets, the cores and the status port.
    pub fn front(&self) -> &RunningFront {
        &self.front
    }

    /// Where clients are served.
    pub fn local_addr(&self) -> SocketAddr {
        self.front.local_addr()
    }

    /// The stage for TLS handshakes at this instant, if there is one.
    pub fn handshakes(&self) -> Option<StageObservation> {
        self.front.handshakes()
    }

    /// Where the status is shown.
    pub fn status_addr(&self) -> Option<SocketAddr> {
        self.front.status_addr()
    }

    /// The gates, in the order of the upstreams, each before that of its overflow.
    pub fn gates(&self) -> Vec<Gate> {
        gates(&self.upstreams)
    }

    /// All stages at this instant, those for handshakes included.
    pub fn observe(&self) -> Vec<StageObservation> {
        self.gates().iter().map(Gate::observe).chain(self.handshakes()).collect()
    }

    /// The services behind, in the order of the options.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// The access log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        self.front.connections()
    }

    /// Takes no new connections, lets requests finish within `timeout`, and ends; how many
    /// connections were still busy then. The status is shown until the very end.
    pub async fn shutdown(mut self, timeout: Duration) -> usize {
        let cut = self.front.drain(timeout).await;
        close(&self.gates(), self.log.as_ref());
        cut
    }
}
