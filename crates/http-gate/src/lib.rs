//! A gate in HTTP's terms: the deadline that a request's head names, the answer to a request
//! that the gate does not let through, and the permit of one that it lets through, held until
//! its answer is ready. Who the client is, also behind proxies. And the timers by which those who
//! answer wait for their clients.
//!
//! What this crate does not do: it decides nothing about admission, and knows neither a server
//! nor a client. The tower layer, the server, the proxy and the services answer with it.

mod client;
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
pub use deadline::Deadline;
pub use error_pages::{ErrorPageError, ErrorPages, fill_in};
pub use grpc::{grpc_failure, grpc_overdue, grpc_rejected, is_grpc};
pub use hold::{HeldOutcome, Hold, READY_BYTES};
pub use message::{Details, Form, Message, error_page};
pub use patience::{Patience, PatienceLimits, Stall};
pub use rejection::{Rejection, reason, rejected};
pub use timeout::timeout;
