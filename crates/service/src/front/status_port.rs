//! The status of a service: its port and the log of the profiler, from their start to their end.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tamarisk_observe::profile::ProfileLog;
use tamarisk_observe::status::{self, Board, Token, TokenSource};
use tamarisk_server::tls::Handshakes;
use tamarisk_server::{AlreadyListening, Drain, DrainTrigger, ListenError, Listeners, Server};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::error::FrontError;
use super::options::FrontOptions;

/// A port that is bound and a file that is open, if there are to be any; nothing is shown yet.
pub(super) struct StatusPort {
    listening: Option<(SocketAddr, TcpListener)>,
    token: Option<Token>,
    hosts: Vec<String>,
    profile: Option<ProfileLog>,
}

/// The status, shown for as long as this is there.
pub(super) struct ShownStatus {
    address: Option<SocketAddr>,
    make_board: Box<dyn Fn() -> Board + Send + Sync>,
    board: Arc<Mutex<Arc<Board>>>,
    _served: JoinSet<()>,
    _profile: Option<ProfileLog>,
}

impl StatusPort {
    /// Where `options` say, if they do. The token is read in any case.
    pub(super) fn bind(
        options: &FrontOptions,
        beside: AlreadyListening,
    ) -> Result<Self, FrontError> {
        let token = options.status_token.as_ref().map(TokenSource::read).transpose()?;
        let bound = |address| {
            let listener = Listeners::bind_here(address, beside)?;
            let failed = |source| ListenError::Address { address, source };
            Ok::<_, ListenError>((listener.local_addr().map_err(failed)?, listener))
        };
        let listening = options.status.map(bound).transpose()?;
        let profile = options.profile.clone().map(ProfileLog::open).transpose()?;
        Ok(Self { listening, token, hosts: options.status_hosts.clone(), profile })
    }

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
        let Self { listening, token, hosts, profile } = self;
        let (server, handshakes, drain) = (server.clone(), handshakes.cloned(), drain.clone());
        let started = Instant::now();
        let shown_log = profile.clone();
        let make_board = move || {
            let board = Board::new().since(started).server(&server).drain(&drain);
            let board = shown_log.iter().fold(board, Board::profile_log);
            let board = token.iter().cloned().fold(board, Board::token);
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
        let address = listening.as_ref().map(|(address, _)| *address);
        if let Some((_, listener)) = listening {
            let shown = Arc::clone(&board);
            served.spawn(async move {
                // Never triggered: dropping the task closes what is open.
                let (_open, drain) = DrainTrigger::new();
                status::serve(move || Arc::clone(&shown.lock()), listener, drain).await;
            });
        }
        let make_board = Box::new(make_board);
        Ok(ShownStatus { address, make_board, board, _served: served, _profile: profile })
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
}
