//! A client's connection: handles its requests one after another.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as ready_now};

use http::header::{ACCEPT, CACHE_CONTROL, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::service::Service;
use tamarisk_observe::access_log::{Asked, Entry, Logged};
use tamarisk_proxy::{Peer, Proxy};
use tamarisk_server::ClientBody;

use crate::answer::body::SiteBody;
use crate::answer::rejection::rejection;
use crate::answer::{self, Answer, Wish};
use crate::cache::loading::Loading;
use crate::cache::outcome::{LoadOutcome, Loaded, NoPage};
use crate::cache::page_cache::PageKey;
use crate::cache::pages::Pages;
use crate::disk::path::{InvalidPath, SitePath};
use crate::page::Page;
use crate::page_asked::PageAsked;
use crate::site::core_snapshot::{Core, CoreSnapshot};
use crate::site::host::{Host, RouteTarget, ServedFolder};

/// The service of one client's connection.
pub struct Connection {
    pub(crate) core: Arc<Core>,
    pub(crate) address: SocketAddr,
    /// The client as services behind are told of it, and by which snapshot.
    peer: RefCell<Option<(u64, Arc<Peer>)>>,
    /// For the request that this is called with next, over HTTP/1: it was looked at before. Boxed,
    /// for most connections are idle.
    begun: Cell<Option<Box<Loading>>>,
}

impl Connection {
    pub(crate) fn new(core: Arc<Core>, address: SocketAddr) -> Self {
        Self { core, address, peer: RefCell::default(), begun: Cell::default() }
    }

    /// Keeps what the next request has been found to wait for.
    pub(crate) fn keep(&self, begun: Loading) {
        self.begun.set(Some(Box::new(begun)));
    }

    fn answer(
        &self,
        snapshot: &CoreSnapshot,
        begun: Option<Loading>,
        request: Request<ClientBody>,
        entry: &mut Option<Box<Entry>>,
    ) -> Pending {
        let authority = match request.uri().authority() {
            Some(authority) => Some(authority.as_str()),
            None => request.headers().get(HOST).and_then(|host| host.to_str().ok()),
        };
        let path = request.uri().path();
        let Some((host, target)) = snapshot.site.hosts.target(authority, path) else {
            return Pending::at_once(answer::message(StatusCode::MISDIRECTED_REQUEST));
        };
        let pages = &snapshot.site.pages;
        match target {
            Some((RouteTarget::Folder(folder), rest)) => match without_page(folder, rest, &request)
            {
                Ok(answer) => own(pages, host, answer, &request, entry),
                Err(key) => self.page(snapshot, host, folder, (key, begun), request, entry),
            },
            Some((RouteTarget::Redirect(redirect), rest)) => {
                Pending::at_once(answer::redirect(redirect, rest, request.uri().query()))
            }
            Some((RouteTarget::Proxy(route), _)) => {
                self.forward(snapshot, host, *route, request, entry.take())
            }
            None => own(pages, host, answer::message(StatusCode::NOT_FOUND), &request, entry),
        }
    }

    fn forward(
        &self,
        snapshot: &CoreSnapshot,
        host: &Arc<Host>,
        route: usize,
        request: Request<ClientBody>,
        mut entry: Option<Box<Entry>>,
    ) -> Pending {
        let Some(proxy) = &snapshot.proxy else { unreachable!("there is a route to a service") };
        let (proxy, peer) = (Arc::clone(proxy), self.peer(snapshot.number, proxy));
        let (pages, host) = (Arc::clone(&snapshot.site.pages), Arc::clone(host));
        let wish = Wish::of(request.method(), request.headers());
        Pending::Later(Box::pin(async move {
            let entry_of_proxy = entry.as_deref_mut();
            let answer = proxy.answer_on_route(route, &peer, request, entry_of_proxy).await;
            let is_ours = answer.body().is_ours();
            let answer = answer::passing(answer);
            let answer = if is_ours { dressed(answer, &host, wish, &pages).await } else { answer };
            (answer, entry)
        }))
    }

    /// The client, as `proxy` of the snapshot of this `number` sees it.
    fn peer(&self, number: u64, proxy: &Proxy) -> Arc<Peer> {
        let mut known = self.peer.borrow_mut();
        match &*known {
            Some((of, peer)) if *of == number => Arc::clone(peer),
            _ => {
                let peer = Arc::new(proxy.peer(self.address));
                *known = Some((number, Arc::clone(&peer)));
                peer
            }
        }
    }

    fn entry(&self, snapshot: &CoreSnapshot, request: &Request<ClientBody>) -> Option<Box<Entry>> {
        let log = snapshot.site.log.as_ref()?;
        Some(log.begin(self.client(snapshot, request.headers()), &Asked::from(request)))
    }

    fn client(&self, snapshot: &CoreSnapshot, headers: &HeaderMap) -> IpAddr {
        match &snapshot.proxy {
            Some(proxy) => proxy.client(&self.peer(snapshot.number, proxy), headers),
            None => self.address.ip().to_canonical(),
        }
    }

    /// An answer from memory or from the disk, where it may have been asked for already.
    fn page(
        &self,
        snapshot: &CoreSnapshot,
        host: &Arc<Host>,
        folder: &ServedFolder,
        (key, begun): (PageKey, Option<Loading>),
        request: Request<ClientBody>,
        entry: &mut Option<Box<Entry>>,
    ) -> Pending {
        let pages = &snapshot.site.pages;
        let loading = match begun.filter(|begun| begun.key == key) {
            Some(begun) => begun,
            None => match pages.in_memory(&folder.source, &key) {
                Some(known) => {
                    let (method, headers) = (request.method(), request.headers());
                    let answer = match known {
                        Ok(Loaded::Page(page)) => {
                            found(&page, method, headers, folder.cache_control.as_ref())
                        }
                        Ok(Loaded::Folder) => {
                            answer::folder(request.uri().path(), request.uri().query())
                        }
                        Err(status) => answer::message(status),
                    };
                    return own(pages, host, answer, &request, entry);
                }
                None => Loading::new(pages, &folder.source, key),
            },
        };
        let asked = PageAsked {
            client: self.client(snapshot, request.headers()),
            id: self.core.ids.of(request.headers()),
            names: folder.names.clone(),
            rejections: snapshot.site.proxy.rejections.clone(),
        };
        let (pages, host, mut entry) = (Arc::clone(pages), Arc::clone(host), entry.take());
        let cache_control = folder.cache_control.clone();
        let (Parts { method, uri, headers, .. }, _) = request.into_parts();
        Pending::Later(Box::pin(async move {
            let LoadOutcome { loaded, waited } = loading.await;
            let (id, logged) = (asked.id, entry.as_deref_mut());
            match &loaded {
                Err(NoPage::NotNow(why)) => asked.rejected(*why, logged),
                _ => asked.answered(waited, logged),
            }
            let answer = match loaded {
                Ok(Loaded::Page(page)) => found(&page, &method, &headers, cache_control.as_ref()),
                Ok(Loaded::Folder) => answer::folder(uri.path(), uri.query()),
                Err(NoPage::Status(status)) => answer::message(status),
                Err(NoPage::NotNow(why)) => {
                    let accept = headers.get(ACCEPT).map(HeaderValue::as_bytes);
                    rejection(why, accept, method == Method::GET, &id)
                }
            };
            (dressed(answer, &host, Wish::of(&method, &headers), &pages).await, entry)
        }))
    }
}

/// An answer that needs no page, or the one that is asked for at the path `rest` in `folder`.
fn without_page(
    folder: &ServedFolder,
    rest: &str,
    request: &Request<ClientBody>,
) -> Result<Answer, PageKey> {
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return Ok(answer::options()),
        _ => return Ok(answer::not_allowed()),
    }
    got_without_page(folder, rest, request.uri().path(), request.uri().query())
}

/// The same for a GET or HEAD of this `path`.
pub(crate) fn got_without_page(
    folder: &ServedFolder,
    rest: &str,
    path: &str,
    query: Option<&str>,
) -> Result<Answer, PageKey> {
    if rest.is_empty() {
        return Ok(answer::folder(path, query));
    }
    match SitePath::of(rest, folder.hidden) {
        Ok(path) => Err(folder.source.key(path)),
        Err(error) => Ok(answer::message(status_of(error))),
    }
}

/// An answer of ours, or the page that the host has for it.
fn own(
    pages: &Arc<Pages>,
    host: &Arc<Host>,
    answer: Answer,
    request: &Request<ClientBody>,
    entry: &mut Option<Box<Entry>>,
) -> Pending {
    if answer.status().is_success() {
        return Pending::at_once(answer);
    }
    let wish = Wish::of(request.method(), request.headers());
    let answer = match dressed_at_once(answer, host, &wish, pages) {
        Break(answer) => return Pending::at_once(answer),
        Continue(answer) => answer,
    };
    let (pages, host) = (Arc::clone(pages), Arc::clone(host));
    let entry = entry.take();
    Pending::Later(Box::pin(async move { (dressed(answer, &host, wish, &pages).await, entry) }))
}

/// With the page that the host has for its status, if it has one and it can be had, or ours.
async fn dressed(answer: Answer, host: &Host, wish: Wish, pages: &Arc<Pages>) -> Answer {
    let answer = match dressed_at_once(answer, host, &wish, pages) {
        Break(answer) => return answer,
        Continue(answer) => answer,
    };
    let Some((source, path)) = host.error_page(answer.status()) else { return answer };
    match pages.load(source, &source.key(path.clone())).await.loaded {
        Ok(Loaded::Page(page)) => answer::with_page(answer, &page, &wish),
        Ok(Loaded::Folder) | Err(_) => answer::for_people(answer, &wish),
    }
}

/// The same without waiting; the answer as it was, to continue with, if the host's page is not in
/// memory.
pub(crate) fn dressed_at_once(
    answer: Answer,
    host: &Host,
    wish: &Wish,
    pages: &Arc<Pages>,
) -> ControlFlow<Answer, Answer> {
    let page = host.error_page(answer.status()).filter(|_| answer::is_text(&answer));
    let Some((source, path)) = page else { return Break(answer::for_people(answer, wish)) };
    match pages.in_memory(source, &source.key(path.clone())) {
        Some(Ok(Loaded::Page(page))) => Break(answer::with_page(answer, &page, wish)),
        Some(Ok(Loaded::Folder) | Err(_)) => Break(answer::for_people(answer, wish)),
        None => Continue(answer),
    }
}

pub(crate) fn found(
    page: &Page,
    method: &Method,
    headers: &HeaderMap,
    cache_control: Option<&HeaderValue>,
) -> Answer {
    let mut answer = answer::page(page, method, headers);
    let status = answer.status();
    if let Some(field) = cache_control
        && (status.is_success() || status == StatusCode::NOT_MODIFIED)
    {
        answer.headers_mut().insert(CACHE_CONTROL, field.clone());
    }
    answer
}

fn status_of(error: InvalidPath) -> StatusCode {
    match error {
        InvalidPath::Hidden => StatusCode::NOT_FOUND,
        // No file system has it; the request line itself is within its limit.
        InvalidPath::TooLong => StatusCode::NOT_FOUND,
        InvalidPath::Relative
        | InvalidPath::Escape
        | InvalidPath::Encoded
        | InvalidPath::Climbs => StatusCode::BAD_REQUEST,
    }
}

impl Service<Request<ClientBody>> for Connection {
    type Response = Response<Logged<SiteBody>>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<ClientBody>) -> Answering {
        let snapshot = self.core.snapshot();
        let mut entry = self.entry(&snapshot, &request);
        let begun = self.begun.take().map(|begun| *begun);
        let pending = self.answer(&snapshot, begun, request, &mut entry);
        Answering { pending, entry }
    }
}

/// An answer that is there, or comes once the disk or a service has spoken.
pub struct Answering {
    pending: Pending,
    /// The line about the request.
    entry: Option<Box<Entry>>,
}

/// An answer, and the line about its request.
type LoggedAnswer = (Answer, Option<Box<Entry>>);

enum Pending {
    /// From memory: nothing is allocated for the wait.
    AtOnce(Ready<Answer>),
    /// From the disk or a service behind, which may say more for the line about the request.
    Later(Pin<Box<dyn Future<Output = LoggedAnswer> + Send>>),
}

impl Pending {
    fn at_once(answer: Answer) -> Self {
        Self::AtOnce(ready(answer))
    }
}

impl Future for Answering {
    type Output = Result<Response<Logged<SiteBody>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (answer, entry) = match &mut self.pending {
            Pending::AtOnce(answer) => (ready_now!(Pin::new(answer).poll(cx)), self.entry.take()),
            Pending::Later(answer) => ready_now!(answer.as_mut().poll(cx)),
        };
        Poll::Ready(Ok(Logged::answer(answer, entry)))
    }
}
