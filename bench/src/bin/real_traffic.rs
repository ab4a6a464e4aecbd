//! `tamarisk protect` on traffic as real services have it: each situation with real sockets,
//! measured from outside, and whether its bars are met.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin real_traffic`
//!
//! The upstream and the clients are in this process, at rates that a fraction of a core can
//! send; each repetition has a proxy of its own that has seen nothing before. `--nginx` and
//! `--haproxy` need Debian's packages; the row for a window of 0 says something only about
//! proxies that speak HTTP/2 in clear text.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use serde_json::json;
use tamarisk_bench::process::tamarisk;
use tamarisk_bench::real_traffic::front::Front;
use tamarisk_bench::real_traffic::run::run;
use tamarisk_bench::real_traffic::situations::{Bar, Bound, Situation, all};

const REPETITIONS: u64 = 3;
/// How much shorter a situation is with `--quick`, which runs it once.
const QUICK_SCALE: f64 = 0.4;

/// `tamarisk protect` on traffic as real services have it
#[derive(Debug, Parser)]
struct Options {
    /// Run these situations only [default: all]
    #[arg(value_name = "SITUATION")]
    situations: Vec<String>,
    /// Once each, and shorter
    #[arg(long)]
    quick: bool,
    /// Print one JSON object for each bar
    #[arg(long)]
    json: bool,
    /// The command to measure [default: the one built beside this benchmark]
    #[arg(long, value_name = "FILE")]
    tamarisk: Option<PathBuf>,
    /// Put nginx with limit_conn before the upstream instead, told the number of workers
    #[arg(long, conflicts_with_all = ["haproxy", "envoy"])]
    nginx: bool,
    /// Put HAProxy with maxconn and a bounded queue there, told the number of workers
    #[arg(long, conflicts_with = "envoy")]
    haproxy: bool,
    /// Put Envoy (this command) with adaptive concurrency there, and the defaults of that
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,
    /// List the situations
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let (scale, repetitions) = if options.quick { (QUICK_SCALE, 1) } else { (1.0, REPETITIONS) };
    let mut situations = all(scale, 1.0);
    for name in &options.situations {
        let is_known = situations.iter().any(|situation| situation.name == name);
        ensure!(is_known, "there is no situation `{name}`; --list names them");
    }
    if !options.situations.is_empty() {
        situations.retain(|situation| options.situations.iter().any(|name| name == situation.name));
    }
    if options.list {
        situations.iter().for_each(|situation| println!("{}", situation.name));
        return Ok(());
    }
    let front = match (options.nginx, options.haproxy, &options.envoy) {
        (true, ..) => Front::Nginx,
        (_, true, _) => Front::Haproxy,
        (.., Some(command)) => Front::Envoy(command.clone()),
        _ => Front::Tamarisk(options.tamarisk.clone().map_or_else(tamarisk, Ok)?),
    };
    if !options.json {
        println!("| situation | measure | bar | mean | worst | met |");
        println!("| --- | --- | --- | --- | --- | --- |");
    }
    for situation in &situations {
        let runs: Result<Vec<_>> =
            (1..=repetitions).map(|seed| run(situation, &front, seed)).collect();
        let runs = runs?;
        for (index, bar) in situation.bars.iter().enumerate() {
            let measured: Vec<f64> = runs.iter().map(|run| run[index]).collect();
            show(&options, situation, bar, &measured);
        }
    }
    Ok(())
}

/// Prints one row: it is met if all repetitions meet it.
fn show(options: &Options, situation: &Situation, bar: &Bar, measured: &[f64]) {
    let mean = measured.iter().sum::<f64>() / measured.len() as f64;
    let (worst, bound) = match bar.bound {
        Bound::AtMost(bound) => (measured.iter().copied().fold(0.0, f64::max), bound),
        Bound::AtLeast(bound) => (measured.iter().copied().fold(f64::INFINITY, f64::min), bound),
    };
    let sign = if matches!(bar.bound, Bound::AtMost(_)) { "≤" } else { "≥" };
    let is_met = measured.iter().all(|measured| bar.bound.is_kept(*measured));
    let (name, what) = (situation.name, bar.what);
    if options.json {
        let row = json!({
            "situation": name, "measure": what, "sign": sign, "bar": bound, "mean": mean,
            "worst": worst, "runs": measured, "met": is_met,
        });
        println!("{row}");
        return;
    }
    let met = if is_met { "yes" } else { "no" };
    println!("| {name} | {what} | {sign} {bound} | {mean:.3} | {worst:.3} | {met} |");
}
