//! Request bodies that are read before their requests ask to be let in.
//!
//! A place in the gate stands for the upstream's work. So the body is read first, at whatever
//! pace its client has: into memory, or into a file if it is long or there is no memory left.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use tamarisk_server::{ClientBody, ClientBodyError};

use crate::budget::Account;
use crate::error::ProxyError;
use crate::request::held::Held;
use crate::request::spool::{Spool, Spooled};
use crate::upstream::exchange_error::ExchangeError;

/// Whether a request's body is read before the request is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestBuffering {
    /// It is: a short one into memory, a long one into a temporary file.
    #[default]
    MemoryAndFile,
    /// It is passed on as it comes.
    Off,
}

/// A body that has been read to its end.
#[derive(Debug)]
pub(crate) struct Buffered {
    length: u64,
    pub(crate) store: Store,
    pub(crate) trailers: Option<HeaderMap>,
    /// What it takes up, until it has been sent.
    pub(crate) account: Account,
}

/// Where it is.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(Bytes),
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
    let mut intake = Intake { each, account, memory: BytesMut::new(), spool: None };
    if let Some(data) = body.take_whole() {
        if intake.can_keep(&data) {
            return Ok(intake.keep(data));
        }
        intake.take(data).await?;
    }
    let mut trailers = None;
    while let Some(frame) = poll_fn(|cx| intake.poll_frame(&mut body, cx)).await {
        match frame?.into_data() {
            // Most bodies come in one piece, which need not be copied.
            Ok(data) if body.is_end_stream() && intake.can_keep(&data) => {
                return Ok(intake.keep(data));
            }
            Ok(data) => intake.take(data).await?,
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
    account: Account,
    /// What is not in the file, if there is one.
    memory: BytesMut,
    spool: Option<Spool>,
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
        self.spool.is_none() && self.memory.is_empty() && self.fits(data.len())
    }

    fn keep(self, data: Bytes) -> Buffered {
        let (length, store) = (data.len() as u64, Store::Memory(data));
        Buffered { length, store, trailers: None, account: self.account }
    }

    async fn take(&mut self, data: Bytes) -> Result<(), ProxyError> {
        let before = self.spool.as_ref().map_or(0, Spool::length) + self.memory.len() as u64;
        if before + data.len() as u64 > self.each.max {
            return Err(ProxyError::TooLong);
        }
        if !self.fits(data.len()) {
            let memory = self.memory.split().freeze();
            self.write(memory).await?;
        }
        // Copied, because a part may be a few bytes of a large buffer.
        if self.fits(data.len()) {
            self.memory.extend_from_slice(&data);
            Ok(())
        } else {
            self.write(data).await
        }
    }

    /// Whether there is room for so many more bytes in memory.
    fn fits(&mut self, bytes: usize) -> bool {
        let memory = (self.memory.len() + bytes) as u64;
        memory <= self.each.memory && self.account.hold(Held { memory, ..self.account.held() })
    }

    /// Writes to the file what was in memory, or came last and found no room there.
    async fn write(&mut self, bytes: Bytes) -> Result<(), ProxyError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let file = self.account.held().file + bytes.len() as u64;
        if !self.account.claim(Held { file, files: 1, ..self.account.held() }) {
            return Err(ProxyError::Crowded);
        }
        let written = self.write_to_file(bytes).await;
        self.account.disk_failures().wrote(&written);
        written.map_err(|_| ProxyError::Disk)?;
        self.account.hold(Held { memory: 0, ..self.account.held() });
        Ok(())
    }

    async fn write_to_file(&mut self, bytes: Bytes) -> io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => {
                self.account.may_give_way();
                self.spool.insert(Spool::create().await?)
            }
        };
        spool.write(bytes).await
    }

    async fn finish(mut self, trailers: Option<HeaderMap>) -> Result<Buffered, ProxyError> {
        if !self.account.keep() {
            return Err(ProxyError::Crowded);
        }
        let memory = self.memory.split().freeze();
        let (length, store) = if self.spool.is_some() {
            self.write(memory).await?;
            let spool = self.spool.expect("there was one before");
            (spool.length(), Store::File(spool.read()))
        } else {
            (memory.len() as u64, Store::Memory(memory))
        };
        Ok(Buffered { length, store, trailers, account: self.account })
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
            Store::Memory(bytes) => bytes.is_empty(),
            Store::File(file) => file.is_at_end(),
        };
        is_taken && self.trailers.is_none()
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, ExchangeError>> {
        let data = match &mut self.store {
            Store::Memory(bytes) if bytes.is_empty() => None,
            Store::Memory(bytes) => Some(std::mem::take(bytes)),
            Store::File(file) => {
                let read = ready!(file.poll_next(cx));
                self.account.disk_failures().read(&read);
                read.map_err(ExchangeError::Disk)?
            }
        };
        let trailers = || self.trailers.take().map(Frame::trailers);
        Poll::Ready(Ok(data.map(Frame::data).or_else(trailers)))
    }
}
