//! An upstream: a service behind the proxy, and the gate before it. Each core has a client of its
//! own for it, which sends requests over connections that it keeps.

pub(crate) mod answer_reader;
pub(crate) mod client;
mod connect;
pub(crate) mod connection;
mod connectivity;
pub(crate) mod kind_times;
mod origin;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderValue;
use parking_lot::RwLock;
use tamarisk_control::{ClassId, Ratio};
use tamarisk_stage::{Gate, GatePermit};

pub use self::origin::{InvalidUpstream, Origin, host_and_port};

use self::connectivity::Connectivity;
use self::kind_times::{KindTime, KindTimes};
use crate::abandoned;
use crate::classify::Client;
use crate::request::host_header::HostHeader;
use crate::request_buffering::RequestBuffering;

/// The name of an upstream that has none of its operator's. Messages give its address instead.
pub const UNNAMED: &str = "upstream";

/// A service behind the proxy, and the gate before it.
#[derive(Clone)]
pub struct Upstream {
    /// How messages speak of it.
    shown: String,
    host: String,
    port: u16,
    authority: HeaderValue,
    host_header: HostHeader,
    pub(crate) gate: Gate,
    pub(crate) request_buffering: RequestBuffering,
    pub(crate) client: Client,
    connect_time: Duration,
    pub(crate) answer_time: Duration,
    pub(crate) stall_time: Duration,
    /// Requests carry how well they are to be served.
    tells_quality: Arc<AtomicBool>,
    connectivity: Arc<Connectivity>,
    pub(crate) kind_times: Arc<KindTimes>,
    /// By class, requests whose own time was over when they came.
    came_overdue: Arc<[AtomicU64]>,
    /// Where requests go that the gate rejects.
    overflow: Arc<RwLock<Option<Arc<Self>>>>,
    pub(crate) takes_overflow: bool,
    /// It is known to lead back to this proxy.
    leads_back: Arc<AtomicBool>,
}

impl Upstream {
    /// The service at `origin`, admitted to by `gate`. It has 5 s to accept a
    /// connection, 60 s to begin its answer, and 60 s for each further part of it.
    pub fn new(origin: &Origin, gate: Gate) -> Self {
        let shown = match gate.name() {
            UNNAMED => origin.authority.to_string(),
            name => format!("{name:?} ({})", origin.authority),
        };
        Self {
            shown,
            host: origin.host.clone(),
            port: origin.port,
            authority: HeaderValue::from_str(origin.authority.as_str())
                .expect("an authority is visible characters"),
            host_header: HostHeader::default(),
            request_buffering: RequestBuffering::default(),
            client: Client::default(),
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(60),
            came_overdue: gate.classes().iter().map(|_| AtomicU64::new(0)).collect(),
            gate,
            tells_quality: Arc::default(),
            connectivity: Arc::default(),
            kind_times: Arc::default(),
            overflow: Arc::default(),
            takes_overflow: false,
            leads_back: Arc::default(),
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

    /// The longest wait for the next part of an answer that has begun; after it the answer is broken
    /// off, unless it is a stream.
    #[must_use]
    pub fn stall_time(mut self, time: Duration) -> Self {
        self.stall_time = time;
        self
    }

    /// Whether requests to it carry how well they are to be served, as `X-Quality`.
    #[must_use]
    pub fn tells_quality(self, tells: bool) -> Self {
        self.tell_quality(tells);
        self
    }

    /// It is the overflow of another upstream: its requests carry `X-Overflow`, by which a proxy
    /// knows that they have been sent elsewhere already.
    #[must_use]
    pub fn takes_overflow(mut self) -> Self {
        self.takes_overflow = true;
        self
    }

    /// Where requests go that the gate rejects, if anywhere.
    pub fn overflow(&self) -> Option<Arc<Self>> {
        self.overflow.read().clone()
    }

    /// From now on requests that the gate rejects go to `overflow`, or nowhere. Those under way go on.
    pub fn set_overflow(&self, overflow: Option<Arc<Self>>) {
        *self.overflow.write() = overflow;
    }

    /// From now on requests say, or no longer say, which quality is wanted.
    pub fn tell_quality(&self, tells: bool) {
        self.tells_quality.store(tells, Ordering::Relaxed);
    }

    /// The quality of what `permit` allows, if it is to be told.
    pub(crate) fn quality(&self, permit: &GatePermit) -> Option<Ratio> {
        self.tells_quality.load(Ordering::Relaxed).then(|| permit.quality())
    }

    /// How long it may go on with an abandoned request.
    pub(crate) fn abandoned_timeout(&self) -> Duration {
        self.answer_time.min(abandoned::TIME_MAX)
    }

    /// How long it takes at least, by kind of request; of the first 64 kinds.
    pub fn kind_times(&self) -> Vec<KindTime> {
        self.kind_times.read()
    }

    /// A request of this class leaves no time for an answer, so that the gate will reject it.
    pub(crate) fn comes_overdue(&self, class: ClassId) {
        self.came_overdue[class.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were rejected because they left no time for an answer, which says nothing
    /// of the upstream; by class.
    pub fn came_overdue(&self) -> Vec<u64> {
        self.came_overdue.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// A request to it has come back. That is logged once.
    pub(crate) fn leads_back(&self) {
        if !self.leads_back.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                upstream = self.gate.name(),
                "{} leads back to this proxy: requests get 508. Give the address of the service itself.",
                self.shown
            );
        }
    }

    /// How messages speak of it: as in `"shop" (127.0.0.1:3000)`, or by its address alone if it is
    /// [`UNNAMED`].
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The gate before it.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The gate before it, and the one before its overflow.
    pub fn gates(&self) -> impl Iterator<Item = Gate> + use<> {
        let overflow = self.overflow().map(|overflow| overflow.gate.clone());
        std::iter::once(self.gate.clone()).chain(overflow)
    }
}
