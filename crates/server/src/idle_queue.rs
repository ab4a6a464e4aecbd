//! Idle connections that have tasks of their own, in the order in which they became idle: the first
//! one is closed when its place is needed for a new client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// The idle connections of a core; clones share them. There are no more than connections.
#[derive(Clone, Default)]
pub(crate) struct IdleQueue(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, Option<Waker>>,
}

impl IdleQueue {
    /// The end of the queue, for a connection that has become idle.
    pub(crate) fn enter(&self) -> Idle {
        let mut queue = self.0.lock();
        let key = queue.next;
        queue.next += 1;
        queue.waiting.insert(key, None);
        Idle { key, queue: self.clone() }
    }

    /// Has the connection close that has been idle for the longest; `false` if there is none.
    pub(crate) fn close_first(&self) -> bool {
        let first = self.0.lock().waiting.pop_first();
        let is_any = first.is_some();
        if let Some(waker) = first.and_then(|(_, waker)| waker) {
            waker.wake();
        }
        is_any
    }
}

/// A place in an [`IdleQueue`], left when dropped.
pub(crate) struct Idle {
    key: u64,
    queue: IdleQueue,
}

impl Idle {
    /// Ready when the connection is to close.
    pub(crate) fn poll_closing(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.queue.0.lock().waiting.get_mut(&self.key) {
            Some(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            Some(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.queue.0.lock().waiting.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_first_that_is_still_idle_is_woken_and_closes() {
        let queue = IdleQueue::default();
        assert!(!queue.close_first());
        let [first, second, third] = [(); 3].map(|()| queue.enter());
        drop(first);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut noop = Context::from_waker(Waker::noop());
        assert!(second.poll_closing(&mut cx).is_pending());
        assert!(third.poll_closing(&mut noop).is_pending());
        assert!(queue.close_first());
        assert!(woken.0.load(Ordering::Relaxed) && second.poll_closing(&mut cx).is_ready());
        assert!(third.poll_closing(&mut noop).is_pending());
        drop((second, third));
        assert!(!queue.close_first());
    }
}
