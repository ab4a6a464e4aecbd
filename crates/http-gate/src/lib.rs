//! A gate in HTTP's terms: the deadline that a request's head names, the answer to a request
//! that the gate does not let through, and the permit of one that it lets through, held until
//! its answer is ready. Who the client is, also behind proxies. And what servers need for slow
//! clients: the timers by which they wait for them, and the table of connections that says which one
//! gives way where there is no place for another.
//!
//! What this crate does not do: it decides nothing about admission, and knows neither a server
//! nor a client. The tower layer, the server, the proxy and the services answer with it.

mod client;
mod connection_table;
mod deadline;
mod error_pages;
mod grpc;
mod hold;
mod message;
mod page;
mod patience;
mod rejection;
mod timeout;

pub use client::{ClientAddress, TrustedProxies, client_network, forwarded_client};
pub use connection_table::{ConnectionPermit, ConnectionTable, GivesWay};
pub use deadline::Deadline;
pub use error_pages::{ErrorPageError, ErrorPages, fill_in};
pub use grpc::{grpc_failure, grpc_overdue, grpc_rejected, is_grpc};
pub use hold::{HeldOutcome, Hold, READY_BYTES};
pub use message::{Details, Form, Message, error_page};
pub use patience::{Patience, PatienceLimits, Stall};
pub use rejection::{Rejection, reason, rejected};
pub use timeout::timeout;
