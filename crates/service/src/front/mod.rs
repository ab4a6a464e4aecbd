//! The front of a service, from its start to its end: listening sockets, cores, TLS, the status
//! port. A service brings what happens to a request.
//!
//! [`PreparedFront`] has all that can fail without sockets, and is all that a check of the options makes;
//! [its `bind`](PreparedFront::bind) or [`inherit`](PreparedFront::inherit) takes the sockets, so that whatever
//! can fail does so before anything serves; [`Front::serve`] starts the cores; [`RunningFront`] takes other
//! certificates, passes its sockets on to another process, drains and ends.

mod error;
mod options;
mod prepared;
mod status_port;

use std::net::{SocketAddr, TcpListener as Socket};
use std::sync::Arc;
use std::time::Duration;

use tamarisk_observe::status::Board;
use tamarisk_server::tls::Handshakes;
use tamarisk_server::{Cores, Drain, DrainTrigger, ListenError, Listeners, Rejected, Server};
use tamarisk_stage::StageObservation;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use error::{FrontError, SameAddress};
pub use options::FrontOptions;
pub use prepared::{PreparedFront, ensure_apart};

use self::status_port::{ShownStatus, StatusPort};

/// Sockets that listen. Clients are not served yet.
pub struct Front {
    listeners: Listeners,
    status: StatusPort,
    parts: FrontParts,
}

/// What serves connections, whatever sockets they come by.
struct FrontParts {
    server: Server,
    handshakes: Option<Handshakes>,
}

/// A front that serves.
pub struct RunningFront {
    local_addr: SocketAddr,
    /// For a process that is to take over.
    kept: Arc<[Socket]>,
    server: Server,
    handshakes: Option<Handshakes>,
    drain: DrainTrigger,
    served: JoinHandle<usize>,
    status: ShownStatus,
}

impl FrontParts {
    fn new(options: &FrontOptions) -> Result<Self, FrontError> {
        let handshakes = options.handshakes()?;
        let server = handshakes.iter().cloned().fold(options.server.clone(), Server::tls);
        Ok(Self { server, handshakes })
    }
}

impl Front {
    /// Where clients will be served.
    pub fn local_addr(&self) -> SocketAddr {
        self.listeners.local_addr()
    }

    /// Serves on threads of its own, one for each core, where `serve_core` serves what a listener
    /// accepts and returns how many connections were cut off in the end. The status port shows
    /// what `show` adds to its board.
    ///
    /// # Errors
    /// [`FrontError::Listen`] or [`FrontError::Profile`]: the system gives no threads.
    pub fn serve<F>(
        self,
        show: impl Fn(Board) -> Board + Send + Sync + 'static,
        serve_core: F,
    ) -> Result<RunningFront, FrontError>
    where
        F: AsyncFnOnce(Server, TcpListener, Drain) -> usize + Clone + Send + 'static,
    {
        let Self { listeners, status, parts: FrontParts { server, handshakes } } = self;
        let local_addr = listeners.local_addr();
        let kept = listeners.to_pass_on().map_err(ListenError::Inherited)?.into();
        let (trigger, drain) = DrainTrigger::new();
        let on_core = {
            let (server, drain) = (server.clone(), drain.clone());
            async move |listener| serve_core(server, listener, drain).await
        };
        let cores = Cores::start(listeners, on_core)?;
        let served = tokio::task::spawn_blocking(move || cores.join().into_iter().sum());
        let status = status.show(&server, handshakes.as_ref(), &drain, show)?;
        Ok(RunningFront { local_addr, kept, server, handshakes, drain: trigger, served, status })
    }
}

impl RunningFront {
    /// Where clients are served.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Where the status is shown.
    pub fn status_addr(&self) -> Option<SocketAddr> {
        self.status.address()
    }

    /// The sockets that listen, for another process to [inherit](Listeners::inherited): who has
    /// connected and was not accepted here is accepted there. They must be dropped before the
    /// [drain](Self::drain), which closes them.
    pub fn sockets(&self) -> Arc<[Socket]> {
        Arc::clone(&self.kept)
    }

    /// The stage for TLS handshakes at this instant, if there is one.
    pub fn handshakes(&self) -> Option<StageObservation> {
        self.handshakes.as_ref().map(Handshakes::observe)
    }

    /// How many clients may be connected at once.
    pub fn connections_limit(&self) -> usize {
        self.server.connections_limit()
    }

    /// Connections rejected before a request was read.
    pub fn rejected(&self) -> Rejected {
        self.server.rejected()
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Shows the stages that there are now, and reads the token again that allows changes. If it
    /// cannot be read, the one before stays, and a warning says why.
    pub fn renew_status(&self) {
        self.status.read_token();
        self.status.renew();
    }

    /// Leaves new clients of the status port to a successor that serves, before the
    /// [drain](Self::drain); those that are connected have up to `timeout`.
    pub fn pass_on_status(&self, timeout: Duration) {
        self.status.pass_on(timeout);
    }

    /// Takes no new connections, and lets requests finish within `timeout`; how many connections
    /// were still busy then. The status is shown on until this is dropped.
    ///
    /// # Panics
    /// If it is called twice.
    pub async fn drain(&mut self, timeout: Duration) -> usize {
        self.kept = Arc::default();
        self.drain.drain(timeout);
        (&mut self.served).await.expect("a core's task does not panic")
    }
}
