//! What a connection reads from and writes to: a client's socket, TLS above it, or another stream.

pub(crate) mod disconnect;
pub(crate) mod outlet;
pub(crate) mod socket;
pub(crate) mod stream;
