//! Servers and load generators that a benchmark starts, each on a core of its own
//! choice, and ends.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// A server, ended with this value.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts `command` on `core` and waits until it listens on `address`.
    ///
    /// # Errors
    /// If it cannot be started, ends at once, or does not listen in time.
    pub fn start(core: usize, command: &[&str], address: SocketAddr) -> Result<Self> {
        let core = core.to_string();
        let pinned = [&["taskset", "--cpu-list", &core], command].concat();
        Self::start_anywhere(&pinned, address)
    }

    /// Starts `command` on whatever core and waits until it listens on `address`.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn start_anywhere(command: &[&str], address: SocketAddr) -> Result<Self> {
        let child = Command::new(command[0])
            .args(&command[1..])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} could not be started", command[0]))?;
        let mut server = Self { child, address };
        let deadline = Instant::now() + STARTS_WITHIN;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{} ended at once: {status}", command.join(" "));
            }
            if Instant::now() > deadline {
                bail!("{} does not listen on {address}", command.join(" "));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its process, and those that it has started and that run.
    pub fn processes(&self) -> Vec<u32> {
        let id = self.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        std::iter::once(id).chain(children).collect()
    }

    /// CPU time that all of them have used so far.
    pub fn cpu_time(&self) -> Duration {
        self.processes().iter().map(|id| crate::cpu_time_of(&id.to_string())).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let processes = self.processes();
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for child in processes[1..].iter().filter_map(|id| Pid::from_raw(*id as i32)) {
            // The same.
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

/// `command`, to be run on `core` only.
pub fn pinned(core: usize, command: &[&str]) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["--cpu-list", &core.to_string()]).args(command);
    pinned
}

/// An address that nobody listens on.
///
/// # Errors
/// If the system has no port left.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?)
}

/// The `tamarisk` command, built beside the benchmark.
///
/// # Errors
/// If it has not been built.
pub fn tamarisk() -> Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("tamarisk");
    if !beside.exists() {
        bail!(
            "{} is not there: run `cargo build --profile dist --features full` first",
            beside.display()
        );
    }
    Ok(beside)
}

/// nginx in one process, which is then the one whose CPU time counts. `servers` says in
/// its own language what it serves at the address.
///
/// # Errors
/// As for [`Server::start`].
pub fn nginx(
    scratch: &Scratch,
    name: &str,
    core: usize,
    servers: impl FnOnce(SocketAddr) -> String,
) -> Result<Server> {
    let address = free_address()?;
    let folder = scratch.path().display();
    let config = scratch.write(
        &format!("{name}.conf"),
        &format!(
            "daemon off; master_process off; worker_processes 1; pid {folder}/{name}.pid;\n\
             error_log /dev/null;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_requests 1000000000;\n{}\n}}\n",
            servers(address)
        ),
    )?;
    Server::start(core, &["nginx", "-c", &config], address)
}

/// h2o with one thread, which serves the files of `folder`.
///
/// # Errors
/// As for [`Server::start`].
pub fn h2o(scratch: &Scratch, core: usize, folder: &str) -> Result<Server> {
    let address = free_address()?;
    let config = scratch.write(
        "h2o.yaml",
        &format!(
            "num-threads: 1\nlisten:\n  host: {}\n  port: {}\n\
             hosts:\n  default:\n    paths:\n      /:\n        file.dir: {folder}\n",
            address.ip(),
            address.port()
        ),
    )?;
    Server::start(core, &["h2o", "--mode", "worker", "--conf", &config], address)
}

/// Apache with a process for each connection (its `prefork` module), which serves the files of
/// `folder`. There are `processes` of them all the time, so that all of their CPU time counts.
///
/// # Errors
/// As for [`Server::start`].
pub fn apache_prefork(
    scratch: &Scratch,
    core: usize,
    folder: &str,
    processes: u32,
) -> Result<Server> {
    let address = free_address()?;
    let own = scratch.path().display();
    let config = scratch.write(
        "apache.conf",
        &format!(
            "LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so\n\
             LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
             ServerRoot {own}\nDefaultRuntimeDir {own}\nPidFile {own}/apache.pid\n\
             ServerName localhost\nListen {address}\nErrorLog /dev/null\n\
             User www-data\nGroup www-data\nDocumentRoot {folder}\n\
             <Directory {folder}>\n  Require all granted\n</Directory>\n\
             KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 15\nEnableSendfile On\n\
             StartServers {processes}\nMinSpareServers 1\nMaxSpareServers {processes}\n\
             ServerLimit {processes}\nMaxRequestWorkers {processes}\nMaxConnectionsPerChild 0\n"
        ),
    )?;
    Server::start(core, &["apache2", "-f", &config, "-DFOREGROUND"], address)
}

/// `tamarisk serve folder` on `core`, with what else the command line is to say.
///
/// # Errors
/// As for [`Server::start`] and [`tamarisk`].
pub fn serve(core: usize, folder: &str, more: &[&str]) -> Result<Server> {
    let address = free_address()?;
    let (command, listen) = (tamarisk()?.display().to_string(), address.to_string());
    let command = [&*command, "serve", folder, "--listen", &listen, "--cores", "1"];
    Server::start(core, &[&command, more].concat(), address)
}

/// A folder for the configuration files of one benchmark, removed afterwards.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("tamarisk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Writes a file and returns where it is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.0.join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-over files in the system's temporary folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
