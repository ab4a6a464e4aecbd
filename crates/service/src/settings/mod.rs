//! The parts that configuration files of services have in common: upstreams, routes and classes,
//! limits, certificates, the log, the token.

mod classes;
mod disk;
mod errors;
mod forwarding;
mod front;
mod laws;
mod limits;
mod log;
mod overflow;
mod pairs;
mod profile;
mod proxied;
mod resources;
mod routes;
mod tls;
mod token;
mod upstreams;
mod values;

pub use classes::{CLASSES, ClassDefinition, classes_noted};
pub use disk::Disk;
pub use errors::{error_pages, statuses};
pub use forwarding::{FORWARDING_KEYS, forwarding};
pub use front::{FRONT_KEYS, front};
pub use limits::{LIMITS_KEY, limits};
pub use log::{LOG_KEY, log};
pub use proxied::{PROXIED_KEYS, Proxied};
pub use values::{
    address, file, header_value, host_name, is_host_name, listen_address, network, network_of, path,
};
