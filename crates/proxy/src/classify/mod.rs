//! Telling requests apart: which upstream they go to, and what they are promised.
//!
//! Everything here looks at the head alone. Of the routes whose host, path and method fit, the
//! one that is for the fewest requests takes it: a host goes before none, a longer path before
//! a shorter one, methods before none. In it, the first class with a condition that holds.
//! How long a client will wait is read from `X-Request-Timeout` (a number and a unit, as
//! in `250ms` or `2s`; seconds if there is no unit) or, failing that, from `grpc-timeout`.
//! A request that cannot be answered by then is rejected, and one that has not been is ended.
//!
//! Whose request it is, is the address of its client, or a header or a cookie that the operator
//! names. What kind of work it is, is its method and its path with numbers and ids left out.
//!
//! Paths are compared decoded and name by name, and one with `.` or `..` for a name is rejected
//! before, however it is spelled: no spelling of a name gets a request another route or class. An
//! escaped slash (`%2F`) and a backslash are part of a name, and many services take them for
//! slashes: a request that would be for another route or class with slashes there is rejected too.

mod condition;
mod facts;
mod hosts;
mod kind;
mod path;
mod path_tree;
mod routes;

pub use condition::Condition;
pub use facts::Client;
pub(crate) use facts::{FactsReader, RequestFacts};
pub use hosts::{HostPattern, host_name, lower_case};
pub use path::PathPrefix;
pub use path::{has_dot_segments, with_slashes};
pub use path_tree::PathTree;
pub use routes::{Choice, ClassRule, Route, Routes};
