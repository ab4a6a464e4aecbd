//! Which database is used, and whether it can be reached.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::StoreError;
use super::connection::{Connection, Ending, Fault};
use super::device_key::DeviceKey;
use super::driver::Target;
use super::verified::VerifiedPasswords;

/// While the database is down, the first try to connect again is after this time, and the time
/// doubles with each.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// No longer than this between two tries.
const BACKOFF_LONGEST: Duration = Duration::from_secs(1);

/// Tells the seconds since 1970.
type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Where mail is kept: a database by its URL. It opens nothing by itself; clones share what is
/// known about the database being down, about passwords, and the key of devices.
#[derive(Clone)]
pub struct Database {
    target: Arc<Target>,
    health: Arc<Health>,
    verified: Arc<OnceLock<VerifiedPasswords>>,
    device_key: Arc<OnceLock<DeviceKey>>,
    clock: Clock,
}

/// The URL of a database cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "invalid database URL: {0}; expected sqlite:FILE, postgres://USER:PASSWORD@HOST:PORT/NAME or mariadb://USER:PASSWORD@HOST:PORT/NAME"
)]
pub struct InvalidUrl(String);

impl Database {
    /// The database at `url`: `sqlite:FOLDER/mail.db`, `postgres://user:password@host:port/name`,
    /// or `mariadb://` or `mysql://user:password@host:port/name`.
    ///
    /// # Errors
    /// If the URL has another form.
    pub fn at(url: &str) -> Result<Self, InvalidUrl> {
        let target = Target::parse(url).map_err(InvalidUrl)?;
        let clock = || {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
        };
        Ok(Self {
            target: Arc::new(target),
            health: Arc::new(Health::default()),
            verified: Arc::default(),
            device_key: Arc::default(),
            clock: Arc::new(clock),
        })
    }

    /// The same database with another clock, which tells seconds since 1970: for tests of what
    /// expires.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Whether it runs in this process, so that its work is done by this process's threads.
    pub fn is_embedded(&self) -> bool {
        self.file().is_some()
    }

    /// The file of an embedded database, made by whoever connects first.
    pub fn file(&self) -> Option<&Path> {
        match &*self.target {
            Target::Sqlite(file) => Some(file.path()),
            Target::Postgres(_) | Target::Mariadb(_) => None,
        }
    }

    pub(crate) fn now_seconds(&self) -> i64 {
        (self.clock)()
    }

    /// The passwords that have been verified lately, by all connections.
    pub(super) fn verified(&self) -> Result<&VerifiedPasswords, StoreError> {
        if let Some(verified) = self.verified.get() {
            return Ok(verified);
        }
        let verified = VerifiedPasswords::new()?;
        Ok(self.verified.get_or_init(|| verified))
    }

    /// The key of devices, if a connection has read it.
    pub(crate) fn device_key(&self) -> Option<&DeviceKey> {
        self.device_key.get()
    }

    /// The key of devices is this one, unless one is known.
    pub(super) fn know_device_key(&self, key: DeviceKey) -> &DeviceKey {
        self.device_key.get_or_init(|| key)
    }

    /// Connects, unless the database is down and it is not yet time for another try. Tables are
    /// made or brought up to date by whoever connects first.
    pub(super) fn open(&self, ending: &Ending) -> Result<Box<dyn Connection>, Fault> {
        self.health.take_turn().map_err(Fault::Lost)?;
        let opened = self.target.connect(ending).and_then(|mut connection| {
            if !self.health.migrated.load(Ordering::Acquire) {
                super::schema::migrate(connection.as_mut(), ending)?;
                self.health.migrated.store(true, Ordering::Release);
            }
            Ok(connection)
        });
        opened.map_err(|fault| self.explain(fault)).inspect(|_| self.health.note_up())
    }

    /// Notes a failure to connect, and says where it was.
    fn explain(&self, fault: Fault) -> Fault {
        let cause = match &fault {
            Fault::Terminated | Fault::Duplicate | Fault::Answer(_) => {
                self.health.return_turn();
                return fault;
            }
            Fault::Lost(cause) | Fault::Busy(cause) | Fault::Slow(cause) | Fault::Failed(cause) => {
                format!("{}: {cause}", self.target)
            }
        };
        self.health.note_down(&cause);
        match fault {
            Fault::Failed(_) => Fault::Failed(cause),
            _ => Fault::Lost(cause),
        }
    }

    /// Why a connection was lost, and where it led.
    pub(super) fn cause_of_loss(&self, cause: &str) -> String {
        format!("{}: {cause}", self.target)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.target.to_string()).finish()
    }
}

/// Whether the database can be reached.
#[derive(Default)]
struct Health {
    /// Whether its tables have been found to be up to date.
    migrated: AtomicBool,
    down: Mutex<Option<Down>>,
}

/// Since connecting failed.
struct Down {
    cause: String,
    wait: Duration,
    /// When the next may try.
    next: Instant,
}

impl Health {
    /// Allows a try to connect; while the database is down, one at most in each pause.
    fn take_turn(&self) -> Result<(), String> {
        let mut down = self.down.lock();
        if let Some(down) = &mut *down {
            let now = Instant::now();
            if now < down.next {
                return Err(down.cause.clone());
            }
            down.next = now + BACKOFF_LONGEST;
        }
        Ok(())
    }

    /// The try was given up before it showed anything.
    fn return_turn(&self) {
        if let Some(down) = &mut *self.down.lock() {
            down.next = Instant::now();
        }
    }

    fn note_up(&self) {
        *self.down.lock() = None;
    }

    fn note_down(&self, cause: &str) {
        let mut down = self.down.lock();
        let wait = down.as_ref().map_or(BACKOFF_FIRST, |down| (down.wait * 2).min(BACKOFF_LONGEST));
        *down = Some(Down { cause: cause.into(), wait, next: Instant::now() + wait });
    }
}
