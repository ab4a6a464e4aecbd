//! What other files of servers have in common with this one.

pub use super::classes::{ClassDefinition, classes};
pub use super::errors::statuses;
pub use super::limits::limits;
pub use super::log::log;
pub use super::proxied::{PROXIED_KEYS, Proxied};
pub use super::tls::{Disk, tls};
pub use super::token::source as token;
pub use super::values::{
    address, header_value, host_name, is_host_name, listen_address, network, path,
};
