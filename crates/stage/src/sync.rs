//! Atomics that the model checker can watch.

#[cfg(not(tamarisk_loom))]
pub(crate) use futures_util::task::AtomicWaker;
#[cfg(tamarisk_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(tamarisk_loom)]
pub(crate) use model::AtomicWaker;
#[cfg(not(tamarisk_loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The checker's own waker, with the interface of the one that runs.
#[cfg(tamarisk_loom)]
mod model {
    use std::task::Waker;

    pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            Self(loom::future::AtomicWaker::new())
        }

        pub(crate) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }

        pub(crate) fn wake(&self) {
            self.0.wake();
        }
    }
}
