//! Request bodies that are read before their requests ask to be let in.
//!
//! A place in the gate stands for the upstream's work. So the body is read first, at whatever
//! pace its client has: into memory, or into a file if it is long or there is no memory left.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use tamarisk_server::{ClientBody, ClientBodyError};

use crate::blocking;
use crate::budget::Account;
use crate::budget::held::Held;
use crate::budget::spool::Spool;
use crate::error::ProxyError;
use crate::exchange_error::ExchangeError;
use crate::request::spooled::Spooled;

/// A piece as long as this is kept as it came. A shorter one is copied: over HTTP/2 it would keep the
/// frames around it in memory, 16 KiB and more.
const SHARED_BUFFER_PIECE_MIN: usize = 4 * 1024;

/// A body that has been read to its end.
#[derive(Debug)]
pub(crate) struct Buffered {
    length: u64,
    pub(crate) store: Store,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Where it is; with it is what it takes up, until it has been sent.
#[derive(Debug)]
pub(crate) enum Store {
    Memory { bytes: Bytes, account: Account },
    File(Spooled),
}

/// Reads `body` to its end, at the expense of `account`, which holds nothing.
pub(crate) async fn read(
    mut body: ClientBody,
    account: Account,
    each: Each,
) -> Result<Buffered, ProxyError> {
    if body.size_hint().lower() > each.max {
        return Err(ProxyError::TooLong);
    }
    let mut intake = Intake { each, memory: Vec::new(), spool: None, account };
    if let Some(data) = body.take_whole() {
        if intake.can_keep(&data) {
            return Ok(intake.keep(data));
        }
        intake = intake.take(data).await?;
    }
    let mut trailers = None;
    while let Some(frame) = poll_fn(|cx| intake.poll_frame(&mut body, cx)).await {
        match frame?.into_data() {
            // Most bodies come in one piece, which need not be copied if it is all of its buffer,
            // or much of it.
            Ok(data) if body.is_end_stream() && intake.can_keep(&data) => {
                let is_small = data.len() < SHARED_BUFFER_PIECE_MIN;
                return Ok(intake.keep(if is_small {
                    Bytes::copy_from_slice(&data)
                } else {
                    data
                }));
            }
            Ok(data) => intake = intake.take(data).await?,
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    intake.finish(trailers).await
}

/// How long one body may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Each {
    /// In memory.
    pub(crate) memory: u64,
    /// At all.
    pub(crate) max: u64,
}

/// A body that is being read.
struct Intake {
    each: Each,
    /// What is not in the file, if there is one. All that it has reserved is counted.
    memory: Vec<u8>,
    spool: Option<Spool>,
    /// What all this takes up. Dropped last.
    account: Account,
}

impl Intake {
    /// The next part of `body`, unless it has to give way to another one.
    fn poll_frame(
        &mut self,
        body: &mut ClientBody,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ProxyError>>> {
        if self.account.poll_gave_way(cx).is_ready() {
            return Poll::Ready(Some(Err(ProxyError::Crowded)));
        }
        let frame = ready!(Pin::new(body).poll_frame(cx));
        let in_client = |error: ClientBodyError| ProxyError::Client(error.violation());
        Poll::Ready(frame.map(|frame| frame.map_err(in_client)))
    }

    /// Whether all of the body is `data`, and may stay in memory.
    fn can_keep(&mut self, data: &Bytes) -> bool {
        self.spool.is_none() && self.memory.is_empty() && self.holds(data.len() as u64)
    }

    fn keep(self, data: Bytes) -> Buffered {
        let length = data.len() as u64;
        let store = Store::Memory { bytes: data, account: self.account };
        Buffered { length, store, trailers: None }
    }

    async fn take(mut self, data: Bytes) -> Result<Self, ProxyError> {
        let before = self.spool.as_ref().map_or(0, Spool::length) + self.memory.len() as u64;
        if before + data.len() as u64 > self.each.max {
            return Err(ProxyError::TooLong);
        }
        if !self.fits(data.len()) {
            // Boxed, for most bodies need no file.
            return Box::pin(self.spill(data)).await;
        }
        // Copied, because a part may be a few bytes of a large buffer.
        self.memory.extend_from_slice(&data);
        Ok(self)
    }

    /// Writes what is in memory to the file, and `data` behind it unless there is room for it now.
    async fn spill(mut self, data: Bytes) -> Result<Self, ProxyError> {
        let memory = mem::take(&mut self.memory).into();
        self = self.write(memory).await?;
        if self.fits(data.len()) {
            self.memory.extend_from_slice(&data);
            Ok(self)
        } else {
            self.write(data).await
        }
    }

    /// Whether there is room for this many more bytes in memory. If so, it is reserved and counted.
    fn fits(&mut self, bytes: usize) -> bool {
        let length = self.memory.len() + bytes;
        if length as u64 > self.each.memory {
            return false;
        }
        let reserved = self.memory.capacity();
        // Twice as much each time, so that a body is not copied for each of its pieces.
        let wanted = if length > reserved { length.max(2 * reserved) } else { reserved };
        let wanted = (wanted as u64).min(self.each.memory);
        let has_room = self.holds(wanted);
        if has_room {
            self.memory.reserve_exact(wanted as usize - self.memory.len());
        }
        has_room
    }

    /// Counts exactly this many bytes in memory, if there is room.
    fn holds(&mut self, memory: u64) -> bool {
        memory <= self.each.memory && self.account.hold(Held { memory, ..self.account.held() })
    }

    /// Writes to the file what was in memory, or came last and found no room there.
    ///
    /// The disk's thread gets all of it: if the client leaves meanwhile, what the thread holds is
    /// counted until it is done, however long the disk hangs.
    async fn write(mut self, bytes: Bytes) -> Result<Self, ProxyError> {
        if bytes.is_empty() {
            return Ok(self);
        }
        let file = self.account.held().file + bytes.len() as u64;
        if !self.account.claim(Held { file, files: 1, ..self.account.held() }) {
            return Err(ProxyError::Crowded);
        }
        if self.spool.is_none() {
            self.account.may_give_way();
        }
        let budget = self.account.budget().clone();
        let work = blocking::spawn(move || {
            let of_all = self.account.budget().held().file;
            let written = self.write_to_file(&bytes, of_all);
            (self, written)
        });
        let work = match work {
            Ok(work) => work,
            no_thread => {
                budget.disk_failures().wrote(&no_thread);
                return Err(ProxyError::Threads);
            }
        };
        let (mut intake, written) = work.await.map_err(|_| ProxyError::Disk)?;
        budget.disk_failures().wrote(&written);
        written.map_err(|_| ProxyError::Disk)?;
        intake.account.hold(Held { memory: 0, ..intake.account.held() });
        Ok(intake)
    }

    /// Waits for the disk, given the bytes that all bodies have there.
    fn write_to_file(&mut self, bytes: &[u8], of_all: u64) -> io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => self.spool.insert(Spool::create()?),
        };
        spool.write(bytes, of_all)
    }

    async fn finish(mut self, trailers: Option<HeaderMap>) -> Result<Buffered, ProxyError> {
        if !self.account.keep() {
            return Err(ProxyError::Crowded);
        }
        let memory = Bytes::from(mem::take(&mut self.memory));
        if self.spool.is_none() {
            self.holds(memory.len() as u64);
            return Ok(Buffered { trailers, ..self.keep(memory) });
        }
        let Self { spool, account, .. } = Box::pin(self.write(memory)).await?;
        let spool = spool.expect("there was one before");
        let (length, store) = (spool.length(), Store::File(Spooled::new(spool, account)));
        Ok(Buffered { length, store, trailers })
    }
}

impl Buffered {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    /// Whether all of it has been taken.
    pub(crate) fn is_end_stream(&self) -> bool {
        let is_taken = match &self.store {
            Store::Memory { bytes, .. } => bytes.is_empty(),
            Store::File(file) => file.is_at_end(),
        };
        is_taken && self.trailers.is_none()
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, ExchangeError>> {
        let data = match &mut self.store {
            Store::Memory { bytes, .. } if bytes.is_empty() => None,
            Store::Memory { bytes, .. } => Some(std::mem::take(bytes)),
            Store::File(file) => ready!(file.poll_next(cx)).map_err(ExchangeError::Disk)?,
        };
        let trailers = || self.trailers.take().map(Frame::trailers);
        Poll::Ready(Ok(data.map(Frame::data).or_else(trailers)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;

    use super::*;
    use crate::budget::Budget;

    const DATA: &[u8] = &[b'a'; 1000];

    /// A body before its first byte; so much of it stays in memory.
    fn intake(budget: &Budget, memory: u64) -> Intake {
        let each = Each { memory, max: 10_000 };
        let account = budget.account([192, 0, 2, 1].into());
        Intake { each, memory: Vec::new(), spool: None, account }
    }

    /// Polls `work` once while the disk hangs, drops it, and ends when the disk has done all.
    async fn leave_while_the_disk_hangs<F: Future>(work: F, budget: &Budget, held: Held) {
        // The runtime's one thread for the disk.
        let (release, hang) = mpsc::channel::<()>();
        let hanging = spawn_blocking(move || hang.recv());
        let mut work = Box::pin(work);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(work.as_mut().poll(&mut cx).is_pending());
        assert_eq!(budget.held(), held);
        drop(work);
        assert_eq!(budget.held(), held, "the client has left");
        drop(release);
        hanging.await.expect("it ends").expect_err("it was released");
        // What was to be done before this has been done then.
        spawn_blocking(|| ()).await.expect("it ends");
        assert_eq!(budget.held(), Held::default());
    }

    fn with_one_thread_for_the_disk(test: impl Future<Output = ()>) {
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn what_is_being_written_is_counted_until_that_is_done_though_the_client_has_left() {
        with_one_thread_for_the_disk(async {
            let budget = Budget::default();
            let in_file = Held { memory: 0, file: 1000, files: 1 };
            let first = intake(&budget, 10);
            leave_while_the_disk_hangs(first.take(Bytes::from_static(DATA)), &budget, in_file)
                .await;
            // What was in memory is counted there until it is in the file.
            let second = intake(&budget, 1000).take(Bytes::from_static(DATA)).await.unwrap();
            let more = second.take(Bytes::from_static(b"b"));
            let in_both = Held { memory: 1000, ..in_file };
            leave_while_the_disk_hangs(more, &budget, in_both).await;
            // There is a file already.
            let third = intake(&budget, 10).take(Bytes::from_static(DATA)).await.unwrap();
            let more = third.take(Bytes::from_static(DATA));
            let longer = Held { file: 2000, ..in_file };
            leave_while_the_disk_hangs(more, &budget, longer).await;
        });
    }

    #[test]
    fn what_is_being_read_is_counted_until_that_is_done_though_nobody_waits_for_it() {
        with_one_thread_for_the_disk(async {
            let budget = Budget::default();
            let intake = intake(&budget, 10).take(Bytes::from_static(DATA)).await.unwrap();
            let mut body = intake.finish(None).await.unwrap();
            let read = poll_fn(move |cx| body.poll_frame(cx));
            let in_file = Held { memory: 0, file: 1000, files: 1 };
            leave_while_the_disk_hangs(read, &budget, in_file).await;
        });
    }
}
