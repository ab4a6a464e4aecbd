//! A connection while hyper does not have it: between requests, and for as long as the service
//! has their answers at hand.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite as _};

use super::at_hand::{self, AtHand, Outgoing, Turn};
use crate::deadline::Deadline;
use crate::guard::Guarded;
use crate::send_file::SendFile;

pub(super) struct Direct<T, S> {
    pub(super) stream: Box<Guarded<T>>,
    pub(super) service: S,
    outgoing: Option<Box<Outgoing>>,
    is_closing: bool,
}

/// What comes after.
pub(super) enum Next {
    /// The request that is there is for hyper, and maybe those that follow.
    Hyper(Option<bool>),
    /// Nothing: the client has left, or has been told that this is the end.
    End,
}

impl<T, S> Direct<T, S> {
    pub(super) fn new(stream: Box<Guarded<T>>, service: S) -> Self {
        Self { stream, service, outgoing: None, is_closing: false }
    }

    /// Closes behind the answer that is on its way, if there is one; `false` if there is none.
    pub(super) fn closes_later(&mut self) -> bool {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.is_last = true;
        }
        self.outgoing.is_some() || self.is_closing
    }
}

impl<T: AsyncRead + SendFile, S: AtHand> Direct<T, S> {
    /// Answers what can be answered; without a request for `idle_time`, of which some may have
    /// passed on the `idle` clock already, it ends.
    pub(super) fn poll(
        &mut self,
        idle: &mut Deadline,
        idle_time: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Next> {
        loop {
            if let Some(outgoing) = &mut self.outgoing {
                if ready!(outgoing.poll_write(&mut *self.stream, cx)).is_err() {
                    return Poll::Ready(Next::End);
                }
                self.is_closing = outgoing.is_last;
                self.outgoing = None;
            }
            if self.is_closing {
                return Pin::new(&mut self.stream).poll_shutdown(cx).map(|_| Next::End);
            }
            match self.stream.poll_request(cx) {
                Poll::Ready(Ok(true)) => idle.stop(),
                Poll::Ready(Ok(false) | Err(_)) => return Poll::Ready(Next::End),
                Poll::Pending => return idle.poll_over(idle_time, cx).map(|()| Next::End),
            }
            match at_hand::turn(self.stream.checked(), &self.service) {
                Turn::Answer(outgoing, length) => {
                    self.stream.take(length);
                    self.outgoing = Some(Box::new(outgoing));
                }
                Turn::Hyper(for_long) => return Poll::Ready(Next::Hyper(for_long)),
            }
        }
    }
}
