//! An upstream's answer on its way to the client: read from the connection, held until it counts
//! as ready, delivered at the client's pace.

pub(crate) mod delivery;
pub(crate) mod proxy_body;
pub(crate) mod reader;
pub(crate) mod unread;
