//! The connections of a server by their clients, and which of them gives way to a new client when
//! there is no place for another one.
//!
//! Of the connections under way, one gives way that waits for its client: for more of a head or a
//! body, for an answer to be taken, for anything to move in a tunnel. It is one of the client that has
//! most, and of these the one that was waited for longest, less what its bytes have won back. What
//! waits for the service stays. Idle connections, which give way before these, are the server's matter.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, hash_map};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::Instant;

use crate::client::client_network;

/// A connection of a client that has no more than the new one was waited for as long as this: two lost
/// packets, which are sent again after 1 and 3 s, and some round trips. Without it clients that are
/// all alike would take each other's places.
const STANDSTILL: Duration = Duration::from_secs(5);

/// Between two looks at all connections: under a flood of new clients they cost a hundredth of a core.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Connections found by one look. More new clients than that in an interval are told to come later.
const FOUND_MAX: usize = 64;

/// Connections that may be closing beside the most that may be open.
const CLOSING_MAX: usize = 64;

/// A connection that may give way to one of another client.
pub trait GivesWay {
    /// Since when its client has been waited for; `None` if it is not, or if the connection is ending.
    fn waits_since(&self) -> Option<Instant>;

    /// Ends it.
    fn end(&self);
}

/// The connections of a server; clones share them.
#[derive(Debug)]
pub struct ConnectionTable<C>(Arc<Shared<C>>);

#[derive(Debug)]
struct Shared<C> {
    count: AtomicUsize,
    clients: Mutex<Clients<C>>,
}

#[derive(Debug)]
struct Clients<C> {
    connections: HashMap<IpAddr, Slab<Arc<C>>>,
    /// Those that give way next, the last one first.
    found: Vec<(IpAddr, Arc<C>)>,
    looked: Option<Instant>,
}

impl<C> Clone for ConnectionTable<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Default for ConnectionTable<C> {
    fn default() -> Self {
        let clients = Clients { connections: HashMap::new(), found: Vec::new(), looked: None };
        Self(Arc::new(Shared { count: AtomicUsize::new(0), clients: Mutex::new(clients) }))
    }
}

impl<C: GivesWay> ConnectionTable<C> {
    /// How many connections are counted.
    pub fn count(&self) -> usize {
        self.0.count.load(Relaxed)
    }

    /// Counts the connection of `client` that `new` makes, unless there are `max` already.
    pub fn enter(
        &self,
        client: IpAddr,
        max: usize,
        new: impl FnOnce() -> Arc<C>,
    ) -> Option<ConnectionPermit<C>> {
        if self.0.count.fetch_add(1, Relaxed) >= max {
            self.0.count.fetch_sub(1, Relaxed);
            return None;
        }
        let (client, connection) = (client_network(client), new());
        let mut clients = self.0.clients.lock();
        let key = clients.connections.entry(client).or_default().insert(Arc::clone(&connection));
        drop(clients);
        Some(ConnectionPermit { table: self.clone(), client, key, connection })
    }

    /// Counts one in the place of another that is closing, and counted until it has.
    pub fn succeed(
        &self,
        client: IpAddr,
        max: usize,
        new: impl FnOnce() -> Arc<C>,
    ) -> Option<ConnectionPermit<C>> {
        self.enter(client, max.saturating_add(CLOSING_MAX), new)
    }

    /// Ends a connection under way for a new one of `client`, which is counted; `false` if there is
    /// none that is to give way to it.
    pub fn give_way(&self, client: IpAddr) -> bool {
        let next = self.0.clients.lock().gives_way_to(client_network(client), Instant::now());
        next.inspect(|connection| connection.end()).is_some()
    }
}

impl<C: GivesWay> Clients<C> {
    fn count(&self, client: IpAddr) -> usize {
        self.connections.get(&client).map_or(0, Slab::len)
    }

    fn gives_way_to(&mut self, client: IpAddr, now: Instant) -> Option<Arc<C>> {
        let is_due = self.looked.is_none_or(|looked| now >= looked + LOOK_INTERVAL);
        self.take_found(client, now).or_else(|| {
            is_due.then(|| self.look(now));
            self.take_found(client, now)
        })
    }

    /// The next of those found that gives way to a new connection of `client`, which is counted.
    fn take_found(&mut self, client: IpAddr, now: Instant) -> Option<Arc<C>> {
        let asked = self.count(client).max(1);
        let is_next = |(of, connection): &(IpAddr, Arc<C>)| {
            let Some(since) = connection.waits_since() else { return false };
            match self.count(*of).cmp(&asked) {
                Ordering::Greater => true,
                Ordering::Equal => now.saturating_duration_since(since) >= STANDSTILL,
                Ordering::Less => false,
            }
        };
        let next = self.found.iter().rposition(is_next)?;
        Some(self.found.remove(next).1)
    }

    /// Finds those that give way next.
    fn look(&mut self, now: Instant) {
        let waiting = self.connections.iter().flat_map(|(client, connections)| {
            let waiting = |(_, connection): (usize, &Arc<C>)| {
                let since = connection.waits_since()?;
                Some((connections.len(), since, *client, Arc::clone(connection)))
            };
            connections.iter().filter_map(waiting)
        });
        let mut waiting: Vec<_> = waiting.collect();
        let rank = |(count, since, ..): &(usize, Instant, _, _)| (Reverse(*count), *since);
        if waiting.len() > FOUND_MAX {
            waiting.select_nth_unstable_by_key(FOUND_MAX, rank);
            waiting.truncate(FOUND_MAX);
        }
        waiting.sort_unstable_by_key(rank);
        self.found = waiting.into_iter().rev().map(|(_, _, of, found)| (of, found)).collect();
        self.looked = Some(now);
    }
}

/// A connection's part in the count, until it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit<C> {
    table: ConnectionTable<C>,
    client: IpAddr,
    key: usize,
    connection: Arc<C>,
}

impl<C> ConnectionPermit<C> {
    /// The connection that is counted.
    pub fn connection(&self) -> &Arc<C> {
        &self.connection
    }
}

impl<C> Drop for ConnectionPermit<C> {
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

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// A connection whose client is waited for since then.
    #[derive(Debug, Default)]
    struct Connection(Mutex<Waiting>);

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    enum Waiting {
        #[default]
        ForService,
        ForClient(Instant),
        Ended,
    }

    impl GivesWay for Connection {
        fn waits_since(&self) -> Option<Instant> {
            match *self.0.lock() {
                Waiting::ForClient(since) => Some(since),
                Waiting::ForService | Waiting::Ended => None,
            }
        }

        fn end(&self) {
            *self.0.lock() = Waiting::Ended;
        }
    }

    type Permit = ConnectionPermit<Connection>;

    fn enter(table: &ConnectionTable<Connection>, of: u8) -> Permit {
        table.enter(client(of), usize::MAX, Arc::default).unwrap()
    }

    fn waits_since(permit: &Permit, since: Instant) {
        *permit.connection().0.lock() = Waiting::ForClient(since);
    }

    /// Which of `connections` are still there.
    fn remaining<const N: usize>(connections: &[Permit; N]) -> [bool; N] {
        connections.each_ref().map(|permit| *permit.connection().0.lock() != Waiting::Ended)
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_of_the_client_with_most_that_is_waited_for_longest_gives_way() {
        let table = ConnectionTable::default();
        let connections = [1, 2, 2, 2, 2].map(|of| enter(&table, of));
        for permit in [&connections[0], &connections[1], &connections[3]] {
            advance(SECOND).await;
            waits_since(permit, Instant::now());
        }
        // Its bytes have not won back all: it waits again as if it had for a second.
        advance(SECOND).await;
        waits_since(&connections[4], Instant::now() - SECOND / 2);
        let mut _new = Vec::new();
        for expected in [
            [true, false, true, true, true],
            [true, false, true, false, true],
            [true, false, true, false, false],
        ] {
            _new.push(enter(&table, 3));
            assert!(table.give_way(client(3)));
            assert_eq!(remaining(&connections), expected);
        }
        assert_eq!(table.count(), 8);
        advance(LOOK_INTERVAL).await;
        assert!(!table.give_way(client(3)), "the others wait for the service, or have no more");
    }

    #[tokio::test(start_paused = true)]
    async fn among_clients_with_as_many_one_gives_way_that_stands_still_for_five_seconds() {
        let table = ConnectionTable::default();
        let connections = [1, 2, 3].map(|of| enter(&table, of));
        connections.iter().for_each(|permit| waits_since(permit, Instant::now()));
        advance(SECOND).await;
        waits_since(&connections[0], Instant::now());
        let _new = enter(&table, 4);
        advance(Duration::from_millis(3999)).await;
        assert!(!table.give_way(client(4)));
        advance(LOOK_INTERVAL).await;
        assert!(table.give_way(client(4)) && table.give_way(client(4)));
        assert!(!table.give_way(client(4)));
        assert_eq!(remaining(&connections), [true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_takes_the_place_of_nobody_who_has_fewer() {
        let table = ConnectionTable::default();
        let connections = [1, 2, 2].map(|of| enter(&table, of));
        waits_since(&connections[0], Instant::now());
        advance(10 * SECOND).await;
        let _new = enter(&table, 2);
        assert!(!table.give_way(client(2)));
        assert_eq!(remaining(&connections), [true; 3]);
    }

    #[test]
    fn no_more_are_counted_than_there_may_be() {
        let table = ConnectionTable::<Connection>::default();
        let first = table.enter(client(1), 1, Arc::default);
        assert!(first.is_some() && table.enter(client(2), 1, Arc::default).is_none());
        assert!(table.succeed(client(2), 1, Arc::default).is_some());
        drop(first);
        assert_eq!((table.count(), table.0.clients.lock().connections.len()), (0, 0));
    }
}
