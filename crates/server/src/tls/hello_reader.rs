//! Reads what a client sends, and marks a [port in the server name](super::server_name).
//!
//! It looks at the record with the client's first hello. If the name has a port, it also looks at
//! the records up to the next hello, which follows a HelloRetryRequest [RFC8446 §4.1.4]. All else
//! passes as it is, also a hello in several records: rustls rejects that one if its name has a
//! port. Clients do not cut a hello that fits into one record, which has 16 KiB.

use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::server_name::mark_port;

/// Type of a record with messages of the handshake [RFC8446 §5.1].
const HANDSHAKE: u8 = 22;

/// Type of a record that may come before a second hello [RFC8446 §D.4].
const CHANGE_CIPHER_SPEC: u8 = 20;

/// Bytes before the content of a record [RFC8446 §5.1].
const RECORD_HEADER: usize = 5;

/// Bytes of a record before it is encrypted [RFC8446 §5.1]. No more is held.
const RECORD_MAX: usize = RECORD_HEADER + (1 << 14);

/// A stream whose first bytes are looked at.
pub(crate) struct HelloReader<S> {
    stream: S,
    awaited: Awaited,
    has_port: bool,
    /// The start of a record, to be looked at when it is whole.
    held: Vec<u8>,
    /// What is held has been looked at, and only has to be passed on.
    is_looked_at: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Hello,
    /// The one after a HelloRetryRequest, if that is sent.
    SecondHello,
    Nothing,
}

impl<S> HelloReader<S> {
    pub(super) fn new(stream: S) -> Self {
        let awaited = Awaited::Hello;
        Self { stream, awaited, has_port: false, held: Vec::new(), is_looked_at: false }
    }

    /// Whether the client has sent a server name with a port, which was marked.
    pub(super) fn has_port(&self) -> bool {
        self.has_port
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Looks at the records in `bytes`; how many bytes of them may be passed on. Behind them is
    /// the start of a record.
    fn look_at(&mut self, bytes: &mut [u8]) -> usize {
        let mut passed = 0;
        while self.awaited != Awaited::Nothing {
            match Record::at(&bytes[passed..]) {
                Record::Partial { .. } => return passed,
                Record::Whole { length } => {
                    self.look_at_record(&mut bytes[passed..passed + length]);
                    passed += length;
                }
                Record::Other => self.awaited = Awaited::Nothing,
            }
        }
        bytes.len()
    }

    fn look_at_record(&mut self, record: &mut [u8]) {
        let (header, message) = record.split_at_mut(RECORD_HEADER);
        if header[0] == CHANGE_CIPHER_SPEC {
            return;
        }
        let is_marked = mark_port(message);
        self.awaited = match self.awaited {
            Awaited::Hello if is_marked => Awaited::SecondHello,
            _ => Awaited::Nothing,
        };
        self.has_port |= is_marked;
    }

    fn pass_on(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.held.len().min(buf.remaining());
        buf.put_slice(&self.held[..count]);
        self.held.drain(..count);
        if self.held.is_empty() {
            self.held = Vec::new();
            self.is_looked_at = false;
        }
    }
}

impl<S: AsyncRead + Unpin> HelloReader<S> {
    fn poll_looked_at(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.held.is_empty() {
            let passed = ready!(self.poll_records(cx, buf))?;
            if passed > 0 || self.held.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        ready!(self.poll_rest(cx))?;
        self.pass_on(buf);
        Poll::Ready(Ok(()))
    }

    /// Reads into `buf`, and holds the start of a record that is at its end; how many bytes come
    /// before it.
    fn poll_records(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let start = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let bytes = &mut buf.filled_mut()[start..];
        let passed = self.look_at(bytes);
        self.held.extend_from_slice(&bytes[passed..]);
        buf.set_filled(start + passed);
        Poll::Ready(Ok(passed))
    }

    /// Reads the rest of the record that is held, and nothing behind it: that may be for whoever
    /// waits for the stream below.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_looked_at {
            let Record::Partial { missing } = Record::at(&self.held) else {
                let mut held = mem::take(&mut self.held);
                self.look_at(&mut held);
                self.held = held;
                self.is_looked_at = true;
                break;
            };
            let mut rest = (&mut self.held).limit(missing);
            let count = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut rest))?;
            self.is_looked_at = count == 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HelloReader<S> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.awaited == Awaited::Nothing && this.held.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        this.poll_looked_at(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HelloReader<S> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What is at the start of some bytes.
enum Record {
    /// Part of a record that may be a hello or come before one.
    Partial {
        missing: usize,
    },
    Whole {
        length: usize,
    },
    /// Another type of record, one that is too long, or something else.
    Other,
}

impl Record {
    fn at(bytes: &[u8]) -> Self {
        match *bytes {
            [kind, ..] if kind != HANDSHAKE && kind != CHANGE_CIPHER_SPEC => Self::Other,
            [_, _, _, high, low, ..] => {
                let length = RECORD_HEADER + usize::from(u16::from_be_bytes([high, low]));
                match length.checked_sub(bytes.len()) {
                    _ if length > RECORD_MAX => Self::Other,
                    None | Some(0) => Self::Whole { length },
                    Some(missing) => Self::Partial { missing },
                }
            }
            _ => Self::Partial { missing: RECORD_HEADER - bytes.len() },
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::super::server_name::tests::hello;
    use super::*;

    const CHANGE: &[u8] = &[20, 3, 3, 0, 1, 1];
    const ENCRYPTED: &[u8] = &[23, 3, 3, 0, 3, 7, 7, 7];

    fn record(message: &[u8]) -> Vec<u8> {
        let length = u16::try_from(message.len()).unwrap().to_be_bytes();
        [&[22, 3, 1], &length[..], message].concat()
    }

    /// What comes out if `sent` comes in pieces of so many bytes, and is read as many at a time;
    /// and whether there was a port.
    async fn read(sent: &[u8], piece: usize) -> (Vec<u8>, bool) {
        // Who writes waits for who reads.
        let (mut client, socket) = duplex(piece);
        let sent = sent.to_vec();
        tokio::spawn(async move { client.write_all(&sent).await });
        let mut reader = HelloReader::new(socket);
        let (mut bytes, mut some) = (Vec::new(), vec![0; piece]);
        while let count @ 1.. = reader.read(&mut some).await.unwrap() {
            bytes.extend_from_slice(&some[..count]);
        }
        assert_eq!(reader.held.capacity(), 0);
        (bytes, reader.has_port())
    }

    async fn check(sent: &[&[u8]], expected: &[&[u8]], has_port: bool) {
        for piece in [1, 2, 3, 5, 7, 100, 150, 200, 300, 1 << 16] {
            let (bytes, found) = read(&sent.concat(), piece).await;
            assert!(bytes == expected.concat(), "in pieces of {piece}");
            assert_eq!(found, has_port, "in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_port_is_marked_in_the_hello_and_the_second_one_however_they_come() {
        let [sent, marked] = ["a.test:80", "a.test_80"].map(|name| record(&hello(name)));
        check(&[&sent], &[&marked], true).await;
        check(&[&sent, &sent], &[&marked, &marked], true).await;
        let retried = [&sent, CHANGE, &sent, ENCRYPTED];
        check(&retried, &[&marked, CHANGE, &marked, ENCRYPTED], true).await;
    }

    #[tokio::test]
    async fn nothing_is_changed_behind_the_hellos() {
        let [sent, marked] = ["a.test:80", "a.test_80"].map(|name| record(&hello(name)));
        let key = record(&[16, 0, 0, 1, 5]);
        for last in [ENCRYPTED, &key] {
            check(&[&sent, CHANGE, last, &sent], &[&marked, CHANGE, last, &sent], true).await;
        }
        check(&[&sent, &sent, &sent], &[&marked, &marked, &sent], true).await;
    }

    #[tokio::test]
    async fn all_else_passes_as_it_is() {
        let [plain, with_port] = ["a.test", "a.test:80"].map(|name| record(&hello(name)));
        check(&[&plain, &with_port], &[&plain, &with_port], false).await;
        let message = hello("a.test:80");
        let (start, end) = message.split_at(message.len() - 1);
        let in_two = [record(start), record(end)].concat();
        let mut long = record(&message);
        long[3..5].copy_from_slice(&[0x40, 1]);
        long.resize(5 + 0x4001, 0);
        let unfinished = &with_port[..with_port.len() - 1];
        for sent in [&plain, &in_two, &long, unfinished, b"GET / HTTP/1.1\r\n"] {
            check(&[sent], &[sent], false).await;
        }
    }

    /// Reads as many bytes as there are places in `some`, which must be there.
    fn read_at_once(stream: &mut (impl AsyncRead + Unpin), some: &mut [u8]) {
        let count = stream.read_exact(some).now_or_never().expect("they are there").unwrap();
        assert_eq!(count, some.len());
    }

    #[tokio::test]
    async fn nothing_behind_a_record_is_held() {
        let sent = record(&hello("a.test:80"));
        let (mut client, socket) = duplex(1 << 16);
        let mut reader = HelloReader::new(socket);
        client.write_all(&sent[..9]).await.unwrap();
        let mut some = vec![0; sent.len()];
        assert!(reader.read(&mut some).now_or_never().is_none(), "it waits for the record");
        client.write_all(&[&sent[9..], ENCRYPTED].concat()).await.unwrap();
        read_at_once(&mut reader, &mut some);
        let mut below = [0; ENCRYPTED.len()];
        read_at_once(reader.get_mut(), &mut below);
        assert_eq!(below, ENCRYPTED);
    }

    #[tokio::test]
    async fn what_is_no_handshake_is_not_waited_for() {
        for sent in [&b"GET "[..], b"GET / HTTP/1.1\r\n", &ENCRYPTED[..7]] {
            let (mut client, socket) = duplex(1 << 16);
            let mut reader = HelloReader::new(socket);
            client.write_all(sent).await.unwrap();
            let mut some = vec![0; sent.len()];
            read_at_once(&mut reader, &mut some);
            assert_eq!(some, sent);
        }
    }
}
