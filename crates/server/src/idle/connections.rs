//! Idle connections, which share one task.
//!
//! A connection that has to wait for anything (a slow client, the service) is a task of its
//! own. But most of them wait for their next request, most of the time, and most requests are
//! answered on the spot. Those are here, and have one task in common: it costs less memory than a
//! task for each, and less time than to wake it for each request.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::pending;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use slab::Slab;
use tamarisk_http_gate::Deadline;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::client_connection::{Http1, Served};
use crate::client_service::ClientService;
use crate::connection::{self, Client};
use crate::connection_entry::{ConnectionPermit, Entry};
use crate::h1::ConnectionState;
use crate::h1::wire::Wire;
use crate::idle::poller::{Poller, READY_MAX, ReadyEvent};
use crate::settings::{ConnectionSettings, Ended};
use crate::transport::socket::Socket;
use crate::transport::stream::{Protocol, Stream};

/// The connections of a listener: those that wait here, and those that have tasks.
pub(crate) struct IdleConnections<S: ClientService> {
    settings: Arc<ConnectionSettings>,
    /// Without one nobody waits here.
    poller: Option<Poller>,
    /// Who has something to say.
    ready: Vec<ReadyEvent>,
    waiting: Slab<IdleConnection<S>>,
    /// Those in `waiting` that can be answered now, in the order in which they have come to be: each gets
    /// one answer, and if more of it has come it stands at the end again. Nobody is closed while it
    /// stands here.
    turns: VecDeque<usize>,
    due: Due,
    tasks: TaskTracker,
    cut_off: Arc<AtomicUsize>,
    /// Those that are quiet come back.
    back: UnboundedSender<Box<Http1<S>>>,
    returning: UnboundedReceiver<Box<Http1<S>>>,
}

struct IdleConnection<S: ClientService> {
    http: Box<Http1<S>>,
    /// When it was answered last.
    since: Instant,
    /// It stands in the order of those that can be answered.
    has_turn: bool,
}

impl<S: ClientService> IdleConnections<S> {
    /// For connections that are served on these `settings`.
    pub(crate) fn new(mut settings: ConnectionSettings) -> Self {
        // All are served by one thread here: elsewhere they have them all.
        let has_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let poller = if S::ENABLED && has_one_thread { Poller::new().ok() } else { None };
        settings.may_idle = poller.is_some();
        // There are no more in it than there may be connections.
        let (back, returning) = mpsc::unbounded_channel();
        Self {
            settings: Arc::new(settings),
            poller,
            ready: Vec::new(),
            waiting: Slab::new(),
            turns: VecDeque::new(),
            due: Due::default(),
            tasks: TaskTracker::new(),
            cut_off: Arc::default(),
            back,
            returning,
        }
    }

    /// Serves a client who has come.
    pub(crate) fn welcome(&mut self, socket: Socket, service: S, permit: ConnectionPermit) {
        let settings = Arc::clone(&self.settings);
        let client = match Client::of(socket, &settings) {
            Client::Open(mut wire) if self.poller.is_some() => {
                wire.tell(permit.connection());
                match protocol_at_once(&mut wire) {
                    Poll::Ready(Ok(Some(Protocol::Http1))) => {
                        let http = Http1::new(wire, service, settings, permit, Deadline::default());
                        return self.take_in(Box::new(http), Duration::ZERO);
                    }
                    // It has left.
                    Poll::Ready(Ok(None) | Err(_)) => return,
                    Poll::Ready(Ok(Some(Protocol::Http2))) | Poll::Pending => Client::Open(wire),
                }
            }
            client => client,
        };
        let entry = Arc::clone(permit.connection());
        self.spawn(&entry, connection::serve(client, service, settings, permit));
    }

    /// Gives prepared responses to a client who has `waited` already, and has it wait here or in a
    /// task.
    fn take_in(&mut self, mut http: Box<Http1<S>>, waited: Duration) {
        let state = http.answer();
        let waited = match state {
            ConnectionState::Idle { is_asked: true } | ConnectionState::More => Duration::ZERO,
            ConnectionState::Idle { is_asked: false } => waited,
            ConnectionState::Busy => return self.spawn(&http.entry(), http.run()),
            ConnectionState::Over => return,
        };
        let slot = self.waiting.vacant_entry();
        let is_added = match (&self.poller, http.socket()) {
            (Some(poller), Some(socket)) => poller.add(socket, slot.key()).is_ok(),
            _ => false,
        };
        // Otherwise there is no memory for it in the system, and not much sense in going on.
        if is_added {
            let now = Instant::now();
            let since = now.checked_sub(waited).unwrap_or(now);
            self.due.set(slot.key(), since.checked_add(self.settings.idle_time));
            let has_turn = state == ConnectionState::More;
            if has_turn {
                self.turns.push_back(slot.key());
            }
            slot.insert(IdleConnection { http, since, has_turn });
        }
    }

    /// Serves a connection by a task of its own, until it is quiet.
    fn spawn(&self, entry: &Entry, connection: impl Future<Output = Served<S>> + Send + 'static) {
        let (back, cut_off) = (self.back.clone(), Arc::clone(&self.cut_off));
        // An async block would have room for the connection twice.
        let task = self.tasks.spawn(connection.map(move |served| match served {
            // Nobody takes it only when nobody serves any more.
            Served::Idle(http) => drop(back.send(http)),
            Served::ToTheEnd(Ended::CutOff) => drop(cut_off.fetch_add(1, Ordering::Relaxed)),
            Served::ToTheEnd(Ended::ByItself) => {}
        }));
        entry.runs(task.abort_handle());
    }

    /// Waits until somebody has something to say or comes back from its task, and then takes in
    /// those who come back and gives the others their turns; how many.
    pub(crate) async fn serve(&mut self) -> usize {
        self.ready.clear();
        let Some(poller) = &self.poller else { return pending().await };
        let mut returned = if self.turns.is_empty() {
            tokio::select! {
                // That it was interrupted is all that can happen.
                _ = poller.wait(&mut self.ready) => None,
                returned = self.returning.recv() => returned,
            }
        } else {
            poller.look(&mut self.ready);
            self.returning.try_recv().ok()
        };
        // Whoever comes back stands behind those who are here.
        for ReadyEvent { key, is_hung_up } in self.ready.drain(..) {
            let Some(idle) = self.waiting.get_mut(key) else { continue };
            idle.http.heard(is_hung_up);
            if !mem::replace(&mut idle.has_turn, true) {
                self.turns.push_back(key);
            }
        }
        let now = Instant::now();
        let turns = self.turns.len().min(READY_MAX);
        let mut taken = 0;
        while let Some(mut http) = returned.take() {
            if let Ok(waited) = http.become_idle() {
                self.take_in(http, waited);
            }
            taken += 1;
            returned = if taken < READY_MAX { self.returning.try_recv().ok() } else { None };
        }
        for _ in 0..turns {
            let Some(key) = self.turns.pop_front() else { break };
            let Some(idle) = self.waiting.get_mut(key) else { continue };
            idle.has_turn = false;
            match idle.http.answer() {
                ConnectionState::Idle { is_asked: true } => idle.since = now,
                ConnectionState::Idle { is_asked: false } => {}
                ConnectionState::More => {
                    (idle.since, idle.has_turn) = (now, true);
                    self.turns.push_back(key);
                }
                ConnectionState::Busy => self.let_go(key),
                ConnectionState::Over => drop(self.waiting.remove(key)),
            }
        }
        taken + turns
    }

    /// Gives a connection that waits here a task of its own.
    fn let_go(&mut self, key: usize) {
        let IdleConnection { http, .. } = self.waiting.remove(key);
        if let (Some(poller), Some(socket)) = (&self.poller, http.socket()) {
            poller.remove(socket);
        }
        self.spawn(&http.entry(), http.run());
    }

    /// Closes the connections that have waited for too long.
    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        let mut asking = Vec::new();
        while let Some(key) = self.due.next(now) {
            let Some(idle) = self.waiting.get(key) else { continue };
            match idle.since.checked_add(self.settings.idle_time) {
                Some(end) if end <= now && idle.has_turn => asking.push((key, end)),
                Some(end) if end <= now => drop(self.waiting.remove(key)),
                end => self.due.set(key, end),
            }
        }
        self.due.set_all(asking);
    }

    /// Has the connection close that has been idle for the longest of those with tasks; `false` if
    /// there is none.
    pub(crate) fn close_idle_task(&self) -> bool {
        self.settings.idle.close_first()
    }

    /// Closes the connection that has waited here for the longest, for one that comes; `false` if
    /// none waits here but for its turn.
    pub(crate) fn give_way(&mut self) -> bool {
        let mut asking = Vec::new();
        let mut longest = None;
        while longest.is_none()
            && let Some((time, key)) = self.due.first()
        {
            let Some(idle) = self.waiting.get(key) else { continue };
            match idle.since.checked_add(self.settings.idle_time) {
                Some(end) if end <= time && idle.has_turn => asking.push((key, end)),
                Some(end) if end <= time => longest = Some(key),
                end => self.due.set(key, end),
            }
        }
        self.due.set_all(asking);
        longest.map(|key| self.waiting.remove(key)).is_some()
    }

    /// Nobody waits here any more: all have tasks, for the drain has started.
    pub(crate) fn close(&mut self) {
        let keys: Vec<usize> = self.waiting.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.let_go(key));
        self.turns.clear();
        self.returning.close();
        while let Ok(http) = self.returning.try_recv() {
            self.spawn(&http.entry(), http.run());
        }
        self.poller = None;
    }

    /// Waits for all connections to end, when there will be no others; how many were cut off.
    pub(crate) async fn end(self) -> usize {
        self.tasks.close();
        self.tasks.wait().await;
        self.cut_off.load(Ordering::Relaxed)
    }
}

/// What a client has begun to speak, if it has said enough. HTTP/1 leaves its socket idle.
fn protocol_at_once(wire: &mut Wire<Stream>) -> Poll<io::Result<Option<Protocol>>> {
    if let Some(socket) = wire.get_mut().socket_mut() {
        socket.become_idle()?;
    }
    let protocol = wire.poll_protocol(&mut Context::from_waker(Waker::noop()));
    if !matches!(protocol, Poll::Ready(Ok(Some(Protocol::Http1))))
        && let Some(socket) = wire.get_mut().socket_mut()
    {
        socket.become_busy();
    }
    protocol
}

/// When to look at which slot: about when the connection in it may have waited for too long. To have
/// one that is answered wait anew costs nothing, and each slot is looked at once in that time.
#[derive(Default)]
struct Due {
    times: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Whether there is a time for the slot of this key.
    is_set: Vec<bool>,
}

impl Due {
    /// Schedules a check of the slot, no later than `time`. A time beyond the clock's range counts as
    /// none.
    fn set(&mut self, key: usize, time: Option<Instant>) {
        let Some(time) = time else { return };
        if key >= self.is_set.len() {
            self.is_set.resize(key + 1, false);
        }
        if !mem::replace(&mut self.is_set[key], true) {
            self.times.push(Reverse((time, key)));
        }
    }

    /// The same for each of these slots.
    fn set_all(&mut self, slots: Vec<(usize, Instant)>) {
        slots.into_iter().for_each(|(key, time)| self.set(key, Some(time)));
    }

    /// A slot to be looked at `now`.
    fn next(&mut self, now: Instant) -> Option<usize> {
        self.times.peek().filter(|Reverse((time, _))| *time <= now)?;
        self.first().map(|(_, key)| key)
    }

    /// The slot that is to be looked at first, and when.
    fn first(&mut self) -> Option<(Instant, usize)> {
        let Reverse((time, key)) = self.times.pop()?;
        self.is_set[key] = false;
        Some((time, key))
    }
}
