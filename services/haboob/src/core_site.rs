//! The per-core part of a site.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::connection::Connection;
use crate::site::Site;
use crate::site::core_snapshot::Core;

/// A site on one core, whose connections to other services are its own.
pub struct CoreSite(Arc<Core>);

impl Site {
    /// The site on the core whose runtime this is called on, as are the connections to it.
    pub fn on_core(&self) -> CoreSite {
        CoreSite(Arc::new(Core::of(self)))
    }
}

impl CoreSite {
    /// The service of the connection of the client at `address`.
    pub fn connect(&self, address: SocketAddr) -> Connection {
        Connection::new(Arc::clone(&self.0), address)
    }
}
