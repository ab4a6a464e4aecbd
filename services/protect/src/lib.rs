//! A service under overload control: the server, the gates and the proxy put together.
//!
//! What this crate does not do: it decides nothing about admission (that is the laws' business, in
//! `tamarisk-control`, applied by the gates of `tamarisk-stage`), and it speaks no HTTP/3.
//!
//! The way of a request:
//!
//! ```text
//! socket ─ h1 ─────── classify ─ gate ─ line ─ upstream
//!          strict     route,    law,   one connection,
//!          reading    class     queue  one pass
//! ```
//!
//! Start reading at [`start`], which puts the parts together; then [`tamarisk_server`] for the way
//! in, [`tamarisk_proxy::classify`] for what a request is, and [`tamarisk_proxy`] for the way out.
//! [`config`] makes the options of a file.
//!
//! # Examples
//!
//! A service on port 3000, whose clients are promised that nine of ten answers come
//! within 200 ms:
//!
//! ```no_run
//! use std::time::Duration;
//! use tamarisk_control::Target;
//! use tamarisk_protect::Options;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::p90(Duration::from_millis(200))?;
//! let options =
//!     Options::single("127.0.0.1:8080".parse()?, "http://127.0.0.1:3000".parse()?, target);
//! let running = tamarisk_protect::start(options).await?;
//! tokio::signal::ctrl_c().await?;
//! running.shutdown(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```

pub mod config;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod options;
mod reload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tamarisk_observe::access_log::{Log, LogError};
use tamarisk_observe::status::{self, Board, InvalidToken, Rejections, Token, TokenSource};
use tamarisk_proxy::{Bounds, Budget, Proxy, Scheme, Site, Upstream};
use tamarisk_server::tls::Handshakes;
use tamarisk_server::{Beside, Cores, Drain, DrainTrigger, ListenError, Listeners, Server};
use tamarisk_service::{UnknownHost, UpstreamOptions};
use tamarisk_stage::{BuildError, Gate, StageObservation};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

pub use options::Options;

/// A disk that hangs does not hold the end up for longer.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Why protection could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system gives no sockets or threads to serve with.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Changes cannot be allowed to whoever has the token.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// Nobody knows the address of an upstream.
    #[error(transparent)]
    Unknown(#[from] UnknownHost),
    /// The access log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A stage could not be made of its options.
    #[error(transparent)]
    Gate(#[from] BuildError),
}

/// Protection that is running.
pub struct Running {
    local_addr: SocketAddr,
    status_addr: Option<SocketAddr>,
    log: Option<Log>,
    /// What it was started with, and has been changed to since.
    options: Options,
    /// For a process that is to take over.
    kept: Arc<[std::net::TcpListener]>,
    upstreams: Vec<Arc<Upstream>>,
    gates: Vec<Gate>,
    server: Server,
    handshakes: Option<Handshakes>,
    drain: DrainTrigger,
    served: JoinHandle<usize>,
    status: JoinSet<()>,
}

/// What a shutdown had to cut short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Connections that were still busy.
    pub connections: usize,
}

/// Starts to protect the upstreams of `options`, on threads of its own; the
/// gates are governed on the runtime that it is called on.
///
/// # Errors
/// [`StartError`], before anything serves.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let listeners = Listeners::bind(options.listen, options.cores)?;
    begin(listeners, options, Beside::Nobody).await
}

/// The same on `listeners` that a process has passed on which this one takes over from, whatever
/// the options say of an address.
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
    let token = options.status_token.as_ref().map(TokenSource::read).transpose()?;
    let local_addr = listeners.local_addr();
    let kept = listeners.to_pass_on().map_err(ListenError::Inherited)?.into();
    let status = options.status.map(|address| Listeners::bind_here(address, beside)).transpose()?;
    for upstream in &options.upstreams {
        upstream.resolve().await?;
    }
    let upstreams =
        options.upstreams.iter().map(UpstreamOptions::start).collect::<Result<Vec<_>, _>>()?;
    let gates: Vec<Gate> = upstreams.iter().map(|upstream| upstream.gate().clone()).collect();
    let log = options.log.as_ref().map(Log::start).transpose()?;
    let rejections = Rejections::default();
    let site = Site {
        routes: options.routes.clone(),
        upstreams: upstreams.clone(),
        trusted: options.trusted.clone(),
        scheme: if options.tls.is_some() { Scheme::Https } else { Scheme::Http },
        budget: Budget::new(Bounds::of(options.server.limits_of_clients())),
        error_pages: options.error_pages.clone(),
        rejections: rejections.clone(),
        log: log.clone(),
    };
    let (trigger, drain) = DrainTrigger::new();
    let handshakes = options.handshakes()?;
    let server = handshakes.iter().cloned().fold(options.server.clone(), Server::tls);
    let drained = drain.clone();
    let serving = {
        let server = server.clone();
        async move |listener| serve(listener, &site, &server, drained).await
    };
    let cores = Cores::start(listeners, serving)?;
    let mut running = Running {
        local_addr,
        status_addr: None,
        kept,
        upstreams,
        gates,
        server,
        handshakes,
        log,
        options,
        drain: trigger,
        served: tokio::task::spawn_blocking(move || cores.join().into_iter().sum()),
        status: JoinSet::new(),
    };
    if let Some(listener) = status {
        running.status_addr = listener.local_addr().ok();
        running.show_status(listener, &drain, token, &rejections);
    }
    Ok(running)
}

/// One core's work; how many connections were cut off in the end.
async fn serve(listener: TcpListener, site: &Site, server: &Server, drain: Drain) -> usize {
    let proxy = Proxy::start(site);
    server.serve(listener, |peer| proxy.connect(peer), drain).await
}

impl Running {
    /// Shows the status until the very end, the drain included.
    fn show_status(
        &mut self,
        listener: TcpListener,
        drain: &Drain,
        token: Option<Token>,
        rejections: &Rejections,
    ) {
        let board = Board::new().server(&self.server).drain(drain).rejections(rejections);
        let mut board = self.options.status_hosts.iter().fold(board, Board::host);
        if let Some(log) = self.log.clone() {
            board = board.counter(
                "log_lines_lost",
                "Lines of the access log that could not be written.",
                move || log.lost(),
            );
        }
        if let Some(handshakes) = self.handshakes.clone() {
            board = board.stage(move || handshakes.observe());
        }
        let board = token.into_iter().fold(board, Board::token);
        let board = Arc::new(self.gates.iter().fold(board, Board::gate));
        self.status.spawn(async move {
            // Never triggered: dropping the task closes what is open.
            let (_open, drain) = DrainTrigger::new();
            status::serve(move || Arc::clone(&board), listener, drain).await;
        });
    }

    /// Where clients are served.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The stage for TLS handshakes at this instant, if there is one.
    pub fn handshakes(&self) -> Option<StageObservation> {
        self.handshakes.as_ref().map(Handshakes::observe)
    }

    /// The sockets that listen, for another process to [inherit](Listeners::inherited): who has
    /// connected and was not accepted here is accepted there. As long as they are held, clients
    /// can connect.
    pub fn sockets(&self) -> Arc<[std::net::TcpListener]> {
        Arc::clone(&self.kept)
    }

    /// Where the status is shown.
    pub fn status_addr(&self) -> Option<SocketAddr> {
        self.status_addr
    }

    /// The gates before the upstreams, in the order of the options.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// All stages at this instant.
    pub fn observe(&self) -> Vec<StageObservation> {
        self.gates.iter().map(Gate::observe).chain(self.handshakes()).collect()
    }

    /// The services behind, in the order of the options.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// How many clients may be connected at once.
    pub fn connections_limit(&self) -> usize {
        self.server.connections_limit()
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Takes no new connections, lets requests finish within `timeout`, and ends.
    pub async fn shutdown(self, timeout: Duration) -> Cut {
        drop(self.kept);
        self.drain.drain(timeout);
        let connections = self.served.await.expect("a core's task does not panic");
        for gate in &self.gates {
            gate.close();
        }
        self.log.iter().for_each(|log| log.close(LOG_PATIENCE));
        Cut { connections }
    }
}
