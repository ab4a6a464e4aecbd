//! Fast path: answers requests as prepared responses, without a task: with pages that are in memory, or
//! with a short answer of ours. Rejects the loading of a page.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use http_body::Body;
use memchr::memchr;
use tamarisk_observe::RequestId;
use tamarisk_observe::access_log::{self, Entry};
use tamarisk_server::guard::Violation;
use tamarisk_server::{
    FastPath, FastResponse, FileBody, OnWritten, PlainRequest, PreparedBody, PreparedResponse,
    Reply, Sent, SentFile,
};

use crate::answer::rejection::rejection;
use crate::answer::{self, Answer, Wish};
use crate::cache::loading::Loading;
use crate::cache::outcome::{Loaded, NotNow};
use crate::connection::{Connection, dressed_at_once, found, got_without_page};
use crate::page::encoding::Accepted;
use crate::page::head::head;
use crate::page::memory_file::MemoryFile;
use crate::page::page_file::PageFile;
use crate::page::{Content, Form, Page};
use crate::page_asked::PageAsked;
use crate::site::host::{Host, RouteTarget, ServedFolder};
use crate::site::snapshot::SiteSnapshot;

const REJECTED: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// An answer from memory as it is sent; `None` if its body is not.
fn prepared(answer: Answer) -> Option<(Vec<u8>, Bytes)> {
    let (mut parts, body) = answer.into_parts();
    let body = if body.is_end_stream() { Bytes::new() } else { body.into_held()? };
    let has_none = matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if !has_none && !parts.headers.contains_key(CONTENT_LENGTH) {
        parts.headers.insert(CONTENT_LENGTH, body.len().into());
    }
    Some((head(parts.status, &parts.headers), body))
}

/// The header fields that select the answer.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    referer: Option<&'a [u8]>,
    agent: Option<&'a [u8]>,
    accept: Option<&'a [u8]>,
    /// There is a condition, or a part is wanted.
    is_special: bool,
}

impl<'a> Fields<'a> {
    fn of(asked: &PlainRequest<'a>) -> Self {
        let mut fields = Self::default();
        for (name, value) in asked.fields() {
            let is = |known| name.eq_ignore_ascii_case(known);
            match name.len() {
                4 if is(b"host") => fields.host = Some(value),
                6 if is(b"accept") => fields.accept = fields.accept.or(Some(value)),
                7 if is(b"referer") => fields.referer = fields.referer.or(Some(value)),
                10 if is(b"user-agent") => fields.agent = fields.agent.or(Some(value)),
                _ => fields.is_special |= is_condition(name),
            }
        }
        fields
    }

    fn logged(&self, asked: &PlainRequest<'a>) -> access_log::Asked<'a> {
        let Self { host, referer, agent, .. } = *self;
        let (method, target, version) = (asked.method(), asked.target(), Version::HTTP_11);
        access_log::Asked { method, target, version, host, referer, agent }
    }
}

impl FastPath for Connection {
    fn fast_response(&self, asked: &PlainRequest<'_>, reply: Reply<'_, '_>) -> FastResponse {
        let target = asked.target();
        let path = memchr(b'?', target.as_bytes()).map_or(target, |end| &target[..end]);
        let fields = Fields::of(asked);
        let host = fields.host.and_then(|host| std::str::from_utf8(host).ok());
        let snapshot = self.core.snapshot();
        let site = &*snapshot.site;
        let Some((host, target)) = site.hosts.target(host, path) else {
            return FastResponse::Unavailable;
        };
        if matches!(target, Some((RouteTarget::Proxy(_), _))) {
            return FastResponse::NeverAvailable;
        }
        let Some(request) = FastRequest::of(site, host, path, asked, fields) else {
            return FastResponse::Unavailable;
        };
        let sent = match target {
            Some((RouteTarget::Folder(folder), rest)) => {
                self.send_file(&request, folder, rest, reply)
            }
            Some((RouteTarget::Redirect(redirect), rest)) => {
                self.send_own(&request, answer::redirect(redirect, rest, request.query()), reply)
            }
            _ => self.send_own(&request, answer::message(StatusCode::NOT_FOUND), reply),
        };
        sent.map_or(FastResponse::Unavailable, FastResponse::Answered)
    }

    fn rejected(&self, violation: Violation, body_length: usize) {
        if let Some(log) = &self.core.snapshot().site.log {
            log.rejected(self.address.ip().to_canonical(), violation, body_length);
        }
    }
}

/// A GET or HEAD request, and what it is for.
struct FastRequest<'a> {
    site: &'a SiteSnapshot,
    host: &'a Host,
    path: &'a str,
    /// It is no HEAD.
    is_get: bool,
    asked: &'a PlainRequest<'a>,
    fields: Fields<'a>,
}

impl<'a> FastRequest<'a> {
    /// `None` if the service has to look at the request.
    fn of(
        site: &'a SiteSnapshot,
        host: &'a Host,
        path: &'a str,
        asked: &'a PlainRequest<'a>,
        fields: Fields<'a>,
    ) -> Option<Self> {
        let is_get = match asked.method() {
            "GET" => true,
            "HEAD" => false,
            _ => return None,
        };
        // Other forms of a target, and what is behind a `#`, are not taken apart here.
        let is_path = path.starts_with('/') && memchr(b'#', asked.target().as_bytes()).is_none();
        // Whom a trusted peer speaks for, is for the proxy to say.
        let is_for_proxy = site.log.is_some() && !site.proxy.trusted.is_empty();
        (is_path && !is_for_proxy).then_some(Self { site, host, path, is_get, asked, fields })
    }

    fn query(&self) -> Option<&'a str> {
        self.asked.target()[self.path.len()..].strip_prefix('?')
    }

    fn accepted(&self) -> Accepted {
        let encodings = self.asked.fields().filter(|(name, _)| is_accept_encoding(name));
        Accepted::by(encodings.map(|(_, value)| value))
    }

    /// The fields that say which part of a page is wanted, and on which condition.
    fn conditions(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.asked.fields() {
            if is_condition(name) || is_accept_encoding(name) {
                let name = HeaderName::from_bytes(name).ok()?;
                headers.append(name, HeaderValue::from_bytes(value).ok()?);
            }
        }
        Some(headers)
    }
}

impl Connection {
    /// Sends what is at the path `rest` in `folder`, or the rejection to load it; `None` if it is not
    /// known at once what is there.
    fn send_file(
        &self,
        request: &FastRequest<'_>,
        folder: &ServedFolder,
        rest: &str,
        reply: Reply<'_, '_>,
    ) -> Option<Sent> {
        let FastRequest { site: SiteSnapshot { pages, proxy, .. }, host, path, .. } = request;
        let key = match got_without_page(folder, rest, path, request.query()) {
            Ok(answer) => return self.send_own(request, answer, reply),
            Err(key) => key,
        };
        match pages.at_once(&folder.source, &key) {
            Some(Ok(Loaded::Page(page))) => self.send_page(request, folder, &page, reply),
            Some(Ok(Loaded::Folder)) => {
                self.send_own(request, answer::folder(path, request.query()), reply)
            }
            Some(Err(status)) => self.send_own(request, answer::message(status), reply),
            // The page that the host has for a rejection would have to be had as well, and a
            // rejection is kept with its client.
            None if host.error_page(REJECTED).is_some() || !proxy.trusted.is_empty() => None,
            None => match Loading::new(pages, &folder.source, key).begin() {
                Ok(begun) => {
                    self.keep(begun);
                    None
                }
                Err(why) => self.send_rejection(request, folder, why, reply),
            },
        }
    }

    /// Sends the page, or what of it is asked for.
    fn send_page(
        &self,
        request: &FastRequest<'_>,
        folder: &ServedFolder,
        page: &Page,
        reply: Reply<'_, '_>,
    ) -> Option<Sent> {
        if request.fields.is_special {
            let method = if request.is_get { Method::GET } else { Method::HEAD };
            let conditions = request.conditions()?;
            let answer = found(page, &method, &conditions, folder.cache_control.as_ref());
            return self.send_own(request, answer, reply);
        }
        let form = if page.varies() { page.form(request.accepted()) } else { &page.plain };
        let body = match &form.content {
            _ if !request.is_get => PreparedBody::Nothing,
            Content::Held(bytes) => PreparedBody::Bytes(bytes),
            Content::InMemory(file) => of_file(Arc::<MemoryFile>::clone(file), form)?,
            Content::File(file) => of_file(Arc::<PageFile>::clone(file), form)?,
        };
        Some(reply.send(PreparedResponse {
            head: &form.prepared,
            fields: &folder.cache_control_line,
            body,
            is_rejection: false,
            account: self.account(request, StatusCode::OK),
        }))
    }

    /// Sends an answer of ours, or the page that the host has for it; `None` if that is not in
    /// memory.
    fn send_own(
        &self,
        request: &FastRequest<'_>,
        answer: Answer,
        reply: Reply<'_, '_>,
    ) -> Option<Sent> {
        let FastRequest { site, host, is_get, fields, .. } = request;
        let status = answer.status();
        let answer = if status.is_success() {
            answer
        } else {
            let accept = fields.accept.and_then(|accept| HeaderValue::from_bytes(accept).ok());
            let wish = Wish::new(request.accepted(), accept, !is_get);
            dressed_at_once(answer, host, &wish, &site.pages).break_value()?
        };
        let (head, body) = prepared(answer)?;
        Some(reply.send(PreparedResponse {
            head: &head,
            fields: b"",
            body: if *is_get { PreparedBody::Bytes(&body) } else { PreparedBody::Nothing },
            is_rejection: false,
            account: self.account(request, status),
        }))
    }

    /// Sends the rejection to load a page.
    fn send_rejection(
        &self,
        request: &FastRequest<'_>,
        folder: &ServedFolder,
        why: NotNow,
        reply: Reply<'_, '_>,
    ) -> Option<Sent> {
        let FastRequest { asked, fields, is_get, .. } = request;
        let ids = asked.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"x-request-id"));
        let id = self.core.ids.of_values(ids.map(|(_, value)| value));
        let (head, words) = prepared(rejection(why, fields.accept, *is_get, &id))?;
        Some(reply.send(PreparedResponse {
            head: &head,
            fields: b"",
            body: if *is_get { PreparedBody::Bytes(&words) } else { PreparedBody::Nothing },
            is_rejection: true,
            account: self.account_rejected(request, folder, why, id),
        }))
    }

    /// What writes the line about an answer with this status.
    fn account(&self, request: &FastRequest<'_>, status: StatusCode) -> Option<OnWritten> {
        let mut entry = self.begin_entry(request)?;
        entry.answered(status);
        Some(Box::new(move |bytes| entry.sent(bytes)))
    }

    /// What writes the line about a page that is not to be had now, of which others are told here.
    fn account_rejected(
        &self,
        request: &FastRequest<'_>,
        folder: &ServedFolder,
        why: NotNow,
        id: RequestId,
    ) -> Option<OnWritten> {
        let mut entry = self.begin_entry(request);
        let (names, rejections) = (folder.names.clone(), request.site.proxy.rejections.clone());
        let client = self.address.ip().to_canonical();
        PageAsked { client, id, names, rejections }.rejected(why, entry.as_deref_mut());
        let mut entry = entry?;
        entry.answered(REJECTED);
        Some(Box::new(move |bytes| entry.sent(bytes)))
    }

    fn begin_entry(&self, request: &FastRequest<'_>) -> Option<Box<Entry>> {
        let log = request.site.log.as_ref()?;
        Some(log.begin(self.address.ip().to_canonical(), &request.fields.logged(request.asked)))
    }
}

/// The body of all of `form`, which is in `file`; `None` if it must be waited for.
fn of_file(file: Arc<dyn SentFile>, form: &Form) -> Option<PreparedBody<'static>> {
    FileBody::in_memory(file, form.length).map(PreparedBody::File)
}

fn is_accept_encoding(name: &[u8]) -> bool {
    name.len() == 15 && name.eq_ignore_ascii_case(b"accept-encoding")
}

/// Whether a field says which part of a page is wanted, or on which condition.
fn is_condition(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"range")
        || name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"if-"))
}
