//! A running site, and reloading its configuration.

mod change;
pub(crate) mod core_snapshot;
mod error;
pub(crate) mod host;
pub(crate) mod options;
pub(crate) mod route;
pub(crate) mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_observe::access_log::Log;
use tamarisk_observe::status::Rejections;
use tamarisk_proxy::Upstream;
use tamarisk_stage::{Gate, StageObservation};

pub use self::error::SiteError;

use crate::site::options::SiteOptions;
use crate::site::snapshot::SiteSnapshot;

/// A disk that hangs does not delay the end: the last lines of the log may then be lost.
const LOG_PATIENCE: Duration = Duration::from_secs(1);

/// A site that serves; clones share it.
///
/// What it serves is one snapshot of its options at a time. A request is answered by the one that it has
/// begun with, whose stages last as long as their last request.
#[derive(Clone)]
pub struct Site(Arc<Current>);

struct Current {
    snapshot: Mutex<Arc<SiteSnapshot>>,
    /// How often there was another one: cores compare it with what they have.
    number: AtomicU64,
}

impl Site {
    /// Opens the folders and the log, and starts the stages, which are governed on the
    /// runtime that this is called on.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn open(options: SiteOptions) -> Result<Self, SiteError> {
        let snapshot = Mutex::new(Arc::new(SiteSnapshot::open(options, None)?));
        Ok(Self(Arc::new(Current { snapshot, number: AtomicU64::new(0) })))
    }

    /// Answers the requests that begin from now on as `options` say, and tells what that
    /// changes, in words; those under way are answered as before. What both have in common goes on: pages in memory, the stages of
    /// services and what their laws have learned, connections to them, the log.
    ///
    /// Targets become those of `options`, also where they were changed meanwhile. How many threads
    /// read files stays.
    ///
    /// # Errors
    /// [`SiteError`]; then nothing has changed.
    pub fn reload(&self, options: SiteOptions) -> Result<Vec<String>, SiteError> {
        let mut snapshot = self.0.snapshot.lock();
        let next = SiteSnapshot::open(options, Some(&snapshot))?;
        let changed = next.changes(&snapshot);
        next.take_over(&snapshot)?;
        *snapshot = Arc::new(next);
        self.0.number.fetch_add(1, Ordering::Release);
        Ok(changed)
    }

    /// What answers now.
    pub(crate) fn snapshot(&self) -> Arc<SiteSnapshot> {
        Arc::clone(&self.0.snapshot.lock())
    }

    /// Changes with the snapshot, and not before.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.0.number.load(Ordering::Acquire)
    }

    /// The services behind at present.
    pub fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.snapshot().proxy.upstreams.clone()
    }

    /// The latest rejections: of files, and before the services behind.
    pub(crate) fn rejections(&self) -> Rejections {
        self.snapshot().proxy.rejections.clone()
    }

    /// The stages that read files, at this instant.
    pub fn observe(&self) -> [StageObservation; 2] {
        self.snapshot().pages.files.observe()
    }

    /// The gates before the services, in the order of the options, each before that of its overflow.
    pub fn gates(&self) -> impl Iterator<Item = Gate> + use<> {
        self.snapshot().gates().collect::<Vec<_>>().into_iter()
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<Log> {
        self.snapshot().log.clone()
    }

    /// Reads nothing more, sends nothing on, and writes the last lines of the log.
    pub fn close(&self) {
        let snapshot = self.snapshot();
        snapshot.pages.files.close();
        snapshot.gates().for_each(|gate| gate.close());
        if let Some(log) = &snapshot.log {
            log.close(LOG_PATIENCE);
        }
    }
}
