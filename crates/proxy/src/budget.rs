//! What the clients of a proxy may take up, each of them and all together.
//!
//! A client that sends or reads slowly costs the upstream nothing as long as the proxy holds
//! what it has sent so far. That takes memory, disk and descriptors, so it is counted here by
//! client: whoever asks for too much is rejected long before there is nothing left for others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tamarisk_server::guard::Limits;

use crate::abandoned::Count;
use crate::answer::unread::{Answer, Answers, Counted, Unread};

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

/// What request bodies take up while they are buffered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes in files.
    pub file: u64,
    /// Files, each of which takes a descriptor.
    pub files: u64,
}

impl Default for Bounds {
    /// 64 KiB of a body in memory and 1 GiB of it at all; 4 MiB of memory, 2 GiB of disk and 100
    /// files for a client; 64 MiB, 8 GiB and 512 files for all; 1024 long answers under way to a
    /// client and 8192 to all.
    fn default() -> Self {
        Self {
            // Forms, JSON and most of what is posted is shorter.
            body_memory: 64 * 1024,
            body: 1 << 30,
            // 64 bodies of the longest that stay in memory; as many files as one HTTP/2
            // connection has streams.
            client: Held { memory: 4 << 20, file: 2 << 30, files: 100 },
            // Half of the descriptors that are kept beside those of the connections.
            total: Held { memory: 64 << 20, file: 8 << 30, files: 512 },
            // As many as there are connections in most places. One client may be a large office.
            answers: Answers { client: 1024, total: 8192 },
        }
    }
}

impl Bounds {
    /// The default ones; but a body may be as long as `limits` say, if they do.
    pub fn of(limits: &Limits) -> Self {
        let mut bounds = Self::default();
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
}

#[derive(Debug, Default)]
struct HeldByClients {
    total: Held,
    /// Those who hold anything.
    clients: HashMap<IpAddr, Held>,
}

impl Budget {
    /// One with these bounds, of which nothing is held.
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

    /// Requests whose clients have left.
    pub(crate) fn abandoned(&self) -> &Count {
        &self.0.abandoned
    }

    /// An account for one request of `client`, of nothing so far.
    pub(crate) fn account(&self, client: IpAddr) -> Account {
        Account { budget: self.clone(), client, held: Held::default() }
    }
}

/// What one request holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Budget,
    client: IpAddr,
    held: Held,
}

impl Account {
    pub(crate) fn held(&self) -> Held {
        self.held
    }

    /// Holds `wanted` from now on, and nothing else; `false` if there is no room for it, and then
    /// all stays as it was.
    pub(crate) fn hold(&mut self, wanted: Held) -> bool {
        let SharedBudget { bounds, state, .. } = &*self.budget.0;
        let mut state = state.lock();
        let HeldByClients { total, clients } = &mut *state;
        let of_client = clients.get(&self.client).copied().unwrap_or_default();
        let after = |before: Held| before.less(self.held).and(wanted);
        let grows = !wanted.is_within(self.held);
        let fits =
            after(of_client).is_within(bounds.client) && after(*total).is_within(bounds.total);
        if grows && !fits {
            return false;
        }
        *total = after(*total);
        match after(of_client) {
            nothing if nothing == Held::default() => drop(clients.remove(&self.client)),
            held => drop(clients.insert(self.client, held)),
        }
        self.held = wanted;
        true
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.held != Held::default() {
            self.hold(Held::default());
        }
    }
}

impl Held {
    fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory + other.memory,
            file: self.file + other.file,
            files: self.files + other.files,
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            memory: self.memory - other.memory,
            file: self.file - other.file,
            files: self.files - other.files,
        }
    }

    fn is_within(self, bound: Self) -> bool {
        self.memory <= bound.memory && self.file <= bound.file && self.files <= bound.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: u64) -> Held {
        Held { memory: bytes, ..Held::default() }
    }

    fn budget(client: u64, total: u64) -> Budget {
        let bounds = Bounds { client: memory(client), total: memory(total), ..Bounds::default() };
        Budget::new(bounds)
    }

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_client_that_holds_too_much_leaves_room_for_others() {
        let budget = budget(10, 15);
        let [mut one, mut two] = [1, 1].map(|last| budget.account(client(last)));
        assert!(one.hold(memory(6)));
        assert!(!two.hold(memory(5)));
        assert!(two.hold(memory(4)));
        let mut other = budget.account(client(2));
        assert!(other.hold(memory(5)));
        assert_eq!(budget.held(), memory(15));
        // The total is full.
        assert!(!other.hold(memory(6)));
        drop(one);
        assert!(other.hold(memory(6)));
    }

    #[test]
    fn what_is_dropped_is_free_again_and_its_client_forgotten() {
        let budget = budget(10, 15);
        let mut account = budget.account(client(1));
        assert!(account.hold(memory(9)) && account.hold(memory(3)));
        assert_eq!((account.held(), budget.held()), (memory(3), memory(3)));
        drop(account);
        assert_eq!(budget.held(), Held::default());
        assert!(budget.0.state.lock().clients.is_empty());
    }
}
