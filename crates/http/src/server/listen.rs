use std::fs;
use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel may hold for us while we do not get to accept;
/// it lowers the number to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Binds `count` listeners to one address, among which the kernel spreads new
/// connections. With port 0 they share the port that the first one is given.
///
/// # Errors
/// Those of the system: the address is taken, or not ours.
pub fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<std::net::TcpListener>> {
    let first = bind(address, count > 1)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(bind(address, true)?);
    }
    Ok(listeners)
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// How many files this process may have open: the soft limit, or the usual 1024
/// if the system does not tell.
pub(super) fn open_files_max() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|rest| rest.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(1024)
}
