//! `tamarisk protect` before a real service, under real load: what is recorded of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::support::said::Said;
use serde_json::Value;

const SERVICE: Duration = Duration::from_millis(10);
const WORKERS: usize = 4;

fn tamarisk(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tamarisk")).args(args).output().unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn json(args: &[&str]) -> Value {
    let output = tamarisk(&[args, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How many requests a service has answered.
#[derive(Default)]
struct Served {
    count: Mutex<u64>,
    more: Condvar,
}

impl Served {
    fn count(&self) -> u64 {
        *self.count.lock().unwrap()
    }

    /// Waits until there are so many more.
    fn wait_for(&self, more: u64) {
        let count = self.count.lock().unwrap();
        let enough = *count + more;
        let waited = self.more.wait_timeout_while(count, STUCK, |count| *count < enough);
        assert!(!waited.unwrap().1.timed_out(), "nothing is served any more");
    }

    fn add_one(&self) {
        *self.count.lock().unwrap() += 1;
        self.more.notify_all();
    }
}

/// What takes longer than this comes to no end.
const STUCK: Duration = Duration::from_secs(120);

/// A service of [`WORKERS`] workers that take [`SERVICE`] for each request, until the
/// test ends; and how many it has served.
fn service() -> (SocketAddr, Arc<Served>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let places = Arc::new((Mutex::new(WORKERS), Condvar::new()));
    let served = Arc::new(Served::default());
    let counted = Arc::clone(&served);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (places, served) = (Arc::clone(&places), Arc::clone(&served));
            std::thread::spawn(move || serve(stream.unwrap(), &places, &served));
        }
    });
    (address, counted)
}

fn serve(mut stream: TcpStream, (free, freed): &(Mutex<usize>, Condvar), served: &Served) {
    let mut head = [0; 4096];
    while stream.read(&mut head).is_ok_and(|count| count > 0) {
        let mut places = freed.wait_while(free.lock().unwrap(), |free| *free == 0).unwrap();
        *places -= 1;
        drop(places);
        std::thread::sleep(SERVICE);
        *free.lock().unwrap() += 1;
        served.add_one();
        freed.notify_one();
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

/// A running `protect` before the service.
struct Protect {
    child: Child,
    said: Said,
    url: String,
    status: String,
    served: Arc<Served>,
}

impl Protect {
    fn start(args: &[&str]) -> Self {
        let (address, served) = service();
        let upstream = format!("http://{address}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["protect", &upstream, "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"])
            .args(["--p90", "100ms"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Said::by(child.stderr.take().unwrap());
        let (url, status) = (format!("http://{}", said.address()), said.after("Status on "));
        Self { child, said, url, status, served }
    }

    /// Many times what the service can do, for as long as what is returned lives.
    fn overload(&self) -> Overload {
        let load = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["load", &self.url, "--users", "60", "--think", "2ms", "--duration", "10m"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Overload(load.unwrap())
    }

    /// Ends it as a user would; what it said at the end.
    fn end(mut self) -> String {
        let interrupt = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(interrupt.unwrap().success());
        let said = self.said.rest();
        assert!(self.child.wait().unwrap().success());
        said
    }
}

/// Running load.
struct Overload(Child);

impl Drop for Overload {
    fn drop(&mut self) {
        // It may have ended already, if the test has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Protect {
    fn drop(&mut self) {
        // It has ended already unless the test has failed.
        let _ = self.child.kill();
    }
}

#[test]
fn a_recorded_overload_replays_to_the_same_decisions_and_to_other_laws() {
    let path = scratch("overload.trace");
    let trace = path.to_str().unwrap();
    let protect = Protect::start(&["--record", trace]);
    let overload = protect.overload();
    protect.served.wait_for(600);
    drop(overload);
    let said = protect.end();
    assert!(said.contains(&format!("Recording to {trace}")), "{said}");
    assert!(said.contains(" records in "), "{said}");

    let replay = json(&["sim", "replay", trace]);
    assert_eq!(replay["differences"], 0, "{replay}");
    assert_eq!((&replay["gap"], &replay["ended"]), (&Value::Null, &true.into()), "{replay}");
    assert!(replay["compared"].as_u64().unwrap() > 2000, "{replay}");
    assert_eq!(replay["law"], "work-limit");

    let others = json(&["sim", "replay", trace, "--law", "open,codel", "--workers", "4"]);
    let laws = others["laws"].as_array().unwrap();
    let names: Vec<_> = laws.iter().map(|law| law["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["work-limit", "open", "codel"]);
    let offered = |law: usize| &laws[law]["classes"][0]["offered"]["mean"];
    assert_eq!(offered(0), offered(2));

    let output = tamarisk(&["sim", "replay", trace, "--plot", "x.svg"]);
    assert_eq!(output.status.code(), Some(2));

    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let damaged = scratch("damaged.trace");
    std::fs::write(&damaged, bytes).unwrap();
    let output = tamarisk(&["sim", "replay", damaged.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the trace is damaged"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

/// Within this of what the service does when more is asked of it than it can do.
const TOLERANCE: f64 = 0.15;

#[test]
fn a_profile_under_load_makes_a_model_of_the_capacity_that_the_service_has() {
    let protect = Protect::start(&[]);
    let path = scratch("live.toml");
    let scenario = path.to_str().unwrap();
    let overload = protect.overload();
    protect.served.wait_for(400);
    let (began, before) = (Instant::now(), protect.served.count());
    protect.served.wait_for(1200);
    let served = protect.served.count() - before;
    let capacity_seen = served as f64 / began.elapsed().as_secs_f64();
    let output = tamarisk(&["sim", "from", &protect.status, "-o", scenario]);
    drop(overload);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "requests waited");
    protect.end();

    let model = json(&["model", scenario, "--at", "10/s"]);
    let capacity = model["greatest_stable_rate"].as_f64().unwrap();
    let ratio = capacity / capacity_seen;
    assert!((ratio - 1.0).abs() < TOLERANCE, "{capacity} for {capacity_seen}");
    // Sleeping threads of a busy machine make it less, and nothing makes it more.
    let most = WORKERS as f64 / SERVICE.as_secs_f64();
    assert!(capacity < most * (1.0 + TOLERANCE), "{capacity} of {most}");

    let run = json(&["sim", "compare", scenario, "--laws", "open,work-limit", "--seeds", "1"]);
    let goodput = |law: usize| run["laws"][law]["classes"][0]["goodput"]["mean"].as_f64().unwrap();
    assert!(goodput(0) < 0.2 * capacity && goodput(1) > 0.7 * capacity, "{run}");
}

#[test]
fn what_is_no_status_is_said() {
    let url = format!("http://{}", service().0);
    let output = tamarisk(&["sim", "from", &url]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not a status of Tamarisk"), "{}", stderr(&output));
    let output = tamarisk(&["sim", "from", "127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(2));
}
