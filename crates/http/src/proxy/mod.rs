//! The proxy: every request through a gate, then to its upstream.
//!
//! Bodies stream both ways. A request holds its permit from its admission until its
//! answer is ready; a client that leaves cancels what the upstream does for it,
//! because dropping the request drops the connection that it is on.
//!
//! One [`Proxy`] serves one core: its connections to the upstreams are its own. The
//! gates are shared by all cores.

mod body;
mod forwarded;

mod hop_by_hop;
mod line;
mod pool;
mod request_body;
mod request_id;
mod trouble;
mod upgrade;
mod upstream;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_LENGTH, COOKIE, HOST, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use ipnet::IpNet;
use tamarisk_stage::{Entry, GatePermit};

use self::forwarded::Peer;
use self::trouble::Trouble;

use self::request_body::RequestBody;
use self::request_id::{RequestIds, X_REQUEST_ID};
use self::upgrade::Wish;
use self::upstream::{Answered, Reach};
use crate::classify::{self, Choice, Routes};
use crate::hold::Hold;
use crate::refusal::{self, Form};

pub use body::ProxyBody;
pub use upstream::{HostHeader, InvalidUpstream, Origin, Upstream};

/// What all cores share: where requests go.
#[derive(Clone)]
pub struct Site {
    /// Which request goes to which upstream.
    pub routes: Routes,
    /// The upstreams, in the order in which the routes count them.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Proxies in front of this one, whose word on the client is taken.
    pub trusted: Vec<IpNet>,
}

/// One core's proxy.
pub struct Proxy {
    routes: Routes,
    trusted: Vec<IpNet>,
    reaches: Vec<Arc<Reach>>,
    ids: RequestIds,
}

impl Proxy {
    /// A proxy for `site`, with no connections yet.
    pub fn new(site: &Site) -> Arc<Self> {
        let reach = |upstream: &Arc<Upstream>| Arc::new(Reach::new(Arc::clone(upstream)));
        Arc::new(Self {
            routes: site.routes.clone(),
            trusted: site.trusted.clone(),
            reaches: site.upstreams.iter().map(reach).collect(),
            ids: RequestIds::default(),
        })
    }

    /// The service of one client's connection.
    pub fn connect(
        self: &Arc<Self>,
        address: SocketAddr,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<ProxyBody>,
        Error = Infallible,
        Future: Send,
    > + Send
    + use<> {
        let proxy = Arc::clone(self);
        let peer = Arc::new(Peer::new(address, &proxy.trusted));
        service_fn(move |request| {
            let (proxy, peer) = (Arc::clone(&proxy), Arc::clone(&peer));
            async move { Ok(proxy.answer(&peer, request).await) }
        })
    }

    /// Closes connections to upstreams that have long been idle. To be called
    /// every 5 s.
    pub fn sweep(&self) {
        self.reaches.iter().for_each(|reach| reach.sweep());
    }

    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Response<ProxyBody> {
        let Some(choice) = self.choose(peer, &request) else {
            return Trouble::NoRoute.answer(Form::of(request.headers()));
        };
        if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
            return Trouble::Method.answer(Form::of(request.headers()));
        }
        let reach = &self.reaches[choice.upstream];
        let mut entry = Entry::new().class(choice.class);
        if let Some(timeout) = classify::timeout(request.headers()) {
            entry = entry.timeout(timeout);
        }
        let permit = match reach.upstream.gate.enter(entry).await {
            Ok(permit) => permit,
            Err(refused) => return refusal::refused(&refused, Form::of(request.headers())),
        };
        let accept = request.headers().get(ACCEPT).cloned();
        match self.pass(peer, reach, request, permit).await {
            Ok(answer) => answer,
            Err(trouble) => trouble.answer(Form::accepted(accept.as_ref())),
        }
    }

    fn choose(&self, peer: &Peer, request: &Request<Incoming>) -> Option<Choice> {
        let host = match request.uri().authority() {
            Some(authority) => Some(authority.as_str()),
            None => request.headers().get(HOST).and_then(|host| host.to_str().ok()),
        };
        let client = || peer.client(request.headers(), &self.trusted);
        self.routes.choose(request.method(), host, request.uri().path(), request.headers(), client)
    }

    /// Passes a request that was let in to its upstream, and the answer back.
    async fn pass(
        &self,
        peer: &Peer,
        reach: &Arc<Reach>,
        request: Request<Incoming>,
        permit: GatePermit,
    ) -> Result<Response<ProxyBody>, Trouble> {
        let mut request = RequestBody::of(request);
        let wish = self.rewrite(peer, reach, &mut request);
        let clock = reach.upstream.gate.clock();
        let left = permit.deadline().map(|deadline| deadline.since(clock.now()));
        match reach.forward(request, left).await {
            Ok((answer, line)) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let Some(wish) = wish else {
                    permit.fail();
                    return Err(Trouble::Broken);
                };
                permit.complete();
                Ok(switch(answer, line, wish))
            }
            Ok(answered) => deliver(answered, reach, permit),
            Err(trouble) => {
                match trouble {
                    // The client's doing: it says little about the upstream.
                    Trouble::Client(_) | Trouble::Overdue => drop(permit),
                    _ => permit.fail(),
                }
                Err(trouble)
            }
        }
    }

    /// Makes a client's head ours. What the client asks of its connection is
    /// returned if it may be asked of the upstream.
    fn rewrite(
        &self,
        peer: &Peer,
        reach: &Reach,
        request: &mut Request<RequestBody>,
    ) -> Option<Wish> {
        let version = std::mem::replace(request.version_mut(), Version::HTTP_11);
        let client_host = own_the_target(request);
        let headers = request.headers_mut();
        let asked = hop_by_hop::remove(headers);
        if asked.trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        if version == Version::HTTP_2
            && let Some(cookies) = hop_by_hop::remove_joined(headers, COOKIE, "; ")
        {
            // HTTP/2 may cut cookies apart; HTTP/1.1 has one line [RFC9113 §8.2.3].
            headers.insert(COOKIE, cookies);
        }
        peer.announce(headers, client_host.as_ref());
        forwarded::via(headers, version);
        if !headers.get(X_REQUEST_ID).is_some_and(request_id::is_well_formed) {
            headers.insert(X_REQUEST_ID, self.ids.make());
        }
        match &reach.upstream.host_header {
            HostHeader::Client => {}
            HostHeader::Upstream => {
                headers.insert(HOST, reach.upstream.authority().clone());
            }
            HostHeader::Fixed(host) => {
                headers.insert(HOST, host.clone());
            }
        }
        let has_body = !request.body().is_empty();
        let wish = Wish::of(request, asked, has_body)?;
        wish.write(request.headers_mut());
        Some(wish)
    }
}

/// Turns an absolute target into a path and a `Host`, which it overrules
/// [RFC9112 §3.2.2]; the host that was asked for.
fn own_the_target(request: &mut Request<RequestBody>) -> Option<HeaderValue> {
    let Some(authority) = request.uri().authority() else {
        return request.headers().get(HOST).cloned();
    };
    let host = HeaderValue::from_str(authority.as_str()).ok();
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    if let Some(host) = &host {
        request.headers_mut().insert(HOST, host.clone());
    }
    host
}

/// The answer of an upstream as the client gets it.
fn deliver(
    (answer, line): Answered,
    reach: &Arc<Reach>,
    permit: GatePermit,
) -> Result<Response<ProxyBody>, Trouble> {
    let (mut head, body) = answer.into_parts();
    let version = std::mem::replace(&mut head.version, Version::HTTP_11);
    if is_unreadable(&head.headers) {
        permit.fail();
        return Err(Trouble::Broken);
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        head.headers.remove(CONTENT_LENGTH);
    }
    hop_by_hop::remove(&mut head.headers);
    forwarded::via(&mut head.headers, version);
    let failed = head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS;
    let mut hold = Hold::new(permit, failed);
    if is_event_stream(&head.headers) {
        hold.ends();
    }
    let body = ProxyBody::passing(body, line, Arc::clone(reach), hold);
    Ok(Response::from_parts(head, body))
}

/// The answer that changes the protocol.
fn switch(
    mut answer: Response<Incoming>,
    line: Box<line::Line>,
    wish: Wish,
) -> Response<ProxyBody> {
    let asked = hop_by_hop::remove(answer.headers_mut());
    if let Some(protocols) = asked.upgrade {
        upgrade::write(answer.headers_mut(), protocols);
    }
    answer.extensions_mut().insert(wish.grant(line));
    answer.map(|_| ProxyBody::from(""))
}

/// Whether a transfer coding was used that we never said we could read.
fn is_unreadable(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(http::header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(b"text/event-stream"))
}
