use http::{HeaderMap, HeaderValue, Request, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy_bidirectional};

use super::hop_by_hop::Asked;
use super::line::Line;
use crate::server::Tunnel;

/// A request to change the protocol that may be passed on.
pub(super) struct Wish {
    client: OnUpgrade,
    protocols: HeaderValue,
}

impl Wish {
    /// What a client asks for, unless it comes with a body or asks for HTTP/2:
    /// through that, a client could speak past the proxy to the upstream.
    pub(super) fn of<B>(request: &mut Request<B>, asked: Asked, has_body: bool) -> Option<Self> {
        let protocols = asked.upgrade?;
        let is_http2 = protocols.as_bytes().to_ascii_lowercase().starts_with(b"h2");
        let client = request.extensions_mut().remove::<OnUpgrade>()?;
        (!is_http2 && !has_body).then_some(Self { client, protocols })
    }

    /// Puts the wish into the head of the request that is passed on.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        write(headers, self.protocols.clone());
    }

    /// The upstream granted it: both ends are joined once the client's
    /// connection has taken the answer.
    pub(super) fn grant(self, line: Box<Line>) -> Tunnel {
        Tunnel::new(async move {
            let (mut upstream, read_ahead) = line.into_stream().await;
            let Ok(client) = self.client.await else { return };
            let mut client = TokioIo::new(client);
            // Whichever end breaks off, the other one is closed.
            if client.write_all(&read_ahead).await.is_ok() {
                let _ = copy_bidirectional(&mut client, &mut upstream).await;
            }
        })
    }
}

/// Names the protocols again in a head from which the fields of its connection
/// have been removed.
pub(super) fn write(headers: &mut HeaderMap, protocols: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocols);
}
