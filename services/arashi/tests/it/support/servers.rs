//! Servers of PostgreSQL and MariaDB that tests start, with a folder, a port and users of their own.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::Folder;

/// A server that has not started after this is broken.
const START_LIMIT: Duration = Duration::from_secs(90);
const USER: &str = "arashi";
const PASSWORD: &str = "p@ss word";
/// The same in a URL.
const PASSWORD_IN_URL: &str = "p%40ss%20word";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Mariadb,
}

/// A server that runs, or has been killed.
pub(crate) struct Server {
    kind: Kind,
    port: u16,
    process: Mutex<Child>,
    folder: Folder,
}

impl Server {
    /// The one that tests share; it ends with the last that uses it.
    pub(crate) fn shared(kind: Kind) -> Arc<Self> {
        static SHARED: [Mutex<Weak<Server>>; 2] = [const { Mutex::new(Weak::new()) }; 2];
        let mut shared = SHARED[kind as usize].lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Self::start(kind));
        *shared = Arc::downgrade(&server);
        server
    }

    pub(crate) fn start(kind: Kind) -> Self {
        let folder = Folder::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if is_root() {
            run(Command::new("chown").args(["nobody:nogroup".as_ref(), folder.path().as_os_str()]));
        }
        install(kind, folder.path());
        let process = Mutex::new(spawn(kind, folder.path(), port));
        let server = Self { kind, port, process, folder };
        server.wait_until_ready();
        if kind == Kind::Mariadb {
            server.query("", &format!("CREATE USER {USER}@localhost IDENTIFIED BY '{PASSWORD}'"));
        }
        server
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Makes a database, and returns its URL.
    pub(crate) fn create_database(&self, name: &str) -> String {
        let port = self.port;
        match self.kind {
            Kind::Postgres => {
                self.query("postgres", &format!("CREATE DATABASE {name}"));
                format!("postgres://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{port}/{name}")
            }
            Kind::Mariadb => {
                self.query("", &format!("CREATE DATABASE {name}"));
                self.query("", &format!("GRANT ALL ON {name}.* TO {USER}@localhost"));
                format!("mariadb://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{port}/{name}")
            }
        }
    }

    /// Runs a statement as an administrator, and returns what is printed.
    pub(crate) fn query(&self, database: &str, sql: &str) -> String {
        run(&mut self.client(database, sql))
    }

    fn client(&self, database: &str, sql: &str) -> Command {
        let mut client;
        match self.kind {
            Kind::Postgres => {
                client = Command::new(program("psql"));
                client.args(["-X", "-A", "-t", "-h", "127.0.0.1", "-U", USER]);
                client.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]);
                client.env("PGPASSWORD", PASSWORD);
            }
            Kind::Mariadb => {
                client = Command::new(program("mariadb"));
                client.args(["--no-defaults", "-N", "-u", "root", "-S"]);
                client.arg(self.folder.path().join("socket"));
                client.args(["-e", sql, database]);
            }
        }
        client
    }

    /// Ends the server as a crash would.
    pub(crate) fn kill(&self) {
        let mut process = self.process.lock().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts the server again that was killed.
    pub(crate) fn restart(&self) {
        *self.process.lock().unwrap() = spawn(self.kind, self.folder.path(), self.port);
        self.wait_until_ready();
    }

    /// PostgreSQL does not start until the processes of the killed one have ended.
    fn wait_until_ready(&self) {
        let database = if self.kind == Kind::Postgres { "postgres" } else { "" };
        let start = Instant::now();
        loop {
            let mut client = self.client(database, "SELECT 1");
            client.stdout(Stdio::null()).stderr(Stdio::null());
            if client.status().unwrap().success() {
                return;
            }
            let mut process = self.process.lock().unwrap();
            if process.try_wait().unwrap().is_some() {
                *process = spawn(self.kind, self.folder.path(), self.port);
            }
            if start.elapsed() > START_LIMIT {
                let log = std::fs::read_to_string(self.folder.path().join("log"));
                panic!("{:?} has not started: {}", self.kind, log.unwrap_or_default());
            }
            drop(process);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(|poison| poison.into_inner());
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Makes the folder of a server's data.
fn install(kind: Kind, folder: &Path) {
    let data = folder.join("data");
    match kind {
        Kind::Postgres => {
            let password = folder.join("password");
            std::fs::write(&password, PASSWORD).unwrap();
            let mut initdb = as_nobody("initdb");
            initdb.args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]);
            initdb.args(["--locale=C", "-D"]).arg(data).arg("--pwfile").arg(password);
            run(&mut initdb);
        }
        Kind::Mariadb => {
            let mut install = as_nobody("mariadb-install-db");
            install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
            install.arg("--skip-test-db").arg(option("--datadir", &data));
            run(&mut install);
        }
    }
}

fn spawn(kind: Kind, folder: &Path, port: u16) -> Child {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let data = folder.join("data");
    let mut server;
    match kind {
        Kind::Postgres => {
            server = as_nobody("postgres");
            server.arg("-D").arg(data).args(["-p", &port.to_string(), "-k"]).arg(folder);
            server.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]);
        }
        Kind::Mariadb => {
            server = as_nobody("mariadbd");
            server.args(["--no-defaults", "--bind-address=127.0.0.1"]);
            server.arg(format!("--port={port}")).arg(option("--datadir", &data));
            server.arg(option("--socket", &folder.join("socket")));
            server.arg(option("--pid-file", &folder.join("pid")));
            // What is committed survives the process.
            server.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M"]);
        }
    }
    server.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// A command for a program of a server, which does not run as root.
fn as_nobody(name: &str) -> Command {
    let program = program(name);
    let mut command;
    if is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]).arg(program);
    } else {
        command = Command::new(program);
    }
    command.current_dir("/");
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A program of the path, or of where Debian has servers.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not installed; `cargo xtask test` installs it"))
}

/// What a command prints; it must succeed.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let shown: Vec<&OsStr> = command.get_args().collect();
    assert!(
        output.status.success(),
        "{:?} {shown:?}: {}{}",
        command.get_program(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
