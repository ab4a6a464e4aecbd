//! Fast path: answers requests for whole cached pages as prepared responses, without a task, or
//! rejects the loading of a page.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{StatusCode, Version};
use memchr::memchr;
use tamarisk_observe::RequestId;
use tamarisk_observe::access_log::{self, Entry};
use tamarisk_server::guard::Violation;
use tamarisk_server::{
    FastPath, FastResponse, FileBody, OnWritten, PlainRequest, PreparedBody, PreparedResponse,
    Reply, Sent, SentFile,
};

use crate::answer::Answer;
use crate::answer::rejection::rejection;
use crate::cache::loading::Loading;
use crate::cache::outcome::NotNow;
use crate::connection::Connection;
use crate::disk::path::SitePath;
use crate::page::encoding::Accepted;
use crate::page::head::head;
use crate::page::memory_file::MemoryFile;
use crate::page::page_file::PageFile;
use crate::page::{Content, Form};
use crate::page_asked::PageAsked;
use crate::site::host::{Host, RouteTarget, ServedFolder};
use crate::site::snapshot::SiteSnapshot;

const REJECTED: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// An answer from memory as it is sent.
fn prepared(answer: Answer) -> (Vec<u8>, Bytes) {
    let (mut parts, body) = answer.into_parts();
    let Some(words) = body.into_held() else { unreachable!("a message is in memory") };
    parts.headers.insert(CONTENT_LENGTH, words.len().into());
    (head(parts.status, &parts.headers), words)
}

/// The fields of a request that matter snapshot.
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
                5 if is(b"range") => fields.is_special = true,
                6 if is(b"accept") => fields.accept = fields.accept.or(Some(value)),
                7 if is(b"referer") => fields.referer = fields.referer.or(Some(value)),
                10 if is(b"user-agent") => fields.agent = fields.agent.or(Some(value)),
                8.. if name[..3].eq_ignore_ascii_case(b"if-") => fields.is_special = true,
                _ => {}
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
        let Some((host, target)) = snapshot.site.hosts.target(host, path) else {
            return FastResponse::Unavailable;
        };
        match target {
            Some((RouteTarget::Folder(folder), rest)) => {
                let wanted =
                    PageRequest { site: &snapshot.site, host, folder, rest, asked, fields };
                self.send_page(&wanted, reply)
                    .map_or(FastResponse::Unavailable, FastResponse::Answered)
            }
            Some((RouteTarget::Proxy(_), _)) => FastResponse::NeverAvailable,
            Some((RouteTarget::Redirect(_), _)) | None => FastResponse::Unavailable,
        }
    }

    fn rejected(&self, violation: Violation, body_length: usize) {
        if let Some(log) = &self.core.snapshot().site.log {
            log.rejected(self.address.ip().to_canonical(), violation, body_length);
        }
    }
}

/// A request for a page, and where that would be.
struct PageRequest<'a> {
    site: &'a SiteSnapshot,
    host: &'a Host,
    folder: &'a ServedFolder,
    /// What of the path is below the folder's.
    rest: &'a str,
    asked: &'a PlainRequest<'a>,
    fields: Fields<'a>,
}

impl Connection {
    /// Sends the page, if it is in memory and all of it is asked for, or the rejection to load it.
    fn send_page(&self, wanted: &PageRequest<'_>, reply: Reply<'_, '_>) -> Option<Sent> {
        let PageRequest {
            site: SiteSnapshot { pages, log, proxy, .. }, host, folder, asked, ..
        } = wanted;
        let is_get = match asked.method() {
            _ if wanted.fields.is_special => return None,
            "GET" => true,
            "HEAD" => false,
            _ => return None,
        };
        // Whom a trusted peer speaks for, is for the proxy to say.
        if log.is_some() && !proxy.trusted.is_empty() {
            return None;
        }
        let key = folder.source.key(SitePath::of(wanted.rest, folder.hidden).ok()?);
        let Some(page) = pages.loaded(&folder.source, &key) else {
            // The page that the host has for it would have to be had as well, and a rejection is
            // kept with its client.
            if host.error_page(REJECTED).is_some() || !proxy.trusted.is_empty() {
                return None;
            }
            return match Loading::new(pages, &folder.source, key).begin() {
                Ok(begun) => {
                    self.keep(begun);
                    None
                }
                Err(why) => Some(self.send_rejection(wanted, why, reply)),
            };
        };
        let form = if page.varies() {
            let encodings = asked.fields().filter(|(name, _)| is_accept_encoding(name));
            page.form(Accepted::by(encodings.map(|(_, value)| value)))
        } else {
            &page.plain
        };
        let body = match &form.content {
            _ if !is_get => PreparedBody::Nothing,
            Content::Held(bytes) => PreparedBody::Bytes(bytes),
            Content::InMemory(file) => of_file(Arc::<MemoryFile>::clone(file), form)?,
            Content::File(file) => of_file(Arc::<PageFile>::clone(file), form)?,
        };
        Some(reply.send(PreparedResponse {
            head: &form.prepared,
            fields: &folder.cache_control_line,
            body,
            is_rejection: false,
            account: self.account(wanted),
        }))
    }

    /// Sends the rejection to load a page.
    fn send_rejection(&self, wanted: &PageRequest<'_>, why: NotNow, reply: Reply<'_, '_>) -> Sent {
        let PageRequest { asked, fields, .. } = wanted;
        let ids = asked.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"x-request-id"));
        let id = self.core.ids.of_values(ids.map(|(_, value)| value));
        let is_get = asked.method() == "GET";
        let (head, words) = prepared(rejection(why, fields.accept, is_get, &id));
        reply.send(PreparedResponse {
            head: &head,
            fields: b"",
            body: if is_get { PreparedBody::Bytes(&words) } else { PreparedBody::Nothing },
            is_rejection: true,
            account: self.account_rejected(wanted, why, id),
        })
    }

    /// What writes the line about a page.
    fn account(&self, wanted: &PageRequest<'_>) -> Option<OnWritten> {
        let mut entry = self.begin_entry(wanted)?;
        entry.answered(StatusCode::OK);
        Some(Box::new(move |bytes| entry.sent(bytes)))
    }

    /// What writes the line about a page that is not to be had now, of which others are told here.
    fn account_rejected(
        &self,
        wanted: &PageRequest<'_>,
        why: NotNow,
        id: RequestId,
    ) -> Option<OnWritten> {
        let mut entry = self.begin_entry(wanted);
        let (names, rejections) =
            (wanted.folder.names.clone(), wanted.site.proxy.rejections.clone());
        let client = self.address.ip().to_canonical();
        PageAsked { client, id, names, rejections }.rejected(why, entry.as_deref_mut());
        let mut entry = entry?;
        entry.answered(REJECTED);
        Some(Box::new(move |bytes| entry.sent(bytes)))
    }

    fn begin_entry(&self, wanted: &PageRequest<'_>) -> Option<Box<Entry>> {
        let log = wanted.site.log.as_ref()?;
        Some(log.begin(self.address.ip().to_canonical(), &wanted.fields.logged(wanted.asked)))
    }
}

/// The body of all of `form`, which is in `file`; `None` if it must be waited for.
fn of_file(file: Arc<dyn SentFile>, form: &Form) -> Option<PreparedBody<'static>> {
    FileBody::in_memory(file, form.length).map(PreparedBody::File)
}

fn is_accept_encoding(name: &[u8]) -> bool {
    name.len() == 15 && name.eq_ignore_ascii_case(b"accept-encoding")
}
