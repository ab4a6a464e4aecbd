//! Parts of a request that are written in one system call.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

/// What is about to be written: a head or a chunk's size, some data, a line end;
/// together in one system call.
#[derive(Debug, Default)]
pub(crate) struct Output {
    lead: Vec<u8>,
    lead_written: usize,
    data: Bytes,
    tail: &'static [u8],
}

impl Output {
    /// Drops everything and begins with a head, which `write` appends to an
    /// empty vector.
    pub(crate) fn begin<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.data = Bytes::new();
        self.tail = b"";
        self.lead_written = 0;
        self.lead.clear();
        write(&mut self.lead)
    }

    /// Starts again with the head that another connection was begun with.
    pub(crate) fn begin_again(&mut self, other: &mut Self) {
        self.begin(|lead| std::mem::swap(lead, &mut other.lead));
    }

    /// What comes first can be appended to here. There must be no data behind it.
    pub(crate) fn lead(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.data.is_empty() && self.tail.is_empty(), "data is still to be written");
        if self.lead_written == self.lead.len() {
            self.lead.clear();
            self.lead_written = 0;
        }
        &mut self.lead
    }

    /// Data and the end of its line come behind it.
    pub(crate) fn follow(&mut self, data: Bytes, tail: &'static [u8]) {
        self.data = data;
        self.tail = tail;
    }

    /// Whether all data has been written, so that more can follow.
    pub(crate) fn has_room(&self) -> bool {
        self.data.is_empty() && self.tail.is_empty()
    }

    pub(crate) fn is_written(&self) -> bool {
        self.lead_written == self.lead.len() && self.has_room()
    }

    /// Writes it all.
    pub(crate) fn poll_write(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_written() {
            let lead = &self.lead[self.lead_written..];
            let written = if self.has_room() {
                ready!(Pin::new(&mut *stream).poll_write(cx, lead))?
            } else {
                let slices =
                    [IoSlice::new(lead), IoSlice::new(&self.data), IoSlice::new(self.tail)];
                ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        let of_lead = written.min(self.lead.len() - self.lead_written);
        self.lead_written += of_lead;
        let of_data = (written - of_lead).min(self.data.len());
        self.data.advance(of_data);
        self.tail = &self.tail[written - of_lead - of_data..];
    }
}
