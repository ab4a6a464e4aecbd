//! A stream of HTTP/2 as it runs, and ends when its client takes nothing of it for too long.
//!
//! A client gives each stream a window, and need give none to a single one of them while it takes the
//! others; hyper then holds that answer for as long as the connection lasts. So each stream is
//! watched while it runs.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::patience::{Patience, PatienceLimits};

tokio::task_local! {
    /// Of the stream that is being polled: hyper lets nothing else through to the body within.
    static WRITE_PROGRESS: Cell<WriteProgress>;
}

/// What has become of an answer's bytes.
#[derive(Clone, Copy, Debug)]
pub struct WriteProgress {
    /// Taken since the stream was last looked at.
    taken: usize,
    /// There for the client.
    untaken: usize,
}

impl WriteProgress {
    /// To be called by the body of an answer: the client has taken all that was there, and now there
    /// are `bytes`. Outside of a [`WatchedStream`], as over HTTP/1, it does nothing.
    pub fn next(bytes: usize) {
        let _ = WRITE_PROGRESS.try_with(|progress| {
            let Self { taken, untaken } = progress.get();
            progress.set(Self { taken: taken + untaken, untaken: bytes });
        });
    }
}

/// The connection of the streams.
pub trait SlowStreams {
    /// How long its client may take nothing.
    fn patience(&self) -> PatienceLimits;

    /// Whether its socket takes no more at present, which holds up all of its streams.
    fn is_blocked(&self) -> bool;

    /// How many streams are open.
    fn open(&self) -> usize;
}

pin_project! {
    /// A stream that ends when its client takes nothing for too long; h2 resets it then.
    #[derive(Debug)]
    pub struct WatchedStream<F, S> {
        #[pin]
        stream: F,
        untaken: usize,
        patience: Patience,
        turns: Turns,
        streams: S,
    }
}

/// Where it is the socket that holds the streams up, they take turns, and each has its time only
/// after that of the others.
#[derive(Debug, Default)]
struct Turns {
    /// Since the client last took something.
    waited: usize,
    /// The most that there were to wait for.
    others: usize,
}

impl<F, S> WatchedStream<F, S> {
    /// `stream` is one of `streams`.
    pub fn new(stream: F, streams: S) -> Self {
        let (patience, turns) = (Patience::default(), Turns::default());
        Self { stream, untaken: 0, patience, turns, streams }
    }
}

impl<F: Future<Output = ()>, S: SlowStreams> Future for WatchedStream<F, S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let limits = this.streams.patience();
        let before = Cell::new(WriteProgress { taken: 0, untaken: *this.untaken });
        let (polled, WriteProgress { taken, untaken }) = WRITE_PROGRESS
            .sync_scope(before, || (this.stream.poll(cx), WRITE_PROGRESS.with(Cell::get)));
        *this.untaken = untaken;
        if taken > 0 {
            this.patience.moved(taken, limits);
            *this.turns = Turns::default();
        }
        if polled.is_ready() || untaken == 0 {
            return polled;
        }
        loop {
            ready!(this.patience.poll_over(limits, cx));
            let turns = &mut *this.turns;
            turns.others = turns.others.max(this.streams.open());
            if !this.streams.is_blocked() || turns.waited >= turns.others {
                return Poll::Ready(());
            }
            turns.waited += 1;
            this.patience.renew();
        }
    }
}
