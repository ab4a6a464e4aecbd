//! The commands and files that README.md shows, as a reader types them: on free ports, and with
//! shorter times.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::said::Said;

const README: &str = include_str!("../../../../README.md");

/// The commands of README: the features that they need, and what follows.
fn commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    let runs = README.split("cargo run --release").skip(1);
    runs.filter_map(|run| {
        let (options, command) = run.split_once("-- ")?;
        let features = options.trim().strip_prefix("--features ").unwrap_or_else(|| options.trim());
        // Examples of other packages are run where those are tested.
        (!features.contains(' ')).then_some((features, command))
    })
}

/// A command that serves until it is ended.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with all that the commands of README name.
struct Reader {
    folder: PathBuf,
    /// What stands in README, and what takes its place.
    replaced: Vec<(String, String)>,
}

impl Reader {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("public")).unwrap();
        fs::write(folder.join("public/404.html"), "not found").unwrap();
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        std::os::unix::fs::symlink(scenarios, folder.join("scenarios")).unwrap();
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        std::os::unix::fs::symlink(docs, folder.join("docs")).unwrap();
        let ports = ["127.0.0.1:3000", "127.0.0.1:8080", "127.0.0.1:9090"];
        let free: Vec<_> =
            ports.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let mut replaced: Vec<(String, String)> = ports
            .iter()
            .zip(&free)
            .map(|(port, free)| ((*port).to_owned(), free.local_addr().unwrap().to_string()))
            .collect();
        let shorter = [
            ("@10s..40s --think", "@500ms..1s --duration 2s --think"),
            ("@10s..20s --target", "@500ms..1s --duration 2s --target"),
            ("--budget 400", "--budget 12"),
            ("--seeds 5", "--seeds 2"),
        ];
        replaced.extend(shorter.map(|(long, short)| (long.to_owned(), short.to_owned())));
        // Where clients are served if nothing is said may be taken here.
        let listen = format!("--record live.trace --listen {}", replaced[1].1);
        replaced.push(("--record live.trace".to_owned(), listen));
        replaced.push(("mail".to_owned(), format!("mail --listen {}", replaced[1].1)));
        Self { folder, replaced }
    }

    /// The command of README that begins with `start`, ready to run.
    fn command(&self, start: &str) -> Command {
        let command = commands().find(|(_, command)| command.starts_with(start));
        let (_, command) = command.unwrap_or_else(|| panic!("README has no command {start}"));
        let mut line = command.split(['\n', '`']).next().unwrap_or_default().to_owned();
        for (long, short) in &self.replaced {
            line = line.replace(long, short);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
        command.args(line.split_whitespace()).current_dir(&self.folder);
        command
    }

    /// Runs it to its end.
    fn run(&self, start: &str) {
        let output = self.command(start).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{start}: {said}");
    }

    /// Starts it, and waits until it says where it serves.
    fn serve(&self, start: &str) -> Server {
        let mut command = self.command(start);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Server(command.spawn().unwrap());
        let (stdout, stderr) = (server.0.stdout.take().unwrap(), server.0.stderr.take().unwrap());
        Said::by_all([Box::new(stdout), Box::new(stderr)]).up_to("http://");
        server
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(&self, mut server: Server) {
        let process = server.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
        server.0.wait().unwrap();
    }
}

/// The block of TOML that README shows.
fn toml() -> &'static str {
    let (_, block) = README.split_once("```toml\n").unwrap();
    block.split_once("```").unwrap().0
}

#[test]
fn each_command_of_readme_does_what_it_says() {
    let reader = Reader::new();
    let upstream = reader.serve("demo --serve");
    let proxy = reader.serve("protect http://127.0.0.1:3000 --listen");
    reader.run("load http://127.0.0.1:8080/ --users");
    reader.run("load http://127.0.0.1:8080/ --rate");
    assert!(reader.folder.join("out/spike.svg").exists());
    reader.run("sim from");
    reader.interrupt(proxy);

    let recording = reader.serve("protect http://127.0.0.1:3000 --p90 200ms --record");
    reader.run("load http://127.0.0.1:8080/ --users");
    reader.interrupt(recording);
    reader.run("sim replay live.trace");
    reader.run("sim replay live.trace --law");

    drop(reader.serve("serve ./public"));
    let mut site = toml().to_owned();
    for (long, short) in &reader.replaced {
        site = site.replace(long, short);
    }
    fs::write(reader.folder.join("site.toml"), site).unwrap();
    drop(reader.serve("serve site.toml"));
    drop(reader.serve("pytec docs/examples/pytec"));
    drop(reader.serve("mail"));
    drop(upstream);

    reader.run("model");
    reader.run("sim run");
    reader.run("sim compare");
    reader.run("sim tune");
    assert!(reader.folder.join("out/search.svg").exists());
}

#[test]
fn no_command_of_readme_is_left_out() {
    let tested = [
        "demo ",
        "protect ",
        "serve ",
        "pytec ",
        "mail\n",
        "load ",
        "model ",
        "sim ",
        "completions ",
    ];
    let line = |command: &'static str| command.split(['\n', '`']).next().unwrap_or_default();
    for (features, command) in commands() {
        assert!(tested.iter().any(|start| command.starts_with(start)), "{command:.60}");
        let needed = match line(command) {
            command if command.starts_with("mail") || command.starts_with("pytec") => "services",
            command if command.contains(".png") => "png",
            _ => "",
        };
        assert_eq!(features, needed, "{command:.60}");
    }
}
