//! One core's proxy: what becomes of a request, from its head to the answer.

use std::convert::Infallible;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::{ACCEPT, EXPECT, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::Body;
use hyper::service::Service;
use ipnet::IpNet;
use tamarisk_http_gate::{self, Details, ErrorPages, Form};
use tamarisk_observe::access_log::{self, Admission, Log, Logged, Names};
use tamarisk_observe::status::{Rejection, Rejections};
use tamarisk_observe::{RequestId, RequestIds};
use tamarisk_server::guard::Violation;
use tamarisk_server::{ClientBody, FastPath, FastResponse, PlainRequest, Reply};
use tamarisk_stage::{EnterError, Entry};

use crate::answer::proxy_body::ProxyBody;
use crate::budget::{Bounds, Budget};
use crate::classify::{Choice, FactsReader, RequestFacts, Routes};
use crate::error::ProxyError;
use crate::instance::Instance;
use crate::overflow;
use crate::passage::{Passage, has_failed};
use crate::peer::{Peer, Scheme};
use crate::request::body::RequestBody;
use crate::request::intake::{self, Each};
use crate::request_buffering::RequestBuffering;
use crate::upstream::Upstream;
use crate::upstream::client::{Outgoing, UpstreamClient};

/// Connections to upstreams are looked through this often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What all cores share: where requests go.
#[derive(Clone)]
pub struct Site {
    /// Which request goes to which upstream.
    pub routes: Routes,
    /// The upstreams, in the order in which the routes count them.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Trusted proxies, whose forwarding headers are believed.
    pub trusted: Vec<IpNet>,
    /// How clients come here, which upstreams are told.
    pub scheme: Scheme,
    /// By which the proxy knows requests that it has passed on before.
    pub instance: Instance,
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
    instance: Instance,
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
            instance: site.instance.clone(),
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
        let (mut head, body) = request.into_parts();
        let client = || self.client(peer, &head.headers);
        let choice =
            self.routes.choice(route, &head.method, head.uri.path(), &head.headers, client);
        self.answer_as::<Inline>(choice, peer, &mut head, body, entry).await
    }

    async fn answer<P: Placement>(
        &self,
        peer: &Peer,
        head: &mut Parts,
        body: ClientBody,
        entry: Option<&mut access_log::Entry>,
    ) -> Response<ProxyBody> {
        match self.choose(peer, head) {
            Some(choice) => self.answer_as::<P>(choice, peer, head, body, entry).await,
            None => {
                let (id, error) = (self.ids.of(&head.headers), ProxyError::NoRoute);
                if let Some(entry) = entry {
                    entry.set_admission(Admission::without_route(id)).turned_away(error.reason());
                }
                error.answer(Form::of(&head.method, &head.headers), self.details(id.as_str()))
            }
        }
    }

    async fn answer_as<P: Placement>(
        &self,
        choice: Choice,
        peer: &Peer,
        head: &mut Parts,
        body: ClientBody,
        entry: Option<&mut access_log::Entry>,
    ) -> Response<ProxyBody> {
        let form = |head: &Parts| Form::of(&head.method, &head.headers);
        let upstream_client = &self.upstream_clients[choice.upstream];
        let upstream = &upstream_client.upstream;
        let reader = FactsReader {
            trusted: &self.trusted,
            ids: &self.ids,
            clients: &upstream.client,
            instance: &self.instance,
        };
        let facts = reader.read(&head.headers, peer, &choice);
        let RequestFacts { client: address, network: client, id, timeout, entry: asking, .. } =
            facts;
        let mut logged = entry.map(|entry| {
            let route = Arc::clone(self.routes.name(choice.route));
            entry.set_admission(Admission::new(upstream_client.names(route, choice.class), id))
        });
        if facts.has_been_here {
            upstream.leads_back();
        }
        let received = match is_rejected(&choice, &facts, &head.method) {
            Some(error) => Err(error),
            None => {
                let buffering = choice.request_buffering.unwrap_or(upstream.request_buffering);
                self.receive(client, buffering, head, body).await
            }
        };
        let body = match received {
            Ok(received) => received,
            Err(error) => {
                logged.iter_mut().for_each(|logged| logged.turned_away(error.reason()));
                return error.answer(form(head), self.details(id.as_str()));
            }
        };
        // Its client leaves no time for an answer.
        let is_overdue = timeout.is_some_and(|timeout| timeout.is_zero());
        if is_overdue {
            upstream.comes_overdue(choice.class);
        }
        logged.iter_mut().for_each(|logged| logged.offered());
        let is_wanted = upstream.kind_times.is_wanted();
        let is_told = tracing::enabled!(tracing::Level::DEBUG);
        let wanted = (is_wanted || is_told).then(|| (head.method.clone(), head.uri.clone()));
        let asked = (logged.is_some() || wanted.is_some() || timeout.is_some()).then(Instant::now);
        let waited = || asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        let passage = Passage { peer, client, streams: choice.streams, budget: &self.budget };
        let permit = match upstream.gate.enter(asking).await {
            Ok(permit) => permit,
            Err(rejected) => {
                let reason = tamarisk_http_gate::reason(&rejected).as_str();
                let outcome = if rejected == EnterError::Dropped { "dropped" } else { "rejected" };
                if let Some(logged) = &mut logged {
                    logged.rejected(outcome, reason);
                    logged.queued(waited());
                }
                let route = Arc::clone(self.routes.name(choice.route));
                let Names { route, class, stage } = upstream_client.names(route, choice.class);
                if is_overdue {
                    self.rejections.count_overdue(&stage);
                } else {
                    let (at, client) = (SystemTime::now(), address);
                    self.rejections.push(Rejection { at, client, route, stage, class, reason, id });
                }
                let told = Told { method: &head.method, path: head.uri.path(), client: address };
                told.line(outcome, reason, upstream, &id);
                let form = form(head);
                if let Some(overflow) = overflow::of(upstream_client, &rejected, &head.headers) {
                    let left = timeout.map(|timeout| timeout.saturating_sub(waited()));
                    let entry = left.into_iter().fold(asking, Entry::timeout);
                    let rejected_by = upstream_client.upstream.gate();
                    let request = overflow::Excess { head, id: &id, body, entry, rejected_by };
                    // Boxed, for most requests are not rejected.
                    let answer = Box::pin(overflow::answer(&overflow, passage, request, logged));
                    match answer.await {
                        Some(Ok(answer)) => return answer,
                        Some(Err(error)) => return error.answer(form, self.details(id.as_str())),
                        None => {}
                    }
                }
                return tamarisk_http_gate::rejected(&rejected, form, self.details(id.as_str()));
            }
        };
        let queued = waited();
        logged.iter_mut().for_each(|logged| logged.admitted(queued));
        let accept = head.headers.get(ACCEPT).cloned();
        let can_reload = head.method == Method::GET;
        let request = Outgoing { head, id: &id, body, permit };
        let going = passage.go(upstream_client, request, logged.as_deref_mut());
        let answered = P::place(going).await;
        match answered {
            Ok(answer) => {
                let (has_failed, took) = (has_failed(answer.status()), waited() - queued);
                if let Some((method, uri)) = &wanted {
                    let request = (method, uri.path());
                    if has_failed {
                        let status = answer.status().as_u16();
                        let why = format_args!("answered {status} after {took:.1?}");
                        let told = Told { method, path: uri.path(), client: address };
                        told.line("failed", why, upstream, &id);
                    } else if is_wanted {
                        upstream.kind_times.answered(choice.kind, choice.class, request, took);
                    }
                }
                logged.iter_mut().for_each(|logged| logged.answered(has_failed, took));
                answer
            }
            Err(error) => {
                let outcome = error.outcome().as_str();
                if let Some((method, uri)) = &wanted {
                    let told = Told { method, path: uri.path(), client: address };
                    told.line(outcome, error.reason(), upstream, &id);
                }
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
        buffering: RequestBuffering,
        head: &mut Parts,
        body: ClientBody,
    ) -> Result<Option<Box<RequestBody>>, ProxyError> {
        if body.is_end_stream() {
            return Ok(None);
        }
        // Boxed from here on, for most requests have no body.
        if buffering == RequestBuffering::Off {
            return Ok(Some(Box::new(RequestBody::passing(body, &head.headers))));
        }
        let Bounds { body_memory: memory, body: max, .. } = *self.budget.bounds();
        let account = self.budget.account(client);
        let body = Box::pin(intake::read(body, account, Each { memory, max })).await?;
        // The client has been asked for it, so the upstream need not ask.
        head.headers.remove(EXPECT);
        Ok(Some(Box::new(RequestBody::buffered(body))))
    }
}

type Answering =
    Pin<Box<dyn Future<Output = Result<Response<Logged<ProxyBody>>, Infallible>> + Send>>;

/// Where the way of a request through its upstream is kept: half of all the memory that a request needs, and
/// not before it has a place.
trait Placement: 'static {
    fn place<F: Future + Send>(future: F) -> impl Future<Output = F::Output> + Send;
}

/// With the rest, so that nothing more is allocated.
struct Inline;

impl Placement for Inline {
    fn place<F: Future + Send>(future: F) -> impl Future<Output = F::Output> + Send {
        future
    }
}

/// In memory of its own: where the body is still to come, it is not taken until then.
struct Boxed;

impl Placement for Boxed {
    fn place<F: Future + Send>(future: F) -> impl Future<Output = F::Output> + Send {
        Box::pin(future)
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

    fn answer<P: Placement>(&self, request: Request<ClientBody>) -> Answering {
        let (proxy, peer) = (Arc::clone(&self.proxy), Arc::clone(&self.peer));
        let mut entry = self.entry(&request);
        let (mut head, body) = request.into_parts();
        Box::pin(async move {
            let answer = proxy.answer::<P>(&peer, &mut head, body, entry.as_deref_mut()).await;
            Ok(Logged::answer(answer, entry))
        })
    }
}

impl Service<Request<ClientBody>> for ProxyService {
    type Response = Response<Logged<ProxyBody>>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        match request.body().has_come() {
            true => self.answer::<Inline>(request),
            false => self.answer::<Boxed>(request),
        }
    }
}

fn fresh(site: &Site, upstream: &Arc<Upstream>) -> Arc<UpstreamClient> {
    let (abandoned, instance) = (site.budget.abandoned().clone(), site.instance.clone());
    Arc::new(UpstreamClient::new(Arc::clone(upstream), abandoned, instance))
}

/// A request as `--verbose` speaks of it. Its query stays out: it may hold secrets.
struct Told<'r> {
    method: &'r Method,
    path: &'r str,
    client: IpAddr,
}

impl Told<'_> {
    fn line(&self, outcome: &str, why: impl Display, upstream: &Upstream, id: &RequestId) {
        let Self { method, path, client } = self;
        let (shown, id) = (upstream.shown(), id.as_str());
        tracing::debug!("{method} {path} of {client} to {shown} {outcome}: {why} (request {id}).");
    }
}

/// What is not passed on, whatever its route.
fn is_rejected(choice: &Choice, facts: &RequestFacts, method: &Method) -> Option<ProxyError> {
    if facts.has_been_here {
        return Some(ProxyError::Loop);
    }
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Some(ProxyError::Method);
    }
    choice.is_ambiguous.then_some(ProxyError::Path)
}
