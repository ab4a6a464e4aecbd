use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that costs nothing until something has to be waited for.
#[derive(Debug, Default)]
pub(crate) struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
    armed: bool,
}

impl Deadline {
    /// Starts the time, unless it runs already, and asks whether it is over.
    pub(crate) fn poll_over(&mut self, time: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if !self.armed {
            self.armed = true;
            let end = Instant::now() + time;
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(end),
                None => self.sleep = Some(Box::pin(sleep_until(end))),
            }
        }
        self.sleep.as_mut().map_or(Poll::Pending, |sleep| sleep.as_mut().poll(cx))
    }

    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }
}
