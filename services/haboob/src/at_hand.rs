//! Pages in memory, ours or the kernel's, for requests that want all of one: answered as they stand.

use std::sync::Arc;

use http::{StatusCode, Version};
use memchr::memchr;
use tamarisk_http::guard::Violation;
use tamarisk_http::server::{Asked, AtHand, FileBody, Hand, Prepared, PreparedBody, SentFile};

use crate::connection::Connection;
use crate::edition::{Edition, Place, Way};
use crate::encoding::accepted_by;
use crate::log;
use crate::memory_file::MemoryFile;
use crate::page::{Content, Form};
use crate::page_file::PageFile;
use crate::path::SitePath;

/// The fields of a request that matter here.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    referer: Option<&'a [u8]>,
    agent: Option<&'a [u8]>,
    /// There is a condition, or a part is wanted.
    is_special: bool,
}

impl<'a> Fields<'a> {
    fn of(asked: &Asked<'a>) -> Self {
        let mut fields = Self::default();
        for (name, value) in asked.fields() {
            let is = |known| name.eq_ignore_ascii_case(known);
            match name.len() {
                4 if is(b"host") => fields.host = Some(value),
                5 if is(b"range") => fields.is_special = true,
                7 if is(b"referer") => fields.referer = fields.referer.or(Some(value)),
                10 if is(b"user-agent") => fields.agent = fields.agent.or(Some(value)),
                8.. if name[..3].eq_ignore_ascii_case(b"if-") => fields.is_special = true,
                _ => {}
            }
        }
        fields
    }

    fn logged(&self, asked: &Asked<'a>) -> log::Asked<'a> {
        let Self { host, referer, agent, .. } = *self;
        let (method, target, version) = (asked.method(), asked.target(), Version::HTTP_11);
        log::Asked { method, target, version, host, referer, agent }
    }
}

impl AtHand for Connection {
    fn at_hand<A>(&self, asked: &Asked<'_>, answer: impl FnOnce(Prepared<'_>) -> A) -> Hand<A> {
        let target = asked.target();
        let path = memchr(b'?', target.as_bytes()).map_or(target, |end| &target[..end]);
        let fields = Fields::of(asked);
        let host = fields.host.and_then(|host| std::str::from_utf8(host).ok());
        let here = self.core.here();
        match here.edition.hosts.find(host).and_then(|host| host.way(path)) {
            Some((Way::Folder(place), rest)) => {
                let answer = self.page(&here.edition, place, rest, asked, &fields, answer);
                answer.map_or(Hand::Nothing, Hand::Answer)
            }
            Some((Way::Proxy(_), _)) => Hand::Never,
            Some((Way::Redirect(_), _)) | None => Hand::Nothing,
        }
    }

    fn refused(&self, violation: Violation, body_length: usize) {
        if let Some(log) = &self.core.here().edition.log {
            log.refused(self.address.ip().to_canonical(), violation, body_length);
        }
    }
}

impl Connection {
    /// Gives `answer` the page in `place` at the path `rest`, if it is in memory and all of it is
    /// asked for.
    fn page<A>(
        &self,
        edition: &Edition,
        place: &Place,
        rest: &str,
        asked: &Asked<'_>,
        fields: &Fields<'_>,
        answer: impl FnOnce(Prepared<'_>) -> A,
    ) -> Option<A> {
        let is_get = match asked.method() {
            _ if fields.is_special => return None,
            "GET" => true,
            "HEAD" => false,
            _ => return None,
        };
        let Edition { pages, log, proxy, .. } = edition;
        // Whom a trusted peer speaks for, is for the proxy to say.
        if log.is_some() && !proxy.trusted.is_empty() {
            return None;
        }
        let path = SitePath::of(rest, place.hidden).ok()?;
        let page = pages.at_hand(&place.source, &place.source.key(path))?;
        let form = if page.varies() {
            let encodings = asked.fields().filter(|(name, _)| is_accept_encoding(name));
            page.form(accepted_by(encodings.map(|(_, value)| value)))
        } else {
            &page.plain
        };
        let body = match &form.content {
            _ if !is_get => PreparedBody::Nothing,
            Content::Held(bytes) => PreparedBody::Bytes(bytes),
            Content::InMemory(file) => of_file(Arc::<MemoryFile>::clone(file), form)?,
            Content::File(file) => of_file(Arc::<PageFile>::clone(file), form)?,
        };
        Some(answer(Prepared {
            head: &form.prepared,
            fields: &place.cache_control_line,
            body,
            account: log.as_ref().map(|log| {
                let client = self.address.ip().to_canonical();
                let mut entry = log.begin(client, &fields.logged(asked));
                entry.answered(StatusCode::OK);
                let account = move |bytes| entry.sent(bytes);
                Box::new(account) as Box<dyn FnOnce(u64) + Send>
            }),
        }))
    }
}

/// The body of all of `form`, which is in `file`; `None` if it must be waited for.
fn of_file(file: Arc<dyn SentFile>, form: &Form) -> Option<PreparedBody<'static>> {
    FileBody::at_hand(file, form.length).map(PreparedBody::File)
}

fn is_accept_encoding(name: &[u8]) -> bool {
    name.len() == 15 && name.eq_ignore_ascii_case(b"accept-encoding")
}
