//! A client's request on its way to the upstream: its body read or passed on, its head written
//! anew.

pub(crate) mod body;
pub(crate) mod head;
pub(crate) mod host_header;
pub(crate) mod intake;
mod spooled;
