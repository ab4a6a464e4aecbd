//! Telling requests apart: which upstream they go to, and what they are promised.
//!
//! Everything here looks at the head alone. The first route whose host, path and
//! method fit takes the request; in it, the first class with a condition that holds.
//! How long a client will wait is read from `X-Request-Timeout` (a number and a unit, as
//! in `250ms` or `2s`; seconds if there is no unit) or, failing that, from `grpc-timeout`.
//! A request that cannot be answered by then is refused, and one that has not been is ended.
//!
//! Whose request it is, is the address of its client, or a header or a cookie that the operator
//! names. What kind of work it is, is its method and its path with numbers and ids left out.
//!
//! Paths are compared as they were sent: a client that spells a path in another way
//! (`/%61dmin`) gets the class of what it spelled, so classes are for sharing a
//! service out, never for guarding it.

mod client;
mod condition;
mod kind;
mod routes;
mod timeout;

pub use client::Client;
pub(crate) use client::network_of;
pub use condition::Condition;
pub(crate) use kind::kind_of;
pub use routes::{Choice, ClassRule, HostPattern, Route, Routes};
pub(crate) use timeout::timeout;
