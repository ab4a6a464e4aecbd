//! Limits of failed log-ins, so that passwords cannot be guessed in numbers.

use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tamarisk_http_gate::client_network;

use super::recent::RecentMap;

/// Failures for one account: ten at once, then one in half a minute, from wherever. A password
/// of eight random letters would be guessed after some 100,000 years. A device that is known to an
/// account has as many of its own.
const ACCOUNT: Allowance = Allowance { failures: 10, each: Duration::from_secs(30) };
/// Failures from one address: fifty at once, since many people may share it, then one in five
/// seconds.
const ADDRESS: Allowance = Allowance { failures: 50, each: Duration::from_secs(5) };

/// As many names, addresses and devices are remembered: some megabytes. To have one forgotten, as
/// many others must fail first, each of which costs as much time as a log-in does.
const ENTRIES_MAX: usize = 20_000;

/// How many log-ins may fail.
#[derive(Clone, Copy)]
struct Allowance {
    /// At once.
    failures: u32,
    /// Another one after this time.
    each: Duration,
}

/// Who tries to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Guesser {
    /// A device of this id that is known to the account. No failures of others keep it from trying.
    Device(String),
    /// Anybody else, by address.
    Unknown(IpAddr),
}

impl Guesser {
    /// The id of the device, if it is known.
    pub(crate) fn device(self) -> Option<String> {
        match self {
            Self::Device(id) => Some(id),
            Self::Unknown(_) => None,
        }
    }
}

/// Failed log-ins by account and by address, and by known device. Each log-in counts as failed
/// until it has succeeded, so that many at once are not more than the limit.
pub(crate) struct LogInLimit(Mutex<FailedLogIns>);

struct FailedLogIns {
    accounts: Counters<String>,
    addresses: Counters<IpAddr>,
    devices: Counters<String>,
}

/// The failures of each account, address or device.
struct Counters<K> {
    failures: RecentMap<K, Failures>,
    allowance: Allowance,
}

/// When the last of the failures that count is forgotten.
#[derive(Clone, Copy, Debug)]
struct Failures {
    forgotten: Instant,
}

impl LogInLimit {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(FailedLogIns {
            accounts: Counters::new(ACCOUNT),
            addresses: Counters::new(ADDRESS),
            devices: Counters::new(ACCOUNT),
        }))
    }

    /// How long a log-in has to wait, if it has to.
    pub(crate) fn wait(&self, name: &str, guesser: &Guesser, now: Instant) -> Option<Duration> {
        self.0.lock().wait(name, guesser, now)
    }

    /// A log-in begins: it counts as failed from now on.
    ///
    /// # Errors
    /// How long it has to wait, if it has to; then it does not count.
    pub(crate) fn begin(
        &self,
        name: &str,
        guesser: &Guesser,
        now: Instant,
    ) -> Result<(), Duration> {
        let mut failed = self.0.lock();
        if let Some(wait) = failed.wait(name, guesser, now) {
            return Err(wait);
        }
        match guesser {
            Guesser::Device(id) => failed.devices.more(id.clone(), now),
            Guesser::Unknown(address) => {
                failed.accounts.more(name.to_lowercase(), now);
                failed.addresses.more(client_network(*address), now);
            }
        }
        Ok(())
    }

    /// The log-in that began did not fail: it counts no longer.
    pub(crate) fn succeed(&self, name: &str, guesser: &Guesser) {
        let mut failed = self.0.lock();
        match guesser {
            Guesser::Device(id) => failed.devices.fewer(id),
            Guesser::Unknown(address) => {
                failed.accounts.fewer(&name.to_lowercase());
                failed.addresses.fewer(&client_network(*address));
            }
        }
    }
}

impl FailedLogIns {
    fn wait(&mut self, name: &str, guesser: &Guesser, now: Instant) -> Option<Duration> {
        match guesser {
            Guesser::Device(id) => self.devices.wait(id, now),
            Guesser::Unknown(address) => {
                let account = self.accounts.wait(&name.to_lowercase(), now);
                account.max(self.addresses.wait(&client_network(*address), now))
            }
        }
    }
}

impl<K: Eq + Hash> Counters<K> {
    fn new(allowance: Allowance) -> Self {
        Self { failures: RecentMap::new(ENTRIES_MAX), allowance }
    }

    /// How long until another failure is allowed.
    fn wait(&mut self, key: &K, now: Instant) -> Option<Duration> {
        let Failures { forgotten } = *self.failures.get(key)?;
        let most = self.allowance.each * (self.allowance.failures - 1);
        let wait = forgotten.saturating_duration_since(now).saturating_sub(most);
        (!wait.is_zero()).then_some(wait)
    }

    fn more(&mut self, key: K, now: Instant) {
        let from = self.failures.get(&key).map_or(now, |before| before.forgotten.max(now));
        self.failures.insert(key, Failures { forgotten: from + self.allowance.each });
    }

    fn fewer(&mut self, key: &K) {
        if let Some(failures) = self.failures.get(key) {
            let before = failures.forgotten.checked_sub(self.allowance.each);
            failures.forgotten = before.unwrap_or(failures.forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(last: u8) -> Guesser {
        Guesser::Unknown([192, 0, 2, last].into())
    }

    #[test]
    fn ten_failures_at_once_are_the_limit_of_an_account() {
        let (limit, now) = (LogInLimit::new(), Instant::now());
        for failure in 0..10 {
            assert_eq!(limit.begin("ada", &address(failure), now), Ok(()), "{failure}");
        }
        assert_eq!(limit.begin("Ada", &address(99), now), Err(30 * SECOND));
        assert_eq!(limit.wait("ADA", &address(98), now + 10 * SECOND), Some(20 * SECOND));
        assert_eq!(limit.begin("ada", &address(99), now + 30 * SECOND), Ok(()));
        assert_eq!(limit.begin("ada", &address(99), now + 30 * SECOND), Err(30 * SECOND));
        assert_eq!(limit.begin("bob", &address(0), now), Ok(()));
    }

    #[test]
    fn fifty_failures_at_once_are_the_limit_of_an_address() {
        let (limit, now) = (LogInLimit::new(), Instant::now());
        for failure in 0..50 {
            assert_eq!(limit.begin(&failure.to_string(), &address(1), now), Ok(()));
        }
        assert_eq!(limit.begin("another", &address(1), now), Err(5 * SECOND));
        assert_eq!(limit.begin("another", &address(2), now), Ok(()));
    }

    #[test]
    fn a_known_device_tries_whoever_else_fails_and_not_without_end() {
        let (limit, now) = (LogInLimit::new(), Instant::now());
        for failure in 0..60 {
            let _ = limit.begin("ada", &address(failure), now);
            let _ = limit.begin(&failure.to_string(), &address(1), now);
        }
        assert!(limit.wait("ada", &address(1), now).is_some());
        let device = Guesser::Device("d".into());
        for _ in 0..9 {
            assert_eq!(limit.begin("ada", &device, now), Ok(()));
        }
        for _ in 0..100 {
            assert_eq!(limit.begin("ada", &device, now), Ok(()));
            limit.succeed("ada", &device);
        }
        assert_eq!(limit.begin("ada", &device, now), Ok(()));
        assert_eq!(limit.begin("ada", &device, now), Err(30 * SECOND));
        assert_eq!(limit.begin("ada", &Guesser::Device("e".into()), now), Ok(()));
    }

    #[test]
    fn what_succeeds_does_not_count() {
        let (limit, now) = (LogInLimit::new(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(limit.begin("ada", &address(1), now), Ok(()));
            limit.succeed("ada", &address(1));
        }
    }
}
