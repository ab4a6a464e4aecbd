//! `tamarisk serve` or `tamarisk protect`, and those that take over from it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::said::{Said, address};

/// A folder, and the processes that serve or proxy one after the other.
pub struct Site {
    pub folder: PathBuf,
    pub first: Child,
    /// All their standard errors.
    said: Said,
    /// The one that serves at present.
    pub process: u32,
    /// What it says before its address.
    pub greeting: &'static str,
}

impl Site {
    /// Serves the folder `public`, in which there is `a.txt`.
    pub fn start(name: &str, change: impl FnOnce(&mut Command)) -> Self {
        Self::run(name, "Serving ", |folder, command| {
            command.args(["serve", "--listen", "127.0.0.1:0"]).arg(folder.join("public"));
            change(command);
        })
    }

    /// Protects the service at `url`.
    pub fn protect(name: &str, url: &str, options: &[&str]) -> Self {
        Self::run(name, "Protecting ", |_, command| {
            command.args(["protect", url, "--listen", "127.0.0.1:0"]).args(options);
        })
    }

    /// Runs the command with the arguments that `arguments` gives it.
    pub fn run(
        name: &str,
        greeting: &'static str,
        arguments: impl FnOnce(&Path, &mut Command),
    ) -> Self {
        let folder = std::env::temp_dir().join(format!("tamarisk-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("public")).unwrap();
        fs::write(folder.join("public/a.txt"), "hello").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
        command.stderr(Stdio::piped());
        command.process_group(0);
        arguments(&folder, &mut command);
        let mut first = command.spawn().unwrap();
        let said = Said::by(first.stderr.take().unwrap());
        let process = first.id();
        Self { folder, first, said, process, greeting }
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// What follows each of `starts` in the next lines that begin so.
    pub fn says_all<const N: usize>(&self, starts: [&str; N]) -> [String; N] {
        let (mut found, mut text) = ([const { None }; N], String::new());
        while found.iter().any(Option::is_none) {
            let line = self.said.next(&text);
            let line = line.unwrap_or_else(|| panic!("{starts:?} are not all in: {text}"));
            for (start, found) in starts.iter().zip(&mut found) {
                *found = found
                    .take()
                    .or_else(|| line.split_once(start).map(|(_, rest)| rest.to_owned()));
            }
            text.extend([&line, "\n"]);
        }
        found.map(Option::unwrap)
    }

    pub fn says(&self, start: &str) -> String {
        let [rest] = self.says_all([start]);
        rest
    }

    /// Where it serves.
    pub fn serves(&self) -> SocketAddr {
        address(&self.says(self.greeting)).parse().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // All of them: those that came later are in the group of the first one.
        let group = format!("-{}", self.first.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.first.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
