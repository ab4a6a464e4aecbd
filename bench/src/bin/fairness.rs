//! How evenly 1,000 busy connections are served: Jain's index over their answers, through
//! `tamarisk serve` and `tamarisk protect`, on one core [Welsh02 §5.6.1, §6.1.4].
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin fairness`
//!
//! Open: each connection asks at a pace, together half of what the server can answer. Saturated:
//! each asks again as soon as it is answered. Pipelined: one in five sends 50 requests at once and
//! waits for all of the answers. `protect` has an upstream that answers at once, and one with
//! eight workers of 2 ms, 4,000 requests a second, so that its stage rejects most of what comes.
//! The server has core 0, `serve` a quarter of it by a control group: with all of it, it would wait for
//! the clients, and who sends 50 requests at once would have 50 answers each time that these are read.
//! Clients and upstreams have core 1, each on a thread of its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use tamarisk_bench::busy_clients::{Answers, Client, judge};
use tamarisk_bench::core_share::CoreShare;
use tamarisk_bench::process::{Scratch, Server, free_address, serve, tamarisk};
use tamarisk_bench::real_traffic::upstream::{Service, Upstream, Work};
use tamarisk_bench::{Spread, spread};
use tamarisk_load::fairness_index;
use tokio::time::Instant;

const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// Of its core, for `serve`.
const SERVE_SHARE: f64 = 0.25;
/// One in so many sends its requests in bursts, where some do.
const PIPELINING: usize = 5;
const BURST: usize = 50;
const WARM_UP: Duration = Duration::from_secs(2);

/// How evenly 1,000 busy connections are served
#[derive(Debug, Parser)]
struct Options {
    /// Only rows with this in their names, such as `protect, rejecting`
    #[arg(value_name = "PART", default_value = "")]
    rows: String,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1000)]
    connections: usize,
    /// How often each row is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long a row is judged, after 2 s
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
}

/// A server, and what is asked of it.
struct Row {
    name: &'static str,
    server: Server,
    path: &'static str,
    load: Load,
}

#[derive(Clone, Copy, Debug)]
enum Load {
    Open,
    Saturated,
    Pipelined,
}

/// What one round of a row comes to.
struct Round {
    /// Over all connections.
    index: f64,
    /// Over those that send one request at a time.
    index_of_single: f64,
    /// Their least and their greatest number of answers, ÷ the mean.
    range: [f64; 2],
    /// Answers of a connection that sends bursts ÷ of one that does not.
    advantage: Option<f64>,
    answers_per_second: f64,
    rejected_share: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut core = rustix::thread::CpuSet::new();
    core.set(CLIENT_CORE);
    rustix::thread::sched_setaffinity(None, &core)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&options))
}

async fn measure(options: &Options) -> Result<()> {
    let scratch = Scratch::new("fairness-bench")?;
    scratch.write("1024.bin", &"x".repeat(1024))?;
    let folder = scratch.path().display().to_string();
    let quick = serve(CLIENT_CORE, &folder, &[])?;
    let work = Work::Answer(Service::Constant(0.002), 1024);
    let slow = on_a_thread(Upstream::new(Some(8), &[("/1024.bin", work)]))?;
    let share = CoreShare::new("fairness-bench", SERVE_SHARE)?;
    let mut rows = Vec::new();
    for load in [Load::Open, Load::Saturated, Load::Pipelined] {
        let server = serve(SERVER_CORE, &folder, &[])?;
        share.add(server.id())?;
        rows.push(Row { name: "serve", server, path: "/1024.bin", load });
    }
    for (name, upstream) in [("protect", quick.address), ("protect, rejecting", slow)] {
        for load in [Load::Open, Load::Saturated, Load::Pipelined] {
            rows.push(Row { name, server: protect(upstream)?, path: "/1024.bin", load });
        }
    }
    rows.retain(|row| row.name.contains(&options.rows));
    let mut rounds: Vec<Vec<Round>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds {
        let mut capacity = f64::NAN;
        for (row, rounds) in rows.iter().zip(&mut rounds) {
            if let Load::Open = row.load {
                let all =
                    ask(row, &saturating(options.connections), options.seconds.min(2)).await?;
                capacity = Round::of(&all, &[], options.seconds.min(2)).answers_per_second;
            }
            let clients = clients(row.load, options.connections, capacity);
            let answers = ask(row, &clients, options.seconds).await?;
            let of = |bursts: bool| -> Vec<Answers> {
                let all = clients.iter().zip(&answers);
                all.filter(|(client, _)| (client.burst > 1) == bursts).map(|(_, a)| *a).collect()
            };
            let seen = Round::of(&of(false), &of(true), options.seconds);
            eprintln!(
                "{round}/{} {}, {:?}: {:.4}, {:.0} a second, rejected {:.3}",
                options.rounds,
                row.name,
                row.load,
                seen.index,
                seen.answers_per_second,
                seen.rejected_share
            );
            rounds.push(seen);
        }
    }
    show(options, &rows, &rounds);
    // Their group is removed behind them.
    drop(rows);
    Ok(())
}

fn show(options: &Options, rows: &[Row], rounds: &[Vec<Round>]) {
    println!(
        "{} connections, {} rounds of {} s: median (least … greatest)",
        options.connections, options.rounds, options.seconds
    );
    for (row, rounds) in rows.iter().zip(rounds) {
        let all = |value: fn(&Round) -> f64| spread(rounds.iter().map(value).collect());
        println!("{}, {:?}", row.name, row.load);
        let index = |of: fn(&Round) -> f64| {
            let Spread { median, least, greatest } = all(of);
            format!("{median:.4} ({least:.4} … {greatest:.4})")
        };
        println!("  Jain's index      {}", index(|round| round.index));
        if let Load::Pipelined = row.load {
            println!("  of the others     {}", index(|round| round.index_of_single));
        }
        println!("  least ÷ mean      {}", all(|round| round.range[0]));
        println!("  most ÷ mean       {}", all(|round| round.range[1]));
        if let Load::Pipelined = row.load {
            println!("  bursts ÷ others   {}", all(|round| round.advantage.unwrap_or(f64::NAN)));
        }
        println!("  answers a second  {}", all(|round| round.answers_per_second));
        println!("  rejected          {}", all(|round| round.rejected_share));
    }
}

/// Serves on a thread of its own, on the core of this one.
fn on_a_thread(upstream: Upstream) -> Result<SocketAddr> {
    let (address, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            address.send(upstream.serve(Instant::now(), 1).await?)?;
            std::future::pending().await
        })
    });
    told.recv().context("the upstream does not start")
}

/// `tamarisk protect` on one core, before `upstream`.
fn protect(upstream: SocketAddr) -> Result<Server> {
    let address = free_address()?;
    let (command, listen) = (tamarisk()?.display().to_string(), address.to_string());
    let upstream = format!("http://{upstream}");
    let command =
        [&*command, "protect", &upstream, "--p90", "200ms", "--cores", "1", "--listen", &listen];
    Server::start(SERVER_CORE, &command, address)
}

async fn ask(row: &Row, clients: &[Client], seconds: u64) -> Result<Vec<Answers>> {
    let judged = Duration::from_secs(seconds);
    judge(row.server.address, row.path, clients, WARM_UP, judged)
        .await
        .with_context(|| format!("{}, {:?}", row.name, row.load))
}

fn saturating(connections: usize) -> Vec<Client> {
    vec![Client { burst: 1, every: None }; connections]
}

fn clients(load: Load, connections: usize, capacity: f64) -> Vec<Client> {
    let mut clients = saturating(connections);
    match load {
        Load::Saturated => {}
        Load::Open => {
            let every = Duration::from_secs_f64(connections as f64 / (0.5 * capacity));
            clients.iter_mut().for_each(|client| client.every = Some(every));
        }
        Load::Pipelined => {
            clients.iter_mut().step_by(PIPELINING).for_each(|client| client.burst = BURST);
        }
    }
    clients
}

impl Round {
    fn of(single: &[Answers], bursts: &[Answers], seconds: u64) -> Self {
        let served = |answers: &[Answers]| -> Vec<u32> {
            answers.iter().map(|answers| answers.served).collect()
        };
        let mean = |served: &[u32]| {
            served.iter().map(|&served| f64::from(served)).sum::<f64>() / served.len() as f64
        };
        let (of_single, of_bursts) = (served(single), served(bursts));
        let single_mean = mean(&of_single);
        let range = [of_single.iter().min(), of_single.iter().max()];
        let all = || single.iter().chain(bursts);
        let total: f64 = all().map(|answers| f64::from(answers.served)).sum();
        let rejected: f64 = all().map(|answers| f64::from(answers.rejected)).sum();
        Self {
            index: fairness_index(&[&*of_single, &of_bursts].concat()).unwrap_or(0.0),
            index_of_single: fairness_index(&of_single).unwrap_or(0.0),
            range: range.map(|count| f64::from(*count.unwrap_or(&0)) / single_mean),
            advantage: (!bursts.is_empty()).then(|| mean(&of_bursts) / single_mean),
            answers_per_second: total / seconds as f64,
            rejected_share: rejected / (total + rejected),
        }
    }
}
