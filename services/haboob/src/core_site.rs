//! A site on one core.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tamarisk_proxy::Proxy;

use crate::connection::Connection;
use crate::edition::Edition;
use crate::site::Site;

/// A site on one core, whose connections to other services are its own.
pub struct CoreSite(Arc<Core>);

/// What the connections of a core share.
pub(crate) struct Core {
    site: Site,
    /// No other core waits for it.
    here: Mutex<Here>,
}

/// The edition that answers on a core.
pub(crate) struct Here {
    pub(crate) number: u64,
    pub(crate) edition: Arc<Edition>,
    /// There is none where nothing needs it.
    pub(crate) proxy: Option<Arc<Proxy>>,
}

impl Site {
    /// The site on the core whose runtime this is called on, as are the connections to it.
    pub fn on_core(&self) -> CoreSite {
        let here = Mutex::new(Here::of(self, None));
        CoreSite(Arc::new(Core { site: self.clone(), here }))
    }
}

impl CoreSite {
    /// The service of the connection of the client at `address`.
    pub fn connect(&self, address: SocketAddr) -> Connection {
        Connection::new(Arc::clone(&self.0), address)
    }
}

impl Core {
    /// What answers a request that begins now.
    pub(crate) fn here(&self) -> MutexGuard<'_, Here> {
        let mut here = self.here.lock();
        if here.number != self.site.number() {
            *here = Here::of(&self.site, here.proxy.as_ref());
        }
        here
    }
}

impl Here {
    /// `site` as it is now; what `before` has of connections to its services goes on.
    fn of(site: &Site, before: Option<&Arc<Proxy>>) -> Self {
        // In this order: an edition that comes in between is taken at the next request.
        let number = site.number();
        let edition = site.edition();
        let proxy = &edition.proxy;
        let is_needed = !proxy.upstreams.is_empty() || !proxy.trusted.is_empty();
        let proxy = is_needed.then(|| match before {
            Some(before) => before.with(proxy),
            None => Proxy::start(proxy),
        });
        Self { number, edition, proxy }
    }
}
