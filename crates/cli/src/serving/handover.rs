//! Restart handover: one process takes over from another, and no client notices.
//!
//! Sockets that listen are passed on as systemd does it: from descriptor 3 on, as many as
//! `LISTEN_FDS` says. They are the same sockets in both processes, with one queue of new
//! connections, so that none is lost: either process may accept it. Two processes that listen
//! by themselves on one address (`SO_REUSEPORT`) would each lose their queue with their end.
//!
//! The new process ends the old one with SIGTERM once it serves. If it never does, the old one
//! serves on.

use std::cell::Cell;
use std::env;
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;

use command_fds::{CommandFdExt, FdMapping};
use listenfd::ListenFd;
use rustix::process::{Pid, Signal, getppid, kill_process};
use sd_notify::NotifyState;
use tamarisk_server::AlreadyListening;
use tokio::process::{Child, Command};

use super::service_manager;
use crate::interrupt::SignalWatch;

/// The first descriptor that is passed on (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Tells the new process whom to end: who started it, if that still runs.
const PREDECESSOR: &str = "TAMARISK_PREDECESSOR";

/// Sockets that a service manager or a predecessor has opened for us.
pub(crate) fn inherited() -> io::Result<Vec<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let sockets = (0..passed.len()).map(|index| passed.take_tcp_listener(index));
    sockets.filter_map(Result::transpose).collect()
}

/// Warns if the predecessor, which has passed on `sockets`, did not listen where we are to `listen`.
/// Those of a service manager, which names them, are in place of any address.
pub(crate) fn warn_of_other_address(listen: SocketAddr, sockets: &[TcpListener]) {
    let is_restart = env::var_os(PREDECESSOR).is_some() && env::var_os("LISTEN_FDNAMES").is_none();
    let addresses: Vec<_> = sockets.iter().filter_map(|it| it.local_addr().ok()).collect();
    if is_restart && !is_among(listen, &addresses) {
        tracing::warn!(
            "Restart: `listen` has changed to {listen}, but the previous process's sockets are served; stop and start the service to change the address."
        );
    }
}

/// Whether who is to `listen` there, on any port if it is 0, may do so on these addresses.
fn is_among(listen: SocketAddr, addresses: &[SocketAddr]) -> bool {
    let is_it = |address: &SocketAddr| {
        address.ip() == listen.ip() && [0, address.port()].contains(&listen.port())
    };
    addresses.is_empty() || addresses.iter().any(is_it)
}

/// Tells the service manager that the service stops before it has begun, unless a predecessor goes on.
pub(crate) fn given_up() {
    if predecessor().is_none() {
        service_manager::tell(&[NotifyState::Stopping]);
    }
}

/// Tells the service manager and the predecessor, if there are any, that we serve.
pub(crate) fn ready() {
    service_manager::tell(&[NotifyState::Ready, NotifyState::MainPid(std::process::id())]);
    if let Some(predecessor) = predecessor() {
        let _ = kill_process(predecessor, Signal::TERM);
    }
}

/// Who may listen on the address of the status port already: the predecessor, which does not pass
/// that socket on. Another service with sockets of a service manager may not.
pub(crate) fn status_beside() -> AlreadyListening {
    match predecessor() {
        Some(_) => AlreadyListening::Predecessor,
        None => AlreadyListening::Nobody,
    }
}

/// The process that this one takes over from, for as long as that runs.
fn predecessor() -> Option<Pid> {
    let pid = env::var(PREDECESSOR).ok()?.parse().ok()?;
    Pid::from_raw(pid).filter(|pid| getppid() == Some(*pid))
}

/// Watches for the order to hand over to a new process.
pub(crate) struct Handover {
    /// Found out at the start: later there may be another program in its place, which is the
    /// one to be started.
    program: io::Result<PathBuf>,
    asked: SignalWatch,
}

impl Handover {
    pub(crate) fn watch() -> Self {
        Self { program: env::current_exe(), asked: SignalWatch::restart() }
    }

    /// Starts a new process when asked to, which gets `sockets`. Never ends: a new process that
    /// serves sends SIGTERM. `has_successor` tells whether one has been started and runs.
    pub(crate) async fn hand_over(&mut self, sockets: &[TcpListener], has_successor: &Cell<bool>) {
        loop {
            has_successor.set(false);
            self.asked.asked().await;
            match self.start(sockets) {
                Ok(mut started) => {
                    has_successor.set(true);
                    let id = started.id().unwrap_or_default();
                    tracing::info!(
                        "Restart: started process {id}, which takes over when it is ready."
                    );
                    let ended = started.wait().await;
                    let ended = ended.map_or_else(|error| error.to_string(), |end| end.to_string());
                    tracing::error!(
                        "Restart failed: process {id} did not take over ({ended}). This process continues to serve."
                    );
                }
                Err(error) => tracing::error!(
                    "Restart failed: cannot start a new process: {error}. This process continues to serve."
                ),
            }
        }
    }

    fn start(&self, sockets: &[TcpListener]) -> io::Result<Child> {
        let program = self.program.as_ref().map_err(|error| io::Error::from(error.kind()))?;
        let arguments: Vec<OsString> = env::args_os().skip(1).collect();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env("LISTEN_FDS", sockets.len().to_string())
            .env_remove("LISTEN_PID")
            .env(PREDECESSOR, std::process::id().to_string());
        let mapping = |(child_fd, socket): (i32, &TcpListener)| {
            let parent_fd: OwnedFd = socket.as_fd().try_clone_to_owned()?;
            Ok(FdMapping { parent_fd, child_fd })
        };
        let mappings = (FIRST..).zip(sockets).map(mapping).collect::<io::Result<_>>()?;
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        command.spawn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_among_those_of_the_predecessor_or_has_changed() {
        let parsed = |text: &str| text.parse::<SocketAddr>().unwrap();
        let is_among = |listen: &str, addresses: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|text| parsed(text)).collect();
            is_among(parsed(listen), &addresses)
        };
        assert!(is_among("127.0.0.1:80", &["127.0.0.1:81", "127.0.0.1:80"]));
        assert!(is_among("127.0.0.1:0", &["127.0.0.1:81"]), "any port");
        assert!(!is_among("127.0.0.1:80", &["127.0.0.1:81"]));
        assert!(!is_among("0.0.0.0:80", &["127.0.0.1:80"]));
        assert!(is_among("127.0.0.1:80", &[]), "nothing was passed on");
    }
}
