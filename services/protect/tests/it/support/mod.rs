//! What the tests of the service share.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

#[path = "../../../../../crates/proxy/tests/it/support/mod.rs"]
mod proxy_support;

use std::fs;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tamarisk_control::Target;
use tamarisk_protect::{Options, Running};
use tamarisk_proxy::RequestBuffering;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) use self::proxy_support::*;

/// Options for one core in front of `upstream`, with a promise that no test strains.
pub(crate) fn options(upstream: SocketAddr) -> Options {
    let origin = format!("http://{upstream}").parse().unwrap();
    let target = Target::p90(Duration::from_secs(10)).unwrap();
    let mut options = Options::single(any_port(), origin, target);
    options.front.cores = NonZeroUsize::MIN;
    options
}

pub(crate) async fn front(upstream: SocketAddr) -> Running {
    tamarisk_protect::start(options(upstream)).await.unwrap()
}

/// The same, where request bodies are passed on as they come.
pub(crate) async fn streaming_front(upstream: SocketAddr) -> Running {
    let mut options = options(upstream);
    options.upstreams[0].request_buffering = RequestBuffering::Off;
    tamarisk_protect::start(options).await.unwrap()
}

/// gunicorn on a free port, with two processes of four threads.
pub(crate) struct Gunicorn {
    pub(crate) address: SocketAddr,
    process: Child,
    _directory: TempDir,
}

impl Gunicorn {
    /// Starts it with this `application`, a module of Python.
    pub(crate) async fn start(application: &str) -> Self {
        for _ in 0..10 {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("service.py"), application).unwrap();
            let address = StdListener::bind(any_port()).unwrap().local_addr().unwrap();
            let mut command = Command::new(Self::command());
            command.args(["--workers=2", "--threads=4", "--graceful-timeout=1"]);
            command.args([
                "--log-level=critical",
                &format!("--bind={address}"),
                "service:application",
            ]);
            let process = command.current_dir(&directory).spawn();
            let process = process.expect("gunicorn is there (`cargo xtask tools` installs it)");
            let mut gunicorn = Self { address, process, _directory: directory };
            if gunicorn.serves().await {
                return gunicorn;
            }
        }
        panic!("gunicorn does not start");
    }

    /// Whether it answers before it ends, as it does if another took the port meanwhile.
    async fn serves(&mut self) -> bool {
        within(async {
            while self.process.try_wait().unwrap().is_none() {
                let asked = async {
                    let mut socket = tokio::net::TcpStream::connect(self.address).await?;
                    socket.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
                    socket.read_u8().await
                };
                if asked.await.is_ok() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        })
        .await
    }

    /// The one that `cargo xtask tools` has installed, or that of the system.
    fn command() -> PathBuf {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/gunicorn/bin/gunicorn");
        if Path::new(own).is_file() { own.into() } else { "gunicorn".into() }
    }
}

impl Drop for Gunicorn {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// Debian's nginx on a free port, with a configuration of its own.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    directory: PathBuf,
}

impl Nginx {
    /// Starts it with these directives in its `server` block.
    pub(crate) fn start(directives: &str) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        for _ in 0..10 {
            let name = format!(
                "tamarisk-nginx-{}-{}",
                std::process::id(),
                STARTED.fetch_add(1, Ordering::SeqCst)
            );
            let directory = std::env::temp_dir().join(name);
            fs::create_dir_all(directory.join("www")).unwrap();
            let address = StdListener::bind(any_port()).unwrap().local_addr().unwrap();
            let nginx = Self { address, directory };
            fs::write(nginx.configuration(), nginx.text(directives)).unwrap();
            // It returns once it listens, and fails if another took the port meanwhile.
            if nginx.command().status().expect("Debian's nginx is installed").success() {
                return nginx;
            }
        }
        panic!("nginx does not start");
    }

    /// Where its files are served from, if its directives say so (`root www;`).
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.directory.join("www").join(name), content).unwrap();
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("nginx.conf")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&self.directory).arg("-c").arg(self.configuration());
        command.arg("-e").arg(self.directory.join("error.log"));
        command
    }

    fn text(&self, directives: &str) -> String {
        let user = if fs::metadata("/proc/self").is_ok_and(|me| {
            use std::os::unix::fs::MetadataExt;
            me.uid() == 0
        }) {
            "user root;"
        } else {
            ""
        };
        let directory = self.directory.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {directory}/{kind};"))
            .concat();
        format!(
            "{user} worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log;
             events {{ worker_connections 512; }}
             http {{ access_log off; {temporary}
                 server {{ listen {}; {directives} }} }}",
            self.address
        )
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.command().args(["-s", "stop"]).status();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
