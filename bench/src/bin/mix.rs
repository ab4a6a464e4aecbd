//! The paper's load on `tamarisk serve`, nginx and h2o: the static files of SPECweb99, 1024
//! clients who think for 20 ms and connect anew after five requests [Welsh02 §6.1.3].
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin mix`
//!
//! Needs nginx and h2o (Debian's packages), and with `--apache` its `apache2`: the thesis's Apache had a
//! process for each connection, 150 at most (figs 37 to 40). The servers run side by side and take turns on
//! core 0, the load generator has core 1. Each has been asked for every file once before it is
//! measured, so the files are in the system's memory; our page cache holds all of the small set
//! and 200 MiB of the paper's (`--set full`), as the paper's did.
//!
//! The clients could ask for 51,200 pages a second if they were answered at once. What bounds the
//! throughput is the server's core, the generator's or the clients' leisure: the shares of both
//! cores say which. The paper had thirty-two machines for its clients, so that the server was the
//! bottleneck; where there is one core for them, `--share 0.5` makes it so: the servers, one after
//! the other, have half of theirs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use tamarisk_bench::core_share::CoreShare;
use tamarisk_bench::file_set::FileSet;
use tamarisk_bench::load::{load, number};
use tamarisk_bench::process::{Scratch, Server, apache_prefork, h2o, nginx, serve};
use tamarisk_bench::{cpu_time_of_the_ended, spread};

const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// As many as the thesis found best [Welsh02 §6.1.3].
const APACHE_PROCESSES: u32 = 150;
/// What comes before is not judged: connections are opened and pages read for the first time.
const WARM_UP_SECONDS: u32 = 2;
/// How long a server may be silent when it is asked for a file that the disk may have to give.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// The paper's load on `tamarisk serve`, nginx and h2o
#[derive(Debug, Parser)]
#[command(after_help = "\
Examples:
  Three minutes with 205 MB of files:
    mix
  The paper's 3.31 GB, kept for the next time:
    mix --set full --folder /var/tmp/specweb99
  The same with the server as the bottleneck, as root:
    mix --set full --folder /var/tmp/specweb99 --share 0.5
  With a process for each connection beside, as in figs 37 to 40:
    mix --apache --clients 1024 --seconds 20
    mix --apache --clients 64 --seconds 20
  With as much memory for our pages as the system gives the others:
    mix --set full --folder /var/tmp/specweb99 --cache 5GiB")]
struct Options {
    /// Which files
    #[arg(long, value_enum, default_value_t = Set::Small)]
    set: Set,
    /// Write them here, where they stay for the next time [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Memory for our pages [default: 512MiB; for the paper's set 200MiB, as the paper's]
    #[arg(long, value_name = "SIZE")]
    cache: Option<String>,
    /// How much of its core a server has: needs control groups, and who may make them
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = part)]
    share: f64,
    /// Apache too, with a process for each connection, 150 at most
    #[arg(long)]
    apache: bool,
    /// How many clients
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// How often each server has its turn
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// How long a turn is judged, after a warm-up of 2 s
    #[arg(long, value_name = "SECONDS", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if (0.01..=1.0).contains(&part) => Ok(part),
        _ => Err("a part of a core is between 0.01 and 1".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Set {
    /// 40 directories, 205 MB
    Small,
    /// The paper's: 681 directories, 3.5 GB
    Full,
}

impl Set {
    fn files(self) -> FileSet {
        match self {
            Self::Small => FileSet::SMALL,
            Self::Full => FileSet::FULL,
        }
    }

    /// Memory for our pages.
    fn cache(self) -> &'static str {
        match self {
            // In parts, which must have room for what falls to them.
            Self::Small => "512MiB",
            Self::Full => "200MiB",
        }
    }
}

/// A server and where the URLs of its files stand.
struct Contestant {
    name: &'static str,
    server: Server,
    urls: String,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let set = options.set.files();
    let scratch = Scratch::new("mix-bench")?;
    let folder = options.folder.clone().unwrap_or_else(|| scratch.path().join("files"));
    if !set.is_in(&folder) {
        eprintln!("writing {} files to {}", set.count(), folder.display());
        set.write(&folder)?;
    }
    let cache = options.cache.as_deref().unwrap_or_else(|| options.set.cache());
    let share =
        (options.share < 1.0).then(|| CoreShare::new("mix-bench", options.share)).transpose()?;
    let contestants = contestants(&scratch, &options, cache, &folder)?;
    for Contestant { server, .. } in &contestants {
        ask_for_all(server.address, set)?;
        for (share, process) in
            share.iter().flat_map(|share| server.processes().into_iter().map(move |id| (share, id)))
        {
            share.add(process)?;
        }
    }
    let mut turns: Vec<Vec<Turn>> = contestants.iter().map(|_| Vec::new()).collect();
    for turn in 1..=options.turns {
        for (contestant, turns) in contestants.iter().zip(&mut turns) {
            turns.push(Turn::of(contestant, &options)?);
            let Contestant { name, .. } = contestant;
            eprintln!("{turn}/{} {name}: {:?}", options.turns, turns[turns.len() - 1]);
        }
    }
    println!(
        "{} files, {} MB, {} clients: median of {} (least … greatest)",
        set.count(),
        set.bytes() / 1_000_000,
        options.clients,
        options.turns
    );
    for (contestant, turns) in contestants.iter().zip(&turns) {
        show(contestant.name, turns);
    }
    compare(&turns);
    Ok(())
}

fn contestants(
    scratch: &Scratch,
    options: &Options,
    cache: &str,
    folder: &Path,
) -> Result<Vec<Contestant>> {
    let set = options.set;
    let folder = folder.display().to_string();
    let contestant = |name, server: Server| -> Result<Contestant> {
        let urls = scratch.write(&format!("{name}.urls"), &set.files().urls(server.address))?;
        Ok(Contestant { name, server, urls })
    };
    let nginx = nginx(scratch, "nginx", SERVER_CORE, |address| {
        format!(
            "sendfile on; tcp_nopush on; open_file_cache max=10000;\n\
             server {{ listen {address} backlog=4096; root {folder}; }}"
        )
    })?;
    let mut all = vec![
        contestant("tamarisk", serve(SERVER_CORE, &folder, &["--cache", cache])?)?,
        contestant("nginx", nginx)?,
        contestant("h2o", h2o(scratch, SERVER_CORE, &folder)?)?,
    ];
    if options.apache {
        let apache = apache_prefork(scratch, SERVER_CORE, &folder, APACHE_PROCESSES)?;
        all.push(contestant("apache", apache)?);
    }
    Ok(all)
}

/// Reads every file once.
fn ask_for_all(server: SocketAddr, set: FileSet) -> Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    for path in set.paths() {
        // In one piece: the rest of one in several would wait for an acknowledgement.
        let request = format!("GET /{path} HTTP/1.1\r\nhost: {server}\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        read_answer(&mut stream).with_context(|| format!("/{path}"))?;
    }
    Ok(())
}

fn read_answer(stream: &mut TcpStream) -> Result<()> {
    let mut answer = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let length = stream.read(&mut piece)?;
        ensure!(length > 0, "closed after {} bytes", answer.len());
        answer.extend_from_slice(&piece[..length]);
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&answer[..end])?.to_ascii_lowercase();
        ensure!(head.starts_with("http/1.1 200 "), "{head}");
        let body = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut rest = body.context("no length")?.trim().parse::<usize>()? + end + 4 - answer.len();
        while rest > 0 {
            let room = rest.min(piece.len());
            let length = stream.read(&mut piece[..room])?;
            ensure!(length > 0, "closed {rest} bytes before its end");
            rest -= length;
        }
        return Ok(());
    }
}

/// What the clients of a server saw.
#[derive(Debug)]
struct Turn {
    /// Answers a second.
    throughput: f64,
    /// Megabytes of answers a second.
    megabytes: f64,
    /// Jain's index over the clients' answers.
    fairness: f64,
    /// Response times in milliseconds: the median, the 90th and the 99th percentile, the longest.
    times: [f64; 4],
    /// Requests that failed or were rejected.
    errors: f64,
    /// CPU time of the server, microseconds an answer.
    cost: f64,
    /// Share of its core that the server used.
    busy: f64,
    /// CPU time of the load generator, microseconds an answer.
    generator_cost: f64,
    /// Share of its core that the load generator used.
    generator_busy: f64,
}

impl Turn {
    fn of(contestant: &Contestant, &Options { clients, seconds, .. }: &Options) -> Result<Self> {
        let clients = clients.to_string();
        let warm = format!("{clients}@{WARM_UP_SECONDS}s");
        let duration = WARM_UP_SECONDS + seconds;
        let before = (contestant.server.cpu_time(), cpu_time_of_the_ended());
        #[rustfmt::skip]
        let report = load(Some(CLIENT_CORE), &[
            "--urls", &contestant.urls, "--users", &clients, "--think", "20ms",
            "--requests-per-connection", "5", "--threads", "1", "--timeout", "60s",
            // The same level once more: the report then has a phase that begins here.
            "--step", &warm, "--duration", &format!("{duration}s"),
        ])?;
        let spent = (contestant.server.cpu_time() - before.0).as_secs_f64();
        let generator_spent = (cpu_time_of_the_ended() - before.1).as_secs_f64();
        let (judged, total) = (&report["phases"][1], &report["total"]);
        let seconds = f64::from(seconds);
        let time = |name: &str| number(&judged["latency"][name]).map(|seconds| 1e3 * seconds);
        let errors = number(&total["rejected"])? + number(&total["failed"])?;
        let answers = number(&total["completed"])?;
        Ok(Self {
            throughput: number(&judged["throughput"])?,
            megabytes: number(&judged["bytes"])? / seconds / 1e6,
            fairness: number(&judged["fairness"]).context("no client was answered")?,
            times: [time("p50")?, time("p90")?, time("p99")?, time("max")?],
            errors,
            cost: 1e6 * spent / answers,
            busy: spent / f64::from(duration),
            generator_cost: 1e6 * generator_spent / answers,
            generator_busy: generator_spent / f64::from(duration),
        })
    }

    fn worst_to_p99(&self) -> f64 {
        let [.., p99, worst] = self.times;
        worst / p99
    }
}

fn show(name: &str, turns: &[Turn]) {
    let all = |value: fn(&Turn) -> f64| spread(turns.iter().map(value).collect());
    println!("{name}");
    println!("  answers a second         {}", all(|turn| turn.throughput));
    println!("  MB a second              {}", all(|turn| turn.megabytes));
    println!("  Jain's index (≥ 0.99)    {}", all(|turn| turn.fairness));
    println!("  response time, p50, ms   {}", all(|turn| turn.times[0]));
    println!("                 p90       {}", all(|turn| turn.times[1]));
    println!("                 p99       {}", all(|turn| turn.times[2]));
    println!("                 worst     {}", all(|turn| turn.times[3]));
    println!("  worst ÷ p99 (≤ 3)        {}", all(Turn::worst_to_p99));
    println!("  errors                   {}", all(|turn| turn.errors));
    println!("  CPU time an answer, µs   {}", all(|turn| turn.cost));
    println!("  share of the core used   {}", all(|turn| turn.busy));
    println!("  the generator's, µs      {}", all(|turn| turn.generator_cost));
    println!("                 share     {}", all(|turn| turn.generator_busy));
}

/// The first of the servers beside the best of the others in the same round.
fn compare(turns: &[Vec<Turn>]) {
    let paired = |value: fn(&Turn) -> f64, best: fn(f64, f64) -> f64| {
        let of_others = |round: usize| {
            turns[1..].iter().map(|turns| value(&turns[round])).reduce(best).unwrap_or(f64::NAN)
        };
        let ours = turns[0].iter().map(value).enumerate();
        spread(ours.map(|(round, ours)| ours / of_others(round)).collect())
    };
    let throughput = paired(|turn| turn.throughput, f64::max);
    let cost = paired(|turn| turn.cost, f64::min);
    println!("tamarisk ÷ the better of the others, paired");
    println!("  throughput (≥ 1.1)       {throughput}");
    println!("  CPU time an answer       {cost}");
}
