//! What the site is doing, on a port of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use tamarisk_http::server::{Drain, DrainTrigger, ListenError, Listeners, Server};
use tamarisk_http::status::{self, Board, Token, TokenSource};
use tamarisk_http::tls::Handshakes;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::serve::StartError;
use crate::site::Site;

/// Where the status is to be shown.
#[derive(Clone, Debug)]
pub struct StatusOptions {
    /// The address, which is for operators alone.
    pub listen: SocketAddr,
    /// Where the token stands that allows changes; without one they are refused.
    pub token: Option<TokenSource>,
}

/// A port that is bound, and shows nothing yet.
pub(crate) struct StatusPort {
    address: SocketAddr,
    listener: TcpListener,
    token: Option<Token>,
}

/// The status, shown for as long as this is there.
pub(crate) struct Shown {
    pub(crate) address: SocketAddr,
    _served: JoinSet<()>,
}

impl StatusPort {
    pub(crate) fn bind(options: &StatusOptions) -> Result<Self, StartError> {
        let token = options.token.as_ref().map(TokenSource::read).transpose()?;
        let listener = Listeners::bind_here(options.listen)?;
        let failed = |source| ListenError::Address { address: options.listen, source };
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { address, listener, token })
    }

    /// Shows what `site` does, behind `server` and the `handshakes`.
    pub(crate) fn show(
        self,
        site: &Site,
        server: &Server,
        handshakes: Option<&Handshakes>,
        drain: &Drain,
    ) -> Shown {
        let Self { address, listener, token } = self;
        let mut board = Board::new().server(server).drain(drain);
        if let Some(handshakes) = handshakes.cloned() {
            board = board.stage(move || handshakes.observe());
        }
        for stage in 0..site.observe().len() {
            let site = site.clone();
            board = board.stage(move || {
                let [files, chunks] = site.observe();
                if stage == 0 { files } else { chunks }
            });
        }
        board = site.gates().fold(board, Board::gate);
        board = token.into_iter().fold(board, Board::token);
        if let Some(log) = site.log().cloned() {
            let help = "Lines of the access log that could not be written.";
            board = board.counter("log_lines_lost", help, move || log.lost());
        }
        let mut served = JoinSet::new();
        served.spawn(async move {
            // Never triggered: dropping the task closes what is open.
            let (_open, drain) = DrainTrigger::new();
            status::serve(Arc::new(board), listener, drain).await;
        });
        Shown { address, _served: served }
    }
}
