//! Per-core snapshot of a site.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tamarisk_observe::RequestIds;
use tamarisk_proxy::Proxy;

use crate::site::Site;
use crate::site::snapshot::SiteSnapshot;

/// What the connections of a core share.
pub(crate) struct Core {
    site: Site,
    /// No other core waits for it.
    snapshot: Mutex<CoreSnapshot>,
    /// For requests that are rejected by the stages for files.
    pub(crate) ids: RequestIds,
}

/// The snapshot of the site that answers on a core, and what it has of its own.
pub(crate) struct CoreSnapshot {
    pub(crate) number: u64,
    pub(crate) site: Arc<SiteSnapshot>,
    /// There is none where nothing needs it.
    pub(crate) proxy: Option<Arc<Proxy>>,
}

impl Core {
    /// `site` on the core whose runtime this is called on.
    pub(crate) fn of(site: &Site) -> Self {
        let snapshot = Mutex::new(CoreSnapshot::of(site, None));
        Self { site: site.clone(), snapshot, ids: RequestIds::default() }
    }

    /// What answers a request that begins now.
    pub(crate) fn snapshot(&self) -> MutexGuard<'_, CoreSnapshot> {
        let mut snapshot = self.snapshot.lock();
        if snapshot.number != self.site.number() {
            *snapshot = CoreSnapshot::of(&self.site, snapshot.proxy.as_ref());
        }
        snapshot
    }
}

impl CoreSnapshot {
    /// `site` as it is now; what `before` has of connections to its services goes on.
    fn of(site: &Site, before: Option<&Arc<Proxy>>) -> Self {
        // In this order: a snapshot that comes in between is taken at the next request.
        let number = site.number();
        let site = site.snapshot();
        let proxy = &site.proxy;
        let is_needed = !proxy.upstreams.is_empty() || !proxy.trusted.is_empty();
        let proxy = is_needed.then(|| match before {
            Some(before) => before.with(proxy),
            None => Proxy::start(proxy),
        });
        Self { number, site, proxy }
    }
}
