//! An upstream's answer on its way to the client: held until it counts as ready, delivered at the client's pace.

pub(crate) mod delivery;
pub(crate) mod proxy_body;
