//! Configuration of upstreams, `[upstreams.NAME]`.

use std::ops::Range;
use std::time::Duration;

use tamarisk_control::{CLASSES_MAX, ClassId, InvalidClasses};
use tamarisk_laws::{Laws, ResourceBounds};
use tamarisk_proxy::classify::Client;
use tamarisk_proxy::{HostHeader, Origin, RequestBuffering};
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::values::{not_one_of, parsed};
use tamarisk_settings::{Fault, Mistakes, Section, Value, all};

use super::laws::{self, LAWS};
use super::overflow::{OVERFLOW, overflow};
use super::pairs::{Pair, classes_of};
use super::resources::{RESOURCES_KEY, resources};
use super::values;
use crate::{OverflowOptions, UpstreamOptions};

pub(super) const REQUEST_BUFFERING: Form = Form::OneOf(&["memory-and-file", "off"]);

/// What may be said of any service behind.
#[rustfmt::skip]
pub(super) static SERVICE: [Key; 8] = [
    key("host", Form::Text("`\"client\"`, `\"upstream\"` or a host name"), "`Host` header sent to the service: the client's, the upstream's own, or this name").default("\"client\""),
    key("connect_time", Form::Time, "longest wait for a connection").default("\"5s\""),
    key("answer_time", Form::Time, "longest wait for the head of a response").default("\"60s\""),
    key("stall_time", Form::Time, "longest wait for the next part of a response that has begun; after it the response is broken off. Streams are exempt: responses of the types `text/event-stream` and `application/grpc`, those of a route with `streams = true`, and WebSockets").default("\"60s\""),
    key("request_buffering", REQUEST_BUFFERING, "whether a request body is read completely before the request is sent").default("\"memory-and-file\""),
    key("client", Form::Either(&[Form::OneOf(&["address"]), Form::Table(&CLIENT_TABLE)]), "how clients are identified when capacity is shared among them").default("\"address\""),
    key("overflow", Form::Either(&OVERFLOW), "another service, to which requests go that the stage rejects; those that it does not answer are rejected"),
    RESOURCES_KEY,
];

pub(super) static UPSTREAM: Table = Table {
    heading: "[upstreams.NAME]",
    summary: "A service behind the proxy.",
    groups: &[&[key("url", Form::Text("URL"), "where the service is").required()], &SERVICE, &LAWS],
};

pub(super) static STAGE: Table = Table {
    heading: "[stage.NAME]",
    summary: "The laws of the upstream of this name, which may be stated there as well.",
    groups: &[&LAWS],
};

static CLIENT_TABLE: Table = Table {
    heading: "client",
    summary: "Either of them. A request without it counts by its client's address, of which an IPv6 network of 64 bits is one.",
    groups: &[&[
        key("header", Form::Text("name of a header"), "header that names the client"),
        key("cookie", Form::Text("name of a cookie"), "cookie that names the client"),
    ]],
};

const CLIENT: &str = "\"address\", { header = \"…\" } or { cookie = \"…\" }";

/// An upstream, and the pairs of a route and a class that lead to it, as far as they are known.
pub(super) struct Upstream {
    pub(super) name: String,
    pub(super) span: Range<usize>,
    origin: Origin,
    host_header: HostHeader,
    times: [Option<Duration>; 3],
    request_buffering: RequestBuffering,
    client: Client,
    overflow: Option<OverflowAt>,
    resources: ResourceBounds,
    laws: Laws,
    pub(super) pairs: Vec<Pair>,
}

/// An overflow, and where that stands.
type OverflowAt = (OverflowOptions, Range<usize>);

/// A `[stage.…]`: its name, where that stands, and what it says.
pub(super) type StageSection<'a> = (String, Range<usize>, Section<'a>);

pub(super) fn stages<'a>(value: &'a Value<'a>) -> Result<Vec<StageSection<'a>>, Fault> {
    all(Section::tables(value)?.into_iter().map(|(key, value)| {
        let section = Section::new(value, &STAGE)?;
        Ok((values::key_name(key)?, key.span(), section))
    }))
}

pub(super) fn upstreams(
    value: &Value<'_>,
    stages: &[StageSection<'_>],
) -> Result<Vec<Upstream>, Fault> {
    let tables = Section::tables(value)?;
    let names: Vec<&str> = tables.iter().map(|(key, _)| &**key.get_ref()).collect();
    let mut mistakes = Mistakes::default();
    for (stage, span, _) in stages {
        if !names.contains(&&**stage) {
            mistakes.add(not_one_of(span.clone(), "upstream", stage, &names));
        }
    }
    let upstreams = mistakes.note(all(tables.into_iter().map(|(key, value)| {
        let (section, mut mistakes) = Section::collecting(value, &UPSTREAM)?;
        let name = values::key_name(key)?;
        let about = stages.iter().filter(|(stage, ..)| *stage == name).map(|(.., stage)| stage);
        let sections: Vec<_> = std::iter::once(&section).chain(about).collect();
        let upstream = Upstream::read(name, key.span(), &section, "url", &sections);
        let upstream = mistakes.note(upstream);
        mistakes.done(|| upstream)
    })));
    let upstreams = mistakes.done(|| upstreams)?;
    if upstreams.is_empty() {
        let message = "`upstreams` is empty";
        return Err(Fault::new(value.span(), message, "expected a table such as [upstreams.app]"));
    }
    Ok(upstreams)
}

/// How clients are told apart: `"address"`, or what names them.
fn client(value: &Value<'_>) -> Result<Client, Fault> {
    if value.get_ref().as_str().is_some() {
        let address = |text: &str| (text == "address").then_some(Client::Address);
        return parsed(value, CLIENT, address);
    }
    let section = Section::new(value, &CLIENT_TABLE)?;
    let header = section.read("header", values::header_name)?;
    let cookie = section.read("cookie", values::name)?;
    match (header, cookie) {
        (Some(name), None) => Ok(Client::Header(name)),
        (None, Some(name)) => Ok(Client::Cookie(name)),
        _ => {
            let message = "`client` needs exactly one of `header` and `cookie`";
            Err(Fault::new(value.span(), message, format!("expected {CLIENT}")))
        }
    }
}

impl Upstream {
    /// What `section` says of a service, and `sections`, itself among them, of its laws;
    /// `url` is the key of the place that it is at.
    pub(super) fn read(
        name: String,
        span: Range<usize>,
        section: &Section<'_>,
        url: &str,
        sections: &[&Section<'_>],
    ) -> Result<Self, Fault> {
        let mut mistakes = Mistakes::default();
        let laws = mistakes.note(laws::read(&name, sections));
        let origin = section.require(url, "\"http://127.0.0.1:3000\"", values::origin);
        let origin = mistakes.note(origin);
        let host_header = mistakes.note(section.read("host", values::host_header));
        let times = ["connect_time", "answer_time", "stall_time"]
            .map(|key| mistakes.note(section.read(key, values::duration)).flatten());
        let buffering = section.read("request_buffering", values::request_buffering);
        let buffering = mistakes.note(buffering);
        let client = mistakes.note(section.read("client", client));
        let overflow = section.read("overflow", |value| Ok((overflow(value)?, value.span())));
        let overflow = mistakes.note(overflow);
        let resources = mistakes.note(section.read("resources", resources));
        mistakes.done(|| {
            Some(Self {
                laws: laws?,
                name,
                span,
                origin: origin?,
                host_header: host_header?.unwrap_or_default(),
                times,
                request_buffering: buffering?.unwrap_or_default(),
                client: client?.unwrap_or_default(),
                overflow: overflow?,
                resources: resources?.unwrap_or_default(),
                pairs: Vec::new(),
            })
        })
    }

    /// The options of the upstream, and the class of each of its pairs.
    pub(super) fn finish(self) -> Result<(UpstreamOptions, Vec<ClassId>), Fault> {
        if self.pairs.is_empty() {
            let message = format!("no route uses the upstream {:?}", self.name);
            return Err(Fault::new(self.span, message, "add a route to it, or remove it"));
        }
        let (classes, ids) = classes_of(&self.pairs).map_err(|error| match error {
            InvalidClasses::Count(promises) => {
                let message = format!(
                    "{promises} combinations of target, priority and weight before the upstream {:?}",
                    self.name
                );
                let expected = format!("expected at most {CLASSES_MAX}");
                Fault::new(self.span.clone(), message, expected)
            }
            InvalidClasses::Duplicate(_) => {
                let expected = "choose other names for the routes or classes";
                Fault::new(self.span.clone(), error.to_string(), expected)
            }
        })?;
        let mut options = UpstreamOptions::new(self.name, self.origin, classes);
        options.host_header = self.host_header;
        let [connect_time, answer_time, stall_time] = self.times;
        options.connect_time = connect_time.unwrap_or(options.connect_time);
        options.answer_time = answer_time.unwrap_or(options.answer_time);
        options.stall_time = stall_time.unwrap_or(options.stall_time);
        options.request_buffering = self.request_buffering;
        options.client = self.client;
        options.resources = self.resources;
        options.laws = self.laws;
        let Some((overflow, span)) = self.overflow else { return Ok((options, ids)) };
        let options = options
            .with_overflow(Some(overflow))
            .map_err(|error| Fault::new(span, error.to_string(), "here is the service already"))?;
        Ok((options, ids))
    }
}
