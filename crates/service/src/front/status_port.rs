//! The status of a service: its port and the log of the profiler, from their start to their end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tamarisk_observe::profile::ProfileLog;
use tamarisk_observe::status::{self, Board, InvalidToken, Token, TokenSource};
use tamarisk_server::tls::Handshakes;
use tamarisk_server::{Drain, DrainTrigger, ListenError, Listeners, Server};
use tamarisk_settings::{Mistakes, Several};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::error::FrontError;
use super::options::FrontOptions;

/// A file that is open and a token that is read, if there are to be any.
pub(super) struct Status {
    token: Option<Arc<HeldToken>>,
    hosts: Vec<String>,
    profile: Option<ProfileLog>,
}

/// The same, and a port that is bound, if there is to be one; nothing is shown yet.
pub(super) struct StatusPort {
    listening: Option<(SocketAddr, TcpListener)>,
    status: Status,
}

/// The status, shown for as long as this is there.
pub(super) struct ShownStatus {
    address: Option<SocketAddr>,
    make_board: Box<dyn Fn() -> Board + Send + Sync>,
    board: Arc<Mutex<Arc<Board>>>,
    token: Option<Arc<HeldToken>>,
    is_passed_on: Arc<AtomicBool>,
    /// Closes the port to new clients.
    port: DrainTrigger,
    _served: JoinSet<()>,
    _profile: Option<ProfileLog>,
}

/// The token that allows changes, and where it stands.
struct HeldToken {
    source: TokenSource,
    token: Mutex<Token>,
}

impl Status {
    /// What `options` say, with a port or without one. What cannot be read or written is noted.
    pub(super) fn open<E: Several + From<FrontError>>(
        options: &FrontOptions,
        mistakes: &mut Mistakes<E>,
    ) -> Option<Self> {
        let token = options.status_token.as_ref().map(HeldToken::read).transpose();
        let token = mistakes.note(token.map_err(FrontError::from));
        let profile = options.profile.clone().map(ProfileLog::open).transpose();
        let profile = mistakes.note(profile.map_err(FrontError::from));
        let hosts = options.status_hosts.clone();
        Some(Self { token: token?.map(Arc::new), hosts, profile: profile? })
    }

    /// Listens where `options` say, if they do.
    pub(super) fn bind(self, options: &FrontOptions) -> Result<StatusPort, ListenError> {
        let bound = |address| {
            let listener = Listeners::bind_here(address, options.status_beside)?;
            let failed = |source| ListenError::Address { address, source };
            Ok::<_, ListenError>((listener.local_addr().map_err(failed)?, listener))
        };
        Ok(StatusPort { listening: options.status.map(bound).transpose()?, status: self })
    }
}

impl StatusPort {
    /// Shows what is in front of the service, and what `show` adds to that.
    ///
    /// # Errors
    /// [`FrontError::Profile`]: the system gives no thread.
    pub(super) fn show(
        self,
        server: &Server,
        handshakes: Option<&Handshakes>,
        drain: &Drain,
        show: impl Fn(Board) -> Board + Send + Sync + 'static,
    ) -> Result<ShownStatus, FrontError> {
        let Self { listening, status: Status { token, hosts, profile } } = self;
        let (server, handshakes, drain) = (server.clone(), handshakes.cloned(), drain.clone());
        let started = Instant::now();
        let (shown_log, held_token) = (profile.clone(), token.clone());
        let is_passed_on = Arc::<AtomicBool>::default();
        let goes_on = Arc::clone(&is_passed_on);
        let make_board = move || {
            let board = Board::new().since(started).server(&server);
            let board = if goes_on.load(Ordering::Relaxed) { board } else { board.drain(&drain) };
            let board = shown_log.iter().fold(board, Board::profile_log);
            let token = held_token.iter().map(|held| held.token.lock().clone());
            let board = token.fold(board, Board::token);
            let board = hosts.iter().fold(board, Board::host);
            show(match handshakes.clone() {
                Some(handshakes) => board.stage(move || handshakes.observe()),
                None => board,
            })
        };
        let board = Arc::new(Mutex::new(Arc::new(make_board())));
        if let Some(log) = &profile {
            // The log has a thread, which must not keep alive what it shows.
            let shown: Weak<Mutex<Arc<Board>>> = Arc::downgrade(&board);
            log.start(move || {
                let board = shown.upgrade().map(|board| Arc::clone(&board.lock()));
                board.map_or_else(Vec::new, |board| board.observe())
            })?;
        }
        let mut served = JoinSet::new();
        let (port, port_drain) = DrainTrigger::new();
        let address = listening.as_ref().map(|(address, _)| *address);
        if let Some((_, listener)) = listening {
            let shown = Arc::clone(&board);
            served.spawn(status::serve(move || Arc::clone(&shown.lock()), listener, port_drain));
        }
        let make_board = Box::new(make_board);
        Ok(ShownStatus {
            address,
            make_board,
            board,
            token,
            is_passed_on,
            port,
            _served: served,
            _profile: profile,
        })
    }
}

impl ShownStatus {
    /// Of the port, if there is one.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Shows the stages that there are now.
    pub(super) fn renew(&self) {
        *self.board.lock() = Arc::new((self.make_board)());
    }

    /// Reads the token again, which the next [renewal](Self::renew) shows.
    pub(super) fn read_token(&self) {
        self.token.iter().for_each(|token| token.read_again());
    }

    /// Leaves new clients to a successor, which listens on the same port. Those that are connected
    /// have up to `timeout`, and are not told of the drain: the service goes on.
    pub(super) fn pass_on(&self, timeout: Duration) {
        self.is_passed_on.store(true, Ordering::Relaxed);
        self.renew();
        self.port.drain(timeout);
    }
}

impl HeldToken {
    fn read(source: &TokenSource) -> Result<Self, InvalidToken> {
        Ok(Self { source: source.clone(), token: Mutex::new(source.read()?) })
    }

    /// What stands there now, if that is a token; else it stays the one that it is.
    fn read_again(&self) {
        match self.source.read() {
            Ok(token) => *self.token.lock() = token,
            Err(error) => tracing::warn!("Status token not reloaded: {error}."),
        }
    }
}
