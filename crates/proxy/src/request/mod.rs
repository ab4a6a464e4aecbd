//! A client's request on its way to the upstream: its body read or passed on, its head written
//! anew.

pub(crate) mod body;
pub(crate) mod disk_failures;
pub(crate) mod head;
pub(crate) mod held;
pub(crate) mod intake;
pub(crate) mod receiving;
mod spool;
mod spooled;
