//! One core's proxy: what becomes of a request, from its head to the answer.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, EXPECT, HOST, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::service::Service;
use ipnet::IpNet;
use tamarisk_http_gate::{self, Details, ErrorPages, Form, Hold};
use tamarisk_observe::RequestIds;
use tamarisk_observe::access_log::{self, Admission, Log, Logged, Names};
use tamarisk_observe::status::{Rejection, Rejections};
use tamarisk_server::guard::Violation;
use tamarisk_server::{ClientBody, FastPath, FastResponse, PlainRequest, Reply, Tunnel, Upgrade};
use tamarisk_stage::EnterError;
use tokio::io::{AsyncWriteExt, copy_bidirectional};

use crate::answer::delivery::Recipient;
use crate::answer::proxy_body::ProxyBody;
use crate::answer::reader::AnswerHead;
use crate::budget::{Bounds, Budget};
use crate::classify::{Choice, FactsReader, RequestFacts, Routes};
use crate::error::ProxyError;
use crate::peer::{Peer, Scheme};
use crate::request::body::RequestBody;
use crate::request::intake::{self, Each, RequestBuffering};
use crate::upstream::Upstream;
use crate::upstream::client::{Answered, Outgoing, UpstreamClient};

/// Connections to upstreams are looked through this often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What all cores share: where requests go.
#[derive(Clone)]
pub struct Site {
    /// Which request goes to which upstream.
    pub routes: Routes,
    /// The upstreams, in the order in which the routes count them.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Proxies in front of this one, whose word on the client is taken.
    pub trusted: Vec<IpNet>,
    /// How clients come here, which upstreams are told.
    pub scheme: Scheme,
    /// What clients may take up.
    pub budget: Budget,
    /// The operator's own pages in place of ours.
    pub error_pages: ErrorPages,
    /// Where rejections are kept to be shown.
    pub rejections: Rejections,
    /// Where requests are logged that come by [`Proxy::connect`].
    pub log: Option<Log>,
}

/// One core's proxy.
pub struct Proxy {
    routes: Routes,
    trusted: Vec<IpNet>,
    scheme: Scheme,
    budget: Budget,
    error_pages: ErrorPages,
    rejections: Rejections,
    log: Option<Log>,
    upstream_clients: Vec<Arc<UpstreamClient>>,
    ids: RequestIds,
}

impl Proxy {
    /// A proxy for `site`, with no connections yet. As long as it is there, a task on this
    /// core closes those that have long been idle.
    pub fn start(site: &Site) -> Arc<Self> {
        Self::new(site, |upstream| fresh(site, upstream))
    }

    /// The same for another site, on the same core; upstreams that both have keep their
    /// connections.
    pub fn with(&self, site: &Site) -> Arc<Self> {
        Self::new(site, |upstream| {
            let known = |upstream_client: &&Arc<UpstreamClient>| {
                Arc::ptr_eq(&upstream_client.upstream, upstream)
            };
            match self.upstream_clients.iter().find(known) {
                Some(upstream_client) => Arc::clone(upstream_client),
                None => fresh(site, upstream),
            }
        })
    }

    fn new(
        site: &Site,
        upstream_client: impl FnMut(&Arc<Upstream>) -> Arc<UpstreamClient>,
    ) -> Arc<Self> {
        let proxy = Arc::new(Self {
            routes: site.routes.clone(),
            trusted: site.trusted.clone(),
            scheme: site.scheme,
            budget: site.budget.clone(),
            error_pages: site.error_pages.clone(),
            rejections: site.rejections.clone(),
            log: site.log.clone(),
            upstream_clients: site.upstreams.iter().map(upstream_client).collect(),
            ids: RequestIds::default(),
        });
        let swept = Arc::downgrade(&proxy);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
            // The first one comes at once: connections of a proxy before this one may be young.
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let Some(proxy) = swept.upgrade() else { break };
                proxy.upstream_clients.iter().for_each(|upstream_client| upstream_client.sweep());
            }
        });
        proxy
    }

    /// The service of one client's connection.
    pub fn connect(self: &Arc<Self>, address: SocketAddr) -> ProxyService {
        let peer = Arc::new(self.peer(address));
        ProxyService { proxy: Arc::clone(self), peer, address: address.ip().to_canonical() }
    }

    /// The client at `address`, as upstreams are told of it.
    pub fn peer(&self, address: SocketAddr) -> Peer {
        Peer::new(address, &self.trusted, self.scheme)
    }

    /// The client that a request comes from, as far as a trusted peer tells of another one.
    pub fn client(&self, peer: &Peer, headers: &HeaderMap) -> IpAddr {
        peer.client(headers, &self.trusted)
    }

    /// The answer to a request that is known to be for the route of this index; its host
    /// and its path are not looked at. `entry` is the line about it, if it is logged.
    pub async fn answer_on_route(
        &self,
        route: usize,
        peer: &Peer,
        request: Request<ClientBody>,
        entry: Option<&mut access_log::Entry>,
    ) -> Response<ProxyBody> {
        let (head, body) = request.into_parts();
        let client = || self.client(peer, &head.headers);
        let choice =
            self.routes.choice(route, &head.method, head.uri.path(), &head.headers, client);
        self.answer_as(choice, peer, head, body, entry).await
    }

    async fn answer(
        &self,
        peer: &Peer,
        request: Request<ClientBody>,
        entry: Option<&mut access_log::Entry>,
    ) -> Response<ProxyBody> {
        let (head, body) = request.into_parts();
        match self.choose(peer, &head) {
            Some(choice) => self.answer_as(choice, peer, head, body, entry).await,
            None => {
                let id = self.ids.of(&head.headers);
                ProxyError::NoRoute
                    .answer(Form::of(&head.method, &head.headers), self.details(id.as_str()))
            }
        }
    }

    async fn answer_as(
        &self,
        choice: Choice,
        peer: &Peer,
        mut head: Parts,
        body: ClientBody,
        entry: Option<&mut access_log::Entry>,
    ) -> Response<ProxyBody> {
        let form = |head: &Parts| Form::of(&head.method, &head.headers);
        let upstream_client = &self.upstream_clients[choice.upstream];
        let upstream = &upstream_client.upstream;
        let reader =
            FactsReader { trusted: &self.trusted, ids: &self.ids, clients: &upstream.client };
        let RequestFacts { client: address, network: client, id, timeout, is_grpc, entry: asking } =
            reader.read(&head.headers, peer, &choice);
        let mut logged = entry.map(|entry| {
            let route = Arc::clone(self.routes.name(choice.route));
            entry.set_admission(Admission::new(upstream_client.names(route, choice.class), id))
        });
        let received = match is_rejected(&choice, &head.method) {
            Some(error) => Err(error),
            None => self.receive(client, upstream, is_grpc, &mut head, body).await,
        };
        let body = match received {
            Ok(received) => received,
            Err(error) => {
                logged.iter_mut().for_each(|logged| logged.turned_away(error.reason()));
                return error.answer(form(&head), self.details(id.as_str()));
            }
        };
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            upstream.comes_overdue(choice.class);
        }
        logged.iter_mut().for_each(|logged| logged.offered());
        let wanted =
            upstream.kind_times.is_wanted().then(|| (head.method.clone(), head.uri.clone()));
        let asked = (logged.is_some() || wanted.is_some()).then(Instant::now);
        let waited = || asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        let permit = match upstream.gate.enter(asking).await {
            Ok(permit) => permit,
            Err(rejected) => {
                let reason = tamarisk_http_gate::reason(&rejected).as_str();
                let outcome = if rejected == EnterError::Dropped { "dropped" } else { "rejected" };
                if let Some(logged) = logged {
                    logged.rejected(outcome, reason);
                    logged.queued(waited());
                }
                let route = Arc::clone(self.routes.name(choice.route));
                let Names { route, class, stage } = upstream_client.names(route, choice.class);
                self.rejections.push(Rejection {
                    at: SystemTime::now(),
                    client: address,
                    route,
                    stage,
                    class,
                    reason,
                    id,
                });
                tracing::debug!(
                    "Rejected request {} of {client} to {:?} ({outcome}: {reason}).",
                    id.as_str(),
                    upstream_client.upstream.gate.name()
                );
                return tamarisk_http_gate::rejected(
                    &rejected,
                    form(&head),
                    self.details(id.as_str()),
                );
            }
        };
        let queued = waited();
        logged.iter_mut().for_each(|logged| logged.admitted(queued));
        let accept = head.headers.get(ACCEPT).cloned();
        let can_reload = head.method == Method::GET;
        let request = Outgoing { head: &mut head, id: &id, body, permit };
        let answered = match upstream_client.exchange(peer, request).await {
            Ok(answered) if answered.head.status == StatusCode::SWITCHING_PROTOCOLS => {
                switch(answered, head.extensions.remove::<Upgrade>())
            }
            Ok(answered) => {
                let recipient = Recipient { upstream_client, budget: &self.budget, client };
                Ok(deliver(answered, choice.streams, recipient, logged.as_deref_mut()).await)
            }
            Err(error) => Err(error),
        };
        match answered {
            Ok(answer) => {
                let (has_failed, took) = (has_failed(answer.status()), waited() - queued);
                if let Some((method, uri)) = wanted.filter(|_| !has_failed) {
                    let request = (&method, uri.path());
                    upstream.kind_times.answered(choice.kind, choice.class, request, took);
                }
                logged.iter_mut().for_each(|logged| logged.answered(has_failed, took));
                answer
            }
            Err(error) => {
                let outcome = if error.is_of_the_client() { "terminated" } else { "failed" };
                tracing::debug!(
                    "Request {} of {client} to {:?} {outcome}: {}.",
                    id.as_str(),
                    upstream_client.upstream.gate.name(),
                    error.reason()
                );
                logged.iter_mut().for_each(|logged| {
                    logged.unanswered(outcome, error.reason(), waited() - queued);
                });
                let form = Form::accepted(accept.as_ref().map(HeaderValue::as_bytes), can_reload);
                error.answer(form, self.details(id.as_str()))
            }
        }
    }

    /// What an answer of ours says besides.
    fn details<'a>(&'a self, request_id: &'a str) -> Details<'a> {
        let pages = Some(&self.error_pages);
        Details { request_id: Some(request_id), pages, ..Details::default() }
    }

    fn choose(&self, peer: &Peer, head: &Parts) -> Option<Choice> {
        let host = || match head.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => head.headers.get(HOST).and_then(|host| host.to_str().ok()),
        };
        let client = || self.client(peer, &head.headers);
        self.routes.choose(&head.method, host, head.uri.path(), &head.headers, client)
    }

    /// The body of a request: all of it, if there is one and it is to be buffered.
    async fn receive(
        &self,
        client: IpAddr,
        upstream: &Upstream,
        is_grpc: bool,
        head: &mut Parts,
        body: ClientBody,
    ) -> Result<Option<RequestBody>, ProxyError> {
        if body.is_end_stream() {
            return Ok(None);
        }
        let is_buffered = upstream.request_buffering == RequestBuffering::MemoryAndFile && !is_grpc;
        if !is_buffered {
            return Ok(Some(RequestBody::passing(body, &head.headers)));
        }
        let Bounds { body_memory: memory, body: max, .. } = *self.budget.bounds();
        let account = self.budget.account(client);
        // Boxed, for most requests have no body.
        let body = Box::pin(intake::read(body, account, Each { memory, max })).await?;
        // The client has been asked for it, so the upstream need not ask.
        head.headers.remove(EXPECT);
        Ok(Some(RequestBody::buffered(body)))
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

    fn rejected(&self, violation: Violation, body_length: usize) {
        if let Some(log) = &self.proxy.log {
            log.rejected(self.address, violation, body_length);
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

fn fresh(site: &Site, upstream: &Arc<Upstream>) -> Arc<UpstreamClient> {
    Arc::new(UpstreamClient::new(Arc::clone(upstream), site.budget.abandoned().clone()))
}

/// What is not passed on, whatever its route.
fn is_rejected(choice: &Choice, method: &Method) -> Option<ProxyError> {
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Some(ProxyError::Method);
    }
    choice.has_dots.then_some(ProxyError::Path)
}

/// Whether an answer with this status counts as failed.
fn has_failed(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// The answer of an upstream as the client gets it.
async fn deliver(
    answered: Answered,
    streams: bool,
    recipient: Recipient<'_>,
    logged: Option<&mut Admission>,
) -> Response<ProxyBody> {
    let Answered { mut head, connection, permit, .. } = answered;
    let failure = has_failed(head.status).then(|| format!("answered {}", head.status.as_u16()));
    let mut hold = Hold::new(permit, failure);
    if streams || head.is_stream {
        hold.streams();
    }
    if let Some(logged) = logged {
        logged.held(hold.outcome());
    }
    let body = match head.whole.take() {
        Some(bytes) => {
            hold.completes(bytes.len());
            recipient.upstream_client.give_back(connection);
            ProxyBody::whole(bytes)
        }
        None => ProxyBody::passing(connection, hold, recipient).await,
    };
    with_head(head, body)
}

/// The answer that changes the protocol. What follows on either connection goes
/// to the other one, once the client's has taken this answer.
fn switch(answered: Answered, client: Option<Upgrade>) -> Result<Response<ProxyBody>, ProxyError> {
    let Answered { mut head, connection, permit, wish } = answered;
    let (Some(client), Some(_)) = (client, wish) else {
        permit.fail_because("changed protocols without being asked to");
        return Err(ProxyError::Broken);
    };
    permit.complete();
    let upgrade = head.upgrade.take();
    let mut answer = with_head(head, ProxyBody::from(Bytes::new()));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    answer.headers_mut().extend(upgrade.map(|protocols| (UPGRADE, protocols)));
    answer.extensions_mut().insert(Tunnel::new(async move {
        let (mut upstream, read_ahead) = connection.into_stream();
        let Ok(mut client) = client.await else { return };
        // Whichever end breaks off, the other one is closed.
        if client.write_all(&read_ahead).await.is_ok() {
            let _ = copy_bidirectional(&mut client, &mut upstream).await;
        }
    }));
    Ok(answer)
}

fn with_head(head: AnswerHead, body: ProxyBody) -> Response<ProxyBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    if let Some(reason) = head.reason {
        answer.extensions_mut().insert(reason);
    }
    answer
}
