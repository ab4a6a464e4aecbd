//! Limits of failed log-ins, so that passwords cannot be guessed in numbers.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::recent::RecentMap;

/// Failures for one account: ten at once, then one in half a minute, from wherever. A password
/// of eight random letters would be guessed after some 100,000 years.
const ACCOUNT: Allowance = Allowance { failures: 10, each: Duration::from_secs(30) };
/// Failures from one address: fifty at once, since many people may share it, then one in five
/// seconds.
const ADDRESS: Allowance = Allowance { failures: 50, each: Duration::from_secs(5) };

/// As many names and addresses are remembered: some megabytes. To have one forgotten, as many
/// others must fail first, each of which costs as much time as a log-in does.
const ENTRIES_MAX: usize = 20_000;

/// How many log-ins may fail.
#[derive(Clone, Copy)]
struct Allowance {
    /// At once.
    failures: u32,
    /// Another one after this time.
    each: Duration,
}

/// Failed log-ins by account and by address. Each log-in counts as failed until it has
/// succeeded, so that many at once are not more than the limit.
pub(crate) struct LogInLimit(Mutex<FailedLogIns>);

struct FailedLogIns {
    accounts: RecentMap<String, Failures>,
    addresses: RecentMap<IpAddr, Failures>,
}

/// When the last of the failures that count is forgotten.
#[derive(Clone, Copy, Debug)]
struct Failures {
    forgotten: Instant,
}

impl LogInLimit {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(FailedLogIns {
            accounts: RecentMap::new(ENTRIES_MAX),
            addresses: RecentMap::new(ENTRIES_MAX),
        }))
    }

    /// How long a log-in has to wait, if it has to.
    pub(crate) fn wait(&self, name: &str, address: IpAddr, now: Instant) -> Option<Duration> {
        self.0.lock().wait(&name.to_lowercase(), network(address), now)
    }

    /// A log-in begins: it counts as failed from now on.
    ///
    /// # Errors
    /// How long it has to wait, if it has to; then it does not count.
    pub(crate) fn begin(&self, name: &str, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let (name, network) = (name.to_lowercase(), network(address));
        let mut failed = self.0.lock();
        if let Some(wait) = failed.wait(&name, network, now) {
            return Err(wait);
        }
        let account = failed.accounts.get(&name).copied();
        failed.accounts.insert(name, Failures::more(account, ACCOUNT, now));
        let address = failed.addresses.get(&network).copied();
        failed.addresses.insert(network, Failures::more(address, ADDRESS, now));
        Ok(())
    }

    /// The log-in that began did not fail: it counts no longer.
    pub(crate) fn succeed(&self, name: &str, address: IpAddr) {
        let mut failed = self.0.lock();
        if let Some(failures) = failed.accounts.get(&name.to_lowercase()) {
            failures.fewer(ACCOUNT);
        }
        if let Some(failures) = failed.addresses.get(&network(address)) {
            failures.fewer(ADDRESS);
        }
    }
}

impl FailedLogIns {
    fn wait(&mut self, name: &String, network: IpAddr, now: Instant) -> Option<Duration> {
        let account = self.accounts.get(name).and_then(|failures| failures.wait(ACCOUNT, now));
        let address = self.addresses.get(&network).and_then(|failures| failures.wait(ADDRESS, now));
        account.max(address)
    }
}

impl Failures {
    /// One more than `before`.
    fn more(before: Option<Self>, allowance: Allowance, now: Instant) -> Self {
        let from = before.map_or(now, |before| before.forgotten.max(now));
        Self { forgotten: from + allowance.each }
    }

    /// One less.
    fn fewer(&mut self, allowance: Allowance) {
        self.forgotten = self.forgotten.checked_sub(allowance.each).unwrap_or(self.forgotten);
    }

    /// How long until another one is allowed.
    fn wait(self, allowance: Allowance, now: Instant) -> Option<Duration> {
        let most = allowance.each * (allowance.failures - 1);
        let wait = self.forgotten.saturating_duration_since(now).saturating_sub(most);
        (!wait.is_zero()).then_some(wait)
    }
}

/// What one client can choose addresses of: of IPv6 a network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn ten_failures_at_once_are_the_limit_of_an_account() {
        let (limit, now) = (LogInLimit::new(), Instant::now());
        for failure in 0..10 {
            assert_eq!(limit.begin("ada", address(failure), now), Ok(()), "{failure}");
        }
        assert_eq!(limit.begin("Ada", address(99), now), Err(30 * SECOND));
        assert_eq!(limit.wait("ADA", address(98), now + 10 * SECOND), Some(20 * SECOND));
        assert_eq!(limit.begin("ada", address(99), now + 30 * SECOND), Ok(()));
        assert_eq!(limit.begin("ada", address(99), now + 30 * SECOND), Err(30 * SECOND));
        assert_eq!(limit.begin("bob", address(0), now), Ok(()));
    }

    #[test]
    fn fifty_failures_at_once_are_the_limit_of_an_address() {
        let (limit, now) = (LogInLimit::new(), Instant::now());
        for failure in 0..50 {
            assert_eq!(limit.begin(&failure.to_string(), address(1), now), Ok(()));
        }
        assert_eq!(limit.begin("another", address(1), now), Err(5 * SECOND));
        assert_eq!(limit.begin("another", address(2), now), Ok(()));
    }

    #[test]
    fn what_succeeds_does_not_count() {
        let (limit, now) = (LogInLimit::new(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(limit.begin("ada", address(1), now), Ok(()));
            limit.succeed("ada", address(1));
        }
    }

    #[test]
    fn one_who_has_a_network_of_ipv6_is_one() {
        let (one, other) = ("2001:db8::1".parse().unwrap(), "2001:db8::ffff:1".parse().unwrap());
        assert_eq!(network(one), network(other));
        assert_ne!(network(one), network("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), address(1));
    }
}
