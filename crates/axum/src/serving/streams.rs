//! Streams of HTTP/2, each of which ends when its client takes nothing of it for too long.
//!
//! A client gives each stream a window, and need give one to none of them while the connection
//! moves. hyper holds such an answer as long as the connection lasts, so each is watched.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::Executor;
use tamarisk_http_gate::Patience;

use crate::serving::state::ConnectionState;

tokio::task_local! {
    /// Of the stream that is being polled.
    static WRITE_PROGRESS: Cell<WriteProgress>;
}

/// What has become of an answer's bytes.
#[derive(Clone, Copy)]
pub(super) struct WriteProgress {
    /// Taken since the stream was last polled.
    taken: usize,
    /// There for the client.
    untaken: usize,
}

impl WriteProgress {
    /// The client has taken all that was there, and now there are so many bytes.
    pub(super) fn next(bytes: usize) {
        // HTTP/1 has no streams: there the socket is watched.
        let _ = WRITE_PROGRESS.try_with(|progress| {
            let Self { taken, untaken } = progress.get();
            progress.set(Self { taken: taken + untaken, untaken: bytes });
        });
    }
}

/// Runs the streams of a connection as tasks.
#[derive(Clone)]
pub(super) struct Streams(pub(super) Arc<ConnectionState>);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let connection = Arc::clone(&self.0);
        let patience = Patience::default();
        tokio::spawn(Running { stream: Box::pin(stream), untaken: 0, patience, connection });
    }
}

/// A stream that ends when its client takes nothing for too long; h2 resets it then.
struct Running<F> {
    stream: Pin<Box<F>>,
    untaken: usize,
    patience: Patience,
    connection: Arc<ConnectionState>,
}

impl<F: Future<Output = ()>> Future for Running<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { stream, untaken, patience, connection } = &mut *self;
        let limits = connection.limits().patience;
        let before = Cell::new(WriteProgress { taken: 0, untaken: *untaken });
        let (polled, progress) = WRITE_PROGRESS
            .sync_scope(before, || (stream.as_mut().poll(cx), WRITE_PROGRESS.with(Cell::get)));
        *untaken = progress.untaken;
        if progress.taken > 0 {
            patience.moved(progress.taken, limits);
        }
        if polled.is_ready() || *untaken == 0 {
            return polled;
        }
        loop {
            ready!(patience.poll_over(limits, cx));
            // Where the socket holds all streams up, it is watched for all of them.
            if !connection.is_send_blocked() {
                return Poll::Ready(());
            }
            patience.renew();
        }
    }
}
