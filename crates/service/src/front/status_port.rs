//! The status port of a service: starting and stopping it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tamarisk_observe::status::{self, Board, Token, TokenSource};
use tamarisk_server::tls::Handshakes;
use tamarisk_server::{AlreadyListening, Drain, DrainTrigger, ListenError, Listeners, Server};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::error::FrontError;
use super::options::FrontOptions;

/// A port that is bound, and shows nothing yet.
pub(super) struct StatusPort {
    address: SocketAddr,
    listener: TcpListener,
    token: Option<Token>,
    hosts: Vec<String>,
}

/// The status, shown for as long as this is there.
pub(super) struct ShownStatus {
    address: SocketAddr,
    make_board: Box<dyn Fn() -> Board + Send + Sync>,
    board: Arc<Mutex<Arc<Board>>>,
    _served: JoinSet<()>,
}

impl StatusPort {
    /// Where `options` say, if they do. The token is read in any case.
    pub(super) fn bind(
        options: &FrontOptions,
        beside: AlreadyListening,
    ) -> Result<Option<Self>, FrontError> {
        let token = options.status_token.as_ref().map(TokenSource::read).transpose()?;
        let Some(address) = options.status else { return Ok(None) };
        let listener = Listeners::bind_here(address, beside)?;
        let failed = |source| ListenError::Address { address, source };
        let address = listener.local_addr().map_err(failed)?;
        Ok(Some(Self { address, listener, token, hosts: options.status_hosts.clone() }))
    }

    /// Shows what is in front of the service, and what `show` adds to that.
    pub(super) fn show(
        self,
        server: &Server,
        handshakes: Option<&Handshakes>,
        drain: &Drain,
        show: impl Fn(Board) -> Board + Send + Sync + 'static,
    ) -> ShownStatus {
        let Self { address, listener, token, hosts } = self;
        let (server, handshakes, drain) = (server.clone(), handshakes.cloned(), drain.clone());
        let started = Instant::now();
        let make_board = move || {
            let board = Board::new().since(started).server(&server).drain(&drain);
            let board = token.iter().cloned().fold(board, Board::token);
            let board = hosts.iter().fold(board, Board::host);
            show(match handshakes.clone() {
                Some(handshakes) => board.stage(move || handshakes.observe()),
                None => board,
            })
        };
        let board = Arc::new(Mutex::new(Arc::new(make_board())));
        let shown = Arc::clone(&board);
        let mut served = JoinSet::new();
        served.spawn(async move {
            // Never triggered: dropping the task closes what is open.
            let (_open, drain) = DrainTrigger::new();
            status::serve(move || Arc::clone(&shown.lock()), listener, drain).await;
        });
        ShownStatus { address, make_board: Box::new(make_board), board, _served: served }
    }
}

impl ShownStatus {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows the stages that there are now.
    pub(super) fn renew(&self) {
        *self.board.lock() = Arc::new((self.make_board)());
    }
}
