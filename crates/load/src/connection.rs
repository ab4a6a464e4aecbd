//! One HTTP/1.1 connection, and the requests that go over it.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::outcome::{ErrorKind, Outcome};

/// Heads of answers may have this many bytes; bodies pass through in pieces.
/// Ample for any head, and small enough for 18,000 connections.
const BUFFER_BYTES: usize = 64 * 1024;

/// An open connection on which no request is under way.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    requests_left: Option<NonZeroU32>,
}

/// A complete answer.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) bytes: u64,
    /// The connection, if it may be used again.
    pub(crate) connection: Option<Connection>,
}

/// Why there is no answer.
pub(crate) enum ExchangeError {
    /// The server had closed the idle connection before anything was sent:
    /// nothing is lost, and another connection may try.
    Stale,
    /// The request is lost.
    Failed(ErrorKind),
}

impl Connection {
    /// Connects to the first of `addresses` that takes it. The connection's own
    /// task runs on the current `LocalSet`, and ends with the connection.
    pub(crate) async fn open(
        addresses: &[SocketAddr],
        requests: Option<NonZeroU32>,
    ) -> Result<Self, ErrorKind> {
        let connecting = TcpStream::connect(addresses);
        let stream = connecting.await.map_err(|error| ErrorKind::of_connecting(&error))?;
        // Without it, Nagle's algorithm holds back the second half of a request
        // until the first is acknowledged, up to 40 ms.
        stream.set_nodelay(true).map_err(|_| ErrorKind::ConnectFailed)?;
        let (sender, driver) = Builder::new()
            .max_buf_size(BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ErrorKind::of_exchange(&error))?;
        tokio::task::spawn_local(async move {
            // Whoever waits for an answer is told of the error by its own future.
            let _ = driver.await;
        });
        Ok(Self { sender, requests_left: requests })
    }

    /// Whether the server has closed it meanwhile.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends `request` and waits for the end of the answer. The last request
    /// that a connection may carry says so to the server.
    pub(crate) async fn exchange(
        mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, ExchangeError> {
        self.sender.ready().await.map_err(|_| ExchangeError::Stale)?;
        let last = self.requests_left.is_some_and(|left| left.get() == 1);
        if last {
            let close = HeaderValue::from_static("close");
            request.headers_mut().insert(header::CONNECTION, close);
        }
        let failed = |error: hyper::Error| match error.is_canceled() {
            true => ExchangeError::Stale,
            false => ExchangeError::Failed(ErrorKind::of_exchange(&error)),
        };
        let response = self.sender.send_request(request).await.map_err(failed)?;
        let outcome = Outcome::of_answer(response.status(), response.headers());
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| ExchangeError::Failed(ErrorKind::of_exchange(&error)))?;
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        let requests_left = self.requests_left.and_then(|left| NonZeroU32::new(left.get() - 1));
        let connection = (!last).then_some(Self { requests_left, ..self });
        Ok(Answer { outcome, bytes, connection })
    }
}
