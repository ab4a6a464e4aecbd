//! A gate in HTTP's terms: the deadline that a request's head names, the answer to a request
//! that the gate does not let through, and the permit of one that it lets through, held until
//! its answer is ready. Who the client is, also behind proxies. And what servers need for slow
//! clients: the timers by which they wait for them, and the table of connections that says which one
//! gives way where there is no place for another. With the feature `connections` also what their
//! listeners set on sockets, how a client is told that there is no place for it, and what watches
//! the streams of HTTP/2.
//!
//! What this crate does not do: it decides nothing about admission, and knows neither a server
//! nor a client. The tower layer, the server, the proxy and the services answer with it.

mod client;
mod connection_table;
mod deadline;
mod error_pages;
mod grpc;
mod hold;
#[cfg(feature = "connections")]
mod listener;
mod message;
mod page;
mod patience;
mod rejection;
mod timeout;
#[cfg(feature = "connections")]
mod turned_away;
#[cfg(feature = "connections")]
mod watched_stream;

pub use client::{ClientAddress, TrustedProxies, client_network, forwarded_client};
pub use connection_table::{ConnectionPermit, ConnectionTable, GivesWay};
pub use deadline::Deadline;
pub use error_pages::{ErrorPageError, ErrorPages, fill_in};
pub use grpc::{grpc_failure, grpc_overdue, grpc_rejected, is_grpc};
pub use hold::{HeldOutcome, Hold, READY_BYTES};
#[cfg(feature = "connections")]
pub use listener::{open_files_max, set_options};
pub use message::{Details, Form, Message, error_page};
pub use patience::{HEAD_TIME, Patience, PatienceLimits, Stall};
pub use rejection::{Rejection, reason, rejected};
pub use timeout::timeout;
#[cfg(feature = "connections")]
pub use turned_away::{NO_PLACE, TurnedAway};
#[cfg(feature = "connections")]
pub use watched_stream::{SlowStreams, WatchedStream, WriteProgress};
