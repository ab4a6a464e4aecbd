//! What is read of a request's head on its way through, and what is written of it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use ipnet::IpNet;
use tamarisk_control::{ClassId, Timestamp};
use tamarisk_h1::grammar::is_host;
use tamarisk_h1::{Event, Limits, RequestReader, Violation};
use tamarisk_http_gate::timeout;
use tamarisk_observe::{RequestId, RequestIds};

use super::input::Input;
use crate::classify::{ClassRule, Condition, Route, Routes};
use crate::hop_by_hop::HOP_BY_HOP;
use crate::instance::Instance;
use crate::peer::{Peer, Scheme};
use crate::request::body::BodyLength;
use crate::request::head::{HeadWriter, imitates_ours, speaks_of_client};
use crate::request::host_header::HostHeader;

/// The request head in `input` gets to the upstream as one head, whose fields are
/// the client's except where they speak of a connection or of the client itself;
/// who the client is, how long it waits and which class it is of is read from it
/// as it stands there.
///
/// Words: `h2` came over HTTP/2, `trusted` from a proxy of ours, `chunked` or a
/// number has such a body behind it.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let input = Input::new(input);
    let Some(request) = parse(&input) else { return };
    let trusted = input.says("trusted");
    let body = match input.numbers().next() {
        _ if input.says("chunked") => BodyLength::Unknown,
        Some(bytes) => BodyLength::Known(bytes as u64),
        None => BodyLength::Empty,
    };
    Passed::on(&request, trusted, body).is_the_request(&request, body);
    the_client_is_the_last_stranger(&request.headers, trusted);
    a_patience_reads_as_it_is_written(&request.headers);
    another_cookie_hides_none(&request);
}

/// The head of a request as hyper hands it over: behind the watch, or for HTTP/2
/// without it.
fn parse(input: &Input<'_>) -> Option<Parts> {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(len)) = parsed.parse(input.bytes) else { return None };
    let version = match parsed.version {
        _ if input.says("h2") => Version::HTTP_2,
        Some(1) => Version::HTTP_11,
        _ => Version::HTTP_10,
    };
    let mut reader = RequestReader::new(Limits::REQUEST);
    let is_head = |read| read == Ok(Some(Event::Head(len)));
    if version != Version::HTTP_2 && !is_head(reader.next(&input.bytes[..len])) {
        return None;
    }
    let mut request = Request::builder().method(parsed.method?).uri(parsed.path?).version(version);
    for field in parsed.headers.iter() {
        request = request.header(field.name, field.value);
    }
    let (head, ()) = request.body(()).ok()?.into_parts();
    // Those are answered before anything is written, and no other goes without a path.
    let is_passed = !matches!(head.method, Method::CONNECT | Method::TRACE);
    (is_passed && !head.uri.path().is_empty()).then_some(head)
}

const TRUSTED: [&str; 2] = ["192.0.2.0/24", "2001:db8::/32"];

fn networks() -> Vec<IpNet> {
    TRUSTED.iter().map(|network| network.parse().expect("a constant is valid")).collect()
}

fn peer(trusted: bool) -> (Peer, IpAddr) {
    let address = SocketAddr::from(([if trusted { 192 } else { 203 }, 0, 2, 1], 4711));
    (Peer::new(address, &networks(), Scheme::Http), address.ip())
}

/// A request as the upstream reads it.
struct Passed {
    method: String,
    target: String,
    headers: HeaderMap,
    trusted: bool,
    wish: Option<HeaderValue>,
}

impl Passed {
    fn on(request: &Parts, trusted: bool, body: BodyLength) -> Self {
        let id = RequestIds::default().of(&request.headers);
        let writer = HeadWriter {
            from: &peer(trusted).0,
            host_header: &HostHeader::Client,
            authority: &HeaderValue::from_static("upstream:3000"),
            id: &id,
            instance: &Instance::default(),
            quality: None,
            overflows: false,
        };
        let mut out = Vec::new();
        let wish = writer.write_head(&mut out, request, body);

        let mut fields = [httparse::EMPTY_HEADER; 120];
        let mut parsed = httparse::Request::new(&mut fields);
        assert_eq!(parsed.parse(&out), Ok(httparse::Status::Complete(out.len())), "{out:?}");
        // Ours may come on top of as many fields as a client may send.
        if parsed.headers.len() <= 100 {
            our_own_watch_lets_it_pass(&out, request.version, body, wish.is_some());
        }
        let field = |field: &httparse::Header<'_>| {
            let name: HeaderName = field.name.parse().expect("the watch lets names pass alone");
            (name, HeaderValue::from_bytes(field.value).expect("and values"))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in parsed.headers.iter().map(field) {
            headers.append(name, value);
        }
        let method = parsed.method.unwrap_or_default().to_owned();
        let target = parsed.path.unwrap_or_default().to_owned();
        Self { method, target, headers, trusted, wish }
    }

    fn is_the_request(&self, request: &Parts, body: BodyLength) {
        assert_eq!(self.method, request.method.as_str());
        let query = request.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        assert_eq!(self.target, format!("{}{query}", request.uri.path()));
        self.says_what_the_client_said(request);
        self.says_who_the_client_is(request);

        let [id] = self.lines("x-request-id")[..] else { panic!("one name") };
        assert!(RequestId::is_well_formed(id.as_bytes()));
        let (length, chunked) =
            (self.lines(CONTENT_LENGTH.as_str()), self.lines(TRANSFER_ENCODING.as_str()));
        match body {
            BodyLength::Known(bytes) => assert_eq!(length, [&*bytes.to_string()]),
            BodyLength::Unknown => assert_eq!(chunked, ["chunked"]),
            BodyLength::Empty => assert!(length.is_empty() || length == ["0"]),
        }
        assert!(length.is_empty() || chunked.is_empty());
        match &self.wish {
            Some(protocols) => {
                assert_eq!(self.lines(UPGRADE.as_str()), [protocols]);
                assert_eq!(self.lines(CONNECTION.as_str()), ["upgrade"]);
            }
            None if self.headers.contains_key(TE) => {
                assert_eq!(self.lines(TE.as_str()), ["trailers"]);
                assert_eq!(self.lines(CONNECTION.as_str()), ["te"]);
            }
            None => {
                assert!(!self.headers.contains_key(CONNECTION));
                assert!(!self.headers.contains_key(UPGRADE));
            }
        }
    }

    fn lines(&self, name: &str) -> Vec<&HeaderValue> {
        self.headers.get_all(name).iter().collect()
    }

    /// Every field is passed on in its order but those that name a connection's
    /// own business, and those that are ours to write.
    fn says_what_the_client_said(&self, request: &Parts) {
        const OURS: [&str; 10] = [
            "host",
            "content-length",
            "via",
            "cookie",
            "x-request-id",
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "te",
        ];
        let named = named(&request.headers);
        let is_theirs = |name: &&HeaderName| {
            !OURS.contains(&name.as_str()) && !HOP_BY_HOP.contains(&name.as_str())
        };
        for name in request.headers.keys().filter(is_theirs) {
            let is_left_out = name.as_str() == "proxy"
                || named.contains(name.as_str())
                || imitates_ours(name.as_str())
                || (!self.trusted && speaks_of_client(name.as_str()));
            let said: Vec<_> = match is_left_out {
                true => Vec::new(),
                false => request.headers.get_all(name).iter().collect(),
            };
            assert_eq!(self.lines(name.as_str()), said, "{name}");
        }
        for name in self.headers.keys().filter(is_theirs) {
            assert!(request.headers.contains_key(name), "{name} was not said");
        }
        let cookies = |headers: &HeaderMap| -> Vec<u8> {
            let lines: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
            lines.join(&b"; "[..]).trim_ascii().to_vec()
        };
        if !named.contains("cookie") {
            assert_eq!(cookies(&self.headers), cookies(&request.headers));
        }
    }

    /// The host, and the lines that say where the request comes from: ours alone,
    /// or ours behind those of a proxy that is trusted.
    fn says_who_the_client_is(&self, request: &Parts) {
        let named = named(&request.headers);
        let [host] = self.lines(HOST.as_str())[..] else { panic!("one host") };
        assert!(is_host(host.as_bytes()), "{host:?}");
        let client = peer(self.trusted).1;
        for (name, ours) in [
            ("x-forwarded-for", client.to_string()),
            ("forwarded", format!("for={client}")),
            ("via", String::new()),
        ] {
            let lines = self.lines(name);
            let (last, before) = lines.split_last().expect("a line of ours");
            assert!(last.as_bytes().starts_with(ours.as_bytes()), "{name}: {last:?}");
            let kept = (self.trusted || name == "via") && !named.contains(name);
            let said: Vec<_> = match kept {
                true => request.headers.get_all(name).iter().collect(),
                false => Vec::new(),
            };
            assert_eq!(before, said, "{name}");
        }
        for name in ["x-forwarded-proto", "x-forwarded-host"] {
            let said: Vec<_> = request.headers.get_all(name).iter().collect();
            let is_kept = self.trusted && !said.is_empty() && !named.contains(name);
            let lines = self.lines(name);
            assert!(if is_kept { lines == said } else { lines.len() <= 1 }, "{name}: {lines:?}");
        }
    }
}

fn our_own_watch_lets_it_pass(out: &[u8], from: Version, body: BodyLength, upgrade: bool) {
    let limits = Limits { first_line_max: 40 * 1024, head_max: 48 * 1024, ..Limits::REQUEST };
    let mut reader = RequestReader::new(limits);
    let passed = reader.next(out);
    if from == Version::HTTP_2 && passed == Err(Violation::Target) {
        // A URI should not have such characters, but they end neither a target nor a line.
        let target = out.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        assert!(target.iter().all(|&byte| byte > b' ' && byte != 0x7f));
        return;
    }
    assert_eq!(passed, Ok(Some(Event::Head(out.len()))), "{}", out.escape_ascii());
    assert_eq!(reader.head().upgrade, upgrade);
    let has_body = !matches!(body, BodyLength::Empty | BodyLength::Known(0));
    assert_eq!(reader.left() != Some(0), has_body);
}

/// The fields that `Connection` names, in lower case.
fn named(headers: &HeaderMap) -> BTreeSet<String> {
    let lines = headers.get_all(CONNECTION).iter();
    let texts = lines.filter_map(|line| std::str::from_utf8(line.as_bytes()).ok());
    texts.flat_map(|text| text.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Who is trusted is asked in turn, from the nearest on.
fn the_client_is_the_last_stranger(headers: &HeaderMap, trusted: bool) {
    let networks = networks();
    let is_trusted = |address: &IpAddr| networks.iter().any(|network| network.contains(address));
    let (peer, own) = peer(trusted);
    let client = peer.client(headers, &networks);
    if !trusted {
        assert_eq!(client, own);
        return;
    }
    let lines = headers.get_all("x-forwarded-for").iter().map(|line| line.to_str().unwrap_or("-"));
    let list = lines.collect::<Vec<_>>().join(",");
    let mut believed = vec![own];
    for name in list.split(',').rev() {
        let name = name.trim();
        let with_port = name.parse::<SocketAddr>().map(|address| address.ip());
        match name.parse::<IpAddr>().or(with_port) {
            Ok(address) => believed.push(address.to_canonical()),
            Err(_) => break,
        }
    }
    let stranger = believed.iter().find(|address| !is_trusted(address));
    assert_eq!(Some(&client), stranger.or_else(|| believed.last()), "{list:?}");
}

fn a_patience_reads_as_it_is_written(headers: &HeaderMap) {
    let Some(patience) = timeout(headers) else { return };
    assert!(Timestamp::from_nanos(1) + patience > Timestamp::ZERO);
    let written = format!("{}.{:09}s", patience.as_secs(), patience.subsec_nanos());
    let mut headers = HeaderMap::new();
    headers.insert("x-request-timeout", written.parse().expect("digits are text"));
    let read = timeout(&headers).expect("what was read can be written");
    // Seconds are read as a number of 53 bits.
    let close = Duration::from_nanos(1) + patience / (1 << 30);
    assert!(read.abs_diff(patience) <= close, "{patience:?} is read as {read:?}");
}

fn another_cookie_hides_none(request: &Parts) {
    let lines = request.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let cookies = lines.flat_map(|line| line.split(|&byte| byte == b';'));
    // A condition can only be for text.
    let mut texts = cookies.filter_map(|cookie| std::str::from_utf8(cookie).ok());
    let Some((name, value)) = texts.find_map(|cookie| cookie.split_once('=')) else { return };
    let cookie = |name: &str, value: &str| ClassRule {
        any: [Condition::Cookie {
            name: name.trim_ascii().to_owned(),
            value: Some(value.trim_ascii().to_owned()),
        }]
        .into(),
        class: ClassId::new(1),
    };
    let mut headers = request.headers.clone();
    for rule in [cookie(name, value), cookie("plan", "gold")] {
        let route = Route { classes: vec![rule], ..Route::everything(0) };
        let client = || [192, 0, 2, 1].into();
        let choice =
            Routes::new(vec![route]).choose(&request.method, || None, "/", &headers, client);
        assert_eq!(choice.map(|choice| choice.class), Some(ClassId::new(1)));
        headers.append(COOKIE, HeaderValue::from_static("last; plan=gold ;"));
    }
}
