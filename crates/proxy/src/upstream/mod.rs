//! An upstream, and one core's way to it.

pub(crate) mod connection;
mod connectivity;
pub(crate) mod kind_times;
mod pool;

use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, Uri};
use tamarisk_control::{ClassId, Ratio};
use tamarisk_observe::access_log::Names;
use tamarisk_stage::{Gate, GatePermit};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use crate::abandoned::{self, Count, Exchange};
use crate::answer::head::AnswerHead;
use crate::classify::Client;
use crate::error::ProxyError;
use crate::forwarded::Peer;
use crate::request::body::RequestBody;
use crate::request::head::{BodyLength, HeadWriter};
use crate::request::intake::RequestBuffering;
use crate::upstream::connection::{ExchangeError, UpstreamConnection};
use crate::upstream::connectivity::Connectivity;
use crate::upstream::kind_times::{KindTime, KindTimes};
use crate::upstream::pool::Pool;
use tamarisk_observe::RequestId;

/// A service behind the proxy, and the gate before it.
#[derive(Clone)]
pub struct Upstream {
    host: String,
    port: u16,
    authority: HeaderValue,
    pub(crate) host_header: HostHeader,
    pub(crate) gate: Gate,
    pub(crate) request_buffering: RequestBuffering,
    pub(crate) client: Client,
    connect_time: Duration,
    pub(crate) answer_time: Duration,
    /// Requests carry how well they are to be served.
    tells_quality: Arc<AtomicBool>,
    connectivity: Arc<Connectivity>,
    pub(crate) kind_times: Arc<KindTimes>,
}

/// Which `Host` an upstream is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostHeader {
    /// The one that the client asked for.
    #[default]
    Client,
    /// The upstream's own, from its URL.
    Upstream,
    /// Always this one.
    Fixed(HeaderValue),
}

/// Why a URL is none that an upstream can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUpstream {
    /// Not a URL at all.
    #[error("{0:?} is not a URL")]
    Malformed(String),
    /// Some other scheme than `http`.
    #[error("the scheme of {0:?} is not http")]
    Scheme(String),
    /// More than a host and a port.
    #[error("{0:?} has a path, a query or a user: only a host and a port can be given")]
    NotBare(String),
    /// No host, or something behind it that is not `:` and a number from 1 to 65535.
    #[error("{0:?} has no host, or no port from 1 to 65535, that could be connected to")]
    Place(String),
}

/// A host and a port, as upstream URLs have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    authority: Authority,
    host: String,
    port: u16,
}

impl std::str::FromStr for Origin {
    type Err = InvalidUpstream;

    /// Reads `http://host` or `http://host:port`, `host:port`, or `:port` of this machine.
    fn from_str(url: &str) -> Result<Self, InvalidUpstream> {
        let whole = match url.strip_prefix(':') {
            Some(port) => format!("http://127.0.0.1:{port}"),
            None if !url.contains('/') && url.contains(':') => format!("http://{url}"),
            None => url.to_owned(),
        };
        let uri: Uri = whole.parse().map_err(|_| InvalidUpstream::Malformed(url.to_owned()))?;
        if uri.scheme_str() != Some("http") {
            return Err(InvalidUpstream::Scheme(url.to_owned()));
        }
        let authority = match uri.authority() {
            Some(authority)
                if matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("/"))
                    && !authority.as_str().contains('@') =>
            {
                authority.clone()
            }
            _ => return Err(InvalidUpstream::NotBare(url.to_owned())),
        };
        let place = host_and_port(&authority).map(|(host, port)| (host.to_owned(), port));
        let (host, port) = place.ok_or_else(|| InvalidUpstream::Place(url.to_owned()))?;
        Ok(Self { authority, host, port })
    }
}

/// What to connect to: a host, without the brackets of an IPv6 address, and a port. An
/// [`Authority`] alone may be neither: it takes any text for a port, and then says that
/// there is none, and brackets anywhere in a host.
pub fn host_and_port(authority: &Authority) -> Option<(&str, u16)> {
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let is_plain = *authority == *host || *authority == *format!("{host}:{port}");
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|ip| ip.parse::<Ipv6Addr>().is_ok())?,
        None => host,
    };
    (is_plain && port > 0 && !host.is_empty() && !host.contains(['[', ']'])).then_some((host, port))
}

impl Origin {
    /// Its host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether its host has an address at present.
    ///
    /// # Errors
    /// What the system says if it has none.
    pub async fn resolve(&self) -> io::Result<()> {
        let mut found = lookup_host((&*self.host, self.port)).await?;
        found.next().map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

impl Upstream {
    /// The service at `origin`, admitted to by `gate`. It has 5 s to accept a
    /// connection and 60 s to begin its answer.
    pub fn new(origin: &Origin, gate: Gate) -> Self {
        Self {
            host: origin.host.clone(),
            port: origin.port,
            authority: HeaderValue::from_str(origin.authority.as_str())
                .expect("an authority is visible characters"),
            host_header: HostHeader::default(),
            gate,
            request_buffering: RequestBuffering::default(),
            client: Client::default(),
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(60),
            tells_quality: Arc::default(),
            connectivity: Arc::default(),
            kind_times: Arc::default(),
        }
    }

    /// Which `Host` it is told.
    #[must_use]
    pub fn host_header(mut self, host: HostHeader) -> Self {
        self.host_header = host;
        self
    }

    /// Whether it gets request bodies only when they have come to their ends.
    #[must_use]
    pub fn request_buffering(mut self, buffering: RequestBuffering) -> Self {
        self.request_buffering = buffering;
        self
    }

    /// How its clients are told apart.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// The longest wait for a connection; after it the client gets a 504.
    #[must_use]
    pub fn connect_time(mut self, time: Duration) -> Self {
        self.connect_time = time;
        self
    }

    /// The longest wait for the head of an answer; after it the client gets a 504.
    #[must_use]
    pub fn answer_time(mut self, time: Duration) -> Self {
        self.answer_time = time;
        self
    }

    /// Whether requests to it carry how well they are to be served, as `X-Quality`.
    #[must_use]
    pub fn tells_quality(self, tells: bool) -> Self {
        self.tell_quality(tells);
        self
    }

    /// From now on requests say, or no longer say, which quality is wanted.
    pub fn tell_quality(&self, tells: bool) {
        self.tells_quality.store(tells, Ordering::Relaxed);
    }

    /// The quality of what `permit` allows, if it is to be told.
    pub(crate) fn quality(&self, permit: &GatePermit) -> Option<Ratio> {
        self.tells_quality.load(Ordering::Relaxed).then(|| permit.quality())
    }

    /// How long it may go on with what nobody waits for any more.
    pub(crate) fn time_for_nobody(&self) -> Duration {
        self.answer_time.min(abandoned::TIME_MAX)
    }

    /// How long it takes at least, by kind of request; of the first 64 kinds.
    pub fn kind_times(&self) -> Vec<KindTime> {
        self.kind_times.read()
    }

    /// The gate before it.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn authority(&self) -> &HeaderValue {
        &self.authority
    }
}

/// One core's way to an upstream.
pub(crate) struct UpstreamClient {
    pub(crate) upstream: Arc<Upstream>,
    /// Requests whose clients have left, of all upstreams.
    pub(crate) abandoned: Count,
    stage: Arc<str>,
    classes: Vec<Arc<str>>,
    pool: Pool,
}

/// A request that is ready to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) head: &'a mut Parts,
    pub(crate) id: &'a RequestId,
    pub(crate) length: BodyLength,
    pub(crate) body: Option<RequestBody>,
    /// The answer must have begun by then.
    pub(crate) time: Duration,
    /// How well it is to be served, if the upstream is to know.
    pub(crate) quality: Option<Ratio>,
    /// Its place.
    pub(crate) permit: GatePermit,
}

/// An answer that has begun.
pub(crate) struct Answered {
    pub(crate) head: AnswerHead,
    /// The rest of it comes over this.
    pub(crate) connection: Box<UpstreamConnection>,
    /// The upstream was asked to change to these protocols.
    pub(crate) wish: Option<HeaderValue>,
    pub(crate) permit: GatePermit,
}

/// Why there is no answer, and the place that was taken for it.
pub(crate) struct Failed {
    pub(crate) error: ProxyError,
    pub(crate) permit: GatePermit,
}

impl UpstreamClient {
    pub(crate) fn new(upstream: Arc<Upstream>, abandoned: Count) -> Self {
        let stage = upstream.gate.name().into();
        let classes = upstream.gate.classes();
        let classes = classes.iter().map(|(_, class)| class.name.as_str().into()).collect();
        Self { upstream, abandoned, stage, classes, pool: Pool::default() }
    }

    /// What a request of this class on this `route` is called.
    pub(crate) fn names(&self, route: Arc<str>, class: ClassId) -> Names {
        let class = Arc::clone(&self.classes[class.index()]);
        Names { route, class, stage: Arc::clone(&self.stage) }
    }

    /// Why a request has failed, for whoever looks at the stage.
    pub(crate) fn failure(&self, error: ProxyError) -> String {
        let Upstream { host, port, .. } = &*self.upstream;
        match error {
            ProxyError::Unreachable => format!("cannot connect to {host}:{port}"),
            ProxyError::Silent => "did not answer in time".to_owned(),
            _ => "broke off, or its answer was malformed".to_owned(),
        }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// An idle connection may be closed by the upstream at the very moment at
    /// which it is used. A request that can be sent again without harm is then
    /// sent over a new connection.
    pub(crate) async fn exchange(
        &self,
        from: &Peer,
        request: Outgoing<'_>,
    ) -> Result<Answered, Failed> {
        let Outgoing { head, id, length, body, mut time, quality, permit } = request;
        let writer = HeadWriter { from, to: &self.upstream, id, quality };
        let to_head = head.method == Method::HEAD;
        let can_repeat = can_repeat(&head.method, length);
        let (mut connection, kept) = match self.pool.take() {
            Some(connection) => (connection, true),
            None => match self.connect(&mut time).await {
                Ok(connection) => (connection, false),
                Err(error) => return Err(Failed { error, permit }),
            },
        };
        let wish = connection.begin(to_head, body, |out| writer.write_head(out, head, length));
        // The request's fields have been written: their map serves for the answer's.
        let mut spare = std::mem::take(&mut head.headers);
        spare.clear();
        let mut work = Exchange::new(connection, permit, self);
        let mut answered = work.answer(time, &mut spare).await;
        if let Err(ExchangeError::Ended) = answered
            && can_repeat
            && kept
            && work.is_silent()
        {
            match self.connect(&mut time).await {
                Ok(connection) => work.begin_again(connection),
                Err(error) => return Err(Failed { error, permit: work.done().1 }),
            }
            answered = work.answer(time, &mut spare).await;
        }
        let (connection, permit) = work.done();
        match answered {
            Ok(head) => Ok(Answered { head, connection, wish, permit }),
            Err(error) => Err(Failed { error: ProxyError::of(&error), permit }),
        }
    }

    /// Takes back a connection whose answer has been read.
    pub(crate) fn give_back(&self, connection: Box<UpstreamConnection>) {
        self.pool.put(connection);
    }

    pub(crate) fn sweep(&self) {
        self.pool.sweep();
    }

    /// Connects, at the expense of the `time` that there is for the answer.
    async fn connect(&self, time: &mut Duration) -> Result<Box<UpstreamConnection>, ProxyError> {
        let Upstream { host, port, connect_time, connectivity, .. } = &*self.upstream;
        let start = Instant::now();
        let connecting = TcpStream::connect((host.as_str(), *port));
        let is_cut_short = *time < *connect_time;
        let connected = timeout((*time).min(*connect_time), connecting).await;
        *time = time.saturating_sub(start.elapsed());
        // The client's own deadline says nothing of the upstream.
        if connected.is_err() && is_cut_short {
            return Err(ProxyError::Silent);
        }
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => {
                connectivity.connected(&self.stage);
                Ok(Box::new(UpstreamConnection::new(stream)))
            }
            Err(error) => {
                connectivity.failed(&self.stage, &format!("{host}:{port}"), &error);
                Err(match error.kind() {
                    io::ErrorKind::TimedOut => ProxyError::Silent,
                    _ => ProxyError::Unreachable,
                })
            }
        }
    }
}

/// Whether a request may be sent twice: if it is idempotent [RFC9110 §9.2.2], and
/// no body of it has been used up.
fn can_repeat(method: &Method, body: BodyLength) -> bool {
    method.is_idempotent() && body == BodyLength::Empty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_host_and_a_port() {
        for (url, expected) in [
            ("http://a", "http://a"),
            ("http://a/", "http://a"),
            ("http://a:3000", "http://a:3000"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("localhost:3000", "http://localhost:3000"),
            (":3000", "http://127.0.0.1:3000"),
        ] {
            assert_eq!(
                url.parse::<Origin>().map(|origin| origin.to_string()),
                Ok(expected.to_owned())
            );
        }
        let error = |url: &str| url.parse::<Origin>().unwrap_err();
        assert_eq!(error("a b"), InvalidUpstream::Malformed("a b".to_owned()));
        assert_eq!(error("a"), InvalidUpstream::Scheme("a".to_owned()));
        assert_eq!(error("https://a"), InvalidUpstream::Scheme("https://a".to_owned()));
        assert_eq!(error("http://a/b"), InvalidUpstream::NotBare("http://a/b".to_owned()));
        assert_eq!(error("http://u@a"), InvalidUpstream::NotBare("http://u@a".to_owned()));
        for place in ["[]", ":80", "a[]", "[a]", "[::1]x:80"] {
            let url = format!("http://{place}");
            assert_eq!(error(&url), InvalidUpstream::Place(url));
        }
        for port in ["", "0", "65536", "99999", "http", "+80", "080"] {
            let url = format!("http://a:{port}");
            assert_eq!(error(&url), InvalidUpstream::Place(url));
        }
    }
}
