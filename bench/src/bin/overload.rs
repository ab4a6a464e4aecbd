//! An upstream of known capacity behind `tamarisk protect`: offered ten times as much,
//! and offered four fifths of it, open loop.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin overload`
//!
//! All by the commands that a user would run: `demo --serve` is the upstream, `load`
//! finds its capacity with a closed loop and then sends the streams. Each repetition
//! has a proxy of its own that has seen nothing before.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tamarisk_bench::load::{load, number, p90};
use tamarisk_bench::process::{Server, free_address, tamarisk};
use tamarisk_bench::spread;

const REPETITIONS: usize = 5;
const TARGET: &str = "200ms";
const TARGET_SECONDS: f64 = 0.2;
/// The step comes here, into the run at 0.8 × capacity; judged from two seconds later.
const STEP_SECONDS: f64 = 10.0;
const SETTLED_SECONDS: f64 = STEP_SECONDS + 2.0;
const END_SECONDS: f64 = 30.0;

fn main() -> Result<()> {
    let service = start(&["demo", "--serve"])?;
    let mut capacities = Vec::new();
    let mut runs = Vec::new();
    for repetition in 1..=REPETITIONS {
        let capacity = capacity(service.address)?;
        let run = Run::of(service.address, capacity)?;
        eprintln!("{repetition}/{REPETITIONS} capacity {capacity:.0}/s, {run:?}");
        capacities.push(capacity);
        runs.push(run);
    }
    let all = |value: fn(&Run) -> f64| spread(runs.iter().map(value).collect());
    println!("median of {REPETITIONS} (least … greatest); capacity {}/s", spread(capacities));
    println!("  at 0.8 × capacity, rejected, %      {}", all(|run| 100.0 * run.rejected_below));
    println!("  at 10 × capacity, goodput ÷ capacity{}", all(|run| run.goodput));
    println!("  at 10 × capacity, p90 ÷ target      {}", all(|run| run.p90));
    println!("  settled after the step, s           {}", all(|run| run.settled));
    Ok(())
}

#[derive(Debug)]
struct Run {
    /// Share of the requests that were rejected below capacity.
    rejected_below: f64,
    /// Ratio to capacity, from two seconds after the step.
    goodput: f64,
    /// Of the admitted, ratio to the target, from two seconds after the step.
    p90: f64,
    /// From the step until the first second in which both bars are kept.
    settled: f64,
}

impl Run {
    fn of(service: SocketAddr, capacity: f64) -> Result<Self> {
        let upstream = format!("http://{service}");
        let proxy = start(&["protect", &upstream, "--p90", TARGET, "--listen"])?;
        let (below, above) = (0.8 * capacity, 10.0 * capacity);
        let report = load(
            None,
            &[
                &format!("http://{}/", proxy.address),
                "--target",
                TARGET,
                "--rate",
                &format!("{below}"),
                "--step",
                &format!("{above}@{STEP_SECONDS}s"),
                // The same level once more: the report then has a phase that begins here.
                "--step",
                &format!("{above}@{SETTLED_SECONDS}s"),
                "--duration",
                &format!("{END_SECONDS}s"),
                "--interval",
                "250ms",
            ],
        )?;
        let phase = |index: usize| &report["phases"][index];
        let (calm, settled) = (phase(0), phase(2));
        no_failures(&report)?;
        Ok(Self {
            rejected_below: number(&calm["rejected"])? / number(&calm["offered"])?,
            goodput: number(&settled["goodput"])? / capacity,
            p90: p90(settled)? / TARGET_SECONDS,
            settled: settling(&report, capacity)?,
        })
    }
}

/// The generator may have been late for the last request or two of its schedule;
/// nothing else may go wrong.
fn no_failures(report: &Value) -> Result<()> {
    let errors = report["total"]["errors"].as_object().context("a report has errors")?;
    let other = errors.iter().find(|(kind, _)| *kind != "not sent");
    ensure!(other.is_none(), "requests failed: {errors:?}");
    Ok(())
}

/// How long after the step the first second begins in which goodput and p90 keep
/// their bars. A second is four intervals, because a quarter of one has too few events.
fn settling(report: &Value, capacity: f64) -> Result<f64> {
    const SECOND: usize = 4;
    let series = report["series"].as_array().context("a report has a series")?;
    for second in series.windows(SECOND) {
        let start = number(&second[0]["start"])?;
        if start < STEP_SECONDS {
            continue;
        }
        let mut good = 0.0;
        let mut p90: f64 = 0.0;
        for interval in second {
            good += number(&interval["good"])?;
            p90 = p90.max(number(&interval["latency"]["p90"])?);
        }
        if good >= 0.95 * capacity && p90 <= TARGET_SECONDS {
            return Ok(start - STEP_SECONDS);
        }
    }
    Ok(f64::INFINITY)
}

/// What the service itself answers a second, all workers busy and nobody waiting long.
fn capacity(service: SocketAddr) -> Result<f64> {
    let url = format!("http://{service}/");
    let report = load(None, &[&url, "--users", "32", "--duration", "8s"])?;
    number(&report["total"]["throughput"])
}

/// Starts a `tamarisk` command whose last argument is the address to listen on.
fn start(arguments: &[&str]) -> Result<Server> {
    let address = free_address()?;
    let (command, listen) = (tamarisk()?.display().to_string(), address.to_string());
    let mut all = vec![&*command];
    all.extend(arguments);
    all.push(&listen);
    Server::start_anywhere(&all, address)
}
