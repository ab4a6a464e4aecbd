//! One core's client of an upstream: sends a request over an idle or a new connection, and waits
//! for the head of the answer, also when its own client has left.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use tamarisk_control::ClassId;
use tamarisk_observe::RequestId;
use tamarisk_observe::access_log::Names;
use tamarisk_stage::{GatePermit, Outcome};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::Upstream;
use super::connect::connect;
use super::connection::UpstreamConnection;
use crate::abandoned::Count;
use crate::error::ProxyError;
use crate::exchange_error::ExchangeError;
use crate::instance::Instance;
use crate::peer::Peer;
use crate::request::body::{BodyLength, RequestBody};
use crate::request::head::HeadWriter;
use crate::upstream::answer_reader::AnswerHead;

/// One core's client of an upstream: its idle connections, and what it is called in accounts.
pub(crate) struct UpstreamClient {
    pub(crate) upstream: Arc<Upstream>,
    /// Requests whose clients have left, of all upstreams.
    pub(crate) abandoned: Count,
    instance: Instance,
    stage: Arc<str>,
    classes: Vec<Arc<str>>,
    pool: Pool,
    /// The client of the upstream's overflow that was used last.
    overflow: Mutex<Option<Arc<Self>>>,
}

/// What ends the wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// The time that the upstream has for any answer.
    AnswerTime,
    /// The deadline of the client.
    Deadline,
    /// The stage's termination law.
    Law,
}

impl Limit {
    fn error(self) -> ProxyError {
        match self {
            Self::AnswerTime => ProxyError::Silent,
            Self::Deadline => ProxyError::Overdue,
            Self::Law => ProxyError::Overlong,
        }
    }
}

/// A request that is ready to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) head: &'a mut Parts,
    pub(crate) id: &'a RequestId,
    pub(crate) body: Option<Box<RequestBody>>,
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

impl UpstreamClient {
    pub(crate) fn new(upstream: Arc<Upstream>, abandoned: Count, instance: Instance) -> Self {
        let stage = upstream.gate.name().into();
        let classes = upstream.gate.classes();
        let classes = classes.iter().map(|(_, class)| class.name.as_str().into()).collect();
        let (pool, overflow) = (Pool::default(), Mutex::default());
        Self { upstream, abandoned, instance, stage, classes, pool, overflow }
    }

    /// What a request of this class on this `route` is called.
    pub(crate) fn names(&self, route: Arc<str>, class: ClassId) -> Names {
        let class = Arc::clone(&self.classes[class.index()]);
        Names { route, class, stage: Arc::clone(&self.stage) }
    }

    /// This core's client of the overflow that the upstream has now.
    pub(crate) fn overflow(&self) -> Option<Arc<Self>> {
        let upstream = self.upstream.overflow();
        let mut known = self.overflow.lock();
        let is_known = match (&*known, &upstream) {
            (Some(known), Some(upstream)) => Arc::ptr_eq(&known.upstream, upstream),
            (known, upstream) => known.is_none() && upstream.is_none(),
        };
        if !is_known {
            let of = |upstream| Self::new(upstream, self.abandoned.clone(), self.instance.clone());
            *known = upstream.map(|upstream| Arc::new(of(upstream)));
        }
        known.clone()
    }

    /// Why a request has failed, as the stage shows it.
    fn failure(&self, error: ProxyError) -> String {
        let Upstream { host, port, .. } = &*self.upstream;
        match error {
            ProxyError::Unreachable => format!("cannot connect to {host}:{port}"),
            ProxyError::Unconnected | ProxyError::Silent => "did not answer in time".to_owned(),
            ProxyError::Http2 => {
                "it answered in HTTP/2; upstreams are spoken to in HTTP/1.1".to_owned()
            }
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
    ) -> Result<Answered, ProxyError> {
        let Outgoing { head, id, body, permit } = request;
        let Upstream { host_header, authority, answer_time, gate, takes_overflow, .. } =
            &*self.upstream;
        let left = permit.deadline().map(|deadline| deadline.since(gate.clock().now()));
        let (mut time, limit) = match left {
            Some(left) if left >= *answer_time => (*answer_time, Limit::AnswerTime),
            Some(left) if permit.is_due_at_deadline() => (left, Limit::Deadline),
            Some(left) => (left, Limit::Law),
            None => (*answer_time, Limit::AnswerTime),
        };
        let quality = self.upstream.quality(&permit);
        let length = body.as_deref().map_or(BodyLength::Empty, RequestBody::length);
        let fail = |error: ProxyError, permit: GatePermit| {
            match error.outcome() {
                Outcome::Failed => permit.fail_because(self.failure(error)),
                Outcome::Abandoned => drop(permit),
                _ => permit.terminate(),
            }
            Err(error)
        };
        let overflows = *takes_overflow;
        let instance = &self.instance;
        let writer = HeadWriter { from, host_header, authority, id, instance, quality, overflows };
        let to_head = head.method == Method::HEAD;
        let can_repeat = can_repeat(&head.method, length);
        let (mut connection, kept) = match self.pool.take() {
            Some(connection) => (connection, true),
            // Boxed, for most requests have a connection.
            None => match Box::pin(self.connect(&mut time, limit)).await {
                Ok(connection) => (connection, false),
                Err(error) => return fail(error, permit),
            },
        };
        let wish = writer.write_head(connection.begin(to_head, body), head, length);
        // The request's fields have been written: their map serves for the answer's.
        let mut spare = std::mem::take(&mut head.headers);
        spare.clear();
        let abandoned_timeout = self.upstream.abandoned_timeout();
        let mut exchange = Exchange::new(connection, permit, &self.abandoned, abandoned_timeout);
        // An overflow has few places: its time goes on while a client is waited for.
        exchange.waits_for_client = !overflows;
        let sent = Instant::now();
        let mut answered = exchange.answer(time, &mut spare).await;
        if let Err(ExchangeError::Ended) = answered
            && can_repeat
            && kept
            && exchange.is_silent()
            && sent.elapsed() < STALE_WITHIN
        {
            time = time.saturating_sub(sent.elapsed());
            match Box::pin(self.connect(&mut time, limit)).await {
                Ok(connection) => exchange.begin_again(connection),
                Err(error) => return fail(error, exchange.done().1),
            }
            answered = exchange.answer(time, &mut spare).await;
        }
        if matches!(answered, Err(ExchangeError::Late)) && limit == Limit::Deadline {
            // The upstream works on, as for a client that has left: it has its place for as long.
            exchange.is_overdue = true;
            drop(exchange);
            return Err(limit.error());
        }
        let (connection, permit) = exchange.done();
        match answered {
            Ok(head) => Ok(Answered { head, connection, wish, permit }),
            Err(ExchangeError::Late) => fail(limit.error(), permit),
            Err(error) => fail(ProxyError::of(&error), permit),
        }
    }

    /// Takes back a connection whose answer has been read.
    pub(crate) fn give_back(&self, connection: Box<UpstreamConnection>) {
        self.pool.put(connection);
    }

    pub(crate) fn sweep(&self) {
        self.pool.sweep();
        self.overflow.lock().iter().for_each(|overflow| overflow.sweep());
    }

    /// Connects, at the expense of the `time` that there is for the answer by this `limit`.
    async fn connect(
        &self,
        time: &mut Duration,
        limit: Limit,
    ) -> Result<Box<UpstreamConnection>, ProxyError> {
        let Upstream { host, port, shown, connect_time, connectivity, .. } = &*self.upstream;
        let start = Instant::now();
        let is_cut_short = *time < *connect_time;
        let connected = connect(host, *port, (*time).min(*connect_time)).await;
        *time = time.saturating_sub(start.elapsed());
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        if is_cut_short && connected.as_ref().is_err_and(is_late) {
            return Err(match limit {
                Limit::AnswerTime => ProxyError::Unconnected,
                // It says nothing of the upstream.
                Limit::Deadline | Limit::Law => limit.error(),
            });
        }
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => {
                connectivity.connected(&self.stage, shown);
                Ok(Box::new(UpstreamConnection::new(stream, self.pool.last_sweep())))
            }
            Err(error) => {
                connectivity.failed(&self.stage, shown, &error);
                Err(match is_late(&error) {
                    true => ProxyError::Unconnected,
                    false => ProxyError::Unreachable,
                })
            }
        }
    }
}

/// An idle connection that the upstream has closed shows that at once. If it breaks later, the upstream
/// has had the request, and need not have it twice.
const STALE_WITHIN: Duration = Duration::from_secs(1);

/// Whether a request may be sent twice: if it is idempotent [RFC9110 §9.2.2], and
/// no body of it has been used up.
fn can_repeat(method: &Method, body: BodyLength) -> bool {
    method.is_idempotent() && body == BodyLength::Empty
}

/// A request that the upstream works on, and the place that it takes. If it is dropped before
/// there is an answer, a task waits for the upstream.
struct Exchange<'a> {
    parts: Option<(Box<UpstreamConnection>, GatePermit)>,
    abandoned: &'a Count,
    abandoned_timeout: Duration,
    /// The time stands still while there is nothing to do but to wait for the client.
    waits_for_client: bool,
    /// The client has been told that its deadline has passed.
    is_overdue: bool,
}

impl<'a> Exchange<'a> {
    /// The request that has begun on `connection`. Without a client it goes on for
    /// `abandoned_timeout`, if there are not too many of `abandoned`.
    fn new(
        connection: Box<UpstreamConnection>,
        permit: GatePermit,
        abandoned: &'a Count,
        abandoned_timeout: Duration,
    ) -> Self {
        let parts = Some((connection, permit));
        Self { parts, abandoned, abandoned_timeout, waits_for_client: true, is_overdue: false }
    }

    /// The head of the answer; see [`UpstreamConnection::answer`].
    async fn answer(
        &mut self,
        time: Duration,
        spare: &mut HeaderMap,
    ) -> Result<AnswerHead, ExchangeError> {
        let waits_for_client = self.waits_for_client;
        let (connection, permit) = self.parts();
        connection.answer(time, spare, waits_for_client.then_some(permit)).await
    }

    /// Whether nothing has come of an answer.
    fn is_silent(&mut self) -> bool {
        self.parts().0.is_silent()
    }

    /// Begins the same on another connection.
    fn begin_again(&mut self, connection: Box<UpstreamConnection>) {
        let (current, _) = self.parts();
        let stale = std::mem::replace(current, connection);
        current.begin_again(*stale);
    }

    /// There is an answer, or a reason why there is none.
    fn done(mut self) -> (Box<UpstreamConnection>, GatePermit) {
        self.parts.take().expect("only this takes them")
    }

    fn parts(&mut self) -> &mut (Box<UpstreamConnection>, GatePermit) {
        self.parts.as_mut().expect("only `done` takes them")
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let Some((mut connection, permit)) = self.parts.take() else { return };
        let is_overdue = self.is_overdue;
        // What has not been sent in full is not being worked on.
        let counted = if connection.has_sent_all() { self.abandoned.add() } else { None };
        let (Ok(runtime), Some(counted)) = (Handle::try_current(), counted) else {
            return if is_overdue { permit.terminate() } else { drop(permit) };
        };
        let time = self.abandoned_timeout;
        runtime.spawn(async move {
            let _ = timeout(time, connection.outlast()).await;
            drop(connection);
            if is_overdue {
                permit.terminate()
            } else {
                permit.outlast()
            }
            drop(counted);
        });
    }
}

/// Idle connections kept to one upstream by one core. More than this many were
/// in use at once, which the admission law does not allow for long.
const IDLE_MAX: usize = 256;

/// How many sweeps an idle connection survives.
const SWEEPS: u64 = 6;

/// How many sweeps a connection in use survives: five minutes. Then another takes its place, so that
/// an upstream with a new address is found also under a load that lets none become idle.
const SWEEPS_IN_USE: u64 = 60;

/// As many sweeps apart connections end that were made at once: upstreams do not like many new ones
/// in a moment.
const SWEEPS_SPREAD: u64 = 12;

/// One core's idle connections to an upstream. The last one back is the first
/// one out: its caches are warm, and those too many grow old and go.
#[derive(Default)]
struct Pool {
    idle: Mutex<VecDeque<Idle>>,
    sweeps: AtomicU64,
    /// How many connections were made.
    made: AtomicU64,
}

struct Idle {
    connection: Box<UpstreamConnection>,
    since: u64,
}

impl Pool {
    /// An idle connection that the upstream is not known to have closed.
    fn take(&self) -> Option<Box<UpstreamConnection>> {
        loop {
            let connection = self.idle.lock().pop_back()?.connection;
            if connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// The sweep from which on a connection that is made now is not kept any more.
    fn last_sweep(&self) -> u64 {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        self.sweeps.load(Ordering::Relaxed) + SWEEPS_IN_USE - made % SWEEPS_SPREAD
    }

    /// Keeps a connection that can take another request, and is not too old for it.
    fn put(&self, connection: Box<UpstreamConnection>) {
        let since = self.sweeps.load(Ordering::Relaxed);
        if since >= connection.last_sweep || !connection.is_idle() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push_back(Idle { connection, since });
        }
    }

    /// Drops connections that have been idle for six sweeps, and those that the
    /// upstream has closed.
    fn sweep(&self) {
        let now = self.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        let mut idle = self.idle.lock();
        idle.retain(|idle| now - idle.since < SWEEPS && idle.connection.is_idle());
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// For how many sweeps a connection is kept that is used in each of them.
    async fn kept(pool: &Pool, listener: &TcpListener) -> u64 {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let _open = listener.accept().await.unwrap();
        pool.put(Box::new(UpstreamConnection::new(stream, pool.last_sweep())));
        let mut sweeps = 0;
        while let Some(connection) = pool.take() {
            pool.sweep();
            sweeps += 1;
            pool.put(connection);
        }
        sweeps
    }

    #[tokio::test]
    async fn connections_in_use_end_after_five_minutes_and_not_all_at_once() {
        let (pool, listener) = (Pool::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let mut all = Vec::new();
        for _ in 0..13 {
            all.push(kept(&pool, &listener).await);
        }
        // 60 sweeps, one each 5 s, are five minutes; the last minute is spread over 12.
        assert_eq!(all, [60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 60]);
    }
}
