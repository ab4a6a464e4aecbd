//! A long answer on its way to its client.
//!
//! Whether a client takes an answer is not the upstream's business, and must not show in its
//! place. So the beginning of an answer is read at the upstream's pace, by a task that waits for
//! nobody else: until the answer counts as ready. From then on the client sets the pace,
//! and reads the upstream's connection itself. A stream (of events, say) is read by the task to
//! its end, which gives the place back while the client takes nothing or the upstream sends nothing.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use tamarisk_http_gate::{Deadline, Hold, READY_BYTES};
use tokio::time::Instant;

use crate::abandoned::Abandoned;
use crate::budget::Budget;
use crate::budget::unread::{Answer, Counted};
use crate::exchange_error::ExchangeError;
use crate::upstream::client::UpstreamClient;
use crate::upstream::connection::UpstreamConnection;

/// What has come of an answer, in order. Most have one part.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    first: Option<Frame<Bytes>>,
    more: VecDeque<Frame<Bytes>>,
    bytes: usize,
}

impl Frames {
    pub(crate) fn push(&mut self, frame: Frame<Bytes>) {
        self.bytes += length(&frame);
        if self.first.is_none() && self.more.is_empty() {
            self.first = Some(frame);
        } else {
            self.more.push_back(frame);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Frame<Bytes>> {
        let frame = self.first.take().or_else(|| self.more.pop_front())?;
        self.bytes -= length(&frame);
        Some(frame)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

pub(crate) fn length(frame: &Frame<Bytes>) -> usize {
    frame.data_ref().map_or(0, Bytes::len)
}

/// The client's end of a long answer.
pub(crate) struct Delivery {
    shared: Arc<SharedDelivery>,
    /// It may be broken off as long as this is here.
    _counted: Counted,
}

struct SharedDelivery {
    state: Mutex<DeliveryState>,
    upstream_client: Arc<UpstreamClient>,
}

struct DeliveryState {
    frames: Frames,
    read_by: ReadBy,
    /// The client waits for the task.
    reader: Option<Waker>,
    /// The task waits for the upstream or the client.
    driver: Option<Waker>,
    /// When the client last asked for more.
    taken: Instant,
}

/// Who reads on.
enum ReadBy {
    /// The task.
    Driven,
    /// The client.
    Handed(Box<UpstreamConnection>),
    /// There is no more, and perhaps a reason.
    Over(Option<ExchangeError>),
    /// The client has left.
    Left,
}

impl Delivery {
    /// What comes behind `frames`. While `hold` holds its place, a task reads on.
    pub(crate) fn start(frames: Frames, rest: Rest, hold: Hold, to: &Recipient<'_>) -> Self {
        let (read_by, driven) = match rest {
            Rest::None => (ReadBy::Over(None), None),
            Rest::Error(error) => (ReadBy::Over(Some(error)), None),
            Rest::Connection(connection) if hold.is_held() => (ReadBy::Driven, Some(connection)),
            Rest::Connection(connection) => (ReadBy::Handed(connection), None),
        };
        let state =
            DeliveryState { frames, read_by, reader: None, driver: None, taken: Instant::now() };
        let (state, upstream_client) = (Mutex::new(state), Arc::clone(to.upstream_client));
        let shared = Arc::new(SharedDelivery { state, upstream_client });
        if let Some(connection) = driven {
            let budget = to.budget.clone();
            let driver =
                Driver { connection, hold, shared: Arc::clone(&shared), budget, left: None };
            tokio::spawn(driver.run());
        }
        let answer: Weak<dyn Answer> = Arc::downgrade(&shared) as _;
        let _counted = to.budget.count_answer(to.client, answer);
        Self { shared, _counted }
    }

    /// The next part; `None` at the end.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let SharedDelivery { state, upstream_client } = &*self.shared;
        let mut state = state.lock();
        state.taken = Instant::now();
        if let Some(frame) = state.frames.pop() {
            let driver = (state.frames.bytes() < READY_BYTES).then(|| state.driver.take());
            drop(state);
            driver.flatten().into_iter().for_each(Waker::wake);
            return Poll::Ready(Some(Ok(frame)));
        }
        let polled = match &mut state.read_by {
            ReadBy::Driven => {
                state.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
            ReadBy::Handed(connection) => connection.poll_frame(cx),
            ReadBy::Over(error) => return Poll::Ready(error.take().map(Err)),
            ReadBy::Left => return Poll::Ready(None),
        };
        let is_over = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(_))) => state.is_read(),
            Poll::Ready(Some(Err(_)) | None) => true,
        };
        if is_over && let ReadBy::Handed(connection) = state.end(None) {
            upstream_client.give_back(connection);
        }
        polled
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let before = std::mem::replace(&mut state.read_by, ReadBy::Left);
        let driver = state.driver.take();
        drop(state);
        // With a connection may go a place, and with that anything.
        drop(before);
        driver.into_iter().for_each(Waker::wake);
    }
}

impl DeliveryState {
    /// Whether the client has taken all that there is.
    fn is_read(&self) -> bool {
        matches!(&self.read_by, ReadBy::Handed(connection) if connection.left() == Some(0))
    }

    fn end(&mut self, error: Option<ExchangeError>) -> ReadBy {
        std::mem::replace(&mut self.read_by, ReadBy::Over(error))
    }
}

impl Answer for SharedDelivery {
    fn last_taken(&self) -> Instant {
        self.state.lock().taken
    }

    fn close(&self) {
        let mut state = self.state.lock();
        let is_taken = match &state.read_by {
            ReadBy::Driven | ReadBy::Handed(_) => false,
            ReadBy::Over(_) => state.frames.is_empty(),
            ReadBy::Left => true,
        };
        if is_taken {
            return;
        }
        let before = state.end(Some(ExchangeError::Unread));
        let frames = std::mem::take(&mut state.frames);
        let waiting = [state.driver.take(), state.reader.take()];
        drop(state);
        drop((before, frames));
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What follows what has come of an answer.
pub(crate) enum Rest {
    /// Nothing.
    None,
    /// It broke off.
    Error(ExchangeError),
    /// What comes over this.
    Connection(Box<UpstreamConnection>),
}

/// Where an answer comes from, and to whom it goes.
pub(crate) struct Recipient<'a> {
    pub(crate) upstream_client: &'a Arc<UpstreamClient>,
    pub(crate) budget: &'a Budget,
    pub(crate) client: IpAddr,
}

/// The task that reads at the upstream's pace.
struct Driver {
    connection: Box<UpstreamConnection>,
    hold: Hold,
    shared: Arc<SharedDelivery>,
    budget: Budget,
    /// The client has left, and the upstream has so much time.
    left: Option<(Abandoned, Deadline)>,
}

/// What is to be done next.
enum Next {
    Read,
    Wait,
    End,
}

impl Driver {
    async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
        let Self { connection, hold, shared, .. } = self;
        let mut state = shared.state.lock();
        if !matches!(state.read_by, ReadBy::Driven) {
            drop(state);
            return drop((connection, hold));
        }
        if connection.left() == Some(0) {
            drop(state.end(None));
            shared.upstream_client.give_back(connection);
        } else {
            state.read_by = ReadBy::Handed(connection);
        }
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Ready when it is the client who reads on, or nobody.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.next(cx) {
                Next::Read => {}
                Next::Wait => return self.poll_time(cx),
                Next::End => return Poll::Ready(()),
            }
            let polled = self.connection.poll_frame(cx);
            if let Poll::Ready(Some(Err(ExchangeError::Late))) = polled {
                self.hold.stalls();
            }
            self.hold.follow(&polled, cx);
            // Before the client has the last of it, and leaves.
            if self.connection.left() == Some(0) {
                self.hold.ends();
            }
            match polled {
                Poll::Pending if self.hold.is_held() => return self.poll_time(cx),
                Poll::Pending | Poll::Ready(None) => return Poll::Ready(()),
                Poll::Ready(Some(Ok(frame))) => self.push(frame),
                Poll::Ready(Some(Err(error))) => {
                    self.fail(error);
                    return Poll::Ready(());
                }
            }
            if !self.hold.is_held() {
                return Poll::Ready(());
            }
        }
    }

    fn next(&mut self, cx: &Context<'_>) -> Next {
        let mut state = self.shared.state.lock();
        match state.read_by {
            ReadBy::Driven => {}
            ReadBy::Left if self.left.is_some() => return Next::Read,
            ReadBy::Left => {
                drop(state);
                return self.leave();
            }
            ReadBy::Handed(_) | ReadBy::Over(_) => return Next::End,
        }
        match &mut state.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        // Other answers are ready by then.
        let is_full = self.hold.is_stream() && state.frames.bytes() >= READY_BYTES;
        drop(state);
        self.hold.set_suspended(is_full);
        if is_full { Next::Wait } else { Next::Read }
    }

    /// The client has left. What is left of a short answer comes soon; a stream would
    /// not end, and learns of it by the close.
    fn leave(&mut self) -> Next {
        let time = self.shared.upstream_client.upstream.abandoned_timeout();
        let abandoned = self.budget.abandoned().add();
        let is_worth_it = self.hold.ends_soon() && self.connection.has_sent_all();
        let Some(abandoned) = abandoned.filter(|_| is_worth_it) else { return Next::End };
        self.hold.abandon();
        let mut deadline = Deadline::default();
        deadline.start(time);
        self.left = Some((abandoned, deadline));
        Next::Read
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.left.as_mut().map_or(Poll::Pending, |(_, time)| time.poll(cx))
    }

    fn push(&self, frame: Frame<Bytes>) {
        let mut state = self.shared.state.lock();
        let reader = match state.read_by {
            ReadBy::Driven => {
                state.frames.push(frame);
                state.reader.take()
            }
            _ => None,
        };
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    fn fail(&self, error: ExchangeError) {
        let mut state = self.shared.state.lock();
        let before = match state.read_by {
            ReadBy::Driven => Some(state.end(Some(error))),
            _ => None,
        };
        let reader = state.reader.take();
        drop((state, before));
        reader.into_iter().for_each(Waker::wake);
    }
}
