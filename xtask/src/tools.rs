//! The outside tools that the tests need, installed where they are missing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::WORKSPACE;

/// A command that a test runs, and the Debian package that has it.
struct Tool {
    command: &'static str,
    package: &'static str,
}

/// nginx stands behind and beside the proxy, curl and openssl are clients of it (openssl makes
/// certificates, too), promtool reads the metrics, slowhttptest attacks. The databases of Arashi and
/// its browsers are started by its tests, each with a folder and a port of its own.
const TOOLS: [Tool; 11] = [
    Tool { command: "nginx", package: "nginx-light" },
    Tool { command: "curl", package: "curl" },
    Tool { command: "openssl", package: "openssl" },
    Tool { command: "promtool", package: "prometheus" },
    Tool { command: "slowhttptest", package: "slowhttptest" },
    Tool { command: "postgres", package: "postgresql" },
    Tool { command: "psql", package: "postgresql-client" },
    Tool { command: "mariadbd", package: "mariadb-server-core" },
    Tool { command: "mariadb", package: "mariadb-client-core" },
    Tool { command: "chromium", package: "chromium" },
    Tool { command: "chromedriver", package: "chromium-driver" },
];

/// Seconds that apt-get waits for another one that holds its lock: as long as an installation takes.
const APT_WAITS: &str = "-oDPkg::Lock::Timeout=600";

/// How often a download is tried: registries fail for moments.
const TRIES: u32 = 3;

/// What Go builds h2spec with; it judges HTTP/2.
const GO: [&str; 2] = ["golang-go", "ca-certificates"];
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// gunicorn serves one request at a time in each of its threads. It has a folder of its own, as
/// packages of Python that are not Debian's have to.
const GUNICORN: &str = "target/gunicorn/bin";
const PIP: &str = "target/gunicorn/bin/pip";
const PYTHON: [&str; 2] = ["python3", "python3-venv"];

/// The package of PostgreSQL makes a database and starts it, unless the system is said to be in
/// this run level, in which services do not run.
const NO_SERVICES: (&str, &str) = ("RUNLEVEL", "1");

/// The version that deny.toml is written for: a newer one may have other checks.
const CARGO_DENY: &str = "cargo-deny@0.20.2";
/// cargo-deny is run once, so that it is built fast rather than fast itself.
const BUILT_FAST: (&str, &str) = ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");

/// The directories that commands are searched in: the environment's, Debian's for servers, and
/// those of Go and Cargo.
pub(crate) fn path() -> OsString {
    let mut folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    folders.extend(["/usr/sbin", "/usr/local/go/bin"].map(PathBuf::from));
    folders.push(Path::new(WORKSPACE).join(GUNICORN));
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let homes = ["go/bin", ".cargo/bin"].map(|bin| std::env::home_dir().map(|home| home.join(bin)));
    folders.extend(homes.into_iter().flatten());
    std::env::join_paths(folders).unwrap_or_default()
}

/// Installs what is missing, if this may; says by which command otherwise.
///
/// # Errors
/// If a tool is missing and could not be installed, or must be installed by root.
pub(crate) fn install_missing() -> Result<()> {
    let commands = commands_for(is_there);
    if commands.is_empty() {
        return Ok(());
    }
    let needs_root = commands.iter().any(|command| command[0] == "apt-get");
    if needs_root && !rustix::process::geteuid().is_root() {
        bail!("tools for the tests are missing; install them by\n\n    {}\n", as_line(&commands));
    }
    if needs_root && !is_there("apt-get") {
        let missing = TOOLS.iter().map(|tool| tool.command).filter(|command| !is_there(command));
        bail!(
            "tools for the tests are missing, and this is not Debian: install {}, h2spec, gunicorn",
            missing.collect::<Vec<_>>().join(", ")
        );
    }
    commands.iter().try_for_each(|command| run(command))
}

/// Runs `command`, again where it fails.
fn run(command: &[&str]) -> Result<()> {
    let shown = command.join(" ");
    for _ in 0..TRIES {
        eprintln!("xtask: tools: {shown}");
        let status = Command::new(command[0])
            .args(&command[1..])
            .current_dir(WORKSPACE)
            .env("PATH", path())
            .envs([NO_SERVICES, BUILT_FAST])
            .status()
            .with_context(|| format!("{} does not start", command[0]))?;
        if status.success() {
            return Ok(());
        }
    }
    bail!("{shown} failed {TRIES} times");
}

/// What installs the tools that are not there.
fn commands_for(is_there: impl Fn(&str) -> bool) -> Vec<Vec<&'static str>> {
    let needs_h2spec = !is_there("h2spec");
    let mut packages: Vec<&str> =
        TOOLS.iter().filter(|tool| !is_there(tool.command)).map(|tool| tool.package).collect();
    if needs_h2spec && !is_there("go") {
        packages.extend(GO);
    }
    let needs_gunicorn = !is_there("gunicorn");
    if needs_gunicorn && !is_there("python3") {
        packages.extend(PYTHON);
    }
    let mut commands = Vec::new();
    if !packages.is_empty() {
        commands.push(vec!["apt-get", APT_WAITS, "update", "--quiet"]);
        let install =
            ["apt-get", APT_WAITS, "install", "--quiet", "--yes", "--no-install-recommends"];
        commands.push([&install[..], &packages].concat());
    }
    if needs_h2spec {
        commands.push(vec!["go", "install", H2SPEC]);
    }
    if needs_gunicorn {
        commands.push(vec!["python3", "-m", "venv", "target/gunicorn"]);
        commands.push(vec![PIP, "install", "--quiet", "gunicorn==23.0.0"]);
    }
    if !is_there("cargo-deny") {
        commands.push(vec!["cargo", "install", "--locked", "--quiet", CARGO_DENY]);
    }
    commands
}

/// One line for a shell, in which root's part is done by sudo.
fn as_line(commands: &[Vec<&str>]) -> String {
    let line = |command: &Vec<&str>| {
        let sudo = if command[0] == "apt-get" { "sudo " } else { "" };
        format!("{sudo}{}", command.join(" "))
    };
    commands.iter().map(line).collect::<Vec<_>>().join(" && ")
}

fn is_there(command: &str) -> bool {
    std::env::split_paths(&path()).any(|folder: PathBuf| Path::is_file(&folder.join(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(missing: &[&str], expected: &str) {
        let commands = commands_for(|command| !missing.contains(&command));
        assert_eq!(as_line(&commands), expected);
    }

    #[test]
    fn installs_what_is_missing_and_nothing_else() {
        let install = "sudo apt-get -oDPkg::Lock::Timeout=600 update --quiet && \
                       sudo apt-get -oDPkg::Lock::Timeout=600 install --quiet --yes --no-install-recommends";
        let h2spec = "go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
        check(&[], "");
        check(&["go"], "");
        check(&["cargo-deny"], "cargo install --locked --quiet cargo-deny@0.20.2");
        check(&["nginx", "promtool"], &format!("{install} nginx-light prometheus"));
        check(&["h2spec"], h2spec);
        let gunicorn = "python3 -m venv target/gunicorn && \
                        target/gunicorn/bin/pip install --quiet gunicorn==23.0.0";
        check(&["gunicorn"], gunicorn);
        check(&["gunicorn", "python3"], &format!("{install} python3 python3-venv && {gunicorn}"));
        check(&["h2spec", "go"], &format!("{install} golang-go ca-certificates && {h2spec}"));
    }
}
