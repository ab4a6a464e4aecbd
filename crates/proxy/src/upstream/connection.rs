//! One connection to an upstream, driven by the request that holds it.
//!
//! An HTTP client is usually a task beside the request, so that every request crosses
//! tasks four times. Here the request's own task reads and writes the connection. One
//! that is idle is not watched: whether the upstream has closed it is found
//! out when it is next looked at.
//!
//! It is written by hand, not with hyper's client, for what a proxy wants and a client
//! library does not have: a head that is written in one pass from the client's, and can be
//! written again when a kept connection turns out to be dead; `100 Continue` passed on
//! when it comes; and an answer that is read while the request is still being sent.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use tamarisk_http_gate::{Deadline, READY_BYTES};
use tamarisk_stage::GatePermit;
use tokio::net::TcpStream;

use crate::exchange_error::ExchangeError;
use crate::request::body::{Output, RequestBody};
use crate::upstream::answer_reader::{AnswerHead, AnswerReader};

/// The most interim answers (1xx) before an answer. Each is read and dropped: a service that tells
/// of its progress once a second has told of it for a minute, the usual time for an answer.
const INTERIM_MAX: u32 = 64;

/// A connection to an upstream.
pub(crate) struct UpstreamConnection {
    stream: TcpStream,
    receiving: AnswerReader,
    output: Output,
    sending: Option<Box<RequestBody>>,
    /// All that the client has sent of its body is passed on, and there is more to come.
    waits_for_client: bool,
    /// For the head of the answer; then for the next part of it.
    deadline: Deadline,
    /// The longest wait for that part; `None` for a stream.
    stall_time: Option<Duration>,
    /// How many interim answers have come.
    interim: u32,
    /// The sweep of its pool from which on it is not kept any more.
    pub(super) last_sweep: u64,
}

impl UpstreamConnection {
    pub(crate) fn new(stream: TcpStream, last_sweep: u64) -> Self {
        Self {
            stream,
            receiving: AnswerReader::new(),
            output: Output::default(),
            sending: None,
            waits_for_client: false,
            deadline: Deadline::default(),
            stall_time: None,
            interim: 0,
            last_sweep,
        }
    }

    /// Whether it can take a request: the last exchange is complete, and the
    /// upstream has neither closed nor sent anything since.
    pub(crate) fn is_idle(&self) -> bool {
        let quiet = || {
            let nothing = self.stream.try_read(&mut [0]);
            nothing.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        self.receiving.is_idle() && self.sending.is_none() && self.output.is_written() && quiet()
    }

    /// Begins an exchange on an idle connection, with a body: where its head is to be appended.
    pub(crate) fn begin(&mut self, to_head: bool, body: Option<Box<RequestBody>>) -> &mut Vec<u8> {
        self.receiving.begin(to_head);
        (self.stall_time, self.interim) = (None, 0);
        self.sending = body;
        self.output.begin()
    }

    /// Begins the exchange that `other` could not complete, a request without a body.
    pub(crate) fn begin_again(&mut self, mut other: Self) {
        self.receiving.begin(other.receiving.is_to_head());
        self.output.begin_again(&mut other.output);
    }

    /// Whether nothing has come of an answer.
    pub(crate) fn is_silent(&self) -> bool {
        self.receiving.is_silent()
    }

    /// The head of the answer, if it comes in `time`. Its fields go into `spare`,
    /// an empty map.
    ///
    /// While all that the client has sent of its body is passed on and more of it is to come, the time
    /// stands still, that of `permit` too; without one it goes on. The place is kept: the upstream may
    /// have a worker waiting for the body.
    pub(crate) async fn answer(
        &mut self,
        time: Duration,
        spare: &mut HeaderMap,
        mut permit: Option<&mut GatePermit>,
    ) -> Result<AnswerHead, ExchangeError> {
        self.deadline.start(time);
        let mut left = None;
        let answer = poll_fn(|cx| {
            let answered = self.poll_answer(spare, cx);
            if answered.is_pending()
                && self.waits_for_client
                && let Some(permit) = &mut permit
            {
                if left.is_none() {
                    left = Some(self.deadline.left().unwrap_or(time));
                    self.deadline.stop();
                    permit.pause();
                }
                return Poll::Pending;
            }
            if let Some(left) = left.take() {
                self.deadline.start(left);
                permit.iter_mut().for_each(|permit| permit.resume());
            }
            match answered {
                Poll::Pending => self.deadline.poll(cx).map(|()| Err(ExchangeError::Late)),
                answered => answered,
            }
        })
        .await;
        self.deadline.stop();
        answer
    }

    fn poll_answer(
        &mut self,
        spare: &mut HeaderMap,
        cx: &mut Context<'_>,
    ) -> Poll<Result<AnswerHead, ExchangeError>> {
        loop {
            self.send(cx)?;
            let head = ready!(self.receiving.poll_head(&mut self.stream, spare, cx))?;
            if !head.is_interim() {
                return Poll::Ready(Ok(head));
            }
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Poll::Ready(Err(ExchangeError::Malformed));
            }
            if head.status == StatusCode::CONTINUE
                && let Some(body) = &mut self.sending
            {
                body.continues();
            }
        }
    }

    /// The longest wait for a part of the answer whose head has come.
    pub(crate) fn set_stall_time(&mut self, time: Duration) {
        self.stall_time = Some(time);
    }

    /// The next part of the answer's body; `None` at its end. Where the upstream lets us wait for too
    /// long, that is an [error](ExchangeError::Late).
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        // What the client does with the rest of its request is nothing to an answer that has begun.
        if self.send(cx).is_err() {
            self.stop_sending();
        }
        let polled = self.receiving.poll_frame(&mut self.stream, cx);
        match self.stall_time {
            // While it is the client that lets the upstream wait, it may be silent.
            Some(time) if polled.is_pending() && !self.waits_for_client => {
                self.deadline.poll_over(time, cx).map(|()| Some(Err(ExchangeError::Late)))
            }
            _ => {
                self.deadline.stop();
                polled
            }
        }
    }

    /// How many bytes of the answer's body are still to come, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.receiving.left()
    }

    /// Whether the upstream has all of the request.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.sending.is_none() && self.output.is_written()
    }

    /// Reads until the answer counts as ready, or there is none.
    pub(crate) async fn outlast(&mut self) {
        let mut spare = HeaderMap::new();
        let begun = poll_fn(|cx| self.poll_answer(&mut spare, cx)).await;
        let mut bytes = 0;
        // A stream learns by the close that it may end.
        if begun.is_ok_and(|head| !head.is_stream) {
            while bytes <= READY_BYTES
                && let Some(Ok(frame)) = poll_fn(|cx| self.poll_frame(cx)).await
            {
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
        }
    }

    /// The bare connection after an upgrade, and what was read beyond its head.
    pub(crate) fn into_stream(self) -> (TcpStream, Bytes) {
        (self.stream, self.receiving.into_rest())
    }

    /// Sends what can be sent. If that is not all, whatever is missing will wake us.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), ExchangeError> {
        self.waits_for_client = false;
        loop {
            let mut starved = self.sending.is_none();
            let mut waits = false;
            if let Some(body) = &mut self.sending
                && self.output.has_room()
            {
                match body.poll_part(&mut self.output, cx) {
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => self.sending = None,
                    Poll::Ready(Err(error)) => return Err(error),
                    Poll::Pending => {
                        starved = true;
                        waits = body.waits_for_client();
                    }
                }
            }
            match self.output.poll_write(&mut self.stream, cx) {
                Poll::Ready(Ok(())) if !starved => {}
                Poll::Ready(Ok(())) => {
                    self.waits_for_client = waits;
                    return Ok(());
                }
                Poll::Pending => return Ok(()),
                // The upstream wants no more of it; it may have said why.
                Poll::Ready(Err(_)) => {
                    self.stop_sending();
                    return Ok(());
                }
            }
        }
    }

    /// The rest of the request is not sent, so that this is its last one.
    fn stop_sending(&mut self) {
        self.receiving.close();
        self.sending = None;
        self.output.stop();
    }
}
