//! A page that is being loaded from disk.
//!
//! It is asked for when a request is inspected for a prepared response. What the stage rejects is
//! answered then and there; what it admits is kept for the service, which is called next.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::cache::outcome::{LoadOutcome, NoPage, NotNow};
use crate::cache::page_cache::PageKey;
use crate::cache::pages::{PageSource, Pages};

/// A page that has been asked for, or what was said instead. Others may wait for the same one:
/// its holder has to wait for it or to drop it.
pub(crate) struct Loading {
    pub(crate) key: PageKey,
    loaded: Pin<Box<dyn Future<Output = LoadOutcome> + Send>>,
}

impl Loading {
    /// To be begun with the first poll.
    pub(crate) fn new(pages: &Arc<Pages>, source: &PageSource, key: PageKey) -> Self {
        let (pages, source, wanted) = (Arc::clone(pages), source.clone(), key.clone());
        Self { key, loaded: Box::pin(async move { pages.load(&source, &wanted).await }) }
    }

    /// Begins, if it is to be had now.
    pub(crate) fn begin(mut self) -> Result<Self, NotNow> {
        match self.loaded.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(LoadOutcome { loaded: Err(NoPage::NotNow(why)), .. }) => Err(why),
            Poll::Ready(outcome) => Ok(Self { loaded: Box::pin(ready(outcome)), ..self }),
            Poll::Pending => Ok(self),
        }
    }
}

impl Future for Loading {
    type Output = LoadOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LoadOutcome> {
        self.loaded.as_mut().poll(cx)
    }
}
