//! Bursts of 8 KB packets over 1 to 8,192 sockets: sockets read by events, whose packets go to a
//! stage, beside a thread for each connection [Welsh02 §5.8.3, fig. 35].
//!
//! `cargo run --release -p tamarisk-bench --bin sockets`
//!
//! A client sends 1,000 packets and waits for an answer of 32 bytes. The server has core 0, all of
//! the clients core 1. Both servers read at most 16 KB at once, as the thesis's did; its writes went
//! to a pool of 120 threads, here each thread writes its own answers, which costs less.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use tamarisk_bench::process::{Server, free_address};
use tamarisk_bench::spread;
use tamarisk_control::Target;
use tamarisk_stage::{Batch, BoxError, Handler, Stage, StageBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
const PACKET: usize = 8 * 1024;
const BURST: usize = 1000 * PACKET;
const ANSWER: [u8; 32] = [7; 32];
const READ_MAX: usize = 16 * 1024;
/// Packets between the sockets and the stage: a batch, 1 MB, which a cache has room for.
const PACKETS_MAX: usize = 64;
/// Enough for a loop around one buffer.
const STACK: usize = 128 * 1024;

/// Bursts of 8 KB packets, by events and by a thread for each connection
#[derive(Debug, Parser)]
struct Options {
    /// How many sockets
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64, 256, 400, 1024, 2048, 4096, 8192])]
    sockets: Vec<usize>,
    /// How often each number is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long it is judged
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u64,
    /// Be the server
    #[arg(long, hide = true, requires = "listen")]
    serve: Option<Kind>,
    #[arg(long, hide = true)]
    listen: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Events,
    Threads,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match (options.serve, options.listen) {
        (Some(Kind::Events), Some(address)) => runtime.block_on(serve_events(address)),
        (Some(Kind::Threads), Some(address)) => serve_threads(address),
        _ => compare(&options, &runtime),
    }
}

/// A packet, and whom it came from.
struct Packet {
    from: Arc<Connection>,
    bytes: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

struct Connection {
    received: AtomicU64,
    write: Mutex<OwnedWriteHalf>,
}

/// Counts packets, and answers the last one of each burst.
struct Bursts;

impl Handler<Packet> for Bursts {
    async fn handle(&mut self, batch: &mut Batch<Packet>) -> Result<(), BoxError> {
        for event in batch.drain() {
            let Packet { from, bytes, .. } = event.into_event();
            if ends_burst(&from.received, bytes.len()) {
                from.write.lock().await.write_all(&ANSWER).await?;
            }
        }
        Ok(())
    }
}

/// Counts what was received, a burst at most.
fn ends_burst(received: &AtomicU64, bytes: usize) -> bool {
    let all = received.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    all.is_multiple_of(BURST as u64)
}

async fn serve_events(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    let target = Target::p90(Duration::from_secs(60))?;
    let stage: Stage<Packet> =
        StageBuilder::new("bursts").workers(1).batch(64).target(target).tasks(|| Bursts)?;
    let places = Arc::new(Semaphore::new(PACKETS_MAX));
    loop {
        let (stream, _) = listener.accept().await?;
        let (sink, places) = (stage.sink(), Arc::clone(&places));
        tokio::spawn(async move {
            let (read, write) = stream.into_split();
            let from = Arc::new(Connection { received: AtomicU64::new(0), write: write.into() });
            loop {
                // A place is for a packet that is there.
                if read.readable().await.is_err() {
                    return;
                }
                let place = Arc::clone(&places).acquire_owned().await.expect("it stays open");
                let mut bytes = Vec::with_capacity(READ_MAX);
                match read.try_read_buf(&mut bytes) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    _ => return,
                }
                let packet = Packet { from: Arc::clone(&from), bytes, _place: place };
                if let Err(error) = sink.try_send(packet) {
                    panic!("rejected: {:?}", error.rejection);
                }
            }
        });
    }
}

fn serve_threads(address: SocketAddr) -> Result<()> {
    let listener = std::net::TcpListener::bind(address)?;
    loop {
        let (mut stream, _) = listener.accept()?;
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(move || {
            let (received, mut bytes) = (AtomicU64::new(0), vec![0; READ_MAX]);
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                if ends_burst(&received, count) && stream.write_all(&ANSWER).is_err() {
                    return;
                }
            }
        })?;
    }
}

/// What a server did with so many sockets.
struct Run {
    megabytes_per_second: f64,
    /// Microseconds of its CPU time for each packet.
    cost: f64,
}

fn compare(options: &Options, runtime: &tokio::runtime::Runtime) -> Result<()> {
    let mut core = rustix::thread::CpuSet::new();
    core.set(CLIENT_CORE);
    rustix::thread::sched_setaffinity(None, &core)?;
    println!(
        "MB a second; in brackets µs of the server's CPU time a packet: median of {} (least … greatest)",
        options.rounds
    );
    println!("{:>7}  {:<52}  {:<52}  ratio", "sockets", "events and a stage", "a thread each");
    for &sockets in &options.sockets {
        let mut runs = [Vec::new(), Vec::new()];
        for round in 1..=options.rounds {
            for (kind, runs) in [Kind::Events, Kind::Threads].into_iter().zip(&mut runs) {
                let run = runtime.block_on(run(kind, sockets, options.seconds))?;
                eprintln!(
                    "{round}/{} {sockets} {kind:?}: {:.0}",
                    options.rounds, run.megabytes_per_second
                );
                runs.push(run);
            }
        }
        let shown = runs.each_ref().map(|runs| {
            let [all, cost] = [|run: &Run| run.megabytes_per_second, |run: &Run| run.cost]
                .map(|value: fn(&Run) -> f64| spread(runs.iter().map(value).collect()));
            format!(
                "{:.0} ({:.0} … {:.0}) [{:.2}, {:.2} … {:.2}]",
                all.median, all.least, all.greatest, cost.median, cost.least, cost.greatest
            )
        });
        let [events, threads] = &runs;
        let ratio = events.iter().zip(threads);
        let ratio = ratio.map(|(one, other)| one.megabytes_per_second / other.megabytes_per_second);
        println!("{sockets:>7}  {:<52}  {:<52}{}", shown[0], shown[1], spread(ratio.collect()));
    }
    Ok(())
}

async fn run(kind: Kind, sockets: usize, seconds: u64) -> Result<Run> {
    let address = free_address()?;
    let myself = std::env::current_exe()?.display().to_string();
    let (kind, listen) = (format!("{kind:?}").to_lowercase(), address.to_string());
    let server =
        Server::start(SERVER_CORE, &[&myself, "--serve", &kind, "--listen", &listen], address)?;
    let sent = Arc::new(AtomicU64::new(0));
    // All of them before the first sends, which would leave little of the core for connecting.
    let mut streams = Vec::with_capacity(sockets);
    for client in 0..sockets {
        let stream = TcpStream::connect(address).await;
        streams.push(stream.with_context(|| format!("client {client} of {sockets}"))?);
    }
    let mut clients = JoinSet::new();
    for stream in streams {
        clients.spawn(client_of(stream, Arc::clone(&sent)));
    }
    // Until all buffers on the way are full.
    wait(&mut clients, Duration::from_secs(1)).await?;
    let before = (sent.load(Ordering::Relaxed), server.cpu_time());
    wait(&mut clients, Duration::from_secs(seconds)).await?;
    let bytes = sent.load(Ordering::Relaxed) - before.0;
    let spent = server.cpu_time() - before.1;
    Ok(Run {
        megabytes_per_second: bytes as f64 / seconds as f64 / 1e6,
        cost: spent.as_secs_f64() * 1e6 / (bytes as f64 / PACKET as f64),
    })
}

async fn wait(clients: &mut JoinSet<Result<()>>, time: Duration) -> Result<()> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        Some(ended) = clients.join_next() => ended?.context("a client could not go on"),
    }
}

async fn client_of(mut stream: TcpStream, sent: Arc<AtomicU64>) -> Result<()> {
    let packet = [1; PACKET];
    loop {
        for _ in 0..BURST / PACKET {
            stream.write_all(&packet).await?;
            sent.fetch_add(PACKET as u64, Ordering::Relaxed);
        }
        stream.read_exact(&mut [0; ANSWER.len()]).await?;
    }
}
