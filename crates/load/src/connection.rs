//! One HTTP/1.1 connection, and the requests that go over it.
//!
//! It is driven by hand and not by hyper's client, so that the generator's core is not full
//! before the server's is: a request goes out in one write, an answer comes into one buffer
//! for the whole thread and is only counted, a long body not even copied, and a connection has
//! no task of its own.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::Response;
use http::uri::PathAndQuery;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

use crate::answer::{Answer, Purpose, Reading};
use crate::outcome::ErrorKind;
use crate::request::{Afterwards, RequestForm};

/// Read at once where a head or chunk framing may come: with most heads, all of the body.
const READ_BYTES: usize = 16 * 1024;

/// Read at once of a long body: some of what a socket may hold, which is megabytes.
const READ_BYTES_OF_BODY: usize = 256 * 1024;

/// An open connection on which no request is under way.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    requests_left: Option<NonZeroU32>,
}

/// Memory that the connections of a thread share: each needs it for a moment only.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// The head that goes out.
    head: RefCell<Vec<u8>>,
    /// What came in.
    read: RefCell<Box<[u8]>>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange<'r> {
    pub(crate) form: &'r RequestForm,
    pub(crate) path: &'r PathAndQuery,
    /// What its answer is read for.
    pub(crate) purpose: Purpose,
}

/// An answer, with what was kept of it, and its connection if that may be used again.
pub(crate) struct Exchanged {
    pub(crate) answer: Answer,
    pub(crate) kept: Option<Response<Vec<u8>>>,
    pub(crate) connection: Option<Connection>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeError {
    /// The server had closed the idle connection before anything was sent:
    /// nothing is lost, and another connection may try.
    Stale,
    /// The request is lost.
    Failed(ErrorKind),
}

impl Connection {
    /// Connects to the first of `addresses` that takes it.
    pub(crate) async fn open(
        addresses: &[SocketAddr],
        requests: Option<NonZeroU32>,
    ) -> Result<Self, ErrorKind> {
        let connecting = TcpStream::connect(addresses);
        let stream = connecting.await.map_err(|error| ErrorKind::of_connecting(&error))?;
        // Without it, Nagle's algorithm holds back the second half of a request
        // until the first is acknowledged, up to 40 ms.
        stream.set_nodelay(true).map_err(|_| ErrorKind::ConnectFailed)?;
        Ok(Self { stream, requests_left: requests })
    }

    /// Whether the server has closed it meanwhile, or said what nobody asked for.
    pub(crate) fn is_closed(&self) -> bool {
        let silent = self.stream.try_read(&mut [0]);
        !silent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the end of the answer; the connection comes back if it
    /// may be used again. The last request that it may carry says so to the server.
    pub(crate) async fn exchange(
        mut self,
        exchange: Exchange<'_>,
        buffers: &Buffers,
    ) -> Result<Exchanged, ExchangeError> {
        let Exchange { form, path, purpose } = exchange;
        if self.is_closed() {
            return Err(ExchangeError::Stale);
        }
        let last = form.closes() || self.requests_left.is_some_and(|left| left.get() == 1);
        let after = if last { Afterwards::Close } else { Afterwards::Keep };
        let mut unsent = {
            let mut head = buffers.head.borrow_mut();
            form.write_head(&mut head, path, after);
            self.send(&head, form.body()).map_err(|_| ExchangeError::Stale)?
        };
        let (mut reader, mut writer) = self.stream.split();
        let mut reading = Reading::new(form.method(), purpose);
        let answer = read_answer(&mut reader, &mut reading, &buffers.read);
        let is_sent = Cell::new(!unsent.has_remaining());
        let answer = if is_sent.get() {
            answer.await
        } else {
            // The server may answer before it has read all, and will then not do so.
            let sending = async {
                is_sent.set(writer.write_all_buf(&mut unsent).await.is_ok());
                pending::<Infallible>().await
            };
            tokio::select! {
                answer = answer => answer,
                never = sending => match never {},
            }
        };
        let answer = answer.map_err(ExchangeError::Failed)?;
        let keep = answer.keep && !last && is_sent.get();
        let requests_left = self.requests_left.and_then(|left| NonZeroU32::new(left.get() - 1));
        let connection = keep.then_some(Self { requests_left, ..self });
        Ok(Exchanged { answer, kept: reading.into_kept(), connection })
    }

    /// Sends what the socket takes at once, which is all unless the body is long: the rest.
    fn send(&self, head: &[u8], body: &Bytes) -> io::Result<impl Buf + use<>> {
        let sent = match body.as_ref() {
            [] => self.stream.try_write(head),
            body => self.stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]),
        };
        let sent = match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            sent => sent?,
        };
        let of_head = Bytes::copy_from_slice(&head[sent.min(head.len())..]);
        Ok(of_head.chain(body.slice(sent.saturating_sub(head.len())..)))
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self { head: RefCell::default(), read: RefCell::new(vec![0; READ_BYTES_OF_BODY].into()) }
    }
}

async fn read_answer(
    reader: &mut ReadHalf<'_>,
    reading: &mut Reading,
    buffer: &RefCell<Box<[u8]>>,
) -> Result<Answer, ErrorKind> {
    poll_fn(|context| {
        loop {
            let mut buffer = buffer.borrow_mut();
            let read = match reading.body_left() {
                0 => poll_read(reader, context, &mut buffer[..READ_BYTES]),
                left => {
                    let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    poll_read_unseen(reader.as_ref(), context, &mut buffer[..room])
                }
            };
            let read = ready!(read).map_err(|_| ErrorKind::ConnectionClosed)?;
            let answer = match &buffer[..read] {
                [] => Some(reading.end()?),
                piece => reading.read(piece)?,
            };
            if let Some(answer) = answer {
                return Poll::Ready(Ok(answer));
            }
        }
    })
    .await
}

/// Reads into `buffer`: how many bytes, none at the end of the connection.
fn poll_read(
    reader: &mut ReadHalf<'_>,
    context: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(buffer);
    Pin::new(reader).poll_read(context, &mut buffer).map_ok(|()| buffer.filled().len())
}

/// Reads as many bytes as `room` has, at most, of which nobody wants to know what they are:
/// `room` may have them afterwards, or not.
fn poll_read_unseen(
    stream: &TcpStream,
    context: &mut Context<'_>,
    room: &mut [u8],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_read_ready(context))?;
        match try_read_unseen(stream, room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return Poll::Ready(read),
        }
    }
}

/// The kernel drops them without a copy.
#[cfg(target_os = "linux")]
fn try_read_unseen(stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
    use rustix::net::{RecvFlags, recv};

    stream.try_io(tokio::io::Interest::READABLE, || Ok(recv(stream, room, RecvFlags::TRUNC)?.1))
}

/// Elsewhere there is no such way.
#[cfg(not(target_os = "linux"))]
fn try_read_unseen(stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
    stream.try_read(room)
}
