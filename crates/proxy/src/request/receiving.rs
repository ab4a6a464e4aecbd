//! The request bodies that are being received into files, and which of them gives way.
//!
//! Each takes a descriptor and room on the disk for as long as its client likes to send. If
//! there is no room for all, the client who holds most loses the body of which it has sent
//! nothing for longest; as with the answers in [`unread`](crate::answer::unread). Where bytes are
//! short, that is only a body that stands still.
//!
//! One gives way only while its client is waited for, when its file can be closed at once: what the
//! disk is at work on is counted until that is done. Bodies in memory are not among them: where
//! memory is short, bodies go to files.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use slab::Slab;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::request::held::Held;

/// Where bytes in files are short, a body gives way after nothing has come of it for so long: two
/// lost packets, which are sent again after 1 and 3 s, and some round trips.
///
/// Among long uploads, the client who holds most is the one nearest to its end. If it lost its body
/// to each that has just begun, none would come whole. As long as they move, whoever asks for more
/// than there is room for is rejected, and the others end sooner. Where files are short, a body
/// that moves gives way too: a client with one file never loses it.
const STANDSTILL: Duration = Duration::from_secs(5);

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
    /// Since when nothing has come of it; `None` while what has come is being written.
    waits_since: Option<Instant>,
    gives_way: GivesWay,
}

/// What a body does next.
#[derive(Clone, Copy, Debug)]
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
        let body = Body { client, held, waits_since: None, gives_way };
        (self.bodies.insert(Some(body)), gave_way)
    }

    /// A body holds so much now. If that is more, some of it has come.
    pub(crate) fn holds(&mut self, key: usize, held: Held, state: State) {
        let Some(body) = &mut self.bodies[key] else { return };
        body.waits_since = match state {
            State::Writes => None,
            State::WaitsForClient if held.is_within(body.held) => {
                body.waits_since.or_else(|| Some(Instant::now()))
            }
            State::WaitsForClient => Some(Instant::now()),
        };
        body.held = held;
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
    /// little. Those come into question that make enough room, of clients who hold more; where bytes
    /// are short, after a [`STANDSTILL`].
    ///
    /// All are looked at: some 10 µs for 512, and only where all room is used.
    pub(crate) fn give_way(
        &mut self,
        shortage: Held,
        asked: Held,
        of_client: impl Fn(IpAddr) -> Held,
    ) -> Option<(IpAddr, Held, GivesWay)> {
        let scarce = |held: Held| if shortage.files > 0 { held.files } else { held.file };
        let standstill = if shortage.file > 0 { STANDSTILL } else { Duration::ZERO };
        let now = Instant::now();
        let candidates = self.bodies.iter_mut().filter_map(|(_, entry)| {
            let body = entry.as_ref()?;
            let waits_since = body.waits_since?;
            let greed = scarce(of_client(body.client));
            let is_of_use = greed > scarce(asked)
                && shortage.is_within(body.held)
                && now.duration_since(waits_since) >= standstill;
            is_of_use.then_some(((greed, Reverse(waits_since)), entry))
        });
        let (_, entry) = candidates.max_by_key(|(rank, _)| *rank)?;
        let Body { client, held, gives_way, .. } = entry.take()?;
        Some((client, held, gives_way))
    }
}
