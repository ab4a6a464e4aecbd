//! CPU time a request where much is configured, little is answered or connections are secured: many
//! routes and hosts, misses, HTTP/2, resumed TLS 1.3, bodies, access logs; beside nginx and h2o.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin costs`
//!
//! Needs nginx, h2o, wrk, h2load and openssl (Debian's packages). All servers of a row run side by
//! side and take turns on core 0; load generators and upstreams have core 1. `costs routes misses`
//! runs these two rows only; `--tamarisk FILE` measures another build; `--rounds N` (7), `--seconds N` (3).

mod contest;
mod resuming;
mod rows;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;

use crate::contest::Effort;

#[derive(Parser)]
struct Arguments {
    /// Rows to measure; all of them if none is named.
    rows: Vec<String>,
    /// The program to measure.
    #[arg(long)]
    tamarisk: Option<PathBuf>,
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    #[arg(long, default_value_t = 3)]
    seconds: u32,
}

fn main() -> Result<()> {
    let Arguments { rows, tamarisk, rounds, seconds } = Arguments::parse();
    let program = match tamarisk {
        Some(program) => program,
        None => tamarisk_bench::process::tamarisk()?,
    };
    let effort = Effort { program: program.display().to_string(), rounds, seconds };
    for row in &rows {
        if !rows::ALL.iter().any(|(name, _)| name == row) {
            let names: Vec<_> = rows::ALL.iter().map(|(name, _)| *name).collect();
            bail!("no row {row:?}; the rows are {}", names.join(", "));
        }
    }
    for (name, run) in rows::ALL {
        if rows.is_empty() || rows.iter().any(|row| row == name) {
            run(&effort)?;
        }
    }
    Ok(())
}
