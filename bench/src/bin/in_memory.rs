//! What 200,000 idle connections cost the web server: memory each, and the throughput of 64 busy
//! ones beside them. Over memory instead of sockets, of which a process may not have so many.
//!
//! `cargo run --profile dist -p tamarisk-bench --bin in_memory`
//!
//! The connections are served as those of sockets are, by [`Server::serve_stream`]. One server
//! has the idle ones, another one has none; they take turns on core 0, the clients have core 1.
//! What the transport takes (two pipes of tokio's [`duplex`], of the kernel's memory with sockets)
//! is measured first, by itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use tamarisk_bench::process::Scratch;
use tamarisk_bench::{Spread, cpu_time_of_thread, spread};
use tamarisk_control::Target;
use tamarisk_haboob::{CoreSite, Site, SiteOptions};
use tamarisk_server::{Drain, DrainTrigger, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

/// As for the `tamarisk` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BUSY: usize = 64;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
const PAGE: &str = "1024.bin";
const REQUEST: &[u8] = b"GET /1024.bin HTTP/1.1\r\nhost: in.memory\r\n\r\n";
/// What a pipe holds at most: as much as a socket does at first.
const PIPE_BYTES: usize = 64 * 1024;
/// Longer than the benchmark: no idle connection is closed.
const IDLE_TIME: Duration = Duration::from_secs(3600);

/// What idle connections cost the web server, without sockets
#[derive(Debug, Parser)]
struct Options {
    /// How many connections are idle
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    idle: usize,
    /// How often each server has its turn
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// How long a turn is
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let scratch = Scratch::new("in-memory-bench")?;
    scratch.write(PAGE, &"x".repeat(1024))?;
    let start = || InMemory::start(SiteOptions::new(scratch.path(), Target::p90(IDLE_TIME)?));
    let (crowded, alone) = (start()?, start()?);
    let clients = Builder::new_current_thread().build()?;
    stay_on(CLIENT_CORE)?;
    // The first answers: the page is read, and each server has what it needs for the busy ones.
    let length = clients.block_on(answer_length(&crowded))?;
    for server in [&crowded, &alone] {
        Turn::of(server, &clients, length, 1)?;
    }
    let (transport, _pipes) =
        memory_each(options.idle, || clients.block_on(pipes(options.idle, length)))?;
    let (each, _idle) = memory_each(options.idle, || {
        clients.block_on(connections(&crowded, options.idle, length))
    })?;
    println!("{} connections, each answered once and idle, bytes of memory each", options.idle);
    println!("  the server (≤ 8192)     {:8.0}", each - transport);
    println!("  the transport           {transport:8.0}");
    let mut turns = [Vec::new(), Vec::new()];
    for turn in 1..=options.turns {
        for (turns, server) in turns.iter_mut().zip([&crowded, &alone]) {
            turns.push(Turn::of(server, &clients, length, options.seconds)?);
        }
        eprintln!("{turn}/{}: {:?}", options.turns, turns.each_ref().map(|turns| turns.last()));
    }
    println!("{BUSY} busy ones: median of {} (least … greatest)", options.turns);
    for (name, turns) in ["beside the idle ones", "alone"].iter().zip(&turns) {
        let all = |value: fn(&Turn) -> f64| spread(turns.iter().map(value).collect());
        println!("  {name}");
        println!("    answers a second      {}", all(|turn| turn.throughput));
        println!("    CPU time an answer, µs{}", all(|turn| turn.cost));
    }
    let ratios =
        turns[0].iter().zip(&turns[1]).map(|(beside, alone)| beside.throughput / alone.throughput);
    let Spread { median, least, greatest } = spread(ratios.collect());
    println!("throughput ÷ alone, paired (≥ 0.95): {median:.2}  ({least:.2} … {greatest:.2})");
    Ok(())
}

/// A web server whose clients are in its own process, on a thread and a core of its own.
struct InMemory {
    handle: Handle,
    /// The thread's number, for the system's accounts.
    thread: String,
    server: Server,
    site: CoreSite,
    drain: Drain,
    /// Never triggered.
    _open: DrainTrigger,
}

impl InMemory {
    fn start(options: SiteOptions) -> Result<Self> {
        let (sender, started) = mpsc::channel();
        // It ends with the process.
        std::thread::spawn(move || {
            let runtime = || -> Result<Runtime> {
                stay_on(SERVER_CORE)?;
                Ok(Builder::new_current_thread().enable_all().build()?)
            };
            let runtime = match runtime() {
                Ok(runtime) => runtime,
                Err(error) => return sender.send(Err(error)),
            };
            runtime.block_on(async {
                let started = Site::open(options).map(|site| {
                    let thread = gettid().as_raw_nonzero().to_string();
                    (Handle::current(), thread, site.on_core())
                });
                let sent = sender.send(started.map_err(anyhow::Error::from));
                std::future::pending::<()>().await;
                sent
            })
        });
        let (handle, thread, site) = started.recv().context("a server ended at once")??;
        let server = Server::default().connections_max(usize::MAX).idle_time(IDLE_TIME);
        let (open, drain) = DrainTrigger::new();
        Ok(Self { handle, thread, server, site, drain, _open: open })
    }

    /// A client's end of a new connection.
    fn connect(&self) -> DuplexStream {
        let (ours, theirs) = duplex(PIPE_BYTES);
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let connection =
            self.server.serve_stream(theirs, self.site.connect(client), self.drain.clone());
        self.handle.spawn(connection);
        ours
    }
}

/// What the busy clients of a server saw.
#[derive(Debug)]
struct Turn {
    /// Answers a second.
    throughput: f64,
    /// CPU time of the server's thread, microseconds an answer.
    cost: f64,
}

impl Turn {
    fn of(server: &InMemory, clients: &Runtime, length: usize, seconds: u32) -> Result<Self> {
        let (before, began) = (cpu_time_of_thread("self", &server.thread), Instant::now());
        let end = began + Duration::from_secs(u64::from(seconds));
        let answers = clients.block_on(async {
            let mut clients = JoinSet::new();
            for _ in 0..BUSY {
                clients.spawn(busy(server.connect(), length, end));
            }
            let mut answers = 0_u64;
            while let Some(answered) = clients.join_next().await {
                answers += answered.context("a client panicked")??;
            }
            Ok::<_, anyhow::Error>(answers as f64)
        })?;
        let spent = cpu_time_of_thread("self", &server.thread) - before;
        let throughput = answers / began.elapsed().as_secs_f64();
        Ok(Self { throughput, cost: 1e6 * spent.as_secs_f64() / answers })
    }
}

/// Asks again and again, until `end`; how often it was answered.
async fn busy(mut stream: DuplexStream, length: usize, end: Instant) -> Result<u64> {
    let mut answer = vec![0; length];
    let mut answers = 0;
    while Instant::now() < end {
        ask(&mut stream, &mut answer).await?;
        answers += 1;
    }
    Ok(answers)
}

async fn ask(stream: &mut DuplexStream, answer: &mut [u8]) -> Result<()> {
    stream.write_all(REQUEST).await?;
    stream.read_exact(answer).await.context("the answer was shorter than the first one")?;
    ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{:?}", String::from_utf8_lossy(answer));
    Ok(())
}

/// The bytes of an answer, which are as many each time.
async fn answer_length(server: &InMemory) -> Result<usize> {
    let mut stream = server.connect();
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"xxxx") {
        ensure!(stream.read_buf(&mut answer).await? > 0, "closed without an answer");
    }
    // What comes in pieces must not be taken for the whole.
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").context("no head")?;
    Ok(head + 4 + 1024)
}

/// So many connections, each answered once.
async fn connections(server: &InMemory, count: usize, length: usize) -> Result<Vec<DuplexStream>> {
    let mut answer = vec![0; length];
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = server.connect();
        ask(&mut stream, &mut answer).await?;
        open.push(stream);
    }
    Ok(open)
}

/// The same pipes without a server, which have carried the same.
async fn pipes(count: usize, length: usize) -> Result<Vec<(DuplexStream, DuplexStream)>> {
    let (mut request, mut answer) = ([0; REQUEST.len()], vec![0; length]);
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut ours, mut theirs) = duplex(PIPE_BYTES);
        ours.write_all(REQUEST).await?;
        theirs.read_exact(&mut request).await?;
        theirs.write_all(&answer).await?;
        ours.read_exact(&mut answer).await?;
        open.push((ours, theirs));
    }
    Ok(open)
}

/// Bytes of memory that this process has more of once there is what `make` makes, for each of
/// so many.
fn memory_each<T>(count: usize, make: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let before = memory()?;
    let made = make()?;
    Ok(((memory()? - before) / count as f64, made))
}

/// Bytes that this process holds in memory.
fn memory() -> Result<f64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split_whitespace().nth(1).context("no resident set")?;
    Ok(resident.parse::<f64>()? * rustix::param::page_size() as f64)
}

/// Keeps the thread that this is called on, and those that it starts, on `core`.
fn stay_on(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).context("cannot choose the core")
}
