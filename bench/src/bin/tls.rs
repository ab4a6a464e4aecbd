//! CPU time that a TLS handshake costs: `tamarisk serve` beside nginx, with the same key and
//! certificate, each on one core; in full and resumed, with a request for 1 KB each.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin tls`
//!
//! Needs nginx and openssl (Debian's packages). Both servers run side by side and take turns
//! on core 0, the client has core 1.

use anyhow::{Context, Result, ensure};
use tamarisk_bench::identity::Identity;
use tamarisk_bench::process::{Scratch, Server, nginx, pinned, serve};
use tamarisk_bench::{Spread, spread};

const REPETITIONS: usize = 7;
const SECONDS: u32 = 3;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;

const KINDS: [(&str, &str, &str); 4] = [
    ("TLS 1.3, full", "-tls1_3", "-new"),
    ("TLS 1.3, resumed", "-tls1_3", "-reuse"),
    ("TLS 1.2, full", "-tls1_2", "-new"),
    ("TLS 1.2, resumed", "-tls1_2", "-reuse"),
];

fn main() -> Result<()> {
    let scratch = Scratch::new("tls-bench")?;
    scratch.write("1024.bin", &"x".repeat(1024))?;
    let identity = Identity::make(&scratch)?;
    let folder = scratch.path().display().to_string();
    let ours = serve(SERVER_CORE, &folder, &identity.arguments())?;
    let theirs = nginx(&scratch, "nginx", SERVER_CORE, |address| {
        format!(
            "ssl_session_cache shared:bench:10m;\n\
             server {{ listen {address} ssl; root {folder}; {} }}",
            identity.of_nginx()
        )
    })?;
    for (what, version, session) in KINDS {
        let mut costs = [Vec::new(), Vec::new()];
        for repetition in 0..REPETITIONS {
            for (costs, server) in costs.iter_mut().zip([&ours, &theirs]) {
                costs.push(cost(server, version, session)?);
            }
            eprintln!("{what}: {}/{REPETITIONS}", repetition + 1);
        }
        println!("{what}: µs of CPU time: median of {REPETITIONS} (least … greatest)");
        println!("  tamarisk  {}", spread(costs[0].clone()));
        println!("  nginx     {}", spread(costs[1].clone()));
        // Handshakes a second are the inverse of what one costs.
        let rates = costs[0].iter().zip(&costs[1]).map(|(ours, theirs)| theirs / ours).collect();
        let Spread { median, least, greatest } = spread(rates);
        println!("  a second, tamarisk ÷ nginx, paired: {median:.2}  ({least:.2} … {greatest:.2})");
    }
    Ok(())
}

/// Microseconds of the server's CPU time a connection.
fn cost(server: &Server, version: &str, session: &str) -> Result<f64> {
    let (address, seconds) = (server.address.to_string(), SECONDS.to_string());
    #[rustfmt::skip]
    let arguments = [
        "openssl", "s_time", "-connect", &address, "-www", "/1024.bin", "-time", &seconds,
        version, session,
    ];
    let before = server.cpu_time();
    let output =
        pinned(CLIENT_CORE, &arguments).output().context("openssl could not be started")?;
    let micros = (server.cpu_time() - before).as_secs_f64() * 1e6;
    let text = String::from_utf8_lossy(&output.stdout);
    // The line in seconds of the clock, not of openssl's own CPU time.
    let line = text.lines().find(|line| line.contains("real seconds"));
    let count = line.and_then(|line| line.split_whitespace().next()).and_then(|n| n.parse().ok());
    let count: f64 = count.with_context(|| format!("openssl counted nothing:\n{text}"))?;
    ensure!(count > 0.0, "no handshake was finished:\n{text}");
    Ok(micros / count)
}
