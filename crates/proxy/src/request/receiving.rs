//! The request bodies that are being received into files, and which of them gives way.
//!
//! Each takes a descriptor and room on the disk for as long as its client likes to send. If
//! there is no room for all, the client who holds most loses the body of which it has sent
//! nothing for longest; as with the answers in [`unread`](crate::answer::unread).
//!
//! One gives way only while its client is waited for, when its file can be closed at once: on a
//! disk that hangs there would else be more open files than are counted. Bodies in memory are not
//! among them: where memory is short, bodies go to files.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::net::IpAddr;

use slab::Slab;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::request::held::Held;

/// All of them; no more than there may be files.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// `None` where one has given way: it holds nothing, and its reader has not noticed yet.
    bodies: Slab<Option<Body>>,
}

#[derive(Debug)]
struct Body {
    client: IpAddr,
    held: Held,
    last_received: Instant,
    state: State,
    gives_way: GivesWay,
}

/// What a body does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// What has come is being written.
    Writes,
    WaitsForClient,
}

/// Tells a body's reader that the body has given way, when it is dropped: never under a lock, for
/// it wakes the reader.
pub(crate) type GivesWay = oneshot::Sender<Infallible>;

/// Ready when a body has given way.
pub(crate) type GaveWay = oneshot::Receiver<Infallible>;

impl Receiving {
    /// A body of `client` is received from now on; what it holds so far is being written. Its key.
    pub(crate) fn begin(&mut self, client: IpAddr, held: Held) -> (usize, GaveWay) {
        let (gives_way, gave_way) = oneshot::channel();
        let (last_received, state) = (Instant::now(), State::Writes);
        let body = Body { client, held, last_received, state, gives_way };
        (self.bodies.insert(Some(body)), gave_way)
    }

    /// A body holds so much now. If that is more, some of it has come.
    pub(crate) fn holds(&mut self, key: usize, held: Held, state: State) {
        let Some(body) = &mut self.bodies[key] else { return };
        if !held.is_within(body.held) {
            body.last_received = Instant::now();
        }
        (body.held, body.state) = (held, state);
    }

    pub(crate) fn has_given_way(&self, key: usize) -> bool {
        self.bodies[key].is_none()
    }

    /// A body is no longer received; `None` if it has given way.
    pub(crate) fn end(&mut self, key: usize) -> Option<GivesWay> {
        self.bodies.remove(key).map(|body| body.gives_way)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// The body that gives way to a client who would hold `asked`, for which there is so much too
    /// little. Those come into question that make enough room, of clients who hold more.
    ///
    /// All are looked at: some 10 µs for 512, and only where all room is used.
    pub(crate) fn give_way(
        &mut self,
        shortage: Held,
        asked: Held,
        of_client: impl Fn(IpAddr) -> Held,
    ) -> Option<(IpAddr, Held, GivesWay)> {
        let scarce = |held: Held| if shortage.files > 0 { held.files } else { held.file };
        let candidates = self.bodies.iter_mut().filter_map(|(_, entry)| {
            let body = entry.as_ref().filter(|body| body.state == State::WaitsForClient)?;
            let greed = scarce(of_client(body.client));
            let rank = (greed, Reverse(body.last_received));
            let is_of_use = greed > scarce(asked) && shortage.is_within(body.held);
            is_of_use.then_some((rank, entry))
        });
        let (_, entry) = candidates.max_by_key(|(rank, _)| *rank)?;
        let Body { client, held, gives_way, .. } = entry.take()?;
        Some((client, held, gives_way))
    }
}
