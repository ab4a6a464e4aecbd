//! What the clients of a proxy may take up, each of them and all together.
//!
//! A client that sends or reads slowly costs the upstream nothing as long as the proxy holds
//! what it has sent so far. That takes memory, disk and descriptors, so it is counted here by
//! client: one that asks for too much is rejected long before there is nothing left for others.

pub(crate) mod disk_failures;
pub(crate) mod held;
pub(crate) mod receiving;
pub(crate) mod spool;
pub(crate) mod unread;

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tamarisk_server::Capacity;
use tamarisk_server::guard::Limits;
use tokio::time::Instant;

use crate::abandoned::Count;
use crate::budget::disk_failures::DiskFailures;
use crate::budget::held::Held;
use crate::budget::receiving::{GaveWay, GivesWay, Receiving, State};
use crate::budget::unread::{Answer, Answers, Counted, Unread};

/// The parts of the memory that bodies, and long answers under way, may take.
const BODIES_PART: u64 = 16;
const ANSWERS_PART: u64 = 8;

/// What a long answer takes at most: what is read at once.
const ANSWER_BYTES: u64 = 64 * 1024;

/// The bounds of a [`Budget`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most bytes of one request body that stay in memory; longer ones go to a file.
    pub body_memory: u64,
    /// The most bytes of one request body that is buffered.
    pub body: u64,
    /// What one client may hold. The addresses of an IPv6 network of 64 bits are one client.
    pub client: Held,
    /// What all clients may hold together.
    pub total: Held,
    /// Answers under way that are longer than what comes with their heads.
    pub answers: Answers,
}

impl Default for Bounds {
    /// 64 KiB of a body in memory and 1 GiB of it at all; 4 MiB of memory, 2 GiB of disk and 100
    /// files for a client; 64 MiB, 8 GiB and 4096 files for all; 1024 long answers under way to a
    /// client and 8192 to all. A process with less than 4 GiB of memory or 32768 descriptors has
    /// less, see [`Self::of`].
    fn default() -> Self {
        Self {
            // Forms, JSON and most of what is posted is shorter.
            body_memory: 64 * 1024,
            body: 1 << 30,
            // 64 bodies of the longest that stay in memory; as many files as one HTTP/2
            // connection has streams.
            client: Held { memory: 4 << 20, file: 2 << 30, files: 100 },
            // More are not looked through in no time, when one is to give way.
            total: Held { memory: 64 << 20, file: 8 << 30, files: 4096 },
            // As many as there are connections in most places. One client may be a large office.
            answers: Answers { client: 1024, total: 8192 },
        }
    }
}

impl Bounds {
    /// The default ones, as far as `capacity` goes; but a body may be as long as `limits` say, if
    /// they do.
    ///
    /// A sixteenth of the memory is for bodies, an eighth for long answers.
    pub fn of(limits: &Limits, capacity: Capacity) -> Self {
        let mut bounds = Self::default();
        let Self { total, client, answers, .. } = &mut bounds;
        total.memory = capacity.memory_share(BODIES_PART, total.memory);
        client.memory = client.memory.min(total.memory / 2);
        total.files = total.files.min(capacity.body_files());
        client.files = client.files.min(total.files);
        let answers_max = capacity.memory_share(ANSWERS_PART, u64::MAX) / ANSWER_BYTES;
        answers.total = answers.total.min(answers_max as usize);
        answers.client = answers.client.min(answers.total);
        if let Some(bytes) = limits.body_limit() {
            bounds.body = bytes;
            bounds.client.file = bounds.client.file.max(bytes);
            bounds.total.file = bounds.total.file.max(bytes);
        }
        bounds
    }
}

/// What is held of [`Bounds`]; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<SharedBudget>);

#[derive(Debug, Default)]
struct SharedBudget {
    bounds: Bounds,
    state: Mutex<HeldByClients>,
    unread: Unread,
    abandoned: Count,
    disk_failures: DiskFailures,
}

#[derive(Debug, Default)]
struct HeldByClients {
    total: Held,
    /// Those who hold anything.
    clients: HashMap<IpAddr, Held>,
    /// The bodies that may have to give way.
    receiving: Receiving,
}

impl Budget {
    /// One with these bounds and nothing held.
    pub fn new(bounds: Bounds) -> Self {
        Self(Arc::new(SharedBudget { bounds, ..SharedBudget::default() }))
    }

    /// What is held now.
    pub fn held(&self) -> Held {
        self.0.state.lock().total
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.0.bounds
    }

    /// Counts an answer under way to `client`.
    pub(crate) fn count_answer(&self, client: IpAddr, answer: Weak<dyn Answer>) -> Counted {
        self.0.unread.count(client, answer, self.0.bounds.answers)
    }

    /// Where it is told that a body cannot be written to its file, or read.
    pub(crate) fn disk_failures(&self) -> &DiskFailures {
        &self.0.disk_failures
    }

    /// Requests whose clients have left.
    pub(crate) fn abandoned(&self) -> &Count {
        &self.0.abandoned
    }

    /// An account for one request of `client`, of nothing so far.
    pub(crate) fn account(&self, client: IpAddr) -> Account {
        let (held, began) = (Held::default(), Instant::now());
        Account { budget: self.clone(), client, held, began, receiving: None }
    }
}

impl HeldByClients {
    fn of(&self, client: IpAddr) -> Held {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// Something of `client` holds `after` instead of `before`.
    fn change(&mut self, client: IpAddr, before: Held, after: Held) {
        let change = |held: Held| held.less(before).and(after);
        self.total = change(self.total);
        match change(self.of(client)) {
            nothing if nothing == Held::default() => drop(self.clients.remove(&client)),
            held => drop(self.clients.insert(client, held)),
        }
    }

    /// Lets a body give way that makes room for what there is too little of, for a client who
    /// would hold `asked`, and whose body comes at this `rate`.
    fn give_way(&mut self, shortage: Held, asked: Held, rate: f64) -> Option<GivesWay> {
        let Self { clients, receiving, .. } = self;
        let of_client = |client| clients.get(&client).copied().unwrap_or_default();
        let (client, held, gives_way) = receiving.give_way(shortage, asked, rate, of_client)?;
        self.change(client, held, Held::default());
        Some(gives_way)
    }
}

/// What one request holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Budget,
    client: IpAddr,
    held: Held,
    began: Instant,
    /// Set while its body may have to give way.
    receiving: Option<(usize, GaveWay)>,
}

impl Account {
    pub(crate) fn held(&self) -> Held {
        self.held
    }

    /// What it is an account of.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Holds `wanted` from now on, and nothing else; `false` if there is no room for it or its body
    /// has given way, and then all stays as it was.
    pub(crate) fn hold(&mut self, wanted: Held) -> bool {
        self.take(wanted, State::WaitsForClient, |_, _, _, _| None)
    }

    /// The same for what is to be written to a file; but if there is no room in all, a body of the
    /// greediest client gives way, unless this one would be greedier. Its own does not give way
    /// until [`hold`](Self::hold) is called, when all is written.
    pub(crate) fn claim(&mut self, wanted: Held) -> bool {
        self.take(wanted, State::Writes, HeldByClients::give_way)
    }

    /// Holds `wanted`, if there is room or `make_room` has made some.
    fn take(
        &mut self,
        wanted: Held,
        next: State,
        make_room: impl FnOnce(&mut HeldByClients, Held, Held, f64) -> Option<GivesWay>,
    ) -> bool {
        let Self { budget, client, held, began, receiving } = self;
        let SharedBudget { bounds, state, .. } = &*budget.0;
        let mut state = state.lock();
        let key = receiving.as_ref().map(|(key, _)| *key);
        if key.is_some_and(|key| state.receiving.has_given_way(key)) {
            return false;
        }
        let grows = !wanted.is_within(*held);
        let asked = state.of(*client).less(*held).and(wanted);
        if grows && !asked.is_within(bounds.client) {
            return false;
        }
        let shortage = state.total.less(*held).and(wanted).beyond(bounds.total);
        let is_short = grows && shortage != Held::default();
        let rate = || receiving::rate(wanted.file, began.elapsed());
        let given_way = is_short.then(|| make_room(&mut state, shortage, asked, rate())).flatten();
        if is_short && given_way.is_none() {
            return false;
        }
        state.change(*client, *held, wanted);
        if let Some(key) = key {
            state.receiving.holds(key, wanted, next);
        }
        *held = wanted;
        drop(state);
        // Wakes its reader.
        drop(given_way);
        true
    }

    /// Its body, which is being received, may have to give way when what there is has been written.
    pub(crate) fn may_give_way(&mut self) {
        debug_assert!(self.receiving.is_none(), "its body is received once");
        let mut state = self.budget.0.state.lock();
        self.receiving = Some(state.receiving.begin(self.client, self.held, self.began));
    }

    /// Ready when its body has given way.
    pub(crate) fn poll_gave_way(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.receiving {
            Some((_, gave_way)) => Pin::new(gave_way).poll(cx).map(drop),
            None => Poll::Pending,
        }
    }

    /// Its body gives way no more; `false` if it has done so, and then nothing is held.
    pub(crate) fn keep(&mut self) -> bool {
        let Some((key, _gave_way)) = self.receiving.take() else { return true };
        let ended = self.budget.0.state.lock().receiving.end(key);
        if ended.is_none() {
            self.held = Held::default();
        }
        ended.is_some()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.keep() && self.held != Held::default() {
            self.hold(Held::default());
        }
    }
}

#[cfg(test)]
mod tests;
