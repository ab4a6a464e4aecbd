//! A client's socket, as everything above it uses it.

use std::io::{self, IoSlice};
use std::mem;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::transport::disconnect::{DisconnectWatch, PendingBody};
use crate::transport::outlet::{EndedBy, Outlet};

/// A client's socket, which fails to flush when the client has left unheard.
///
/// An exchange flushes whenever it has nothing else to do. Tokio does not learn of a socket
/// that has only been [idle](Self::become_idle) so far.
pub(crate) struct Socket {
    stream: Stream,
    disconnect_watch: DisconnectWatch,
    /// See [`Self::become_idle`].
    is_idle: bool,
    /// Somebody waits for bytes, and so for their end.
    listens: bool,
    /// It has read their end.
    ended: bool,
    /// The kernel takes nothing more, because the client does not.
    full: bool,
    /// The close would tell that an answer is complete.
    is_unfinished: bool,
    /// There may be bytes to read, or the end: so at first, as a client is accepted when it has
    /// spoken. If not, there was nothing left when it was read last, and [`Self::heard`] tells.
    /// Of no matter while tokio knows of the socket.
    is_unread: bool,
    /// The client sends nothing more, so that what is read is followed by the end.
    is_hung_up: bool,
    /// How the kernel is given what it takes.
    flags: SendFlags,
}

/// Where the client's bytes come from, and ours go to.
enum Stream {
    /// Tokio does not know of it: it would tell of what has been read.
    New(TcpStream),
    /// Shared with the disconnect watch alone.
    Known(Arc<tokio::net::TcpStream>),
    /// It could not be made known.
    Lost,
}

impl Stream {
    /// The stream to wait for.
    fn known(&mut self) -> io::Result<&mut Arc<tokio::net::TcpStream>> {
        if let Self::New(_) = self
            && let Self::New(new) = mem::replace(self, Self::Lost)
        {
            *self = Self::Known(Arc::new(tokio::net::TcpStream::from_std(new)?));
        }
        match self {
            Self::Known(known) => Ok(known),
            Self::New(_) | Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::New(new) => Some(new.as_fd()),
            Self::Known(known) => Some(known.as_fd()),
            Self::Lost => None,
        }
    }
}

impl Socket {
    /// A client's socket that does not block.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream: Stream::New(stream),
            disconnect_watch: DisconnectWatch::default(),
            is_idle: false,
            listens: false,
            ended: false,
            full: false,
            is_unfinished: false,
            is_unread: true,
            is_hung_up: false,
            flags: SendFlags::NOSIGNAL,
        }
    }

    /// Where the service says that a body may be owed.
    pub(crate) fn pending_body(&self) -> PendingBody {
        self.disconnect_watch.pending_body()
    }

    /// There is something to read; the end too, if the client `is_hung_up`.
    pub(crate) fn heard(&mut self, is_hung_up: bool) {
        self.is_unread = true;
        self.is_hung_up |= is_hung_up;
    }

    /// Has a task wait for it again.
    pub(crate) fn become_busy(&mut self) {
        self.is_idle = false;
    }

    /// Has tokio forget it. Until it is busy again, reads and writes register nothing that they
    /// would wait for, and wake nobody: [`Self::heard`] tells when to try again. There may be
    /// something to read.
    pub(crate) fn become_idle(&mut self) -> io::Result<()> {
        self.is_idle = true;
        self.disconnect_watch.end();
        self.listens = false;
        if let Stream::Known(_) = self.stream
            && let Stream::Known(known) = mem::replace(&mut self.stream, Stream::Lost)
        {
            let known =
                Arc::into_inner(known).expect("only the disconnect watch shares the stream");
            self.stream = Stream::New(known.into_std()?);
            self.is_unread = true;
        }
        Ok(())
    }

    /// The socket itself, to be waited for.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream.socket()
    }

    /// The stream to be waited for and used, which ends the disconnect watch.
    fn stream(&mut self) -> io::Result<Pin<&mut tokio::net::TcpStream>> {
        self.disconnect_watch.end();
        let stream = Arc::get_mut(self.stream.known()?);
        Ok(Pin::new(stream.expect("only the disconnect watch shares the stream")))
    }

    /// Gives the kernel what it takes.
    ///
    /// By the system's calls themselves: the C library looks around each time for whether the
    /// thread is to be cancelled.
    #[inline]
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if let Stream::New(new) = &self.stream {
            match send(new.as_fd()) {
                Err(Errno::AGAIN) if self.is_idle => {
                    self.full = true;
                    return Poll::Pending;
                }
                Err(Errno::AGAIN) => {}
                sent => {
                    self.full = false;
                    return Poll::Ready(Ok(sent?));
                }
            }
        }
        let stream = self.stream()?.get_mut();
        loop {
            let Poll::Ready(()) = stream.poll_write_ready(cx)? else {
                self.full = true;
                return Poll::Pending;
            };
            match stream.try_io(Interest::WRITABLE, || Ok(send(stream.as_fd())?)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => {
                    self.full = false;
                    return Poll::Ready(sent);
                }
            }
        }
    }
}

impl Drop for Socket {
    /// What a client has not taken by now is thrown away: the kernel would go on offering it, for
    /// as long as the client likes, and hold the memory. So is what is no whole answer, and the client
    /// is told.
    fn drop(&mut self) {
        if (self.full || self.is_unfinished)
            && let Some(socket) = self.stream.socket()
        {
            let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if let Stream::New(new) = &self.stream {
            if self.is_unread {
                match net::recv(new, buf.initialize_unfilled(), RecvFlags::empty()) {
                    // It says nothing still.
                    Err(Errno::AGAIN) => self.is_unread = false,
                    read => {
                        let (read, _) = read?;
                        self.is_unread = self.is_hung_up || read == buf.remaining();
                        self.ended = read == 0;
                        buf.advance(read);
                        return Poll::Ready(Ok(()));
                    }
                }
            }
            if self.is_idle {
                return Poll::Pending;
            }
        }
        let read = self.stream()?.poll_read(cx, buf);
        self.listens = read.is_pending();
        self.ended = matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before;
        read
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = self.flags;
        self.poll_send(cx, |stream| net::send(stream, bytes, flags))
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let flags = self.flags;
        self.poll_send(cx, |stream| {
            net::sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), flags)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// A TCP stream has nothing to flush: this asks for the client.
    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, disconnect_watch, listens, .. } = &mut *self;
        let is_watched = !*listens && disconnect_watch.is_needed();
        if is_watched && disconnect_watch.poll_left(stream.known()?, cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }

    /// To a client that has ended its side the close says the same.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ended { Poll::Ready(Ok(())) } else { self.stream()?.poll_shutdown(cx) }
    }
}

impl Outlet for Socket {
    #[cfg(target_os = "linux")]
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        at: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |stream| rustix::fs::sendfile(stream, file, Some(&mut { at }), length))
    }

    fn set_followed(&mut self, is_followed: bool) {
        self.flags.set(SendFlags::MORE, is_followed);
    }

    fn set_unfinished(&mut self, is_unfinished: bool) {
        self.is_unfinished = is_unfinished;
    }

    /// The close says it. But where bytes of the client would be left unread it is a reset, for
    /// which the kernel drops what it has not sent: then that goes out before.
    fn poll_end(&mut self, by: EndedBy, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if by == EndedBy::Us
            && let Some(socket) = self.stream.socket()
            && let Ok((1.., _)) = net::recv(socket, &mut [0; 1], flags)
        {
            return self.stream()?.poll_shutdown(cx);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A client, and what the server has of it.
    async fn connected() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (client, Socket::new(stream.into_std().unwrap()))
    }

    #[tokio::test]
    async fn what_is_followed_goes_out_with_what_follows() {
        let (mut client, mut socket) = connected().await;
        let mut read = [0; 16];
        socket.set_followed(true);
        socket.write_all(b"head").await.unwrap();
        client.set_nonblocking(true).unwrap();
        let too_early = client.read(&mut read).map_err(|error| error.kind());
        assert_eq!(too_early, Err(io::ErrorKind::WouldBlock));
        socket.set_followed(false);
        socket.write_all(b"body").await.unwrap();
        assert_eq!(client.read(&mut read).unwrap(), 8);
    }

    #[tokio::test]
    async fn a_reset_before_the_first_read_is_told() {
        let (client, mut socket) = connected().await;
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        let error = socket.read(&mut [0; 16]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn the_last_bytes_reach_a_client_who_has_sent_what_nobody_reads() {
        for unread in [&b""[..], b"more"] {
            let (mut client, mut socket) = connected().await;
            client.write_all(unread).unwrap();
            socket.set_followed(true);
            socket.write_all(b"last").await.unwrap();
            poll_fn(|cx| socket.poll_end(EndedBy::Us, cx)).await.unwrap();
            drop(socket);
            let mut read = Vec::new();
            // Behind them may be a reset.
            let _ = client.read_to_end(&mut read);
            assert_eq!(read, b"last", "{unread:?}");
        }
    }

    #[tokio::test]
    async fn what_a_slow_client_has_taken_in_the_end_is_not_taken_back() {
        for is_idle in [true, false] {
            let (mut client, mut socket) = connected().await;
            if is_idle {
                socket.become_idle().unwrap();
            }
            let cx = &mut Context::from_waker(Waker::noop());
            let (piece, mut written) = ([0; 65536], 0);
            while let Poll::Ready(bytes) = Pin::new(&mut socket).poll_write(cx, &piece) {
                written += bytes.unwrap();
            }
            let mut read = vec![0; written];
            client.read_exact(&mut read).unwrap();
            socket.become_busy();
            socket.write_all(b"last").await.unwrap();
            drop(socket);
            read.clear();
            client.read_to_end(&mut read).unwrap();
            assert_eq!(read, b"last");
        }
    }

    #[tokio::test]
    async fn tokio_learns_of_a_socket_when_somebody_waits_and_forgets_it_when_nobody_does() {
        let (mut client, mut socket) = connected().await;
        let mut bytes = [0; 16];
        for words in [&b"one"[..], b"two"] {
            socket.become_idle().unwrap();
            let nobody = &mut Context::from_waker(Waker::noop());
            let mut buf = ReadBuf::new(&mut bytes);
            assert!(Pin::new(&mut socket).poll_read(nobody, &mut buf).is_pending());
            assert!(matches!(socket.stream, Stream::New(_)));
            client.write_all(words).unwrap();
            // Nobody has said so, and so nobody looks.
            assert!(Pin::new(&mut socket).poll_read(nobody, &mut buf).is_pending());
            socket.heard(false);
            assert!(Pin::new(&mut socket).poll_read(nobody, &mut buf).is_ready());
            assert_eq!(buf.filled(), words);
            socket.become_busy();
            let waiting = tokio::spawn(async move {
                let read = socket.read(&mut [0; 16]).await.unwrap();
                (socket, read)
            });
            tokio::task::yield_now().await;
            client.write_all(words).unwrap();
            let (returned, read) = waiting.await.unwrap();
            assert_eq!(read, words.len());
            socket = returned;
            assert!(matches!(socket.stream, Stream::Known(_)));
        }
    }
}
