//! What the site is doing, on a port of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tamarisk_observe::status::{self, Board, Token, TokenSource};
use tamarisk_server::tls::Handshakes;
use tamarisk_server::{Beside, Drain, DrainTrigger, ListenError, Listeners, Server};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::serve::StartError;
use crate::site::Site;

/// Where the status is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusOptions {
    /// The address, which is for operators alone.
    pub listen: SocketAddr,
    /// Where the token stands that allows changes; without one they are refused.
    pub token: Option<TokenSource>,
    /// Host names under which it is shown, besides addresses, `localhost` and the name of the machine.
    pub hosts: Vec<String>,
}

/// A port that is bound, and shows nothing yet.
pub(crate) struct StatusPort {
    address: SocketAddr,
    listener: TcpListener,
    token: Option<Token>,
    hosts: Vec<String>,
}

/// The status, shown for as long as this is there.
pub(crate) struct Shown {
    pub(crate) address: SocketAddr,
    display: Display,
    board: Arc<Mutex<Arc<Board>>>,
    _served: JoinSet<()>,
}

/// What is shown of a site, whatever its stages are at the time.
struct Display {
    site: Site,
    server: Server,
    handshakes: Option<Handshakes>,
    drain: Drain,
    token: Option<Token>,
    hosts: Vec<String>,
    started: Instant,
}

impl StatusPort {
    pub(crate) fn bind(options: &StatusOptions, beside: Beside) -> Result<Self, StartError> {
        let token = options.token.as_ref().map(TokenSource::read).transpose()?;
        let listener = Listeners::bind_here(options.listen, beside)?;
        let failed = |source| ListenError::Address { address: options.listen, source };
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { address, listener, token, hosts: options.hosts.clone() })
    }

    /// Shows what `site` does, behind `server` and the `handshakes`.
    pub(crate) fn show(
        self,
        site: &Site,
        server: &Server,
        handshakes: Option<&Handshakes>,
        drain: &Drain,
    ) -> Shown {
        let Self { address, listener, token, hosts } = self;
        let display = Display {
            site: site.clone(),
            server: server.clone(),
            handshakes: handshakes.cloned(),
            drain: drain.clone(),
            token,
            hosts,
            started: Instant::now(),
        };
        let board = Arc::new(Mutex::new(Arc::new(display.board())));
        let shown = Arc::clone(&board);
        let mut served = JoinSet::new();
        served.spawn(async move {
            // Never triggered: dropping the task closes what is open.
            let (_open, drain) = DrainTrigger::new();
            status::serve(move || Arc::clone(&shown.lock()), listener, drain).await;
        });
        Shown { address, display, board, _served: served }
    }
}

impl Shown {
    /// Shows the stages that the site has now.
    pub(crate) fn renew(&self) {
        *self.board.lock() = Arc::new(self.display.board());
    }
}

impl Display {
    fn board(&self) -> Board {
        let Self { site, server, handshakes, drain, token, hosts, started } = self;
        let mut board = Board::new().since(*started).server(server).drain(drain);
        if let Some(handshakes) = handshakes.clone() {
            board = board.stage(move || handshakes.observe());
        }
        for stage in 0..site.observe().len() {
            let site = site.clone();
            board = board.stage(move || {
                let [files, chunks] = site.observe();
                if stage == 0 { files } else { chunks }
            });
        }
        board = board.rejections(&site.rejections());
        board = site.gates().fold(board, |board, gate| board.gate(&gate));
        board = token.iter().cloned().fold(board, Board::token);
        board = hosts.iter().fold(board, Board::host);
        if let Some(log) = site.log() {
            let help = "Lines of the access log that could not be written.";
            board = board.counter("log_lines_lost", help, move || log.lost());
        }
        board
    }
}
