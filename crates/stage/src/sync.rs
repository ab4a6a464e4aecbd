//! Atomics that the model checker can watch.

#[cfg(tamarisk_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(tamarisk_loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
