//! What the connections of a listener inherit from it, and how many files may be open.

use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Bytes of an answer that the kernel holds beyond those under way: it takes more once half of
/// them have gone. It would hold megabytes, and we could not tell a slow client from one that
/// reads nothing; with much less, long answers are sent in more pieces than pays.
const UNSENT_MAX: u32 = 512 * 1024;

/// TCP keepalive: how long a connection is silent before the kernel asks whether its client is still
/// there, the time between these probes, and their number. A client that has vanished without a word
/// is noticed after two minutes.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// Sets what the connections that `listener` accepts inherit from it: no delay of short segments, a
/// bound on unsent bytes, and keepalive. Where the system does not support one, its default stays.
pub fn set_options(listener: &impl AsFd) {
    let listener = SockRef::from(listener);
    let _ = listener.set_tcp_nodelay(true);
    let _ = listener.set_tcp_notsent_lowat(UNSENT_MAX);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME);
    let keepalive = keepalive.with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES);
    let _ = listener.set_tcp_keepalive(&keepalive);
}

/// How many files this process may have open: the soft limit, or the usual 1024 if the system
/// does not tell.
pub fn open_files_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|rest| rest.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_is_set_on_the_listener_holds_for_its_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_options(&listener);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let accepted = SockRef::from(&accepted);
        assert!(accepted.tcp_nodelay().unwrap() && accepted.keepalive().unwrap());
        assert_eq!(accepted.tcp_notsent_lowat().unwrap(), UNSENT_MAX);
        assert_eq!(accepted.tcp_keepalive_time().unwrap(), KEEPALIVE_TIME);
        assert_eq!(accepted.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(accepted.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
    }
}
