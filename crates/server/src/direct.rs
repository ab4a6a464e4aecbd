//! A connection while hyper does not have it: between requests, and for as long as the service
//! has their answers at hand.

use std::mem;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncRead;

use super::at_hand::{self, AtHand, Further, Turn};
use super::outgoing::Outgoing;
use crate::guard::Guarded;
use crate::outlet::{EndedBy, Outlet};

/// Answers that a client is given in one go.
const TURN_ANSWERS: usize = 64;

pub(super) struct Direct<T, S> {
    pub(super) stream: Box<Guarded<T>>,
    pub(super) service: S,
    outgoing: Option<Box<Outgoing>>,
    /// What is on its way is the last answer, because of the drain.
    is_drained: bool,
    /// Nothing is on its way any more.
    closing: Option<EndedBy>,
    /// There has been a request since somebody wanted to know.
    is_asked: bool,
    /// There may be another request, but others are to have their turn first.
    gives_way: bool,
}

/// What comes after.
pub(super) enum Next {
    /// The request that is there is for hyper, and perhaps those that follow.
    Hyper(Further),
    /// Nothing: the client has left, or has been told that this is the end.
    End,
}

impl<T, S> Direct<T, S> {
    pub(super) fn new(stream: Box<Guarded<T>>, service: S) -> Self {
        Self {
            stream,
            service,
            outgoing: None,
            is_drained: false,
            closing: None,
            is_asked: false,
            gives_way: false,
        }
    }

    /// Closes behind the answer that is on its way, if there is one; `false` if there is none.
    pub(super) fn closes_later(&mut self) -> bool {
        self.is_drained = true;
        self.outgoing.is_some() || self.closing.is_some()
    }
}

impl<T: AsyncRead + Outlet, S: AtHand> Direct<T, S> {
    /// Answers what can be answered.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        for _ in 0..TURN_ANSWERS {
            if let Some(by) = self.closing {
                return self.stream.poll_end(by, cx).map(|_| Next::End);
            }
            let mut outgoing = match self.outgoing.take() {
                Some(outgoing) => *outgoing,
                None => match ready!(self.poll_turn(cx)) {
                    Ok(outgoing) => outgoing,
                    Err(next) => return Poll::Ready(next),
                },
            };
            match outgoing.poll_write(&mut *self.stream, cx) {
                Poll::Ready(Ok(())) if outgoing.is_last => self.closing = Some(EndedBy::Client),
                Poll::Ready(Ok(())) if self.is_drained => self.closing = Some(EndedBy::Us),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Next::End),
                Poll::Pending => {
                    self.outgoing = Some(Box::new(outgoing));
                    return Poll::Pending;
                }
            }
        }
        // A client that asks without end would have the core to itself.
        self.gives_way = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits for a request and for what is to be done about it.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outgoing, Next>> {
        self.gives_way = false;
        match ready!(self.stream.poll_request(cx)) {
            Ok(true) => self.is_asked = true,
            Ok(false) | Err(_) => return Poll::Ready(Err(Next::End)),
        }
        Poll::Ready(match at_hand::turn(self.stream.checked(), &self.service) {
            Turn::Answer(outgoing, length) => {
                self.stream.take(length);
                Ok(outgoing)
            }
            Turn::Hyper(further) => Err(Next::Hyper(further)),
        })
    }

    /// Whether it waits for a request to come, or to be complete.
    pub(super) fn is_waiting(&self) -> bool {
        self.outgoing.is_none() && self.closing.is_none()
    }

    /// Whether it waits for a request of which nothing has come.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_waiting() && !self.gives_way && self.stream.is_quiet()
    }

    /// Whether there has been a request since the last call.
    pub(super) fn take_asked(&mut self) -> bool {
        mem::take(&mut self.is_asked)
    }
}
