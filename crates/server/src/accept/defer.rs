//! Clients that have connected and say nothing are the kernel's for a while: all others have asked
//! when we hear of them, and cost one wake-up instead of two.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Has the kernel keep such clients of `listener` for about `time`, in whole seconds.
#[cfg(target_os = "linux")]
pub(crate) fn set(listener: &impl AsFd, time: Duration) -> io::Result<()> {
    use nix::libc::{self, IPPROTO_TCP, TCP_DEFER_ACCEPT};
    use nix::sys::socket::setsockopt;
    use nix::{setsockopt_impl, sockopt_impl};

    sockopt_impl!(DeferAccept, SetOnly, IPPROTO_TCP, TCP_DEFER_ACCEPT, usize);
    Ok(setsockopt(listener, DeferAccept, &(time.as_secs() as usize))?)
}

/// Elsewhere they are accepted at once.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set(_: &impl AsFd, _: Duration) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn who_says_nothing_is_accepted_after_who_speaks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set(&listener, Duration::from_secs(1)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _mute = connect();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut speaking = connect();
        speaking.write_all(b"GET").unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer, speaking.local_addr().unwrap());
    }
}
