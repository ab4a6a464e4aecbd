//! Bounds the memory of HTTP/2 responses that clients have not read.
//!
//! hyper asks for the next piece of an answer before the client has window for it, and h2 keeps
//! what it was given until the client's window and socket take it. A client may open a hundred
//! streams on each connection and read none of them. So each piece is counted until h2 drops it.
//! Each stream may hold one small piece. Larger pieces, and further ones, come from a budget of
//! the connection and one of the server; while there is none left, the stream waits, without
//! memory, until its small piece has been sent. No stream waits for another one.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::task::AtomicWaker;

use crate::capacity::Capacity;

/// The largest piece: two frames, which at the least rate take a minute.
pub(crate) const PIECE_MAX: usize = 32 * 1024;

/// What a stream may hold in any case: about as much as it costs to have the stream at all, and
/// enough for the heads and ends of most pages.
pub(crate) const STREAM_BYTES: usize = 4 * 1024;

/// What the streams of a connection may hold beyond that: eight of the largest pieces, more than
/// what is under way to most clients.
const CONNECTION_BYTES: usize = 256 * 1024;

/// What all connections of a server may hold beyond that: as much as 256 of them at their most, and
/// no more than a sixteenth of the memory.
const SERVER_BYTES: usize = 64 * 1024 * 1024;
const SERVER_PART: u64 = 16;

tokio::task_local! {
    /// Of the body that is being polled: hyper lets nothing else through to it.
    static OFFER: Offer;
}

/// The size of the next read for the body of an answer, or `otherwise` where nothing bounds it. On
/// HTTP/2 memory of this size is reserved for the body until it returns what it read.
pub fn read_size(otherwise: usize) -> usize {
    let accept = |offer: &Offer| {
        offer.is_accepted.set(true);
        offer.bytes
    };
    OFFER.try_with(accept).unwrap_or(otherwise)
}

struct Offer {
    bytes: usize,
    is_accepted: Cell<bool>,
}

/// Bytes that are lent, up to a limit.
#[derive(Debug, Default)]
struct Lent(AtomicUsize);

impl Lent {
    /// Lends as many of `wanted` bytes as there are, if that is more than a stream has anyway.
    fn take(&self, wanted: usize, limit: usize) -> usize {
        let before = self.0.fetch_add(wanted, Ordering::Relaxed);
        let available = limit.saturating_sub(before).min(wanted);
        let taken = if available > STREAM_BYTES.min(wanted - 1) { available } else { 0 };
        self.give_back(wanted - taken);
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What all connections of a server hold; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ServerMemory {
    lent: Arc<Lent>,
    limit: usize,
}

impl ServerMemory {
    /// Of a process with this `capacity`.
    pub(crate) fn within(capacity: Capacity) -> Self {
        let limit = capacity.memory_share(SERVER_PART, SERVER_BYTES as u64);
        Self { lent: Arc::default(), limit: limit as usize }
    }
}

/// What the streams of a connection hold.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    lent: Lent,
    server: ServerMemory,
}

impl ConnectionMemory {
    pub(crate) fn new(server: ServerMemory) -> Self {
        Self { lent: Lent::default(), server }
    }

    /// Whether h2 holds anything of an answer but a small piece.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.0.load(Ordering::Relaxed) > 0
    }

    fn take(&self, wanted: usize) -> usize {
        let ours = self.lent.take(wanted, CONNECTION_BYTES);
        if ours == 0 {
            return 0;
        }
        let taken = self.server.lent.take(ours, self.server.limit);
        self.lent.give_back(ours - taken);
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.lent.give_back(bytes);
        self.server.lent.give_back(bytes);
    }
}

/// What one stream holds.
pub(crate) struct StreamMemory {
    connection: Arc<ConnectionMemory>,
    /// Whether it holds the small piece that it may hold in any case.
    holds_own: AtomicBool,
    waiting: AtomicWaker,
}

impl StreamMemory {
    pub(crate) fn new(connection: Arc<ConnectionMemory>) -> Arc<Self> {
        let (holds_own, waiting) = (AtomicBool::new(false), AtomicWaker::new());
        Arc::new(Self { connection, holds_own, waiting })
    }

    /// Memory for the next piece.
    pub(crate) fn poll_reserve(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<Reserved> {
        let reserved = |bytes, own| Reserved { stream: Arc::clone(self), bytes, own };
        match self.connection.take(PIECE_MAX) {
            0 => {}
            lent => return Poll::Ready(reserved(lent, Own::No)),
        }
        let own = || match self.holds_own.swap(true, Ordering::AcqRel) {
            false => Poll::Ready(reserved(STREAM_BYTES, Own::Yes)),
            true => Poll::Pending,
        };
        if let Poll::Ready(own) = own() {
            // Nobody is registered: giving it back unused would wake the very task that did so.
            return Poll::Ready(own);
        }
        self.waiting.register(cx.waker());
        // It may have been given back just before.
        own()
    }
}

/// Whether memory is the stream's own, and not lent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Yes,
    No,
}

/// Memory for a piece, given back when dropped.
pub(crate) struct Reserved {
    stream: Arc<StreamMemory>,
    bytes: usize,
    own: Own,
}

impl Reserved {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Polls a body, which may read this much; whether it has begun to, too.
    pub(crate) fn offer<T>(&self, poll: impl FnOnce() -> T) -> (T, bool) {
        let offer = Offer { bytes: self.bytes, is_accepted: Cell::new(false) };
        OFFER.sync_scope(offer, || {
            let polled = poll();
            (polled, OFFER.with(|offer| offer.is_accepted.get()))
        })
    }

    /// Counts `piece`, which is no longer than what is reserved, until it is dropped.
    pub(crate) fn count(mut self, piece: Bytes) -> Bytes {
        debug_assert!(piece.len() <= self.bytes, "{} bytes in {}", piece.len(), self.bytes);
        if self.own == Own::No {
            self.stream.connection.give_back(self.bytes - piece.len());
            self.bytes = piece.len();
        }
        Bytes::from_owner(Counted { piece, _reserved: self })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        match self.own {
            Own::No => self.stream.connection.give_back(self.bytes),
            Own::Yes => {
                self.stream.holds_own.store(false, Ordering::Release);
                self.stream.waiting.wake();
            }
        }
    }
}

struct Counted {
    piece: Bytes,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn stream(connection: &Arc<ConnectionMemory>) -> Arc<StreamMemory> {
        StreamMemory::new(Arc::clone(connection))
    }

    fn reserve(stream: &Arc<StreamMemory>) -> Option<Reserved> {
        match stream.poll_reserve(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reserved) => Some(reserved),
            Poll::Pending => None,
        }
    }

    fn connection(server: &ServerMemory) -> Arc<ConnectionMemory> {
        Arc::new(ConnectionMemory::new(server.clone()))
    }

    /// That of a process with so much memory.
    fn with_memory(memory: u64) -> ServerMemory {
        ServerMemory::within(Capacity { memory, files: 0 })
    }

    /// What is lent of the server's memory.
    fn lent(server: &ServerMemory) -> usize {
        server.lent.0.load(Ordering::Relaxed)
    }

    #[test]
    fn a_stream_without_budget_holds_one_small_piece_at_a_time() {
        let server = with_memory(8 << 30);
        let connection = connection(&server);
        let (greedy, other) = (stream(&connection), stream(&connection));
        let held: Vec<_> = std::iter::from_fn(|| reserve(&greedy)).collect();
        let sizes: Vec<_> = held.iter().map(Reserved::bytes).collect();
        // 256 KiB are eight times 32 KiB; the ninth piece is the stream's own.
        assert_eq!(sizes, [&[32 * 1024; 8][..], &[4 * 1024]].concat());
        let own = reserve(&other).unwrap();
        assert_eq!((own.bytes(), reserve(&other).is_none()), (4 * 1024, true));
        let piece = own.count(Bytes::from_static(b"piece"));
        assert!(reserve(&other).is_none());
        drop(piece);
        assert_eq!(reserve(&other).unwrap().bytes(), 4 * 1024);
        drop(held);
        assert_eq!(reserve(&other).unwrap().bytes(), 32 * 1024);
        assert_eq!(lent(&server), 0);
    }

    #[test]
    fn a_piece_holds_its_length_until_its_last_part_is_dropped() {
        let server = with_memory(8 << 30);
        let stream = stream(&connection(&server));
        let mut piece = reserve(&stream).unwrap().count(Bytes::from(vec![1; 10_000]));
        assert_eq!((lent(&server), &piece[..]), (10_000, &[1; 10_000][..]));
        let part = piece.split_to(1);
        drop(piece);
        assert_eq!(lent(&server), 10_000);
        drop(part);
        assert_eq!(lent(&server), 0);
    }

    #[test]
    fn connections_share_the_memory_of_the_server() {
        let server = with_memory(8 << 30);
        let mut held = Vec::new();
        // 64 MiB are 256 times 256 KiB.
        for _ in 0..256 {
            let stream = stream(&connection(&server));
            held.extend((0..8).map(|_| reserve(&stream).unwrap()));
        }
        assert_eq!(lent(&server), 64 * 1024 * 1024);
        let last = stream(&connection(&server));
        let own = reserve(&last).unwrap();
        assert_eq!(own.bytes(), 4 * 1024);
        held.pop();
        assert_eq!(reserve(&last).unwrap().bytes(), 32 * 1024);
        drop((held, own));
        assert_eq!(lent(&server), 0);
    }

    #[test]
    fn a_small_container_lends_a_sixteenth_of_its_memory() {
        let server = with_memory(16 << 20);
        let held: Vec<_> = (0..5)
            .flat_map(|_| {
                std::iter::from_fn({
                    let stream = stream(&connection(&server));
                    move || reserve(&stream)
                })
            })
            .collect();
        assert_eq!((lent(&server), held.len()), (1 << 20, 37));
    }

    #[test]
    fn who_waits_is_woken_by_its_own_piece() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let connection = connection(&with_memory(8 << 30));
        let (greedy, waiting) = (stream(&connection), stream(&connection));
        let _held: Vec<_> = std::iter::from_fn(|| reserve(&greedy)).collect();
        let own = reserve(&waiting).unwrap();
        assert!(waiting.poll_reserve(&mut Context::from_waker(&waker)).is_pending());
        assert!(!woken.0.load(Ordering::Relaxed));
        drop(own);
        assert!(woken.0.load(Ordering::Relaxed));
    }

    #[test]
    fn who_gives_its_own_piece_back_unused_is_not_woken() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let cx = &mut Context::from_waker(&waker);
        let connection = connection(&with_memory(8 << 30));
        let (greedy, waiting) = (stream(&connection), stream(&connection));
        let _held: Vec<_> = std::iter::from_fn(|| reserve(&greedy)).collect();
        for _ in 0..2 {
            // What a body does that has nothing to send yet.
            assert!(waiting.poll_reserve(cx).is_ready());
            assert!(!woken.0.load(Ordering::Relaxed));
        }
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
