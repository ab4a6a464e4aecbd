//! The connections of a server by their clients, and which of them gives way to a new client when
//! there is no place for another one.
//!
//! A connection that waits for its next request gives way first; see [`idle`](crate::idle). Of those
//! under way, one gives way that waits for its client: for more of a head or a body, for an answer to
//! be taken, for anything to move in a tunnel. It is one of the client that has most, and of these the
//! one that was waited for longest, less what its bytes have won back. What waits for the service
//! stays.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, hash_map};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// A connection of a client that has no more than the new one was waited for as long as this: two lost
/// packets, which are sent again after 1 and 3 s, and some round trips. Without it clients that are
/// all alike would take each other's places.
const STANDSTILL: Duration = Duration::from_secs(5);

/// Between two looks at all connections: under a flood of new clients they cost a hundredth of a core.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Connections found by one look. More new clients than that in an interval are told to come later.
const FOUND_MAX: usize = 64;

/// So many connections may be closing beside the most that there may be.
const CLOSING_MAX: usize = 64;

/// The connections of a server; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionTable(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    count: AtomicUsize,
    clients: Mutex<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    connections: HashMap<IpAddr, Slab<Arc<Entry>>>,
    /// Those that give way next, the last one first.
    found: Vec<(IpAddr, Arc<Entry>)>,
    looked: Option<Instant>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Entry {
    began: Instant,
    /// Since when its client is waited for, in nanoseconds after `began`; [`NOT_WAITING`] while it is
    /// not.
    waits_since: AtomicU64,
    /// What ends it while it has a task.
    task: Mutex<Option<AbortHandle>>,
}

const NOT_WAITING: u64 = u64::MAX;

impl Entry {
    fn new() -> Self {
        let (waits_since, task) = (AtomicU64::new(NOT_WAITING), Mutex::default());
        Self { began: Instant::now(), waits_since, task }
    }

    /// The client is waited for, as if it had been ever since then.
    pub(crate) fn waits_since(&self, since: Instant) {
        let since = since.saturating_duration_since(self.began).as_nanos();
        let since = u64::try_from(since).unwrap_or(NOT_WAITING - 1);
        self.waits_since.store(since, Relaxed);
    }

    /// The same from now on, if not before.
    pub(crate) fn waits(&self) {
        if self.waits_since.load(Relaxed) == NOT_WAITING {
            self.waits_since(Instant::now());
        }
    }

    /// The client is not waited for.
    pub(crate) fn moves(&self) {
        self.waits_since.store(NOT_WAITING, Relaxed);
    }

    /// The task that runs it has been started.
    pub(crate) fn runs(&self, task: AbortHandle) {
        *self.task.lock() = Some(task);
    }

    /// For how long its client has been waited for, if that can be ended.
    fn waited(&self, now: Instant) -> Option<Duration> {
        let since = Some(self.waits_since.load(Relaxed));
        let since = since.filter(|since| *since != NOT_WAITING)?;
        let is_running = self.task.lock().as_ref().is_some_and(|task| !task.is_finished());
        let since = self.began + Duration::from_nanos(since);
        is_running.then(|| now.saturating_duration_since(since))
    }
}

impl ConnectionTable {
    pub(crate) fn count(&self) -> usize {
        self.0.count.load(Relaxed)
    }

    /// Counts a connection of `client`, unless there are `max` already.
    pub(crate) fn enter(&self, client: IpAddr, max: usize) -> Option<ConnectionPermit> {
        if self.0.count.fetch_add(1, Relaxed) >= max {
            self.0.count.fetch_sub(1, Relaxed);
            return None;
        }
        let (client, entry) = (network(client), Arc::new(Entry::new()));
        let mut clients = self.0.clients.lock();
        let key = clients.connections.entry(client).or_default().insert(Arc::clone(&entry));
        drop(clients);
        Some(ConnectionPermit { table: self.clone(), client, key, entry })
    }

    /// Counts one in the place of another that is closing, and counted until it has.
    pub(crate) fn succeed(&self, client: IpAddr, max: usize) -> Option<ConnectionPermit> {
        self.enter(client, max.saturating_add(CLOSING_MAX))
    }

    /// Ends a connection under way for a new one of `client`, which is counted; `false` if there is
    /// none that is to give way to it.
    pub(crate) fn give_way(&self, client: IpAddr) -> bool {
        let task = self.0.clients.lock().gives_way_to(network(client), Instant::now());
        // Its future is dropped by the runtime that it runs on.
        task.inspect(AbortHandle::abort).is_some()
    }
}

impl Clients {
    fn count(&self, client: IpAddr) -> usize {
        self.connections.get(&client).map_or(0, Slab::len)
    }

    fn gives_way_to(&mut self, client: IpAddr, now: Instant) -> Option<AbortHandle> {
        let is_due = self.looked.is_none_or(|looked| now >= looked + LOOK_INTERVAL);
        self.take_found(client, now).or_else(|| {
            is_due.then(|| self.look(now));
            self.take_found(client, now)
        })
    }

    /// The next of those found that gives way to a new connection of `client`, which is counted.
    fn take_found(&mut self, client: IpAddr, now: Instant) -> Option<AbortHandle> {
        let asked = self.count(client).max(1);
        let is_next = |(of, entry): &(IpAddr, Arc<Entry>)| {
            let Some(waited) = entry.waited(now) else { return false };
            match self.count(*of).cmp(&asked) {
                Ordering::Greater => true,
                Ordering::Equal => waited >= STANDSTILL,
                Ordering::Less => false,
            }
        };
        let next = self.found.iter().rposition(is_next)?;
        let (_, entry) = self.found.remove(next);
        entry.task.lock().take()
    }

    /// Finds those that give way next.
    fn look(&mut self, now: Instant) {
        let waiting = self.connections.iter().flat_map(|(client, connections)| {
            let waiting = |(_, entry): (usize, &Arc<Entry>)| {
                Some((connections.len(), entry.waited(now)?, *client, Arc::clone(entry)))
            };
            connections.iter().filter_map(waiting)
        });
        let mut waiting: Vec<_> = waiting.collect();
        let rank = |(count, waited, ..): &(usize, Duration, _, _)| Reverse((*count, *waited));
        if waiting.len() > FOUND_MAX {
            waiting.select_nth_unstable_by_key(FOUND_MAX, rank);
            waiting.truncate(FOUND_MAX);
        }
        waiting.sort_unstable_by_key(rank);
        self.found = waiting.into_iter().rev().map(|(_, _, of, entry)| (of, entry)).collect();
        self.looked = Some(now);
    }
}

/// A connection's part in the count, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    table: ConnectionTable,
    client: IpAddr,
    key: usize,
    entry: Arc<Entry>,
}

impl ConnectionPermit {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut clients = self.table.0.clients.lock();
        if let hash_map::Entry::Occupied(mut of_client) = clients.connections.entry(self.client) {
            of_client.get_mut().remove(self.key);
            if of_client.get().is_empty() {
                of_client.remove();
            }
        }
        drop(clients);
        self.table.0.count.fetch_sub(1, Relaxed);
    }
}

/// The addresses of an IPv6 network of 64 bits are one client.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::{JoinHandle, yield_now};
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// A connection of `of` under way, whose client is not waited for.
    fn begin(table: &ConnectionTable, of: u8) -> (Arc<Entry>, JoinHandle<()>) {
        let permit = table.enter(client(of), usize::MAX).unwrap();
        let entry = Arc::clone(permit.entry());
        let task = tokio::spawn(async move {
            let _permit = permit;
            pending().await
        });
        entry.runs(task.abort_handle());
        (entry, task)
    }

    /// Which of `connections` are still there.
    async fn remaining(connections: &[(Arc<Entry>, JoinHandle<()>)]) -> Vec<bool> {
        yield_now().await;
        connections.iter().map(|(_, task)| !task.is_finished()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_of_the_client_with_most_that_is_waited_for_longest_gives_way() {
        let table = ConnectionTable::default();
        let connections = [1, 2, 2, 2, 2].map(|of| begin(&table, of));
        for (entry, _) in &connections[..4] {
            advance(SECOND).await;
            entry.waits();
        }
        // Its bytes have not won back all: it waits again as if it had for two seconds.
        connections[3].0.waits_since(Instant::now() - 2 * SECOND);
        connections[2].0.moves();
        let mut _new = Vec::new();
        for expected in [[true, false, true, true, true], [true, false, true, false, true]] {
            _new.push(table.enter(client(3), usize::MAX).unwrap());
            assert!(table.give_way(client(3)));
            assert_eq!(remaining(&connections).await, expected);
        }
        assert_eq!(table.count(), 5);
        advance(LOOK_INTERVAL).await;
        assert!(!table.give_way(client(3)), "the others wait for the service, or have no more");
    }

    #[tokio::test(start_paused = true)]
    async fn among_clients_with_as_many_one_gives_way_that_stands_still_for_five_seconds() {
        let table = ConnectionTable::default();
        let connections = [1, 2, 3].map(|of| begin(&table, of));
        connections.iter().for_each(|(entry, _)| entry.waits());
        advance(SECOND).await;
        connections[0].0.waits_since(Instant::now());
        let _new = table.enter(client(4), usize::MAX).unwrap();
        advance(Duration::from_millis(3999)).await;
        assert!(!table.give_way(client(4)));
        advance(LOOK_INTERVAL).await;
        assert!(table.give_way(client(4)) && table.give_way(client(4)));
        assert!(!table.give_way(client(4)));
        assert_eq!(remaining(&connections).await, [true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_takes_the_place_of_nobody_who_has_fewer() {
        let table = ConnectionTable::default();
        let connections = [1, 2, 2].map(|of| begin(&table, of));
        connections[0].0.waits();
        advance(10 * SECOND).await;
        let _new = table.enter(client(2), usize::MAX).unwrap();
        assert!(!table.give_way(client(2)));
        assert_eq!(remaining(&connections).await, [true; 3]);
    }

    #[test]
    fn no_more_are_counted_than_there_may_be() {
        let table = ConnectionTable::default();
        let first = table.enter(client(1), 1);
        assert!(first.is_some() && table.enter(client(2), 1).is_none());
        assert!(table.succeed(client(2), 1).is_some());
        drop(first);
        assert_eq!((table.count(), table.0.clients.lock().connections.len()), (0, 0));
    }

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_client() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:0:0:2"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:192.0.2.1"), client(1));
    }
}
