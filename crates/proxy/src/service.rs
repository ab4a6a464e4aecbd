use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::service::Service;
use tamarisk_observe::access_log::{self, Logged};
use tamarisk_server::guard::Violation;
use tamarisk_server::{ClientBody, FastPath, FastResponse, PlainRequest, Reply};

use crate::answer::proxy_body::ProxyBody;
use crate::forwarded::Peer;
use crate::proxy::Proxy;

impl Proxy {
    /// The service of one client's connection.
    pub fn connect(self: &Arc<Self>, address: SocketAddr) -> ProxyService {
        let peer = Arc::new(self.peer(address));
        ProxyService { proxy: Arc::clone(self), peer, address: address.ip().to_canonical() }
    }
}

/// The service of one client's connection; see [`Proxy::connect`].
pub struct ProxyService {
    proxy: Arc<Proxy>,
    peer: Arc<Peer>,
    address: IpAddr,
}

impl FastPath for ProxyService {
    const ENABLED: bool = false;

    fn fast_response(&self, _: &PlainRequest<'_>, _: Reply<'_, '_>) -> FastResponse {
        FastResponse::NeverAvailable
    }

    fn refused(&self, violation: Violation, body_length: usize) {
        if let Some(log) = &self.proxy.log {
            log.refused(self.address, violation, body_length);
        }
    }
}

impl ProxyService {
    fn entry(&self, request: &Request<ClientBody>) -> Option<Box<access_log::Entry>> {
        let log = self.proxy.log.as_ref()?;
        let client = self.proxy.client(&self.peer, request.headers());
        Some(log.begin(client, &access_log::Asked::from(request)))
    }
}

impl Service<Request<ClientBody>> for ProxyService {
    type Response = Response<Logged<ProxyBody>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        let (proxy, peer) = (Arc::clone(&self.proxy), Arc::clone(&self.peer));
        let mut entry = self.entry(&request);
        Box::pin(async move {
            let answer = proxy.answer(&peer, request, entry.as_deref_mut()).await;
            Ok(Logged::answer(answer, entry))
        })
    }
}
