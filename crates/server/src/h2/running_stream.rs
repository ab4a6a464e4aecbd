//! A stream of HTTP/2 as it runs, and ends when its client takes nothing of it for too long.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tamarisk_http_gate::Patience;

use crate::h2::Streams;
use crate::h2::write_progress::{WRITE_PROGRESS, WriteProgress};

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(Running::new(stream, self.clone()));
    }
}

pin_project! {
    /// A stream that ends when its client takes nothing for too long; h2 resets it then.
    pub(crate) struct Running<F> {
        #[pin]
        stream: F,
        untaken: usize,
        patience: Patience,
        turns: Turns,
        streams: Streams,
    }
}

/// Where it is the socket that holds the streams up, they take turns, and each has its time only
/// after that of the others.
#[derive(Default)]
struct Turns {
    /// Since the client last took something.
    waited: usize,
    /// The most that there were to wait for.
    others: usize,
}

impl<F> Running<F> {
    pub(crate) fn new(stream: F, streams: Streams) -> Self {
        let (patience, turns) = (Patience::default(), Turns::default());
        Self { stream, untaken: 0, patience, turns, streams }
    }
}

impl<F: Future<Output = ()>> Future for Running<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let limits = this.streams.limits();
        let before = Cell::new(WriteProgress { taken: 0, untaken: *this.untaken });
        let (polled, WriteProgress { taken, untaken }) = WRITE_PROGRESS
            .sync_scope(before, || (this.stream.poll(cx), WRITE_PROGRESS.with(Cell::get)));
        *this.untaken = untaken;
        if taken > 0 {
            this.patience.moved(taken, limits.patience());
            *this.turns = Turns::default();
        }
        if polled.is_ready() || untaken == 0 {
            return polled;
        }
        loop {
            ready!(this.patience.poll_over(limits.patience(), cx));
            let turns = &mut *this.turns;
            turns.others = turns.others.max(this.streams.open());
            if !this.streams.are_unsent() || turns.waited >= turns.others {
                return Poll::Ready(());
            }
            turns.waited += 1;
            this.patience.renew();
        }
    }
}
