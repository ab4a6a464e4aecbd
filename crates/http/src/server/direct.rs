//! A connection while hyper does not have it: between requests, and for as long as the service
//! has their answers at hand.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncRead;

use super::at_hand::{self, AtHand, Further, Turn};
use super::outgoing::Outgoing;
use crate::deadline::Deadline;
use crate::guard::Guarded;
use crate::outlet::{EndedBy, Outlet};

pub(super) struct Direct<T, S> {
    pub(super) stream: Box<Guarded<T>>,
    pub(super) service: S,
    outgoing: Option<Box<Outgoing>>,
    /// What is on its way is the last answer, because of the drain.
    is_drained: bool,
    /// Nothing is on its way any more.
    closing: Option<EndedBy>,
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
        Self { stream, service, outgoing: None, is_drained: false, closing: None }
    }

    /// Closes behind the answer that is on its way, if there is one; `false` if there is none.
    pub(super) fn closes_later(&mut self) -> bool {
        self.is_drained = true;
        self.outgoing.is_some() || self.closing.is_some()
    }
}

impl<T: AsyncRead + Outlet, S: AtHand> Direct<T, S> {
    /// Answers what can be answered; without a request for `idle_time`, of which some may have
    /// passed on the `idle` clock already, it ends.
    pub(super) fn poll(
        &mut self,
        idle: &mut Deadline,
        idle_time: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Next> {
        loop {
            if let Some(by) = self.closing {
                return self.stream.poll_end(by, cx).map(|_| Next::End);
            }
            let mut outgoing = match self.outgoing.take() {
                Some(outgoing) => *outgoing,
                None => match ready!(self.poll_turn(idle, idle_time, cx)) {
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
    }

    /// Waits for a request and for what is to be done about it.
    fn poll_turn(
        &mut self,
        idle: &mut Deadline,
        idle_time: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Outgoing, Next>> {
        match self.stream.poll_request(cx) {
            Poll::Ready(Ok(true)) => idle.stop(),
            Poll::Ready(Ok(false) | Err(_)) => return Poll::Ready(Err(Next::End)),
            Poll::Pending => return idle.poll_over(idle_time, cx).map(|()| Err(Next::End)),
        }
        Poll::Ready(match at_hand::turn(self.stream.checked(), &self.service) {
            Turn::Answer(outgoing, length) => {
                self.stream.take(length);
                Ok(outgoing)
            }
            Turn::Hyper(further) => Err(Next::Hyper(further)),
        })
    }
}
