//! `tamarisk serve` with twenty times the load that it can bear, open loop.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin site_overload`
//!
//! Nobody can ask for cached pages twenty times as fast as one core answers, least of all from
//! the same machine. What is asked for here are long texts that are not in the page cache: each
//! has to be found, read and compressed by the stage for files, for milliseconds of a core, and
//! that stage is what says no. Its threads and the one that talks to the clients share core 0,
//! so that every rejection takes from what is left for the work; the load generator has core 1.
//!
//! The pages are links to one file on disk, each of which is a page of its own to the server, and
//! so many that hardly any is asked for twice while it is remembered. The capacity is that of a
//! second server beside, which promises nothing and so rejects nobody; it is measured before and
//! after each overload, for a shared machine is not equally fast all the time.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::Value;
use tamarisk_bench::load::{load, number, p90};
use tamarisk_bench::process::{Scratch, Server, serve};
use tamarisk_bench::{cpu_time_of_threads, spread};

const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
const PAGES: usize = 20_000;
/// So long that serving one takes twenty times what rejecting twenty does, and so short that a
/// second has some tens of them.
const PAGE_BYTES: usize = 512 * 1024;
const TARGET: &str = "1s";
const TARGET_SECONDS: f64 = 1.0;
/// Clients who find out the capacity: more than there are threads that read.
const CAPACITY_USERS: &str = "12";
/// What comes before, in each run, is not judged.
const SETTLED_SECONDS: f64 = 4.0;

/// `tamarisk serve` with twenty times the load that it can bear
#[derive(Debug, Parser)]
struct Options {
    /// This many times the capacity is offered
    #[arg(long, value_name = "N", default_value_t = 20.0)]
    times: f64,
    /// How often it is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// How long the capacity is measured, and how long the overload lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(6..))]
    seconds: u32,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let scratch = Scratch::new("site-overload-bench")?;
    let folder = scratch.path().join("pages");
    fs::create_dir(&folder)?;
    let text = folder.join(page(0));
    fs::write(&text, prose())?;
    for number in 1..PAGES {
        fs::hard_link(&text, folder.join(page(number)))?;
    }
    let start = |target| -> Result<Site> {
        let folder = folder.display().to_string();
        let server = serve(SERVER_CORE, &folder, &["--cache", "8MiB", "--p90", target])?;
        let urls = scratch.write(&format!("{target}.urls"), &urls(server.address))?;
        Ok(Site { server, urls })
    };
    let (patient, site) = (start("1h")?, start(TARGET)?);
    // A server that is in use knows what its pages take.
    site.under("--users", "2", 6)?;
    let mut turns = Vec::new();
    let mut before = Calm::of(&patient, &options)?;
    for turn in 1..=options.turns {
        let (storm, words) = storm(&site, before.capacity, &options)?;
        let after = Calm::of(&patient, &options)?;
        turns.push(Turn::of([&before, &after], &storm, words)?);
        before = after;
        eprintln!("{turn}/{}: {:?}", options.turns, turns[turns.len() - 1]);
    }
    let all = |value: fn(&Turn) -> f64| spread(turns.iter().map(value).collect());
    println!("median of {} (least … greatest)", options.turns);
    println!("  capacity, pages a second      {}", all(|turn| turn.capacity));
    println!("  offered, times as many        {}", all(|turn| turn.offered));
    println!("  goodput ÷ capacity (≥ 0.95)   {}", all(|turn| turn.goodput));
    println!("  … of a second of CPU time     {}", all(|turn| turn.goodput_of_cpu));
    println!("  p90 of the admitted ÷ target  {}", all(|turn| turn.p90));
    println!("  rejected, %                    {}", all(|turn| 100.0 * turn.rejected));
    println!("  p90 of rejections, ms           {}", all(|turn| turn.rejection_ms));
    println!("  failed, %                     {}", all(|turn| 100.0 * turn.failed));
    println!("  CPU time a page, µs           {}", all(|turn| turn.page_micros));
    println!("  CPU time a rejection, µs        {}", all(|turn| turn.rejection_micros));
    println!("a rejection: {}", turns[turns.len() - 1].words);
    Ok(())
}

/// A server, and where the URLs of its pages stand.
struct Site {
    server: Server,
    urls: String,
}

impl Site {
    /// What clients saw for so many seconds, and what it took.
    fn under(&self, kind: &str, level: &str, seconds: u32) -> Result<Run> {
        let again = format!("{level}@{SETTLED_SECONDS}s");
        let before = self.spent();
        #[rustfmt::skip]
        let report = load(Some(CLIENT_CORE), &[
            "--urls", &self.urls, kind, level, "--target", TARGET, "--threads", "1",
            // The same level once more: the report then has a phase that begins here.
            "--step", &again, "--duration", &format!("{seconds}s"),
        ])?;
        let after = self.spent();
        Ok(Run { report, all: after[0] - before[0], talking: after[1] - before[1] })
    }

    /// CPU time so far in microseconds: of all threads, and of the one that talks to clients.
    fn spent(&self) -> [f64; 2] {
        let talking = cpu_time_of_threads(&self.server.id().to_string(), "core-0");
        [self.server.cpu_time(), talking].map(|time| 1e6 * time.as_secs_f64())
    }
}

/// What clients saw, and the server's CPU time in microseconds.
struct Run {
    report: Value,
    all: f64,
    /// That of the thread that talks to clients, which also rejects them.
    talking: f64,
}

impl Run {
    fn total(&self, name: &str) -> Result<f64> {
        number(&self.report["total"][name])
    }
}

/// What a server does for clients who wait for their answers.
struct Calm {
    /// Pages a second.
    capacity: f64,
    pages: f64,
    run: Run,
}

impl Calm {
    fn of(patient: &Site, options: &Options) -> Result<Self> {
        let run = patient.under("--users", CAPACITY_USERS, options.seconds)?;
        ensure!(run.total("rejected")? == 0.0, "rejected without a promise");
        let capacity = number(&run.report["phases"][1]["throughput"])?;
        Ok(Self { capacity, pages: run.total("completed")?, run })
    }
}

/// An overload, and the head of a rejection.
fn storm(site: &Site, capacity: f64, options: &Options) -> Result<(Run, String)> {
    let rate = format!("{:.0}", options.times * capacity);
    let asking = rejection_of(site.server.address);
    let storm = site.under("--rate", &rate, options.seconds)?;
    let words = asking.join().expect("the asking thread does not panic")?;
    Ok((storm, words))
}

#[derive(Debug)]
struct Turn {
    /// Pages a second, of clients who wait for one another: the mean of before and after.
    capacity: f64,
    /// Ratio to capacity.
    offered: f64,
    /// Pages a second within the target, ratio to capacity.
    goodput: f64,
    /// The same of a second of the server's CPU time, from the start: where others use the core
    /// too, it tells more.
    goodput_of_cpu: f64,
    /// Of the admitted, ratio to the target.
    p90: f64,
    /// Share of the requests that were rejected.
    rejected: f64,
    rejection_ms: f64,
    /// Share of the requests that failed otherwise.
    failed: f64,
    page_micros: f64,
    rejection_micros: f64,
    /// The head of a rejection.
    words: String,
}

impl Turn {
    fn of(calm: [&Calm; 2], storm: &Run, words: String) -> Result<Self> {
        let sum = |value: fn(&Calm) -> f64| calm.into_iter().map(value).sum::<f64>();
        let (capacity, pages) = (sum(|calm| calm.capacity) / 2.0, sum(|calm| calm.pages));
        let all = sum(|calm| calm.run.all);
        let settled = &storm.report["phases"][1];
        let offered = number(&settled["offered"])?;
        let talking_of_pages = sum(|calm| calm.run.talking) / pages * storm.total("completed")?;
        Ok(Self {
            capacity,
            offered: offered / number(&settled["seconds"])? / capacity,
            goodput: number(&settled["goodput"])? / capacity,
            goodput_of_cpu: (storm.total("good")? / storm.all) / (pages / all),
            p90: p90(settled)? / TARGET_SECONDS,
            rejected: number(&settled["rejected"])? / offered,
            rejection_ms: 1e3 * number(&settled["rejection"]["p90"])?,
            failed: number(&settled["failed"])? / offered,
            page_micros: all / pages,
            rejection_micros: (storm.talking - talking_of_pages) / storm.total("rejected")?,
            words,
        })
    }
}

/// Asks for pages while the load is on until one is rejected; how that was said. An answer may
/// take its time.
fn rejection_of(server: SocketAddr) -> std::thread::JoinHandle<Result<String>> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs_f64(SETTLED_SECONDS));
        for number in 0..100 {
            let mut stream = TcpStream::connect(server)?;
            let path = page(number);
            write!(stream, "GET /{path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
            let head = String::from_utf8_lossy(&answer[..end.context("no head")?]).into_owned();
            if head.starts_with("HTTP/1.1 503 ") {
                return Ok(head.replace("\r\n", "; "));
            }
        }
        Ok("none in a hundred requests".to_owned())
    })
}

fn page(number: usize) -> String {
    format!("{number:05}.txt")
}

fn urls(server: SocketAddr) -> String {
    (0..PAGES).fold(String::new(), |mut urls, number| {
        let _ = writeln!(urls, "http://{server}/{}", page(number));
        urls
    })
}

/// A text that compresses as texts do, the same every time: of a thousand words, few of them
/// often.
fn prose() -> String {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        // Knuth's constants for a linear congruence; its upper bits are good enough for words.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut word =
        || -> String { (0..2 + draw(8)).map(|_| char::from(b'a' + draw(26) as u8)).collect() };
    let words: Vec<String> = (0..1000).map(|_| word()).collect();
    let mut text = String::with_capacity(PAGE_BYTES + 16);
    while text.len() < PAGE_BYTES {
        let most = 1 + draw(1000);
        text.push_str(&words[draw(most) as usize]);
        text.push(if draw(12) == 0 { '\n' } else { ' ' });
    }
    text.truncate(PAGE_BYTES);
    text
}
