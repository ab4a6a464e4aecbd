//! Requests of one connection in, answers out.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as ready_now};

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::Service;
use tamarisk_http::proxy::{Peer, Proxy};

use crate::answer::{self, Answer, Wish};
use crate::cache::{Loaded, PageKey};
use crate::files::Files;
use crate::log::Entry;
use crate::page::Page;
use crate::pages::Pages;
use crate::path::{InvalidPath, SitePath};
use crate::site::{Host, Place, Site, Way};

/// A site on one core, whose connections to other services are its own.
pub struct CoreSite {
    site: Site,
    /// There is none where nothing needs it.
    proxy: Option<Arc<Proxy>>,
}

impl Site {
    /// The site on the core whose runtime this is called on.
    pub fn on_core(&self) -> CoreSite {
        let proxy = &self.0.proxy;
        let is_needed = !proxy.upstreams.is_empty() || !proxy.trusted.is_empty();
        CoreSite { site: self.clone(), proxy: is_needed.then(|| Proxy::start(proxy)) }
    }
}

impl CoreSite {
    /// The service of the connection of the client at `address`.
    pub fn connect(&self, address: SocketAddr) -> Connection {
        let proxy = self.proxy.as_ref();
        Connection {
            site: self.site.clone(),
            address: address.ip().to_canonical(),
            proxy: proxy.map(|proxy| (Arc::clone(proxy), Arc::new(proxy.peer(address)))),
        }
    }
}

/// The service of one client's connection.
pub struct Connection {
    site: Site,
    address: IpAddr,
    proxy: Option<(Arc<Proxy>, Arc<Peer>)>,
}

impl Connection {
    fn answer(&self, request: Request<Incoming>) -> Pending {
        let authority = match request.uri().authority() {
            Some(authority) => Some(authority.as_str()),
            None => request.headers().get(HOST).and_then(|host| host.to_str().ok()),
        };
        let Some(host) = self.site.0.hosts.find(authority) else {
            return Pending::at_once(answer::message(StatusCode::MISDIRECTED_REQUEST));
        };
        match host.way(request.uri().path()) {
            Some((Way::Folder(place), rest)) => match self.at_hand(place, rest, &request) {
                Ok(answer) => self.own(host, answer, &request),
                Err(key) => self.load(host, place, key, request),
            },
            Some((Way::Redirect(redirect), rest)) => {
                Pending::at_once(answer::redirect(redirect, rest, request.uri().query()))
            }
            Some((Way::Proxy(route), _)) => self.forward(host, *route, request),
            None => self.own(host, answer::message(StatusCode::NOT_FOUND), &request),
        }
    }

    /// The answer that can be given without the disk, or the page that is to be loaded for it.
    fn at_hand(
        &self,
        place: &Place,
        rest: &str,
        request: &Request<Incoming>,
    ) -> Result<Answer, PageKey> {
        let (method, uri) = (request.method(), request.uri());
        match *method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return Ok(answer::options()),
            _ => return Ok(answer::not_allowed()),
        }
        if rest.is_empty() {
            return Ok(answer::folder(uri.path(), uri.query()));
        }
        let path = match SitePath::of(rest, place.hidden) {
            Ok(path) => path,
            Err(error) => return Ok(answer::message(status_of(error))),
        };
        let key = PageKey { folder: place.folder, path };
        let pages = &self.site.0.pages;
        match pages.at_hand(&key) {
            Some(page) => {
                let cache_control = place.cache_control.as_ref();
                Ok(found(&page, method, request.headers(), cache_control, &pages.files))
            }
            None => Err(key),
        }
    }

    /// An answer from the disk.
    fn load(
        &self,
        host: &Arc<Host>,
        place: &Place,
        key: PageKey,
        request: Request<Incoming>,
    ) -> Pending {
        let (pages, host) = (Arc::clone(&self.site.0.pages), Arc::clone(host));
        let cache_control = place.cache_control.clone();
        let (Parts { method, uri, headers, .. }, _) = request.into_parts();
        Pending::later(async move {
            let answer = match pages.load(&key).await {
                Ok(Loaded::Page(page)) => {
                    found(&page, &method, &headers, cache_control.as_ref(), &pages.files)
                }
                Ok(Loaded::Folder) => answer::folder(uri.path(), uri.query()),
                Err(answer) => answer,
            };
            dressed(answer, &host, Wish::of(&method, &headers), &pages).await
        })
    }

    /// An answer of ours, or the page that the host has for it.
    fn own(&self, host: &Arc<Host>, answer: Answer, request: &Request<Incoming>) -> Pending {
        if host.error_page(answer.status()).is_none() {
            return Pending::at_once(answer);
        }
        let wish = Wish::of(request.method(), request.headers());
        let (pages, host) = (Arc::clone(&self.site.0.pages), Arc::clone(host));
        Pending::later(async move { dressed(answer, &host, wish, &pages).await })
    }

    fn forward(&self, host: &Arc<Host>, route: usize, request: Request<Incoming>) -> Pending {
        let Some((proxy, peer)) = &self.proxy else {
            unreachable!("there is a route to a service")
        };
        let (proxy, peer) = (Arc::clone(proxy), Arc::clone(peer));
        let (pages, host) = (Arc::clone(&self.site.0.pages), Arc::clone(host));
        let wish = Wish::of(request.method(), request.headers());
        Pending::later(async move {
            let answer = proxy.answer_on_route(route, &peer, request).await;
            // Who asked for JSON is told in JSON.
            let is_text = |field: &HeaderValue| field.as_bytes().starts_with(b"text/plain");
            let is_ours =
                answer.body().is_ours() && answer.headers().get(CONTENT_TYPE).is_some_and(is_text);
            let answer = answer::passing(answer);
            if is_ours { dressed(answer, &host, wish, &pages).await } else { answer }
        })
    }

    fn entry(&self, request: &Request<Incoming>) -> Option<Box<Entry>> {
        let log = self.site.log()?;
        let client = match &self.proxy {
            Some((proxy, peer)) => proxy.client(peer, request.headers()),
            None => self.address,
        };
        Some(log.begin(client, request))
    }
}

/// With the page that the host has for its status, if it has one and it can be had.
async fn dressed(answer: Answer, host: &Host, wish: Wish, pages: &Arc<Pages>) -> Answer {
    let Some(key) = host.error_page(answer.status()) else { return answer };
    let page = match pages.at_hand(key) {
        Some(page) => page,
        None => match pages.load(key).await {
            Ok(Loaded::Page(page)) => page,
            Ok(Loaded::Folder) | Err(_) => return answer,
        },
    };
    answer::with_page(answer, &page, wish, &pages.files)
}

fn found(
    page: &Page,
    method: &Method,
    headers: &HeaderMap,
    cache_control: Option<&HeaderValue>,
    files: &Files,
) -> Answer {
    let mut answer = answer::page(page, method, headers, files);
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
        InvalidPath::TooLong => StatusCode::URI_TOO_LONG,
        InvalidPath::Relative
        | InvalidPath::Escape
        | InvalidPath::Encoded
        | InvalidPath::Climbs => StatusCode::BAD_REQUEST,
    }
}

impl Service<Request<Incoming>> for Connection {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let entry = self.entry(&request);
        Answering { pending: self.answer(request), entry }
    }
}

/// An answer that is there, or comes once the disk or a service has spoken.
pub struct Answering {
    pending: Pending,
    /// The line about the request.
    entry: Option<Box<Entry>>,
}

enum Pending {
    /// From memory: nothing is allocated for the wait.
    AtOnce(Ready<Answer>),
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Pending {
    fn at_once(answer: Answer) -> Self {
        Self::AtOnce(ready(answer))
    }

    fn later(answer: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self::Later(Box::pin(answer))
    }
}

impl Future for Answering {
    type Output = Result<Answer, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready_now!(match &mut self.pending {
            Pending::AtOnce(answer) => Pin::new(answer).poll(cx),
            Pending::Later(answer) => answer.as_mut().poll(cx),
        });
        let Some(mut entry) = self.entry.take() else { return Poll::Ready(Ok(answer)) };
        entry.answered(&answer);
        Poll::Ready(Ok(answer.map(|body| body.counted(entry))))
    }
}
