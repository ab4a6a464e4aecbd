//! The request bodies that are being received into files, and which of them gives way.
//!
//! Each takes a descriptor and room on the disk for as long as its client likes to send. If
//! there is no room for all, the client who holds most loses the body that has moved least: the
//! fewest bytes in its time. Where bytes are short, that is only a body that stands still. Where
//! files are short and each client has one, it is only one that is much slower than the body that
//! comes.
//!
//! One gives way only while its client is waited for, when its file can be closed at once: what the
//! disk is at work on is counted until that is done. Bodies in memory are not among them: where
//! memory is short, bodies go to files.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use slab::Slab;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::budget::held::Held;

/// Where bytes in files are short, a body gives way after nothing has come of it for so long: two
/// lost packets, which are sent again after 1 and 3 s, and some round trips.
///
/// Among long uploads, the client who holds most is the one nearest to its end. If it lost its body
/// to each that has just begun, none would come whole. As long as they move, whoever asks for more
/// than there is room for is rejected, and the others end sooner. Where files are short, a body
/// that moves gives way too.
const STANDSTILL: Duration = Duration::from_secs(5);

/// Where each client has one file, a body gives way to one that comes this many times as fast.
/// Bodies that are about as fast as each other do not take turns: none would come whole.
const FASTER: f64 = 2.0;

/// A body is not judged by its rate over a shorter time: a packet more or less would decide.
const RATE_TIME_MIN: Duration = Duration::from_millis(100);

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
    began: Instant,
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
    /// A body of `client` is received, which `began` before; what it holds so far is being written.
    /// Its key.
    pub(crate) fn begin(&mut self, client: IpAddr, held: Held, began: Instant) -> (usize, GaveWay) {
        let (gives_way, gave_way) = oneshot::channel();
        let body = Body { client, held, began, waits_since: None, gives_way };
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

    /// The body that gives way to one at this `rate`, whose client would hold `asked`, for which
    /// there is so much too little. Those come into question that make enough room.
    ///
    /// All are looked at: some 80 µs for 4096, and only where all room is used.
    pub(crate) fn give_way(
        &mut self,
        shortage: Held,
        asked: Held,
        rate: f64,
        of_client: impl Fn(IpAddr) -> Held,
    ) -> Option<(IpAddr, Held, GivesWay)> {
        let (are_files_short, are_bytes_short) = (shortage.files > 0, shortage.file > 0);
        let scarce = |held: Held| if are_files_short { held.files } else { held.file };
        let now = Instant::now();
        let candidates = self.bodies.iter_mut().filter_map(|(_, entry)| {
            let body = entry.as_ref()?;
            let waited = now.duration_since(body.waits_since?);
            let greed = scarce(of_client(body.client));
            let body_rate = self::rate(body.held.file, now.duration_since(body.began));
            let is_of_use = match greed.cmp(&scarce(asked)) {
                Ordering::Greater => !are_bytes_short || waited >= STANDSTILL,
                Ordering::Equal if are_bytes_short => false,
                Ordering::Equal => asked.files == 1 && rate >= FASTER * body_rate,
                Ordering::Less => false,
            };
            let rank = (greed, body_rate, waited);
            (is_of_use && shortage.is_within(body.held)).then_some((rank, entry))
        });
        let (_, entry) = candidates.max_by(|(rank, _), (other, _)| {
            let by_rate = other.1.total_cmp(&rank.1);
            rank.0.cmp(&other.0).then(by_rate).then(rank.2.cmp(&other.2))
        })?;
        let Body { client, held, gives_way, .. } = entry.take()?;
        Some((client, held, gives_way))
    }
}

/// The bytes a second of a body, from the bytes that have come in this time.
pub(crate) fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.max(RATE_TIME_MIN).as_secs_f64()
}
