//! Polling of many sockets by one task (epoll).

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::Timespec;
use tokio::io::Interest;

/// Events that are taken at once.
pub(crate) const READY_MAX: usize = 64;

/// Tells one task which of many sockets have something to read. Where tokio waits for each of
/// them, each has a task to be woken, and that costs as much as most answers do.
///
/// An epoll instance, which tokio watches as if it were a socket: it has something to read while
/// one of those in it has. Of tokio's types a stream alone takes a descriptor as it comes.
pub(crate) struct Poller(tokio::net::TcpStream);

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = TcpStream::from(epoll::create(CreateFlags::CLOEXEC)?);
        epoll.set_nonblocking(true)?;
        Ok(Self(tokio::net::TcpStream::from_std(epoll)?))
    }

    /// Tells of `socket` by its `key` whenever more can be read of it; and now, if anything can.
    pub(crate) fn add(&self, socket: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.0, socket, EventData::new_u64(key as u64), flags)?)
    }

    /// Tells of it no more, nor of one that is closed.
    pub(crate) fn remove(&self, socket: BorrowedFd<'_>) {
        // It fails only for what is not there.
        let _ = epoll::delete(&self.0, socket);
    }

    /// Puts an event for each socket that is ready into `ready`, without waiting for any.
    pub(crate) fn look(&self, ready: &mut Vec<ReadyEvent>) {
        // That there are no more is no failure; whatever else there is shows when it waits.
        while look(&self.0, ready).is_ok() {}
    }

    /// Waits until a socket is ready, and puts an event for each that is into `ready`, which is empty.
    pub(crate) async fn wait(&self, ready: &mut Vec<ReadyEvent>) -> io::Result<()> {
        while ready.is_empty() {
            self.0.readable().await?;
            match self.0.try_io(Interest::READABLE, || look(&self.0, ready)) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// A socket that has more to read.
pub(crate) struct ReadyEvent {
    pub(crate) key: usize,
    /// Nothing comes behind what can be read.
    pub(crate) is_hung_up: bool,
}

/// Takes events, [`READY_MAX`] at most; with fewer there is nothing more,
/// and no need to look once more before waiting.
fn look(epoll: impl AsFd, ready: &mut Vec<ReadyEvent>) -> io::Result<()> {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    const HUNG_UP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
    let mut events = [const { MaybeUninit::uninit() }; READY_MAX];
    let (events, _) = epoll::wait(epoll, &mut events, Some(&NOW))?;
    let all_taken = events.len() < READY_MAX;
    ready.extend(events.iter().map(|&Event { flags, data, .. }| ReadyEvent {
        key: data.u64() as usize,
        is_hung_up: flags.intersects(HUNG_UP),
    }));
    if all_taken { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
}
