//! The parts that configuration files of services have in common: upstreams, routes and classes,
//! limits, certificates, the log, the token.

mod classes;
mod errors;
mod forwarding;
mod front;
mod laws;
mod limits;
mod log;
mod proxied;
mod routes;
mod tls;
mod token;
mod upstreams;
mod values;

pub use classes::{ClassDefinition, classes};
pub use errors::{error_pages, statuses};
pub use forwarding::forwarding;
pub use front::front;
pub use limits::limits;
pub use log::log;
pub use proxied::{PROXIED_KEYS, Proxied};
pub use tls::Disk;
pub use values::{address, header_value, host_name, is_host_name, listen_address, network, path};
