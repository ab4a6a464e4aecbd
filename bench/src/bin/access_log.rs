//! What a line of the access log costs, in nanoseconds of CPU time: of the request's thread and of
//! the one that writes.
//!
//! `cargo run --profile dist -p tamarisk-bench --bin access_log`, with `TMPDIR` where the log may go.

use std::net::{IpAddr, Ipv4Addr};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use http::header::{REFERER, USER_AGENT};
use http::{Request, StatusCode};
use tamarisk_bench::process::Scratch;
use tamarisk_bench::{cpu_time, repeated};
use tamarisk_observe::RequestIds;
use tamarisk_observe::access_log::{
    Admission, Asked, Log, LogFormat, LogOptions, LogTarget, Names,
};

// As the command has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REPETITIONS: usize = 9;
const LINES: u32 = 40_000;
/// Lines without a pause between them.
const BURST: u32 = 2000;
const PAUSE: Duration = Duration::from_millis(10);
/// What has been gathered is written by then.
const WRITTEN: Duration = Duration::from_millis(60);

fn main() -> Result<()> {
    println!("ns of CPU time a line: median of {REPETITIONS} (least … greatest)");
    for (name, format) in [("combined", LogFormat::Combined), ("JSON", LogFormat::Json)] {
        let scratch = Scratch::new("access-log")?;
        let to = LogTarget::File(scratch.path().join("access.log"));
        let log = Log::start(&LogOptions { to, format })?;
        let costs = repeated(REPETITIONS, || cost_of_a_line(&log));
        let lost = log.lost();
        (lost == 0).then_some(()).with_context(|| format!("{lost} lines were lost"))?;
        println!("  {name:<10}{costs}");
    }
    Ok(())
}

/// A request of a browser through a proxy.
fn cost_of_a_line(log: &Log) -> f64 {
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
    let request = Request::get("http://127.0.0.1:8080/some/page.html?with=a&query=1")
        .header(USER_AGENT, agent)
        .header(REFERER, "http://127.0.0.1:8080/index.html")
        .body(())
        .expect("the request is well-formed");
    let (ids, client) = (RequestIds::default(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let names =
        Names { route: "default".into(), class: "default".into(), stage: "upstream".into() };

    let before = cpu_time();
    for line in 0..LINES {
        let mut entry = log.begin(client, &Asked::from(&request));
        let admission = entry.set_admission(Admission::new(names.clone(), ids.next()));
        admission.offered();
        admission.admitted(Duration::from_micros(3));
        admission.answered(false, Duration::from_micros(400));
        entry.answered(StatusCode::OK);
        entry.sent(1024);
        drop(entry);
        if line % BURST == 0 {
            sleep(PAUSE);
        }
    }
    sleep(WRITTEN);
    1e9 * (cpu_time() - before).as_secs_f64() / f64::from(LINES)
}
