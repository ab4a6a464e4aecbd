//! What 18,000 idle connections cost `tamarisk serve`: memory each, and the throughput of 64
//! busy ones beside them.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin connections`
//!
//! Needs wrk, and leave to open 20,000 files. One server has the idle connections, another one
//! has none; they take turns on core 0, the load generator has core 1.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use tamarisk_bench::process::{Scratch, Server, serve};
use tamarisk_bench::wrk::Wrk;
use tamarisk_bench::{Spread, spread};

const REPETITIONS: usize = 7;
const SECONDS: u32 = 3;
const IDLE: usize = 18_000;
const SERVER_CORE: usize = 0;
const WRK: Wrk = Wrk { core: 1, connections: 64 };
const PATH: &str = "/1024.bin";

fn main() -> Result<()> {
    let scratch = Scratch::new("connections-bench")?;
    scratch.write(&PATH[1..], &"x".repeat(1024))?;
    let folder = scratch.path().display().to_string();
    let start = || serve(SERVER_CORE, &folder, &[]);
    let (crowded, alone) = (start()?, start()?);
    for server in [&crowded, &alone] {
        WRK.load(server, PATH, 2)?;
    }
    let before = memory(&crowded)?;
    let mut idle = Vec::with_capacity(IDLE);
    for count in 1..=IDLE {
        idle.push(answered(&crowded).with_context(|| format!("connection {count}"))?);
    }
    let bytes = (memory(&crowded)? - before) / IDLE as f64;
    println!("{IDLE} connections, each answered once and idle: {bytes:.0} bytes of memory each");
    let mut costs = [Vec::new(), Vec::new()];
    for repetition in 0..REPETITIONS {
        for (costs, server) in costs.iter_mut().zip([&crowded, &alone]) {
            let (micros, load) = WRK.cost(server, PATH, SECONDS)?;
            ensure!(load.rejected == 0.0, "{} requests were rejected", load.rejected);
            costs.push(micros);
        }
        eprintln!("{}/{REPETITIONS}", repetition + 1);
    }
    println!("µs of CPU time a request of 64 others: median of {REPETITIONS} (least … greatest)");
    println!("  beside the idle ones{}", spread(costs[0].clone()));
    println!("  alone               {}", spread(costs[1].clone()));
    // The core is full in both cases, so throughput is the inverse of what a request costs.
    let ratios = costs[0].iter().zip(&costs[1]).map(|(crowded, alone)| alone / crowded).collect();
    let Spread { median, least, greatest } = spread(ratios);
    println!("throughput ÷ alone, paired: {median:.2}  ({least:.2} … {greatest:.2})");
    Ok(())
}

/// A connection that has had an answer, and is kept.
fn answered(server: &Server) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(server.address)?;
    write!(stream, "GET {PATH} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address)?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.ends_with(b"xxxx") {
        let length = stream.read(&mut piece)?;
        ensure!(length > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..length]);
    }
    ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{:?}", String::from_utf8_lossy(&answer));
    Ok(stream)
}

/// Bytes that the server holds in memory.
fn memory(server: &Server) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(kib.parse::<f64>()? * 1024.0)
}
