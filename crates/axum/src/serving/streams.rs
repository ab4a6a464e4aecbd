//! Streams of HTTP/2, each of which ends when its client takes nothing of it for too long.

use std::sync::Arc;

use hyper::rt::Executor;
use tamarisk_http_gate::{PatienceLimits, SlowStreams, WatchedStream};

use crate::serving::state::ConnectionState;

/// Runs the streams of a connection as tasks.
#[derive(Clone)]
pub(super) struct Streams(pub(super) Arc<ConnectionState>);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(WatchedStream::new(stream, self.clone()));
    }
}

impl SlowStreams for Streams {
    fn patience(&self) -> PatienceLimits {
        self.0.limits().patience
    }

    fn is_blocked(&self) -> bool {
        self.0.is_send_blocked()
    }

    fn open(&self) -> usize {
        self.0.open()
    }
}
